package ops

import "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"

// gammaRational are the coefficients of the bivariate rational approximation of the reparameterized gradient of the
// gamma distribution. They are by powers of u = log(x/α) (rows) and v = log α: four of the numerator, four of the
// denominator. Source: ATen/native/Distributions.h.
var gammaRational = [3][8]float64{
	{0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084},
	{0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623},
	{0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07},
}

// calc is arithmetic on values of one shape and type, with constants. Formulas of many terms read better by it than by
// calls of the builder.
type calc struct {
	b    *stablehlo.Builder
	like value
}

func (m calc) c(x float64) value { return m.b.ConstLike(m.like, x) }

func (m calc) add(x value, more ...value) value {
	for _, y := range more {
		x = m.b.Add(x, y)
	}
	return x
}

func (m calc) mul(x value, more ...value) value {
	for _, y := range more {
		x = m.b.Multiply(x, y)
	}
	return x
}

func (m calc) sub(x, y value) value           { return m.b.Subtract(x, y) }
func (m calc) div(x, y value) value           { return m.b.Divide(x, y) }
func (m calc) scale(c float64, x value) value { return m.b.Multiply(m.c(c), x) }

// plus is c + x.
func (m calc) plus(c float64, x value) value { return m.b.Add(m.c(c), x) }

// orZero replaces NaN by 0.
func (m calc) orZero(x value) value {
	return m.b.Select(m.b.Compare(x, x, stablehlo.NE), m.c(0), x)
}

// gammaGrad is dx/dα of a sample x of Gamma(α), after standard_gamma_grad_one. It is a Taylor series for small x, a
// saddle point expansion for large α, a rational approximation between.
func gammaGrad(b *stablehlo.Builder, alpha, x value) value {
	m := calc{b, x}
	u, v := b.Log(m.div(x, alpha)), b.Log(alpha)
	var coefficients [8]value
	for i := range coefficients {
		coefficients[i] = m.plus(gammaRational[0][i], m.mul(u, m.plus(gammaRational[1][i], m.scale(gammaRational[2][i], u))))
	}
	cubic := func(c []value) value {
		return m.add(c[0], m.mul(v, m.add(c[1], m.mul(v, m.add(c[2], m.mul(v, c[3]))))))
	}
	middle := b.Exponential(m.div(cubic(coefficients[:4]), cubic(coefficients[4:])))
	y := b.Select(b.Compare(alpha, m.c(8), stablehlo.GT), m.gammaGradLarge(alpha, x), middle)
	return b.Select(below(b, x, 0.8), m.gammaGradSmall(alpha, x), y)
}

// gammaGradSmall is the Taylor series in x.
func (m calc) gammaGradSmall(alpha, x value) value {
	b := m.b
	number, den := m.c(1), alpha
	first := m.div(number, den)
	second := m.div(number, m.mul(den, den))
	for i := 1; i <= 5; i++ {
		number = m.mul(number, m.scale(-1/float64(i), x))
		den = m.plus(1, den)
		first = m.add(first, m.div(number, den))
		second = m.add(second, m.div(number, m.mul(den, den)))
	}
	power := b.Power(x, alpha)
	pdf := m.mul(b.Power(x, m.plus(-1, alpha)), b.Exponential(b.Negate(x)))
	byAlpha := m.sub(m.mul(m.sub(b.Log(x), digamma(b, alpha)), m.mul(power, first)), m.mul(power, second))
	return m.orZero(m.div(b.Negate(byAlpha), pdf))
}

// gammaGradLarge is Rice's saddle point expansion, and a quotient of polynomials around its
// singularity at x = α.
func (m calc) gammaGradLarge(alpha, x value) value {
	b := m.b
	near := b.And(b.Compare(m.scale(0.9, alpha), x, stablehlo.LE), b.Compare(x, m.scale(1.1, alpha), stablehlo.LE))
	square := m.mul(alpha, alpha)
	number1 := m.plus(1, m.mul(m.scale(24, alpha), m.plus(1, m.scale(12, alpha))))
	number2 := m.add(m.scale(1440, square), m.mul(m.scale(6, x), m.plus(53, m.scale(-120, x))),
		m.div(m.scale(-65, m.mul(x, x)), alpha), m.mul(alpha, m.plus(107, m.scale(3600, x))))
	smooth := m.div(m.mul(number1, number2), m.scale(1244160, m.mul(square, square)))

	den := b.Sqrt(m.scale(8, alpha))
	gap := m.sub(alpha, x)
	log := b.Log(m.div(x, alpha))
	term2 := m.div(den, gap)
	term3 := b.Power(m.sub(b.Negate(gap), m.mul(alpha, log)), m.c(-1.5))
	term3 = b.Select(b.Compare(x, alpha, stablehlo.LT), b.Negate(term3), term3)
	term1 := m.sub(m.mul(log, m.add(term2, term3)),
		m.div(m.mul(b.Sqrt(m.div(m.c(2), alpha)), m.add(alpha, x)), m.mul(gap, gap)))
	stirling := m.plus(1, m.mul(m.div(m.c(1./12), alpha), m.plus(1, m.div(m.c(1./24), alpha))))
	return b.Select(near, smooth, b.Negate(m.div(m.mul(stirling, m.mul(x, term1)), den)))
}

// betaRational are the coefficients of the correction of betaGrad's analytic approximation, by powers
// of log x, log(α/x) and log(total) − log(α/x); numerator and denominator. Source:
// ATen/native/Distributions.h.
var betaRational = [2][3][3][4]float64{
	{{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
		{0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
		{-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
		{{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
			{-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
			{0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
		{{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
			{0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
			{0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
	{{{1, -0.02924021934, -0.04438342661, 0.007285809825},
		{0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
		{-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
		{{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
			{0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
			{-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
		{{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
			{0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
			{-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}},
}

// betaGrad is the scaled gradient by α of a sample x of Beta(α, total − α), after dirichlet_grad_one.
func betaGrad(b *stablehlo.Builder, x, alpha, total value) value {
	m := calc{b, x}
	beta := m.sub(total, alpha)
	u := b.Log(x)
	a := m.sub(b.Log(alpha), u)
	w := m.sub(b.Log(total), a)
	powers := func(v value) [3]value { return [3]value{m.c(1), v, m.mul(v, v)} }
	pu, pa := powers(u), powers(a)
	var sums [2]value
	for k := range sums {
		sums[k] = m.c(0)
		for i := range 3 {
			for j := range 3 {
				c := betaRational[k][i][j]
				cubic := m.plus(c[0], m.mul(w, m.plus(c[1], m.mul(w, m.plus(c[2], m.scale(c[3], w))))))
				sums[k] = m.add(sums[k], m.mul(m.mul(pu[i], pa[j]), cubic))
			}
		}
	}
	y := m.mul(m.div(sums[0], sums[1]), m.div(m.mul(x, m.sub(digamma(b, total), digamma(b, alpha))), beta))

	rest := m.sub(m.c(1), x)
	boundary := m.mul(total, m.mul(x, rest))
	large := b.And(b.Compare(alpha, m.c(6), stablehlo.GT), b.Compare(beta, m.c(6), stablehlo.GT))
	y = b.Select(large, m.betaGradLarge(x, alpha, beta), y)
	toOne := b.And(b.Compare(x, m.c(0.5), stablehlo.GE), below(b, boundary, 0.75))
	y = b.Select(toOne, b.Negate(m.betaGradByBeta(rest, beta, alpha)), y)
	toZero := b.And(upTo(b, x, 0.5), below(b, boundary, 2.5))
	return b.Select(toZero, m.betaGradByAlpha(x, alpha, beta), y)
}

// betaGradByAlpha is the Taylor series of the gradient by α near x = 0.
func (m calc) betaGradByAlpha(x, alpha, beta value) value {
	b := m.b
	factor := m.sub(m.sub(digamma(b, alpha), digamma(b, m.add(alpha, beta))), b.Log(x))
	number := m.c(1)
	series := m.div(m.add(factor, reciprocal(b, alpha)), alpha)
	for i := 1; i <= 10; i++ {
		number = m.mul(number, m.sub(m.c(float64(i)), beta), m.scale(1/float64(i), x))
		den := m.plus(float64(i), alpha)
		series = m.add(series, m.mul(m.div(number, den), m.add(factor, reciprocal(b, den))))
	}
	return m.orZero(m.mul(x, b.Power(m.sub(m.c(1), x), b.Negate(beta)), series))
}

// betaGradByBeta is the Taylor series of the gradient by β near x = 0.
func (m calc) betaGradByBeta(x, alpha, beta value) value {
	b := m.b
	factor := m.sub(digamma(b, m.add(alpha, beta)), digamma(b, beta))
	number, betas, slopes := m.c(1), m.c(1), m.c(0)
	series := m.div(factor, alpha)
	for i := 1; i <= 8; i++ {
		step := m.plus(-float64(i), beta)
		number = m.mul(number, m.scale(-1/float64(i), x))
		slopes = m.add(m.mul(slopes, step), betas)
		betas = m.mul(betas, step)
		series = m.add(series, m.mul(m.div(number, m.plus(float64(i), alpha)), m.add(slopes, m.mul(factor, betas))))
	}
	return m.orZero(b.Negate(m.mul(b.Power(m.sub(m.c(1), x), m.sub(m.c(1), beta)), series)))
}

// betaGradLarge is Rice's saddle point expansion for large α and β, and a polynomial at the mean,
// where that is singular.
func (m calc) betaGradLarge(x, alpha, beta value) value {
	b := m.b
	total := m.add(alpha, beta)
	mean := m.div(alpha, total)
	product := m.mul(alpha, beta)
	width := m.scale(0.1, m.div(b.Sqrt(m.div(product, m.plus(1, total))), total))
	near := b.And(b.Compare(m.sub(mean, width), x, stablehlo.LE), b.Compare(x, m.add(mean, width), stablehlo.LE))
	rest := m.sub(m.c(1), x)

	b2 := m.mul(beta, beta)
	poly := m.mul(m.scale(8, rest), m.plus(-11, m.scale(135, beta)))
	poly = m.add(m.mul(m.add(m.c(453), m.mul(m.scale(1620, beta), rest), m.scale(-455, x)), beta), m.mul(alpha, poly))
	poly = m.add(m.mul(m.scale(3, m.add(m.c(59), m.scale(180, beta), m.scale(-90, x))), b2), m.mul(alpha, poly))
	poly = m.add(m.mul(m.plus(43, m.mul(m.scale(20, m.plus(16, m.scale(27, beta))), x)), m.mul(b2, beta)), m.mul(alpha, poly))
	poly = m.add(m.mul(m.scale(47, x), m.mul(b2, b2)), m.mul(alpha, poly))
	over := m.div(m.mul(m.plus(1, m.scale(12, alpha)), m.plus(1, m.scale(12, beta))), m.mul(total, total))
	under := m.mul(m.scale(12960, alpha), m.mul(product, product), m.plus(1, m.scale(12, total)))
	smooth := m.div(m.mul(m.div(over, rest), poly), under)

	stirling := func(v value) value {
		return m.add(m.c(1), m.div(m.c(1./12), v), m.div(m.c(1./288), m.mul(v, v)))
	}
	factor := m.div(m.mul(stirling(alpha), stirling(beta)), stirling(total))
	factor = m.mul(factor, m.div(b.Negate(x), b.Sqrt(m.div(m.scale(2, product), total))))
	axis := m.sub(m.mul(beta, x), m.mul(alpha, rest))
	term1 := m.sub(m.scale(-1, m.mul(rest, m.add(m.scale(2, m.mul(alpha, alpha)), product))), m.mul(x, b2))
	term1 = m.div(term1, m.mul(b.Sqrt(m.div(m.scale(2, alpha), beta)), b.Power(total, m.c(1.5)), m.mul(axis, axis)))
	logAlpha, logBeta := b.Log(m.div(alpha, m.mul(total, x))), b.Log(m.div(beta, m.mul(total, rest)))
	term3 := m.div(b.Sqrt(m.div(m.scale(8, product), total)), axis)
	term4 := b.Power(m.add(m.mul(beta, logBeta), m.mul(alpha, logAlpha)), m.c(-1.5))
	term4 = b.Select(b.Compare(x, mean, stablehlo.LT), term4, b.Negate(term4))
	away := m.mul(factor, m.add(term1, m.mul(m.scale(0.5, logAlpha), m.add(term3, term4))))
	return b.Select(near, smooth, away)
}
