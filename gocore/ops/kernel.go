package ops

import (
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Kernel says that torch's own CPU kernel can compute a row, and how. The kernel is that of torch's op of the row's
// name and schema, called with the node's own arguments, where nothing else is stated.
type Kernel struct {
	// Op is the name and schema of another op of torch that computes the row. Arguments past the row's are false or
	// None.
	Op string
	// Out is the op's overload that writes into given memory; "" where torch has none that saves a copy.
	Out string
	// When tells where torch's kernel is the faster one; nil for everywhere. See kernels.go.
	When func(l *Lowering) bool
	// Asked tells which of the results are computed; nil for all. The others have no elements.
	Asked func(l *Lowering) []bool
	// Like gives for arguments of which the kernel looks only at the shape the result that has this shape.
	Like map[int]int
	// Orders gives permutations for operands, by their place among the arguments, and for results, as torch's kernel
	// likes them to lie in memory. Dimension i is dimension order[i] in memory, of which the last varies fastest. nil
	// for all dense.
	Orders func(l *Lowering) (in, out map[int][]int64)
	// Check names what package torchcpu looks at before the kernel, which takes it on trust; "" for nothing.
	Check string
}

// TorchOp is an op of torch that programs may call, as package torchcpu takes it.
type TorchOp struct {
	Row, Name, Overload, Out, Args, Check string
	Results                               int
}

// TorchTarget is the name of the custom call that runs an op of torch.
const TorchTarget = "torch_op"

// TorchOps are the rows that have a kernel.
func TorchOps() (list []TorchOp) {
	for i := range Table {
		if Table[i].Torch != nil {
			list = append(list, Table[i].torchOp())
		}
	}
	return list
}

func (r *Row) torchOp() TorchOp {
	name, schema := r.Name, r.Schema
	if op := r.Torch.Op; op != "" {
		cut := strings.IndexByte(op, '(')
		name, schema = op[:cut], op[cut:]
	}
	args, results := argKinds(schema)
	name, overload, _ := strings.Cut(name, ".")
	return TorchOp{r.Name, "aten::" + name, overload, r.Torch.Out, args, r.Torch.Check, results}
}

// TorchOpOf is the op of torch with a signature, its name and schema: "relu(Tensor self) -> Tensor". A result that is a
// list counts as one.
func TorchOpOf(signature string) TorchOp {
	name, schema := signature[:strings.IndexByte(signature, '(')], signature[strings.IndexByte(signature, '('):]
	args, results := argKinds(schema)
	base, overload, _ := strings.Cut(name, ".")
	return TorchOp{Row: name, Name: "aten::" + base, Overload: overload, Args: args, Results: results}
}

// argKinds are the arguments of a schema in the letters of torchcpu's torch_op.args, and the number of results.
func argKinds(schema string) (kinds string, results int) {
	args, returns, _ := strings.Cut(schema, ") -> ")
	var b strings.Builder
	for _, arg := range strings.Split(strings.TrimPrefix(args, "("), ", ") {
		kind, _, ok := strings.Cut(arg, " ")
		if !ok {
			continue // "*", or nothing
		}
		b.WriteString(argKind(kind))
	}
	return b.String(), strings.Count(returns, "Tensor")
}

// argKind is the letter of an argument's type, with a '?' for one that may be None.
func argKind(kind string) string {
	base, optional := strings.CutSuffix(kind, "?")
	element, _, list := strings.Cut(base, "[")
	letter := map[string]string{"Tensor": "T", "int": "i", "SymInt": "i", "bool": "b", "float": "d", "str": "s", "ScalarType": "y"}[element]
	if list {
		letter = map[string]string{"T": "L", "i": "I", "b": "B", "d": "D"}[letter]
		if element == "Tensor?" {
			letter = "O"
		}
	}
	if letter == "" {
		letter, optional = "n", true
	}
	if optional {
		letter += "?"
	}
	return letter
}

// Lower emits the node that l is at. That is a call of torch's kernel where one may be called and is the faster, else
// the row's lowering.
func (l *Lowering) Lower(row *Row) {
	if !l.callTorch(row) {
		row.Lower(l)
	}
}

// callTorch calls torch's kernel of the node's row, if the program may and it is worth it; see Kernel.
func (l *Lowering) callTorch(row *Row) bool {
	k := row.Torch
	if k == nil || !l.TorchKernels || l.noElements() || k.When != nil && !k.When(l) {
		return false
	}
	var in, out map[int][]int64
	if k.Orders != nil {
		in, out = k.Orders(l)
	}
	words, operands, orders, ok := l.torchArgs(row, in)
	results, which := l.torchResults(k)
	if !ok || len(results) == 0 {
		return false
	}
	if len(which) == l.outCount() {
		which = nil
	}
	for i, s := range results {
		orders = append(orders, fromOrder(s.Rank(), out[resultAt(which, i)]))
		results[i] = shape.Of(s.DType, reordered(s.Dims, undone(orders[len(orders)-1])))
	}
	given := l.torchOp(row.Name, words, operands, results, which, orders)
	for i, v := range given {
		given[i] = l.B.Transpose(v, orders[len(operands)+i])
	}
	for i := range l.outCount() {
		if which != nil && !slices.Contains(which, int64(i)) {
			l.Return(l.omitted(i))
			continue
		}
		l.Return(given[0])
		given = given[1:]
	}
	return true
}

// resultAt is the place among the op's results of result i of a call.
func resultAt(which []int64, i int) int {
	if which == nil {
		return i
	}
	return int(which[i])
}

// torchOp is a call of torch's kernel of a row; which tells which of the op's results it has, nil for all; orders how
// operands and results lie in memory, nil if all are dense.
func (l *Lowering) torchOp(row string, words []int64, operands []value, results []*shape.Shape, which []int64, orders [][]int64) []value {
	config := []stablehlo.Attr{stablehlo.StringAttr("op", row), stablehlo.Int64sAttr("args", words)}
	if which != nil {
		config = append(config, stablehlo.Int64sAttr("results", which))
	}
	if slices.ContainsFunc(orders, func(o []int64) bool { return !slices.IsSorted(o) }) {
		config = append(config, stablehlo.Int64sAttr("orders", slices.Concat(orders...)))
	}
	return l.B.CustomCall(TorchTarget, operands, results, stablehlo.CustomCallOptions{APIVersion: 4, Config: config})
}

// noElements tells that there is nothing to compute, or nothing to compute it from.
func (l *Lowering) noElements() bool {
	for _, id := range l.Graph.In(l.Node) {
		if id != ir.None && l.Graph.Shape(id).Numel() == 0 {
			return true
		}
	}
	for i := range l.outCount() {
		if l.Out(i).Numel() > 0 {
			return false
		}
	}
	return true
}

func (l *Lowering) outCount() int { return int(l.Graph.At(l.Node).Results) }

// torchResults are the results that a call has, and which of the op's they are.
func (l *Lowering) torchResults(k *Kernel) (results []*shape.Shape, which []int64) {
	var asked []bool
	if k.Asked != nil {
		asked = k.Asked(l)
	}
	for i := range l.outCount() {
		if asked == nil || asked[i] {
			results, which = append(results, l.Out(i)), append(which, int64(i))
		}
	}
	return results, which
}

// torchArgs are the node's arguments as a call encodes them, with operands that lie as in says and the order of each;
// false if the kernel cannot take them.
func (l *Lowering) torchArgs(row *Row, in map[int][]int64) (words []int64, operands []value, orders [][]int64, ok bool) {
	kinds := row.torchOp().Args
	for i := 0; kinds != ""; i++ {
		kind, optional := kinds[0], strings.HasPrefix(kinds[1:], "?")
		kinds = strings.TrimPrefix(kinds[1:], "?")
		k := l.Kind(i)
		like, isLike := row.Torch.Like[i]
		switch {
		case isLike:
			words = append(words, wire.Tag(wire.KResult, like))
		case k == wire.KNull && optional:
			words = append(words, wire.Tag(wire.KNull, 0))
		case k == wire.KNull && kind == 'b' && i >= l.Len():
			words = append(words, wire.Tag(wire.KConst, 0), 0)
		case kind == 'T' && (k == wire.KTensor || k == wire.KHostZero):
			x := l.In(i)
			order := fromOrder(x.Rank(), in[i])
			orders = append(orders, order)
			words, operands = append(words, wire.Tag(wire.KTensor, 0)), append(operands, l.B.Transpose(x, undone(order)))
		case TakesKind(kind, k):
			words = append(words, l.Words(i)...)
		default:
			return nil, nil, nil, false
		}
	}
	return words, operands, orders, true
}

// fromOrder is an order of this rank; nil is the dense one.
func fromOrder(rank int, order []int64) []int64 {
	if order != nil {
		return order
	}
	order = make([]int64, rank)
	for i := range order {
		order[i] = int64(i)
	}
	return order
}

// undone is the permutation that undoes p.
func undone(p []int64) []int64 {
	q := make([]int64, len(p))
	for i, at := range p {
		q[at] = int64(i)
	}
	return q
}

// reordered is the list whose item i is item p[i] of s.
func reordered(s, p []int64) []int64 {
	q := make([]int64, len(p))
	for i, at := range p {
		q[i] = s[at]
	}
	return q
}

// orderOf is how argument i lies in memory if it is a transpose of a value; nil if it is not.
func (l *Lowering) orderOf(i int) []int64 {
	n := l.Graph.At(l.ID(i))
	if n.Op != transposeOp {
		return nil
	}
	var a ir.Args
	a.Node(l.Graph, l.ID(i))
	return a.Ints(1)
}

// argWords are the kinds of encoded arguments that the arguments of a letter may have, apart from None and tensors.
var argWords = map[byte]string{'i': kindsOf(wire.KConst), 'b': kindsOf(wire.KConst), 'd': kindsOf(wire.KConst, wire.KConstF), 's': kindsOf(wire.KText),
	'y': kindsOf(wire.KType), 'I': kindsOf(wire.KInts, wire.KConst), 'B': kindsOf(wire.KInts), 'D': kindsOf(wire.KFloats)}

// TakesKind reports that an argument of a letter may be encoded as an argument of a kind, apart from None and tensors.
func TakesKind(letter byte, k wire.Kind) bool {
	return strings.IndexByte(argWords[letter], byte(k)) >= 0
}

func kindsOf(kinds ...wire.Kind) string {
	b := make([]byte, len(kinds))
	for i, k := range kinds {
		b[i] = byte(k)
	}
	return string(b)
}
