package engine

import (
	"slices"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// UseSPMD starts SPMD, as torch_go_xla.runtime.use_spmd says. Calling it again does nothing.
func (e *Engine) UseSPMD() error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	if err := e.check(); err != nil || e.spmd() {
		return err
	}
	e.drain()
	for i := range e.DeviceCount() {
		d := e.at(int32(i))
		if err := e.cut(d); err != nil {
			return err
		}
		e.ground(d, e.store.Trace(d.Index), nil) // lets go of its zeros
		d.Kick()
	}
	all := e.client.Merge()
	err := e.store.Merge(all.Partitions(), func(b alias.Buffer) (alias.Buffer, error) {
		from := b.(*runtime.Buffer)
		return from.Place(all, from.Shape, sharding.Everywhere)
	})
	if err != nil {
		return err
	}
	e.devices.Store(&[]*runtime.Device{all})
	e.generators.merge()
	e.ctx.Partitions = all.Partitions()
	e.cache = newCache() // its programs are for single devices
	return nil
}

// spmd reports that UseSPMD was called. The caller holds mu.
func (e *Engine) spmd() bool { return e.ctx.Partitions > 0 }

// Partitions is the number of devices that SPMD spreads programs over; 0 without SPMD.
func (e *Engine) Partitions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx.Partitions
}

// TorchKernels reports that programs may call torch's own CPU kernels.
func (e *Engine) TorchKernels() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.torchKernels && !e.spmd()
}

// placement is how a dense array s of all bytes of a storage is put there.
func (e *Engine) placement(c *alias.Cell, s *shape.Shape) (*shape.Shape, *sharding.Sharding) {
	switch {
	case !e.spmd():
		return s, nil
	case c.Sharding != nil && c.Shape.DType == s.DType && c.Shape.Bytes() == s.Bytes():
		return c.Shape, c.Sharding
	}
	return s, sharding.Everywhere
}

// Annotate gives the value of a storage, a dense array of dims, a sharding, which later values of these
// dimensions will have too. A value that is on the devices is laid out anew at once. With "" the value is
// on every device again, and later ones as the compiler likes.
func (e *Engine) Annotate(h alias.Handle, d dtype.DType, dims []int64, text string) error {
	sh, keep := sharding.Everywhere, (*sharding.Sharding)(nil)
	if text != "" {
		var err error
		if sh, err = sharding.Parse(text); err != nil {
			return err
		}
		keep = sh
	}
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	for {
		c, err := e.annotated(h, d, dims, sh)
		if err != nil {
			return err
		}
		s := shape.Of(d, dims)
		if c.State == alias.Empty {
			// The first value will lie so. Zeros recorded for it would be part of the next program, whichever thread runs that, and of
			// this process's alone.
			c.Shape, c.Sharding = s, keep
			return nil
		}
		if c.State != alias.Device {
			v := alias.View{Handle: h, Type: d, View: strided.View{Size: dims, Stride: shape.Contiguous(nil, dims)}}
			id, err := e.store.Read(&v)
			if err != nil {
				return err
			}
			c.Sharding = nil
			e.store.SetPending(h, c, e.store.Trace(c.Dev).Annotate(id, sh))
			c.Sharding = keep
			return nil
		}
		old := c.Buf.(*runtime.Buffer)
		if c.Shape == s && old.Sharding() == sh {
			c.Sharding = keep
			return nil
		}
		to, err := e.place(old, s, sh)
		if err != nil {
			return err
		}
		if c, err := e.cell(h); err == nil && c.State == alias.Device && c.Buf == alias.Buffer(old) {
			e.store.SetDevice(e.store.Slot(h), s, to)
			c.Sharding = keep
			return nil
		}
		to.Release() // the value has changed meanwhile
	}
}

// annotated is the cell of a storage that may get a sharding.
func (e *Engine) annotated(h alias.Handle, d dtype.DType, dims []int64, sh *sharding.Sharding) (*alias.Cell, error) {
	c, err := e.cell(h)
	switch {
	case err != nil:
		return nil, err
	case !e.spmd():
		return nil, ops.ErrNoSPMD
	case sh.Markable() != nil:
		return nil, sh.Markable()
	case c.Err != nil:
		return nil, c.Err
	case shape.Of(d, dims).Bytes() != c.Bytes:
		return nil, errs.New(errs.Runtime, "%s does not cover its storage of %d bytes", shape.Of(d, dims), c.Bytes)
	case e.local(c):
		return nil, ops.ErrLocal
	}
	return c, sh.Check(e.ctx.Partitions, dims)
}

// place is Buffer.Place, without the lock. What is not whole in each process they lay out together.
func (e *Engine) place(b *runtime.Buffer, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
	b.Retain()
	defer b.Release()
	e.mu.Unlock()
	defer e.lockWhenIdle()
	if !b.Whole() && s == b.Shape {
		return e.relaid(b, sh)
	}
	all, err := e.complete(b)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	return all.Place(b.Dev, s, sh)
}

// shardingOf is the sharding of a cell's value as far as it is known and not everywhere; nil otherwise.
func (e *Engine) shardingOf(c *alias.Cell) *sharding.Sharding {
	switch {
	case c.Sharding != nil:
		return c.Sharding
	case c.State == alias.Device:
		if sh := c.Buf.Sharding(); sh != sharding.Everywhere {
			return sh
		}
	case c.State == alias.Pending:
		t := e.store.Trace(c.Dev)
		if t.Graph.Manual(c.Value) {
			return t.Local(c.Value)
		}
		if sh := t.Annotated(c.Value); sh != sharding.Everywhere {
			return sh
		}
	}
	return nil
}

// local reports that a cell's value is local to the devices.
func (e *Engine) local(c *alias.Cell) bool {
	sh := e.shardingOf(c)
	return sh != nil && sh.Kind == sharding.Manual
}

var opClone, _ = ops.Lookup("clone")

// inherit lets a copy lie on the devices as the whole storage that it is a copy of does, given the record
// of the call.
func (e *Engine) inherit(w []int64, copied alias.Handle) {
	r, err := wire.Read(w)
	if err != nil || r.Kind() != wire.KTensor {
		return
	}
	v := view(&r)
	c, err := e.store.Cell(v.Handle)
	if err != nil || c.Shape == nil || c.Shape != shape.Of(v.Type, v.Size) || !slices.Equal(v.Stride, shape.Contiguous(nil, v.Size)) {
		return
	}
	sh := e.shardingOf(c)
	if sh == nil || sh.Markable() != nil {
		return
	}
	if c, err := e.store.Cell(copied); err == nil {
		c.Sharding = sh
	}
}

// Shard describes what one device holds of a value.
type Shard struct {
	Device  int     `json:"device"`
	Replica int     `json:"replica"`
	Start   []int64 `json:"start"`
	Size    []int64 `json:"size"`
}

// sharded settles a storage and returns its buffer, which has a sharding, with a reference.
func (e *Engine) sharded(h alias.Handle) (*runtime.Buffer, error) {
	e.begin(h)
	b, err := e.Buffer(h)
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
func (e *Engine) begin(h alias.Handle) {
	e.lockWhenIdle()
	defer e.mu.Unlock()
	if c, err := e.cell(h); err == nil && c.State == alias.Empty && c.Sharding != nil {
		t := e.store.Trace(c.Dev)
		e.store.SetPending(h, c, t.Annotate(t.Zeros(c.Shape.DType, c.Shape.Dims), c.Sharding))
	}
}

// lies is how the value of a storage lies on the devices. Where it is marked with a sharding that is known without a
// sync.
func (e *Engine) lies(h alias.Handle) (*shape.Shape, *sharding.Sharding, *runtime.Device, error) {
	if err := e.lock(); err != nil {
		return nil, nil, nil, err
	}
	c, err := e.cell(h)
	if err == nil && c.Sharding != nil && c.Shape != nil {
		defer e.mu.Unlock()
		return c.Shape, c.Sharding, e.at(c.Dev), nil
	}
	e.mu.Unlock()
	b, err := e.sharded(h)
	if err != nil {
		return nil, nil, nil, err
	}
	defer b.Release()
	return b.Shape, b.Sharding(), b.Dev, nil
}

// Shards describes what each device of this process holds of a storage's value, after a sync if that is
// open.
func (e *Engine) Shards(h alias.Handle) ([]Shard, error) {
	s, sh, d, err := e.lies(h)
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

// FetchShard copies what a device holds of a storage's value to host memory of its size, as Shards gives it.
func (e *Engine) FetchShard(h alias.Handle, device int, dst unsafe.Pointer) error {
	b, err := e.sharded(h)
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

// SetShards replaces what each device of this process holds of a storage's value: sources are the addresses of
// dense arrays, one a device, of the sizes that Shards gives.
func (e *Engine) SetShards(h alias.Handle, sources []unsafe.Pointer) error {
	s, sh, d, err := e.lies(h)
	if err != nil {
		return err
	}
	if _, count := d.Local(); len(sources) != count {
		return errs.New(errs.Value, "%d shards for %d devices", len(sources), count)
	}
	return e.fill(h, s, func(*runtime.Device, *shape.Shape, *sharding.Sharding) (*runtime.Buffer, error) {
		return d.UploadParts(sources, s, sh)
	})
}
