package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// gammaRows are the gamma function, its logarithmic derivatives, its incomplete forms and ζ.
var gammaRows = []Row{
	unaryFloat("lgamma", "lgamma_vml_cpu", floats, (*stablehlo.Builder).Lgamma),
	unaryFloat("digamma", "digamma", floats, digamma),
	{Name: "polygamma", Schema: "(int n, Tensor self) -> Tensor",
		Infer: func(c *Ctx) error {
			if c.Int(0) < 0 {
				return errs.New(errs.Runtime, "polygamma(n, x) does not support negative n.")
			}
			s := c.In(1)
			if s.DType.IsIntegral() {
				s = s.With(c.DefaultFloat)
			}
			if !floats.has(s.DType) {
				return notFor([]string{"digamma", "trigamma", "polygamma"}[min(c.Int(0), 2)], s.DType)
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			l.Return(l.Convert(polygamma(l.B, l.Int(0), l.As(1, d.Accumulate())), d))
		}},
	binary("special_zeta", binarySchema, implemented("zeta_cpu", wide, promotedFloat(2)), hurwitz),
	binary("special_zeta.other_scalar", scalarSchema, implemented("zeta_cpu", wide, promotedFloat(2)), hurwitz),
	binary("special_zeta.self_scalar", baseSchema, implemented("zeta_cpu", wide, promotedFloat(2)), hurwitz),
	incompleteGamma("igamma", false),
	incompleteGamma("igammac", true),
	{Name: "_standard_gamma_grad", Schema: "(Tensor self, Tensor output) -> Tensor",
		Infer: implemented("_standard_gamma_grad_cpu", wide, promoted(2)),
		Lower: func(l *Lowering) {
			alpha, x, _ := l.operands()
			l.Return(gammaGrad(l.B, alpha, x))
		}},
	{Name: "_dirichlet_grad", Schema: "(Tensor x, Tensor alpha, Tensor total) -> Tensor",
		Infer: implemented("_dirichlet_grad_cpu", wide, promoted(3)),
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(betaGrad(l.B, l.Full(0, o.DType, o.Dims), l.Full(1, o.DType, o.Dims), l.Full(2, o.DType, o.Dims)))
		}},
}

// digamma follows calc_digamma: inf of the other sign at a zero, NaN at the negative integers.
func digamma(b *stablehlo.Builder, x value) value {
	y := b.Digamma(x)
	none := b.ConstLike(x, 0)
	whole := b.And(b.Compare(x, none, stablehlo.LT), b.Compare(x, b.Floor(x), stablehlo.EQ))
	y = b.Select(whole, b.ConstLike(x, math.NaN()), y)
	pole := copySign(b, b.ConstLike(x, math.Inf(1)), b.Negate(x))
	return b.Select(b.Compare(x, none, stablehlo.EQ), pole, y)
}

// polygamma is derivative n of digamma: (−1)ⁿ⁺¹·n!·ζ(n+1, x); trigamma is reflected below ½.
func polygamma(b *stablehlo.Builder, n int64, x value) value {
	switch n {
	case 0:
		return digamma(b, x)
	case 1:
		low := below(b, x, 0.5)
		mirror := b.Select(low, b.Subtract(b.ConstLike(x, 1), x), x)
		y := hurwitz(b, b.ConstLike(x, 2), mirror)
		s := b.Sine(b.Multiply(x, b.ConstLike(x, math.Pi)))
		square := b.Divide(b.ConstLike(x, math.Pi*math.Pi), b.Multiply(s, s))
		return b.Select(low, b.Subtract(square, y), y)
	}
	order := b.ConstLike(x, float64(n))
	unit := b.ConstLike(x, 1)
	y := b.Multiply(b.Exponential(b.Lgamma(b.Add(order, unit))), hurwitz(b, b.Add(order, unit), x))
	if n%2 == 0 {
		y = b.Negate(y)
	}
	return y
}

// hurwitz is ζ(x, q) = Σ (q+k)⁻ˣ. The operation of CHLO sums a fixed number of terms, too few for a negative q. Here,
// as in torch, the sum goes on until q+k is above 9, and the rest is Euler and Maclaurin's.
func hurwitz(b *stablehlo.Builder, x, q value) value {
	m := calc{b, x}
	unit := m.c(1)
	minus := b.Negate(x)
	pole := b.And(upTo(b, q, 0), b.Compare(q, b.Floor(q), stablehlo.EQ))
	split := b.And(upTo(b, q, 0), b.Compare(x, b.Floor(x), stablehlo.NE))
	bad := b.Or(below(b, x, 1), split)
	a, sum := q, b.Power(q, minus)
	term := sum
	for range 9 {
		a = m.plus(1, a)
		term = b.Power(a, minus)
		sum = m.add(sum, term)
	}
	open := b.And(b.And(upTo(b, a, 9), b.Not(pole)), b.Not(bad))
	v := b.While([]value{open, a, term, sum},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[0]) },
		func(b *stablehlo.Builder, v []value) []value {
			next := b.Add(v[1], b.ConstLike(v[1], 1))
			t := b.Power(next, minus)
			more := b.And(v[0], upTo(b, next, 9))
			return []value{more, b.Select(v[0], next, v[1]), b.Select(v[0], t, v[2]), b.Select(v[0], b.Add(v[3], t), v[3])}
		})
	a, term, sum = v[1], v[2], v[3]
	last := term
	y := m.sub(m.add(sum, m.div(m.mul(term, a), m.plus(-1, x))), m.scale(0.5, term))
	rising := unit
	for i, number := range bernoulli2k {
		k := float64(2 * i)
		rising = m.mul(rising, m.plus(k, x))
		term = m.div(term, a)
		y = m.add(y, m.scale(number, m.mul(rising, term)))
		rising = m.mul(rising, m.plus(k+1, x))
		term = m.div(term, a)
	}
	// the sum is exact where its last term does not count: the rest would be inf·0 for an infinite x
	y = b.Select(below(b, b.Abs(b.Divide(last, sum)), epsilon), sum, y)
	// in torch's order: a pole counts before a bad exponent, x = 1 before all
	inf, nan := m.c(math.Inf(1)), m.c(math.NaN())
	y = b.Select(b.Or(split, b.Compare(q, q, stablehlo.NE)), nan, y)
	y = b.Select(pole, inf, y)
	y = b.Select(below(b, x, 1), nan, y)
	return b.Select(b.Compare(x, unit, stablehlo.EQ), inf, y)
}

// bernoulli2k are B₂ₖ/(2k)! for k = 1 to 12.
var bernoulli2k = [...]float64{
	1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160, -691. / 1307674368000, 1. / 74724249600,
	-3617. / 10670622842880000, 43867. / 5109094217170944000, -174611. / 802857662698291200000,
	77683. / 14101100039391805440000, -236364091. / 1693824136731743669452800000,
}

// incompleteGamma is the regularized incomplete gamma function P(a, x), or Q = 1 − P. It computes in
// f64: the factor xᵃ·e⁻ˣ/Γ(a) comes from a difference of large logarithms.
func incompleteGamma(name string, upper bool) Row {
	return Row{Name: name, Schema: binarySchema, Infer: implemented(name+"_cpu", floats, promoted(2)),
		Lower: func(l *Lowering) {
			o := l.Out(0)
			a, x := l.Full(0, dtype.F64, o.Dims), l.Full(1, dtype.F64, o.Dims)
			l.Return(l.Convert(gammaInc(l.B, a, x, upper), o.DType))
		}}
}

func gammaInc(b *stablehlo.Builder, a, x value, upper bool) value {
	none, unit, inf := b.ConstLike(a, 0), b.ConstLike(a, 1), b.ConstLike(a, math.Inf(1))
	bad := b.Or(below(b, x, 0), below(b, a, 0))
	bad = b.Or(bad, b.And(b.Compare(a, none, stablehlo.EQ), b.Not(b.Compare(x, none, stablehlo.GT))))
	bad = b.Or(bad, b.And(b.Compare(a, inf, stablehlo.EQ), b.Compare(x, inf, stablehlo.EQ)))
	// at the edges of the domain P is 0 or 1, whatever the other argument is
	toZero := b.Or(b.Compare(x, none, stablehlo.EQ), b.Compare(a, inf, stablehlo.EQ))
	toOne := b.Or(b.Compare(a, none, stablehlo.EQ), b.Compare(x, inf, stablehlo.EQ))
	unknown := b.Or(b.Compare(a, a, stablehlo.NE), b.Compare(x, x, stablehlo.NE))
	edge := b.Or(b.Or(bad, unknown), b.Or(toZero, toOne))
	a, x = b.Select(edge, unit, a), b.Select(edge, unit, x)

	factor := b.Exponential(b.Subtract(b.Subtract(b.Multiply(a, b.Log(x)), x), b.Lgamma(a)))
	tail := b.And(b.Compare(x, unit, stablehlo.GT), b.Compare(x, a, stablehlo.GT))
	p := b.Divide(b.Multiply(gammaSeries(b, a, x, b.Not(tail)), factor), a)
	q := b.Multiply(gammaFraction(b, a, x, tail), factor)
	atZero, atOne := none, unit
	var y value
	if upper {
		y = b.Select(tail, q, b.Subtract(unit, p))
		atZero, atOne = unit, none
	} else {
		y = b.Select(tail, b.Subtract(unit, q), p)
	}
	nan := b.ConstLike(a, math.NaN())
	y = b.Select(unknown, nan, y)
	y = b.Select(toZero, atZero, b.Select(toOne, atOne, y))
	return b.Select(bad, nan, y)
}

// gammaIterations bounds the loops of the incomplete gamma functions, as torch's do.
const gammaIterations = 2000

// epsilon is the precision to which they iterate.
const epsilon = 1.11022302462515654042e-16

// gammaSeries is Σ xᵏ/((a+1)…(a+k)) at the places in use; others keep some finite number.
func gammaSeries(b *stablehlo.Builder, a, x, use value) value {
	unit := b.ConstLike(a, 1)
	count := b.Splat(use.Shape().With(dtype.I32), stablehlo.Int(0))
	return b.While([]value{use, a, unit, unit, count},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[0]) },
		func(b *stablehlo.Builder, v []value) []value {
			open := v[0]
			r := b.Add(v[1], b.ConstLike(v[1], 1))
			term := b.Multiply(v[2], b.Divide(x, r))
			sum := b.Add(v[3], term)
			n := b.Add(v[4], b.ConstLike(v[4], 1))
			more := b.Compare(term, b.Multiply(sum, b.ConstLike(sum, epsilon)), stablehlo.GT)
			more = b.And(b.And(open, more), below(b, n, gammaIterations))
			return []value{more, b.Select(open, r, v[1]), b.Select(open, term, v[2]), b.Select(open, sum, v[3]), n}
		})[3]
}

// gammaFraction is the continued fraction of Γ(a, x)·eˣ/xᵃ (DLMF 8.9.2) at the places in use.
func gammaFraction(b *stablehlo.Builder, a, x, use value) value {
	const big = 1 << 52
	unit := b.ConstLike(a, 1)
	y := b.Subtract(unit, a)
	z := b.Add(b.Add(x, y), unit)
	p1, q1 := b.Add(x, unit), b.Multiply(z, x)
	count := b.ConstLike(a, 0)
	// v: open, c, p of the last step but one, q of it, p, q, value
	return b.While([]value{use, count, unit, x, p1, q1, b.Divide(p1, q1)},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[0]) },
		func(b *stablehlo.Builder, v []value) []value {
			open, one := v[0], b.ConstLike(v[1], 1)
			c := b.Add(v[1], one)
			yc := b.Multiply(b.Add(y, c), c)
			zc := b.Add(z, b.Add(c, c))
			pk := b.Subtract(b.Multiply(v[4], zc), b.Multiply(v[2], yc))
			qk := b.Subtract(b.Multiply(v[5], zc), b.Multiply(v[3], yc))
			some := b.Compare(qk, b.ConstLike(qk, 0), stablehlo.NE)
			r := b.Select(some, b.Divide(pk, qk), v[6])
			change := b.Select(some, b.Abs(b.Divide(b.Subtract(v[6], r), r)), one)
			shrink := b.Select(b.Compare(b.Abs(pk), b.ConstLike(pk, big), stablehlo.GT), b.ConstLike(pk, 1./big), one)
			more := b.And(b.Compare(change, b.ConstLike(change, epsilon), stablehlo.GT), below(b, c, gammaIterations))
			keep := func(next, last value) value { return b.Select(open, next, last) }
			return []value{b.And(open, more), c,
				keep(b.Multiply(v[4], shrink), v[2]), keep(b.Multiply(v[5], shrink), v[3]),
				keep(b.Multiply(pk, shrink), v[4]), keep(b.Multiply(qk, shrink), v[5]), keep(r, v[6])}
		})[6]
}

// anyOf is true if an element is.
func anyOf(b *stablehlo.Builder, x value) value { return b.ReduceOr(x, allDims(x.Rank()).list()) }
