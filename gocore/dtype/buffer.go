package dtype

// Buffer is a type that PJRT has for the elements of buffers. More of them exist than torch has types.
type Buffer struct {
	Name string // as in PJRT_Buffer_Type_F32, and XLA's own name
	Bits int    // of an element in host memory, where one of fewer than eight takes a byte; 0 for no data
}

// Buffers lists them by their numbers, those of PJRT_Buffer_Type in pjrt_c_api.h.
var Buffers = [...]Buffer{
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
