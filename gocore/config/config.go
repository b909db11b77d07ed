// Package config is the one table of the environment variables that the core honours.
//
// The Python package hands over the values when the first device is opened, so that a program may set
// them in os.environ after the import; nothing else reads the environment. The package imports nothing
// of the project.
package config

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Type says how a variable's text is read.
type Type uint8

// The types of variables.
const (
	Bool Type = iota
	Int
	Text
)

// Var is one variable.
type Var struct {
	Name    string
	Type    Type
	Default string
	Doc     string
}

// Table is every variable, in the order of the documentation.
var Table = []Var{
	{"PJRT_DEVICE", Text, "CPU", "the device: CPU, CUDA, TPU, or the name of a registered plugin"},
	{"PJRT_LIBRARY_PATH", Text, "", "absolute path of a PJRT plugin that serves PJRT_DEVICE"},
	{"CPU_NUM_DEVICES", Int, "1", "number of devices of the CPU plugin"},
	{"XLA_FLAGS", Text, "", "flags of the XLA compiler, checked before the plugin reads them"},
	{"XLA_DISABLE_FUNCTIONALIZATION", Bool, "0", "no effect, accepted for torch_xla programs: aliases are exact either way"},
	{"XLA_ENABLE_PARAM_ALIASING", Bool, "1", "let a step write its results into the buffers that they replace (donation)"},
	{"XLA_COMPILATION_CACHE_SIZE", Int, "1024", "number of compiled programs kept in memory"},
	{"TORCH_GO_XLA_COMPILATION_CACHE_MB", Int, "-1", "megabytes that compiled programs may take in memory; the least recently used is dropped first; -1: an eighth of the device's memory"},
	{"XLA_PERSISTENT_CACHE_PATH", Text, "", "directory of compiled programs shared by processes; empty: none"},
	{"XLA_PERSISTENT_CACHE_READ_ONLY", Bool, "0", "read the persistent cache, but do not write to it"},
	{"TORCH_GO_XLA_PERSISTENT_CACHE_MB", Int, "8192", "largest size of the persistent cache in megabytes; the least recently used program is deleted first"},
	{"XLA_SYNC_WAIT", Bool, "0", "every sync waits until the device is done"},
	{"TORCH_GO_XLA_CHECK", Text, "0", "values to check on the device: indices, nan, inf, some of them with commas, or 1 for all; every sync waits, and raises an error with the op and its Python line"},
	{"XLA_IR_DEBUG", Bool, "0", "write the Python line of every op into the program; profiles and dumps of the compiler show it"},
	{"XLA_HLO_DEBUG", Bool, "0", "the same as XLA_IR_DEBUG"},
	{"XLA_USE_SPMD", Bool, "0", "call runtime.use_spmd() when the device opens"},
	{"CONVERT_SHLO_TO_SHARDY", Bool, "0", "with SPMD, partition programs by Shardy instead of GSPMD, except those with local values or uneven parts"},
	{"XLA_SAVE_TENSORS_FILE", Text, "", "append the graph of every sync to this file"},
	{"XLA_SAVE_TENSORS_FMT", Text, "text", "format of these graphs: text, dot, or hlo for the StableHLO program"},
	{"XLA_METRICS_FILE", Text, "", "append the metrics report of every step to this file"},
	{"PT_XLA_DEBUG_LEVEL", Int, "0", "1: say on stderr of every new graph why it is new, and how it runs"},
	{"PT_XLA_DEBUG", Bool, "0", "the same as PT_XLA_DEBUG_LEVEL=1"},
	{"PT_XLA_DEBUG_FILE", Text, "", "append the explanations to this file instead of writing them to stderr"},
	{"TORCH_GO_XLA_PROGRESS", Bool, "1", "tell on stderr of a compilation that takes longer than 3 s, and on a terminal of a save that takes longer than 2 s"},
	{"TORCH_GO_XLA_TORCH_KERNELS", Bool, "1", "on the CPU device, compiled programs call torch's own kernels where these are faster, as for convolutions, sorts and linear algebra"},
	{"XLA_TIER", Text, "auto", "how graphs run on the CPU device: compile, eager (op by op), auto (op by op until a compilation pays), background (op by op while it compiles)"},
	{"TORCH_GO_XLA_JOB_TIMEOUT", Int, "600", "seconds to wait for another process of the job that has stopped or does not arrive; 0: no limit"},
	{"TORCH_GO_XLA_HUGE_PAGES", Bool, "1", "the CPU plugin keeps large arrays in huge pages"},
	{"TORCH_GO_XLA_SEAMS", Text, "", "seams of torch to leave out, as `-name,-name`, read at the import; `python -m torch_go_xla.debug.seams` lists them"},
}

// value is a variable's text, and what that is of the row's type.
type value struct {
	text   string
	on     bool
	number int64
}

func read(text string) value {
	on, _ := parseBool(text)
	number, _ := strconv.ParseInt(text, 10, 64)
	return value{text, on, number}
}

// values are those of all variables, by name. Readers take no lock: Set replaces the whole.
var values atomic.Pointer[map[string]value]

var setting sync.Mutex // held by Set

func init() {
	defaults := make(map[string]value)
	for i := range Table {
		defaults[Table[i].Name] = read(Table[i].Default)
	}
	values.Store(&defaults)
}

// Set gives a variable its text. A name without a row, and a text that is not of the row's type, are
// errors that say what is accepted.
func Set(name, text string) error {
	v := find(name)
	if v == nil {
		return fmt.Errorf("config: no variable named %s", name)
	}
	switch v.Type {
	case Bool:
		if _, err := parseBool(text); err != nil {
			return fmt.Errorf("%s=%q: must be 0 or 1", name, text)
		}
	case Int:
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 0 && text != v.Default {
			return fmt.Errorf("%s=%q: must be an integer, 0 or more", name, text)
		}
	}
	setting.Lock()
	defer setting.Unlock()
	next := maps.Clone(*values.Load())
	next[name] = read(text)
	values.Store(&next)
	return nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "", "0", "false", "no", "off":
		return false, nil
	case "1", "true", "yes", "on":
		return true, nil
	}
	return false, strconv.ErrSyntax
}

func find(name string) *Var {
	for i := range Table {
		if Table[i].Name == name {
			return &Table[i]
		}
	}
	return nil
}

// String is the text of a variable, or its default.
func String(name string) string { return (*values.Load())[name].text }

// On is a Bool variable.
func On(name string) bool { return (*values.Load())[name].on }

// Number is an Int variable.
func Number(name string) int64 { return (*values.Load())[name].number }
