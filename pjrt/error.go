package pjrt

// #include "bridge.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Code says what kind of failure an Error is. The values are those of PJRT and
// of absl's status codes.
type Code int32

// The codes, in PJRT's numbering.
const (
	OK                 Code = C.PJRT_Error_Code_OK
	Cancelled          Code = C.PJRT_Error_Code_CANCELLED
	Unknown            Code = C.PJRT_Error_Code_UNKNOWN
	InvalidArgument    Code = C.PJRT_Error_Code_INVALID_ARGUMENT
	DeadlineExceeded   Code = C.PJRT_Error_Code_DEADLINE_EXCEEDED
	NotFound           Code = C.PJRT_Error_Code_NOT_FOUND
	AlreadyExists      Code = C.PJRT_Error_Code_ALREADY_EXISTS
	PermissionDenied   Code = C.PJRT_Error_Code_PERMISSION_DENIED
	ResourceExhausted  Code = C.PJRT_Error_Code_RESOURCE_EXHAUSTED
	FailedPrecondition Code = C.PJRT_Error_Code_FAILED_PRECONDITION
	Aborted            Code = C.PJRT_Error_Code_ABORTED
	OutOfRange         Code = C.PJRT_Error_Code_OUT_OF_RANGE
	Unimplemented      Code = C.PJRT_Error_Code_UNIMPLEMENTED
	Internal           Code = C.PJRT_Error_Code_INTERNAL
	Unavailable        Code = C.PJRT_Error_Code_UNAVAILABLE
	DataLoss           Code = C.PJRT_Error_Code_DATA_LOSS
	Unauthenticated    Code = C.PJRT_Error_Code_UNAUTHENTICATED
)

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
	"NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String is the code's name in absl's spelling, such as RESOURCE_EXHAUSTED.
func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE(%d)", int32(c))
}

// Error is a failure of a call into a plugin, or of an asynchronous operation
// that such a call started.
type Error struct {
	// Code is the plugin's code, or the client's where it found the fault.
	Code Code
	// Func is the interface's function, such as PJRT_Client_Compile; for an
	// operation that failed later, the function that reported it.
	Func string
	// Msg is the plugin's message.
	Msg string
	// Memory are the allocators' figures of the client's devices at the time, for
	// an error of code ResourceExhausted where the plugin has figures.
	Memory []DeviceMemory
}

// DeviceMemory are the figures of one device's allocator.
type DeviceMemory struct {
	DeviceID int
	MemoryStats
}

// Error gives function, code and message, and the memory in use if memory ran
// out.
func (e *Error) Error() string {
	text := e.Func + ": " + e.Code.String() + ": " + e.Msg
	for _, m := range e.Memory {
		text += fmt.Sprintf("; device %d: %d bytes in use", m.DeviceID, m.BytesInUse)
		if m.BytesLimit > 0 {
			text += fmt.Sprintf(" of %d", m.BytesLimit)
		}
		if m.PeakBytesInUse >= 0 {
			text += fmt.Sprintf(", peak %d", m.PeakBytesInUse)
		}
	}
	return text
}

// fnID numbers a function of the interface: C.pj_fn_*.
type fnID = C.int

// fail turns what a call returned into an *Error and frees the plugin's object.
func (p *Plugin) fail(fn fnID, e C.pj_error) error {
	switch e {
	case C.PJC_ABSENT:
		return newError(Unimplemented, fn, fmt.Sprintf(
			"the plugin, of API %d.%d, does not have this function", p.major, p.minor))
	case C.PJC_NO_MEMORY:
		return newError(ResourceExhausted, fn, "no host memory for the call's arguments")
	case C.PJC_BAD_RANK:
		return newError(InvalidArgument, fn, fmt.Sprintf(
			"the array has more than %d dimensions", C.PJC_MAX_RANK))
	}
	return p.take(functionName(fn), e)
}

// take turns a plugin's error object into an *Error of a function with this name, and frees it.
func (p *Plugin) take(function string, e C.pj_error) error {
	code := Code(C.pjc_error_code(p.api, e))
	var text *C.char
	var size C.size_t
	C.pjc_error_message(p.api, e, &text, &size)
	msg := goText(unsafe.Pointer(text), size)
	C.pjc_error_destroy(p.api, e)
	return &Error{Code: code, Func: function, Msg: msg}
}

// fail is Plugin.fail for calls that take device memory: when it ran out, the
// error says how much is in use.
func (c *Client) fail(fn fnID, e C.pj_error) error {
	err := c.plugin.fail(fn, e)
	c.addMemory(err)
	return err
}

func (c *Client) addMemory(err error) {
	var e *Error
	if !errors.As(err, &e) || e.Code != ResourceExhausted {
		return
	}
	for _, d := range c.addressable {
		if stats, failed := d.MemoryStats(); failed == nil {
			e.Memory = append(e.Memory, DeviceMemory{d.id, stats})
		}
	}
}

func newError(code Code, fn fnID, msg string) *Error {
	return &Error{Code: code, Func: functionName(fn), Msg: msg}
}

// invalid is the client's own refusal of an argument.
func invalid(fn fnID, format string, args ...any) error {
	return newError(InvalidArgument, fn, fmt.Sprintf(format, args...))
}

// closedError is the client's refusal to use what was closed.
func closedError(fn fnID, what string) error {
	return newError(FailedPrecondition, fn, what+" is closed")
}

func functionName(fn fnID) string {
	return "PJRT_" + C.GoString(C.pjc_function_name(fn))
}

// goText copies size bytes that the plugin owns.
func goText(text unsafe.Pointer, size C.size_t) string {
	if text == nil || size == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(text), int(size)))
}
