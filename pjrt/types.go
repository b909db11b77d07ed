// Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit.

package pjrt

// The element types. The names are XLA's: S signed, U unsigned, F and BF
// floating point, C complex, Pred a boolean in one byte, Token no data.
const (
	InvalidType   Type = 0
	Pred          Type = 1
	S8            Type = 2
	S16           Type = 3
	S32           Type = 4
	S64           Type = 5
	U8            Type = 6
	U16           Type = 7
	U32           Type = 8
	U64           Type = 9
	F16           Type = 10
	F32           Type = 11
	F64           Type = 12
	BF16          Type = 13
	C64           Type = 14
	C128          Type = 15
	F8E5M2        Type = 16
	F8E4M3FN      Type = 17
	F8E4M3B11FNUZ Type = 18
	F8E5M2FNUZ    Type = 19
	F8E4M3FNUZ    Type = 20
	S4            Type = 21
	U4            Type = 22
	Token         Type = 23
	S2            Type = 24
	U2            Type = 25
	F8E4M3        Type = 26
	F8E3M4        Type = 27
	F8E8M0FNU     Type = 28
	F4E2M1FN      Type = 29
)

// types lists name and bits by number.
var types = [...]struct {
	name string
	bits int
}{
	{"INVALID", 0},
	{"PRED", 8},
	{"S8", 8},
	{"S16", 16},
	{"S32", 32},
	{"S64", 64},
	{"U8", 8},
	{"U16", 16},
	{"U32", 32},
	{"U64", 64},
	{"F16", 16},
	{"F32", 32},
	{"F64", 64},
	{"BF16", 16},
	{"C64", 64},
	{"C128", 128},
	{"F8E5M2", 8},
	{"F8E4M3FN", 8},
	{"F8E4M3B11FNUZ", 8},
	{"F8E5M2FNUZ", 8},
	{"F8E4M3FNUZ", 8},
	{"S4", 8},
	{"U4", 8},
	{"TOKEN", 0},
	{"S2", 8},
	{"U2", 8},
	{"F8E4M3", 8},
	{"F8E3M4", 8},
	{"F8E8M0FNU", 8},
	{"F4E2M1FN", 8},
}
