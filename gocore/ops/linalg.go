package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// linalgRows are linear algebra. A factorization is a loop over the columns, each step of which works on
// all matrices of a batch at once; its lowering sees them as one array [batch, rows, columns].
var linalgRows = join(fftRows, triangularRows, choleskyRows, luRows, solveRows, qrRows, svdRows, matrixFunctionRows,
	torchLinalgRows)

// matrices refuses argument i if it is not a batch of matrices of a type that LAPACK computes with.
func (c *Ctx) matrices(i int, name string) (*shape.Shape, error) {
	s := c.In(i)
	switch {
	case len(s.Dims) < 2:
		return nil, errs.New(errs.Runtime, "%s: The input tensor A must have at least 2 dimensions.", name)
	case s.DType.IsIntegral():
		return nil, errs.New(errs.NotImpl, "%s: Expected a floating point or complex tensor as input. Got %s", name, s.DType.C10())
	case !(wide | complexes).has(s.DType):
		return nil, errs.New(errs.NotImpl, "%s: Low precision dtypes not supported. Got %s", name, s.DType.C10())
	}
	return s, nil
}

// squares refuses argument i if it is not a batch of square matrices; see matrices.
func (c *Ctx) squares(i int, name string) (*shape.Shape, error) {
	s := c.In(i)
	if r := len(s.Dims); r >= 2 && s.Dims[r-1] != s.Dims[r-2] {
		return nil, errs.New(errs.Runtime, "%s: A must be batches of square matrices, but they are %d by %d matrices", name, s.Dims[r-2], s.Dims[r-1])
	}
	return c.matrices(i, name)
}

// likeSquares is the shape rule of a function of square matrices, argument 0, that gives such matrices.
func likeSquares(name string) func(*Ctx) error {
	return func(c *Ctx) error {
		s, err := c.squares(0, name)
		if err != nil {
			return err
		}
		return c.ReturnLike(s)
	}
}

// likeSquaresWithInfo is likeSquares with LAPACK's info as a further result, one number a matrix.
func likeSquaresWithInfo(name string) func(*Ctx) error {
	like := likeSquares(name)
	return func(c *Ctx) error {
		if err := like(c); err != nil {
			return err
		}
		return c.returnStack(c.In(0), dtype.I32)
	}
}

// returnStack gives the next result the batch dimensions of s, followed by dims.
func (c *Ctx) returnStack(s *shape.Shape, d dtype.DType, dims ...int64) error {
	return c.Return(d, append(append(c.dims[:0], s.Dims[:len(s.Dims)-2]...), dims...)...)
}

// sides are the rows and columns of the matrices of a batch.
func sides(s *shape.Shape) (rows, cols int64) {
	r := len(s.Dims)
	return s.Dims[r-2], s.Dims[r-1]
}

// stacked is a batch of matrices with a single batch dimension.
func stacked(b *stablehlo.Builder, x value) value {
	return b.Reshape(x, []int64{product(x.Dims()[:x.Rank()-2]), x.Dim(-2), x.Dim(-1)})
}

// stack is argument i as [batch, rows, columns].
func (l *Lowering) stack(i int) value { return stacked(l.B, l.In(i)) }

// allOmitted returns zeros for all results.
func (l *Lowering) allOmitted(results int) {
	for k := range results {
		l.Return(l.omitted(k))
	}
}

// steps runs body for k = 0 … n−1, k being an i32 of rank 0.
func steps(b *stablehlo.Builder, n int64, init []value, body func(k value, v []value) []value) []value {
	got := b.While(append([]value{zero(b, dtype.I32)}, init...),
		func(b *stablehlo.Builder, v []value) value {
			return b.Compare(v[0], b.Scalar(dtype.I32, stablehlo.Int(n)), stablehlo.LT)
		},
		func(b *stablehlo.Builder, v []value) []value {
			return append([]value{b.Add(v[0], one(b, dtype.I32))}, body(v[0], v[1:])...)
		})
	return got[1:]
}

// sliceAt is the slice of size 1 of x at place k of dim.
func sliceAt(b *stablehlo.Builder, x, k value, dim int) value {
	starts, sizes := startsAt(b, x, k, dim)
	return b.DynamicSlice(x, starts, sizes)
}

// putAt writes a slice of size 1 at place k of dim.
func putAt(b *stablehlo.Builder, x, part, k value, dim int) value {
	starts, _ := startsAt(b, x, k, dim)
	return b.DynamicUpdateSlice(x, part, starts)
}

func startsAt(b *stablehlo.Builder, x, k value, dim int) (starts []value, sizes []int64) {
	sizes = append(sizes, x.Dims()...)
	sizes[dim] = 1
	for i := range x.Rank() {
		starts = append(starts, zero(b, dtype.I32))
		if i == dim {
			starts[i] = k
		}
	}
	return starts, sizes
}

// places counts along dim of an array of these dimensions, as i32.
func places(b *stablehlo.Builder, dim int, dims ...int64) value {
	return b.Iota(shape.Of(dtype.I32, dims), int64(dim))
}

// compareTo compares x with y, broadcast to it.
func compareTo(b *stablehlo.Builder, x, y value, d stablehlo.Direction) value {
	return b.Compare(x, b.Broadcast(y, x.Dims()), d)
}

// times is x·y for operands that broadcast to dims.
func times(b *stablehlo.Builder, dims []int64, x, y value) value {
	return b.Multiply(b.Broadcast(x, dims), b.Broadcast(y, dims))
}

// timesReal is x·factor for real factors that broadcast to x.
func timesReal(b *stablehlo.Builder, x, factor value) value {
	return complexOfParts(b, x, func(part value) value { return times(b, x.Dims(), part, factor) })
}

// inRange is x/scale, of which squares neither overflow nor vanish: a power of two for all elements along dims. As in
// LAPACK it is one where their largest is of ordinary size; so it is where one of them is infinite or NaN.
func inRange(b *stablehlo.Builder, x value, dims ...int64) (scaled, scale value) {
	size := b.Abs(realPart(b, x))
	if x.DType().IsComplex() { // the absolute value could overflow
		size = b.Maximum(size, b.Abs(b.Imag(x)))
	}
	shared := slices.Clone(x.Dims())
	for _, dim := range dims {
		shared[dim] = 1
	}
	most := b.Reshape(b.ReduceMax(size, dims), shared)
	f := formatOf(size.DType())
	exponent := b.BitcastConvert(most, f.bits)
	exponent = b.ShiftRightLogical(exponent, b.ConstLike(exponent, float64(f.fraction)))
	low, high := b.ConstLike(exponent, float64(f.bias-f.bias/4)), b.ConstLike(exponent, float64(f.bias+f.bias/4))
	shift := b.Subtract(exponent, b.Clamp(low, exponent, high))
	shift = b.Select(b.IsFinite(most), shift, b.ConstLike(shift, 0))
	scaled = timesReal(b, x, inversePowerOfTwo(b, shift, size.DType()))
	return scaled, inversePowerOfTwo(b, b.Negate(shift), size.DType())
}

// keepSum sums along dim, which stays with size 1.
func keepSum(b *stablehlo.Builder, x value, dim int) value {
	dims := append([]int64(nil), x.Dims()...)
	dims[dim] = 1
	return b.Reshape(b.ReduceSum(x, []int64{int64(dim)}), dims)
}

// conjugate is the complex conjugate; a real x is its own.
func conjugate(b *stablehlo.Builder, x value) value {
	if x.DType().IsComplex() {
		return b.Conj(x)
	}
	return x
}

// realPart is the real part of x.
func realPart(b *stablehlo.Builder, x value) value {
	if x.DType().IsComplex() {
		return b.Real(x)
	}
	return x
}

// adjoint is the conjugate transpose of the matrices of x.
func adjoint(b *stablehlo.Builder, x value) value {
	return conjugate(b, b.Transpose(x, swapped(x.Rank(), x.Rank()-2, x.Rank()-1)))
}

// matmul is the product of the matrices of two stacks at full precision.
func matmul(b *stablehlo.Builder, x, y value) value {
	return b.DotGeneral(x, y, stablehlo.DotDims{LhsBatch: []int64{0}, RhsBatch: []int64{0},
		LhsContract: []int64{2}, RhsContract: []int64{1}, Precision: stablehlo.PrecisionHighest})
}

// identity is the unit matrix, or its first columns, as dims.
func identity(b *stablehlo.Builder, d dtype.DType, dims ...int64) value {
	return Convert(b, onDiagonal(b, dims, len(dims)-2, len(dims)-1, 0), d)
}

// trianglePart keeps the elements at (i, j) with j − i ≤ offset, or ≥ offset, of the matrices of x.
func trianglePart(b *stablehlo.Builder, x value, keep stablehlo.Direction, offset int64) value {
	i, j := places(b, x.Rank()-2, x.Dims()...), places(b, x.Rank()-1, x.Dims()...)
	i = b.Add(i, b.SplatLike(i, stablehlo.Int(offset)))
	return b.Select(b.Compare(j, i, keep), x, b.ConstLike(x, 0))
}

// diagonal is the main diagonals of a stack, [batch, n].
func diagonal(b *stablehlo.Builder, x value) value {
	n := min(x.Dim(1), x.Dim(2))
	x = b.Slice(x, []int64{0, 0, 0}, []int64{x.Dim(0), n, n}, []int64{1, 1, 1})
	on := onDiagonal(b, x.Dims(), 1, 2, 0)
	return b.ReduceSum(b.Select(on, x, b.ConstLike(x, 0)), []int64{2})
}
