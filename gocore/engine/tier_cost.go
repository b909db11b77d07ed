package engine

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
)

// cost is what a graph is predicted to cost in each tier, in nanoseconds. It is a function of the graph only, so that
// every run of a program decides alike.
type cost struct {
	compile int64 // once
	gain    int64 // of each launch of the compiled program over one op by op
}

// The prediction's constants.
const (
	compileBase   = 20_000_000 // ns: an empty program
	compileNode   = 1_500_000  // ns: each node that computes
	interpretCall = 3_000      // ns: each call of a kernel
	interpretByte = 0.05       // ns: each byte of a value that fusion would not write to memory
)

// predict predicts the cost of a plan.
func predict(p *lazy.Plan, steps *interp.Program) cost {
	g := &p.Trace.Graph
	nodes, bytes := int64(0), 0.0
	for _, id := range p.Nodes {
		if op := g.At(id).Op; op == ir.OpData || op == ir.OpScalar {
			continue
		}
		nodes++
		bytes += float64(g.Shape(id).Bytes())
	}
	for _, r := range p.Roots {
		bytes -= float64(g.Shape(r.ID).Bytes())
	}
	return cost{compile: compileBase + nodes*compileNode, gain: int64(steps.Calls)*interpretCall + int64(max(bytes, 0)*interpretByte)}
}

// pays tells whether a graph that is seen for the n-th time should be compiled: when op by op it has cost as much more as
// the compilation would. That is never more than twice the best choice in hindsight.
func (c cost) pays(n int64) bool { return (n-1)*c.gain >= c.compile }

// worth is the number of the launch from which a compilation pays.
func (c cost) worth() int64 { return 1 + (c.compile+c.gain-1)/max(c.gain, 1) }
