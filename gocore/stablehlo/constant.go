package stablehlo

import (
	"fmt"
	"math"
	"strconv"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Scalar is a number to make constants of. Make one with Bool, Int, Uint, Float or Complex.
type Scalar struct {
	kind scalarKind
	bits uint64  // Bool, Int, Uint
	re   float64 // Float, Complex
	im   float64
}

type scalarKind uint8

const (
	scalarInt scalarKind = iota
	scalarUint
	scalarBool
	scalarFloat
	scalarComplex
)

// Bool is a truth value.
func Bool(x bool) Scalar {
	if x {
		return Scalar{kind: scalarBool, bits: 1}
	}
	return Scalar{kind: scalarBool}
}

// Int is a signed integer.
func Int(x int64) Scalar { return Scalar{kind: scalarInt, bits: uint64(x)} }

// Uint is an unsigned integer.
func Uint(x uint64) Scalar { return Scalar{kind: scalarUint, bits: x} }

// Float is a real number.
func Float(x float64) Scalar { return Scalar{kind: scalarFloat, re: x} }

// Complex is a complex number.
func Complex(x complex128) Scalar { return Scalar{kind: scalarComplex, re: real(x), im: imag(x)} }

// float is the scalar's real part.
func (x Scalar) float() float64 {
	switch x.kind {
	case scalarInt:
		return float64(int64(x.bits))
	case scalarUint, scalarBool:
		return float64(x.bits)
	}
	return x.re
}

// integer is the scalar as 64 bits; a fraction is cut off. ok is false for what no 64 bits hold.
func (x Scalar) integer() (bits uint64, ok bool) {
	if x.kind == scalarComplex && x.im != 0 {
		return 0, false
	}
	if x.kind < scalarFloat {
		return x.bits, true
	}
	switch f := math.Trunc(x.re); {
	case f >= -1<<63 && f < 1<<63:
		return uint64(int64(f)), true
	case f >= 1<<63 && f < 1<<64:
		return uint64(f), true
	}
	return 0, false
}

func (x Scalar) nonzero() bool {
	if x.kind < scalarFloat {
		return x.bits != 0
	}
	return x.re != 0 || x.im != 0
}

type constKey struct {
	s    *shape.Shape
	x    [3]uint64
	mark *Marking
}

// Splat is a constant of shape s that holds x everywhere, converted to the element type as a C cast does. Integers
// wrap, fractions are cut off, anything but zero is true, floats are rounded to nearest even. A complex number for a
// real type, and a float that no 64-bit integer holds for an integer type, are errors. The same constant made twice in
// one region is written once.
func (b *Builder) Splat(s *shape.Shape, x Scalar) Value {
	const op = "stablehlo.constant"
	if !valid(s) {
		b.fail(op, "constant of type "+s.String())
		return Value{s: s}
	}
	if b.found() && s.Rank() > 0 {
		return b.BroadcastInDim(b.Splat(shape.Of(s.DType, nil), x), s.Dims, nil)
	}
	key := constKey{s, [3]uint64{uint64(x.kind) | x.bits<<3, math.Float64bits(x.re), x.bits ^ math.Float64bits(x.im)}, b.mark}
	if v, ok := b.consts[key]; ok && v.scope == b.scope() {
		return v
	}
	b.attrName("value")
	b.attrs = append(b.attrs, "dense<"...)
	if s.Numel() > 0 {
		var ok bool
		if b.attrs, ok = appendScalar(b.attrs, s.DType, x); !ok {
			b.attrs = b.attrs[:0]
			b.fail(op, "the number "+x.String()+" cannot be converted to "+s.DType.String())
			return Value{s: s}
		}
	}
	b.attrs = append(b.attrs, "> : "...)
	b.attrs = appendType(b.attrs, s)
	v := b.source(op, s)
	if v.scope != 0 {
		b.consts[key] = v
	}
	return v
}

// source writes an operation without operands, whose attributes are in b.attrs.
func (b *Builder) source(op string, s *shape.Shape) Value {
	if !b.marks() {
		return b.op1(op, s)
	}
	m := b.Mark(nil)
	defer b.Mark(m)
	return m.Constant(b.op1(op, s))
}

// String prints the number.
func (x Scalar) String() string {
	switch x.kind {
	case scalarInt:
		return strconv.FormatInt(int64(x.bits), 10)
	case scalarUint:
		return strconv.FormatUint(x.bits, 10)
	case scalarBool:
		return strconv.FormatBool(x.bits != 0)
	case scalarFloat:
		return strconv.FormatFloat(x.re, 'g', -1, 64)
	}
	return strconv.FormatComplex(complex(x.re, x.im), 'g', -1, 128)
}

// Scalar is a constant of rank 0.
func (b *Builder) Scalar(d dtype.DType, x Scalar) Value { return b.Splat(shape.Of(d, nil), x) }

// ConstLike is a constant of x's shape and type that holds v everywhere.
func (b *Builder) ConstLike(x Value, v float64) Value { return b.Splat(x.Shape(), Float(v)) }

// SplatLike is ConstLike for any Scalar.
func (b *Builder) SplatLike(x Value, v Scalar) Value { return b.Splat(x.Shape(), v) }

// MinValue is the constant of rank 0 that is the identity of Maximum. It is -inf for floats (the lowest finite value
// for a type without infinities), false for i1. Complex types have none.
func (b *Builder) MinValue(d dtype.DType) Value { return b.extreme(d, true) }

// MaxValue is the constant of rank 0 that is the identity of Minimum. It is inf for floats (the highest finite value
// for a type without infinities), true for i1. Complex types have none.
func (b *Builder) MaxValue(d dtype.DType) Value { return b.extreme(d, false) }

func (b *Builder) extreme(d dtype.DType, low bool) Value {
	sign := 1
	if low {
		sign = -1
	}
	bits := uint(d.Size() * 8)
	switch {
	case d == dtype.Bool:
		return b.Scalar(d, Bool(!low))
	case d == dtype.F8E4M3FN:
		return b.Scalar(d, Float(float64(sign)*448))
	case d == dtype.F8E4M3FNUZ:
		return b.Scalar(d, Float(float64(sign)*240))
	case d == dtype.F8E8M0FNU && low:
		return b.Scalar(d, Float(0))
	case d == dtype.F8E8M0FNU:
		return b.Scalar(d, Float(0x1p127))
	case d == dtype.F8E5M2FNUZ:
		return b.Scalar(d, Float(float64(sign)*57344))
	case d.IsFloat():
		return b.Scalar(d, Float(math.Inf(sign)))
	case d.IsUnsigned() && low:
		return b.Scalar(d, Uint(0))
	case d.IsUnsigned():
		return b.Scalar(d, Uint(^uint64(0)>>(64-bits)))
	case d.IsInt() && low:
		return b.Scalar(d, Int(-1<<(bits-1)))
	case d.IsInt():
		return b.Scalar(d, Int(1<<(bits-1)-1))
	}
	b.fail("stablehlo.constant", "no least or greatest value of type "+d.String())
	return Value{s: shape.Of(d, nil)}
}

// appendScalar prints x as an element of type d, exactly.
func appendScalar(out []byte, d dtype.DType, x Scalar) (text []byte, ok bool) {
	switch {
	case d == dtype.Bool:
		return strconv.AppendBool(out, x.nonzero()), true
	case d.IsInt():
		bits, ok := x.integer()
		if !ok {
			return out, false
		}
		return appendInteger(out, d, bits), true
	case d.IsComplex():
		out = append(out, '(')
		out = appendFloat(out, d.ToReal(), x.float())
		out = append(out, ", "...)
		out = appendFloat(out, d.ToReal(), x.im)
		return append(out, ')'), true
	case d.IsFloat():
		if x.kind == scalarComplex && x.im != 0 {
			return out, false
		}
		return appendFloat(out, d, x.float()), true
	}
	return out, false
}

// appendInteger prints the low bits of x as a number of type d.
func appendInteger(out []byte, d dtype.DType, x uint64) []byte {
	shift := uint(64 - d.Size()*8)
	if d.IsUnsigned() {
		return strconv.AppendUint(out, x<<shift>>shift, 10)
	}
	return strconv.AppendInt(out, int64(x<<shift)>>shift, 10)
}

// special holds the bit patterns of the values that have no decimal form, as MLIR's hexadecimal
// float literals. A type without infinities turns them into its NaN, one without a negative zero
// has a zero there.
type special struct{ nan, inf, negInf, negZero string }

var specials = map[dtype.DType]special{
	dtype.F64:        {"0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000", "0x8000000000000000"},
	dtype.F32:        {"0x7FC00000", "0x7F800000", "0xFF800000", "0x80000000"},
	dtype.F16:        {"0x7E00", "0x7C00", "0xFC00", "0x8000"},
	dtype.BF16:       {"0x7FC0", "0x7F80", "0xFF80", "0x8000"},
	dtype.F8E5M2:     {"0x7E", "0x7C", "0xFC", "0x80"},
	dtype.F8E4M3FN:   {"0x7F", "0x7F", "0xFF", "0x80"},
	dtype.F8E4M3FNUZ: {"0x80", "0x80", "0x80", "0.0"},
	dtype.F8E5M2FNUZ: {"0x80", "0x80", "0x80", "0.0"},
}

// appendFloat prints x so that MLIR, which reads a double and rounds it to nearest even, gets the
// value of type d nearest to x.
func appendFloat(out []byte, d dtype.DType, x float64) []byte {
	switch {
	case d == dtype.F8E8M0FNU:
		return fmt.Appendf(out, "0x%02X", exponent(x))
	case x != x:
		return append(out, specials[d].nan...)
	case math.IsInf(x, 1):
		return append(out, specials[d].inf...)
	case math.IsInf(x, -1):
		return append(out, specials[d].negInf...)
	case x == 0 && math.Signbit(x):
		return append(out, specials[d].negZero...)
	}
	return appendDecimal(out, x)
}

// exponent is the element of type F8E8M0FNU that torch casts a number to. The type has neither sign nor zero: zero and
// what is smaller become its least value.
func exponent(x float64) byte {
	bits := math.Float32bits(float32(x)) &^ (1 << 31)
	e, half := byte(bits>>23), bits&(1<<22) != 0
	switch {
	case e == 0xff:
	case half && (e > 0 || bits&(1<<22-1) != 0):
		e++
	}
	return e
}

// appendDecimal prints the shortest decimal that reads back as x, with the point that MLIR wants.
func appendDecimal(out []byte, x float64) []byte {
	n := len(out)
	out = strconv.AppendFloat(out, x, 'g', -1, 64)
	for i := n; i < len(out); i++ {
		switch out[i] {
		case '.':
			return out
		case 'e':
			out = append(out, ".0"...)
			copy(out[i+2:], out[i:])
			out[i], out[i+1] = '.', '0'
			return out
		}
	}
	return append(out, ".0"...)
}

func appendFloat32(out []byte, x float32) []byte { return appendFloat(out, dtype.F32, float64(x)) }
