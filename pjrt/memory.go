package pjrt

// #include "bridge.h"
import "C"

// MemoryCounter is how much C memory the client holds for one purpose.
type MemoryCounter struct {
	Purpose       string
	Bytes, Blocks int64
}

var memoryPurposes = [C.PJC_MEM_COUNT]string{
	C.PJC_MEM_CALL:    "call arguments",
	C.PJC_MEM_OPTIONS: "client options",
	C.PJC_MEM_WATCH:   "watched events",
	C.PJC_MEM_KV:      "key-value requests",
}

// MemoryCounters lists the C memory that this package holds in the process, by
// purpose. Plugins' own memory is not in it.
func MemoryCounters() []MemoryCounter {
	out := make([]MemoryCounter, len(memoryPurposes))
	for i, purpose := range memoryPurposes {
		var bytes, blocks C.int64_t
		C.pjc_memory(C.int(i), &bytes, &blocks)
		out[i] = MemoryCounter{purpose, int64(bytes), int64(blocks)}
	}
	return out
}
