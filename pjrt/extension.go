package pjrt

// #include "bridge.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// ExtensionType says what an extension of a plugin's interface offers.
type ExtensionType int32

// The types that the interface numbers.
const (
	ExtGPUCustomCall ExtensionType = iota
	ExtProfiler
	ExtCustomPartitioner
	ExtStream
	ExtLayouts
	ExtFFI
	ExtMemoryDescriptions
	ExtTriton
	ExtRawBuffer
	ExtPhaseCompile
	ExtExample
	ExtUnknown
	ExtCrossHostTransfers
	ExtExecutableMetadata
	ExtCallback
	ExtHostAllocator
	ExtTPUTopology
	ExtTPUExecutable
	ExtMegascale
	ExtShardings // since 0.91
)

var extensionNames = [...]string{
	"Gpu_Custom_Call", "Profiler", "Custom_Partitioner", "Stream", "Layouts",
	"FFI", "MemoryDescriptions", "Triton", "RawBuffer", "PhaseCompile",
	"Example", "Unknown", "CrossHostTransfers", "ExecutableMetadata",
	"Callback", "HostAllocator", "TpuTopology", "TpuExecutable", "Megascale",
	"Shardings",
}

// String is the interface's name of the type.
func (t ExtensionType) String() string {
	if t >= 0 && int(t) < len(extensionNames) {
		return extensionNames[t]
	}
	return fmt.Sprintf("EXTENSION(%d)", int32(t))
}

// Extension is one link of a plugin's chain.
type Extension struct {
	Type ExtensionType
	// Size is the bytes of its structure, which tells its version.
	Size int
	// Pointer is the structure, whose layout depends on the type. It lives as long
	// as the process.
	Pointer unsafe.Pointer
}

// maxExtensions ends the walk of a chain that is tied into a ring.
const maxExtensions = 256

// Extensions lists the plugin's extensions in the order of their chain.
func (p *Plugin) Extensions() []Extension {
	var out []Extension
	for e := p.api.extension_start; e != nil && len(out) < maxExtensions; e = e.next {
		out = append(out, Extension{ExtensionType(e._type), int(e.struct_size), unsafe.Pointer(e)})
	}
	return out
}

// Extension finds the first extension of a type.
func (p *Plugin) Extension(t ExtensionType) (Extension, bool) {
	for _, e := range p.Extensions() {
		if e.Type == t {
			return e, true
		}
	}
	return Extension{}, false
}
