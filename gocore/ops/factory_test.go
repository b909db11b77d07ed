package ops

import (
	"math"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

func TestFactories(t *testing.T) {
	whole := func(n int64) ir.Number { return ir.Number{Type: dtype.I64, I: n} }
	yes := ir.Number{Type: dtype.Bool, I: 1}
	imaginary := ir.Number{Type: dtype.C128, Im: 1}
	list := []int64{2, 3}
	checkCalls(t, []inferCase{
		{of("full", list, whole(1), nil), "i64[2,3]"},
		{of("full", list, number(1.5), nil), "f32[2,3]"},
		{of("full", list, yes, nil), "i1[2,3]"},
		{of("full", list, imaginary, nil), "complex<f32>[2,3]"},
		{of("full", list, whole(-1), dtype.U8), "ui8[2,3]"},
		{of("full", list, whole(1<<40), dtype.I32), "[RuntimeError] value cannot be converted to type int without overflow"},
		{of("full", list, whole(math.MinInt32), dtype.I32), "i32[2,3]"},
		{of("full", list, number(1e300), dtype.F32), "[RuntimeError] value cannot be converted to type float without overflow"},
		{of("full", list, number(math.Inf(1)), dtype.F16), "f16[2,3]"},
		{of("full", []int64{-1}, whole(1), nil), "[RuntimeError] Trying to create tensor with negative dimension -1: [-1]"},
		{of("scalar_tensor", whole(3), nil), "f32[]"},
		{of("zeros", list, dtype.I64), "i64[2,3]"},
		{of("ones", list, nil), "f32[2,3]"},
		{of("eye", 3, dtype.Bool), "i1[3,3]"},
		{of("eye.m", 3, -2, nil), "[RuntimeError] m must be greater or equal to 0, got -2"},
		{of("arange", whole(5), nil), "i64[5]"},
		{of("arange.start", whole(0), number(2.5), nil), "f32[3]"},
		{of("arange.start_step", whole(9), whole(0), whole(-2), nil), "i64[5]"},
		{of("arange.start_step", whole(0), whole(1<<62), whole(1<<61), nil), "i64[2]"},
		{of("arange.start_step", whole(0), whole(5), whole(0), nil), "[RuntimeError] step must be nonzero"},
		{of("arange", number(math.NaN()), nil), "[RuntimeError] unsupported range: 0 -> nan"},
		{of("arange", whole(5), dtype.Bool), `[NotImplementedError] "arange_cpu" not implemented for 'Bool'`},
		{of("range", whole(0), whole(3), nil), "f32[4]"},
		{of("linspace", number(0.5), number(3), 5, dtype.I32), "i32[5]"},
		{of("linspace.Tensor_Scalar", "f32[]", number(3), 1, nil), "f32[1]"},
		{of("linspace.Tensor_Tensor", "f32[1]", "f32[]", 1, nil), "[RuntimeError] linspace only supports 0-dimensional start and end tensors, but got start with 1 dimension(s) and end with 0 dimension(s)."},
		{of("logspace", number(0), imaginary, 5, 2.0, nil), "complex<f32>[5]"},
		{of("logspace", number(0), number(1), -5, 2.0, nil), "[RuntimeError] number of steps must be non-negative"},
		{of("tril_indices", 3, 4, 0, nil), "i64[2,6]"},
		{of("triu_indices", 3, 4, -1, dtype.I32), "i32[2,11]"},
		{of("triu_indices", 3, 4, 9, nil), "i64[2,0]"},
	})
}

// Ranges that f32 holds exactly are not computed in f64.
func TestRangeText(t *testing.T) {
	whole := ir.Number{Type: dtype.I64, I: 7}
	if _, module := of("arange", whole, dtype.F32).run(t); strings.Contains(module, "f64") {
		t.Errorf("exact in f32:\n%s", module)
	}
	if _, module := of("arange", number(7.3), dtype.F32).run(t); strings.Contains(module, "f64") {
		t.Errorf("exact in f32, as only the length is a fraction:\n%s", module)
	}
	if _, module := of("arange.start", number(0.3), number(7), nil).run(t); !strings.Contains(module, "f64") {
		t.Errorf("rounded in f32:\n%s", module)
	}
}

func TestTrilSize(t *testing.T) {
	for rows := range int64(5) {
		for cols := range int64(5) {
			for offset := int64(-6); offset <= 6; offset++ {
				want := int64(0)
				for i := range rows {
					for j := range cols {
						if j-i <= offset {
							want++
						}
					}
				}
				if got := trilSize(rows, cols, offset); got != want {
					t.Errorf("trilSize(%d, %d, %d) = %d, want %d", rows, cols, offset, got, want)
				}
			}
		}
	}
}
