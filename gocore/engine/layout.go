package engine

import (
	"encoding/binary"
	"hash/fnv"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// layouter puts values on devices as their shardings say.
type layouter struct {
	*planner
}

// placement is how a dense array s of all bytes of a storage is put there.
func (lay *layouter) placement(c *alias.Cell, s *shape.Shape) (*shape.Shape, *sharding.Sharding) {
	switch {
	case !lay.spmd():
		return s, nil
	case c.Sharding != nil && c.Shape.DType == s.DType && c.Shape.Bytes() == s.Bytes():
		return c.Shape, c.Sharding
	}
	return s, sharding.Everywhere
}

// place is Buffer.Place, without the lock. What is not whole in each process they lay out together.
func (lay *layouter) place(b *runtime.Buffer, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
	b.Retain()
	defer b.Release()
	lay.mu.Unlock()
	defer lay.lockWhenIdle()
	if !b.Whole() && s == b.Shape {
		return lay.relaid(b, sh)
	}
	all, err := lay.complete(b)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	return all.Place(b.Dev, s, sh)
}

// complete is a buffer, with a reference for the caller, that this process can read all of. Where it has only
// a part, all processes get the others' by a program that they run together: each of them must ask.
func (lay *layouter) complete(b *runtime.Buffer) (*runtime.Buffer, error) {
	if b.Whole() {
		b.Retain()
		return b, nil
	}
	return lay.relaid(b, sharding.Everywhere)
}

// relaid is the array of a buffer with another sharding, computed by all processes together. The caller owns the
// reference.
func (lay *layouter) relaid(b *runtime.Buffer, sh *sharding.Sharding) (*runtime.Buffer, error) {
	if err := lay.lock(); err != nil {
		return nil, err
	}
	p, err := lay.layout(b, sh)
	if err != nil {
		lay.mu.Unlock()
		return nil, err
	}
	lay.watch(p)
	b.Retain()
	l := &runtime.Launch{Program: p, Donors: p.donors, Given: []bool{false}, Step: syncs.Value(), Args: []*runtime.Buffer{b},
		Done: func(error) { p.release() }}
	l.NewOuts(b.Dev, p.results, p.shardings)
	to := l.Outs[0]
	to.Origin = b.Origin
	lay.countRun()
	b.Dev.Enqueue(l)
	lay.mu.Unlock()
	b.Dev.Drain()
	return to, nil
}

// layout is the program that gives an array another sharding, with a reference for the caller, who holds mu.
func (lay *layouter) layout(b *runtime.Buffer, sh *sharding.Sharding) (*program, error) {
	m := stablehlo.NewModule("layout")
	m.SetPartitions(lay.ctx.Partitions)
	x := ops.Annotated(m, m.Param(b.Shape, stablehlo.Sharding(b.Sharding().String())), b.Sharding())
	m.ResultAttrs(0, stablehlo.Sharding(sh.String()))
	m.Return(ops.Annotated(m, x, sh))
	text, err := m.Bytes()
	if err != nil {
		return nil, errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	h := fnv.New128a()
	_, _ = h.Write(text)
	sum := h.Sum(nil)
	key := programKey{graph: lazy.Key{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}, dev: b.Dev.Index}
	if p, ok := lay.cache.Get(key); ok && p.acquire() {
		return p, nil
	}
	lp := &lower.Program{Module: text, Donors: []int32{-1}, Results: []*shape.Shape{b.Shape}, Open: []bool{false}}
	p := newProgram(key, b.Dev, lp, lay.cache)
	p.disk, p.shardings = lay.disk, []*sharding.Sharding{sh}
	p.retain()
	lay.cache.Put(key, p)
	return p, nil
}

// download copies a buffer, zeros for nil, to host memory of exactly its size.
func (lay *layouter) download(b *runtime.Buffer, dst unsafe.Pointer, size int64) error {
	if b == nil {
		clear(unsafe.Slice((*byte)(dst), size))
		return nil
	}
	if b.Shape.Bytes() != size {
		return errs.New(errs.Runtime, "copying %s (%d bytes) to %d bytes of host memory", b.Shape, b.Shape.Bytes(), size)
	}
	start, span := time.Now(), profile.Begin()
	d := b.Dev
	b, err := lay.complete(b)
	if err != nil {
		return reported(d, err)
	}
	defer b.Release()
	if err := b.Download(dst, int(size)); err != nil {
		return reported(d, err)
	}
	fromDevice.Since(start)
	span.End(profile.FromDevice, size)
	inboundBytes.Add(float64(size))
	return nil
}

// reported returns the error that a reader of a device's values gets. A wait for the device does not report it again.
func reported(d *runtime.Device, err error) error {
	d.Reported(err)
	return err
}
