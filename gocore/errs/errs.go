// Package errs is the vocabulary of failures that cross into Python: a kind, which becomes an
// exception class, and a message. The package imports nothing of the project.
package errs

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Kind selects the Python exception class.
type Kind int

// The kinds.
const (
	Runtime Kind = iota + 1
	Type
	Value
	Index
	NotLower
	Xla
	OOM
	Compile
	Donated
	Forked
	Memory
	NotImpl
	Interrupt // KeyboardInterrupt is pending
	Busy      // the call has done nothing and is to be repeated, when the caller has looked for signals
	LinAlg    // torch's own class
)

// names are their classes in Python, and the tags under which a kind travels in a string-only interface; see Tagged.
var names = [...]string{0: "RuntimeError", Runtime: "RuntimeError", Type: "TypeError", Value: "ValueError", Index: "IndexError",
	NotLower: "NotLoweredError", Xla: "XlaError", OOM: "OutOfMemoryError", Compile: "CompileError",
	Donated: "DonatedBufferError", Forked: "ForkedProcessError", Memory: "MemoryError",
	NotImpl: "NotImplementedError", Interrupt: "KeyboardInterrupt", Busy: "BlockingIOError", LinAlg: "LinAlgError"}

// Classes are the names of the Python classes by kind. One that is not of the standard library is in
// torch_go_xla.
func Classes() []string { return names[:] }

// String is the name of the Python class.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		k = 0
	}
	return names[k]
}

// Error is a failure with its kind. It may wrap a cause.
type Error struct {
	Kind  Kind
	Msg   string
	Cause error
}

func (e *Error) Error() string {
	if e.Cause != nil && e.Msg == "" {
		return e.Cause.Error()
	}
	return e.Msg
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of a kind.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// Wrap gives a cause a kind; the message stays the cause's unless format is given.
func Wrap(k Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...), Cause: cause}
}

// KindOf is the kind of the outermost *Error in the chain; Runtime for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Runtime
}

// Catch, deferred, turns a panic into the error of the function that defers it. Every goroutine needs it or its like:
// a panic that no one recovers ends the process, whatever Python would do about an error.
func Catch(err *error, doing string) {
	if r := recover(); r != nil {
		*err = New(Runtime, "internal error while %s: %v\n%s", doing, r, debug.Stack())
	}
}

// Tagged is the text "[Class] message", the form in which errors cross an interface that can only
// carry a string.
func Tagged(err error) string { return "[" + KindOf(err).String() + "] " + err.Error() }

// recorded is an error with the op that it befell.
type recorded struct {
	error
	by string
}

func (r *recorded) Error() string { return r.error.Error() + "\n  recorded by " + r.by }

func (r *recorded) Unwrap() error { return r.error }

// Recorded adds to err which op it befell and where that was recorded. An error that says so already, as the
// cause of another value's, stays as it is.
func Recorded(err error, by string) error {
	var r *recorded
	if err == nil || by == "" || errors.As(err, &r) {
		return err
	}
	return &recorded{err, by}
}
