package engine

import (
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// partitioner is SPMD as its callers see it.
type partitioner struct {
	*transfers
	generators *generators
}

// UseSPMD starts SPMD, as torch_go_xla.runtime.use_spmd says. Calling it again does nothing. The error is errs.Runtime
// if there are tensors on other devices than xla:0.
func (pt *partitioner) UseSPMD() error {
	if err := pt.lock(); err != nil {
		return err
	}
	defer pt.mu.Unlock()
	if err := pt.check(); err != nil || pt.spmd() {
		return err
	}
	pt.drain()
	for i := range pt.DeviceCount() {
		d := pt.at(int32(i))
		if err := pt.flush(d); err != nil {
			return err
		}
		pt.materializeZeros(d, pt.store.Trace(d.Index), nil) // releases its zeros
		d.Drain()
	}
	all := pt.client.Merge()
	err := pt.store.Merge(all.Partitions(), func(b alias.Buffer) (alias.Buffer, error) {
		from := b.(*runtime.Buffer)
		return from.Place(all, from.Shape, sharding.Everywhere)
	})
	if err != nil {
		return err
	}
	pt.devices.Store(&[]*runtime.Device{all})
	pt.generators.merge()
	pt.ctx.Partitions = all.Partitions()
	pt.cache = newCache(all) // its programs are for single devices
	return nil
}

// Partitions is the number of devices that SPMD spreads programs over; 0 without SPMD.
func (pt *partitioner) Partitions() int {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	return pt.ctx.Partitions
}

// Annotate gives the value of a storage, a dense array of dims, a sharding, which later values of these dimensions
// will have too. A value that is on the devices is laid out again at once. With "" the value is on every device again,
// and later ones as the compiler likes. The error is errs.Value for text that is not a sharding of such a value, and
// errs.Runtime without SPMD.
func (pt *partitioner) Annotate(h alias.Handle, d dtype.DType, dims []int64, text string) error {
	sh, keep := sharding.Everywhere, (*sharding.Sharding)(nil)
	if text != "" {
		var err error
		if sh, err = sharding.Parse(text); err != nil {
			return err
		}
		keep = sh
	}
	if err := pt.lock(); err != nil {
		return err
	}
	defer pt.mu.Unlock()
	for {
		c, err := pt.annotated(h, d, dims, sh)
		if err != nil {
			return err
		}
		s := shape.Of(d, dims)
		if c.State == alias.Empty {
			// The first value will lie so. Zeros recorded for it would be part of the next program, whichever thread
			// runs that, and only of this process's.
			c.Shape, c.Sharding = s, keep
			return nil
		}
		if c.State != alias.Device {
			v := alias.View{Handle: h, Type: d, View: strided.View{Size: dims, Stride: shape.Contiguous(nil, dims)}}
			id, err := pt.store.Read(&v)
			if err != nil {
				return err
			}
			c.Sharding = nil
			pt.store.SetPending(h, c, pt.store.Trace(c.Dev).Annotate(id, sh))
			c.Sharding = keep
			return nil
		}
		old := c.Buf.(*runtime.Buffer)
		if c.Shape == s && old.Sharding() == sh {
			c.Sharding = keep
			return nil
		}
		to, err := pt.place(old, s, sh)
		if err != nil {
			return err
		}
		if c, err := pt.cell(h); err == nil && c.State == alias.Device && c.Buf == alias.Buffer(old) {
			pt.store.SetDevice(pt.store.Slot(h), s, to)
			c.Sharding = keep
			return nil
		}
		to.Release() // the value has changed meanwhile
	}
}

// annotated is the cell of a storage that may get a sharding.
func (pt *partitioner) annotated(h alias.Handle, d dtype.DType, dims []int64, sh *sharding.Sharding) (*alias.Cell, error) {
	c, err := pt.cell(h)
	switch {
	case err != nil:
		return nil, err
	case !pt.spmd():
		return nil, ops.ErrNoSPMD
	case sh.Markable() != nil:
		return nil, sh.Markable()
	case c.Err != nil:
		return nil, c.Err
	case shape.Of(d, dims).Bytes() != c.Bytes:
		return nil, errs.New(errs.Runtime, "%s does not cover its storage of %d bytes", shape.Of(d, dims), c.Bytes)
	case pt.local(c):
		return nil, ops.ErrLocal
	}
	return c, sh.Check(pt.ctx.Partitions, dims)
}

// Shard describes what one device holds of a value.
type Shard struct {
	Device  int     `json:"device"`
	Replica int     `json:"replica"`
	Start   []int64 `json:"start"`
	Size    []int64 `json:"size"`
}

// sharded materializes a storage and returns its buffer, which has a sharding, with a reference.
func (pt *partitioner) sharded(h alias.Handle) (*runtime.Buffer, error) {
	pt.begin(h)
	b, err := pt.Buffer(h)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, errs.New(errs.Runtime, "the tensor was never written: it has no shards")
	case b.Sharding() == nil:
		b.Release()
		return nil, errs.New(errs.Runtime, "shards need SPMD: call use_spmd() first")
	}
	return b, nil
}

// begin gives a storage that was never written, but has a sharding, a value: zeros.
func (pt *partitioner) begin(h alias.Handle) {
	pt.lockWhenIdle()
	defer pt.mu.Unlock()
	if c, err := pt.cell(h); err == nil && c.State == alias.Empty && c.Sharding != nil {
		t := pt.store.Trace(c.Dev)
		pt.store.SetPending(h, c, t.Annotate(t.Zeros(c.Shape.DType, c.Shape.Dims), c.Sharding))
	}
}

// lies is how the value of a storage lies on the devices. Where it is marked with a sharding that is known without a
// sync.
func (pt *partitioner) lies(h alias.Handle) (*shape.Shape, *sharding.Sharding, *runtime.Device, error) {
	if err := pt.lock(); err != nil {
		return nil, nil, nil, err
	}
	c, err := pt.cell(h)
	if err == nil && c.Sharding != nil && c.Shape != nil {
		defer pt.mu.Unlock()
		return c.Shape, c.Sharding, pt.at(c.Dev), nil
	}
	pt.mu.Unlock()
	b, err := pt.sharded(h)
	if err != nil {
		return nil, nil, nil, err
	}
	defer b.Release()
	return b.Shape, b.Sharding(), b.Dev, nil
}

// Shards describes what each device of this process holds of a storage's value, after a sync if that is open. The
// error is errs.Runtime without SPMD, or if the storage was never written.
func (pt *partitioner) Shards(h alias.Handle) ([]Shard, error) {
	s, sh, d, err := pt.lies(h)
	if err != nil {
		return nil, err
	}
	first, count := d.Local()
	shards := make([]Shard, count)
	for k := range shards {
		start, size := sh.Region(first+k, s.Dims)
		shards[k] = Shard{Device: first + k, Replica: sh.Replica(first + k), Start: start, Size: size}
	}
	return shards, nil
}

// FetchShard copies what a device holds of a storage's value to host memory of its size, as Shards gives it. The error
// is errs.Index for a device of another process.
func (pt *partitioner) FetchShard(h alias.Handle, device int, dst unsafe.Pointer) error {
	b, err := pt.sharded(h)
	if err != nil {
		return err
	}
	defer b.Release()
	first, count := b.Dev.Local()
	if device < first || device >= first+count {
		return errs.New(errs.Index, "device %d is none of this process's, which are %d to %d", device, first, first+count-1)
	}
	return b.DownloadPart(device-first, dst)
}

// SetShards replaces what each device of this process holds of a storage's value. sources are the addresses of dense
// arrays, one a device, of the sizes that Shards gives. The error is errs.Value for another number of arrays.
func (pt *partitioner) SetShards(h alias.Handle, sources []unsafe.Pointer) error {
	s, sh, d, err := pt.lies(h)
	if err != nil {
		return err
	}
	if _, count := d.Local(); len(sources) != count {
		return errs.New(errs.Value, "%d shards for %d devices", len(sources), count)
	}
	return pt.fill(h, s, func(*runtime.Device, *shape.Shape, *sharding.Sharding) (*runtime.Buffer, error) {
		return d.UploadParts(sources, s, sh)
	})
}
