package pjrt

// #cgo noescape pjc_queue_take
// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"
)

// Completion is the end of an operation that was watched.
type Completion struct {
	// Token is what Watch was given.
	Token uint64
	// Err is the operation's error.
	Err error
}

// CompletionQueue tells one reader when events complete. No thread waits for each, and no thread of the plugin enters
// Go. It appends to a list in C and wakes the reader through a descriptor.
type CompletionQueue struct {
	mu     sync.RWMutex // held for writing while the queue is freed
	handle *C.pjc_queue
	wake   *os.File
	client *Client
	guard  closeGuard
}

// NewCompletionQueue makes a queue for the client's events.
func (c *Client) NewCompletionQueue() (*CompletionQueue, error) {
	const fn = C.pj_fn_Event_OnReady
	if c.life.closed() {
		return nil, closedError(fn, "the client")
	}
	wake, err := newWakeup(fn)
	if err != nil {
		return nil, err
	}
	handle := C.pjc_queue_new(wake.fd)
	if handle == nil {
		wake.file.Close()
		return nil, c.plugin.fail(fn, C.PJC_NO_MEMORY)
	}
	q := &CompletionQueue{handle: handle, wake: wake.file, client: c}
	guard(&q.guard, q, "a completion queue")
	return q, nil
}

// Watch puts a Completion with this token on the queue when the event completes,
// at once if it has. The event stays the caller's; it may be destroyed before.
func (q *CompletionQueue) Watch(e Event, token uint64) error {
	const fn = C.pj_fn_Event_OnReady
	if e == 0 {
		return invalid(fn, "the event is zero")
	}
	if err := q.client.track.useEvent(fn, e); err != nil {
		return err
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.handle == nil {
		return closedError(fn, "the completion queue")
	}
	p := q.client.plugin
	if failure := C.pjc_queue_watch(q.handle, p.api, C.pj_event(e), C.uint64_t(token)); failure != 0 {
		return p.fail(fn, failure)
	}
	return nil
}

// Poll takes completions that are there, up to the length of out, without
// waiting, and returns their number.
func (q *CompletionQueue) Poll(out []Completion) (int, error) {
	const fn = C.pj_fn_Event_OnReady
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.handle == nil {
		return 0, closedError(fn, "the completion queue")
	}
	var taken [64]C.pjc_completion
	n := int(C.pjc_queue_take(q.handle, &taken[0], C.size_t(min(len(out), len(taken)))))
	for i := range taken[:n] {
		t := &taken[i]
		out[i] = Completion{Token: uint64(t.token)}
		if t.code != C.PJRT_Error_Code_OK {
			out[i].Err = newError(Code(t.code), fn, goText(unsafe.Pointer(t.message), t.message_size))
			C.pjc_completion_free(t)
		}
	}
	return n, nil
}

// Wait waits until there is a completion and then does as Poll. It returns an
// error when the queue is closed, also by another goroutine meanwhile.
func (q *CompletionQueue) Wait(out []Completion) (int, error) {
	if len(out) == 0 {
		return 0, nil
	}
	var counter [8]byte
	for {
		n, err := q.Poll(out)
		if n > 0 || err != nil {
			return n, err
		}
		if _, err := q.wake.Read(counter[:]); err != nil {
			if errors.Is(err, os.ErrClosed) {
				return 0, closedError(C.pj_fn_Event_OnReady, "the completion queue")
			}
			return 0, err
		}
	}
}

// WaitContext waits as Wait does, but no longer than the context, and then
// returns the context's error. One goroutine at a time may wait with a context.
func (q *CompletionQueue) WaitContext(ctx context.Context, out []Completion) (int, error) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		// The reader wakes with os.ErrDeadlineExceeded; a closed file wakes it anyway.
		_ = q.wake.SetReadDeadline(time.Unix(0, 1))
	})
	n, err := q.Wait(out)
	if !stop() {
		<-ended
		_ = q.wake.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ctx.Err()
	}
	return n, err
}

// Close ends the queue and wakes a reader that waits. Events that were watched
// and have not completed go on without it. Closing again does nothing.
func (q *CompletionQueue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.handle == nil {
		return nil
	}
	C.pjc_queue_close(q.handle)
	q.handle = nil
	q.guard.done()
	return q.wake.Close()
}
