// Package dtype names the element types that torch, StableHLO, PJRT and DLPack share, in one table.
//
// The printed form of a type is its StableHLO name (f32, i64, i1, complex<f32>, …), so that
// IR text, StableHLO text and error messages agree. What C, C++ and Python know of a type is generated from
// the table, by `go generate ./gocore/wire`. The package imports nothing of the project.
package dtype

import "math"

// DType is an element type. The zero value is Invalid.
type DType uint8

// The element types. Their order is private to the process (persistent data uses names), but the 8-bit floats stay
// together: see IsF8. For a new type, HACKING.md lists what is written by hand.
const (
	Invalid DType = iota
	Bool
	U8
	I8
	I16
	I32
	I64
	U16
	U32
	U64
	F16
	BF16
	F32
	F64
	C64
	C128
	F8E4M3FN
	F8E5M2
	F8E4M3FNUZ
	F8E5M2FNUZ
	F8E8M0FNU
	// Count is the number of rows of the table.
	Count
)

// Kind groups types by torch's promotion categories.
type Kind uint8

// The promotion categories, in ascending order of torch's lattice.
const (
	KindInvalid Kind = iota
	KindBool
	KindInt
	KindFloat
	KindComplex
)

// row is one line of the table: every name and number of one type.
type row struct {
	torch string // attribute of the torch module
	c10   string // name of the c10::ScalarType, as in torch's error messages
	code  int    // c10::ScalarType, the number that torch's C interface uses
	hlo   string // StableHLO element type
	pjrt  string // PJRT_Buffer_Type; see Buffers
	dl    uint8  // DLDataTypeCode; its bits are those of the size
	size  int    // bytes per element
	kind  Kind
}

// Sources: c10/core/ScalarType.h, the StableHLO specification ("Types"), pjrt_c_api.h, dlpack.h.
var table = [Count]row{
	Invalid:    {"", "Undefined", -1, "invalid", "INVALID", 0, 0, KindInvalid},
	Bool:       {"bool", "Bool", 11, "i1", "PRED", 6, 1, KindBool},
	U8:         {"uint8", "Byte", 0, "ui8", "U8", 1, 1, KindInt},
	I8:         {"int8", "Char", 1, "i8", "S8", 0, 1, KindInt},
	I16:        {"int16", "Short", 2, "i16", "S16", 0, 2, KindInt},
	I32:        {"int32", "Int", 3, "i32", "S32", 0, 4, KindInt},
	I64:        {"int64", "Long", 4, "i64", "S64", 0, 8, KindInt},
	U16:        {"uint16", "UInt16", 27, "ui16", "U16", 1, 2, KindInt},
	U32:        {"uint32", "UInt32", 28, "ui32", "U32", 1, 4, KindInt},
	U64:        {"uint64", "UInt64", 29, "ui64", "U64", 1, 8, KindInt},
	F16:        {"float16", "Half", 5, "f16", "F16", 2, 2, KindFloat},
	BF16:       {"bfloat16", "BFloat16", 15, "bf16", "BF16", 4, 2, KindFloat},
	F32:        {"float32", "Float", 6, "f32", "F32", 2, 4, KindFloat},
	F64:        {"float64", "Double", 7, "f64", "F64", 2, 8, KindFloat},
	C64:        {"complex64", "ComplexFloat", 9, "complex<f32>", "C64", 5, 8, KindComplex},
	C128:       {"complex128", "ComplexDouble", 10, "complex<f64>", "C128", 5, 16, KindComplex},
	F8E4M3FN:   {"float8_e4m3fn", "Float8_e4m3fn", 24, "f8E4M3FN", "F8E4M3FN", 10, 1, KindFloat},
	F8E5M2:     {"float8_e5m2", "Float8_e5m2", 23, "f8E5M2", "F8E5M2", 12, 1, KindFloat},
	F8E4M3FNUZ: {"float8_e4m3fnuz", "Float8_e4m3fnuz", 26, "f8E4M3FNUZ", "F8E4M3FNUZ", 11, 1, KindFloat},
	F8E5M2FNUZ: {"float8_e5m2fnuz", "Float8_e5m2fnuz", 25, "f8E5M2FNUZ", "F8E5M2FNUZ", 13, 1, KindFloat},
	F8E8M0FNU:  {"float8_e8m0fnu", "Float8_e8m0fnu", 44, "f8E8M0FNU", "F8E8M0FNU", 14, 1, KindFloat},
}

const maxTorchCode = 64

var byCode = func() (t [maxTorchCode]DType) {
	for d := Bool; d < Count; d++ {
		t[table[d].code] = d
	}
	return
}()

var byHLO = func() map[string]DType {
	m := make(map[string]DType, Count)
	for d := Bool; d < Count; d++ {
		m[table[d].hlo] = d
	}
	return m
}()

// FromTorch returns the type of a c10::ScalarType number, Invalid for one that has no row.
func FromTorch(code int) DType {
	if code < 0 || code >= maxTorchCode {
		return Invalid
	}
	return byCode[code]
}

// Parse returns the type of a StableHLO name, Invalid for an unknown one.
func Parse(hlo string) DType { return byHLO[hlo] }

// String is the StableHLO name.
func (d DType) String() string {
	if d >= Count {
		return "invalid"
	}
	return table[d].hlo
}

// Torch is the name as an attribute of the torch module ("float32").
func (d DType) Torch() string { return table[d].torch }

// C10 is the name of the c10::ScalarType ("Float"), as torch's error messages print it.
func (d DType) C10() string { return table[d].c10 }

// TorchCode is the c10::ScalarType number.
func (d DType) TorchCode() int { return table[d].code }

// PJRT is the PJRT_Buffer_Type number.
func (d DType) PJRT() int { return buffer[d] }

// PJRTName is the name of the PJRT_Buffer_Type ("F32").
func (d DType) PJRTName() string { return table[d].pjrt }

// DLPack is the DLDataTypeCode, which with the bits of an element is DLPack's type.
func (d DType) DLPack() int { return int(table[d].dl) }

// Size is the bytes that one element takes in a buffer (i1 takes one byte).
func (d DType) Size() int { return table[d].size }

// Kind is the promotion category.
func (d DType) Kind() Kind { return table[d].kind }

// IsFloat reports a real floating type, fp8 included.
func (d DType) IsFloat() bool { return table[d].kind == KindFloat }

// IsComplex reports a complex type.
func (d DType) IsComplex() bool { return table[d].kind == KindComplex }

// IsInt reports an integer type, Bool excluded.
func (d DType) IsInt() bool { return table[d].kind == KindInt }

// IsIntegral reports an integer type or Bool (torch's isIntegralType(includeBool=true)).
func (d DType) IsIntegral() bool { return table[d].kind == KindInt || table[d].kind == KindBool }

// IsUnsigned reports an unsigned integer type; Bool is not one.
func (d DType) IsUnsigned() bool { return d == U8 || d == U16 || d == U32 || d == U64 }

// Range is the least and the greatest value of an integer type or Bool, as far as an int64 holds them. That of uint64
// ends at the greatest int64.
func (d DType) Range() (low, high int64) {
	switch bits := 8 * d.Size(); {
	case d == Bool:
		return 0, 1
	case d == U64:
		return 0, math.MaxInt64
	case d.IsUnsigned():
		return 0, 1<<bits - 1
	default:
		return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
	}
}

// IsF8 reports an 8-bit floating type.
func (d DType) IsF8() bool { return d >= F8E4M3FN && d <= F8E8M0FNU }

// ToReal is the component type of a complex type, and d itself for others.
func (d DType) ToReal() DType {
	switch d {
	case C64:
		return F32
	case C128:
		return F64
	}
	return d
}

// ToComplex is torch's toComplexType for float types (f16 and bf16 take complex64).
func (d DType) ToComplex() DType {
	switch d {
	case F64, C128:
		return C128
	}
	return C64
}

// Accumulate is the type in which torch's CPU kernels compute a value of d ("opmath"): f32 for the
// reduced-precision floats, d itself for others.
func (d DType) Accumulate() DType {
	if d == F16 || d == BF16 || d.IsF8() {
		return F32
	}
	return d
}
