package ops

import (
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

func TestMultiplications(t *testing.T) {
	whole := ir.Number{Type: dtype.I64, I: 1}
	window := func(n int64) []int64 { return []int64{n, n} }
	for _, k := range []struct {
		call
		want int64
	}{
		{of("mm", "f32[2,3]", "f32[3,5]"), 2 * 3 * 5},
		{of("mm.dtype", "bf16[2,3]", "bf16[3,5]", dtype.F32), 2 * 3 * 5},
		{of("addmm", "f32[5]", "f32[2,3]", "f32[3,5]", whole, whole), 2 * 3 * 5},
		{of("addbmm", "f32[5]", "f32[7,2,3]", "f32[7,3,5]", whole, whole), 7 * 2 * 3 * 5},
		{of("dot", "f32[9]", "f32[9]"), 9},
		{of("convolution", "f32[1,2,5,5]", "f32[4,2,3,3]", nil, window(2), window(1), window(1), false, window(0), 1), 4 * 3 * 3 * 2 * 3 * 3},
		{of("_scaled_dot_product_flash_attention_for_cpu", "f32[1,4,2,8]", "f32[1,4,3,8]", "f32[1,4,3,8]", 0.0, false, nil, nil), 2 * 4 * 2 * 8 * 3},
	} {
		op, _ := Lookup(k.op)
		row, g := Of(op), &ir.Graph{}
		words, in := k.encode(t, g)
		c := Ctx{DefaultFloat: dtype.F32}
		c.Begin(g, row, words, in)
		if err := row.Infer(&c); err != nil {
			t.Errorf("%s%v: %v", k.op, k.args, err)
		} else if got := row.Multiplications(g, g.AddMulti(op, in, words, c.Outs())); got != k.want {
			t.Errorf("%s%v multiplies %d times, want %d", k.op, k.args, got, k.want)
		}
	}
}
