// Package runtime runs programs: devices, counted buffers, executables, and a queue per device that
// keeps executions in order while some of them still compile.
//
// A Buffer is a promise: it exists from the moment that the program which fills it is planned. Reading
// it waits; if the program fails, reading gives the cause.
//
// # Errors
//
// Errors are those of package errs. A plugin's error is errs.Xla, errs.OOM or errs.LinAlg; see Translate. A call that
// waits for a buffer gives the error of the program that fills it, or errs.Donated if another program has taken its
// memory. What a job fails by is errs.Runtime. The comment of a function names others.
//
// The package imports pjrt, hlo, sharding, shape, dtype, metrics, profile and errs.
package runtime

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Buffer is a counted reference to an array on a device, or to one that a running program will give. On
// the device that SPMD makes of several it has a part on each of them, as its sharding says.
type Buffer struct {
	// Set when it is made; they do not change.
	Shape    *shape.Shape // of the whole array; of each part if the sharding is manual
	Dev      *Device
	sharding *sharding.Sharding // nil without SPMD
	bytes    int64              // of the parts in this process
	wait     *sync.WaitGroup    // of the launch that fills it; nil: none does
	// Origin is what the value was recorded by; errors of the program that computes it say so. It is set before the
	// launch is queued.
	Origin Origin

	refs  atomic.Int32
	state atomic.Uint32 // bufPending …

	// Who fills the buffer writes these before state. Then the holder of Device.run changes them; the last Release
	// clears them.
	parts    []pjrt.Buffer  // by device of this process; valid in bufReady
	one      [1]pjrt.Buffer // memory of parts
	err      error          // valid in bufFailed and bufDead
	borrowed bool           // the memory is the host's, and was there before
	adopted  bool           // the memory is not the plugin's: torch's, which computed the value there, or own
	own      pjrt.Owned     // the memory that the plugin does not know; see memory.go

	given   atomic.Pointer[string] // where the user gave the buffer away; nil: not given. SetDonating sets it
	pins    atomic.Int32           // Pin counts it up with Device.run held, so that a launch that looks at it can rely on it
	host    atomic.Uintptr         // what Pin gives; set once, when that is known
	counted atomic.Bool            // it is in the device's ArrayStats
}

// Origin is the op and the source line that a value was recorded by, as numbers; the zero value is unknown. What
// they mean Client.Recorder says.
type Origin struct {
	Op  uint16
	Loc int32
}

const (
	bufPending uint32 = iota
	bufReady
	bufFailed
	bufDead // donated
)

var unreported = metrics.C("UnreportedPluginError")

// countUnreported counts a plugin's error that has no one to go to. It befell the freeing of something, or a question
// whose answer can be done without.
func countUnreported(err error) {
	if err != nil {
		unreported.Add(1)
	}
}

// countUnknown counts the failure of a question that a plugin need not be able to answer.
func countUnknown(err error) {
	var pe *pjrt.Error
	if !errors.As(err, &pe) || pe.Code != pjrt.Unimplemented {
		countUnreported(err)
	}
}

func newBuffer(dev *Device, s *shape.Shape, sh *sharding.Sharding, wait *sync.WaitGroup, refs int32) *Buffer {
	b := &Buffer{Shape: s, Dev: dev, sharding: sh, wait: wait, bytes: s.Bytes()}
	b.parts = b.one[:]
	if sh != nil {
		n := len(dev.devs)
		b.parts = make([]pjrt.Buffer, n)
		b.bytes = int64(n) * shape.Of(s.DType, sh.Local(s.Dims)).Bytes()
	}
	b.refs.Store(refs)
	live.Add(1)
	liveBytes.Add(b.bytes)
	return b
}

// Sharding says how the buffer lies on the devices of SPMD; nil without SPMD.
func (b *Buffer) Sharding() *sharding.Sharding { return b.sharding }

// Retain adds a reference.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Refs is the number of references.
func (b *Buffer) Refs() int32 { return b.refs.Load() }

// Release drops a reference; the last one frees the device's memory.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("runtime: buffer released once too often")
	}
	live.Add(-1)
	liveBytes.Add(-b.bytes)
	b.gone()
	if b.own.Address == nil {
		countUnreported(b.Dev.client.Destroy(b.parts...))
	}
	b.returned()
}

// returned gives back memory of the buffer's own, and counts what was not the plugin's.
func (b *Buffer) returned() {
	if b.own.Address != nil {
		b.Dev.spares.put(spare{b.own, b.bytes})
		b.own = pjrt.Owned{}
	}
	if b.adopted {
		b.adopted = false
		b.Dev.adopted.Add(-b.bytes)
	}
}

// fixed reports that no program of the plugin takes the memory over unasked.
func (b *Buffer) fixed() bool { return b.borrowed || b.adopted }

// ready makes a pending buffer ready, whose parts have been set.
func (b *Buffer) ready() {
	if !b.borrowed {
		b.counted.Store(true)
		b.Dev.arrays.add(b.bytes)
	}
	b.state.Store(bufReady)
}

// gone takes the buffer out of the device's ArrayStats.
func (b *Buffer) gone() {
	if b.counted.Swap(false) {
		b.Dev.arrays.drop(b.bytes)
	}
}

// fail makes a pending buffer an error.
func (b *Buffer) fail(err error) {
	b.err = b.recorded(err)
	b.state.Store(bufFailed)
}

// recorded adds to an error of the computation of the buffer where that was recorded.
func (b *Buffer) recorded(err error) error {
	if b.Origin == (Origin{}) || b.Dev.home.Recorder == nil {
		return err
	}
	return errs.Recorded(err, b.Dev.home.Recorder(b.Origin))
}

// kill records that the program of a step took the buffer's memory although a tensor still names it. Reading the
// buffer is then an error. It says where the value was recorded, if it was, and where it was given away.
func (b *Buffer) kill(step int64) {
	where := ""
	if at := b.given.Load(); at != nil && *at != "" {
		where = ", given away at " + *at + ","
	}
	b.err = b.recorded(errs.New(errs.Donated, "the buffer of this tensor (%s on %s)%s was donated to the program of step %d, which has taken its memory; its value is gone", b.Shape, b.Dev, where, step))
	b.state.Store(bufDead)
	b.gone()
}

// Err is the failure of the program that was to fill the buffer, or the donation that ended it; nil
// while it is pending or good.
func (b *Buffer) Err() error {
	if s := b.state.Load(); s == bufFailed || s == bufDead {
		return b.err
	}
	return nil
}

// source is the part that is all of the array, -1 if it takes several, or one of another process.
func (b *Buffer) source() int {
	switch {
	case b.sharding == nil:
		return 0
	case b.Dev.Spans() && b.sharding.Kind == sharding.Maximal:
		return -1
	}
	return b.sharding.Source()
}

// SetDonating gives the buffer away, or takes that back. The next program that reads it takes it over, whatever else
// names it. Reading it afterwards is an error of class Donated, which says where the buffer was given away.
func (b *Buffer) SetDonating(on bool, where string) {
	if on {
		b.given.Store(&where)
	} else {
		b.given.Store(nil)
	}
}

// Donating reports whether the buffer was given away.
func (b *Buffer) Donating() bool { return b.given.Load() != nil }

// Pin waits until the buffer is computed and returns the address of its data, dense and row-major; 0 where the host
// cannot read the device's memory, or the data are in several tiles. Until Unpin no program takes the memory over, not
// even one that the buffer was given to. The caller has a reference meanwhile.
func (b *Buffer) Pin() (uintptr, error) {
	if b.host.Load() == 0 {
		if err := b.finish(); err != nil {
			return 0, err
		}
	}
	b.Dev.run.Lock() // no launch is deciding what it takes over
	defer b.Dev.run.Unlock()
	if err := b.Await(); err != nil {
		return 0, err
	}
	if b.host.Load() == 0 {
		addr, err := b.address()
		if err != nil || addr == 0 {
			return 0, err
		}
		b.host.Store(addr)
	}
	b.pins.Add(1)
	return b.host.Load(), nil
}

// address is where the host can read the whole array, 0 if it cannot.
func (b *Buffer) address() (uintptr, error) {
	source := b.source()
	if source < 0 {
		return 0, nil
	}
	c := b.Dev.client
	if on, err := c.OnCPU(b.parts[source]); err != nil || !on {
		return 0, Translate(err)
	}
	addr, err := c.UnsafePointer(b.parts[source])
	return addr, Translate(err)
}

// Unpin undoes one Pin that gave an address.
func (b *Buffer) Unpin() { b.pins.Add(-1) }

// finish waits until the buffer is computed.
func (b *Buffer) finish() error {
	if err := b.Await(); err != nil || b.host.Load() != 0 { // which may have become known meanwhile
		return err
	}
	for _, raw := range b.parts {
		ev, err := b.Dev.client.Ready(raw)
		if err == nil {
			err = b.Dev.client.AwaitAndDestroy(ev)
		}
		if err != nil {
			return b.recorded(b.Dev.explain(err, "computing %s on %s", b.Shape, b.Dev))
		}
	}
	return nil
}

// Ready reports that the buffer is not pending.
func (b *Buffer) Ready() bool { return b.state.Load() != bufPending }

// Await waits until the program that fills the buffer was started: then it has its parts. The error is that of the
// program, or of the donation that ended the buffer.
func (b *Buffer) Await() error {
	if b.state.Load() == bufPending && b.wait != nil {
		b.wait.Wait()
	}
	switch b.state.Load() {
	case bufReady:
		return nil
	case bufPending:
		return errs.New(errs.Xla, "internal error: the program that fills %s never ran", b.Shape)
	}
	return b.err
}

// AwaitFor waits, for the timeout at most, until the buffer is computed, and reports whether it is; or it
// gives the error that reading the buffer gives. It exists so that a caller can look after signals meanwhile.
func (b *Buffer) AwaitFor(timeout time.Duration) (bool, error) {
	if b.host.Load() != 0 {
		return true, b.Await()
	}
	until := time.Now().Add(timeout)
	if b.state.Load() == bufPending && (timeout == 0 || !b.Dev.waitUntil(b.Ready, timeout)) {
		return false, nil
	}
	if err := b.Await(); err != nil || b.host.Load() != 0 {
		return err == nil, err
	}
	done, err := b.awaitUntil(until)
	return done && err == nil, b.recorded(b.Dev.explain(err, "computing %s on %s", b.Shape, b.Dev))
}

// awaitUntil waits until the parts of a buffer, which has them, are computed, or until a time. It reports whether they
// are; the error is that of the computation.
func (b *Buffer) awaitUntil(until time.Time) (bool, error) {
	c := b.Dev.client
	ev, err := c.Ready(b.parts[0]) // the devices run in step
	if err != nil {
		return false, err
	}
	done, err := c.AwaitFor(ev, time.Until(until))
	if done {
		return true, c.AwaitAndDestroy(ev)
	}
	return false, errors.Join(err, c.DestroyEvents(ev))
}
