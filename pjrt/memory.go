package pjrt

// #include "bridge.h"
import "C"

import "unsafe"

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
	C.PJC_MEM_STAGE:   "staged arrays",
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

// Stage is zeroed memory of the host for an array on its way, nil if the host has none; bytes is positive. It is not
// Go's memory, since Go ends the process where it gets none. Unstage frees it.
func Stage(bytes int64) unsafe.Pointer {
	return C.pjc_alloc(C.PJC_MEM_STAGE, C.size_t(bytes))
}

// NewOwned is memory of the host for an array, with its owner; it has no address if the host has none. Adopt takes it,
// or FreeOwned frees it.
func NewOwned(bytes int64) Owned {
	at := C.pjc_array(C.size_t(bytes))
	return Owned{Address: at, Free: unsafe.Pointer(C.pjc_array_free), Owner: at}
}

// FreeOwned frees what NewOwned gave and no one has adopted.
func FreeOwned(m Owned) { C.pjc_array_free(m.Address, m.Owner) }

// Unstage frees what Stage gave, of the same number of bytes; nil is allowed.
func Unstage(at unsafe.Pointer, bytes int64) {
	C.pjc_free(C.PJC_MEM_STAGE, at, C.size_t(bytes))
}
