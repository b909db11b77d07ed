package bindings

import (
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Open opens the device. settings is JSON: {"library": path, "preload": [paths], "options": {create
// options of the plugin}, "environment": {variables of the config table}, "job": {"index", "count",
// "store": address}}.
func Open(settings string) (bool, error) { return ok(engine.Default.OpenJSON(settings)) }

// DeviceCount returns the number of devices of this process, 0 before Open.
func DeviceCount() int64 { return int64(engine.Default.DeviceCount()) }

// Devices returns a JSON list with one object a device: index, id, kind, platform, description,
// attributes, process.
func Devices() (string, error) { return text(engine.Default.DevicesJSON()) }

// MemoryInfo returns the figures of a device's allocator as JSON, in bytes.
func MemoryInfo(dev int64) (string, error) { return text(engine.Default.MemoryJSON(int(dev))) }

// OpTable returns a JSON list of [name, schema] of the ops of the core, in the order of their numbers.
func OpTable() string { return engine.OpTableJSON() }

// ConfigTable returns a JSON list of [name, type, default, doc] of the variables of the environment that
// the core honours.
func ConfigTable() string { return engine.ConfigTableJSON() }

// Configure sets a variable of the config table.
func Configure(name, value string) (bool, error) { return ok(engine.Default.Configure(name, value)) }

// Precision sets the operand precision of matrix products and convolutions, unless name is "": "default", "high"
// or "highest". It returns the precision that counts.
func Precision(name string) (string, error) { return text(engine.Default.Precision(name)) }

// SetDefaultDtype follows torch.set_default_dtype; code is the number of the c10::ScalarType.
func SetDefaultDtype(code int64) (bool, error) { return ok(engine.Default.SetDefaultFloat(int(code))) }

// Sync computes what is pending on a device; mark counts it as the end of a step.
func Sync(dev int64, mark bool) (bool, error) {
	if mark {
		return ok(engine.Default.Mark(int(dev)))
	}
	return ok(engine.Default.Sync(int(dev)))
}

// SyncSome computes the storages whose n handles lie at an address, and leaves the others pending.
func SyncSome(addr, n int64) (bool, error) { return ok(engine.Default.SyncSome(words(addr, n))) }

// Throttle waits until at most n programs wait for their turn on a device, for ms milliseconds at
// most, and reports whether that is so.
func Throttle(dev, n, ms int64) (bool, error) {
	return flag(engine.Default.Throttle(int(dev), int(n), time.Duration(ms)*time.Millisecond))
}

// WaitDevice waits until a device has done everything, for ms milliseconds at most, and reports
// whether it has.
func WaitDevice(dev, ms int64) (bool, error) {
	return flag(engine.Default.Wait(int(dev), time.Duration(ms)*time.Millisecond))
}

// Capture makes the recorded computation repeatable and returns its number, 0 if it cannot be: the
// storages whose n handles lie at args are its arguments, the m at outs its results; with state, all
// others that it reads or writes belong to it. digest points to a word that takes what tells two
// recordings apart; see engine.Engine.Capture.
func Capture(args, n, outs, m int64, state bool, digest int64) (int64, error) {
	c, err := engine.Default.Capture(words(args, n), words(outs, m), state)
	words(digest, 1)[0] = int64(c.Numbers)
	return number(c.ID, err)
}

// Replay runs a captured computation on the n storages at args; the words at outs take the handles of its
// m results. It is false if the computation has to be recorded again.
func Replay(id, args, n, outs, m int64) (bool, error) {
	o, err := engine.Default.Replay(id, words(args, n), words(outs, m))
	return flag(o != wire.Missed, err)
}

// DropReplay forgets a captured computation.
func DropReplay(id int64) { engine.Default.DropReplay(id) }

// NewGenerator makes a random generator for a device and returns its number. A device's own has the device's number.
func NewGenerator(dev int64) (int64, error) {
	return number(engine.Default.NewGenerator(int(dev)))
}

// DropGenerator forgets a generator that NewGenerator made.
func DropGenerator(generator int64) { engine.Default.DropGenerator(generator) }

// Seed sets the state of a generator: the seed and how many ops have drawn from it.
func Seed(generator, key, draws int64) (bool, error) {
	return ok(engine.Default.Seed(generator, key, draws))
}

// RandomKey returns the seed of a generator.
func RandomKey(generator int64) (int64, error) {
	key, _, err := engine.Default.RandomState(generator)
	return number(key, err)
}

// RandomDraws returns how many ops have drawn from the seed of a generator.
func RandomDraws(generator int64) (int64, error) {
	_, draws, err := engine.Default.RandomState(generator)
	return number(draws, err)
}

// Placeholder makes a storage stand for an argument of a function that is being traced: torchType is the number
// of its c10::ScalarType, its ndim sizes are int64 words at dims.
func Placeholder(handle, torchType, dims, ndim int64) (bool, error) {
	return ok(engine.Default.Placeholder(handle, int(torchType), words(dims, ndim)))
}

// Function makes a function of the n storages at args of what is recorded of the m storages at outs. With keep
// it is kept for ops of control flow, and its name returned; else it is returned as a StableHLO module.
func Function(args, n, outs, m int64, keep bool) (string, error) {
	if keep {
		return text(engine.Default.Function(words(args, n), words(outs, m)))
	}
	return text(engine.Default.Export(words(args, n), words(outs, m)))
}

// LoadProgram compiles a StableHLO module for Replay and returns its number; see engine.Engine.LoadProgram.
func LoadProgram(dev int64, module, signature string) (int64, error) {
	return number(engine.Default.LoadProgram(int(dev), module, signature))
}
