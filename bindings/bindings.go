// Package bindings is the control surface that gopy turns into a Python module: flat functions over
// scalars, strings, JSON texts and addresses. It may import gocore/engine, dtype, errs and wire only.
//
// A call is stated in three places: the engine, which takes and returns Go's types; here, where they become what
// gopy carries; the Python code that calls it. `go generate ./bindings` writes from this package the Python class that
// is called, torch_go_xla._control.Control, by these rules:
//
//   - dims, nDims int64 are the address and the count of int64 words: in Python a sequence of ints. Of a pair
//     whose name begins with "out", Python gives the count, and has the words as a list.
//   - a result named list or object is a JSON text: in Python a list or a dict.
//   - ms int64, the last parameter, is how long the call may wait; Python calls again until the result is true,
//     or not "", and takes signals in between.
//   - //control:open above a function opens the device before the call.
//
// An error reaches Python as a RuntimeError whose text starts with the name of the class to raise,
// "[ValueError] …"; torch_go_xla._core translates it. Storages are named by handles (see alias.Handle),
// memory by its address, which the caller keeps valid during the call.
package bindings

//go:generate go run ../gocore/internal/generate

import (
	"encoding/json"
	"runtime"
	"time"
	"unsafe"

	_ "github.com/go-python/gopy/gopyh" // generated code imports it: keeps the requirement direct

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// version is set by the linker to the version of the Python package.
var version = "unset"

// Version returns the version of the Go library and that of Go, such as "0.1.0, go1.26.6".
func Version() string { return version + ", " + runtime.Version() }

// Vocabulary names the state of what the library and the Python package must agree on; see package wire.
func Vocabulary() string { return wire.Hash }

// tagged is an error in the form that the Python side reads the class from.
type tagged struct{ error }

func (t tagged) Error() string { return errs.Tagged(t.error) }
func (t tagged) Unwrap() error { return t.error }

// failed is the error of a call in the form that the Python side reads the class from.
func failed(err error) error {
	if err != nil {
		return tagged{err}
	}
	return nil
}

// result is the result of a call, of a type that gopy carries, or of none with its error.
func result[T bool | int64 | string](x T, err error) (T, error) {
	if err != nil {
		var none T
		return none, tagged{err}
	}
	return x, nil
}

// encoded is the result of a call as JSON.
func encoded[T any](x T, err error) (string, error) {
	if err != nil {
		return "", tagged{err}
	}
	return marshal(x), nil
}

// marshal is json.Marshal of values that always can be.
func marshal(x any) string {
	text, err := json.Marshal(x)
	if err != nil {
		panic("bindings: " + err.Error())
	}
	return string(text)
}

// elementType is the type of a c10::ScalarType number.
func elementType(scalarType int64) (dtype.DType, error) {
	if d := dtype.FromTorch(int(scalarType)); d != dtype.Invalid {
		return d, nil
	}
	return dtype.Invalid, tagged{errs.New(errs.Type, "this dtype is not supported on xla devices")}
}

// milliseconds is a waiting time.
func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// pointer is the memory at an address given by Python.
func pointer(addr int64) unsafe.Pointer {
	a := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&a))
}

// words is n int64 words at an address.
func words(addr, n int64) []int64 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*int64)(pointer(addr)), n)
}
