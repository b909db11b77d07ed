package engine

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// complete is a buffer, with a reference for the caller, that this process can read all of. Where it has a part
// alone, all processes get the others' by a program that they run together: each of them must ask.
func (e *Engine) complete(b *runtime.Buffer) (*runtime.Buffer, error) {
	if b.Whole() {
		b.Retain()
		return b, nil
	}
	return e.relaid(b, sharding.Everywhere)
}

// relaid is the array of a buffer with another sharding, computed by all processes together. The caller owns the
// reference.
func (e *Engine) relaid(b *runtime.Buffer, sh *sharding.Sharding) (*runtime.Buffer, error) {
	if err := e.lock(); err != nil {
		return nil, err
	}
	p, err := e.layout(b, sh)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	p.retain()
	e.watch(p)
	b.Retain()
	l := &runtime.Launch{Program: p, Donors: p.donors, Given: []bool{false}, Step: syncs.Value(), Args: []*runtime.Buffer{b},
		Done: func(error) { p.release() }}
	l.NewOuts(b.Dev, p.results, p.shardings)
	to := l.Outs[0]
	to.Origin = b.Origin
	e.countRun()
	b.Dev.Enqueue(l)
	e.mu.Unlock()
	b.Dev.Kick()
	return to, nil
}

// layout is the program that gives an array another sharding. The caller holds mu.
func (e *Engine) layout(b *runtime.Buffer, sh *sharding.Sharding) (*program, error) {
	m := stablehlo.NewModule("layout")
	m.SetPartitions(e.ctx.Partitions)
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
	if p, ok := e.cache.Get(key); ok {
		return p, nil
	}
	lp := &lower.Program{Module: text, Donors: []int32{-1}, Results: []*shape.Shape{b.Shape}, Open: []bool{false}}
	p := newProgram(key, b.Dev, lp, e.cache)
	p.disk, p.shardings = e.disk, []*sharding.Sharding{sh}
	e.cache.Put(key, p)
	return p, nil
}
