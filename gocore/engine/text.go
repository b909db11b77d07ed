package engine

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
)

// printPlan is the text form of a plan, one line a node, numbered as the plan numbers them.
func printPlan(p *lazy.Plan) string {
	var b strings.Builder
	for i := range len(p.Nodes) + 1 {
		b.WriteString(planLine(p, i) + "\n")
	}
	return b.String()
}

// planLine is a line of a plan's text: of a node, or the one behind them, of what the plan returns.
func planLine(p *lazy.Plan, i int) string {
	g := &p.Trace.Graph
	if i < len(p.Nodes) {
		id := p.Nodes[i]
		return ref(p, id) + " = " + ir.Text(ops.Vocabulary, g, id, func(id ir.ID) string { return ref(p, id) })
	}
	var b strings.Builder
	b.WriteString("return")
	for i, r := range p.Roots {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + ref(p, r.ID) + " : " + g.Shape(r.ID).String())
	}
	return b.String()
}

func ref(p *lazy.Plan, id ir.ID) string {
	g := &p.Trace.Graph
	w := p.Ref(g, id)
	if k := w & 0xffff; k != 0 {
		return fmt.Sprintf("%%%d#%d", w>>16, k)
	}
	return fmt.Sprintf("%%%d", w>>16)
}

// nodeInfo is what is known of a node beside its text.
type nodeInfo struct {
	Slot  int32  `json:"slot"`  // of the graph, in the order in which nodes were recorded; see NextSlot
	Where string `json:"where"` // the Python line, "file:line"; "" for what autograd records
	Flops int64  `json:"flops"` // an estimate; see interp.Operations
	Bytes int64  `json:"bytes"` // of all its results
}

// nodesOf is a plan's nodes, in the order of its text, as a JSON list of nodeInfo.
func nodesOf(p *lazy.Plan, where func(int32) string) (string, error) {
	g, infos := &p.Trace.Graph, make([]nodeInfo, len(p.Nodes))
	for i, id := range p.Nodes {
		infos[i] = nodeInfo{Slot: int32(id), Where: where(g.At(id).Loc), Flops: interp.Operations(g, id)}
		for k := range ir.ID(g.At(id).Results) {
			infos[i].Bytes += g.Shape(id + k).Bytes()
		}
	}
	text, err := json.Marshal(infos)
	return string(text), err
}

// dotPlan is the plan as a graph for Graphviz; byTorch says that its ops run by torch's kernels.
func dotPlan(p *lazy.Plan, byTorch bool) string {
	g := &p.Trace.Graph
	var b strings.Builder
	b.WriteString("digraph G {\n  rankdir=TB; node [shape=box, fontsize=10];\n")
	for i, id := range p.Nodes {
		n := g.At(id)
		label := ops.Name(n.Op)
		if num, ok := g.Number(id); ok {
			label = num.String()
		} else if byTorch && n.Op != ir.OpData {
			label = "torch: " + label
		}
		fmt.Fprintf(&b, "  n%d [label=%q];\n", i+1, label+"\n"+g.Shape(id).String())
		for _, in := range g.In(id) {
			if in != ir.None {
				fmt.Fprintf(&b, "  n%d -> n%d;\n", p.Ref(g, in)>>16, i+1)
			}
		}
	}
	for i, r := range p.Roots {
		fmt.Fprintf(&b, "  r%d [label=\"result %d\", shape=ellipse];\n  n%d -> r%d;\n", i, i, p.Ref(g, r.ID)>>16, i)
	}
	b.WriteString("}\n")
	return b.String()
}
