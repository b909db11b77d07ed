package stablehlo

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

const i64 = dtype.I64

// kinds is a set of element types, as the specification's constraints name them.
type kinds uint8

const (
	kBool kinds = 1 << iota
	kSigned
	kUnsigned
	kWide // floats of 16 bits and more
	kF8
	kComplex
	kInt   = kSigned | kUnsigned
	kFloat = kWide | kF8
	kBits  = kBool | kInt
	kReal  = kBool | kInt | kFloat
	kAll   = kReal | kComplex
	kFC    = kFloat | kComplex
)

func kindOf(d dtype.DType) kinds {
	switch {
	case d == dtype.Bool:
		return kBool
	case d.IsUnsigned():
		return kUnsigned
	case d.IsInt():
		return kSigned
	case d.IsF8():
		return kF8
	case d.IsFloat():
		return kWide
	case d.IsComplex():
		return kComplex
	}
	return 0
}

// has reports, or records as an error, whether x has one of the element types.
func (b *Builder) has(op string, ok kinds, x Value) bool {
	if kindOf(x.DType())&ok == 0 {
		b.fail(op, "not defined for element type "+x.DType().String(), x)
		return false
	}
	return true
}

func (b *Builder) unary(op string, ok kinds, x Value) Value {
	if !b.has(op, ok, x) {
		return Value{s: x.s}
	}
	return b.op1(op, x.s, x)
}

func (b *Builder) binary(op string, ok kinds, x, y Value) Value {
	if !b.same(op, x, y) || !b.has(op, ok, x) {
		return Value{s: x.s}
	}
	return b.op1(op, x.s, x, y)
}

// same reports, or records as an error, whether x and y have one shape and element type.
func (b *Builder) same(op string, x, y Value) bool {
	if x.s != y.s || x.s == nil {
		b.fail(op, "operands differ in shape or element type", x, y)
		return false
	}
	return true
}

// Abs is |x|: signed integers, floats; of a complex x it has the type of its parts.
func (b *Builder) Abs(x Value) Value {
	const op = "stablehlo.abs"
	if !b.has(op, kSigned|kFC, x) {
		return Value{s: x.s}
	}
	return b.op1(op, x.s.With(x.DType().ToReal()), x)
}

// Cbrt is the cube root of floats and complex numbers.
func (b *Builder) Cbrt(x Value) Value { return b.unary("stablehlo.cbrt", kFC, x) }

// Ceil rounds floats up.
func (b *Builder) Ceil(x Value) Value { return b.unary("stablehlo.ceil", kFloat, x) }

// Cosine of floats and complex numbers.
func (b *Builder) Cosine(x Value) Value { return b.unary("stablehlo.cosine", kFC, x) }

// CountLeadingZeros counts the leading zero bits of integers.
func (b *Builder) CountLeadingZeros(x Value) Value {
	return b.unary("stablehlo.count_leading_zeros", kInt, x)
}

// Exponential is e**x of floats and complex numbers.
func (b *Builder) Exponential(x Value) Value { return b.unary("stablehlo.exponential", kFC, x) }

// ExponentialMinusOne is e**x - 1, exact near zero.
func (b *Builder) ExponentialMinusOne(x Value) Value {
	return b.unary("stablehlo.exponential_minus_one", kFC, x)
}

// Floor rounds floats down.
func (b *Builder) Floor(x Value) Value { return b.unary("stablehlo.floor", kFloat, x) }

// Imag is the imaginary part of a complex x, zero for a float.
func (b *Builder) Imag(x Value) Value { return b.part("stablehlo.imag", x) }

// Real is the real part of a complex x, x itself for a float.
func (b *Builder) Real(x Value) Value { return b.part("stablehlo.real", x) }

func (b *Builder) part(op string, x Value) Value {
	if !b.has(op, kFC, x) {
		return Value{s: x.s}
	}
	return b.op1(op, x.s.With(x.DType().ToReal()), x)
}

// IsFinite tells floats from infinities and NaN; the result is of type i1.
func (b *Builder) IsFinite(x Value) Value {
	const op = "stablehlo.is_finite"
	if !b.has(op, kFloat, x) {
		return Value{s: x.Shape().With(dtype.Bool)}
	}
	return b.op1(op, x.s.With(dtype.Bool), x)
}

// Log is the natural logarithm of floats and complex numbers.
func (b *Builder) Log(x Value) Value { return b.unary("stablehlo.log", kFC, x) }

// LogPlusOne is log(1 + x), exact near zero.
func (b *Builder) LogPlusOne(x Value) Value { return b.unary("stablehlo.log_plus_one", kFC, x) }

// Logistic is 1/(1 + e**-x).
func (b *Builder) Logistic(x Value) Value { return b.unary("stablehlo.logistic", kFC, x) }

// Negate is -x; unsigned integers wrap.
func (b *Builder) Negate(x Value) Value { return b.unary("stablehlo.negate", kInt|kFC, x) }

// Not is the logical complement of i1 and the bitwise one of integers.
func (b *Builder) Not(x Value) Value { return b.unary("stablehlo.not", kBits, x) }

// Popcnt counts the set bits of integers.
func (b *Builder) Popcnt(x Value) Value { return b.unary("stablehlo.popcnt", kInt, x) }

// RoundNearestAfz rounds floats to the nearest integer, halves away from zero.
func (b *Builder) RoundNearestAfz(x Value) Value {
	return b.unary("stablehlo.round_nearest_afz", kFloat, x)
}

// RoundNearestEven rounds floats to the nearest integer, halves to even (torch.round).
func (b *Builder) RoundNearestEven(x Value) Value {
	return b.unary("stablehlo.round_nearest_even", kFloat, x)
}

// Rsqrt is 1/sqrt(x) of floats and complex numbers.
func (b *Builder) Rsqrt(x Value) Value { return b.unary("stablehlo.rsqrt", kFC, x) }

// Sign is -1, 0 or 1 (x/|x| for complex numbers); NaN and the sign of a zero are kept.
func (b *Builder) Sign(x Value) Value { return b.unary("stablehlo.sign", kSigned|kFC, x) }

// Sine of floats and complex numbers.
func (b *Builder) Sine(x Value) Value { return b.unary("stablehlo.sine", kFC, x) }

// Sqrt is the square root of floats and complex numbers.
func (b *Builder) Sqrt(x Value) Value { return b.unary("stablehlo.sqrt", kFC, x) }

// Tan is the tangent of floats and complex numbers.
func (b *Builder) Tan(x Value) Value { return b.unary("stablehlo.tan", kFC, x) }

// Tanh is the hyperbolic tangent of floats and complex numbers.
func (b *Builder) Tanh(x Value) Value { return b.unary("stablehlo.tanh", kFC, x) }

// Add is x + y; logical or for i1. Operands of every binary operation have one shape and type.
func (b *Builder) Add(x, y Value) Value { return b.binary("stablehlo.add", kAll, x, y) }

// Subtract is x - y; not defined for i1.
func (b *Builder) Subtract(x, y Value) Value {
	return b.binary("stablehlo.subtract", kInt|kFC, x, y)
}

// Multiply is x * y; logical and for i1.
func (b *Builder) Multiply(x, y Value) Value { return b.binary("stablehlo.multiply", kAll, x, y) }

// Divide is x / y; integers round toward zero, x/0 is -1 for integers in XLA.
func (b *Builder) Divide(x, y Value) Value { return b.binary("stablehlo.divide", kInt|kFC, x, y) }

// Remainder has the sign of x (C's fmod and %).
func (b *Builder) Remainder(x, y Value) Value {
	return b.binary("stablehlo.remainder", kInt|kFC, x, y)
}

// Maximum is the larger operand, NaN if one is; logical or for i1.
func (b *Builder) Maximum(x, y Value) Value { return b.binary("stablehlo.maximum", kAll, x, y) }

// Minimum is the smaller operand, NaN if one is; logical and for i1.
func (b *Builder) Minimum(x, y Value) Value { return b.binary("stablehlo.minimum", kAll, x, y) }

// Power is x**y.
func (b *Builder) Power(x, y Value) Value { return b.binary("stablehlo.power", kInt|kFC, x, y) }

// Atan2 is the angle of the point whose ordinate is x and whose abscissa is y.
func (b *Builder) Atan2(x, y Value) Value { return b.binary("stablehlo.atan2", kFC, x, y) }

// And is logical for i1, bitwise for integers.
func (b *Builder) And(x, y Value) Value { return b.binary("stablehlo.and", kBits, x, y) }

// Or is logical for i1, bitwise for integers.
func (b *Builder) Or(x, y Value) Value { return b.binary("stablehlo.or", kBits, x, y) }

// Xor is logical for i1, bitwise for integers.
func (b *Builder) Xor(x, y Value) Value { return b.binary("stablehlo.xor", kBits, x, y) }

// ShiftLeft shifts integers; a shift by the width or more gives zero.
func (b *Builder) ShiftLeft(x, y Value) Value { return b.binary("stablehlo.shift_left", kInt, x, y) }

// ShiftRightArithmetic copies the sign bit; a shift by the width or more gives 0 or -1.
func (b *Builder) ShiftRightArithmetic(x, y Value) Value {
	return b.binary("stablehlo.shift_right_arithmetic", kInt, x, y)
}

// ShiftRightLogical fills with zeros.
func (b *Builder) ShiftRightLogical(x, y Value) Value {
	return b.binary("stablehlo.shift_right_logical", kInt, x, y)
}

// Complex makes complex numbers of two tensors of f32 or f64.
func (b *Builder) Complex(re, im Value) Value {
	const op = "stablehlo.complex"
	if !b.same(op, re, im) {
		return Value{s: re.s}
	}
	if d := re.DType(); d != dtype.F32 && d != dtype.F64 {
		return b.fail(op, "not defined for element type "+d.String(), re, im)
	}
	return b.op1(op, re.s.With(re.DType().ToComplex()), re, im)
}

// Direction is the relation that Compare tests.
type Direction string

// The relations, spelled as in the specification.
const (
	EQ Direction = "EQ"
	NE Direction = "NE"
	LT Direction = "LT"
	LE Direction = "LE"
	GT Direction = "GT"
	GE Direction = "GE"
)

// Compare tests x against y; the result is of type i1. NaN is unequal to everything. Complex
// operands have only EQ and NE.
func (b *Builder) Compare(x, y Value, dir Direction) Value {
	typ := "UNSIGNED"
	switch kindOf(x.DType()) {
	case kWide, kF8, kComplex:
		typ = "FLOAT"
	case kSigned:
		typ = "SIGNED"
	}
	return b.compare(x, y, dir, typ)
}

// CompareTotal is Compare with IEEE 754's total order of floats:
// -NaN < -inf < … < -0 < 0 < … < inf < NaN.
func (b *Builder) CompareTotal(x, y Value, dir Direction) Value {
	if !b.has("stablehlo.compare", kFloat, x) {
		return Value{s: x.Shape().With(dtype.Bool)}
	}
	return b.compare(x, y, dir, "TOTALORDER")
}

func (b *Builder) compare(x, y Value, dir Direction, typ string) Value {
	const op = "stablehlo.compare"
	out := x.Shape().With(dtype.Bool)
	if !b.same(op, x, y) {
		return Value{s: out}
	}
	switch dir {
	case EQ, NE:
	case LT, LE, GT, GE:
		if x.DType().IsComplex() {
			b.fail(op, "complex numbers have no order", x, y)
			return Value{s: out}
		}
	default:
		b.fail(op, "no such direction: "+string(dir), x, y)
		return Value{s: out}
	}
	b.attrRaw("comparison_direction", "#stablehlo<comparison_direction ", string(dir), ">")
	b.attrRaw("compare_type", "#stablehlo<comparison_type ", typ, ">")
	return b.op1(op, out, x, y)
}

// Select takes x where pred is true and y elsewhere. pred is of type i1 and of x's dimensions or of
// rank 0.
func (b *Builder) Select(pred, x, y Value) Value {
	const op = "stablehlo.select"
	if x.s != y.s || x.s == nil {
		b.fail(op, "branches differ in shape or element type", pred, x, y)
		return Value{s: x.s}
	}
	if p := pred.Shape(); p != shape.Of(dtype.Bool, nil) && p != x.s.With(dtype.Bool) {
		b.fail(op, "the predicate does not fit", pred, x, y)
		return Value{s: x.s}
	}
	return b.op1(op, x.s, pred, x, y)
}

// Clamp limits x to [lo, hi], each of x's shape or of rank 0.
func (b *Builder) Clamp(lo, x, hi Value) Value {
	const op = "stablehlo.clamp"
	if !b.has(op, kReal, x) {
		return Value{s: x.s}
	}
	for _, l := range []Value{lo, hi} {
		if l.s != x.s && l.s != shape.Of(x.DType(), nil) {
			b.fail(op, "a limit does not fit", lo, x, hi)
			return Value{s: x.s}
		}
	}
	return b.op1(op, x.s, lo, x, hi)
}

// Convert changes the element type; x itself if it has that type already. Floats are cut off toward
// zero, anything but zero is true, a real number becomes the real part.
func (b *Builder) Convert(x Value, d dtype.DType) Value {
	const op = "stablehlo.convert"
	if d == dtype.Invalid || x.DType() == dtype.Invalid {
		return b.fail(op, "no element type", x)
	}
	if x.DType() == d {
		return x
	}
	return b.op1(op, x.s.With(d), x)
}

// BitcastConvert reads the bits as another element type. Between types of different size the last
// dimension appears (to the smaller) or must have the ratio of sizes and disappears (to the larger).
func (b *Builder) BitcastConvert(x Value, d dtype.DType) Value {
	const op = "stablehlo.bitcast_convert"
	from := x.DType()
	if d == dtype.Invalid || from == dtype.Invalid || (d == dtype.Bool) != (from == dtype.Bool) || d.IsComplex() != from.IsComplex() {
		return b.fail(op, "no bitcast to "+d.String(), x)
	}
	dims := append([]int64(nil), x.Dims()...)
	switch in, to := from.Size(), d.Size(); {
	case in > to:
		dims = append(dims, int64(in/to))
	case in < to:
		if len(dims) == 0 || dims[len(dims)-1] != int64(to/in) {
			return b.fail(op, "the last dimension does not hold whole elements of "+d.String(), x)
		}
		dims = dims[:len(dims)-1]
	}
	return b.op1(op, shape.Of(d, dims), x)
}

// ReducePrecision rounds floats to a format with this many exponent and mantissa bits and back.
func (b *Builder) ReducePrecision(x Value, exponentBits, mantissaBits int) Value {
	const op = "stablehlo.reduce_precision"
	if !b.has(op, kFloat, x) {
		return Value{s: x.s}
	}
	if exponentBits < 1 || mantissaBits < 0 {
		return b.fail(op, "a negative number of bits", x)
	}
	b.attrInt32("exponent_bits", int64(exponentBits))
	b.attrInt32("mantissa_bits", int64(mantissaBits))
	return b.op1(op, x.s, x)
}
