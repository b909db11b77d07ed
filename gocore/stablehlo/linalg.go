package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// FftType is the kind of a Fourier transform, spelled as in the specification.
type FftType string

// The kinds: complex forward and inverse, real to complex, complex to real.
const (
	FFT   FftType = "FFT"
	IFFT  FftType = "IFFT"
	RFFT  FftType = "RFFT"
	IRFFT FftType = "IRFFT"
)

// Fft transforms the last len(length) dimensions (1 to 3), whose sizes length gives; for IRFFT the
// last is that of the real result. The inverse transforms divide by the number of elements.
func (b *Builder) Fft(x Value, typ FftType, length []int64) Value {
	const op = "stablehlo.fft"
	n, r := len(length), x.Rank()
	if n < 1 || n > 3 || n > r {
		return b.fail(op, fmt.Sprintf("length %v", length), x)
	}
	d := x.DType()
	dims := append([]int64(nil), x.Dims()...)
	want := append([]int64(nil), length...)
	bad := false
	switch half := length[n-1]/2 + 1; typ {
	case FFT, IFFT:
		bad = !d.IsComplex()
	case RFFT:
		bad = d != dtype.F32 && d != dtype.F64
		d, dims[r-1] = d.ToComplex(), half
	case IRFFT:
		bad = !d.IsComplex()
		d, dims[r-1], want[n-1] = d.ToReal(), length[n-1], half
	default:
		bad = true
	}
	if bad || !equal(x.Dims()[r-n:], want) {
		return b.fail(op, fmt.Sprintf("%s of length %v is not possible", typ, length), x)
	}
	b.attrRaw("fft_type", "#stablehlo<fft_type ", string(typ), ">")
	b.attrDims("fft_length", length)
	return b.op1(op, shape.Of(d, dims), x)
}

// square reports whether the last two dimensions are those of a square matrix.
func square(x Value) bool { return x.Rank() >= 2 && x.Dim(-1) == x.Dim(-2) }

// Cholesky factors the positive definite matrices in the last two dimensions. The other triangle of
// the result is undefined.
func (b *Builder) Cholesky(x Value, lower bool) Value {
	const op = "stablehlo.cholesky"
	if !b.has(op, kFC, x) {
		return Value{s: x.s}
	}
	if !square(x) {
		return b.fail(op, "no square matrices", x)
	}
	b.attrBool("lower", lower)
	return b.op1(op, x.s, x)
}

// Triangular are the options of TriangularSolve.
type Triangular struct {
	Right        bool // solve x a = y instead of a x = y
	Lower        bool // which triangle of a is read
	UnitDiagonal bool // the diagonal counts as ones
	Transpose    bool // a is transposed
	Adjoint      bool // a is transposed and conjugated
}

// TriangularSolve solves op(a) x = y, or x op(a) = y, for the matrices in the last two dimensions.
func (b *Builder) TriangularSolve(a, y Value, t Triangular) Value {
	const op = "stablehlo.triangular_solve"
	if !b.has(op, kFC, a) {
		return Value{s: y.s}
	}
	side := -2
	if t.Right {
		side = -1
	}
	r := a.Rank()
	if !square(a) || r != y.Rank() || a.DType() != y.DType() || !equal(a.Dims()[:r-2], y.Dims()[:r-2]) || a.Dim(-1) != y.Dim(side) {
		b.fail(op, "operands do not fit", a, y)
		return Value{s: y.s}
	}
	trans := "NO_TRANSPOSE"
	if t.Adjoint {
		trans = "ADJOINT"
	} else if t.Transpose {
		trans = "TRANSPOSE"
	}
	b.attrBool("left_side", !t.Right)
	b.attrBool("lower", t.Lower)
	b.attrBool("unit_diagonal", t.UnitDiagonal)
	b.attrRaw("transpose_a", "#stablehlo<transpose ", trans, ">")
	return b.op1(op, y.s, a, y)
}

// RngAlgorithm is a counter-based generator, spelled as in the specification.
type RngAlgorithm string

// The generators. The state of THREE_FRY is ui64[2], that of PHILOX ui64[2] or ui64[3].
const (
	RngDefault  RngAlgorithm = "DEFAULT"
	RngThreeFry RngAlgorithm = "THREE_FRY"
	RngPhilox   RngAlgorithm = "PHILOX"
)

// RngBitGenerator fills a tensor of integers or floats with uniform random bits and returns the next
// state, then the bits.
func (b *Builder) RngBitGenerator(alg RngAlgorithm, state Value, out *shape.Shape) (next, bits Value) {
	const op = "stablehlo.rng_bit_generator"
	ok := state.Rank() == 1 && state.DType() == dtype.U64 && valid(out)
	switch {
	case !ok:
	case alg == RngThreeFry:
		ok = state.Dim(0) == 2
	case alg == RngPhilox:
		ok = state.Dim(0) == 2 || state.Dim(0) == 3
	}
	if ok && kindOf(out.DType)&(kInt|kFloat) == 0 || !ok {
		b.fail(op, fmt.Sprintf("%s to %s", alg, out), state)
		return Value{s: state.s}, Value{s: out}
	}
	b.attrRaw("rng_algorithm", "#stablehlo<rng_algorithm ", string(alg), ">")
	v := b.opN(op, []Value{state}, nil, []*shape.Shape{state.s, out})
	return v[0], v[1]
}

// RngUniform draws from [lo, hi) with the generator of the backend, which keeps its own state. lo
// and hi have rank 0 and the result's type.
func (b *Builder) RngUniform(lo, hi Value, dims []int64) Value { return b.rng("UNIFORM", lo, hi, dims) }

// RngNormal draws from the normal distribution of this mean and deviation; see RngUniform.
func (b *Builder) RngNormal(mean, deviation Value, dims []int64) Value {
	return b.rng("NORMAL", mean, deviation, dims)
}

func (b *Builder) rng(kind string, x, y Value, dims []int64) Value {
	const op = "stablehlo.rng"
	if x.s != y.s || x.Rank() != 0 {
		return b.fail(op, "the parameters are not of rank 0 and one type", x, y)
	}
	out := b.outShape(x, dims)
	d := b.Ints(dims...)
	b.attrRaw("rng_distribution", "#stablehlo<rng_distribution ", kind, ">")
	return b.op1(op, out, x, y, d)
}

// features reports, or records as an error, whether every one of vs is a vector as long as dimension
// dim of x, of type x's.
func (b *Builder) features(op string, x Value, dim int64, vs ...Value) bool {
	ok := dim >= 0 && dim < int64(x.Rank()) && x.DType().IsFloat()
	for _, v := range vs {
		ok = ok && v.DType() == x.DType() && v.Rank() == 1 && v.Dim(0) == x.Dims()[dim]
	}
	if !ok {
		b.fail(op, fmt.Sprintf("operands do not fit feature dimension %d", dim), append([]Value{x}, vs...)...)
	}
	return ok
}

func (b *Builder) attrNorm(epsilon float32, dim int64) {
	b.attrName("epsilon")
	b.attrs = append(appendFloat32(b.attrs, epsilon), " : f32"...)
	b.attrInt("feature_index", dim)
}

// BatchNormInference normalizes x with a given mean and variance.
func (b *Builder) BatchNormInference(x, scale, offset, mean, variance Value, epsilon float32, dim int64) Value {
	const op = "stablehlo.batch_norm_inference"
	if !b.features(op, x, dim, scale, offset, mean, variance) {
		return Value{s: x.s}
	}
	b.attrNorm(epsilon, dim)
	return b.op1(op, x.s, x, scale, offset, mean, variance)
}

// BatchNormTraining normalizes x with its own mean and (biased) variance and returns all three.
func (b *Builder) BatchNormTraining(x, scale, offset Value, epsilon float32, dim int64) (out, mean, variance Value) {
	const op = "stablehlo.batch_norm_training"
	if !b.features(op, x, dim, scale, offset) {
		return Value{s: x.s}, Value{s: scale.s}, Value{s: scale.s}
	}
	b.attrNorm(epsilon, dim)
	v := b.opN(op, []Value{x, scale, offset}, nil, []*shape.Shape{x.s, scale.s, scale.s})
	return v[0], v[1], v[2]
}

// BatchNormGrad is the gradient of BatchNormTraining by x, scale and offset.
func (b *Builder) BatchNormGrad(x, scale, mean, variance, grad Value, epsilon float32, dim int64) (dx, dscale, doffset Value) {
	const op = "stablehlo.batch_norm_grad"
	if !b.features(op, x, dim, scale, mean, variance) || !b.same(op, x, grad) {
		return Value{s: x.s}, Value{s: scale.s}, Value{s: scale.s}
	}
	b.attrNorm(epsilon, dim)
	v := b.opN(op, []Value{x, scale, mean, variance, grad}, nil, []*shape.Shape{x.s, scale.s, scale.s})
	return v[0], v[1], v[2]
}
