package alias

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// Compact drops what no cell needs any more of the graph of a device, with the buffers that only that read. What stays
// keeps its order, leaves of live storages included. A program is thus the same whether or not its recording was
// compacted on the way.
func (s *Store) Compact(dev int32) {
	t := &s.traces[dev]
	g := &t.Graph
	if g.Len() == 0 {
		return
	}
	need := slices.Grow(t.need[:0], g.Len())[:g.Len()]
	clear(need)
	t.need = need
	const wanted ir.ID = 1
	s.named(dev, func(id *ir.ID) { need[*id] = wanted })
	need[ir.None] = ir.None
	for id := ir.ID(g.Len() - 1); id > ir.None; id-- {
		if need[id] == ir.None {
			continue
		}
		if p := g.Producer(id); p != id {
			need[p] = wanted
			continue
		}
		for _, in := range g.In(id) {
			if in != ir.None {
				need[in] = wanted
			}
		}
	}
	g.Keep(need)
	s.named(dev, func(id *ir.ID) { *id = need[*id] })
	kept := t.Leaves[:0]
	for _, leaf := range t.Leaves {
		if leaf.ID = need[leaf.ID]; leaf.ID == ir.None {
			leaf.Buf.Release()
			continue
		}
		g.Readdress(leaf.ID, int64(len(kept)))
		kept = append(kept, leaf)
	}
	clear(t.Leaves[len(kept):])
	t.Leaves = kept
}

// named calls f with each place where a cell, or the list of effects, names a node of the current graph of a device.
func (s *Store) named(dev int32, f func(*ir.ID)) {
	t := &s.traces[dev]
	for i := range t.Effects {
		f(&t.Effects[i])
	}
	epoch := t.epoch
	for i := range s.cells {
		if c := &s.cells[i]; c.Dev == dev && c.Epoch == epoch && (c.State == Pending || c.State == Device) {
			f(&c.Value)
			f(&c.Origin)
		}
	}
}
