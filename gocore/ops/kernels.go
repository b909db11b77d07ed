package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// kernels are the rows that torch's CPU kernels compute, by name, with the conditions under which they are the faster
// ones. They are measured; docs/performance.md has the figures. Pointwise ops are not among them: a call ends a fusion.
var kernels = map[string]*Kernel{
	"convolution":          {When: convolvesFaster},
	"convolution_backward": {When: convolvesBackFaster, Asked: func(l *Lowering) []bool { return truths(l.Ints(10)) }, Check: "convolution_gradient"},
	"max_pool2d_with_indices": {Out: "out",
		When: func(l *Lowering) bool { return poolsFaster(l.Out(0)) }},
	"max_pool2d_with_indices_backward": {Out: "grad_input", Like: map[int]int{1: 0}, Check: "pool_gradient",
		When: func(l *Lowering) bool { return poolsFaster(l.Shape(0)) }},

	// LAPACK's, whose pivots and order are the result
	"torch_go_xla::linalg_eig": {Out: "out",
		Op: "linalg_eig(Tensor self) -> (Tensor, Tensor)"},
	"torch_go_xla::_linalg_eigvals": {Check: "finite",
		Op: "_linalg_eigvals(Tensor self) -> Tensor"},
	"torch_go_xla::linalg_ldl_factor_ex": {Out: "out",
		Op: "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor, Tensor, Tensor)"},
	"torch_go_xla::linalg_ldl_solve": {Out: "out", Check: "ldl_pivots",
		Op: "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"},
}

// Work below which a call costs more than the kernel saves.
const (
	minConvWork = 1 << 20 // multiplications of a convolution
	minPoolWork = 1 << 14 // elements of a pooling's result
)

// withKernels gives the rows their kernels.
func withKernels(rows []Row) []Row {
	known := 0
	for i := range rows {
		if rows[i].Torch = kernels[rows[i].Name]; rows[i].Torch != nil {
			known++
		}
	}
	if known != len(kernels) {
		panic("ops: a kernel of a row that there is not")
	}
	return rows
}

// singleAndHalf are the types for which torch has fast kernels of convolutions.
func singleAndHalf(d dtype.DType) bool { return d == dtype.F32 || d == dtype.BF16 || d == dtype.F16 }

func convolvesFaster(l *Lowering) bool {
	x, k, o := l.Shape(0), l.Shape(1), l.Out(0)
	if l.Bool(6) {
		o = x
	}
	return singleAndHalf(x.DType) && k.Rank() <= 5 && convWork(o, k) >= minConvWork
}

func convolvesBackFaster(l *Lowering) bool {
	grad, x, k, mask := l.Shape(0), l.Shape(1), l.Shape(2), l.Ints(10)
	return singleAndHalf(x.DType) && k.Rank() <= 5 && convWork(grad, k) >= minConvWork && mask[0]+mask[1] > 0
}

// convWork is the number of multiplications if each element of o is made with all of the kernels' elements of one output.
func convWork(o, k *shape.Shape) int64 { return o.Numel() * k.Numel() / max(k.Dims[0], 1) }

// poolsFaster tells it of a max pooling with a result of shape o.
func poolsFaster(o *shape.Shape) bool { return singleAndHalf(o.DType) && o.Numel() >= minPoolWork }

// truths are the numbers of a mask.
func truths(mask []int64) []bool {
	t := make([]bool, len(mask))
	for i, m := range mask {
		t[i] = m != 0
	}
	return t
}
