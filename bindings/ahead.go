package bindings

import (
	"encoding/base64"
	"encoding/json"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// OpenTopology describes devices that need not be there: id, platform, version, attributes, devices (id, process, kind,
// text, attributes). settings is that of OpenDevice, its options those of the plugin for topologies.
func OpenTopology(name, settings string) (object string, err error) {
	s, err := readSettings(settings)
	if err != nil {
		return "", failed(err)
	}
	return encoded(engine.Default.OpenTopology(s.Library, s.Preload, name, s.Options))
}

// CloseTopology forgets a topology.
func CloseTopology(topology int64) error { return failed(engine.Default.CloseTopology(topology)) }

// Lower returns what is recorded as a program for a platform, "" for all but the CPU, with what LoadLowered needs; see engine.Lowered. Some
// storages are its arguments, others its results.
//
//control:open
func Lower(device int64, platform string, arguments, nArguments, results, nResults int64) (object string, err error) {
	return encoded(engine.Default.Lower(int(device), platform, words(arguments, nArguments), words(results, nResults)))
}

// CompileAhead starts to compile a program of Lower for a topology and returns its number. flags is an object of
// options of XLA by name.
func CompileAhead(topology int64, lowered, flags string) (int64, error) {
	in, err := readLowered(lowered)
	if err != nil {
		return 0, failed(err)
	}
	values, err := readFlags(flags)
	if err != nil {
		return 0, failed(err)
	}
	return result(engine.Default.CompileAhead(topology, in, values))
}

// CompiledAhead waits until a program of CompileAhead is compiled; its error says why it cannot be.
func CompiledAhead(program, ms int64) (bool, error) {
	return result(engine.Default.CompiledAhead(program, milliseconds(ms)))
}

// AheadMemory returns what a program needs on each device, in bytes, by the names of pjrt.CompiledMemory.
func AheadMemory(program int64) (object string, err error) {
	return encoded(engine.Default.AheadMemory(program))
}

// AheadCost returns the compiler's estimate of one run of a program.
func AheadCost(program int64) (object string, err error) {
	return encoded(engine.Default.AheadCost(program))
}

// AheadProgram returns what an optimized program holds; see hlo.Program.
func AheadProgram(program int64) (object string, err error) {
	return encoded(engine.Default.AheadProgram(program))
}

// AheadText returns an optimized program as text.
func AheadText(program int64) (string, error) { return result(engine.Default.AheadText(program)) }

// AheadExecutable returns a compiled program for LoadLowered, in base64.
func AheadExecutable(program int64) (string, error) {
	data, err := engine.Default.AheadExecutable(program)
	return result(base64.StdEncoding.EncodeToString(data), err)
}

// DropAhead forgets a program of CompileAhead.
func DropAhead(program int64) { engine.Default.DropAhead(program) }

// LoadLowered loads a program of Lower, compiled for this device, and returns its number for Replay. executable is what
// AheadExecutable has returned.
//
//control:open
func LoadLowered(device int64, lowered, executable string) (int64, error) {
	in, err := readLowered(lowered)
	if err != nil {
		return 0, failed(err)
	}
	data, err := base64.StdEncoding.DecodeString(executable)
	if err != nil {
		return 0, failed(errs.Wrap(errs.Value, err, "the compiled program: %v", err))
	}
	return result(engine.Default.LoadLowered(int(device), in, data))
}

func readLowered(text string) (*engine.Lowered, error) {
	in := new(engine.Lowered)
	if err := json.Unmarshal([]byte(text), in); err != nil {
		return nil, errs.Wrap(errs.Value, err, "the description of a program: %v", err)
	}
	return in, nil
}
