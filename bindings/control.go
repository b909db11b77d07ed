package bindings

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// OpenDevice opens the device. settings is a JSON object: "library", a path; "torch", the path of its library;
// "preload", paths; "options", those that the plugin's client is created with; "flags", XLA's; "environment", the
// variables of the config table.
func OpenDevice(settings string) error {
	s, err := readSettings(settings)
	if err == nil {
		err = engine.Default.Open(s)
	}
	return failed(err)
}

// DeviceCount returns the number of devices of this process, 0 without an open device.
//
//control:open
func DeviceCount() int64 { return int64(engine.Default.DeviceCount()) }

// Devices describes each device: index, id, kind, platform, description, attributes, process.
//
//control:open
func Devices() (list string, err error) { return encoded(engine.Default.Devices()) }

// MemoryInfo returns the figures of a device's allocator, in bytes.
//
//control:open
func MemoryInfo(device int64) (object string, err error) {
	return encoded(engine.Default.MemoryInfo(int(device)))
}

// MemoryStats returns what the arrays of a device take, by the names of torch.accelerator.memory_stats.
//
//control:open
func MemoryStats(device int64) (object string, err error) {
	return encoded(engine.Default.MemoryStats(int(device)))
}

// ResetMemoryStats makes what a device's arrays take now their peak; without peak, it forgets what they took in all.
//
//control:open
func ResetMemoryStats(device int64, peak bool) error {
	return failed(engine.Default.ResetMemoryStats(int(device), peak))
}

// LargestArrays returns the largest arrays of a device's tensors: shape, bytes, op, line; count of them at most.
//
//control:open
func LargestArrays(device, count int64) (list string, err error) {
	return encoded(engine.Default.LargestArrays(int(device), int(count)))
}

// OpTable returns an object for every op of the core, in the order of their numbers: name, schema, since, shortcut
// (names, number, rank; see ops.Shortcut), also, torch (whether programs call torch's own kernel).
func OpTable() (list string) { return marshal(engine.OpTable()) }

// ConfigTable returns [name, type, default, meaning] of the variables of the environment that the core honours.
func ConfigTable() (list string) { return marshal(engine.ConfigTable()) }

// Configure sets a variable of the config table.
func Configure(name, value string) error { return failed(engine.Default.Configure(name, value)) }

// Precision returns the operand precision of matrix products and convolutions: default, high or highest.
func Precision() (string, error) { return result(engine.Default.Precision("")) }

// SetPrecision sets the operand precision of matrix products and convolutions: default, high or highest.
func SetPrecision(name string) error {
	_, err := engine.Default.Precision(name)
	return failed(err)
}

// SetDefaultDtype follows torch.set_default_dtype; scalarType is the number of the c10::ScalarType.
func SetDefaultDtype(scalarType int64) error {
	return failed(engine.Default.SetDefaultFloat(int(scalarType)))
}

// SyncSome computes some storages, and leaves the others pending.
func SyncSome(handles, nHandles int64) error {
	return failed(engine.Default.SyncSome(words(handles, nHandles)))
}

// Throttle waits until at most n programs wait for their turn on a device.
func Throttle(device, n, ms int64) (bool, error) {
	return result(engine.Default.Throttle(int(device), int(n), milliseconds(ms)))
}

// Submitted returns the number of programs that a device was ever given.
//
//control:open
func Submitted(device int64) (int64, error) { return result(engine.Default.Submitted(int(device))) }

// WaitFor waits until a device has run its first programs, as many as Submitted said.
func WaitFor(device, programs, ms int64) (bool, error) {
	return result(engine.Default.Wait(int(device), programs, milliseconds(ms)))
}

// Failure raises the error of a program that failed, unless a reader of a result or a call of this has.
//
//control:open
func Failure(device int64) error { return failed(engine.Default.Failure(int(device))) }

// Capture makes the recorded computation repeatable. It returns its number, 0 if it cannot be, and what tells two
// recordings apart; see engine.Engine.Capture. Some storages are its arguments, others its results; with state, all
// others that it reads or writes belong to it.
func Capture(arguments, nArguments, results, nResults int64, state bool) (list string, err error) {
	c, err := engine.Default.Capture(words(arguments, nArguments), words(results, nResults), state)
	return encoded([]any{c.ID, c.Numbers}, err)
}

// Replay runs a captured computation on some storages, and returns the handles of its results; ValueError if it
// does not fit them.
func Replay(id, arguments, nArguments, outResults, nOutResults int64) error {
	o, err := engine.Default.Replay(id, words(arguments, nArguments), words(outResults, nOutResults))
	if err == nil && o == wire.Missed {
		err = errs.New(errs.Value, "an argument has another type or shape than the program's, or lies on another device")
	}
	return failed(err)
}

// DropReplay forgets a captured computation.
func DropReplay(id int64) { engine.Default.DropReplay(id) }

// NewGenerator makes a random generator for a device and returns its number. A device's own has the device's number.
//
//control:open
func NewGenerator(device int64) (int64, error) {
	return result(engine.Default.NewGenerator(int(device)))
}

// DropGenerator forgets a generator that NewGenerator made.
func DropGenerator(generator int64) { engine.Default.DropGenerator(generator) }

// Seed sets the state of a generator: the seed and how many ops have drawn from it.
//
//control:open
func Seed(generator, key, draws int64) error {
	return failed(engine.Default.Seed(generator, key, draws))
}

// RandomState returns the seed of a generator and how many ops have drawn from it.
//
//control:open
func RandomState(generator int64) (list string, err error) {
	key, draws, err := engine.Default.RandomState(generator)
	return encoded([]int64{key, draws}, err)
}

// Placeholder makes a storage stand for an argument of a function that is being traced, a dense array.
func Placeholder(handle, scalarType, dims, nDims int64) error {
	return failed(engine.Default.Placeholder(handle, int(scalarType), words(dims, nDims)))
}

// Function keeps what is recorded of some storages, as a function of others, for ops of control flow, until
// DropFunction. It returns name, arguments and results, each array as type (c10::ScalarType), dtype and shape.
func Function(arguments, nArguments, results, nResults int64) (object string, err error) {
	return encoded(engine.Default.Function(words(arguments, nArguments), words(results, nResults)))
}

// DropFunction says that a caller of Function or Define needs the function no more.
func DropFunction(name string) { engine.Default.DropFunction(name) }

// Define keeps what @main of a StableHLO module computes, as a function for the op call, until DropFunction. It returns
// the same as Function.
func Define(module string) (object string, err error) {
	return encoded(engine.Default.Define(module))
}

// RegisterTarget makes the C function (XLA_FFI_Handler) at an address what custom calls to a target run.
//
//control:open
func RegisterTarget(target string, handler int64) error {
	return failed(engine.Default.RegisterTarget(target, pointer(handler)))
}

// Export returns what is recorded of some storages, as a function of others, as a StableHLO module.
func Export(arguments, nArguments, results, nResults int64) (string, error) {
	return result(engine.Default.Export(words(arguments, nArguments), words(results, nResults)))
}

// LoadProgram starts to compile a StableHLO module for Replay and returns its number; see engine.Engine.LoadProgram.
func LoadProgram(device int64, module, signature string) (int64, error) {
	return result(engine.Default.LoadProgram(int(device), module, signature))
}

// Loaded waits until a program of LoadProgram is compiled; its error says why it cannot be.
func Loaded(id, ms int64) (bool, error) {
	return result(engine.Default.Loaded(id, milliseconds(ms)))
}
