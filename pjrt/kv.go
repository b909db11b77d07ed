package pjrt

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// KeyValueStore is shared by the processes of one computation; plugins find each
// other through it. Its methods are called from several goroutines at once.
// Errors that are *Error keep their code on the way to the plugin.
type KeyValueStore interface {
	// Get waits up to the timeout for a key and returns its value.
	Get(key string, timeout time.Duration) ([]byte, error)
	// TryGet returns a key's value, or at once an *Error of code NotFound.
	TryGet(key string) ([]byte, error)
	// Put sets a key's value.
	Put(key string, value []byte) error
}

// keyValueServer answers a client's requests with a store. Plugins' threads ask
// and wait in C; one goroutine takes the requests, and one more for each does
// what the store may take long for.
type keyValueServer struct {
	store  KeyValueStore
	handle *C.pjc_kv
	wake   *os.File
}

// serveKeyValues puts callbacks into the block. A nil store makes a nil server.
func serveKeyValues(store KeyValueStore, block *C.PJRT_Client_Create_Args) (*keyValueServer, error) {
	if store == nil {
		return nil, nil
	}
	wake, err := newWakeup(C.pj_fn_Client_Create)
	if err != nil {
		return nil, err
	}
	s := &keyValueServer{store: store, wake: wake.file, handle: C.pjc_kv_new(wake.fd, block)}
	if s.handle == nil {
		wake.file.Close()
		return nil, newError(ResourceExhausted, C.pj_fn_Client_Create, "no host memory")
	}
	go s.serve()
	return s, nil
}

// close refuses further requests. It is called when the plugin's client is gone.
func (s *keyValueServer) close() {
	if s != nil {
		C.pjc_kv_stop(s.handle)
		// The reading goroutine sees the end of the file and frees the rest.
		s.wake.Close()
	}
}

func (s *keyValueServer) serve() {
	defer func() { _ = recover() }() // plugins' threads then wait in vain, which has a timeout
	defer C.pjc_kv_free(s.handle)
	var counter [8]byte
	for {
		if _, err := s.wake.Read(counter[:]); err != nil {
			return
		}
		for r := C.pjc_kv_take(s.handle); r != nil; r = C.pjc_kv_take(s.handle) {
			go s.answer(r)
		}
	}
}

func (s *keyValueServer) answer(r *C.pjc_kv_request) {
	defer func() { _ = recover() }()
	key := goText(unsafe.Pointer(r.key), r.key_size)
	value, err := s.ask(r, key)
	code := OK
	if err != nil {
		code, value = codeOf(err), []byte("key-value store: "+err.Error())
	}
	C.pjc_kv_answer(s.handle, r, C.int(code),
		(*C.char)(unsafe.Pointer(unsafe.SliceData(value))), C.size_t(len(value)))
}

// ask puts a request to the store, whose panic is an error.
func (s *keyValueServer) ask(r *C.pjc_kv_request, key string) (value []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = newError(Internal, C.pj_fn_Client_Create, fmt.Sprint("the key-value store panics: ", r))
		}
	}()
	switch r.op {
	case C.PJC_KV_GET:
		return s.store.Get(key, time.Duration(r.timeout_ms)*time.Millisecond)
	case C.PJC_KV_TRY_GET:
		return s.store.TryGet(key)
	case C.PJC_KV_PUT:
		return nil, s.store.Put(key, []byte(goText(unsafe.Pointer(r.value), r.value_size)))
	}
	return nil, nil
}

// codeOf is the code that tells a plugin of an error.
func codeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code != OK:
		return e.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return DeadlineExceeded
	}
	return Unknown
}

// wakeup is an eventfd: C writes to the descriptor, a goroutine reads the file
// without holding a thread.
type wakeup struct {
	fd   C.int
	file *os.File
}

func newWakeup(fn fnID) (wakeup, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return wakeup{}, newError(ResourceExhausted, fn, "eventfd: "+errno.Error())
	}
	return wakeup{C.int(fd), os.NewFile(fd, "pjrt wake-up")}, nil
}
