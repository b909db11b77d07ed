package ops

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

func TestSorts(t *testing.T) {
	two := ir.Number{Type: dtype.I64, I: 2}
	checkCalls(t, []inferCase{
		{of("sort", "i1[2,3]", 0, true), "i1[2,3] i64[2,3]"},
		{of("sort.stable", "f32[]", true, -1, false), "f32[] i64[]"},
		{of("sort", "complex<f32>[3]", 0, false), "[TypeError]  Sort does not support complex dtypes on CPU"},
		{of("topk", "bf16[2,9]", 3, -1, true, true), "bf16[2,3] i64[2,3]"},
		{of("topk", "f32[9,2]", 3, 0, false, true), "f32[3,2] i64[3,2]"},
		{of("topk", "ui8[9]", 0, 0, false, true), "ui8[0] i64[0]"},
		{of("topk", "f32[9]", 10, 0, true, true), "[RuntimeError] selected index k out of range"},
		{of("searchsorted.Tensor", "f32[2,500]", "f64[2,3]", true, false, nil, nil), "i32[2,3]"},
		{of("searchsorted.Tensor", "f32[2,5]", "f32[3]", true, false, nil, nil), "[RuntimeError] torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor [2, 5] and input value tensor [3]"},
		{of("searchsorted.Scalar", "i64[5]", number(2.5), false, true, nil, "i64[5]"), "i64[]"},
		{of("bucketize.Tensor", "f32[2,3]", "f32[7]", false, true), "i64[2,3]"},
		{of("bucketize.Tensor", "f32[2,3]", "f32[7,1]", false, true), "[RuntimeError] boundaries tensor must be 1 dimension, but got dim(2)"},
		{of("isin.Tensor_Tensor", "i64[2,3]", "f32[7]", false, true), "i1[2,3]"},
		{of("isin.Tensor_Tensor", "i64[2]", "i64[2000]", false, false), "i1[2]"},
		{of("isin.Tensor_Scalar", "i1[2]", two, false, false), "i1[2]"},
		{of("histc", "f32[2,3]", 4, two, two), "f32[4]"},
		{of("histc", "f32[2,3]", 4, two, number(1)), "[RuntimeError] torch.histc: max must be larger than min"},
	})
}

// The largest elements are selected, the smallest integers by complement; few boundaries are compared.
func TestSortTexts(t *testing.T) {
	for _, k := range []struct {
		call
		has, hasNot string
	}{
		{of("topk", "f32[9]", 3, 0, true, true), "top_k", "stablehlo.sort"},
		{of("topk", "i64[9]", 3, 0, false, true), "top_k", "stablehlo.sort"},
		{of("topk", "f32[9]", 3, 0, false, true), "stablehlo.sort", "top_k"},
		{of("sort", "i64[9]", 0, false), "is_stable = true", "IsNaN"},
		{of("bucketize.Tensor", "f32[3]", "f32[7]", false, true), "stablehlo.reduce", "gather"},
		{of("bucketize.Tensor", "f32[3]", "f32[700]", false, true), "gather", "stablehlo.reduce"},
	} {
		_, module := k.run(t)
		if !strings.Contains(module, k.has) || strings.Contains(module, k.hasNot) {
			t.Errorf("%s%v should have %s, not %s:\n%s", k.op, k.args, k.has, k.hasNot, module)
		}
	}
}
