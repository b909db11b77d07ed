// Package bindings is the control surface that gopy turns into a Python module: flat functions over
// scalars, strings, JSON texts and addresses. It may import gocore/engine, gocore/errs and gocore/wire only.
//
// An error reaches Python as a RuntimeError whose text starts with the name of the class to raise,
// "[ValueError] …"; torch_go_xla._core translates it. Storages are named by handles (see alias.Handle),
// memory by its address, which the caller keeps valid during the call.
package bindings

import (
	"runtime"
	"unsafe"

	_ "github.com/go-python/gopy/gopyh" // generated code imports it: keeps the requirement direct

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

// ok is the result of a function that has nothing to return: gopy leaks on functions that return an
// error alone.
func ok(err error) (bool, error) {
	if err != nil {
		return false, tagged{err}
	}
	return true, nil
}

func flag(b bool, err error) (bool, error) {
	if err != nil {
		return false, tagged{err}
	}
	return b, nil
}

func text(s string, err error) (string, error) {
	if err != nil {
		return "", tagged{err}
	}
	return s, nil
}

func number(n int64, err error) (int64, error) {
	if err != nil {
		return 0, tagged{err}
	}
	return n, nil
}

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
