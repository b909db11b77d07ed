package alias

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Split ends the graph of a device after a sync of only some storages. The storages that are still Pending are
// recorded again in a new graph, in which the computed values are leaves. computed gives the buffer of a value that
// the sync computes, or nil; Split retains what it uses. The caller releases the references of the old leaves, which
// it gets back. There are no effects.
func (s *Store) Split(dev int32, computed func(ir.ID) Buffer) (old []Leaf) {
	t := &s.traces[dev]
	from := t.Graph
	old = t.Leaves
	dirty := t.Dirty
	t.Graph, t.Leaves, t.Dirty, t.gaps = ir.Graph{Local: from.Local}, nil, nil, 0
	t.epoch++
	c := copier{from: &from, to: t, old: old, computed: computed, ids: make([]ir.ID, from.Len())}
	for _, slot := range dirty {
		if slot != 0 {
			c.need(s.cells[slot].Value)
		}
	}
	c.copy()
	for _, slot := range dirty {
		if slot == 0 {
			continue
		}
		cell := &s.cells[slot]
		cell.Value, cell.Epoch = c.ids[cell.Value], t.epoch
		if cell.Origin != ir.None {
			cell.Origin = c.ids[cell.Origin]
		}
		t.Dirty = append(t.Dirty, slot)
		cell.dirty = int32(len(t.Dirty))
	}
	return old
}

// copier copies the needed part of a graph.
type copier struct {
	from     *ir.Graph
	to       *Trace
	old      []Leaf
	computed func(ir.ID) Buffer
	ids      []ir.ID // by old slot: the new slot; wanted before that
}

const wanted ir.ID = -1

func (c *copier) need(id ir.ID) { c.ids[id] = wanted }

// copy goes down once to find what is needed, as operands come before users, and up once to copy.
func (c *copier) copy() {
	g := c.from
	for id := ir.ID(g.Len() - 1); id > ir.None; id-- {
		if c.ids[id] != wanted || c.computed(id) != nil {
			continue
		}
		if p := g.Producer(id); p != id {
			c.need(p)
			continue
		}
		for _, in := range g.In(id) {
			if in != ir.None {
				c.need(in)
			}
		}
	}
	var in []ir.ID
	var outs []*shape.Shape
	for id := ir.ID(1); int(id) < g.Len(); id++ {
		if c.ids[id] != wanted {
			continue
		}
		n := g.At(id)
		if buf := c.computed(id); buf != nil {
			c.ids[id] = c.to.AddLeaf(n.Shape, buf)
			if n.Results < 2 {
				continue
			}
		}
		switch n.Op {
		case ir.OpResult: // copied with its producer
		case ir.OpData:
			c.ids[id] = c.to.AddLeaf(n.Shape, c.old[g.Attr(id)[0]].Buf)
		default:
			in = in[:0]
			for _, x := range g.In(id) {
				if x != ir.None {
					x = c.ids[x]
				}
				in = append(in, x)
			}
			outs = outs[:0]
			for k := range max(int(n.Results), 1) {
				outs = append(outs, g.Shape(id+ir.ID(k)))
			}
			c.results(id, in, outs)
		}
	}
}

// results copies a node and maps those of its values that are not leaves by now.
func (c *copier) results(id ir.ID, in []ir.ID, outs []*shape.Shape) {
	g := c.from
	n := g.At(id)
	var at ir.ID
	c.to.Graph.Loc = n.Loc
	if len(outs) == 1 {
		at = c.to.Graph.Add(n.Op, in, g.Attr(id), outs[0], n.Flags)
	} else {
		at = c.to.Graph.AddMulti(n.Op, in, g.Attr(id), outs)
	}
	for k := range outs {
		if v := id + ir.ID(k); c.ids[v] == wanted {
			c.ids[v] = at + ir.ID(k)
		}
	}
}
