//go:build pyext

package pyfast

// #cgo CFLAGS: -std=gnu11
// #cgo LDFLAGS: -ldl -lpthread
// #include <stdint.h>
// int64_t tgx_take_dead(int64_t *dst, int64_t cap);
import "C"

import (
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// lastError is the error of the last call that failed. Callers hold the GIL from the call until they have
// taken the text; one that fails without the GIL (tgx_ready) is repeated with it.
var lastError atomic.Pointer[error]

// fail keeps err for tgx_error_text.
func fail(err error) C.int64_t {
	lastError.Store(&err)
	return C.int64_t(wire.Failed)
}

// result is the status of a call that gives an error or nothing.
func result(err error) C.int64_t {
	switch {
	case err == nil:
		return C.int64_t(wire.Done)
	case errs.KindOf(err) == errs.Busy:
		return C.int64_t(wire.Busy)
	}
	return fail(err)
}

// guard turns a panic into the failure of the call that it is deferred in.
func guard(status *C.int64_t) {
	if r := recover(); r != nil {
		*status = fail(errs.New(errs.Runtime, "internal error: %v\n%s", r, debug.Stack()))
	}
}

func words(p *C.int64_t, n C.int64_t) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))
}

//export tgx_vocabulary
func tgx_vocabulary() *C.char { return C.CString(wire.Hash) }

// tgx_start connects the core to the list of dead storages.
//
//export tgx_start
func tgx_start() {
	engine.Default.TakeDead = func(dst []uint64) int {
		return int(C.tgx_take_dead((*C.int64_t)(unsafe.Pointer(unsafe.SliceData(dst))), C.int64_t(len(dst))))
	}
}

//export tgx_trace
func tgx_trace(w *C.int64_t, n C.int64_t, out *C.int64_t, outcap C.int64_t) (status C.int64_t) {
	defer guard(&status)
	s, err := engine.Default.Trace(words(w, n), words(out, outcap))
	if err != nil {
		return result(err)
	}
	return C.int64_t(s)
}

// tgx_error_text copies the text of the last error and returns its whole length.
//
//export tgx_error_text
func tgx_error_text(kind *C.int64_t, dst *C.char, dstcap C.int64_t) C.int64_t {
	err := errors.New("no error")
	if last := lastError.Load(); last != nil {
		err = *last
	}
	*kind = C.int64_t(errs.KindOf(err))
	text := err.Error()
	copy(unsafe.Slice((*byte)(unsafe.Pointer(dst)), int(dstcap)), text)
	return C.int64_t(len(text))
}

// tgx_wait_idle waits until the core was free once; it returns 1 if no device is open yet.
//
//export tgx_wait_idle
func tgx_wait_idle() C.int64_t {
	if engine.Default.WaitIdle() {
		return 0
	}
	return 1
}

//export tgx_alloc
func tgx_alloc(nbytes, device C.int64_t, handle *C.int64_t) (status C.int64_t) {
	defer guard(&status)
	if !engine.Default.Idle() {
		return C.int64_t(wire.Busy)
	}
	h, err := engine.Default.Alloc(int64(nbytes), int32(device))
	*handle = C.int64_t(h)
	return result(err)
}

//export tgx_place
func tgx_place(src unsafe.Pointer, scalarType C.int64_t, dims *C.int64_t, ndim, device C.int64_t, handle *C.int64_t) (status C.int64_t) {
	defer guard(&status)
	if !engine.Default.Idle() {
		return C.int64_t(wire.Busy)
	}
	h, err := engine.Default.Place(src, int(scalarType), words(dims, ndim), int32(device))
	*handle = C.int64_t(h)
	return result(err)
}

//export tgx_resize
func tgx_resize(handle, nbytes C.int64_t) (status C.int64_t) {
	defer guard(&status)
	if !engine.Default.Idle() {
		return C.int64_t(wire.Busy)
	}
	return result(engine.Default.Resize(uint64(handle), int64(nbytes)))
}

//export tgx_ready
func tgx_ready(handle, ms C.int64_t, ready *C.int64_t) (status C.int64_t) {
	defer guard(&status)
	done, err := engine.Default.Ready(engine.Handle(handle), time.Duration(ms)*time.Millisecond)
	*ready = 0
	if done {
		*ready = 1
	}
	return result(err)
}

//export tgx_fetch
func tgx_fetch(handle C.int64_t, dst unsafe.Pointer, nbytes C.int64_t) (status C.int64_t) {
	defer guard(&status)
	return result(engine.Default.Fetch(engine.Handle(handle), dst, int64(nbytes)))
}

//export tgx_idle
func tgx_idle() C.int64_t {
	if engine.Default.Idle() {
		return 1
	}
	return 0
}

// tgx_sync is engine.Step. It gives the text of an error, which the caller frees, or NULL. It is called without the
// GIL, so that the last error may be another thread's when it returns.
//
//export tgx_sync
func tgx_sync(device, mark, wait C.int64_t, through *C.int64_t) *C.char {
	return step(through, func() (bool, error) { return engine.Default.Step(int(device), mark != 0, wait != 0) })
}

// tgx_finish is engine.Finish; errors are as those of tgx_sync.
//
//export tgx_finish
func tgx_finish(device C.int64_t, through *C.int64_t) *C.char {
	return step(through, func() (bool, error) { return engine.Default.Finish(int(device)) })
}

// step calls what may wait, and is the text of its error, or NULL.
func step(through *C.int64_t, run func() (bool, error)) (text *C.char) {
	defer func() {
		if r := recover(); r != nil {
			text = C.CString(errs.Tagged(errs.New(errs.Runtime, "internal error: %v\n%s", r, debug.Stack())))
		}
	}()
	done, err := run()
	if err != nil {
		return C.CString(errs.Tagged(err))
	}
	if done {
		*through = 1
	}
	return nil
}

//export tgx_release
func tgx_release(handles *C.int64_t, n C.int64_t) (status C.int64_t) {
	defer guard(&status)
	engine.Default.Release(unsafe.Slice((*uint64)(unsafe.Pointer(handles)), int(n)))
	return C.int64_t(wire.Done)
}

//export tgx_replay
func tgx_replay(id C.int64_t, args *C.int64_t, n C.int64_t, outs *C.int64_t, m C.int64_t, outcome *C.int64_t) (status C.int64_t) {
	defer guard(&status)
	o, err := engine.Default.Replay(int64(id), words(args, n), words(outs, m))
	*outcome = C.int64_t(o)
	return result(err)
}

//export tgx_location
func tgx_location(file *C.char, n, line C.int64_t) C.int64_t {
	return C.int64_t(engine.Default.Location(C.GoStringN(file, C.int(n)), int(line)))
}
