package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// powerRows are the overloads of pow.
var powerRows = []Row{
	binary("pow.Tensor_Tensor", "(Tensor self, Tensor exponent) -> Tensor", implemented("pow", numbers, promoted(2)), pow),
	binary("pow.Scalar", "(Scalar self, Tensor exponent) -> Tensor", inferScalarPow, pow),
	{Name: "pow.Tensor_Scalar", Schema: "(Tensor self, Scalar exponent) -> Tensor", Static: []int{1},
		Infer: inferPowScalar, Lower: lowerPowScalar},
}

// inferScalarPow allows any type but bool where the base is 1: the result is a fill.
func inferScalarPow(c *Ctx) error {
	if err := promoted(2)(c); err != nil {
		return err
	}
	n, _ := c.Number(0)
	if d := c.outs[0].DType; d == dtype.Bool || !numbers.has(d) && !(n.Float() == 1 && n.Im == 0) {
		return notFor("pow", d)
	}
	return nil
}

func inferPowScalar(c *Ctx) error {
	n, ok := c.Number(1)
	if ok && c.In(0).DType.IsIntegral() && n.Type.IsIntegral() && n.I < 0 {
		return errs.New(errs.Runtime, "Integers to negative integer powers are not allowed.")
	}
	if err := promoted(2)(c); err != nil {
		return err
	}
	trivial := n.Im == 0 && (n.Float() == 0 || n.Float() == 1)
	if d := c.outs[0].DType; !numbers.has(d) && !trivial {
		return notFor("pow", d)
	}
	return nil
}

// lowerPowScalar looks at the exponent: the common ones become products and roots, as in torch's
// pow_tensor_scalar_optimized_kernel.
func lowerPowScalar(l *Lowering) {
	x, y, d := l.operands()
	b := l.B
	n, _ := l.Number(1)
	r := x
	switch whole, e := x.DType().IsIntegral(), n.Float(); {
	case n.Im != 0:
		r = pow(b, x, y)
	case e == 0:
		r = b.ConstLike(x, 1)
	case e == 1:
	case e == 2:
		r = b.Multiply(x, x)
	case e == 3:
		r = b.Multiply(b.Multiply(x, x), x)
	case e == 0.5 && !whole:
		r = b.Sqrt(x)
	case e == -0.5 && !whole:
		r = b.Rsqrt(x)
	case e == -1 && !whole:
		r = reciprocal(b, x)
	case e == -2 && !whole:
		r = reciprocal(b, b.Multiply(x, x))
	default:
		r = pow(b, x, y)
	}
	if x.DType().IsComplex() && n.Im == 0 && n.Float() < 0 {
		r = overZero(b, x, r)
	}
	l.Return(l.Convert(r, d))
}

// overZero is power, a negative one of x, where x is not zero: there it is infinite, in no direction.
func overZero(b *stablehlo.Builder, x, power value) value {
	part := b.Real(x)
	infinite := b.Complex(b.ConstLike(part, math.Inf(1)), b.ConstLike(part, math.NaN()))
	return b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), infinite, power)
}

// pow is torch's power. Integers wrap around, and a negative exponent gives 1, −1 or 0.
func pow(b *stablehlo.Builder, x, y value) value {
	switch d := x.DType(); {
	case d.IsComplex():
		return complexPower(b, x, y)
	case d.IsUnsigned():
		return integerPower(b, x, y)
	case d.IsInt():
		none, unit := b.ConstLike(x, 0), b.ConstLike(x, 1)
		r := integerPower(b, x, b.Maximum(y, none))
		odd := b.Compare(b.And(y, unit), unit, stablehlo.EQ)
		minus := b.Negate(unit)
		inverse := b.Select(b.Compare(x, minus, stablehlo.EQ), b.Select(odd, minus, unit), none)
		inverse = b.Select(b.Compare(x, unit, stablehlo.EQ), unit, inverse)
		return b.Select(b.Compare(y, none, stablehlo.LT), inverse, r)
	}
	return b.Power(x, y)
}

// complexPower is e^(y·log x), in f64: the error of the product is that of an angle, and of an exponent.
func complexPower(b *stablehlo.Builder, x, y value) value {
	d := x.DType().ToReal()
	part := func(v value) value { return b.Convert(v, dtype.F64) }
	a, c := part(b.Real(x)), part(b.Imag(x))
	re, im := part(b.Real(y)), part(b.Imag(y))
	log, angle := b.Log(hypot(b, a, c)), b.Atan2(c, a)
	size := b.Exponential(b.Subtract(b.Multiply(re, log), b.Multiply(im, angle)))
	turn := b.Add(b.Multiply(im, log), b.Multiply(re, angle))
	power := b.Complex(b.Convert(b.Multiply(size, b.Cosine(turn)), d), b.Convert(b.Multiply(size, b.Sine(turn)), d))
	// the logarithm of zero is infinite: there is no angle to turn by
	vanishes := b.And(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), b.Compare(re, b.ConstLike(re, 0), stablehlo.GT))
	power = b.Select(vanishes, b.ConstLike(power, 0), power)
	return b.Select(b.Compare(re, b.ConstLike(re, 0), stablehlo.LT), overZero(b, x, power), power)
}

// integerPower squares and multiplies, one bit of the largest exponent a step. Products wrap around; the
// power of StableHLO need not.
func integerPower(b *stablehlo.Builder, x, y value) value {
	return b.While([]value{x, y, b.ConstLike(x, 1)},
		func(b *stablehlo.Builder, v []value) value {
			return anyOf(b, b.Compare(v[1], b.ConstLike(v[1], 0), stablehlo.NE))
		},
		func(b *stablehlo.Builder, v []value) []value {
			unit := b.ConstLike(v[1], 1)
			odd := b.Compare(b.And(v[1], unit), unit, stablehlo.EQ)
			product := b.Select(odd, b.Multiply(v[2], v[0]), v[2])
			return []value{b.Multiply(v[0], v[0]), b.ShiftRightLogical(v[1], unit), product}
		})[2]
}
