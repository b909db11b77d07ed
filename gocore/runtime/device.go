package runtime

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// inFlight is how many executions of a device may be started and not finished; the next one waits, so
// that a fast tracer does not fill the device's memory with the inputs of steps to come.
const inFlight = 4

// Device is one device of the process with its queue.
type Device struct {
	Index  int32
	client *pjrt.Client
	dev    *pjrt.Device

	mu      sync.Mutex // guards queue and working
	idle    *sync.Cond // on mu: the queue has become shorter
	queue   []*Launch
	working bool

	run  sync.Mutex // held while a launch runs, so that they run in order
	ring [inFlight]pjrt.Event
	next int
}

// Client is the connection to a plugin with its devices.
type Client struct {
	PJRT    *pjrt.Client
	Devices []*Device
}

// Open creates a client of a plugin. opts are the plugin's create options.
func Open(plugin *pjrt.Plugin, opts map[string]any) (*Client, error) {
	pc, err := plugin.NewClient(opts, nil)
	if err != nil {
		return nil, translate(err)
	}
	c := &Client{PJRT: pc}
	for i, d := range pc.AddressableDevices() {
		dev := &Device{Index: int32(i), client: pc, dev: d}
		dev.idle = sync.NewCond(&dev.mu)
		c.Devices = append(c.Devices, dev)
	}
	if len(c.Devices) == 0 {
		return nil, errors.Join(errs.New(errs.Runtime, "%s has no device in this process", pc), pc.Close())
	}
	return c, nil
}

// PJRT is the device as the plugin has it.
func (d *Device) PJRT() *pjrt.Device { return d.dev }

// String is torch's name of the device.
func (d *Device) String() string { return fmt.Sprintf("xla:%d", d.Index) }

// Upload copies a dense array from host memory; the memory is free for other use when it returns. The
// caller owns the reference of the result.
func (d *Device) Upload(src unsafe.Pointer, s *shape.Shape) (*Buffer, error) {
	raw, ev, err := d.client.FromHost(src, pjrt.Type(s.DType.PJRT()), s.Dims, nil, d.dev, pjrt.OnlyDuringCall)
	if err != nil {
		return nil, d.explain(err, "copying %s (%d bytes) to %s", s, s.Bytes(), d)
	}
	if err := d.client.DestroyEvents(ev); err != nil {
		return nil, translate(err)
	}
	b := newBuffer(d, s, nil, 1)
	b.fill(raw)
	return b, nil
}

// Download waits for the buffer and copies it, dense and row-major, to size bytes of host memory.
func (b *Buffer) Download(dst unsafe.Pointer, size int) error {
	raw, err := b.Await()
	if err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	ev, err := b.Dev.client.ToHost(raw, dst, size)
	if err != nil {
		return b.Dev.explain(err, "copying %s from %s", b.Shape, b.Dev)
	}
	if err := b.Dev.client.AwaitAndDestroy(ev); err != nil {
		return b.Dev.explain(err, "computing or copying %s on %s", b.Shape, b.Dev)
	}
	return nil
}

// CopyTo makes a copy on another device.
func (b *Buffer) CopyTo(dst *Device) (*Buffer, error) {
	raw, err := b.Await()
	if err != nil {
		return nil, err
	}
	to, err := b.Dev.client.CopyToDevice(raw, dst.dev)
	if err != nil {
		return nil, dst.explain(err, "copying %s from %s to %s", b.Shape, b.Dev, dst)
	}
	c := newBuffer(dst, b.Shape, nil, 1)
	c.fill(to)
	return c, nil
}

// Wait waits until the launches of the device that were submitted have finished, or until the timeout
// (0: none); done is false if it expired.
func (d *Device) Wait(timeout time.Duration) (done bool, err error) {
	if !d.WaitQueue(0, timeout) {
		return false, nil
	}
	d.run.Lock()
	defer d.run.Unlock()
	for range inFlight {
		err = errors.Join(err, d.retire())
	}
	return true, err
}

// WaitQueue waits until at most n launches wait for their turn, or until the timeout (0: none); it
// reports whether that is so.
func (d *Device) WaitQueue(n int, timeout time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	expired := false
	if timeout > 0 && len(d.queue) > n {
		t := time.AfterFunc(timeout, func() {
			d.mu.Lock()
			expired = true
			d.mu.Unlock()
			d.idle.Broadcast()
		})
		defer t.Stop()
	}
	for len(d.queue) > n && !expired {
		d.idle.Wait()
	}
	return len(d.queue) <= n
}

// retire waits for the oldest execution in flight. The caller holds run.
func (d *Device) retire() error {
	ev := d.ring[d.next]
	if ev == 0 {
		d.next = (d.next + 1) % inFlight
		return nil
	}
	d.ring[d.next] = 0
	d.next = (d.next + 1) % inFlight
	if err := d.client.AwaitAndDestroy(ev); err != nil {
		return d.explain(err, "running a program on %s", d)
	}
	return nil
}

// MemoryStats are the device allocator's figures.
func (d *Device) MemoryStats() (pjrt.MemoryStats, error) {
	st, err := d.dev.MemoryStats()
	if err != nil {
		return st, translate(err)
	}
	return st, nil
}

// explain gives a plugin's error the kind and the sentence that a user can act on.
func (d *Device) explain(err error, doing string, args ...any) error {
	var pe *pjrt.Error
	if !errors.As(err, &pe) {
		return err
	}
	what := fmt.Sprintf(doing, args...)
	if pe.Code == pjrt.ResourceExhausted {
		msg := fmt.Sprintf("out of memory on %s while %s: %s", d, what, pe.Msg)
		if st, serr := d.dev.MemoryStats(); serr == nil {
			msg += fmt.Sprintf(" (in use %d bytes, peak %d, limit %d)", st.BytesInUse, st.PeakBytesInUse, st.BytesLimit)
		}
		return errs.Wrap(errs.OOM, err, "%s", msg)
	}
	return errs.Wrap(errs.Xla, err, "%s: %v", what, err)
}

// translate gives a plugin's error a kind.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var pe *pjrt.Error
	if errors.As(err, &pe) && pe.Code == pjrt.ResourceExhausted {
		return errs.Wrap(errs.OOM, err, "")
	}
	return errs.Wrap(errs.Xla, err, "")
}
