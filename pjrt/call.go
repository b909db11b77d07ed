package pjrt

// #include "bridge.h"
import "C"

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// Call holds the argument arrays of one executable's executions in C memory, so
// that an execution allocates nothing and enters C once. Each Call serves one
// execution at a time; several Calls of one executable may run at once.
type Call struct {
	x       *Executable
	numArgs int
	guard   closeGuard

	state   atomic.Int32 // who has made it busy, or closed it, owns the fields below
	block   *C.pjc_prepared
	args    []Buffer // views of the C arrays, as the three below
	outputs []Buffer
	events  []Event
	keep    []int64
	place   *C.char  // call location
	room    C.size_t // bytes of place
}

// The states of a Call.
const (
	callIdle int32 = iota
	callBusy
	callClosed
)

// Prepare makes a Call for executions with numArgs arguments on each device.
func (x *Executable) Prepare(numArgs int) (*Call, error) {
	if len(x.devices) == 0 {
		return nil, invalid(C.pj_fn_LoadedExecutable_Execute,
			"a portable executable runs on the device that PrepareOn is given")
	}
	return x.prepare(numArgs, len(x.devices), 0)
}

// PrepareOn makes a Call for executions on one device. It may be any device for an executable that was compiled
// portable; for others it is one of its own, where the plugin serves that. Then the caller sees to it that the others
// run too.
func (x *Executable) PrepareOn(device *Device, numArgs int) (*Call, error) {
	if device == nil || device.client != x.client {
		return nil, invalid(C.pj_fn_LoadedExecutable_Execute, "the device is none of this client")
	}
	return x.prepare(numArgs, 1, device.handle)
}

func (x *Executable) prepare(numArgs, devices int, device uintptr) (*Call, error) {
	const fn = C.pj_fn_LoadedExecutable_Execute
	if numArgs < 0 || numArgs > math.MaxInt32 {
		return nil, invalid(fn, "%d arguments", numArgs)
	}
	if err := x.enter(fn); err != nil {
		return nil, err
	}
	block := C.pjc_prepare(x.client.plugin.api, C.pj_loaded(x.loaded),
		C.size_t(devices), C.size_t(numArgs), C.size_t(x.numOutputs))
	if block == nil {
		x.leave()
		return nil, x.client.plugin.fail(fn, C.PJC_NO_MEMORY)
	}
	block.execute.block.execute_device = opaque[*C.PJRT_Device](device)
	x.client.live.calls.Add(1)
	call := &Call{
		x: x, block: block, numArgs: numArgs,
		args:    unsafe.Slice((*Buffer)(unsafe.Pointer(block.args)), devices*numArgs),
		outputs: unsafe.Slice((*Buffer)(unsafe.Pointer(block.outputs)), devices*x.numOutputs),
		events:  unsafe.Slice((*Event)(unsafe.Pointer(block.events)), devices),
		keep:    unsafe.Slice((*int64)(unsafe.Pointer(block.keep)), numArgs),
	}
	guard(&call.guard, call, "a call")
	return call, nil
}

// Close frees the arrays. Closing again does nothing; closing during an
// execution is an error and closes nothing.
func (k *Call) Close() error {
	if !k.state.CompareAndSwap(callIdle, callClosed) {
		if k.state.Load() == callClosed {
			return nil
		}
		return busyError()
	}
	C.pjc_prepared_free(k.block)
	C.pjc_free(C.PJC_MEM_CALL, unsafe.Pointer(k.place), k.room)
	k.block, k.args, k.outputs, k.events, k.keep = nil, nil, nil, nil, nil
	k.guard.done()
	k.x.client.live.calls.Add(-1)
	k.x.leave()
	return nil
}

// busyError and closedCall are apart from Execute to keep it small.
func busyError() error {
	return newError(FailedPrecondition, C.pj_fn_LoadedExecutable_Execute,
		"the call is executing; one Call serves one execution at a time")
}

func (k *Call) begin() error {
	if k.state.CompareAndSwap(callIdle, callBusy) {
		return nil
	}
	if k.state.Load() == callClosed {
		return closedError(C.pj_fn_LoadedExecutable_Execute, "the call")
	}
	return busyError()
}

// SetLaunchID numbers the launches of one program over several processes, so
// that a plugin can tell when they run in different orders. Zero is none.
func (k *Call) SetLaunchID(id int32) error {
	if err := k.begin(); err != nil {
		return err
	}
	k.block.options.block.launch_id = C.int(id)
	k.state.Store(callIdle)
	return nil
}

// SetLocation gives the plugin the source line that runs the program, such as
// "train.py:12", for its messages. Empty is none.
func (k *Call) SetLocation(place string) error {
	const fn = C.pj_fn_LoadedExecutable_Execute
	if err := k.begin(); err != nil {
		return err
	}
	defer k.state.Store(callIdle)
	C.pjc_free(C.PJC_MEM_CALL, unsafe.Pointer(k.place), k.room)
	k.place, k.room, k.block.options.block.call_location = nil, 0, nil
	if place == "" {
		return nil
	}
	room := C.size_t(len(place) + 1)
	text := C.pjc_alloc(C.PJC_MEM_CALL, room)
	if text == nil {
		return k.x.client.plugin.fail(fn, C.PJC_NO_MEMORY)
	}
	copy(unsafe.Slice((*byte)(text), len(place)), place)
	k.place, k.room = (*C.char)(text), room
	k.block.options.block.call_location = k.place
	return nil
}

// Execute starts the program and does not wait for it.
//
// args has numArgs buffers for each device, device after device in the order of
// AddressableDevices. nonDonatable are the argument numbers that the program may
// not reuse for its outputs although it was compiled to. outs receives
// NumOutputs buffers for each device. events, if not nil, receives one event for
// each device, which completes when the device is done; both are the caller's to
// destroy. The arguments stay the caller's too; those that were donated are
// deleted, not destroyed.
//
// An error leaves outs and events zero, and arguments that would have been
// donated as they were.
func (k *Call) Execute(args []Buffer, nonDonatable []int32, outs []Buffer, events []Event) error {
	if err := k.begin(); err != nil {
		return err
	}
	err := k.execute(args, nonDonatable, outs, events)
	k.state.Store(callIdle)
	return err
}

func (k *Call) execute(args []Buffer, nonDonatable []int32, outs []Buffer, events []Event) error {
	const fn = C.pj_fn_LoadedExecutable_Execute
	clear(outs)
	clear(events)
	if err := k.check(args, nonDonatable, outs, events); err != nil {
		return err
	}
	copy(k.args, args)
	for i, n := range nonDonatable {
		k.keep[i] = int64(n)
	}
	c := k.x.client
	if e := C.pjc_execute(k.block, C.size_t(len(nonDonatable)), events != nil); e != 0 {
		return c.fail(fn, e)
	}
	copy(outs, k.outputs)
	c.life.add(len(outs) + len(events))
	c.live.buffers.Add(int64(len(outs)))
	c.track.buffers(outs)
	if events != nil {
		copy(events, k.events)
		c.live.events.Add(int64(len(events)))
		c.track.events(events)
	}
	return nil
}

// check refuses what would make the plugin read outside the arrays.
func (k *Call) check(args []Buffer, nonDonatable []int32, outs []Buffer, events []Event) error {
	const fn = C.pj_fn_LoadedExecutable_Execute
	switch {
	case k.x.client.life.closed():
		return closedError(fn, "the client")
	case k.x.life.closed():
		return closedError(fn, "the executable")
	case len(args) != len(k.args):
		return invalid(fn, "%d arguments for %d devices that take %d each",
			len(args), len(k.events), k.numArgs)
	case len(outs) != len(k.outputs):
		return invalid(fn, "room for %d outputs on %d devices that make %d each",
			len(outs), len(k.events), k.x.numOutputs)
	case events != nil && len(events) != len(k.events):
		return invalid(fn, "room for %d events of %d devices", len(events), len(k.events))
	case len(nonDonatable) > len(k.keep):
		return invalid(fn, "%d arguments not to donate, of %d", len(nonDonatable), k.numArgs)
	}
	for _, n := range nonDonatable {
		if n < 0 || int(n) >= k.numArgs {
			return invalid(fn, "argument %d not to donate, of %d", n, k.numArgs)
		}
	}
	for i, b := range args {
		if b == 0 {
			return invalid(fn, "argument %d is zero", i)
		}
	}
	return k.x.client.track.useBuffers(fn, args)
}
