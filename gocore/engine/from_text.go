package engine

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// Record records a graph from its text form (see ir.Parse) as if its ops had been called. args are the storages of the
// buffers that it reads, in order. outs takes the handles of new storages with its results. Text that is not a graph,
// shapes that the shape rules do not give, and storages of other shapes are errs.Value.
func (rec *recorder) Record(text string, args, outs []int64) error {
	g, err := ir.Parse(ops.Vocabulary, text)
	if err != nil {
		return errs.Wrap(errs.Value, err, "graph: %v", err)
	}
	if len(args) != len(g.Data) || len(outs) != len(g.Roots) {
		return errs.New(errs.Value, "the graph reads %d buffers and has %d results, there are %d and %d",
			len(g.Data), len(g.Roots), len(args), len(outs))
	}
	if err := rec.lock(); err != nil {
		return err
	}
	defer rec.mu.Unlock()
	if err := rec.check(); err != nil {
		return err
	}
	all, err := rec.handles(args)
	if err != nil {
		return err
	}
	var dev int32
	if len(all) > 0 {
		c, _ := rec.store.Cell(all[0])
		dev = c.Dev
	}
	t := rec.store.Trace(dev)
	t.Graph.Loc = 0
	copied := make([]ir.ID, g.Graph.Len())
	for id := ir.ID(1); int(id) < g.Graph.Len(); id++ {
		switch n := g.Graph.At(id); n.Op {
		case ir.OpResult:
		case ir.OpData:
			copied[id], err = rec.whole(all[slices.Index(g.Data, id)], n.Shape)
		case ir.OpScalar:
			copied[id] = t.Graph.Add(n.Op, nil, g.Graph.Attr(id), n.Shape, n.Flags)
		default:
			err = rec.copyNode(t, &g.Graph, id, copied)
		}
		if err != nil {
			return err
		}
	}
	for i, id := range g.Roots {
		h, err := rec.store.New(g.Graph.Shape(id).Bytes(), dev)
		if err != nil {
			return err
		}
		c, _ := rec.store.Cell(h)
		rec.store.SetPending(h, c, copied[id])
		outs[i] = int64(h)
	}
	return nil
}

// whole is the value of a storage that is a dense array of a shape.
func (rec *recorder) whole(h alias.Handle, s *shape.Shape) (ir.ID, error) {
	c, err := rec.store.Cell(h)
	if err != nil {
		return ir.None, err
	}
	if c.Bytes != s.Bytes() {
		return ir.None, errs.New(errs.Value, "the graph reads a %s, the storage has %d bytes", s, c.Bytes)
	}
	view := strided.View{Size: s.Dims, Stride: shape.Contiguous(nil, s.Dims)}
	return rec.store.Read(&alias.View{Handle: h, Type: s.DType, View: view})
}

// copyNode records a node of g, whose operands have been.
func (rec *recorder) copyNode(t *alias.Trace, g *ir.Graph, id ir.ID, copied []ir.ID) (err error) {
	defer func() {
		if r := recover(); r != nil { // the shape rules rely on torch's checks of the schema
			err = errs.New(errs.Value, "%s: the arguments are not what the schema asks for: %v", ops.Describe(g, id), r)
		}
	}()
	n := g.At(id)
	in := make([]ir.ID, len(g.In(id)))
	for i, operand := range g.In(id) {
		in[i] = copied[operand]
	}
	row := ops.Of(n.Op)
	rec.ctx.Begin(&t.Graph, row, g.Attr(id), in)
	if err := row.Infer(&rec.ctx); err != nil {
		return errs.Wrap(errs.KindOf(err), err, "%s: %v", ops.Describe(g, id), err)
	}
	outs := rec.ctx.Outs()
	if len(outs) != int(n.Results) {
		return errs.New(errs.Value, "%s has %d results, the graph says %d", ops.Describe(g, id), len(outs), n.Results)
	}
	for k, s := range outs {
		if said := g.Shape(id + ir.ID(k)); s != said {
			return errs.New(errs.Value, "%s gives %s, the graph says %s", ops.Describe(g, id), s, said)
		}
	}
	at := t.Graph.AddMulti(n.Op, in, g.Attr(id), outs)
	for k := range outs {
		copied[id+ir.ID(k)] = at + ir.ID(k)
	}
	return nil
}
