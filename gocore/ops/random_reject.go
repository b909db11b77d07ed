package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// rejectionRows draw from distributions by rejection: all elements try together until each has been
// accepted.
var rejectionRows = []Row{
	{Name: "_standard_gamma", Schema: "(Tensor self, Generator? generator=None) -> Tensor", Random: true,
		Infer: onlyLike("gamma_cpu", wide),
		Lower: func(l *Lowering) { l.Return(l.stream().gamma(l.In(0))) }},
	{Name: "_sample_dirichlet", Schema: "(Tensor self, Generator? generator=None) -> Tensor", Random: true,
		Infer: onlyLike("dirichlet", wide), Lower: lowerDirichlet},
	{Name: "poisson", Schema: "(Tensor self, Generator? generator=None) -> Tensor", Random: true,
		Infer: onlyLike("poisson_cpu", floats),
		Lower: func(l *Lowering) { l.Return(l.Convert(l.stream().poisson(l.As(0, dtype.F64)), l.Out(0).DType)) }},
	{Name: "binomial", Schema: "(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", Random: true,
		Infer: inferBinomial,
		Lower: func(l *Lowering) {
			o := l.Out(0)
			count, prob := l.Full(0, dtype.F64, o.Dims), l.Full(1, dtype.F64, o.Dims)
			l.Return(l.Convert(l.stream().binomial(count, prob), o.DType))
		}},
}

// onlyLike is the shape rule of an op whose result is like its operand.
func onlyLike(kernel string, t types) func(c *Ctx) error {
	return func(c *Ctx) error {
		if s := c.In(0); !t.has(s.DType) {
			return notFor(kernel, s.DType)
		}
		return c.ReturnLike(c.In(0))
	}
}

func inferBinomial(c *Ctx) error {
	count, prob := c.In(0), c.In(1)
	switch {
	case !count.DType.IsFloat():
		return errs.New(errs.Value, "binomial only supports floating-point dtypes for count, got: %s", count.DType.C10())
	case !prob.DType.IsFloat():
		return errs.New(errs.Value, "binomial only supports floating-point dtypes for prob, got: %s", prob.DType.C10())
	case count.DType != prob.DType:
		return errs.New(errs.Runtime, "Found dtype %s but expected %s", prob.DType.C10(), count.DType.C10())
	case !wide.has(count.DType):
		return notFor("binomial_cpu", count.DType)
	}
	return promoted(2)(c)
}

// reject repeats draw until every element has been accepted, and returns what each then had. draw gets
// fresh bits and says what it drew and where that is acceptable.
func (s *stream) reject(start value, draw func(s *stream) (drawn, accept value)) value {
	b := s.b
	open := b.Splat(start.Shape().With(dtype.Bool), stablehlo.Bool(true))
	v := b.While([]value{s.state, open, start},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[1]) },
		func(b *stablehlo.Builder, v []value) []value {
			inner := &stream{b: b, state: v[0]}
			drawn, accept := draw(inner)
			take := b.And(v[1], accept)
			return []value{inner.state, b.And(v[1], b.Not(accept)), b.Select(take, drawn, v[2])}
		})
	s.state = v[0]
	return v[2]
}

// gamma draws from Gamma(alpha, 1) by the method of Marsaglia and Tsang (2000). Below 1 it draws from
// alpha+1 and scales by a power of a uniform number.
func (s *stream) gamma(alpha value) value {
	b, d, dims := s.b, alpha.DType(), alpha.Dims()
	unit, none := b.ConstLike(alpha, 1), b.ConstLike(alpha, 0)
	low := b.Compare(alpha, unit, stablehlo.LT)
	boost := b.Select(low, b.Power(s.positive(d, dims), reciprocal(b, alpha)), unit)
	shape := b.Select(low, b.Add(alpha, unit), alpha)
	third := b.Subtract(shape, b.ConstLike(alpha, 1./3))
	c := b.Rsqrt(b.Multiply(b.ConstLike(alpha, 9), third))
	v := s.reject(unit, func(s *stream) (drawn, accept value) {
		x := s.normal(d, dims)
		y := b.Add(unit, b.Multiply(c, x))
		v := b.Multiply(b.Multiply(y, y), y)
		bound := b.Add(b.Multiply(b.Multiply(x, x), b.ConstLike(x, 0.5)),
			b.Multiply(third, b.Add(b.Subtract(unit, v), b.Log(v))))
		inside := b.Compare(b.Log(s.positive(d, dims)), bound, stablehlo.LT)
		// without this, a shape that is NaN would never be accepted
		return v, b.Or(b.And(b.Compare(y, none, stablehlo.GT), inside), b.Compare(shape, shape, stablehlo.NE))
	})
	v = b.Multiply(b.Multiply(boost, third), v)
	v = b.Select(b.Compare(alpha, none, stablehlo.EQ), none, v)
	return b.Maximum(v, b.ConstLike(v, tiny(d)))
}

// tiny is the smallest normal number of a type.
func tiny(d dtype.DType) float64 {
	if d == dtype.F64 {
		return math.Ldexp(1, -1022)
	}
	return math.Ldexp(1, -126)
}

// lowerDirichlet normalizes gamma draws along the last dimension, in f64, where small ones do not vanish.
func lowerDirichlet(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	g := l.stream().gamma(l.As(0, dtype.F64))
	if g.Rank() == 0 {
		l.Return(b.ConstLike(l.In(0), 1))
		return
	}
	last := int64(g.Rank() - 1)
	sum := b.ReduceSum(g, []int64{last})
	lead := make([]int64, last)
	for i := range lead {
		lead[i] = int64(i)
	}
	x := l.Convert(b.Divide(g, b.BroadcastInDim(sum, g.Dims(), lead)), d)
	l.Return(b.Maximum(x, b.ConstLike(x, tiny(d))))
}

// poisson draws from the Poisson distribution of a rate. Below 10 it counts the uniform numbers whose product stays
// above exp(−rate); above, it uses the transformed rejection of Hörmann (1993).
func (s *stream) poisson(rate value) value {
	b := s.b
	none := b.ConstLike(rate, 0)
	high := b.Compare(rate, b.ConstLike(rate, 10), stablehlo.GE)
	low := s.poissonLow(b.Select(high, none, rate))
	k := b.Select(high, s.poissonHigh(b.Select(high, rate, b.ConstLike(rate, 10))), low)
	return b.Select(b.Compare(rate, none, stablehlo.GE), k, none)
}

func (s *stream) poissonLow(rate value) value {
	b, dims := s.b, rate.Dims()
	limit := b.Exponential(b.Negate(rate))
	open := b.Compare(b.ConstLike(rate, 1), limit, stablehlo.GT)
	none := b.ConstLike(rate, 0)
	v := b.While([]value{s.state, open, none, b.ConstLike(rate, 1)},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[1]) },
		func(b *stablehlo.Builder, v []value) []value {
			inner := &stream{b: b, state: v[0]}
			product := b.Multiply(v[3], inner.uniform(dtype.F64, dims))
			more := b.And(v[1], b.Compare(product, limit, stablehlo.GT))
			count := b.Add(v[2], b.Convert(more, dtype.F64))
			return []value{inner.state, more, count, product}
		})
	s.state = v[0]
	return v[2]
}

func (s *stream) poissonHigh(rate value) value {
	m := calc{s.b, rate}
	root, log := m.b.Sqrt(rate), m.b.Log(rate)
	width := m.plus(0.931, m.scale(2.53, root))
	a := m.plus(-0.059, m.scale(0.02483, width))
	inverse := m.plus(1.1239, m.div(m.c(1.1328), m.plus(-3.4, width)))
	ratio := m.sub(m.c(0.9277), m.div(m.c(3.6224), m.plus(-2, width)))
	return s.reject(m.c(0), func(s *stream) (drawn, accept value) {
		m := calc{s.b, rate}
		b := s.b
		u := m.plus(-0.5, s.uniform(dtype.F64, rate.Dims()))
		v := s.uniform(dtype.F64, rate.Dims())
		us := m.sub(m.c(0.5), b.Abs(u))
		k := b.Floor(m.add(m.mul(m.add(m.div(m.scale(2, a), us), width), u), rate, m.c(0.43)))
		quick := b.And(b.Compare(us, m.c(0.07), stablehlo.GE), b.Compare(v, ratio, stablehlo.LE))
		never := b.Or(below(b, k, 0), b.And(below(b, us, 0.013), b.Compare(v, us, stablehlo.GT)))
		left := m.sub(m.add(b.Log(v), b.Log(inverse)), b.Log(m.add(m.div(a, m.mul(us, us)), width)))
		right := m.sub(m.sub(m.mul(k, log), rate), b.Lgamma(m.plus(1, k)))
		slow := b.And(b.Not(never), b.Compare(left, right, stablehlo.LE))
		return k, b.Or(b.Or(quick, slow), b.IsInf(rate))
	})
}

// binomial draws the number of successes of count trials. It uses the gaps between successes where few are expected,
// otherwise the transformed rejection of Hörmann (1993).
func (s *stream) binomial(count, prob value) value {
	m := calc{s.b, count}
	b := s.b
	none, unit := m.c(0), m.c(1)
	flip := b.Compare(prob, m.c(0.5), stablehlo.GT)
	p := b.Select(flip, m.sub(unit, prob), prob)
	valid := b.And(b.Compare(count, none, stablehlo.GT), b.And(b.Compare(p, none, stablehlo.GT), b.IsFinite(count)))
	many := b.And(valid, b.Compare(m.mul(count, p), m.c(10), stablehlo.GE))
	few := b.And(valid, b.Not(many))
	k := s.binomialGaps(b.Select(few, count, none), b.Select(few, p, m.c(0.5)))
	k = b.Select(many, s.binomialBox(b.Select(many, count, m.c(40)), b.Select(many, p, m.c(0.5))), k)
	k = b.Select(flip, m.sub(count, k), k)
	nan := b.Or(b.Compare(prob, prob, stablehlo.NE), b.Compare(count, count, stablehlo.NE))
	k = b.Select(b.Compare(count, none, stablehlo.LE), none, k)
	k = b.Select(b.Compare(prob, none, stablehlo.LE), none, k)
	k = b.Select(b.Compare(prob, unit, stablehlo.GE), count, k)
	return b.Select(nan, m.c(math.NaN()), k)
}

func (s *stream) binomialGaps(count, p value) value {
	b, dims := s.b, count.Dims()
	rate := b.LogPlusOne(b.Negate(p))
	none := b.ConstLike(count, 0)
	v := b.While([]value{s.state, b.Compare(count, none, stablehlo.GT), none, none},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[1]) },
		func(b *stablehlo.Builder, v []value) []value {
			inner := &stream{b: b, state: v[0]}
			gap := b.Ceil(b.Divide(b.Negate(inner.exponential(dtype.F64, dims)), rate))
			place := b.Add(v[3], gap)
			more := b.And(v[1], b.Compare(place, count, stablehlo.LE))
			return []value{inner.state, more, b.Add(v[2], b.Convert(more, dtype.F64)), place}
		})
	s.state = v[0]
	return v[2]
}

func (s *stream) binomialBox(count, p value) value {
	m := calc{s.b, count}
	deviation := m.b.Sqrt(m.mul(count, p, m.sub(m.c(1), p)))
	width := m.plus(1.15, m.scale(2.53, deviation))
	a := m.add(m.c(-0.0873), m.scale(0.0248, width), m.scale(0.01, p))
	centre := m.plus(0.5, m.mul(count, p))
	ratio := m.sub(m.c(0.92), m.div(m.c(4.2), width))
	odds := m.div(p, m.sub(m.c(1), p))
	alpha := m.mul(m.plus(2.83, m.div(m.c(5.1), width)), deviation)
	mode := m.b.Floor(m.mul(m.plus(1, count), p))
	return s.reject(m.c(0), func(s *stream) (drawn, accept value) {
		m := calc{s.b, count}
		b := s.b
		u := m.plus(-0.5, s.uniform(dtype.F64, count.Dims()))
		v := s.positive(dtype.F64, count.Dims())
		us := m.sub(m.c(0.5), b.Abs(u))
		k := b.Floor(m.add(m.mul(m.add(m.div(m.scale(2, a), us), width), u), centre))
		inside := b.And(b.Compare(k, m.c(0), stablehlo.GE), b.Compare(k, count, stablehlo.LE))
		quick := b.And(b.Compare(us, m.c(0.07), stablehlo.GE), b.Compare(v, ratio, stablehlo.LE))
		left := b.Log(m.div(m.mul(v, alpha), m.add(m.div(a, m.mul(us, us)), width)))
		// the logarithm of the probability of k over that of the mode
		right := m.add(b.Lgamma(m.plus(1, mode)), b.Lgamma(m.plus(1, m.sub(count, mode))),
			m.mul(m.sub(k, mode), b.Log(odds)))
		right = m.sub(m.sub(right, b.Lgamma(m.plus(1, k))), b.Lgamma(m.plus(1, m.sub(count, k))))
		return k, b.And(inside, b.Or(quick, b.Compare(left, right, stablehlo.LE)))
	})
}
