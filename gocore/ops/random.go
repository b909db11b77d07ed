package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// randomRows are ops that draw random numbers.
//
// Tracing appends two numbers to the arguments of such a row. These are the key of the device's generator, and how
// many ops have drawn from it before. They are the key and the high half of the counter of a Philox generator, so that
// each op has 2⁶⁴ blocks of its own. A value depends on the seed and on the op's index among the ops that draw, never
// on how steps are divided into programs.
var randomRows = join(fillRows, dropoutRows, sampleRows, rejectionRows, permutationRows)

// A stream is the random bits of one op.
type stream struct {
	b     *stablehlo.Builder
	state value // ui64[3]: key, low and high half of the counter
}

// stream starts the random bits of the op being lowered.
func (l *Lowering) stream() *stream {
	b, n := l.B, l.Len()
	word := func(v value) value { return b.Reshape(b.BitcastConvert(v, dtype.U64), []int64{1}) }
	key, draws := l.As(n-2, dtype.I64), l.As(n-1, dtype.I64)
	return &stream{b: b, state: b.Concatenate(0, word(key), word(b.ConstLike(draws, 0)), word(draws))}
}

// bits are uniform bits as elements of an unsigned type.
func (s *stream) bits(d dtype.DType, dims []int64) value {
	sh := shape.Of(d, dims)
	if sh.Numel() == 0 {
		return s.b.Splat(sh, stablehlo.Int(0))
	}
	var bits value
	s.state, bits = s.b.RngBitGenerator(stablehlo.RngPhilox, s.state, sh)
	return bits
}

// digits are uniform integers below 2^mantissa, as floats of type d (f32 or f64), and the mantissa: 24
// bits, or 53.
func (s *stream) digits(d dtype.DType, dims []int64) (v value, mantissa int) {
	b := s.b
	if d == dtype.F64 {
		bits := s.bits(dtype.U64, dims)
		return b.Convert(b.ShiftRightLogical(bits, b.ConstLike(bits, 11)), d), 53
	}
	bits := s.bits(dtype.U32, dims)
	return b.Convert(b.ShiftRightLogical(bits, b.ConstLike(bits, 8)), d), 24
}

// uniform is in [0, 1): the multiples of 2^-24 for f32, of 2^-53 for f64.
func (s *stream) uniform(d dtype.DType, dims []int64) value {
	v, mantissa := s.digits(d, dims)
	return s.b.Multiply(v, s.b.ConstLike(v, math.Ldexp(1, -mantissa)))
}

// positive is uniform in (0, 1].
func (s *stream) positive(d dtype.DType, dims []int64) value {
	v, mantissa := s.digits(d, dims)
	return s.b.Multiply(s.b.Add(v, s.b.ConstLike(v, 1)), s.b.ConstLike(v, math.Ldexp(1, -mantissa)))
}

// exponential is of rate 1 and never 0.
func (s *stream) exponential(d dtype.DType, dims []int64) value {
	b := s.b
	v := b.Negate(b.Log(s.positive(d, dims)))
	mantissa := 24
	if d == dtype.F64 {
		mantissa = 53
	}
	return b.Maximum(v, b.ConstLike(v, math.Ldexp(1, -mantissa-1)))
}

// normal is of mean 0 and deviation 1. It is √2·erf⁻¹ of the odd multiples of 2^-24 (2^-53) in (−1, 1), which are
// symmetric about 0 and exact.
func (s *stream) normal(d dtype.DType, dims []int64) value {
	b := s.b
	bits, odd, mantissa := dtype.U32, dtype.I32, 24
	if d == dtype.F64 {
		bits, odd, mantissa = dtype.U64, dtype.I64, 53
	}
	v := s.bits(bits, dims)
	v = b.BitcastConvert(b.ShiftRightLogical(v, b.ConstLike(v, float64(8*bits.Size()-mantissa-1))), odd)
	v = b.Subtract(b.Or(v, b.ConstLike(v, 1)), b.ConstLike(v, math.Ldexp(1, mantissa)))
	x := b.Convert(v, d)
	x = b.Multiply(x, b.ConstLike(x, math.Ldexp(1, -mantissa)))
	return b.Multiply(b.ErfInv(x), b.ConstLike(x, math.Sqrt2))
}

// chance is true with probability p, exact to 2^-32.
func (s *stream) chance(p float64, dims []int64) value {
	switch sh := shape.Of(dtype.Bool, dims); {
	case p >= 1:
		return s.b.Splat(sh, stablehlo.Bool(true))
	case p <= 0:
		return s.b.Splat(sh, stablehlo.Bool(false))
	}
	bits := s.bits(dtype.U32, dims)
	return s.b.Compare(bits, s.b.Splat(bits.Shape(), stablehlo.Uint(ChanceLimit(p))), stablehlo.LT)
}

// ChanceLimit is the number of 32 bits below which random ones are with a probability in (0, 1).
func ChanceLimit(p float64) uint64 {
	return uint64(math.Min(math.Round(math.Ldexp(p, 32)), math.MaxUint32))
}

// complexOf makes the result of type d from draws of its real type; a complex result takes two.
func (s *stream) complexOf(d dtype.DType, draw func(d dtype.DType) value) value {
	if d.IsComplex() {
		re := draw(d.ToReal())
		return s.b.Complex(re, draw(d.ToReal()))
	}
	return Convert(s.b, draw(d.Accumulate()), d)
}

// fill is a row that draws a tensor of the shape and type of argument 0.
func fill(name, schema, kernel string, t types, check func(c *Ctx) error, draw func(l *Lowering, s *stream, d dtype.DType, dims []int64) value) Row {
	return Row{Name: name, Schema: schema, Random: true, ShapeOnly: []int{0},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !t.has(s.DType) {
				return notFor(kernel, s.DType)
			}
			if err := check(c); err != nil {
				return err
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			o, s := l.Out(0), l.stream()
			l.Return(draw(l, s, o.DType, o.Dims))
		}}
}

// fillRows are the ops that fill a tensor with independent draws of one distribution.
var fillRows = join(randomIntRows, []Row{
	fill("uniform", "(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor", "check_uniform_bounds",
		floats|complexes, checkUniform, drawUniform),
	fill("normal_functional", "(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor", "normal_kernel_cpu",
		floats|complexes, checkStd(2, false, "normal"),
		func(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
			return s.complexOf(d, func(r dtype.DType) value { return s.scaledNormal(r, dims, l.Float(1), StdOf(l.FloatOr(2, 1), d)) })
		}),
	fill("log_normal", "(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor", "log_normal_cpu",
		floats, checkStd(2, true, "log_normal_"),
		func(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
			return l.Convert(l.B.Exponential(s.scaledNormal(d.Accumulate(), dims, l.FloatOr(1, 1), l.FloatOr(2, 2))), d)
		}),
	fill("exponential", "(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor", "exponential_cpu",
		^f8s, continuous("Exponential", dtype.DType.C10, func(c *Ctx) error {
			if x := c.FloatOr(1, 1); !(x > 0) {
				return errs.New(errs.Runtime, "exponential_ expects lambda > 0.0, but found lambda=%g", x)
			}
			return nil
		}),
		func(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
			v := s.exponential(d.Accumulate(), dims)
			return l.Convert(l.B.Multiply(v, l.B.ConstLike(v, 1/l.FloatOr(1, 1))), d)
		}),
	fill("cauchy", "(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor", "cauchy_cpu",
		^f8s, continuous("Cauchy", demangled, func(c *Ctx) error {
			if x := c.FloatOr(2, 1); !(x > 0) {
				return errs.New(errs.Runtime, "cauchy_ expects sigma > 0.0, but found sigma=%g", x)
			}
			return nil
		}), drawCauchy),
	fill("geometric", "(Tensor self, float p, *, Generator? generator=None) -> Tensor", "geometric_cpu", ints|floats,
		func(c *Ctx) error {
			if p := c.Float(1); !(p > 0 && p < 1) {
				return errs.New(errs.Runtime, "geometric_ expects p to be in (0, 1), but got p=%g", p)
			}
			return nil
		},
		func(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
			t := d.Accumulate()
			if d.IsIntegral() {
				t = dtype.F64
			}
			v := s.exponential(t, dims)
			return l.Convert(l.B.Ceil(l.B.Multiply(v, l.B.ConstLike(v, -1/math.Log1p(-l.Float(1))))), d)
		}),
	fill("bernoulli.p", "(Tensor self, float p, *, Generator? generator=None) -> Tensor", "bernoulli_scalar_cpu_", bools|ints|floats,
		checkChance(1, "bernoulli_ expects p to be in [0, 1], but got p=%g"),
		func(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
			return l.Convert(s.chance(l.Float(1), dims), d)
		}),
})

// scaledNormal is mean + std·normal in type d.
func (s *stream) scaledNormal(d dtype.DType, dims []int64, mean, std float64) value {
	v := s.normal(d, dims)
	if std != 1 {
		v = s.b.Multiply(v, s.b.ConstLike(v, std))
	}
	if mean != 0 {
		v = s.b.Add(v, s.b.ConstLike(v, mean))
	}
	return v
}

// StdOf is the deviation of each part of a complex normal number, std itself for a real one.
func StdOf(std float64, d dtype.DType) float64 {
	if d.IsComplex() {
		return std / math.Sqrt2
	}
	return std
}

func checkUniform(c *Ctx) error {
	d, from, to := c.In(0).DType.ToReal(), c.Float(1), c.FloatOr(2, 1)
	limit := highest(d)
	switch {
	case !(math.Abs(from) <= limit):
		return errs.New(errs.Runtime, "from is out of bounds for %s", demangled(d))
	case !(math.Abs(to) <= limit):
		return errs.New(errs.Runtime, "to is out of bounds for %s", demangled(d))
	case from > to:
		return errs.New(errs.Runtime, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to)
	case to-from > limit:
		return errs.New(errs.Runtime, "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g which result in to-from to exceed the limit", d.C10(), to, from)
	}
	return nil
}

// highest is the largest finite value of a float type.
func highest(d dtype.DType) float64 {
	switch d {
	case dtype.F16:
		return 65504
	case dtype.BF16:
		return math.Ldexp(1-math.Ldexp(1, -8), 128)
	case dtype.F32:
		return math.MaxFloat32
	}
	return math.MaxFloat64
}

// Mantissa is the bits of a float type's significand, the leading one included.
func Mantissa(d dtype.DType) int {
	switch d {
	case dtype.F16:
		return 11
	case dtype.BF16:
		return 8
	case dtype.F64:
		return 53
	}
	return 24
}

// drawUniform gives f16 and bf16 as many random bits as their significand has: more would round up to
// the excluded bound.
func drawUniform(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
	b := l.B
	from, to := l.Float(1), l.FloatOr(2, 1)
	return s.complexOf(d, func(r dtype.DType) value {
		var v value
		if m := Mantissa(d.ToReal()); m < 24 {
			bits := s.bits(dtype.U16, dims)
			bits = b.ShiftRightLogical(bits, b.ConstLike(bits, float64(16-m)))
			v = b.Convert(bits, r)
			v = b.Multiply(v, b.ConstLike(v, math.Ldexp(1, -m)))
		} else {
			v = s.uniform(r, dims)
		}
		if to-from != 1 {
			v = b.Multiply(v, b.ConstLike(v, to-from))
		}
		if from != 0 {
			v = b.Add(v, b.ConstLike(v, from))
		}
		return v
	})
}

func drawCauchy(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
	b := l.B
	u := s.uniform(d.Accumulate(), dims)
	v := b.Tan(b.Multiply(b.ConstLike(u, math.Pi), b.Subtract(u, b.ConstLike(u, 0.5))))
	v = b.Add(b.ConstLike(v, l.Float(1)), b.Multiply(v, b.ConstLike(v, l.FloatOr(2, 1))))
	return l.Convert(v, d)
}

// checkStd refuses a negative deviation at position i, and 0 too if it must be positive.
func checkStd(i int, positive bool, name string) func(c *Ctx) error {
	return func(c *Ctx) error {
		switch std := c.FloatOr(i, 1); {
		case positive && !(std > 0):
			return errs.New(errs.Runtime, "%s expects std > 0.0, but found std=%g", name, std)
		case std < 0:
			return errs.New(errs.Runtime, "%s expects std >= 0.0, but found std %g", name, std)
		}
		return nil
	}
}

// continuous refuses types without fractions, then runs another check.
func continuous(name string, typeName func(d dtype.DType) string, check func(c *Ctx) error) func(c *Ctx) error {
	return func(c *Ctx) error {
		if d := c.In(0).DType; !d.IsFloat() {
			return errs.New(errs.Runtime, "%s distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", name, typeName(d))
		}
		return check(c)
	}
}

// checkChance requires a probability at position i.
func checkChance(i int, message string) func(c *Ctx) error {
	return func(c *Ctx) error {
		if p := c.Float(i); !(p >= 0 && p <= 1) {
			return errs.New(errs.Runtime, message, p)
		}
		return nil
	}
}
