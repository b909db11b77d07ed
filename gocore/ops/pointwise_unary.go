package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const (
	numbers = ints | floats | complexes
	reals   = ints | unsigned | floats
)

// unaryRows are the functions of one number.
var unaryRows = []Row{
	elementary("exp", (*stablehlo.Builder).Exponential).shortcut("exp exp_"),
	elementary("expm1", (*stablehlo.Builder).ExponentialMinusOne).shortcut("expm1"),
	elementary("log", (*stablehlo.Builder).Log).shortcut("log"),
	elementary("log1p", (*stablehlo.Builder).LogPlusOne).shortcut("log1p"),
	elementary("sqrt", (*stablehlo.Builder).Sqrt).shortcut("sqrt sqrt_"),
	elementary("sin", (*stablehlo.Builder).Sine).shortcut("sin"),
	elementary("cos", (*stablehlo.Builder).Cosine).shortcut("cos"),
	elementary("tan", (*stablehlo.Builder).Tan),
	elementary("tanh", (*stablehlo.Builder).Tanh).shortcut("tanh"),
	elementary("asin", (*stablehlo.Builder).Asin),
	elementary("acos", (*stablehlo.Builder).Acos),
	elementary("atan", (*stablehlo.Builder).Atan),
	elementary("log2", log2),
	elementary("log10", func(b *stablehlo.Builder, x value) value { return scaleBy(b, b.Log(x), 1/math.Ln10) }),
	unaryFloat("sinh", "sinh_cpu", floats|complexes, (*stablehlo.Builder).Sinh),
	unaryFloat("cosh", "cosh_cpu", floats|complexes, (*stablehlo.Builder).Cosh),
	unaryFloat("asinh", "asinh_cpu", floats|complexes, (*stablehlo.Builder).Asinh),
	unaryFloat("acosh", "acosh_cpu", floats|complexes, (*stablehlo.Builder).Acosh),
	unaryFloat("atanh", "atanh_cpu", floats|complexes, (*stablehlo.Builder).Atanh),
	unaryFloat("rsqrt", "rsqrt_cpu", floats|complexes, (*stablehlo.Builder).Rsqrt).shortcut("rsqrt"),
	unaryFloat("sigmoid", "sigmoid_cpu", floats|complexes, (*stablehlo.Builder).Logistic).shortcut("sigmoid"),
	unaryFloat("reciprocal", "reciprocal_cpu", floats|complexes, reciprocal).shortcut("reciprocal"),
	unaryFloat("exp2", "exp2", floats|complexes, exp2),
	unaryFloat("sinc", "sinc_cpu", floats|complexes, sinc),
	unary("neg", "neg_cpu", numbers, (*stablehlo.Builder).Negate).shortcut("neg neg_").exactOut().refuse(bools, errs.NotImpl,
		"Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."),
	unary("relu", "clamp_min_scalar_cpu", reals, func(b *stablehlo.Builder, x value) value { return b.Maximum(x, b.ConstLike(x, 0)) }).shortcut("relu relu_").
		refuse(bools, errs.NotImpl, "Boolean inputs not supported for relu").
		refuse(complexes, errs.NotImpl, "clamp is not supported for complex types"),
	rounding("floor", (*stablehlo.Builder).Floor).exactOut().shortcut("floor"),
	rounding("ceil", (*stablehlo.Builder).Ceil).exactOut().shortcut("ceil"),
	rounding("trunc", trunc).exactOut(),
	unary("round", "round_vml_cpu", reals, wholeOr((*stablehlo.Builder).RoundNearestEven)).exactOut(),
	{Name: "round.decimals", Schema: "(Tensor self, *, int decimals) -> Tensor", ExactOut: true, Infer: inferRoundDecimals, Lower: lowerRoundDecimals},
	unary("frac", "frac_cpu", floats, func(b *stablehlo.Builder, x value) value { return b.Subtract(x, trunc(b, x)) }).exactOut(),
	unary("sign", "sign_cpu", bools|ints|floats, sign).exactOut().refuse(complexes, errs.NotImpl,
		"Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."),
	unary("sgn", "sign_cpu", bools|numbers, func(b *stablehlo.Builder, x value) value {
		if x.DType().IsComplex() {
			return b.Sign(x)
		}
		return sign(b, x)
	}).exactOut(),
	unary("bitwise_not", "bitwise_not_cpu", bools|ints, (*stablehlo.Builder).Not).exactOut(),
	unary("_conj_physical", "conj_cpu", bools|numbers, conj).also("conj_physical"),
	{Name: "abs", Schema: unarySchema, Shortcut: &Shortcut{Names: "abs"}, ExactOut: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !(numbers | f8s).has(s.DType) {
				return notFor("abs_cpu", s.DType)
			}
			return c.ReturnLike(s.With(s.DType.ToReal()))
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			switch d := x.DType(); {
			case d.IsUnsigned():
				l.Return(x)
			case d.IsComplex():
				l.Return(modulus(l.B, x))
			default:
				l.Return(l.B.Abs(x))
			}
		}},
	{Name: "angle", Schema: unarySchema, Infer: inferAngle, Lower: lowerAngle},
	{Name: "nan_to_num", Schema: "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", ExactOut: true,
		Infer: func(c *Ctx) error {
			if s := c.In(0); s.DType.IsF8() {
				return notFor("nan_to_num", s.DType)
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			if !x.DType().IsIntegral() {
				x = complexOfParts(l.B, x, l.nanToNum)
			}
			l.Return(x)
		}},
	predicate("logical_not", "logical_not_cpu", bools|numbers, func(b *stablehlo.Builder, x value) value {
		return b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ)
	}),
	predicate("isnan", "isnan", ^types(0), func(b *stablehlo.Builder, x value) value { return b.Compare(x, x, stablehlo.NE) }),
	predicate("isinf", "isinf", ^types(0), isInf),
	predicate("isposinf", "isposinf_cpu", bools|reals, equalsInf(1)).exactOut().refuse(complexes, errs.Type, "isposinf does not support complex inputs."),
	predicate("isneginf", "isneginf_cpu", bools|reals, equalsInf(-1)).exactOut().refuse(complexes, errs.Type, "isneginf does not support complex inputs."),
	predicate("signbit", "signbit_cpu", bools|reals, signBit).exactOut().refuse(complexes, errs.NotImpl, "signbit is not implemented for complex tensors."),
}

// elementary is a function whose kernel torch calls by the name of the vector math library.
func elementary(name string, f fun1) Row {
	return unaryFloat(name, name+"_vml_cpu", floats|complexes, f)
}

// rounding rounds floats and leaves integers as they are.
func rounding(name string, f fun1) Row {
	return unary(name, name+"_vml_cpu", reals, wholeOr(f)).
		refuse(complexes, errs.NotImpl, name+" is not supported for complex inputs")
}

// wholeOr is f for floats and the identity for integers.
func wholeOr(f fun1) fun1 {
	return func(b *stablehlo.Builder, x value) value {
		if x.DType().IsIntegral() {
			return x
		}
		return f(b, x)
	}
}

func reciprocal(b *stablehlo.Builder, x value) value { return b.Divide(b.ConstLike(x, 1), x) }

// log2 splits off the exponent, so that powers of two are exact: x = m·2ᵉ with √½ ≤ m < √2.
func log2(b *stablehlo.Builder, x value) value {
	if x.DType() != dtype.F32 && x.DType() != dtype.F64 {
		return scaleBy(b, b.Log(x), 1/math.Ln2)
	}
	m, e := frexp(b, x)
	small := b.Compare(m, b.ConstLike(m, math.Sqrt2/2), stablehlo.LT)
	m = b.Select(small, b.Add(m, m), m)
	e = b.Subtract(e, b.Convert(small, e.DType()))
	return b.Add(b.Convert(e, x.DType()), b.Multiply(b.Log(m), b.ConstLike(m, 1/math.Ln2)))
}

func exp2(b *stablehlo.Builder, x value) value {
	if x.DType().IsComplex() {
		return b.Exponential(scaleBy(b, x, math.Ln2))
	}
	return b.Power(b.ConstLike(x, 2), x)
}

// sinc is sin(πx)/(πx), 1 at 0.
func sinc(b *stablehlo.Builder, x value) value {
	y := scaleBy(b, x, math.Pi)
	return b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), b.ConstLike(x, 1), b.Divide(b.Sine(y), y))
}

func trunc(b *stablehlo.Builder, x value) value {
	return b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.LT), b.Ceil(x), b.Floor(x))
}

// sign is torch's: 0 for NaN and for both zeros, the operand itself for bool.
func sign(b *stablehlo.Builder, x value) value {
	switch d := x.DType(); {
	case d == dtype.Bool:
		return x
	case d.IsUnsigned():
		return b.Minimum(x, b.ConstLike(x, 1))
	case d.IsFloat():
		none := b.ConstLike(x, 0)
		above, below := b.Compare(x, none, stablehlo.GT), b.Compare(x, none, stablehlo.LT)
		return b.Subtract(b.Convert(above, d), b.Convert(below, d))
	}
	return b.Sign(x)
}

// signBit is the bit itself: true for −0 and for negative NaN.
func signBit(b *stablehlo.Builder, x value) value {
	d := x.DType()
	switch {
	case d == dtype.Bool || d.IsUnsigned():
		return b.Splat(x.Shape().With(dtype.Bool), stablehlo.Bool(false))
	case d.IsFloat():
		x = b.BitcastConvert(x, signedBits(d))
	}
	return b.Compare(x, b.ConstLike(x, 0), stablehlo.LT)
}

// signedBits is the integer type of a float type's size.
func signedBits(d dtype.DType) dtype.DType {
	switch d.Size() {
	case 2:
		return dtype.I16
	case 4:
		return dtype.I32
	}
	return dtype.I64
}

// isInf is |x| = inf; a complex number is infinite if one part is.
func isInf(b *stablehlo.Builder, x value) value {
	switch d := x.DType(); {
	case d.IsComplex():
		return b.Or(b.IsInf(b.Real(x)), b.IsInf(b.Imag(x)))
	case d.IsIntegral():
		return b.Splat(x.Shape().With(dtype.Bool), stablehlo.Bool(false))
	case d.IsF8():
		return b.IsInf(b.Convert(x, dtype.F32))
	}
	return b.IsInf(x)
}

func equalsInf(sign int) fun1 {
	return func(b *stablehlo.Builder, x value) value {
		if x.DType().IsIntegral() {
			return b.Splat(x.Shape().With(dtype.Bool), stablehlo.Bool(false))
		}
		return b.Compare(x, b.ConstLike(x, math.Inf(sign)), stablehlo.EQ)
	}
}

// nanToNum replaces NaN and infinities of a float tensor.
func (l *Lowering) nanToNum(x value) value {
	b, limit := l.B, highest(x.DType())
	inf := math.Inf(1)
	nan := b.Compare(x, x, stablehlo.NE)
	above := b.Compare(x, b.ConstLike(x, inf), stablehlo.EQ)
	below := b.Compare(x, b.ConstLike(x, -inf), stablehlo.EQ)
	y := b.Select(below, b.ConstLike(x, l.FloatOr(3, -limit)), x)
	y = b.Select(above, b.ConstLike(x, l.FloatOr(2, limit)), y)
	return b.Select(nan, b.ConstLike(x, l.FloatOr(1, 0)), y)
}

func inferRoundDecimals(c *Ctx) error {
	s := c.In(0)
	if c.Int(1) == 0 && s.DType.IsInt() {
		return c.ReturnLike(s)
	}
	if !floats.has(s.DType) {
		return notFor("round_cpu", s.DType)
	}
	return c.ReturnLike(s)
}

// lowerRoundDecimals scales by a power of ten, rounds and scales back, as round_decimals_kernel does.
func lowerRoundDecimals(l *Lowering) {
	b, x, n := l.B, l.In(0), l.Int(1)
	if x.DType().IsIntegral() {
		l.Return(x)
		return
	}
	ten := b.ConstLike(x, math.Pow10(int(max(n, -n))))
	switch {
	case n == 0:
		x = b.RoundNearestEven(x)
	case n < 0:
		x = b.Multiply(b.RoundNearestEven(b.Divide(x, ten)), ten)
	default:
		x = b.Divide(b.RoundNearestEven(b.Multiply(x, ten)), ten)
	}
	l.Return(x)
}

func inferAngle(c *Ctx) error {
	s := c.In(0)
	switch d := s.DType; {
	case d.IsF8():
		return notFor("angle_cpu", d)
	case d.IsIntegral():
		s = s.With(c.DefaultFloat)
	default:
		s = s.With(d.ToReal())
	}
	return c.ReturnLike(s)
}

// lowerAngle is the argument of a complex number; of a real one, π below zero, NaN for NaN.
func lowerAngle(l *Lowering) {
	b, x, d := l.B, l.In(0), l.Out(0).DType
	if x.DType().IsComplex() {
		l.Return(b.Atan2(b.Imag(x), b.Real(x)))
		return
	}
	x = l.Convert(x, d)
	none := b.ConstLike(x, 0)
	a := b.Select(b.Compare(x, none, stablehlo.LT), b.ConstLike(x, math.Pi), none)
	l.Return(b.Select(b.Compare(x, x, stablehlo.NE), x, a))
}
