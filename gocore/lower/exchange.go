package lower

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// exchanges keeps the exchanges with other processes in the order in which they were recorded. Each process compiles a
// program of its own, in which the compiler could choose another order than in the others.
type exchanges struct {
	count int32           // how many there were
	last  stablehlo.Value // a result of the latest that has elements
	after []int32         // by slot: which exchange the value depends on, counted from 1; 0 for none
}

// Exchanged implements ops.Source. The operand comes to depend on the exchange before, unless it does anyway.
//
// The compiler takes the replicas to run one program. What follows from constants and from results of other exchanges
// must then be equal in all of them, and it would not exchange that. The barrier hides it.
func (w *lowering) Exchanged(node ir.ID, x stablehlo.Value) stablehlo.Value {
	if w.graph.Local {
		return x
	}
	e := &w.exchanges
	if e.last != (stablehlo.Value{}) && e.after[w.graph.In(node)[0]] < e.count {
		zero := ops.Constant(w.b, ir.Number{Type: dtype.I64}, x.DType())
		x = w.b.Select(w.never(e.last), w.b.BroadcastInDim(zero, x.Dims(), nil), x)
	}
	return w.b.OptimizationBarrier(x)[0]
}

// never is false, which the compiler does not know: an element of v has more bits set than it has.
func (w *lowering) never(v stablehlo.Value) stablehlo.Value {
	ones := make([]int64, v.Rank())
	for i := range ones {
		ones[i] = 1
	}
	v = w.b.Reshape(w.b.Slice(v, make([]int64, v.Rank()), ones, ones), nil)
	if v.DType().IsComplex() {
		v = w.b.Real(v)
	}
	switch d := v.DType(); {
	case d == dtype.Bool:
		v = w.b.Convert(v, dtype.U8)
	case d.IsFloat():
		v = w.b.BitcastConvert(v, map[int]dtype.DType{1: dtype.U8, 2: dtype.U16, 4: dtype.U32, 8: dtype.U64}[d.Size()])
	}
	const most = 64
	set := w.b.Popcnt(v)
	return w.b.Compare(set, w.b.ConstLike(set, most), stablehlo.GT)
}

// lowered notes what a node depends on.
func (e *exchanges) lowered(g *ir.Graph, id ir.ID, outs []stablehlo.Value) {
	if g.Local {
		return
	}
	if e.after == nil {
		e.after = make([]int32, g.Len())
	}
	after := int32(0)
	for _, in := range g.In(id) {
		after = max(after, e.after[in])
	}
	if row := ops.Of(g.At(id).Op); row != nil && row.Exchanges {
		e.count++
		after = e.count
		if outs[0].Shape().Numel() > 0 {
			e.last = outs[0]
		}
	}
	for k := range outs {
		e.after[id+ir.ID(k)] = after
	}
}
