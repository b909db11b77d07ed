package engine

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// SyncSome computes only the given storages; what else is pending stays so, and uses the computed values
// where it needs them. What the rest of the graph still reads is not donated: it has an owner there.
func (e *Engine) SyncSome(handles []int64) error {
	if err := e.check(); err != nil {
		return err
	}
	byDevice := make(map[int32][]uint32)
	defer func() {
		for dev := range byDevice {
			e.at(dev).Kick() // without the lock
		}
	}()
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	e.drain()
	for _, h := range handles {
		c, err := e.store.Cell(alias.Handle(h))
		if err != nil {
			return err
		}
		if slot := e.store.Slot(alias.Handle(h)); c.State == alias.Pending && !slices.Contains(byDevice[c.Dev], slot) {
			byDevice[c.Dev] = append(byDevice[c.Dev], slot)
		}
	}
	var first error
	for dev, slots := range byDevice {
		slots = e.withChecks(dev, slots)
		if err := e.cutSome(e.at(dev), slots); err != nil && first == nil {
			first = err
		}
	}
	return e.report(first)
}

func (e *Engine) cutSome(d *runtime.Device, slots []uint32) error {
	t := e.store.Trace(d.Index)
	if len(t.Effects) > 0 { // what is exchanged with other processes must be so once, and in order
		return e.cut(d)
	}
	if slots = e.withhold(t, slots); len(slots) == 0 {
		return nil
	}
	syncs.Add(1)
	slots, p, err := e.prepare(d, t, slots)
	return e.whenCompiled(d, p, func() error {
		var l *runtime.Launch
		if p != nil {
			for _, place := range e.plan.Params {
				t.Leaves[place].Buf.Retain() // launch takes one, the trace keeps its own
			}
			kept := slices.Clone(t.Leaves)
			l = e.launch(d, t, p)
			copy(t.Leaves, kept)
		}
		var outs []*runtime.Buffer
		if l != nil {
			outs = slices.Clone(l.Outs)
			for _, o := range outs {
				o.Retain() // until Split has taken what it needs
			}
		}
		e.settle(t, slots, l)
		old := e.store.Split(d.Index, func(id ir.ID) alias.Buffer {
			if i, ok := e.plan.RootIndex(id); ok {
				return outs[i]
			}
			return nil
		})
		for _, leaf := range old {
			leaf.Buf.Release()
		}
		for _, o := range outs {
			o.Release()
		}
		if l != nil {
			d.Enqueue(l)
		}
		return err
	})
}

// Resize changes the size of a storage and keeps the bytes that fit. Shrinking to 0 frees the memory, as
// FSDP does with parameters between uses.
func (e *Engine) Resize(handle uint64, bytes int64) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	h := alias.Handle(handle)
	if _, err := e.cell(h); err != nil {
		return err
	}
	return e.store.Resize(h, bytes)
}

// Dump is the pending graph of some storages as text; see bindings.DumpGraph.
func (e *Engine) Dump(handles []int64, format string) (string, error) {
	if err := e.check(); err != nil {
		return "", err
	}
	if err := e.lock(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	var slots []uint32
	dev := int32(-1)
	for _, h := range handles {
		c, err := e.store.Cell(alias.Handle(h))
		if err != nil {
			return "", err
		}
		if dev >= 0 && c.Dev != dev {
			return "", errs.New(errs.Value, "the tensors are on different devices: xla:%d and xla:%d", dev, c.Dev)
		}
		dev = c.Dev
		if c.State == alias.Pending {
			slots = append(slots, e.store.Slot(alias.Handle(h)))
		}
	}
	if len(slots) == 0 {
		return "", nil
	}
	t := e.store.Trace(dev)
	e.plan.Build(e.store, t, slots, nil)
	return e.graph(format)
}

// graph is the plan as text: ir, dot, stablehlo, or program for just what is compiled.
func (e *Engine) graph(format string) (string, error) {
	switch format {
	case "ir":
		return printPlan(&e.plan), nil
	case "dot":
		return dotPlan(&e.plan), nil
	}
	opts := e.options()
	switch format {
	case "program":
	case "stablehlo":
		opts.TorchKernels = false // it may run elsewhere
	default:
		return "", errs.New(errs.Value, "unknown format %q: want ir, dot, stablehlo or program", format)
	}
	lp, err := lower.Lower(&e.plan, opts)
	if err != nil {
		return "", err
	}
	return string(lp.Module), nil
}
