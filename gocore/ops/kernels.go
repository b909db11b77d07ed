package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// The conditions under which torch's CPU kernels are the faster ones: see Row.Torch. They are measured;
// docs/performance.md has the figures. Pointwise ops have no kernels: a call ends a fusion.

// Work below which a call costs more than the kernel saves.
const (
	minConvWork = 1 << 20 // multiplications of a convolution
	minPoolWork = 1 << 14 // elements of a pooling's result

	minProductWork = 1 << 21 // multiplications of a product of integers

	minScores = 1 << 15 // scores of an attention
)

// many tells whether argument 0 has at least n elements.
func many(n int64) func(*Lowering) bool {
	return func(l *Lowering) bool { return l.Shape(0).Numel() >= n }
}

// ofOrder tells whether the matrices of argument i have at least n rows or columns.
func ofOrder(i int, n int64) func(*Lowering) bool {
	return func(l *Lowering) bool { return order(l.Shape(i)) >= n }
}

// order is the larger side of the matrices of a batch.
func order(s *shape.Shape) int64 { return max(sides(s)) }

// convolved are the types for which torch has fast kernels of convolutions.
func convolved(d dtype.DType) bool {
	return d == dtype.F32 || d == dtype.BF16 || d == dtype.F16 || d == dtype.F64
}

func transformsFaster(l *Lowering) bool { return l.Shape(0).Numel() >= 1<<15 && len(l.Ints(1)) > 0 }

func convolvesFaster(l *Lowering) bool {
	x, k, o := l.Shape(0), l.Shape(1), l.Out(0)
	if l.Bool(6) {
		o = x
	}
	return convolved(x.DType) && k.Rank() <= 5 && convWork(o, k) >= minConvWork
}

func convolvesBackFaster(l *Lowering) bool {
	grad, x, k, mask := l.Shape(0), l.Shape(1), l.Shape(2), l.Ints(10)
	return convolved(x.DType) && k.Rank() <= 5 && convWork(grad, k) >= minConvWork && mask[0]+mask[1] > 0
}

// convWork is the number of multiplications if each element of o is made with all of the kernels' elements of one
// output.
func convWork(o, k *shape.Shape) int64 { return o.Numel() * k.Numel() / max(k.Dims[0], 1) }

// poolsFaster tells it of a max pooling with a result of shape o.
func poolsFaster(o *shape.Shape) bool { return convolved(o.DType) && o.Numel() >= minPoolWork }

// truths are the numbers of a mask.
func truths(mask []int64) []bool {
	t := make([]bool, len(mask))
	for i, m := range mask {
		t[i] = m != 0
	}
	return t
}

// multipliesFaster is so for integers, which XLA computes in loops; products of floats are as fast there.
func multipliesFaster(l *Lowering) bool {
	x, y := l.Shape(0), l.Shape(1)
	return x.DType.IsInt() && x.DType != dtype.I32 && x.Numel()*y.Dims[y.Rank()-1] >= minProductWork
}
