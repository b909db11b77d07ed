package pjrt

// #include "bridge.h"
import "C"

import "fmt"

// Type is the type of a buffer's elements, in PJRT's numbering.
type Type int32

// The element types. The names are XLA's: S signed, U unsigned, F and BF
// floating point, C complex, Pred a boolean in one byte, Token no data.
const (
	InvalidType   Type = C.PJ_TYPE_INVALID
	Pred          Type = C.PJ_TYPE_PRED
	S8            Type = C.PJ_TYPE_S8
	S16           Type = C.PJ_TYPE_S16
	S32           Type = C.PJ_TYPE_S32
	S64           Type = C.PJ_TYPE_S64
	U8            Type = C.PJ_TYPE_U8
	U16           Type = C.PJ_TYPE_U16
	U32           Type = C.PJ_TYPE_U32
	U64           Type = C.PJ_TYPE_U64
	F16           Type = C.PJ_TYPE_F16
	F32           Type = C.PJ_TYPE_F32
	F64           Type = C.PJ_TYPE_F64
	BF16          Type = C.PJ_TYPE_BF16
	C64           Type = C.PJ_TYPE_C64
	C128          Type = C.PJ_TYPE_C128
	F8E5M2        Type = C.PJ_TYPE_F8E5M2
	F8E4M3FN      Type = C.PJ_TYPE_F8E4M3FN
	F8E4M3B11FNUZ Type = C.PJ_TYPE_F8E4M3B11FNUZ
	F8E5M2FNUZ    Type = C.PJ_TYPE_F8E5M2FNUZ
	F8E4M3FNUZ    Type = C.PJ_TYPE_F8E4M3FNUZ
	S4            Type = C.PJ_TYPE_S4
	U4            Type = C.PJ_TYPE_U4
	Token         Type = C.PJ_TYPE_TOKEN
	S2            Type = C.PJ_TYPE_S2
	U2            Type = C.PJ_TYPE_U2
	F8E4M3        Type = C.PJ_TYPE_F8E4M3
	F8E3M4        Type = C.PJ_TYPE_F8E3M4
	F8E8M0FNU     Type = C.PJ_TYPE_F8E8M0FNU
	F4E2M1FN      Type = C.PJ_TYPE_F4E2M1FN
)

// types lists name and bits by number; abi.h has the same table, and a test
// compares them.
var types = [...]struct {
	name string
	bits int
}{
	{"INVALID", 0}, {"PRED", 8}, {"S8", 8}, {"S16", 16}, {"S32", 32},
	{"S64", 64}, {"U8", 8}, {"U16", 16}, {"U32", 32}, {"U64", 64},
	{"F16", 16}, {"F32", 32}, {"F64", 64}, {"BF16", 16}, {"C64", 64},
	{"C128", 128}, {"F8E5M2", 8}, {"F8E4M3FN", 8}, {"F8E4M3B11FNUZ", 8},
	{"F8E5M2FNUZ", 8}, {"F8E4M3FNUZ", 8}, {"S4", 8}, {"U4", 8}, {"TOKEN", 0},
	{"S2", 8}, {"U2", 8}, {"F8E4M3", 8}, {"F8E3M4", 8}, {"F8E8M0FNU", 8},
	{"F4E2M1FN", 8},
}

// String is the name that XLA gives the type, such as BF16.
func (t Type) String() string {
	if t >= 0 && int(t) < len(types) {
		return types[t].name
	}
	return fmt.Sprintf("TYPE(%d)", int32(t))
}

// Size is the bytes that one element takes in host memory, where types of fewer
// than eight bits take one byte each; 0 for InvalidType and Token.
func (t Type) Size() int {
	if t >= 0 && int(t) < len(types) {
		return types[t].bits / 8
	}
	return 0
}
