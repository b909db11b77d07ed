// Package interp writes a plan as a program of calls of torch's own CPU kernels, which package torchcpu runs op by op.
// Nothing is compiled, so that it can start at once.
//
// A program computes with values, by number: the plan's parameters first, then the results of its nodes. Each
// instruction makes values of others (see opcode); a value is freed behind its last use. A row of the table is a call
// of torch's op of its name and schema, where rules.go states nothing else. A plan with a node that cannot be run so
// is refused as a whole: it has to be compiled.
//
// call.go writes a call of an op, memory.go follows where values lie, work.go counts what a program does. The rules are
// in files by subject: views, fill, arithmetic, activation, reductions, random, and trust for kernels that take values
// on trust.
//
// Text form, by Program.Text: an instruction a line, an opcode and its words.
//
// The package imports lazy, ops, ir, shape, dtype and wire.
package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// opcode is an instruction. torchcpu/interpret.c has them in the same order; the words of each stand before its
// function there.
type opcode int64

const (
	opCall opcode = iota
	opNumber
	opFull
	opIota
	opRandom
	opTranspose
	opSlice
	opDynamicSlice
	opBroadcast
	opReshape
	opStrided
	opUpdate
	opDynamicUpdate
	opScatter
	opPad
	opAdd
	opAddmm
	opPower
	opNonzero
	opSame
	opRange
	opFree
)

var opcodes = [...]string{"call", "number", "full", "iota", "random", "transpose", "slice", "dynamic_slice", "broadcast", "reshape", "strided",
	"update", "dynamic_update", "scatter", "pad", "add", "addmm", "power", "nonzero", "same", "range", "free"}

// What torchcpu keeps on its stack.
const (
	mostArgs     = 16  // arguments and results of a call
	mostWords    = 256 // of its encoded arguments
	mostOperands = 128
	mostRank     = 64
)

// Program is a plan as instructions.
type Program struct {
	Words  []int64
	Ops    []ops.TorchOp // what the calls name by number
	Roots  []int64       // the values of the plan's roots
	Values int64
	// Placed says for each root that a call can write it to memory that it is given.
	Placed []bool
	// Numbers are those of the program itself; they follow the plan's scalars.
	Numbers []ir.Number
	Work
}

// Refusal is why a plan has no program.
type Refusal struct {
	Op     string // as it is printed
	Reason string
}

func (r *Refusal) Error() string { return r.Op + ": " + r.Reason }

// Write makes the program of a plan. The error is a Refusal.
func Write(p *lazy.Plan) (*Program, error) {
	w := &writer{plan: p, g: &p.Trace.Graph, p: &Program{Placed: make([]bool, len(p.Roots))}, value: make([]int64, p.Trace.Graph.Len()), last: make([]int, p.Trace.Graph.Len()),
		opOf: make(map[string]int64), scalar: make(map[ir.ID]int64), root: make(map[ir.ID]int)}
	if p.Trace.Partitions > 0 {
		return nil, &Refusal{"SPMD", "a program for several devices is compiled"}
	}
	for i, id := range p.Scalars {
		w.scalar[id] = int64(i)
	}
	w.uses()
	for i, r := range p.Roots {
		w.root[r.ID] = i
	}
	for i, id := range p.Nodes {
		w.node, w.index, w.temps, w.before = id, i, w.temps[:0], w.p.Calls
		w.Node(w.g, id)
		if reason := w.write(); reason != "" {
			return nil, &Refusal{ops.Name(w.g.At(id).Op), reason}
		}
		w.weigh()
		w.free()
	}
	for _, r := range p.Roots {
		w.p.Bytes -= w.g.Shape(r.ID).Bytes()
		w.p.Results += w.g.Shape(r.ID).Bytes()
		w.p.Roots = append(w.p.Roots, w.valueOf(r.ID))
	}
	w.p.Values = int64(len(w.memory.values))
	w.p.Peak, w.p.Kept = w.memory.give(w.p.Roots, w.p.Placed)
	return w.p, nil
}

// writer is the state of one Write. Its Args are those of the node being written.
type writer struct {
	ir.Args
	plan   *lazy.Plan
	g      *ir.Graph
	p      *Program
	node   ir.ID
	index  int // of the node in the plan
	memory memory
	value  []int64 // by slot: number of the value + 1
	last   []int   // by slot: index of the last node that reads it + 1; 0: none, -1: it stays
	scalar map[ir.ID]int64
	root   map[ir.ID]int
	opOf   map[string]int64 // by op and schema
	temps  []int64          // values that are freed behind the node
	before int              // how many kernels the nodes before call
}

// uses finds the last use of each value, and gives the parameters their numbers.
func (w *writer) uses() {
	for i, id := range w.plan.Nodes {
		for _, in := range w.g.In(id) {
			w.last[in] = i + 1
		}
	}
	for _, r := range w.plan.Roots {
		w.last[r.ID] = -1
	}
	param := make(map[int32]int64, len(w.plan.Params))
	for i, place := range w.plan.Params {
		param[place] = int64(i)
		w.memory.argument(w.g.Shape(w.plan.Trace.Leaves[place].ID))
	}
	for _, id := range w.plan.Nodes {
		if w.g.At(id).Op == ir.OpData {
			w.value[id] = param[int32(w.g.Attr(id)[0])] + 1
			w.last[id] = -1
		}
	}
}

// write writes the node; the reason is why that cannot be done.
func (w *writer) write() (reason string) {
	n := w.g.At(w.node)
	if n.Op == ir.OpData || n.Op == ir.OpScalar {
		return ""
	}
	row := ops.Of(n.Op)
	switch {
	case row == nil || row.Collective || n.Flags&ir.Manual != 0:
		return "it is about several devices"
	}
	for i := range int(n.Results) {
		if s := w.out(i); !computed(s.DType) || s.Rank() > mostRank {
			return "of " + s.String()
		}
	}
	rule := rules[row.Name]
	switch {
	case row.Unsafe:
		return "torch's kernel of it may not be called"
	case rule == nil && !row.Random:
		rule = direct
	}
	if rule == nil || !rule(w) {
		return "torch's kernel cannot be called with these arguments"
	}
	return ""
}

// views are the instructions that copy nothing: dst, src, …
var views = []opcode{opTranspose, opSlice, opDynamicSlice, opBroadcast, opReshape, opStrided, opSame}

// computed are the element types that torch's CPU kernels have.
func computed(d dtype.DType) bool {
	switch d {
	case dtype.Bool, dtype.U8, dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.F16, dtype.BF16, dtype.F32, dtype.F64, dtype.C64, dtype.C128:
		return true
	}
	return false
}

// out is the shape of a result of the node.
func (w *writer) out(i int) *shape.Shape { return w.g.Shape(w.node + ir.ID(i)) }

// result numbers a result of the node; −1 if no one reads it.
func (w *writer) result(i int) int64 {
	id := w.node + ir.ID(i)
	if w.last[id] == 0 {
		return -1
	}
	w.value[id] = w.memory.made(w.out(i)) + 1
	return w.value[id] - 1
}

// rootOf is the root that a value of the node is; −1 if it is none.
func (w *writer) rootOf(v int64) int64 {
	for i := range int(w.g.At(w.node).Results) {
		if r, ok := w.root[w.node+ir.ID(i)]; ok && v >= 0 && w.value[w.node+ir.ID(i)] == v+1 {
			return int64(r)
		}
	}
	return -1
}

// temp is a value of a shape that lives until the node is done.
func (w *writer) temp(s *shape.Shape) int64 {
	v := w.memory.made(s)
	w.temps = append(w.temps, v)
	return v
}

// valueOf is the number of a value without a number.
func (w *writer) valueOf(id ir.ID) int64 { return w.value[id] - 1 }

// free frees what the node was the last to read.
func (w *writer) free() {
	dead := slices.Clone(w.temps)
	for _, in := range w.g.In(w.node) {
		if in != ir.None && w.last[in] == w.index+1 && w.value[in] > 0 {
			w.last[in] = -1
			dead = append(dead, w.valueOf(in))
		}
	}
	for _, v := range dead {
		w.memory.free(v)
	}
	if len(dead) > 0 {
		w.emit(opFree, []int64{int64(len(dead))}, dead)
	}
}

// emit appends an instruction.
func (w *writer) emit(op opcode, parts ...[]int64) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	switch {
	case op == opNumber || op == opFree:
	case slices.Contains(views, op):
	default:
		w.p.Calls++
	}
	w.p.Words = append(w.p.Words, int64(op), int64(n))
	for _, p := range parts {
		w.p.Words = append(w.p.Words, p...)
	}
	w.memory.follow(op, w.p.Words[len(w.p.Words)-n:])
}

func list(n ...int64) []int64 { return n }

func code(d dtype.DType) int64 { return int64(d.TorchCode()) }

// typed is the words of a shape: type, rank, dims.
func typed(s *shape.Shape) []int64 { return append(list(code(s.DType), int64(s.Rank())), s.Dims...) }

// Text prints the program.
func (p *Program) Text() string {
	var b strings.Builder
	for at := 0; at < len(p.Words); {
		op, n := p.Words[at], int(p.Words[at+1])
		words := p.Words[at+2 : at+2+n]
		if opcode(op) == opCall {
			o := p.Ops[words[0]]
			fmt.Fprintf(&b, "%s.%s %v\n", o.Name, o.Overload, words[1:])
		} else {
			fmt.Fprintf(&b, "%s %v\n", opcodes[op], words)
		}
		at += 2 + n
	}
	fmt.Fprintf(&b, "give %v\n", p.Roots)
	return b.String()
}

// tag is the first word of an encoded argument.
func tag(k wire.Kind, n int) int64 { return wire.Tag(k, n) }
