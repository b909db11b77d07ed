package pjrt

// #include "bridge.h"
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Compiled is a compiled program, as far as it can be asked about and stored. It is that of an Executable, or one for
// the devices of a Topology.
type Compiled struct {
	plugin     *Plugin
	client     *Client   // that it runs on; nil: it was compiled for a topology
	topology   *Topology // that it was compiled for, unless client
	handle     uintptr   // describes
	loaded     uintptr   // runs; 0: nowhere
	life       lifetime
	numOutputs int
	guard      closeGuard
}

// describe reads what does not change.
func (x *Compiled) describe() error {
	outputs, err := x.plugin.word(C.pj_fn_Executable_NumOutputs, x.handle)
	x.numOutputs = int(outputs)
	return err
}

// Close releases the program, or does so when the last Call prepared on it is closed. Closing again does nothing.
func (x *Compiled) Close() error {
	x.guard.done()
	if x.life.closed() || !x.life.close() {
		return nil
	}
	return x.letGo()
}

func (x *Compiled) leave() {
	if x.life.leave(1) {
		// The caller was closing something else; there is no one to tell.
		_ = x.letGo()
	}
}

func (x *Compiled) letGo() (err error) {
	if x.handle != 0 {
		err = x.plugin.do(C.pj_fn_Executable_Destroy, x.handle)
	}
	if x.client == nil {
		x.topology.leave()
		return err
	}
	err = errors.Join(err, x.plugin.do(C.pj_fn_LoadedExecutable_Destroy, x.loaded))
	x.client.live.executables.Add(-1)
	x.client.leave(1)
	return err
}

// enter holds the program during a call.
func (x *Compiled) enter(fn fnID) error {
	if x.client != nil && x.client.life.closed() {
		return closedError(fn, "the client")
	}
	if !x.life.enter() {
		return closedError(fn, "the executable")
	}
	return nil
}

// NumOutputs is the number of arrays that an execution makes on each device.
func (x *Compiled) NumOutputs() int { return x.numOutputs }

// Name is the module's name.
func (x *Compiled) Name() (string, error) { return x.text(C.pj_fn_Executable_Name) }

// Fingerprint identifies what the executable does; equal inputs and options of
// the same compiler give equal fingerprints.
func (x *Compiled) Fingerprint() (string, error) {
	s, err := x.text(C.pj_fn_Executable_Fingerprint)
	if isUnimplemented(err) && x.loaded != 0 {
		// Older plugins have it on the loaded executable only.
		if err := x.enter(C.pj_fn_LoadedExecutable_Fingerprint); err != nil {
			return "", err
		}
		defer x.leave()
		return x.plugin.text(C.pj_fn_LoadedExecutable_Fingerprint, x.loaded)
	}
	return s, err
}

func (x *Compiled) text(fn fnID) (string, error) {
	if err := x.enter(fn); err != nil {
		return "", err
	}
	defer x.leave()
	return x.plugin.text(fn, x.handle)
}

// NumReplicas is how many replicas the program was compiled for.
func (x *Compiled) NumReplicas() (int, error) { return x.count(C.pj_fn_Executable_NumReplicas) }

// NumPartitions is how many partitions the program was compiled for.
func (x *Compiled) NumPartitions() (int, error) {
	return x.count(C.pj_fn_Executable_NumPartitions)
}

// CodeSize is the bytes of the generated code, -1 if the plugin does not know.
func (x *Compiled) CodeSize() (int, error) {
	n, err := x.count(C.pj_fn_Executable_SizeOfGeneratedCodeInBytes)
	if isUnimplemented(err) {
		return -1, nil
	}
	return n, err
}

func (x *Compiled) count(fn fnID) (int, error) {
	if err := x.enter(fn); err != nil {
		return 0, err
	}
	defer x.leave()
	n, err := x.plugin.word(fn, x.handle)
	return int(n), err
}

// OutputTypes are the element types of the outputs.
func (x *Compiled) OutputTypes() ([]Type, error) {
	const fn = C.pj_fn_Executable_OutputElementTypes
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	items, count, err := x.plugin.list(fn, x.handle)
	if err != nil {
		return nil, err
	}
	return append([]Type{}, unsafe.Slice((*Type)(items), int(count))...), nil
}

// OutputDims are the shapes of the outputs in elements, on one device.
func (x *Compiled) OutputDims() ([][]int64, error) {
	const fn = C.pj_fn_Executable_OutputDimensions
	block, err := x.twoLists(fn)
	if err != nil {
		return nil, err
	}
	defer x.leave()
	out := make([][]int64, int(block.count))
	ranks := unsafe.Slice((*uintptr)(unsafe.Pointer(block.sizes)), len(out))
	at := (*int64)(unsafe.Pointer(block.items))
	for i, rank := range ranks {
		out[i] = append([]int64{}, unsafe.Slice(at, int(rank))...)
		at = (*int64)(unsafe.Add(unsafe.Pointer(at), 8*rank))
	}
	return out, nil
}

// OutputMemoryKinds are the kinds of memory that the outputs are in.
func (x *Compiled) OutputMemoryKinds() ([]string, error) {
	block, err := x.twoLists(C.pj_fn_Executable_OutputMemoryKinds)
	if err != nil {
		return nil, err
	}
	defer x.leave()
	out := make([]string, int(block.count))
	sizes := unsafe.Slice((*C.size_t)(unsafe.Pointer(block.sizes)), len(out))
	texts := unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(block.items)), len(out))
	for i := range out {
		out[i] = goText(texts[i], sizes[i])
	}
	return out, nil
}

// twoLists returns a block whose arrays belong to the executable; without an
// error the caller holds the executable and leaves it when it has read them.
func (x *Compiled) twoLists(fn fnID) (C.pj_two_lists, error) {
	block := C.pj_two_lists{object: C.uintptr_t(x.handle)}
	if err := x.enter(fn); err != nil {
		return block, err
	}
	if err := call(x.plugin, fn, &block); err != nil {
		x.leave()
		return block, err
	}
	return block, nil
}

// Serialize gives bytes that Client.DeserializeAndLoad of the same plugin version
// makes an executable of.
func (x *Compiled) Serialize() ([]byte, error) {
	return x.bytes(C.pj_fn_Executable_Serialize, x.handle)
}

// CompileOptions is the serialized CompileOptionsProto that the program was
// compiled with.
func (x *Compiled) CompileOptions() ([]byte, error) {
	return x.bytes(C.pj_fn_Executable_GetCompileOptions, x.handle)
}

func (x *Compiled) bytes(fn fnID, object uintptr) ([]byte, error) {
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	return x.plugin.bytes(fn, object)
}

// OptimizedProgram is the program as the compiler left it, and its format, such
// as "hlo" for a serialized HloModuleProto or "mlir".
func (x *Compiled) OptimizedProgram() (code []byte, format string, err error) {
	const fn = C.pj_fn_Executable_OptimizedProgram
	if err := x.enter(fn); err != nil {
		return nil, "", err
	}
	defer x.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	room := sized(x.plugin, C.PJRT_Program{})
	pins.Pin(room)
	program := &room.block
	block := C.PJRT_Executable_OptimizedProgram_Args{executable: opaque[*C.PJRT_Executable](x.handle), program: program}
	if err := call(x.plugin, fn, &block); err != nil {
		return nil, "", err
	}
	if program.code_size > 0 {
		code = make([]byte, int(program.code_size))
		pins.Pin(&code[0])
		program.code = (*C.char)(unsafe.Pointer(&code[0]))
		if err := call(x.plugin, fn, &block); err != nil {
			return nil, "", err
		}
	}
	return code, goText(unsafe.Pointer(program.format), program.format_size), nil
}

// CostAnalysis is the compiler's estimate of one execution, such as "flops" and
// "bytes accessed". Values are float32, int64, bool, string or []int64.
func (x *Compiled) CostAnalysis() (map[string]any, error) {
	const fn = C.pj_fn_Executable_GetCostAnalysis
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	block := C.pj_counted{object: C.uintptr_t(x.handle)}
	if err := call(x.plugin, fn, &block); err != nil {
		return nil, err
	}
	return namedValues(unsafe.Pointer(block.items), block.count), nil
}

// CompiledMemory is what the compiler says one execution needs on each device,
// in bytes. Figures that a plugin does not give are 0.
type CompiledMemory struct {
	GeneratedCode, Argument, Output, Alias, Temp                     int64
	HostGeneratedCode, HostArgument, HostOutput, HostAlias, HostTemp int64
	Peak, Total                                                      int64
}

// MemoryStats is what one execution needs.
func (x *Compiled) MemoryStats() (CompiledMemory, error) {
	const fn = C.pj_fn_Executable_GetCompiledMemoryStats
	if err := x.enter(fn); err != nil {
		return CompiledMemory{}, err
	}
	defer x.leave()
	b := C.PJRT_Executable_GetCompiledMemoryStats_Args{executable: opaque[*C.PJRT_Executable](x.handle)}
	if err := call(x.plugin, fn, &b); err != nil {
		return CompiledMemory{}, err
	}
	return CompiledMemory{
		GeneratedCode: int64(b.generated_code_size_in_bytes), Argument: int64(b.argument_size_in_bytes),
		Output: int64(b.output_size_in_bytes), Alias: int64(b.alias_size_in_bytes), Temp: int64(b.temp_size_in_bytes),
		HostGeneratedCode: int64(b.host_generated_code_size_in_bytes), HostArgument: int64(b.host_argument_size_in_bytes),
		HostOutput: int64(b.host_output_size_in_bytes), HostAlias: int64(b.host_alias_size_in_bytes),
		HostTemp: int64(b.host_temp_size_in_bytes),
		Peak:     int64(b.peak_memory_in_bytes), Total: int64(b.total_size_in_bytes),
	}, nil
}

func isUnimplemented(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == Unimplemented
}
