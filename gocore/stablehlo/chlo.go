package stablehlo

import (
	"fmt"
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// The operations of CHLO below are decomposed by XLA as it reads the module. f16 and bf16 are
// computed in f32. Package hlocheck measures them on XLA:CPU and holds bounds of their errors.

// Acos is the inverse cosine.
func (b *Builder) Acos(x Value) Value { return b.unary("chlo.acos", kFC, x) }

// Acosh is the inverse hyperbolic cosine.
func (b *Builder) Acosh(x Value) Value { return b.unary("chlo.acosh", kFC, x) }

// Asin is the inverse sine.
func (b *Builder) Asin(x Value) Value { return b.unary("chlo.asin", kFC, x) }

// Asinh is the inverse hyperbolic sine.
func (b *Builder) Asinh(x Value) Value { return b.unary("chlo.asinh", kFC, x) }

// Atan is the inverse tangent.
func (b *Builder) Atan(x Value) Value { return b.unary("chlo.atan", kFC, x) }

// Atanh is the inverse hyperbolic tangent.
func (b *Builder) Atanh(x Value) Value { return b.unary("chlo.atanh", kFC, x) }

// Cosh is the hyperbolic cosine.
func (b *Builder) Cosh(x Value) Value { return b.unary("chlo.cosh", kFC, x) }

// Sinh is the hyperbolic sine.
func (b *Builder) Sinh(x Value) Value { return b.unary("chlo.sinh", kFC, x) }

// BesselI1e is the exponentially scaled modified Bessel function of order 1 (torch.special.i1e).
func (b *Builder) BesselI1e(x Value) Value { return b.unary("chlo.bessel_i1e", kWide, x) }

// Conj is the complex conjugate.
func (b *Builder) Conj(x Value) Value { return b.unary("chlo.conj", kComplex, x) }

// Digamma is the derivative of Lgamma.
func (b *Builder) Digamma(x Value) Value { return b.unary("chlo.digamma", kFloat, x) }

// Erf is the error function.
func (b *Builder) Erf(x Value) Value { return b.unary("chlo.erf", kFloat, x) }

// Erfc is 1 - Erf, exact for large x.
func (b *Builder) Erfc(x Value) Value { return b.unary("chlo.erfc", kWide, x) }

// ErfInv is the inverse of Erf.
func (b *Builder) ErfInv(x Value) Value { return b.unary("chlo.erf_inv", kFloat, x) }

// Lgamma is the logarithm of |Γ|.
func (b *Builder) Lgamma(x Value) Value { return b.unary("chlo.lgamma", kFloat, x) }

// Square is x * x. Integers, which CHLO leaves out, are multiplied.
func (b *Builder) Square(x Value) Value {
	if x.DType().IsInt() {
		return b.Multiply(x, x)
	}
	return b.unary("chlo.square", kFC, x)
}

// NextAfter is the float next to x in the direction of y.
func (b *Builder) NextAfter(x, y Value) Value { return b.binary("chlo.next_after", kFloat, x, y) }

// Polygamma is derivative number n (a float operand) of Digamma at x.
func (b *Builder) Polygamma(n, x Value) Value { return b.binary("chlo.polygamma", kFloat, n, x) }

// Zeta is the Hurwitz zeta function.
func (b *Builder) Zeta(x, q Value) Value { return b.binary("chlo.zeta", kFloat, x, q) }

// IsInf is true for infinities of either sign; the result is of type i1.
func (b *Builder) IsInf(x Value) Value { return b.is("chlo.is_inf", x, (*Builder).Abs, 1) }

// IsPosInf is true for inf.
func (b *Builder) IsPosInf(x Value) Value { return b.is("chlo.is_pos_inf", x, nil, 1) }

// IsNegInf is true for -inf.
func (b *Builder) IsNegInf(x Value) Value { return b.is("chlo.is_neg_inf", x, nil, -1) }

// is compares f(x) with an infinity of a sign, which is what CHLO's op becomes; its constant would have no marking.
func (b *Builder) is(op string, x Value, f func(*Builder, Value) Value, sign int) Value {
	if !b.has(op, kFloat, x) {
		return Value{s: x.Shape().With(dtype.Bool)}
	}
	if f != nil {
		x = f(b, x)
	}
	return b.Compare(x, b.ConstLike(x, math.Inf(sign)), EQ)
}

// IsNaN is true for NaN: the comparison x != x.
func (b *Builder) IsNaN(x Value) Value { return b.Compare(x, x, NE) }

// TopK is the k largest elements of the last dimension, in descending order, and their indices, an
// i32. Of equal elements the first comes first; NaN counts as largest.
func (b *Builder) TopK(x Value, k int64) (values, indices Value) {
	const op = "chlo.top_k"
	if x.Rank() == 0 || k < 0 || k > x.Dim(-1) || kindOf(x.DType())&(kInt|kFloat) == 0 {
		b.fail(op, fmt.Sprintf("no %d largest elements", k), x)
		return Value{s: x.s}, Value{s: x.Shape().With(dtype.I32)}
	}
	dims := append([]int64(nil), x.Dims()...)
	dims[len(dims)-1] = k
	b.attrInt("k", k)
	v := b.opN(op, []Value{x}, nil, []*shape.Shape{shape.Of(x.DType(), dims), shape.Of(dtype.I32, dims)})
	return v[0], v[1]
}
