package dtype

// Buffer is a type that PJRT has for the elements of buffers. More of them exist than torch has types.
type Buffer struct {
	Name string // as in PJRT_Buffer_Type_F32, and XLA's own name
	Bits int    // of an element in host memory, where one of fewer than eight takes a byte; 0 for no data
	XLA  int    // its number in xla_data.proto's PrimitiveType
}

// Buffers lists them by their numbers, those of PJRT_Buffer_Type in pjrt_c_api.h.
var Buffers = [...]Buffer{
	{"INVALID", 0, 0},
	{"PRED", 8, 1},
	{"S8", 8, 2},
	{"S16", 16, 3},
	{"S32", 32, 4},
	{"S64", 64, 5},
	{"U8", 8, 6},
	{"U16", 16, 7},
	{"U32", 32, 8},
	{"U64", 64, 9},
	{"F16", 16, 10},
	{"F32", 32, 11},
	{"F64", 64, 12},
	{"BF16", 16, 16},
	{"C64", 64, 15},
	{"C128", 128, 18},
	{"F8E5M2", 8, 19},
	{"F8E4M3FN", 8, 20},
	{"F8E4M3B11FNUZ", 8, 23},
	{"F8E5M2FNUZ", 8, 24},
	{"F8E4M3FNUZ", 8, 25},
	{"S4", 8, 21},
	{"U4", 8, 22},
	{"TOKEN", 0, 17},
	{"S2", 8, 26},
	{"U2", 8, 27},
	{"F8E4M3", 8, 28},
	{"F8E3M4", 8, 29},
	{"F8E8M0FNU", 8, 33},
	{"F4E2M1FN", 8, 32},
}

// buffer is the number of each type in Buffers.
var buffer = func() (numbers [Count]int) {
	for d := range numbers {
		for number, b := range Buffers {
			if b.Name == table[d].pjrt {
				numbers[d] = number
			}
		}
	}
	return
}()
