package ops

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

func TestShapes(t *testing.T) {
	list := func(n ...int64) []int64 { return n }
	checkCalls(t, []inferCase{
		{of("flip", "f32[2,3]", list(0, -1)), "f32[2,3]"},
		{of("flip", "f32[2,3]", list(1, -1)), "[RuntimeError] dim 1 appears multiple times in the list of dims"},
		{of("roll", "f32[2,3]", list(7, -1), list(0, 1)), "f32[2,3]"},
		{of("roll", "f32[2,3]", list(2), list()), "f32[2,3]"},
		{of("roll", "f32[2,3]", list(1, 2), list(0)), "[RuntimeError] shifts and dimensions must align. shifts: 2, dims:1"},
		{of("repeat", "f32[2,3]", list(4, 1, 2)), "f32[4,2,6]"},
		{of("repeat", "f32[2,3]", list(2, 0)), "f32[4,0]"},
		{of("repeat", "f32[2,3]", list(2)), "[RuntimeError] Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"},
		{of("repeat_interleave.Tensor", "i32[3]", 7), "i32[7]"},
		{of("repeat_interleave.Tensor", "i32[3]", nil), "[NotLoweredError] aten::repeat_interleave.Tensor: the size of the result depends on the values of repeats; give output_size"},
		{of("tril", "i1[2,3,4]", -1), "i1[2,3,4]"},
		{of("triu", "f32[4]", 0), "[RuntimeError] triu: input tensor must have at least 2 dimensions"},
		{of("trace", "i32[3,4]"), "i64[]"},
		{of("select_scatter", "f32[2,3]", "i64[2]", 1, -1), "f32[2,3]"},
		{of("select_scatter", "f32[2,3]", "f32[3]", 1, 0), "[RuntimeError] expected src to have a size equal to the slice of self. src size = [3], slice size = [2]"},
		{of("select_backward", "f32[2]", list(2, 3), 1, 3), "[IndexError] select(): index 3 out of range for tensor of size [2, 3] at dimension 1"},
		{of("slice_scatter", "f32[9]", "f32[3]", 0, 1, nil, 3), "f32[9]"},
		{of("slice_backward", "f32[2,3]", list(2, 9), 1, 0, 9, 3), "f32[2,9]"},
		{of("diagonal_scatter", "f32[2,3]", "f32[2]", 1, 0, 1), "f32[2,3]"},
		{of("diagonal_backward", "f32[4,2]", list(2, 4, 3), 0, 0, 2), "f32[2,4,3]"},
		{of("diag_embed", "f32[2,3]", -1, 0, 1), "f32[4,4,2]"},
		{of("diag_embed", "f32[2]", 0, 1, 1), "[RuntimeError] diagonal dimensions cannot be identical 1, 1"},
		{of("unfold_backward", "bf16[3,3]", list(5), 0, 3, 1), "bf16[5]"},
		{of("unfold_backward", "f32[9,40]", list(100), 0, 40, 7), "f32[100]"},
		{of("view_copy", "f32[2,6]", list(3, -1)), "f32[3,4]"},
		{of("view_copy", "f32[2,6]", list(5, -1)), "[RuntimeError] shape '[5, -1]' is invalid for input of size 12"},
		{of("expand_copy", "f32[2,1]", list(3, -1, 4), false), "f32[3,2,4]"},
		{of("permute_copy", "f32[2,3,4]", list(2, 0, -2)), "f32[4,2,3]"},
		{of("transpose_copy.int", "f32[2,3,4]", 0, -1), "f32[4,3,2]"},
		{of("t_copy", "f32[2]"), "f32[2]"},
		{of("squeeze_copy", "f32[1,2,1]"), "f32[2]"},
		{of("squeeze_copy.dims", "f32[1,2,1]", list(0, 1)), "f32[2,1]"},
		{of("unsqueeze_copy", "f32[2]", -1), "f32[2,1]"},
		{of("select_copy.int", "f32[2,3]", 0, -1), "f32[3]"},
		{of("slice_copy.Tensor", "f32[9]", 0, -4, nil, 2), "f32[2]"},
		{of("slice_copy.Tensor", "f32[9]", 0, 5, 2, 1), "f32[0]"},
		{of("narrow_copy", "f32[9]", 0, -4, 3), "f32[3]"},
		{of("view_copy.dtype", "f32[2,4]", dtype.F64), "f64[2,2]"},
		{of("view_copy.dtype", "f32[2,3]", dtype.F64), "[RuntimeError] self.size(-1) must be divisible by 2 to view Float as Double (different element sizes), but got 3"},
		{of("view_as_real_copy", "complex<f32>[3]"), "f32[3,2]"},
		{of("view_as_complex_copy", "f64[3,2]"), "complex<f64>[3]"},
	})
}

// What is moved by a rule is not moved by an index: no gathers and scatters.
func TestShapeTexts(t *testing.T) {
	for _, k := range []call{
		of("roll", "f32[2,3]", []int64{1}, []int64{}), of("repeat", "f32[2,3]", []int64{2, 2}), of("tril", "f32[3,3]", 0),
		of("slice_scatter", "f32[9]", "f32[3]", 0, 1, nil, 3), of("select_backward", "f32[2]", []int64{2, 3}, 1, 0),
		of("diag_embed", "f32[2,3]", 1, 0, 1), of("diagonal_scatter", "f32[2,3]", "f32[2]", 1, 0, 1),
		of("unfold_backward", "f32[3,3]", []int64{5}, 0, 3, 1),
	} {
		_, module := k.run(t)
		if strings.Contains(module, "gather") || strings.Contains(module, "scatter") {
			t.Errorf("%s%v moves by an index:\n%s", k.op, k.args, module)
		}
	}
}
