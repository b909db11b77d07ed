package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// specialRows are special functions.
var specialRows = join(errorRows, gammaRows, besselRows, polynomialRows)

// errorRows are the error function and what is made of it.
var errorRows = []Row{
	unaryFloat("erf", "erf_vml_cpu", floats, (*stablehlo.Builder).Erf),
	unaryFloat("erfc", "erfc_vml_cpu", floats, (*stablehlo.Builder).Erfc),
	unaryFloat("erfinv", "erfinv_vml_cpu", floats, (*stablehlo.Builder).ErfInv),
	unaryFloat("special_erfcx", "erfcx_cpu", wide, erfcx),
	unaryFloat("special_ndtri", "ndtri_cpu", wide, ndtri),
	unaryFloat("special_log_ndtr", "log_ndtr_cpu", wide, logNdtr),
	unaryFloat("special_entr", "entr_cpu", floats, func(b *stablehlo.Builder, x value) value {
		none := b.ConstLike(x, 0)
		y := b.Negate(b.Multiply(x, b.Log(x)))
		y = b.Select(b.Compare(x, none, stablehlo.EQ), none, y)
		y = b.Select(b.Compare(x, none, stablehlo.LT), b.ConstLike(x, math.Inf(-1)), y)
		return y
	}),
}

// polynomial evaluates coefficients, the highest power first, at x.
func polynomial(b *stablehlo.Builder, x value, coefficients []float64) value {
	y := b.ConstLike(x, coefficients[0])
	for _, c := range coefficients[1:] {
		y = b.Add(b.Multiply(y, x), b.ConstLike(x, c))
	}
	return y
}

// rational is the quotient of two polynomials.
func rational(b *stablehlo.Builder, x value, num, den []float64) value {
	return b.Divide(polynomial(b, x, num), polynomial(b, x, den))
}

// chebyshev evaluates a Chebyshev series, the highest order first, by Clenshaw's recurrence; x is twice
// the argument of the polynomials.
func chebyshev(b *stablehlo.Builder, x value, coefficients []float64) value {
	none := b.ConstLike(x, 0)
	b0, b1, b2 := b.ConstLike(x, coefficients[0]), none, none
	for _, c := range coefficients[1:] {
		b2, b1 = b1, b0
		b0 = b.Add(b.Subtract(b.Multiply(x, b1), b2), b.ConstLike(x, c))
	}
	return b.Multiply(b.Subtract(b0, b2), b.ConstLike(x, 0.5))
}

// below is x < limit.
func below(b *stablehlo.Builder, x value, limit float64) value {
	return b.Compare(x, b.ConstLike(x, limit), stablehlo.LT)
}

// upTo is x ≤ limit.
func upTo(b *stablehlo.Builder, x value, limit float64) value {
	return b.Compare(x, b.ConstLike(x, limit), stablehlo.LE)
}

// erfcx is exp(x²)·erfc(x). It is computed by erf near zero, and above 1 by the rational functions that erfc has
// beside its exponential. Below zero it is 2·exp(x²) − erfcx(−x).
func erfcx(b *stablehlo.Builder, x value) value {
	a := b.Abs(x)
	e := b.Exponential(b.Multiply(x, x))
	small := b.Multiply(e, b.Subtract(b.ConstLike(x, 1), b.Erf(a)))
	middle := b.Minimum(a, b.ConstLike(x, 8))
	y := b.Select(below(b, a, 8), rational(b, middle, erfcxP, erfcxQ), erfcxTail(b, a))
	y = b.Select(below(b, a, 1), small, y)
	mirror := b.Subtract(b.Multiply(b.ConstLike(x, 2), e), y)
	y = b.Select(below(b, x, 0), b.Select(below(b, x, -26.7), b.ConstLike(x, math.Inf(1)), mirror), y)
	return b.Select(b.Compare(x, x, stablehlo.NE), x, y)
}

// erfcxTail is erfcx from 8 on: the rational function in 1/x, which does not overflow.
func erfcxTail(b *stablehlo.Builder, x value) value {
	inverse := reciprocal(b, b.Maximum(x, b.ConstLike(x, 8)))
	return b.Multiply(inverse, rational(b, inverse, ascending(erfcxR), ascending(erfcxS)))
}

// ascending turns the order of coefficients round.
func ascending(c []float64) []float64 {
	c = slices.Clone(c)
	slices.Reverse(c)
	return c
}

// ndtri is the inverse of the standard normal distribution function.
func ndtri(b *stablehlo.Builder, p value) value {
	const tail = 0.13533528323661269189 // exp(−2)
	none, unit := b.ConstLike(p, 0), b.ConstLike(p, 1)
	upper := b.Compare(p, b.ConstLike(p, 1-tail), stablehlo.GT)
	y := b.Select(upper, b.Subtract(unit, p), p)

	mid := b.Subtract(y, b.ConstLike(p, 0.5))
	square := b.Multiply(mid, mid)
	centre := b.Add(mid, b.Multiply(mid, b.Multiply(square, rational(b, square, ndtriP0, ndtriQ0))))
	centre = b.Multiply(centre, b.ConstLike(p, math.Sqrt(2*math.Pi)))

	x := b.Sqrt(b.Multiply(b.ConstLike(p, -2), b.Log(y)))
	z := reciprocal(b, x)
	side := b.Multiply(z, b.Select(below(b, x, 8), rational(b, z, ndtriP1, ndtriQ1), rational(b, z, ndtriP2, ndtriQ2)))
	far := b.Subtract(b.Subtract(x, b.Multiply(b.Log(x), z)), side)
	far = b.Select(upper, far, b.Negate(far))

	q := b.Select(b.Compare(y, b.ConstLike(p, tail), stablehlo.GT), centre, far)
	q = b.Select(b.Compare(p, none, stablehlo.EQ), b.ConstLike(p, math.Inf(-1)), q)
	q = b.Select(b.Compare(p, unit, stablehlo.EQ), b.ConstLike(p, math.Inf(1)), q)
	inside := b.And(b.Compare(p, none, stablehlo.GE), b.Compare(p, unit, stablehlo.LE))
	return b.Select(inside, q, b.ConstLike(p, math.NaN()))
}

// logNdtr is the logarithm of the standard normal distribution function.
func logNdtr(b *stablehlo.Builder, x value) value {
	t := b.Multiply(x, b.ConstLike(x, math.Sqrt2/2))
	half := b.ConstLike(x, 0.5)
	left := b.Subtract(b.Log(b.Multiply(erfcx(b, b.Negate(t)), half)), b.Multiply(t, t))
	right := b.LogPlusOne(b.Negate(b.Multiply(b.Erfc(t), half)))
	return b.Select(below(b, x, -1), left, right)
}
