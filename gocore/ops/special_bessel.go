package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// besselRows are the Bessel functions and the Airy function.
var besselRows = []Row{
	unaryFloat("i0", "i0_vml_cpu", floats, besselI(besselI0Low, besselI0High, false, false)),
	unaryFloat("special_i0e", "i0e_cpu", floats, besselI(besselI0Low, besselI0High, false, true)),
	unaryFloat("special_i1", "i1_cpu", floats, besselI(besselI1Low, besselI1High, true, false)),
	unaryFloat("special_i1e", "i1e_cpu", floats, besselI(besselI1Low, besselI1High, true, true)),
	unaryFloat("special_modified_bessel_i0", "modified_bessel_i0_cpu", wide, besselI(besselI0Low, besselI0High, false, false)),
	unaryFloat("special_modified_bessel_i1", "modified_bessel_i1_cpu", wide, besselI(besselI1Low, besselI1High, true, false)),
	unaryFloat("special_modified_bessel_k0", "modified_bessel_k0_cpu", wide, besselK0(false)),
	unaryFloat("special_modified_bessel_k1", "modified_bessel_k1_cpu", wide, besselK1(false)),
	scaledBessel("special_scaled_modified_bessel_k0", "scaled_modified_bessel_k0_cpu", besselK0(true)),
	scaledBessel("special_scaled_modified_bessel_k1", "scaled_modified_bessel_k1_cpu", besselK1(true)),
	unaryFloat("special_bessel_j0", "bessel_j0_cpu", wide, besselJ0),
	unaryFloat("special_bessel_j1", "bessel_j1_cpu", wide, besselJ1),
	unaryFloat("special_bessel_y0", "bessel_y0_cpu", wide, besselY0),
	unaryFloat("special_bessel_y1", "bessel_y1_cpu", wide, besselY1),
	scaledBessel("special_spherical_bessel_j0", "spherical_bessel_j0_cpu", sphericalBessel),
	scaledBessel("special_airy_ai", "airy_ai_cpu", airy),
}

// scaledBessel is unaryFloat for the functions whose argument torch calls x.
func scaledBessel(name, kernel string, f fun1) Row {
	r := unaryFloat(name, kernel, wide, f)
	r.Schema = "(Tensor x) -> Tensor"
	return r
}

// besselI is a modified Bessel function of the first kind, of even or odd order, without the factor
// exp(|x|) if scaled.
func besselI(low, high []float64, odd, scaled bool) fun1 {
	return func(b *stablehlo.Builder, x value) value {
		a, two := b.Abs(x), b.ConstLike(x, 2)
		near := chebyshev(b, b.Subtract(b.Multiply(a, b.ConstLike(x, 0.5)), two), low)
		if odd {
			near = b.Multiply(near, a)
		}
		far := chebyshev(b, b.Subtract(b.Divide(b.ConstLike(x, 32), a), two), high)
		y := b.Select(upTo(b, a, 8), near, b.Divide(far, b.Sqrt(a)))
		if !scaled {
			y = b.Multiply(y, b.Exponential(a))
		}
		if odd {
			y = b.Select(below(b, x, 0), b.Negate(y), y)
		}
		return y
	}
}

// besselK0 is the modified Bessel function of the second kind and order 0, with the factor exp(x) if
// scaled.
func besselK0(scaled bool) fun1 {
	i0 := besselI(besselI0Low, besselI0High, false, false)
	return func(b *stablehlo.Builder, x value) value {
		near := chebyshev(b, b.Subtract(b.Multiply(x, x), b.ConstLike(x, 2)), besselK0Low)
		near = b.Subtract(near, b.Multiply(b.Log(b.Multiply(x, b.ConstLike(x, 0.5))), i0(b, x)))
		return secondKind(b, x, near, besselK0High, scaled)
	}
}

// besselK1 is besselK0 for order 1.
func besselK1(scaled bool) fun1 {
	i1 := besselI(besselI1Low, besselI1High, true, false)
	return func(b *stablehlo.Builder, x value) value {
		near := b.Divide(chebyshev(b, b.Subtract(b.Multiply(x, x), b.ConstLike(x, 2)), besselK1Low), x)
		near = b.Add(near, b.Multiply(b.Log(b.Multiply(x, b.ConstLike(x, 0.5))), i1(b, x)))
		return secondKind(b, x, near, besselK1High, scaled)
	}
}

// secondKind joins the value near zero with the series above 2; it is inf at 0 and NaN below.
func secondKind(b *stablehlo.Builder, x, near value, high []float64, scaled bool) value {
	far := chebyshev(b, b.Subtract(b.Divide(b.ConstLike(x, 8), x), b.ConstLike(x, 2)), high)
	far = b.Divide(far, b.Sqrt(x))
	if scaled {
		near = b.Multiply(near, b.Exponential(x))
	} else {
		far = b.Multiply(far, b.Exponential(b.Negate(x)))
	}
	y := b.Select(upTo(b, x, 2), near, far)
	y = b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), b.ConstLike(x, math.Inf(1)), y)
	return b.Select(below(b, x, 0), b.ConstLike(x, math.NaN()), y)
}

// hankel is the form of the Bessel functions above 5: amplitude and phase by rational functions of
// (5/x)². It returns the factors of the two trigonometric functions of x − phase.
func hankel(b *stablehlo.Builder, x value, pp, pq, qp, qq []float64, phase float64) (p, q, sin, cos value) {
	w := b.Divide(b.ConstLike(x, 5), x)
	z := b.Multiply(w, w)
	angle := b.Subtract(x, b.ConstLike(x, phase))
	scale := b.Divide(b.ConstLike(x, math.Sqrt(2/math.Pi)), b.Sqrt(x))
	p = b.Multiply(rational(b, z, pp, pq), scale)
	q = b.Multiply(b.Multiply(w, rational(b, z, qp, qq)), scale)
	return p, q, b.Sine(angle), b.Cosine(angle)
}

func besselJ0(b *stablehlo.Builder, x value) value {
	x = b.Abs(x)
	square := b.Multiply(x, x)
	near := b.Multiply(b.Subtract(square, b.ConstLike(x, 5.78318596294678452118)), b.Subtract(square, b.ConstLike(x, 30.4712623436620863991)))
	near = b.Multiply(near, rational(b, square, bessel0RP, bessel0RQ))
	tiny := b.Subtract(b.ConstLike(x, 1), b.Multiply(square, b.ConstLike(x, 0.25)))
	near = b.Select(below(b, x, 1e-5), tiny, near)
	p, q, sin, cos := hankel(b, x, bessel0PP, bessel0PQ, bessel0QP, bessel0QQ, math.Pi/4)
	return b.Select(upTo(b, x, 5), near, b.Subtract(b.Multiply(p, cos), b.Multiply(q, sin)))
}

func besselJ1(b *stablehlo.Builder, x value) value {
	a := b.Abs(x)
	square := b.Multiply(a, a)
	near := b.Multiply(b.Subtract(square, b.ConstLike(x, 14.6819706421238932572)), b.Subtract(square, b.ConstLike(x, 49.2184563216946036703)))
	near = b.Multiply(near, b.Multiply(rational(b, square, bessel1RP, bessel1RQ), a))
	p, q, sin, cos := hankel(b, a, bessel1PP, bessel1PQ, bessel1QP, bessel1QQ, 3*math.Pi/4)
	y := b.Select(upTo(b, a, 5), near, b.Subtract(b.Multiply(p, cos), b.Multiply(q, sin)))
	return b.Select(below(b, x, 0), b.Negate(y), y)
}

func besselY0(b *stablehlo.Builder, x value) value {
	log := b.Multiply(b.ConstLike(x, 2/math.Pi), b.Log(x))
	near := b.Add(rational(b, b.Multiply(x, x), bessel0YP, bessel0YQ), b.Multiply(log, besselJ0(b, x)))
	p, q, sin, cos := hankel(b, x, bessel0PP, bessel0PQ, bessel0QP, bessel0QQ, math.Pi/4)
	return besselY(b, x, near, b.Add(b.Multiply(p, sin), b.Multiply(q, cos)))
}

func besselY1(b *stablehlo.Builder, x value) value {
	near := b.Subtract(b.Multiply(besselJ1(b, x), b.Log(x)), reciprocal(b, x))
	near = b.Add(b.Multiply(x, rational(b, b.Multiply(x, x), bessel1YP, bessel1YQ)), b.Multiply(b.ConstLike(x, 2/math.Pi), near))
	p, q, sin, cos := hankel(b, x, bessel1PP, bessel1PQ, bessel1QP, bessel1QQ, 3*math.Pi/4)
	return besselY(b, x, near, b.Add(b.Multiply(p, sin), b.Multiply(q, cos)))
}

// besselY joins the two ranges; the functions of the second kind are −inf at 0 and NaN below.
func besselY(b *stablehlo.Builder, x, near, far value) value {
	y := b.Select(upTo(b, x, 5), near, far)
	y = b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.EQ), b.ConstLike(x, math.Inf(-1)), y)
	return b.Select(below(b, x, 0), b.ConstLike(x, math.NaN()), y)
}

// sphericalBessel is sin(x)/x, by its series near zero.
func sphericalBessel(b *stablehlo.Builder, x value) value {
	series := []float64{1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, -1. / 6, 1}
	near := polynomial(b, b.Multiply(x, x), series)
	y := b.Select(below(b, b.Abs(x), 0.5), near, b.Divide(b.Sine(x), x))
	return b.Select(b.IsInf(x), b.ConstLike(x, 0), y)
}

// airy is the Airy function Ai: its power series around 0, a decaying form above 2.09 and an
// oscillating one below −2.09.
func airy(b *stablehlo.Builder, x value) value {
	const rootPi = 0.564189583547756286948 // 1/√π
	cube := b.Multiply(b.Multiply(x, x), x)
	f, g := airySeries()
	near := b.Subtract(b.Multiply(b.ConstLike(x, 0.355028053887817239260), polynomial(b, cube, f)),
		b.Multiply(b.ConstLike(x, 0.258819403792806798405), b.Multiply(x, polynomial(b, cube, g))))

	root := b.Sqrt(b.Abs(x))
	zeta := b.Multiply(b.Multiply(b.Abs(x), root), b.ConstLike(x, 2./3))
	z := reciprocal(b, zeta)
	fourth := b.Sqrt(root)
	decay := b.Divide(b.Multiply(b.ConstLike(x, rootPi), rational(b, z, airyN, airyD)),
		b.Multiply(b.Multiply(b.ConstLike(x, 2), fourth), b.Exponential(zeta)))

	square := b.Multiply(z, z)
	angle := b.Add(zeta, b.ConstLike(x, math.Pi/4))
	even := b.Add(b.ConstLike(x, 1), b.Multiply(square, rational(b, square, airyFN, airyFD)))
	odd := b.Multiply(z, rational(b, square, airyGN, airyGD))
	wave := b.Subtract(b.Multiply(b.Sine(angle), even), b.Multiply(b.Cosine(angle), odd))
	wave = b.Multiply(b.Divide(b.ConstLike(x, rootPi), fourth), wave)

	y := b.Select(below(b, x, -2.09), wave, b.Select(below(b, x, 2.09), near, decay))
	y = b.Select(upTo(b, x, 103.892), y, b.ConstLike(x, 0))
	y = b.Select(b.IsInf(x), b.ConstLike(x, math.NaN()), y)
	return b.Select(b.Compare(x, x, stablehlo.NE), x, y)
}

// airySeries is the coefficients of the two power series of Ai in x³, the highest power first: enough
// terms for |x| ≤ 2.09 in f64.
func airySeries() (f, g []float64) {
	const terms = 13
	f, g = make([]float64, terms), make([]float64, terms)
	f[terms-1], g[terms-1] = 1, 1
	for k := 1; k < terms; k++ {
		n := float64(3 * k)
		f[terms-1-k] = f[terms-k] / ((n - 1) * n)
		g[terms-1-k] = g[terms-k] / (n * (n + 1))
	}
	return f, g
}
