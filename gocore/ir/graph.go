// Package ir is the graph that tracing builds: nodes in a slab, addressed by int32.
//
// A node is an op (a row of package ops, known here only by number), operands, attribute words and a
// shape. A node with n results takes n consecutive slots: the first is the node, the others are its
// further results; so every value is one slot with one shape. Operands come before their users, which
// makes slot order a topological order.
//
// Text form, one line a node:
//
//	%3 = aten::add.Tensor %1, %2 {alpha=%4} : f32[32,128]
//
// Text prints it, Parse reads it; nothing of a graph is lost on the way but source lines and shardings of buffers.
//
// The package imports only dtype and shape.
package ir

import (
	"slices"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// ID names a value: a slot of its graph. None is the absent value (an optional operand not given).
type ID int32

// None stands for no value.
const None ID = 0

// Op is the number of an op: one of the built-in ones below, or FirstRow + the row of the ops table.
type Op uint16

// The built-in ops, which tracing and aliasing need without knowing ATen.
const (
	opNone   Op = iota
	OpResult    // a further result of the node before it
	OpData      // a device buffer: a parameter of the compiled program
	OpScalar    // a Python number; attribute words: type, two words of value
	FirstRow    // row 0 of the ops table
)

// The first rows of the table are the steps of strided reads and writes, which package alias records.
// Their order is checked against the table by a test of package ops.
const (
	OpReshape       = FirstRow + iota // (value, dims)
	OpSlice                           // (value, starts, limits, strides)
	OpTranspose                       // (value, permutation)
	OpBroadcast                       // (value, dims, mapping)
	OpPad                             // (value, low, high): pads with zero
	OpGather                          // (flat value, size, stride, offset)
	OpBitcast                         // (value, type, dims): the same bytes as another type
	OpUpdate                          // (base, block, starts)
	OpUpdateStrided                   // (base, block, starts, strides)
	OpScatter                         // (flat base, value, size, stride, offset)
	OpCast                            // (value, type): torch's conversion
	OpZeros                           // (type, dims)
	OpDynamicSlice                    // (value, starts as numbers, sizes)
	OpDynamicUpdate                   // (base, block, starts as numbers)
	OpAnnotate                        // (value, sharding, open): the same value, sharded so, or so at least
	OpShardToFull                     // (local value, sharding, size, manual): one value of the local ones
	OpFullToShard                     // (value, sharding, manual): on each device its part
	OpAllReduce                       // results of this and the next are local values
	OpAllGather
	OpReduceScatter
	OpAllToAll
	OpCollectivePermute
	OpPartitionID
)

// local reports that with SPMD the results of an op are local values.
func (op Op) local() bool {
	switch op {
	case OpFullToShard, OpAllReduce, OpAllGather, OpReduceScatter, OpAllToAll, OpCollectivePermute, OpPartitionID:
		return true
	}
	return false
}

// Flags of a node.
type Flags uint8

const (
	// Wrapped marks a Python number that stands for a tensor operand (torch's "wrapped number").
	Wrapped Flags = 1 << iota
	// Param marks a scalar whose value is an argument of the compiled program, not part of it.
	Param
	// ZeroDimCPU marks a scalar that came as a 0-dim CPU tensor.
	ZeroDimCPU
	// Manual marks a local value: one of its own on each device of SPMD. What is computed of a local value
	// is one too.
	Manual
	// RandomKey marks an argument that is the seed of the random state.
	RandomKey
	// RandomDraw marks an argument that is the number of draws from it.
	RandomDraw
)

// Node is one slot. Its operands and attribute words lie in the graph's side arenas.
type Node struct {
	Shape   *shape.Shape
	Hash    uint64 // of op, attributes and shapes; not of the operands
	in      uint32
	attr    uint32
	nin     uint16
	nattr   uint16
	Op      Op
	Results uint16 // how many slots the node takes; 0 in OpResult slots
	Index   uint16 // which result an OpResult slot is
	Flags   Flags
	Loc     int32 // Graph.Loc as it was
}

// Graph is an arena of nodes. The zero value is empty and ready. It is not safe for concurrent use.
type Graph struct {
	// Loc is the source location of the nodes that are added: an index into the tracer's table, 0 for none.
	Loc int32
	// Local says that the results of collectives are local values: they are exchanged between the devices
	// of SPMD. Else they are exchanged between processes, and every value is that of this process.
	Local bool

	nodes  []Node // slot 0 is None
	ins    []ID
	attrs  []int64
	starts map[place]struct{}
	manual bool // there are local values
}

// Len is the number of slots, slot 0 included: valid IDs are 1 … Len()-1.
func (g *Graph) Len() int { return len(g.nodes) }

// At returns the node of a slot. The pointer is good until the next Add.
func (g *Graph) At(id ID) *Node { return &g.nodes[id] }

// Shape is the shape of a value; nil for None.
func (g *Graph) Shape(id ID) *shape.Shape { return g.nodes[id].Shape }

// In is the operands of a node, None for absent ones. The caller must not write to it.
func (g *Graph) In(id ID) []ID {
	n := &g.nodes[id]
	return g.ins[n.in : n.in+uint32(n.nin)]
}

// Attr is the attribute words of a node (see Args). The caller must not write to it.
func (g *Graph) Attr(id ID) []int64 {
	n := &g.nodes[id]
	return g.attrs[n.attr : n.attr+uint32(n.nattr)]
}

// Producer is the slot of the node that gives the value: id itself, or the node of an OpResult slot.
func (g *Graph) Producer(id ID) ID {
	if n := &g.nodes[id]; n.Op == OpResult {
		return id - ID(n.Index)
	}
	return id
}

// Add appends a node with one result and returns its value. It costs no allocation in steady state:
// in and attr are copied into the arenas.
func (g *Graph) Add(op Op, in []ID, attr []int64, out *shape.Shape, flags Flags) ID {
	if len(g.nodes) == 0 {
		g.nodes = append(g.nodes, Node{})
	}
	if g.manual || flags&Manual != 0 || g.Local && op.local() {
		flags = g.locality(op, in, flags)
	}
	id := ID(len(g.nodes))
	h := mix(uint64(op)<<8|uint64(flags), out.Hash)
	switch {
	case op == OpData: // which buffer it is does not matter to the program, but how it is sharded
		for i := 1; i < len(attr); i++ {
			h = mix(h, uint64(attr[i]))
		}
	case op == OpScalar && flags&Param != 0:
		h = mix(h, uint64(attr[0])) // the type; the value is an argument
	default:
		for _, w := range attr {
			h = mix(h, uint64(w))
		}
	}
	g.nodes = append(g.nodes, Node{
		Shape: out, Hash: h, Op: op, Flags: flags, Loc: g.Loc, Results: 1,
		in: uint32(len(g.ins)), nin: uint16(len(in)),
		attr: uint32(len(g.attrs)), nattr: uint16(len(attr)),
	})
	g.ins = append(g.ins, in...)
	g.attrs = append(g.attrs, attr...)
	if op == OpDynamicSlice {
		g.takes(in)
	}
	return id
}

// AddMulti is Add for a node of several results, whose values are the returned id and those after it.
func (g *Graph) AddMulti(op Op, in []ID, attr []int64, outs []*shape.Shape) ID {
	id := g.Add(op, in, attr, outs[0], 0)
	h := g.nodes[id].Hash
	for i, s := range outs[1:] {
		h = mix(h, s.Hash)
		g.nodes = append(g.nodes, Node{Shape: s, Op: OpResult, Index: uint16(i + 1), Flags: g.nodes[id].Flags & Manual, Loc: g.Loc})
	}
	g.nodes[id].Hash, g.nodes[id].Results = h, uint16(len(outs))
	return id
}

// locality is the flags of a new node with Manual as its operands say.
func (g *Graph) locality(op Op, in []ID, flags Flags) Flags {
	g.manual = true
	local := flags&Manual != 0 || op.local()
	for _, id := range in {
		local = local || g.nodes[id].Flags&Manual != 0
	}
	if local && op != OpShardToFull {
		return flags | Manual
	}
	return flags &^ Manual
}

// Stored reports that x is a buffer, one seen with other dimensions, or one that parts have been written to. What part
// of it a program reads often changes from step to step (a batch of a data set, a position of a cache). So the starts
// become arguments of the program; those in a computed value stay part of it.
func (g *Graph) Stored(x ID) bool {
	for {
		switch g.At(x).Op {
		case OpData:
			return true
		case OpReshape, OpDynamicUpdate, OpUpdateStrided:
			x = g.In(x)[0]
		default:
			return false
		}
	}
}

// place is where a part of something begins: at, along a dimension of n elements.
type place struct{ n, at int64 }

// AddDynamicStart notes that a part is read from a place of a dimension of n on, and that this place is an argument.
func (g *Graph) AddDynamicStart(n, at int64) {
	if g.starts == nil {
		g.starts = make(map[place]struct{})
	}
	g.starts[place{n, at}] = struct{}{}
}

// takes notes where a dynamic slice of these operands begins, along each dimension and counted in elements. The
// gradient may see what is sliced with other dimensions.
func (g *Graph) takes(in []ID) {
	flat, size := int64(0), int64(1)
	for d, n := range g.Shape(in[0]).Dims {
		at, _ := g.Number(in[1+d])
		if flat, size = flat*n+at.I, size*n; g.At(in[1+d]).Flags&Param != 0 {
			g.AddDynamicStart(n, at.I)
		}
	}
	g.AddDynamicStart(size, flat)
}

// HasDynamicStart reports that a part has been read from such a place on since the graph began. In the gradient of
// that part the same place is an argument too.
func (g *Graph) HasDynamicStart(n, at int64) bool {
	_, ok := g.starts[place{n, at}]
	return ok
}

// Manual reports that a value is a local one.
func (g *Graph) Manual(id ID) bool { return g.nodes[id].Flags&Manual != 0 }

// Entry is a node at which local values begin that a local value is computed of. It is a buffer, an OpFullToShard, or
// another of the ops that make local values of others.
func (g *Graph) Entry(id ID) ID {
	for {
		id = g.Producer(id)
		in := g.In(id)
		i := slices.IndexFunc(in, g.Manual)
		if i < 0 {
			return id
		}
		id = in[i]
	}
}

// Dependents tells of each node whether it is a given one or is computed from that.
func (g *Graph) Dependents(of ID) func(ID) bool {
	reached := make([]bool, g.Len())
	reached[of] = true
	for id := of + 1; int(id) < g.Len(); id++ {
		if p := g.Producer(id); p != id {
			reached[id] = reached[p]
			continue
		}
		for _, in := range g.In(id) {
			reached[id] = reached[id] || in != None && reached[in]
		}
	}
	return func(id ID) bool { return reached[id] }
}

// Copy is a graph of the same nodes, to be read.
func (g *Graph) Copy() Graph {
	return Graph{nodes: slices.Clone(g.nodes), ins: slices.Clone(g.ins), attrs: slices.Clone(g.attrs)}
}

// Bytes is what the graph takes in memory.
func (g *Graph) Bytes() int64 {
	return int64(len(g.nodes))*int64(unsafe.Sizeof(Node{})) + int64(len(g.ins))*int64(unsafe.Sizeof(None)) + int64(len(g.attrs))*int64(unsafe.Sizeof(int64(0)))
}

// Reset empties the graph and keeps its memory, unless the last graph was far larger than usual.
func (g *Graph) Reset() {
	const keep = 1 << 20
	if cap(g.nodes) > keep {
		*g = Graph{Local: g.Local}
		return
	}
	clear(g.nodes) // drops the pointers to shapes
	clear(g.starts)
	g.nodes, g.ins, g.attrs, g.manual, g.Loc = g.nodes[:0], g.ins[:0], g.attrs[:0], false, 0
}

// Keep drops the nodes that are not in need, a list by slot in which a value is wanted where it is not None.
// need takes the new IDs of the nodes that stay, in their old order; a node stays with all its results. What
// a wanted node reads must be wanted too. The graph is not empty.
func (g *Graph) Keep(need []ID) {
	nodes, ins, attrs := g.nodes[:1], g.ins[:0], g.attrs[:0]
	for id := 1; id < len(g.nodes); {
		first := id
		n := g.nodes[id]
		id += max(int(n.Results), 1)
		if !slices.ContainsFunc(need[first:id], func(v ID) bool { return v != None }) {
			continue
		}
		for k := first; k < id; k++ {
			need[k] = ID(len(nodes))
			nodes = append(nodes, g.nodes[k])
		}
		kept := &nodes[need[first]]
		kept.in, kept.attr = uint32(len(ins)), uint32(len(attrs))
		for _, in := range g.ins[n.in : n.in+uint32(n.nin)] {
			ins = append(ins, need[in])
		}
		attrs = append(attrs, g.attrs[n.attr:n.attr+uint32(n.nattr)]...)
	}
	clear(g.nodes[len(nodes):])
	g.nodes, g.ins, g.attrs = nodes, ins, attrs
}

// MakeLeaf makes a node without operands a leaf: the buffer in a place.
func (g *Graph) MakeLeaf(id ID, place int64) {
	n := &g.nodes[id]
	n.Op, n.Flags = OpData, 0
	n.Hash = mix(uint64(OpData)<<8, n.Shape.Hash)
	n.attr, n.nattr = uint32(len(g.attrs)), 1
	g.attrs = append(g.attrs, place)
}

// Readdress changes the first attribute word of an OpData node, which does not count for its hash.
func (g *Graph) Readdress(id ID, place int64) { g.attrs[g.nodes[id].attr] = place }

// mix folds w into h; good diffusion in a handful of cycles.
func mix(h, w uint64) uint64 {
	h ^= w
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>32
}
