// Package lower turns a plan into a StableHLO module.
//
// The module's parameters are the plan's buffers, in the plan's order, then at most three packs of numbers. These are
// vectors f32[n], f64[n], i64[n] that hold all n numbers of the plan in that type. One transfer a pack carries every
// learning rate, step count and literal of a step, and a new value never needs a new compile.
//
// Errors are errs.Compile where a row's lowering is wrong. What cannot be done with the local values of manual sharding
// is errs.NotLower or errs.Runtime. A composite with attributes that are not JSON is errs.Value.
//
// The package imports lazy, ops, ir, sharding, shape, dtype, stablehlo and errs.
package lower

import (
	"runtime/debug"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Options are the choices that change the module but not its meaning. They are part of the cache key.
type Options struct {
	// Precision is the operand precision of matrix products and convolutions.
	Precision stablehlo.Precision
	// TorchKernels lets the program call torch's own CPU kernels, which only a process with torch can run.
	TorchKernels bool
	// HostMemory says that the device has a memory of the host's beside its own.
	HostMemory bool
	// Locations writes the Python line of each op into the module.
	Locations bool
	// Where gives the text of a source location; nil for none.
	Where func(loc int32) string
	// Shardy partitions the program where it can, not GSPMD.
	Shardy bool
	// Functions are those that control flow calls, by name.
	Functions map[string]*stablehlo.Function
}

// Program is a module with what a caller needs to run it.
type Program struct {
	// Module is the StableHLO text.
	Module []byte
	// Packs are the element types of the packs, in parameter order after the buffers.
	Packs []dtype.DType
	// Results are the shapes of the results, one a root.
	Results []*shape.Shape
	// Donors says for each buffer parameter which result may take its buffer over, -1 for none.
	Donors []int32
	// Replicas says that each process of the job runs a replica of the program, which tells them apart or
	// exchanges data between them.
	Replicas bool
	// Open says for each result whether the compiler chooses its sharding; nil without SPMD.
	Open []bool
	// Shardy says which of XLA's partitioners the module is for.
	Shardy bool
}

// Failure is why a node cannot be lowered.
type Failure struct {
	Node ir.ID
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is the cause, which has the kind.
func (f *Failure) Unwrap() error { return f.Err }

// lowering is the state of one Lower call; it is the ops.Source of its rows.
type lowering struct {
	b      *stablehlo.Builder
	plan   *lazy.Plan
	graph  *ir.Graph
	vals   []stablehlo.Value // by slot
	packs  []dtype.DType
	packed [3]stablehlo.Value
	order  map[ir.ID]int64 // of the numbers in a pack
	args   map[argKey]stablehlo.Value

	locals   []*sharding.Sharding // by slot: what the value is local to, nil for one that is not
	marks    map[*sharding.Sharding]*stablehlo.Marking
	outer    *lowering                 // of the module around the function of a composite; nil: there is none
	taken    []stablehlo.Value         // values of outer, for the function's parameters
	fixed    bool                      // numbers are part of the module
	inside   *sharding.Sharding        // the node being lowered computes with values local to these devices; nil if not
	entered  map[entry]stablehlo.Value // values that are the same on every device, as local ones
	channels int64

	exchanges exchanges
}

type entry struct {
	stablehlo.Value
	to *sharding.Sharding
}

type argKey struct {
	id ir.ID
	d  dtype.DType
}

// Lower emits the module of a plan. The error is a Failure if it is that of one node.
func Lower(p *lazy.Plan, o Options) (*Program, error) {
	w := newLowering(p, "step_"+p.Key.String())
	g := w.graph
	w.b.Locations(o.Locations)
	w.b.SetPartitions(p.Trace.Partitions)
	for i, id := range p.Scalars {
		w.order[id] = int64(i)
	}
	prog := &Program{Shardy: o.Shardy && w.shardable()}
	if prog.Shardy {
		ops.ForShardy(w.b, p.Trace.Partitions)
	}
	prog.Donors = w.declare()
	roots := make([]ir.ID, len(p.Roots))
	for i, r := range p.Roots {
		roots[i] = r.ID
	}
	l, err := w.nodes(p.Nodes, roots, o)
	if err != nil {
		return nil, err
	}
	prog.Replicas = !g.Local && slices.ContainsFunc(p.Nodes, func(id ir.ID) bool { return isCollective(g.At(id).Op) })
	prog.Results = p.Shapes()
	outs := make([]stablehlo.Value, len(p.Roots))
	for i, r := range p.Roots {
		outs[i] = w.root(l, r.ID)
		if r.Sharding != nil {
			outs[i] = w.leave(outs[i], i, r.Sharding)
		}
		if p.Trace.Partitions > 0 {
			prog.Open = append(prog.Open, r.Sharding == nil)
		}
	}
	w.b.Return(outs...)
	prog.Packs = w.packs
	if prog.Module, err = w.b.Bytes(); err != nil {
		return nil, errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	return prog, nil
}

func newLowering(p *lazy.Plan, name string) *lowering {
	g := &p.Trace.Graph
	return &lowering{b: stablehlo.NewModule(name), plan: p, graph: g,
		vals: make([]stablehlo.Value, g.Len()), order: make(map[ir.ID]int64, len(p.Scalars)),
		args: make(map[argKey]stablehlo.Value), locals: make([]*sharding.Sharding, g.Len()),
		marks: make(map[*sharding.Sharding]*stablehlo.Marking), entered: make(map[entry]stablehlo.Value)}
}

// shardable reports that Shardy can partition the program: no values are local to devices, and all shardings are in
// terms of its mesh.
func (w *lowering) shardable() bool {
	t := w.plan.Trace
	fits := func(id ir.ID, sh *sharding.Sharding) bool {
		if sh == nil {
			return true
		}
		_, ok := sh.Shardy(w.graph.Shape(id).Dims, nil)
		return ok
	}
	for _, id := range w.plan.Nodes {
		if sh, _ := t.Annotation(id); w.graph.Manual(id) || t.Left(id) != nil || !fits(id, sh) {
			return false
		}
	}
	for _, place := range w.plan.Params {
		if leaf := t.Leaves[place]; !fits(leaf.ID, leaf.Buf.Sharding()) {
			return false
		}
	}
	for _, r := range w.plan.Roots {
		if !fits(r.ID, r.Sharding) {
			return false
		}
	}
	return t.Partitions > 0
}

// nodes lowers what roots need of nodes, which are in topological order.
func (w *lowering) nodes(nodes, roots []ir.ID, o Options) (*ops.Lowering, error) {
	l := &ops.Lowering{B: w.b, Graph: w.graph, Src: w, Precision: o.Precision, Functions: o.Functions,
		HostMemory: o.HostMemory, TorchKernels: o.TorchKernels && w.plan.Trace.Partitions == 0} // the partitioner cannot divide them
	nodes, composites := w.composites(nodes, roots)
	for _, id := range nodes {
		var err error
		if c := composites[id]; c != nil {
			err = w.compose(c, o)
		} else {
			err = w.node(l, id, o)
		}
		if err != nil {
			return nil, &Failure{id, err}
		}
	}
	return l, nil
}

// declare makes the buffer parameters and says which result each one may give its buffer to.
func (w *lowering) declare() []int32 {
	donors := w.plan.Donors()
	for i, place := range w.plan.Params {
		leaf := w.plan.Trace.Leaves[place]
		var attrs []stablehlo.Attr
		if donors[i] >= 0 {
			attrs = append(attrs, stablehlo.Alias(int(donors[i])))
		} else if w.plan.Given[i] {
			attrs = append(attrs, stablehlo.Donate())
		}
		sh := leaf.Sharding()
		w.vals[leaf.ID] = w.parameter(w.graph.Shape(leaf.ID), sh, attrs)
		if w.graph.Manual(leaf.ID) {
			w.locals[leaf.ID] = sh
		}
	}
	return donors
}

// parameter is a parameter that holds a buffer. Local values come as the rows of one array.
func (w *lowering) parameter(s *shape.Shape, sh *sharding.Sharding, attrs []stablehlo.Attr) stablehlo.Value {
	switch {
	case sh == nil:
		return w.b.Param(s, attrs...)
	case sh.Kind == sharding.Manual:
		rows, all := w.rows(s, sh)
		v := w.b.Param(all, append(attrs, stablehlo.Sharding(rows.String()))...)
		return w.b.Reshape(ops.FullToShard(w.b, v, rows, sh), s.Dims)
	}
	// The annotation keeps it from being a result as it stands: the compiler would forget the sharding of both.
	return ops.Annotated(w.b, w.b.Param(s, append(attrs, ops.ShardingAttr(w.b, sh, s))...), sh)
}

// leave gives result i its sharding.
func (w *lowering) leave(v stablehlo.Value, i int, sh *sharding.Sharding) stablehlo.Value {
	if sh.Kind == sharding.Manual {
		rows, all := w.rows(v.Shape(), sh)
		v, sh = ops.ShardToFull(w.b, w.b.Reshape(v, rows.Local(all.Dims)), rows, sh, all), rows
	}
	w.b.ResultAttrs(i, ops.ShardingAttr(w.b, sh, v.Shape()))
	return v
}

// rows is the array of the local values of all devices, one after the other, and its sharding.
func (w *lowering) rows(s *shape.Shape, m *sharding.Sharding) (*sharding.Sharding, *shape.Shape) {
	n, dims := w.plan.Trace.Partitions, slices.Clone(m.Local(s.Dims))
	dims[0] *= int64(n) / max(m.Copies, 1)
	return m.Rows(len(dims), n), shape.Of(s.DType, dims)
}

// localTo is the manual sharding that a node computes with: that of its local operands, all of which have the same.
func (w *lowering) localTo(id ir.ID) (m *sharding.Sharding, err error) {
	n := w.graph.At(id)
	if n.Op == ir.OpFullToShard {
		return w.plan.Trace.Local(id), nil
	}
	for _, in := range w.graph.In(id) {
		if to := w.locals[in]; to != nil && m != nil && to != m {
			return nil, errs.New(errs.Runtime, "%s: operands are local to %s and to %s", ops.Describe(w.graph, id), m, to)
		} else if to != nil {
			m = to
		}
	}
	switch given := w.plan.Trace.Left(id); {
	case given != nil && m != nil && given != m:
		return nil, errs.New(errs.Runtime, "%s: the operand is local to %s", ops.Describe(w.graph, id), m)
	case given != nil:
		return given, nil
	case m == nil && w.graph.Manual(id):
		return sharding.PerDevice, nil
	case m != nil && m != sharding.PerDevice && isCollective(n.Op) && n.Op != ir.OpAllReduce:
		return nil, errs.New(errs.NotLower, "%s: among values local to %s there are only sums", ops.Describe(w.graph, id), m)
	}
	return m, nil
}

// isCollective reports that an op is about all devices.
func isCollective(op ir.Op) bool {
	row := ops.Of(op)
	return row != nil && row.Collective
}

// marking is how operations on values of manual sharding m are marked.
func (w *lowering) marking(m *sharding.Sharding) *stablehlo.Marking {
	mark, ok := w.marks[m]
	if !ok {
		mark = ops.Local(w.b, m)
		w.marks[m] = mark
	}
	return mark
}

// node lowers one node. A panic of its row is the error of only this program: the callers hold locks.
func (w *lowering) node(l *ops.Lowering, id ir.ID, o Options) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.New(errs.Compile, "%s cannot be lowered, internal error: %v\n%s", ops.Describe(w.graph, id), r, debug.Stack())
		}
		if err != nil && o.Where != nil {
			err = errs.Recorded(err, ops.At(w.graph.At(id).Op, o.Where(w.graph.At(id).Loc)))
		}
	}()
	n := w.graph.At(id)
	if n.Op < ir.FirstRow {
		return nil // leaves are parameters, numbers are lowered where they are used
	}
	row := ops.Of(n.Op)
	if o.Locations && o.Where != nil {
		w.b.Loc(ops.Name(n.Op), o.Where(n.Loc))
	}
	to, err := w.localTo(id)
	if err != nil {
		return err
	}
	if to != nil && n.Op != ir.OpFullToShard {
		w.inside = to
		for _, in := range w.graph.In(id) {
			if in != ir.None && w.graph.At(in).Op != ir.OpScalar {
				w.Value(in) // in front of the node, not within a region of it
			}
		}
		// The partitioner takes no guess: a constant shared with the rest of the program would make that local too.
		w.b.Mark(w.marking(to))
		defer func() { w.inside = nil; w.b.Mark(nil) }()
	}
	l.Begin(id)
	l.Lower(row)
	outs := l.Outs()
	if err := w.b.Err(); err != nil {
		return errs.Wrap(errs.Compile, err, "%s cannot be lowered: %v", ops.Describe(w.graph, id), err)
	}
	if len(outs) != int(n.Results) {
		return errs.New(errs.Compile, "%s: the lowering gives %d results, the shape rule %d", ops.Describe(w.graph, id), len(outs), n.Results)
	}
	for k, v := range outs {
		if want := w.graph.Shape(id + ir.ID(k)); v.Shape() != want {
			return errs.New(errs.Compile, "%s: result %d is lowered to %s, the shape rule says %s", ops.Describe(w.graph, id), k, v.Shape(), want)
		}
		w.vals[id+ir.ID(k)] = v
		if w.graph.Manual(id) {
			w.locals[id+ir.ID(k)] = to
		}
	}
	w.exchanges.lowered(w.graph, id, outs)
	return nil
}

// root is the value of a root; a number that is a root by itself is lowered here.
func (w *lowering) root(l *ops.Lowering, id ir.ID) stablehlo.Value {
	n := w.graph.At(id)
	if n.Op != ir.OpScalar {
		return w.Value(id)
	}
	if n.Flags&ir.Param != 0 {
		return w.Argument(id, n.Shape.DType)
	}
	num, _ := w.graph.Number(id)
	return ops.Constant(w.b, num, n.Shape.DType)
}

// Value implements ops.Source. A value that local ones are computed with is made one of them.
func (w *lowering) Value(id ir.ID) stablehlo.Value {
	if w.outer != nil && w.vals[id].IsZero() {
		w.vals[id] = w.take(w.outer.Value(id))
	}
	v := w.vals[id]
	if w.inside == nil || w.graph.Manual(id) {
		return v
	}
	return w.enter(v)
}

// enter is a value that is the same on every device as a local one.
func (w *lowering) enter(v stablehlo.Value) stablehlo.Value {
	e := entry{v, w.inside}
	local, ok := w.entered[e]
	if !ok {
		local = ops.Entered(w.b, v, w.inside)
		w.entered[e] = local
	}
	return local
}

// Channel implements ops.Source.
func (w *lowering) Channel() int64 {
	w.channels++
	return w.channels
}

// PackType is the pack that carries a number of type d.
func PackType(d dtype.DType) dtype.DType {
	switch {
	case d == dtype.F64 || d == dtype.C128:
		return dtype.F64
	case d.IsFloat() || d.IsComplex():
		return dtype.F32
	}
	return dtype.I64
}

// Argument implements ops.Source: element i of the pack, converted to d.
func (w *lowering) Argument(id ir.ID, d dtype.DType) stablehlo.Value {
	if w.fixed {
		num, _ := w.graph.Number(id)
		return ops.Constant(w.b, num, d)
	}
	v, ok := w.args[argKey{id, d}]
	if !ok {
		if w.outer != nil {
			v = w.take(w.outer.Argument(id, d))
		} else {
			v = w.argument(id, d)
		}
		w.args[argKey{id, d}] = v
	}
	if w.inside != nil {
		return w.enter(v)
	}
	return v
}

func (w *lowering) argument(id ir.ID, d dtype.DType) stablehlo.Value {
	defer w.b.Mark(w.b.Mark(nil))
	i, ok := w.order[id]
	if !ok {
		return w.b.Failf("argument", nil, "number %%%d is not among the plan's arguments", id)
	}
	pack := w.pack(PackType(d))
	v := w.b.Reshape(w.b.Slice(pack, []int64{i}, []int64{i + 1}, []int64{1}), nil)
	return ops.Convert(w.b, v, d)
}

func (w *lowering) pack(d dtype.DType) stablehlo.Value {
	for i, have := range w.packs {
		if have == d {
			return w.packed[i]
		}
	}
	s := shape.Make(d, int64(len(w.plan.Scalars)))
	var attrs []stablehlo.Attr
	if w.plan.Trace.Partitions > 0 {
		attrs = append(attrs, ops.ShardingAttr(w.b, sharding.Everywhere, s))
	}
	v := w.b.Param(s, attrs...)
	w.packed[len(w.packs)] = v
	w.packs = append(w.packs, d)
	return v
}
