package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// floatRows take floats apart and put them together, and the functions of two floats.
var floatRows = join([]Row{
	binary("atan2", binarySchema, implemented("atan2_cpu", floats, promotedFloat(2)), (*stablehlo.Builder).Atan2),
	binary("hypot", binarySchema, implemented("hypot_cpu", floats, promoted(2)), hypot),
	{Name: "nextafter", Schema: binarySchema, Infer: implemented("nextafter_cpu", floats, promoted(2)),
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(nextAfter(l.B, l.Full(0, o.DType, o.Dims), l.Full(1, o.DType, o.Dims)))
		}},
	binary("logaddexp", binarySchema, implemented("logaddexp_cpu", floats|complexes, promoted(2)), func(b *stablehlo.Builder, x, y value) value {
		return b.Select(b.Compare(y, y, stablehlo.NE), y, logAddExp(b, x, y))
	}),
	binary("logaddexp2", binarySchema, implemented("logaddexp2_cpu", floats, promoted(2)), func(b *stablehlo.Builder, x, y value) value {
		ln2 := b.ConstLike(x, math.Ln2)
		top, low := larger(b, x, y), smaller(b, x, y)
		sum := b.Add(top, b.Divide(b.LogPlusOne(b.Exponential(b.Multiply(b.Subtract(low, top), ln2))), ln2))
		return b.Select(b.And(b.Compare(x, y, stablehlo.EQ), b.IsInf(x)), x, sum)
	}),
	binary("xlogy.Tensor", binarySchema, implemented("xlogy_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).Log)),
	binary("xlogy.Scalar_Other", scalarSchema, implemented("xlogy_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).Log)),
	binary("xlogy.Scalar_Self", baseSchema, implemented("xlogy_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).Log)),
	binary("special_xlog1py", binarySchema, implemented("xlog1py_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).LogPlusOne)),
	binary("special_xlog1py.other_scalar", scalarSchema, implemented("xlog1py_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).LogPlusOne)),
	binary("special_xlog1py.self_scalar", baseSchema, implemented("xlog1py_cpu", floats, promotedFloat(2)), xlogy((*stablehlo.Builder).LogPlusOne)),
	{Name: "frexp.Tensor", Schema: "(Tensor self) -> (Tensor mantissa, Tensor exponent)", ExactOut: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			switch {
			case s.DType.IsF8():
				return notFor("frexp_cpu", s.DType)
			case !s.DType.IsFloat():
				return errs.New(errs.Runtime, "torch.frexp() only supports floating-point dtypes")
			}
			_ = c.ReturnLike(s)
			return c.ReturnLike(s.With(dtype.I32))
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			m, e := frexp(l.B, l.As(0, d.Accumulate()))
			l.Return(l.Convert(m, d), l.Convert(e, dtype.I32))
		}},
}, binaryPair("copysign", implemented("copysign_cpu", floats, promotedFloat(2)), copySign))

// hypot is √(x²+y²) without overflow on the way.
func hypot(b *stablehlo.Builder, x, y value) value { return modulus(b, b.Complex(x, y)) }

// modulus is |x| of a complex x: inf if a part is, otherwise NaN if a part is. XLA:CPU decides those cases
// by the order of the parts.
func modulus(b *stablehlo.Builder, x value) value {
	size := b.Abs(x)
	size = b.Select(b.Compare(x, x, stablehlo.EQ), size, b.ConstLike(size, math.NaN()))
	return b.Select(isInf(b, x), b.ConstLike(size, math.Inf(1)), size)
}

// copySign is |x| with the sign bit of y.
func copySign(b *stablehlo.Builder, x, y value) value {
	size := b.Abs(x)
	return b.Select(signBit(b, y), b.Negate(size), size)
}

// xlogy is x·log(y): 0 where x is, unless y is NaN.
func xlogy(log fun1) fun2 {
	return func(b *stablehlo.Builder, x, y value) value {
		v := b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), b.ConstLike(x, 0), b.Multiply(x, log(b, y)))
		return b.Select(b.Compare(y, y, stablehlo.NE), y, v)
	}
}

// floatFormat is the layout of the bits of an IEEE type.
type floatFormat struct {
	bits           dtype.DType
	fraction, bias int64
}

func formatOf(d dtype.DType) floatFormat {
	m := int64(Mantissa(d) - 1)
	exponent := int64(8*d.Size()) - m - 1
	return floatFormat{signedBits(d), m, 1<<(exponent-1) - 1}
}

// frexp splits x into m·2ᵉ with ½ ≤ |m| < 1, by its bits: denormal numbers count, which some backends
// flush to zero in arithmetic. Zeros, infinities and NaN are their own mantissa, with exponent 0. e is
// of the integer type of x's size.
func frexp(b *stablehlo.Builder, x value) (m, e value) {
	f := formatOf(x.DType())
	bits := b.BitcastConvert(x, f.bits)
	constant := func(v int64) value { return b.SplatLike(bits, stablehlo.Int(v)) }
	fractionMask, exponents := int64(1)<<f.fraction-1, 2*f.bias+1
	fraction := b.And(bits, constant(fractionMask))
	exponent := b.And(b.ShiftRightLogical(bits, constant(f.fraction)), constant(exponents))
	// a denormal number is shifted until its leading bit is the implied one
	shift := b.Subtract(b.CountLeadingZeros(fraction), constant(int64(8*x.DType().Size())-f.fraction-1))
	denormal := b.Compare(exponent, constant(0), stablehlo.EQ)
	fraction = b.Select(denormal, b.And(b.ShiftLeft(fraction, shift), constant(fractionMask)), fraction)
	e = b.Subtract(b.Select(denormal, b.Subtract(constant(1), shift), exponent), constant(f.bias-1))
	sign := b.And(bits, constant(math.MinInt64>>(64-8*x.DType().Size())))
	half := b.Or(b.Or(sign, constant((f.bias-1)<<f.fraction)), fraction)
	plain := b.Or(b.Compare(exponent, constant(exponents), stablehlo.EQ),
		b.Compare(b.ShiftLeft(bits, constant(1)), constant(0), stablehlo.EQ))
	return b.BitcastConvert(b.Select(plain, bits, half), x.DType()), b.Select(plain, constant(0), e)
}

// nextAfter counts the bits of x one up or down, which denormal numbers survive.
func nextAfter(b *stablehlo.Builder, x, y value) value {
	d := x.DType()
	f := formatOf(d)
	xb, yb := b.BitcastConvert(x, f.bits), b.BitcastConvert(y, f.bits)
	constant := func(v int64) value { return b.SplatLike(xb, stablehlo.Int(v)) }
	sign := constant(math.MinInt64 >> (64 - 8*d.Size()))
	rest := constant(math.MaxInt64 >> (64 - 8*d.Size()))
	xa, ya := b.And(xb, rest), b.And(yb, rest)
	// the ordered number of a float: its bits, negative for negative ones
	order := func(bits, size value) value {
		return b.Select(b.Compare(bits, constant(0), stablehlo.LT), b.Negate(size), size)
	}
	from, to := order(xb, xa), order(yb, ya)
	step := b.Select(b.Compare(from, to, stablehlo.LT), constant(1), constant(-1))
	next := b.Add(from, step)
	moved := b.Select(b.Compare(next, constant(0), stablehlo.LT), b.Or(b.Negate(next), sign), next)
	// from a negative number up to zero the sign stays
	moved = b.Select(b.And(b.Compare(next, constant(0), stablehlo.EQ), b.Compare(from, constant(0), stablehlo.LT)), sign, moved)
	moved = b.Select(b.Compare(from, to, stablehlo.EQ), yb, moved)
	nan := b.Or(b.Compare(x, x, stablehlo.NE), b.Compare(y, y, stablehlo.NE))
	return b.Select(nan, b.Splat(shape.Of(d, x.Dims()), stablehlo.Float(math.NaN())), b.BitcastConvert(moved, d))
}
