package pjrt

// #cgo noescape pjc_destroy_all
// #include "bridge.h"
import "C"

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// Event names an asynchronous operation of a plugin; zero is none, and counts as
// complete. It belongs to the client that made it and is destroyed once, by
// AwaitAndDestroy or DestroyEvents.
type Event uintptr

// Await waits until the operation is complete and returns its error. It holds an
// operating-system thread meanwhile; a CompletionQueue waits for many at once.
func (c *Client) Await(e Event) error {
	if e == 0 {
		return nil
	}
	if err := c.track.useEvent(C.pj_fn_Event_Await, e); err != nil {
		return err
	}
	if r := C.pjc_await(c.plugin.api, C.pj_event(e), false); r.error != 0 {
		return c.fail(r.fn, r.error)
	}
	return nil
}

// spin is how long AwaitFor looks at an event before it sleeps. Being woken takes
// longer than most programs of an inference step.
const spin = 20 * time.Microsecond

// AwaitFor waits until the operation is complete, for at most the timeout, and
// reports whether it is, with or without success. Like Await it holds a thread:
// the one that completes the operation wakes it directly.
func (c *Client) AwaitFor(e Event, timeout time.Duration) (bool, error) {
	if e == 0 {
		return true, nil
	}
	if err := c.track.useEvent(C.pj_fn_Event_Await, e); err != nil {
		return false, err
	}
	spinning := min(spin, timeout)
	r := C.pjc_await_for(c.plugin.api, C.pj_event(e), C.int64_t(spinning), C.int64_t(timeout))
	if r.error != 0 {
		return false, c.fail(r.fn, r.error)
	}
	return r.number != 0, nil
}

// AwaitContext waits as Await does, but no longer than the context, and then
// returns the context's error. The operation goes on. It holds no thread.
func (c *Client) AwaitContext(ctx context.Context, e Event) error {
	// Most waits are short, and then need no queue.
	if ready, err := c.EventReady(e); err != nil || ready {
		if err != nil {
			return err
		}
		return c.Await(e)
	}
	q, err := c.NewCompletionQueue()
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.Watch(e, 0); err != nil {
		return err
	}
	var done [1]Completion
	if _, err := q.WaitContext(ctx, done[:]); err != nil {
		return err
	}
	return done[0].Err
}

// AwaitAndDestroy waits as Await does, and destroys the event whatever came.
func (c *Client) AwaitAndDestroy(e Event) error {
	if e == 0 {
		return nil
	}
	if err := c.track.useEvent(C.pj_fn_Event_Await, e); err != nil {
		return err
	}
	c.track.dropEvent(e)
	r := C.pjc_await(c.plugin.api, C.pj_event(e), true)
	var err error
	if r.error != 0 {
		err = c.fail(r.fn, r.error)
	}
	c.live.events.Add(-1)
	c.leave(1)
	return err
}

// EventReady reports whether the operation is complete, with or without success.
func (c *Client) EventReady(e Event) (bool, error) {
	if e == 0 {
		return true, nil
	}
	if err := c.track.useEvent(C.pj_fn_Event_IsReady, e); err != nil {
		return false, err
	}
	return c.plugin.truth(C.pj_fn_Event_IsReady, uintptr(e))
}

// EventError is the error of an operation that is complete.
func (c *Client) EventError(e Event) error {
	if e == 0 {
		return nil
	}
	ready, err := c.EventReady(e)
	if err != nil {
		return err
	}
	if !ready {
		return newError(FailedPrecondition, C.pj_fn_Event_Error, "the event is not complete")
	}
	return c.plugin.do(C.pj_fn_Event_Error, uintptr(e))
}

// DestroyEvents destroys events and sets the slice's elements to zero. Zeros are
// skipped. An operation goes on when its event is destroyed.
func (c *Client) DestroyEvents(events ...Event) error {
	err := c.track.dropEvents(events)
	n, failure := destroyAll(c, C.pj_fn_Event_Destroy, events)
	c.live.events.Add(-int64(n))
	c.leave(n)
	if failure != nil {
		return failure
	}
	return err
}

// destroyAll destroys objects in one crossing, zeroes the slice and returns how
// many objects it held.
func destroyAll[T ~uintptr](c *Client, fn fnID, objects []T) (n int, err error) {
	for _, o := range objects {
		if o != 0 {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	failure := C.pjc_destroy_all(c.plugin.api, fn,
		(*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(objects))), C.size_t(len(objects)))
	clear(objects)
	if failure != 0 {
		err = c.plugin.fail(fn, failure)
	}
	return n, err
}

// newEvent counts an event that a call made, and holds the client for it.
func (c *Client) newEvent(e uintptr) Event {
	if e == 0 {
		return 0
	}
	c.life.add(1)
	c.live.events.Add(1)
	c.track.event(Event(e))
	return Event(e)
}

// NewEvent makes an event that SetEvent completes, to be waited for like those
// of a plugin's own work.
func (c *Client) NewEvent() (Event, error) {
	const fn = C.pj_fn_Event_Create
	if err := c.enter(fn); err != nil {
		return 0, err
	}
	defer c.leave(1)
	var block C.PJRT_Event_Create_Args
	if err := call(c.plugin, fn, &block); err != nil {
		return 0, err
	}
	return c.newEvent(uintptr(unsafe.Pointer(block.event))), nil
}

// SetEvent completes an event of NewEvent: with success if code is OK, else with
// the code and the message.
func (c *Client) SetEvent(e Event, code Code, message string) error {
	const fn = C.pj_fn_Event_Set
	if e == 0 {
		return invalid(fn, "the event is zero")
	}
	if err := c.track.useEvent(fn, e); err != nil {
		return err
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	return call(c.plugin, fn, &C.PJRT_Event_Set_Args{
		event: opaque[*C.PJRT_Event](uintptr(e)), error_code: C.PJRT_Error_Code(code),
		error_message:      pinnedBytes(&pins, []byte(message)),
		error_message_size: C.size_t(len(message)),
	})
}
