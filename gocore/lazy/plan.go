// Package lazy decides what a sync computes. It finds which nodes are needed for which roots, what the program's
// parameters are, and which buffers it may take over. It makes the key under which the executable is cached.
//
// A Plan refers to nodes by their local number, the order in which the needed ones were recorded. Two recordings of
// the same program thus have equal plans. The package imports alias, sharding, shape and ir.
package lazy

import (
	"fmt"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// Key identifies a program: 128 bits over the needed nodes, their operands, the roots and the buffers
// that roots may take over. Equal keys mean the same module text.
type Key [2]uint64

// String is the key in hexadecimal.
func (k Key) String() string { return fmt.Sprintf("%016x%016x", k[0], k[1]) }

// Root is a value that the program returns.
type Root struct {
	ID ir.ID
	// Donor is the parameter whose buffer the result may be written into, or -1. The parameter has the
	// same shape, and no cell holds its buffer any more by program structure; whether some other owner
	// does is only known at run time.
	Donor int32
	// Sharding is what the result must have; nil: the compiler chooses, or there is no SPMD.
	Sharding *sharding.Sharding
}

// Plan is what one sync computes. It is good until the trace is flushed. Reuse one for no allocation.
type Plan struct {
	Trace *alias.Trace
	// Nodes are the needed nodes in topological order, each leaf before its first user.
	Nodes []ir.ID
	// Roots are the results to compute, without repetition and without leaves.
	Roots []Root
	// Results says for each of the cells which root gives its value; -1 for a leaf, whose buffer is the value.
	Results []int32
	// Params are places in Trace.Leaves, in order of first use.
	Params []int32
	// Given says for each parameter whether the user gave its buffer away.
	Given []bool
	// Scalars are the numbers passed as arguments, in order of first use.
	Scalars []ir.ID
	Key     Key

	local  []int32 // by slot: local number + 1 of a needed node, or 0; while planning, needed
	param  []int32 // by place in Trace.Leaves: parameter + 1, or 0
	rootOf map[ir.ID]int32
}

// Build plans the computation of the given cells' values (slots of Pending cells), and of the values effects even if
// no cell needs them. Those are roots between the cells', in the order of recording, since compilers order collectives
// by the results.
func (p *Plan) Build(s *alias.Store, t *alias.Trace, slots []uint32, effects []ir.ID) {
	p.Trace = t
	p.roots(s, slots, nil)
	if slices.ContainsFunc(effects, func(id ir.ID) bool { return p.local[id] == 0 }) {
		p.roots(s, slots, slices.DeleteFunc(slices.Clone(effects), func(id ir.ID) bool { return p.local[id] != 0 }))
	}
	p.number(&t.Graph)
	p.donors(s, t, slots)
	p.key(&t.Graph)
}

// roots sets the roots of the cells and of effects that no cell needs, and marks what they need.
func (p *Plan) roots(s *alias.Store, slots []uint32, effects []ir.ID) {
	p.reset()
	before := func(id ir.ID) {
		for ; len(effects) > 0 && effects[0] < id; effects = effects[1:] {
			p.rootOf[effects[0]] = int32(len(p.Roots))
			p.Roots = append(p.Roots, Root{ID: effects[0], Donor: int32(ir.None)})
		}
	}
	g := &p.Trace.Graph
	for _, slot := range slots {
		c := s.At(slot)
		before(c.Value)
		p.Results = append(p.Results, p.addRoot(g, c))
	}
	before(ir.ID(g.Len()))
	p.mark(g)
}

func (p *Plan) reset() {
	p.Nodes, p.Roots, p.Params, p.Scalars = p.Nodes[:0], p.Roots[:0], p.Params[:0], p.Scalars[:0]
	p.Results, p.Given = p.Results[:0], p.Given[:0]
	g := &p.Trace.Graph
	p.local = zeroed(p.local, g.Len())
	p.param = zeroed(p.param, len(p.Trace.Leaves))
	if p.rootOf == nil {
		p.rootOf = make(map[ir.ID]int32)
	}
	clear(p.rootOf)
}

func zeroed(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n+n/2)[:n]
	}
	s = s[:n]
	clear(s)
	return s
}

// addRoot is the root that gives a cell its value, a new one if there is none; -1 for a leaf.
func (p *Plan) addRoot(g *ir.Graph, c *alias.Cell) int32 {
	id, sh := c.Value, p.wanted(g, c)
	if g.At(id).Op == ir.OpData && (sh == nil || sh == p.leafSharding(g, id)) {
		return -1 // the buffer itself is the value
	}
	i, known := p.rootOf[id]
	for ; known && int(i) < len(p.Roots); i++ {
		switch r := &p.Roots[i]; {
		case r.ID != id:
		case r.Sharding == nil:
			r.Sharding = sh
			return i
		case sh == nil || r.Sharding == sh:
			return i
		}
	}
	i = int32(len(p.Roots))
	if !known {
		p.rootOf[id] = i
	}
	p.Roots = append(p.Roots, Root{ID: id, Donor: int32(c.Origin), Sharding: sh}) // donors turns the leaf into a parameter
	return i
}

// wanted is the sharding that a cell's new value must have, nil if the compiler may choose. It is what the
// user said of the storage or of the value, and else what the storage had. So the new value can take over
// the buffer, and the next step is the same program.
func (p *Plan) wanted(g *ir.Graph, c *alias.Cell) *sharding.Sharding {
	if p.Trace.Partitions == 0 {
		return nil
	}
	switch sh := p.Trace.Annotated(c.Value); {
	case g.Manual(c.Value):
		return p.Trace.Local(c.Value)
	case c.Sharding != nil:
		return c.Sharding
	case sh != nil:
		return sh
	case c.Origin != ir.None && slices.Equal(g.Shape(c.Origin).Dims, g.Shape(c.Value).Dims):
		return p.leafSharding(g, c.Origin)
	}
	return nil
}

func (p *Plan) leafSharding(g *ir.Graph, id ir.ID) *sharding.Sharding {
	return p.Trace.Leaves[g.Attr(id)[0]].Sharding()
}

// needed is local[] of a slot that is needed and has no number yet.
const needed = -1

// mark sets local[] to needed for every slot that a root needs. Slots are in topological order, so that one
// pass from the last root down suffices.
func (p *Plan) mark(g *ir.Graph) {
	last := ir.None
	for _, r := range p.Roots {
		p.local[r.ID] = needed
		last = max(last, r.ID)
	}
	for id := last; id > ir.None; id-- {
		if p.local[id] == 0 {
			continue
		}
		if prod := g.Producer(id); prod != id {
			p.local[prod] = needed
			continue
		}
		for _, in := range g.In(id) {
			if in != ir.None {
				p.local[in] = needed
			}
		}
	}
}

// number lists the needed nodes and gives parameters and scalars their order. A leaf comes before its first
// user, wherever it was recorded: when a storage was made does not change the program.
func (p *Plan) number(g *ir.Graph) {
	for id := ir.ID(1); int(id) < g.Len(); id++ {
		if p.local[id] == 0 {
			continue
		}
		switch n := g.At(id); n.Op {
		case ir.OpData, ir.OpScalar:
			continue
		case ir.OpResult:
			p.local[id] = 0 // addressed by its producer
			continue
		}
		for _, in := range g.In(id) {
			p.leaf(g, in)
		}
		p.Nodes = append(p.Nodes, id)
		p.local[id] = int32(len(p.Nodes))
	}
	for _, r := range p.Roots {
		p.leaf(g, r.ID)
	}
}

// leaf numbers a value that is a leaf, at its first use.
func (p *Plan) leaf(g *ir.Graph, id ir.ID) {
	if id == ir.None || p.local[id] != needed {
		return
	}
	switch n := g.At(id); {
	case n.Op == ir.OpData:
		place := g.Attr(id)[0]
		p.Params = append(p.Params, int32(place))
		p.param[place] = int32(len(p.Params))
		p.Given = append(p.Given, p.Trace.Leaves[place].Buf.Donating())
	case n.Op != ir.OpScalar:
		return
	case n.Flags&ir.Param != 0:
		p.Scalars = append(p.Scalars, id)
	}
	p.Nodes = append(p.Nodes, id)
	p.local[id] = int32(len(p.Nodes))
}

// donors turns the origin leaf of each root into a parameter. That needs a result that fits the buffer, and a program
// that reads the storage's old value at all.
func (p *Plan) donors(s *alias.Store, t *alias.Trace, slots []uint32) {
	g := &t.Graph
	for i := range p.Roots {
		r := &p.Roots[i]
		origin := ir.ID(r.Donor)
		r.Donor = -1
		if origin == ir.None || g.At(origin).Op != ir.OpData || g.Shape(origin) != g.Shape(r.ID) {
			continue
		}
		place := g.Attr(origin)[0]
		if p.leafSharding(g, origin) != r.Sharding {
			continue
		}
		if k := p.param[place]; k > 0 {
			r.Donor = k - 1
			p.param[place] = -k // one taker only
		}
	}
	for i, k := range p.param {
		p.param[i] = max(k, -k)
	}
}

func (p *Plan) key(g *ir.Graph) {
	a, b := uint64(0x243f6a8885a308d3), uint64(0x13198a2e03707344)
	for _, id := range p.Nodes {
		h := g.At(id).Hash
		a = fold(a, h)
		b = fold(b, h+0x9e3779b97f4a7c15)
		for _, in := range g.In(id) {
			w := p.Ref(g, in)
			a = fold(a, w)
			b = fold(b, ^w)
		}
	}
	for _, r := range p.Roots {
		w := p.Ref(g, r.ID)<<20 ^ uint64(r.Donor+1)
		a, b = fold(a, w), fold(b, ^w)
		if r.Sharding != nil {
			a, b = fold(a, r.Sharding.Hash), fold(b, ^r.Sharding.Hash)
		}
	}
	for i, given := range p.Given {
		if given {
			a, b = fold(a, uint64(i)), fold(b, ^uint64(i))
		}
	}
	p.Key = Key{a, b}
}

// Lines is a hash of each line of the plan's text: of its nodes in order, and of its results. Equal lines have equal
// ones.
func (p *Plan) Lines() []uint64 {
	g := &p.Trace.Graph
	lines := make([]uint64, 0, len(p.Nodes)+1)
	for _, id := range p.Nodes {
		h := g.At(id).Hash
		for _, in := range g.In(id) {
			h = fold(h, p.Ref(g, in))
		}
		lines = append(lines, h)
	}
	h := uint64(len(p.Roots))
	for _, r := range p.Roots {
		h = fold(fold(h, p.Ref(g, r.ID)), g.Shape(r.ID).Hash)
	}
	return append(lines, h)
}

// Copy is a plan of the same nodes and results, without their buffers. It is to be printed or, without shardings,
// lowered after the trace is flushed.
func (p *Plan) Copy() *Plan {
	t := &alias.Trace{Graph: p.Trace.Graph.Copy(), Leaves: slices.Clone(p.Trace.Leaves)}
	for i := range t.Leaves {
		t.Leaves[i].Buf = nil
	}
	return &Plan{Trace: t, Nodes: slices.Clone(p.Nodes), Roots: slices.Clone(p.Roots), Params: slices.Clone(p.Params), Given: slices.Clone(p.Given),
		Scalars: slices.Clone(p.Scalars), Key: p.Key, local: slices.Clone(p.local)}
}

// Bytes is what a copy takes in memory, about.
func (p *Plan) Bytes() int64 {
	return p.Trace.Graph.Bytes() + 4*int64(len(p.Nodes)+len(p.local)) + 24*int64(len(p.Roots)+len(p.Trace.Leaves))
}

// Only is the plan of some of the roots, with the parameters and numbers of all. It shares what does not differ with p.
func (p *Plan) Only(keep func(root int) bool) *Plan {
	g, q := &p.Trace.Graph, *p
	q.Roots, q.Nodes = nil, nil
	need := make([]bool, g.Len())
	for i, r := range p.Roots {
		if keep(i) {
			q.Roots = append(q.Roots, r)
			need[g.Producer(r.ID)] = true
		}
	}
	for _, id := range slices.Backward(p.Nodes) {
		if !need[id] {
			continue
		}
		q.Nodes = append(q.Nodes, id)
		for _, in := range g.In(id) {
			need[g.Producer(in)] = true
		}
	}
	slices.Reverse(q.Nodes)
	return &q
}

// Donors says for each parameter which root may take its buffer over, -1 for none.
func (p *Plan) Donors() []int32 {
	donors := slices.Repeat([]int32{-1}, len(p.Params))
	for i, r := range p.Roots {
		if r.Donor >= 0 {
			donors[r.Donor] = int32(i)
		}
	}
	return donors
}

// Shapes are those of the roots.
func (p *Plan) Shapes() (shapes []*shape.Shape) {
	for _, r := range p.Roots {
		shapes = append(shapes, p.Trace.Graph.Shape(r.ID))
	}
	return shapes
}

// Ref is the process-independent name of a value: the local number of its node and which result it is;
// 0 for None.
func (p *Plan) Ref(g *ir.Graph, id ir.ID) uint64 {
	if id == ir.None {
		return 0
	}
	prod := g.Producer(id)
	return uint64(p.local[prod])<<16 | uint64(id-prod)
}

// RootIndex is the first place of a value among the results; ok is false for a leaf.
func (p *Plan) RootIndex(id ir.ID) (i int32, ok bool) {
	i, ok = p.rootOf[id]
	return
}

func fold(h, w uint64) uint64 {
	h ^= w
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
