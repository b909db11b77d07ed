package engine

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// flush plans, lowers if need be, and launches the pending graph of a device. The caller holds mu, and
// calls Drain when it has released it. The error is that of an op which cannot be lowered; the storages
// that depend on it have it from now on, the others are computed all the same. It is errBusy if the program
// compiles: then the graph is flushed later, and nothing can be recorded before.
func (pl *planner) flush(d *runtime.Device) error {
	t := pl.store.Trace(d.Index)
	pl.tracing[d.Index].End(profile.Trace, int64(t.Graph.Len()))
	pl.tracing[d.Index] = profile.Span{}
	slots := pl.slots[:0]
	for _, s := range t.Dirty {
		if s != 0 {
			slots = append(slots, s)
		}
	}
	pl.slots = slots
	slots = pl.excludePlaceholders(t, slots)
	if len(slots) == 0 && len(t.Effects) == 0 {
		pl.materializeZeros(d, t, nil)
		discard(t)
		return nil
	}
	return pl.compute(d, t, slots, func(slots []uint32, p *program) (l *runtime.Launch) {
		if p != nil {
			l = pl.launch(d, t, p)
		}
		pl.bind(t, slots, l)
		discard(t)
		return l
	})
}

// compute plans what slots need, and enqueues the launch that run makes of the program, which is nil if nothing is left
// to compute.
func (pl *planner) compute(d *runtime.Device, t *alias.Trace, slots []uint32, run func([]uint32, *program) *runtime.Launch) error {
	syncs.Add(1)
	slots, p, err := pl.prepare(d, t, slots)
	return pl.whenCompiled(d, p, func() error {
		if l := run(slots, p); l != nil {
			d.Enqueue(l)
		}
		return err
	})
}

// flushSome computes some storages; the rest of the graph stays as it is, and reads their values.
func (pl *planner) flushSome(d *runtime.Device, slots []uint32) error {
	t := pl.store.Trace(d.Index)
	if len(t.Effects) > 0 { // what is exchanged with other processes must be so once, and in order
		return pl.flush(d)
	}
	if slots = pl.excludePlaceholders(t, slots); len(slots) == 0 {
		return nil
	}
	return pl.compute(d, t, slots, func(slots []uint32, p *program) (l *runtime.Launch) {
		if p != nil {
			for _, place := range pl.plan.Params {
				t.Leaves[place].Buf.Retain() // launch takes one, the trace keeps its own
			}
			kept := slices.Clone(t.Leaves)
			l = pl.launch(d, t, p)
			copy(t.Leaves, kept)
		}
		var outs []*runtime.Buffer
		if l != nil {
			outs = slices.Clone(l.Outs)
			for _, o := range outs {
				o.Retain() // until Split has taken what it needs
			}
		}
		pl.bind(t, slots, l)
		old := pl.store.Split(d.Index, func(id ir.ID) alias.Buffer {
			if i, ok := pl.plan.RootIndex(id); ok {
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
		return l
	})
}
