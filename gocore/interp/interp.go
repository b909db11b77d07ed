// Package interp writes a plan as a program of calls of torch's own CPU kernels, which package torchcpu runs op by op:
// nothing is compiled, so that it can start at once.
//
// A program computes with values, by number: the plan's parameters first, then the results of its nodes. Each
// instruction makes values of others (see opcode); a value is freed behind its last use. A row of the table is a call
// of torch's op of its name and schema, where rules.go states nothing else. A plan with a node that cannot be run so
// is refused as a whole: it has to be compiled.
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

// opcode is an instruction; torchcpu/interpret.c has them in the same order, and says what words follow.
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

// Work is what a program does, to predict its time by.
type Work struct {
	// Calls is how many kernels it calls.
	Calls int
	// Bytes are those of the values that it writes to memory, besides the roots: neither views nor the results of
	// products, which a compiled program writes too.
	Bytes int64
	// Results are the bytes of the roots.
	Results int64
	// Products are the multiplications in products of matrices and convolutions.
	Products int64
	// Functions are the elements of functions that a compiled program computes more slowly.
	Functions int64
	// Peak is how many bytes of the values that it makes are there at one time, temporary ones too.
	Peak int64
	// Kept are those of them that are there at its end, with the copies that the roots are.
	Kept int64
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
	rule, known := rules[row.Name]
	if !known && !row.Random {
		rule = direct
	}
	if rule == nil || !rule(w) {
		return w.refused(row)
	}
	return ""
}

// views are the instructions that copy nothing: dst, src, …
var views = []opcode{opTranspose, opSlice, opDynamicSlice, opBroadcast, opReshape, opStrided, opSame}

// Multiplications are those of a product of matrices or a convolution, on which compiled programs and torch's kernels spend
// the same time; 0 for another node.
func Multiplications(g *ir.Graph, id ir.ID) int64 {
	in, out := g.In(id), g.Shape(id).Numel()
	rowLength := func(matrix int) int64 {
		dims := g.Shape(in[matrix]).Dims
		return dims[len(dims)-1]
	}
	channel := func(kernel int) int64 {
		s := g.Shape(in[kernel])
		return s.Numel() / max(s.Dims[0], 1)
	}
	scores := func(query int) int64 { // the multiplications of queries by keys
		return g.Shape(in[query]).Numel() * g.Shape(in[query+1]).Dims[2]
	}
	switch ops.Of(g.At(id).Op).Name {
	case "mm", "bmm", "mv", "dot", "vdot":
		return out * rowLength(0)
	case "addmm", "baddbmm", "addmv":
		return out * rowLength(1)
	case "addbmm":
		return out * rowLength(1) * g.Shape(in[1]).Dims[0]
	case "convolution":
		return out * channel(1)
	case "convolution_backward":
		return 2 * g.Shape(in[0]).Numel() * channel(2)
	case "_scaled_dot_product_flash_attention_for_cpu":
		return 2 * scores(0)
	case "_scaled_dot_product_flash_attention_for_cpu_backward":
		return 5 * scores(1)
	}
	return 0
}

// free are the nodes that compute nothing: the compiler makes them part of what reads them.
var free = []ir.Op{ir.OpReshape, ir.OpSlice, ir.OpTranspose, ir.OpBroadcast, ir.OpGather, ir.OpBitcast, ir.OpZeros, ir.OpDynamicSlice, ir.OpAnnotate}

// Operations are those of a node, estimated: 2 for each multiplication of a product, which has a sum, else 1 for each
// element of the largest of its operands and results.
func Operations(g *ir.Graph, id ir.ID) int64 {
	n := g.At(id)
	row := ops.Of(n.Op)
	if row == nil || row.Uniform || slices.Contains(free, n.Op) {
		return 0
	}
	if products := Multiplications(g, id); products > 0 {
		return 2 * products
	}
	most := int64(0)
	for k := range ir.ID(n.Results) {
		most = max(most, g.Shape(id+k).Numel())
	}
	for _, in := range g.In(id) {
		if in != ir.None {
			most = max(most, g.Shape(in).Numel())
		}
	}
	return most
}

// scalarFunctions are the rows that XLA computes element by element, where torch's kernels compute several elements at a time.
var scalarFunctions = []string{"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "log1p", "lgamma", "pow.Tensor_Scalar", "pow.Tensor_Tensor"}

// weigh counts what the node that was written does.
func (w *writer) weigh() {
	n := w.g.At(w.node)
	if n.Op == ir.OpData || n.Op == ir.OpScalar {
		return
	}
	view, product := w.p.Calls == w.before, Multiplications(w.g, w.node)
	w.p.Products += product
	if slices.Contains(scalarFunctions, ops.Of(n.Op).Name) {
		w.p.Functions += w.out(0).Numel()
	}
	if view || product > 0 {
		return
	}
	for i := range int(n.Results) {
		w.p.Bytes += w.out(i).Bytes()
	}
}

func (w *writer) refused(row *ops.Row) string {
	if _, known := rules[row.Name]; known {
		return "it has no kernel that may be called, or not for these arguments"
	}
	return "torch's kernel cannot be called with these arguments"
}

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

// constant is the number of a number of the program itself.
func (w *writer) constant(n ir.Number) int64 {
	w.p.Numbers = append(w.p.Numbers, n)
	return int64(len(w.plan.Scalars) + len(w.p.Numbers) - 1)
}

// numberRef is the number of a leaf that is a number.
func (w *writer) numberRef(id ir.ID) int64 {
	if i, ok := w.scalar[id]; ok {
		return i
	}
	n, _ := w.g.Number(id)
	i := w.constant(n)
	w.scalar[id] = i
	return i
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

// isNumber tells of an operand that it is a number, and not a tensor.
func (w *writer) isNumber(id ir.ID) bool { return id != ir.None && w.g.At(id).Op == ir.OpScalar }

// operand is the value of a Tensor argument, for which a number may be given.
func (w *writer) operand(id ir.ID) int64 {
	if w.isNumber(id) {
		return w.number(id, w.promoted(id))
	}
	return w.valueOf(id)
}

// number is a number as a 0-dim tensor of a type.
func (w *writer) number(id ir.ID, d dtype.DType) int64 { return w.numberTensor(w.numberRef(id), d) }

func (w *writer) numberTensor(ref int64, d dtype.DType) int64 {
	v := w.temp(shape.Of(d, nil))
	w.emit(opNumber, list(v, ref, code(d), 0))
	return v
}

// whole is an integer of the program as a 0-dim tensor.
func (w *writer) whole(i int64, d dtype.DType) int64 {
	return w.numberTensor(w.constant(ir.Number{Type: dtype.I64, I: i}), d)
}

// promoted is the type of the 0-dim tensor that stands for a number among the node's tensors, so that torch's promotion gives
// what it gives for the number. A tensor of no dimensions yields to one with dimensions of its category or a higher one.
func (w *writer) promoted(id ir.ID) dtype.DType {
	n, _ := w.g.Number(id)
	if w.g.At(id).Flags&ir.ZeroDimCPU != 0 {
		return n.Type
	}
	var zero *shape.Shape
	for _, in := range w.g.In(w.node) {
		if in == ir.None || w.isNumber(in) || w.g.Shape(in).DType.Kind() < n.Type.Kind() {
			continue
		}
		s := w.g.Shape(in)
		if s.Rank() > 0 {
			return n.Type
		}
		zero = s
	}
	out := w.out(0).DType
	switch {
	case zero != nil && out.Kind() == zero.DType.Kind():
		return out
	case zero != nil:
		return zero.DType
	case out.Kind() == n.Type.Kind():
		return out
	case n.Type.IsFloat():
		return dtype.F32
	case n.Type.IsComplex():
		return dtype.C64
	}
	return n.Type
}

// tag is the first word of an encoded argument.
func tag(k wire.Kind, n int) int64 { return wire.Tag(k, n) }
