package pjrt

// #include "bridge.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// Executable is a compiled program on the devices of a client.
type Executable struct {
	client     *Client
	loaded     uintptr // runs
	compiled   uintptr // describes
	life       lifetime
	numOutputs int
	devices    []*Device
	guard      closeGuard
}

// newExecutable takes over a loaded executable. The caller holds the client.
func (c *Client) newExecutable(handle uintptr) (*Executable, error) {
	c.life.add(1)
	c.live.executables.Add(1)
	x := &Executable{client: c, loaded: handle}
	err := x.describe()
	if err != nil {
		x.Close()
		return nil, err
	}
	guard(&x.guard, x, "an executable")
	return x, nil
}

func (x *Executable) describe() (err error) {
	p := x.client.plugin
	if x.compiled, err = p.word(C.pj_fn_LoadedExecutable_GetExecutable, x.loaded); err != nil {
		return err
	}
	outputs, err := p.word(C.pj_fn_Executable_NumOutputs, x.compiled)
	if err != nil {
		return err
	}
	x.numOutputs = int(outputs)
	handles, err := p.objects(C.pj_fn_LoadedExecutable_AddressableDevices, x.loaded)
	if err != nil {
		return err
	}
	x.devices = x.client.devicesOf(handles)
	return nil
}

// Close releases the executable, or does so when the last Call prepared on it
// is closed. Closing again does nothing.
func (x *Executable) Close() error {
	x.guard.done()
	if x.life.closed() || !x.life.close() {
		return nil
	}
	return x.letGo()
}

func (x *Executable) leave() {
	if x.life.leave(1) {
		// The caller was closing something else; there is no one to tell.
		_ = x.letGo()
	}
}

func (x *Executable) letGo() error {
	p := x.client.plugin
	var err error
	if x.compiled != 0 {
		err = p.do(C.pj_fn_Executable_Destroy, x.compiled)
	}
	err = errors.Join(err, p.do(C.pj_fn_LoadedExecutable_Destroy, x.loaded))
	x.client.live.executables.Add(-1)
	x.client.leave(1)
	return err
}

// enter holds the executable during a call.
func (x *Executable) enter(fn fnID) error {
	if x.client.life.closed() {
		return closedError(fn, "the client")
	}
	if !x.life.enter() {
		return closedError(fn, "the executable")
	}
	return nil
}

// Client is the client that the executable belongs to.
func (x *Executable) Client() *Client { return x.client }

// NumOutputs is the number of arrays that an execution makes on each device.
func (x *Executable) NumOutputs() int { return x.numOutputs }

// AddressableDevices lists the devices of this process that it runs on, in the
// order in which Execute takes their arguments.
func (x *Executable) AddressableDevices() []*Device { return x.devices }

// Name is the module's name.
func (x *Executable) Name() (string, error) { return x.text(C.pj_fn_Executable_Name) }

// Fingerprint identifies what the executable does; equal inputs and options of
// the same compiler give equal fingerprints.
func (x *Executable) Fingerprint() (string, error) {
	s, err := x.text(C.pj_fn_Executable_Fingerprint)
	if isUnimplemented(err) {
		// Older plugins have it on the loaded executable only.
		if err := x.enter(C.pj_fn_LoadedExecutable_Fingerprint); err != nil {
			return "", err
		}
		defer x.leave()
		return x.client.plugin.text(C.pj_fn_LoadedExecutable_Fingerprint, x.loaded)
	}
	return s, err
}

func (x *Executable) text(fn fnID) (string, error) {
	if err := x.enter(fn); err != nil {
		return "", err
	}
	defer x.leave()
	return x.client.plugin.text(fn, x.compiled)
}

// NumReplicas is how many replicas the program was compiled for.
func (x *Executable) NumReplicas() (int, error) { return x.count(C.pj_fn_Executable_NumReplicas) }

// NumPartitions is how many partitions the program was compiled for.
func (x *Executable) NumPartitions() (int, error) {
	return x.count(C.pj_fn_Executable_NumPartitions)
}

// CodeSize is the bytes of the generated code, -1 if the plugin does not know.
func (x *Executable) CodeSize() (int, error) {
	n, err := x.count(C.pj_fn_Executable_SizeOfGeneratedCodeInBytes)
	if isUnimplemented(err) {
		return -1, nil
	}
	return n, err
}

func (x *Executable) count(fn fnID) (int, error) {
	if err := x.enter(fn); err != nil {
		return 0, err
	}
	defer x.leave()
	n, err := x.client.plugin.word(fn, x.compiled)
	return int(n), err
}

// OutputTypes are the element types of the outputs.
func (x *Executable) OutputTypes() ([]Type, error) {
	const fn = C.pj_fn_Executable_OutputElementTypes
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	items, count, err := x.client.plugin.list(fn, x.compiled)
	if err != nil {
		return nil, err
	}
	return append([]Type{}, unsafe.Slice((*Type)(items), int(count))...), nil
}

// OutputDims are the shapes of the outputs in elements, on one device.
func (x *Executable) OutputDims() ([][]int64, error) {
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
func (x *Executable) OutputMemoryKinds() ([]string, error) {
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
func (x *Executable) twoLists(fn fnID) (C.pj_two_lists, error) {
	block := C.pj_two_lists{object: C.uintptr_t(x.compiled)}
	if err := x.enter(fn); err != nil {
		return block, err
	}
	if err := call(x.client.plugin, fn, &block); err != nil {
		x.leave()
		return block, err
	}
	return block, nil
}

// Serialize gives bytes that Client.DeserializeAndLoad of the same plugin version
// makes an executable of.
func (x *Executable) Serialize() ([]byte, error) {
	return x.bytes(C.pj_fn_Executable_Serialize, x.compiled)
}

// CompileOptions is the serialized CompileOptionsProto that the program was
// compiled with.
func (x *Executable) CompileOptions() ([]byte, error) {
	return x.bytes(C.pj_fn_Executable_GetCompileOptions, x.compiled)
}

// DeviceAssignment is the serialized DeviceAssignmentProto of the executable.
func (x *Executable) DeviceAssignment() ([]byte, error) {
	return x.bytes(C.pj_fn_LoadedExecutable_GetDeviceAssignment, x.loaded)
}

func (x *Executable) bytes(fn fnID, object uintptr) ([]byte, error) {
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	return x.client.plugin.bytes(fn, object)
}

// OptimizedProgram is the program as the compiler left it, and its format, such
// as "hlo" for a serialized HloModuleProto or "mlir".
func (x *Executable) OptimizedProgram() (code []byte, format string, err error) {
	const fn = C.pj_fn_Executable_OptimizedProgram
	if err := x.enter(fn); err != nil {
		return nil, "", err
	}
	defer x.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	room := sized(x.client.plugin, C.PJRT_Program{})
	pins.Pin(room)
	program := &room.block
	block := C.PJRT_Executable_OptimizedProgram_Args{executable: opaque[*C.PJRT_Executable](x.compiled), program: program}
	if err := call(x.client.plugin, fn, &block); err != nil {
		return nil, "", err
	}
	if program.code_size > 0 {
		code = make([]byte, int(program.code_size))
		pins.Pin(&code[0])
		program.code = (*C.char)(unsafe.Pointer(&code[0]))
		if err := call(x.client.plugin, fn, &block); err != nil {
			return nil, "", err
		}
	}
	return code, goText(unsafe.Pointer(program.format), program.format_size), nil
}

// CostAnalysis is the compiler's estimate of one execution, such as "flops" and
// "bytes accessed". Values are float32, int64, bool, string or []int64.
func (x *Executable) CostAnalysis() (map[string]any, error) {
	const fn = C.pj_fn_Executable_GetCostAnalysis
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	defer x.leave()
	block := C.pj_counted{object: C.uintptr_t(x.compiled)}
	if err := call(x.client.plugin, fn, &block); err != nil {
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
func (x *Executable) MemoryStats() (CompiledMemory, error) {
	const fn = C.pj_fn_Executable_GetCompiledMemoryStats
	if err := x.enter(fn); err != nil {
		return CompiledMemory{}, err
	}
	defer x.leave()
	b := C.PJRT_Executable_GetCompiledMemoryStats_Args{executable: opaque[*C.PJRT_Executable](x.compiled)}
	if err := call(x.client.plugin, fn, &b); err != nil {
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

// Delete frees the program's resources when the executions that run have ended.
// The executable can then only be closed and asked IsDeleted.
func (x *Executable) Delete() error {
	if err := x.enter(C.pj_fn_LoadedExecutable_Delete); err != nil {
		return err
	}
	defer x.leave()
	return x.client.plugin.do(C.pj_fn_LoadedExecutable_Delete, x.loaded)
}

// IsDeleted reports whether Delete was called.
func (x *Executable) IsDeleted() (bool, error) {
	if err := x.enter(C.pj_fn_LoadedExecutable_IsDeleted); err != nil {
		return false, err
	}
	defer x.leave()
	return x.client.plugin.truth(C.pj_fn_LoadedExecutable_IsDeleted, x.loaded)
}

// String names the number of outputs and the devices.
func (x *Executable) String() string {
	ids := make([]int, 0, len(x.devices))
	for _, d := range x.devices {
		ids = append(ids, d.id)
	}
	slices.Sort(ids)
	return fmt.Sprintf("executable of %d outputs on devices %v", x.numOutputs, ids)
}

func isUnimplemented(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == Unimplemented
}
