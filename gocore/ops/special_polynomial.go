package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// polynomialRows are the orthogonal polynomials of a degree that is a tensor. The overloads with a
// number are torch's own: they make it a tensor.
var polynomialRows = []Row{
	orthogonal("chebyshev_polynomial_t", chebyshevKind{6, false, chebyshevT}.polynomial()),
	orthogonal("chebyshev_polynomial_u", chebyshevKind{8, false, chebyshevU}.polynomial()),
	orthogonal("chebyshev_polynomial_v", chebyshevKind{8, false, chebyshevV}.polynomial()),
	orthogonal("chebyshev_polynomial_w", chebyshevKind{8, false, chebyshevW}.polynomial()),
	orthogonal("shifted_chebyshev_polynomial_t", chebyshevKind{6, true, chebyshevT}.polynomial()),
	orthogonal("shifted_chebyshev_polynomial_u", chebyshevKind{6, true, chebyshevU}.polynomial()),
	orthogonal("shifted_chebyshev_polynomial_v", chebyshevKind{6, true, chebyshevV}.polynomial()),
	orthogonal("shifted_chebyshev_polynomial_w", chebyshevKind{4, true, chebyshevW}.polynomial()),
	orthogonal("hermite_polynomial_h", hermite(2)),
	orthogonal("hermite_polynomial_he", hermite(1)),
	orthogonal("laguerre_polynomial_l", laguerre),
	orthogonal("legendre_polynomial_p", legendre),
}

func orthogonal(name string, f fun2) Row {
	return Row{Name: "special_" + name, Schema: "(Tensor x, Tensor n) -> Tensor",
		Infer: implemented(name+"_cpu", wide, promotedFloat(2)),
		Lower: func(l *Lowering) {
			x, n, _ := l.operands()
			l.Return(f(l.B, x, trunc(l.B, n)))
		}}
}

// recur computes P(n) from P(0) = 1 and P(1) = first: next makes P(k+1) of P(k), P(k−1) and k. It leaves a place as it
// is where skip is true. At NaN it stops there, as torch does: the last value before it stays. P of a negative degree
// is 0.
func recur(b *stablehlo.Builder, n, first, skip value, next func(b *stablehlo.Builder, q, p, k value) value) value {
	unit := b.ConstLike(n, 1)
	start := b.And(b.Compare(n, unit, stablehlo.GT), b.Not(skip))
	degree := b.Convert(n, dtype.I64) // in 32-bit floats, k + 1 is k from 2²⁴ on
	v := b.While([]value{b.ConstLike(degree, 1), start, unit, first},
		func(b *stablehlo.Builder, v []value) value { return anyOf(b, v[1]) },
		func(b *stablehlo.Builder, v []value) []value {
			k, open, p, q := v[0], v[1], v[2], v[3]
			r := next(b, q, p, b.Convert(k, q.DType()))
			k = b.Add(k, b.ConstLike(k, 1))
			more := b.And(b.Compare(k, degree, stablehlo.LT), b.Compare(r, r, stablehlo.EQ))
			return []value{k, b.And(open, more), b.Select(open, q, p), b.Select(open, r, q)}
		})[3]
	v = b.Select(b.Compare(n, b.ConstLike(n, 0), stablehlo.EQ), unit, v)
	return b.Select(below(b, n, 0), b.ConstLike(n, 0), v)
}

// isEven is true for even whole numbers.
func isEven(b *stablehlo.Builder, n value) value {
	half := b.Multiply(n, b.ConstLike(n, 0.5))
	return b.Compare(b.Floor(half), half, stablehlo.EQ)
}

// chebyshevForms are the parts in which the four kinds differ.
type chebyshevForms struct {
	// first is the polynomial of degree 1.
	first func(b *stablehlo.Builder, x value) value
	// closed is the form by angles inside (−1, 1), theta = arccos x.
	closed func(b *stablehlo.Builder, x, n, theta value) value
	// right is the value at 1; left that at −1, whose sign alternates with the degree.
	right, left func(b *stablehlo.Builder, n value) value
}

func always(b *stablehlo.Builder, n value) value { return b.ConstLike(n, 1) }
func next1(b *stablehlo.Builder, n value) value  { return b.Add(n, b.ConstLike(n, 1)) }
func twice1(b *stablehlo.Builder, n value) value { return b.Add(b.Add(n, n), b.ConstLike(n, 1)) }

// halfOver is (n+½)θ.
func halfOver(b *stablehlo.Builder, n, theta value) value {
	return b.Multiply(b.Add(n, b.ConstLike(n, 0.5)), theta)
}

func halved(b *stablehlo.Builder, x value) value { return b.Multiply(x, b.ConstLike(x, 0.5)) }

var (
	chebyshevT = chebyshevForms{
		first: func(_ *stablehlo.Builder, x value) value { return x },
		closed: func(b *stablehlo.Builder, _, n, theta value) value {
			return b.Cosine(b.Multiply(n, theta))
		},
		right: always, left: always,
	}
	chebyshevU = chebyshevForms{
		first: func(b *stablehlo.Builder, x value) value { return b.Add(x, x) },
		closed: func(b *stablehlo.Builder, x, n, theta value) value {
			angle, sin := b.Multiply(next1(b, n), theta), b.Sine(theta)
			limit := b.Divide(b.Multiply(next1(b, n), b.Cosine(angle)), x)
			return b.Select(b.Compare(sin, b.ConstLike(x, 0), stablehlo.EQ), limit, b.Divide(b.Sine(angle), sin))
		},
		right: next1, left: next1,
	}
	chebyshevV = chebyshevForms{
		first: func(b *stablehlo.Builder, x value) value { return b.Subtract(b.Add(x, x), b.ConstLike(x, 1)) },
		closed: func(b *stablehlo.Builder, _, n, theta value) value {
			return b.Divide(b.Cosine(halfOver(b, n, theta)), b.Cosine(halved(b, theta)))
		},
		right: always, left: twice1,
	}
	chebyshevW = chebyshevForms{
		first: func(b *stablehlo.Builder, x value) value { return b.Add(b.Add(x, x), b.ConstLike(x, 1)) },
		closed: func(b *stablehlo.Builder, _, n, theta value) value {
			return b.Divide(b.Sine(halfOver(b, n, theta)), b.Sine(halved(b, theta)))
		},
		right: twice1, left: always,
	}
)

// chebyshevKind is a Chebyshev polynomial: the closed form serves above a degree; a shifted one takes
// 2x−1 for x.
type chebyshevKind struct {
	above   float64
	shifted bool
	chebyshevForms
}

func (c chebyshevKind) polynomial() fun2 {
	return func(b *stablehlo.Builder, x, n value) value {
		unit := b.ConstLike(x, 1)
		if c.shifted {
			x = b.Subtract(b.Add(x, x), unit)
		}
		size := b.Abs(x)
		inside := b.And(b.Compare(n, b.ConstLike(n, c.above), stablehlo.GT), b.Compare(size, unit, stablehlo.LT))
		end := b.And(b.Compare(size, unit, stablehlo.EQ), b.Compare(n, b.ConstLike(n, 0), stablehlo.GE))
		double := b.Add(x, x)
		v := recur(b, n, c.first(b, x), b.Or(inside, end), func(b *stablehlo.Builder, q, p, _ value) value {
			return b.Subtract(b.Multiply(double, q), p)
		})
		v = b.Select(inside, c.closed(b, x, n, b.Acos(x)), v)
		left := c.left(b, n)
		left = b.Select(isEven(b, n), left, b.Negate(left))
		return b.Select(end, b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.GT), c.right(b, n), left), v)
	}
}

// hermite is the physicists' (factor 2) or the probabilists' (factor 1) polynomial; torch gives NaN
// above a degree.
func hermite(factor float64) fun2 {
	return func(b *stablehlo.Builder, x, n value) value {
		limit := 128.
		if x.DType() == dtype.F64 {
			limit = 512
		}
		f := b.ConstLike(x, factor)
		scaled := b.Multiply(x, f)
		high := b.Compare(n, b.ConstLike(n, limit), stablehlo.GT)
		v := recur(b, n, scaled, high, func(b *stablehlo.Builder, q, p, k value) value {
			return b.Subtract(b.Multiply(scaled, q), b.Multiply(b.Multiply(k, f), p))
		})
		return b.Select(b.And(high, b.Not(b.IsInf(n))), b.ConstLike(x, math.NaN()), v)
	}
}

func laguerre(b *stablehlo.Builder, x, n value) value {
	unit, none := b.ConstLike(x, 1), b.ConstLike(x, 0)
	first := b.Subtract(unit, x)
	zero := b.And(b.Compare(x, none, stablehlo.EQ), b.Compare(n, none, stablehlo.GE))
	v := recur(b, n, first, zero, func(b *stablehlo.Builder, q, p, k value) value {
		up := b.Multiply(b.Add(b.Add(k, k), first), q)
		return b.Divide(b.Subtract(up, b.Multiply(k, p)), b.Add(k, unit))
	})
	return b.Select(zero, unit, v)
}

func legendre(b *stablehlo.Builder, x, n value) value {
	unit, none := b.ConstLike(x, 1), b.ConstLike(x, 0)
	end := b.And(b.Compare(b.Abs(x), unit, stablehlo.EQ), b.Compare(n, none, stablehlo.GE))
	v := recur(b, n, x, end, func(b *stablehlo.Builder, q, p, k value) value {
		up := b.Multiply(b.Multiply(twice1(b, k), x), q)
		return b.Divide(b.Subtract(up, b.Multiply(k, p)), b.Add(k, unit))
	})
	right := b.Or(b.Compare(x, none, stablehlo.GT), isEven(b, n))
	return b.Select(end, b.Select(right, unit, b.Negate(unit)), v)
}
