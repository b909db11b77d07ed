package lower

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Parameter is a parameter of a function.
type Parameter struct {
	Shape *shape.Shape
	Leaf  ir.ID // the leaf that it stands for; None: the function does not read it
}

// Function emits what a plan computes as a function of some leaves. Its parameters are all of params, in their order;
// its results are the values outs; the numbers are part of it. The error is errs.NotLower with SPMD, or if the plan
// reads other leaves. It is errs.NotLower too if it draws random numbers, which need a state that a function does not
// have.
func Function(p *lazy.Plan, params []Parameter, outs []ir.ID, o Options) (*stablehlo.Builder, error) {
	if p.Trace.Partitions > 0 {
		return nil, errs.New(errs.NotLower, "a function cannot be traced with SPMD")
	}
	w := newLowering(p, "function")
	w.fixed = true
	o.Locations, o.TorchKernels = false, false // it may run in a process without torch
	for _, param := range params {
		v := w.b.Param(param.Shape)
		if param.Leaf != ir.None {
			w.vals[param.Leaf] = v
		}
	}
	for _, place := range p.Params {
		if id := p.Trace.Leaves[place].ID; w.vals[id].IsZero() {
			return nil, errs.New(errs.NotLower, "the function reads a tensor of shape %s that is not among its arguments", w.graph.Shape(id))
		}
	}
	for _, id := range p.Nodes {
		for _, in := range w.graph.In(id) {
			if in != ir.None && w.graph.At(in).Flags&(ir.RandomKey|ir.RandomDraw) != 0 {
				return nil, errs.New(errs.NotLower, "the function draws random numbers: %s", ops.Name(w.graph.At(id).Op))
			}
		}
	}
	l, err := w.nodes(p.Nodes, outs, o)
	if err != nil {
		return nil, err
	}
	results := make([]stablehlo.Value, len(outs))
	for i, id := range outs {
		results[i] = w.root(l, id)
	}
	w.b.Return(results...)
	return w.b, nil
}
