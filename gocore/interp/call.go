package interp

import (
	"math"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// What an argument of a call is besides an int64, float64, bool, []int64, []float64, string or dtype.DType, or nil for
// None.
type (
	arg    int     // that of the node, by position
	value  int64   // a value of the program
	values []value // a list of them
	places []int64 // a list of values + 1, of which some are not given: 0
)

// call is one being put together.
type call struct {
	w        *writer
	op       ops.TorchOp
	words    []int64
	patches  []int64 // place and number, in turn
	operands []int64
	ok       bool
}

// direct calls torch's op of the node's row, with the node's arguments.
func direct(w *writer) bool {
	row := ops.Of(w.g.At(w.node).Op)
	if row.Internal || strings.HasPrefix(row.Name, "torch_go_xla::") || row.Torch != nil && row.Torch.Check != "" {
		return false
	}
	return w.callAs(row.Name + row.Schema)
}

// as calls another op of torch with the node's arguments; signature is its name and schema.
func as(signature string) rule {
	return func(w *writer) bool { return w.callAs(signature) }
}

func (w *writer) callAs(signature string) bool {
	args := make([]any, arguments(signature))
	for i := range args {
		args[i] = arg(i)
	}
	return w.call(signature, args...)
}

// call calls an op of torch whose results are the node's; false if it cannot be called with these arguments.
func (w *writer) call(signature string, args ...any) bool {
	results := make([]int64, int(w.g.At(w.node).Results))
	shapes := make([]*shape.Shape, len(results))
	for i := range results {
		results[i], shapes[i] = w.result(i), w.out(i)
	}
	return w.callTo(signature, results, shapes, args)
}

// callFor calls an op of torch for a value of a shape that the node computes with.
func (w *writer) callFor(signature string, s *shape.Shape, args ...any) (value, bool) {
	v := w.temp(s)
	return value(v), w.callTo(signature, []int64{v}, []*shape.Shape{s}, args)
}

func (w *writer) callTo(signature string, results []int64, shapes []*shape.Shape, args []any) bool {
	number, op := w.op(signature)
	c := call{w: w, op: op, ok: true}
	kinds := op.Args
	for i := 0; kinds != "" && c.ok; i++ {
		kind, optional := kinds[0], strings.HasPrefix(kinds[1:], "?")
		kinds = strings.TrimPrefix(kinds[1:], "?")
		if i >= len(args) {
			c.absent(kind, optional)
		} else {
			c.add(args[i], kind, optional)
		}
	}
	isList := int64(0)
	if strings.HasSuffix(signature, "-> Tensor[]") {
		isList = 1
	}
	if !c.ok || len(results) != op.Results || arguments(signature)+op.Results > mostArgs || len(c.words) > mostWords || len(c.operands) > mostOperands {
		return false
	}
	words := append(list(number, isList, int64(len(c.words))), c.words...)
	words = append(append(words, int64(len(c.patches)/2)), c.patches...)
	words = append(append(words, int64(len(c.operands))), c.operands...)
	words = append(words, int64(len(results)))
	roots, unread := make([]int64, len(results)), int64(0)
	for i, r := range results {
		if r < 0 {
			unread += shapes[i].Bytes()
		}
		roots[i] = w.rootOf(r)
		words = append(append(words, r, roots[i]), typed(shapes[i])...)
	}
	if op.Out != "" && len(roots) > 0 && slices.Min(roots) >= 0 {
		for i, r := range roots {
			w.p.Placed[r] = true
			w.memory.place(results[i])
		}
	}
	w.memory.live += unread
	w.emit(opCall, words)
	w.memory.live -= unread
	return true
}

// op is the number of an op of torch in the program.
func (w *writer) op(signature string) (int64, ops.TorchOp) {
	if i, ok := w.opOf[signature]; ok {
		return i, w.p.Ops[i]
	}
	i := int64(len(w.p.Ops))
	w.opOf[signature] = i
	name, _, _ := strings.Cut(signature, "(")
	op := ops.TorchOpOf(signature)
	op.Out = outs[name]
	w.p.Ops = append(w.p.Ops, op)
	return i, w.p.Ops[i]
}

// arguments is the number of a signature's arguments.
func arguments(signature string) (n int) {
	args, _, _ := strings.Cut(signature[strings.IndexByte(signature, '(')+1:], ") -> ")
	for _, a := range strings.Split(args, ", ") {
		if a != "" && a != "*" {
			n++
		}
	}
	return n
}

func (c *call) word(words ...int64) { c.words = append(c.words, words...) }

func (c *call) tensor(v int64) {
	c.word(tag(wire.KTensor, 0))
	c.operands = append(c.operands, v)
}

// absent adds an argument that is not given: None, or false.
func (c *call) absent(kind byte, optional bool) {
	switch {
	case optional:
		c.word(tag(wire.KNull, 0))
	case kind == 'b':
		c.word(tag(wire.KConst, 0), 0)
	default:
		c.ok = false
	}
}

// add adds an argument of a kind of torchcpu's torch_op.args.
func (c *call) add(a any, kind byte, optional bool) {
	switch a := a.(type) {
	case nil:
		c.absent(kind, optional)
	case arg:
		c.given(int(a), kind, optional)
	case value:
		c.tensor(int64(a))
	case values:
		c.word(tag(wire.KTensors, len(a)))
		for _, v := range a {
			c.word(1)
			c.operands = append(c.operands, int64(v))
		}
	case places:
		c.word(tag(wire.KTensors, len(a)))
		for _, v := range a {
			c.word(truth(v > 0))
			if v > 0 {
				c.operands = append(c.operands, v-1)
			}
		}
	case bool:
		c.word(tag(wire.KConst, 0), truth(a))
	case int64:
		c.word(tag(wire.KConst, 0), a)
	case float64:
		c.word(tag(wire.KConstF, 0), int64(math.Float64bits(a)))
	case []int64:
		c.word(tag(wire.KInts, len(a)))
		c.word(a...)
	case []float64:
		c.word(tag(wire.KFloats, len(a)))
		for _, f := range a {
			c.word(int64(math.Float64bits(f)))
		}
	case string:
		c.text(a)
	case dtype.DType:
		c.word(tag(wire.KType, 0), code(a))
	default:
		c.ok = false
	}
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *call) text(s string) {
	c.word(tag(wire.KText, len(s)))
	for i := 0; i < len(s); i += 8 {
		w := uint64(0)
		for j := i; j < min(i+8, len(s)); j++ {
			w |= uint64(s[j]) << (8 * (j - i))
		}
		c.word(int64(w))
	}
}

// given adds argument i of the node.
func (c *call) given(i int, kind byte, optional bool) {
	k, id := c.w.Kind(i), c.w.ID(i)
	switch {
	case k == wire.KNull:
		c.absent(kind, optional)
	case kind == 'I' && k == wire.KScalars:
		c.numbers(i)
	case kind == 'n': // a layout, a device, a memory format; a Scalar is stated by a rule
		c.ok = id == ir.None && k != wire.KScalars
		c.word(tag(wire.KNull, 0))
	case kind == 'T' && id != ir.None:
		c.tensor(c.w.operand(id))
	case kind == 'd' && id != ir.None: // a number
		c.patch(wire.KConstF, id)
	case kind == 'i' && id != ir.None:
		c.patch(wire.KConst, id)
	case (kind == 'L' || kind == 'O') && k == wire.KTensors:
		c.tensors(i, kind)
	case ops.TakesKind(kind, k):
		c.word(c.w.Words(i)...)
	default:
		c.ok = false
	}
}

// patch adds a number that is an argument of the program.
func (c *call) patch(k wire.Kind, id ir.ID) {
	n, _ := c.w.g.Number(id)
	c.ok = c.w.isNumber(id) && !n.Type.IsComplex()
	c.word(tag(k, 0))
	c.patchWord(k == wire.KConstF, id)
}

// patchWord adds a word that is a number when the program runs. Its place is given as −1 − place for a float.
func (c *call) patchWord(float bool, id ir.ID) {
	c.word(0)
	at := int64(len(c.words) - 1)
	if float {
		at = ^at
	}
	c.patches = append(c.patches, at, c.w.numberRef(id))
}

// numbers adds a list of integers of which some are arguments of the program.
func (c *call) numbers(i int) {
	ids := c.w.IDs(i)
	c.word(tag(wire.KInts, len(ids)))
	for _, id := range ids {
		if c.ok = c.ok && c.w.isNumber(id); c.ok {
			c.patchWord(false, id)
		}
	}
}

func (c *call) tensors(i int, kind byte) {
	ids := c.w.IDs(i)
	c.word(tag(wire.KTensors, len(ids)))
	for _, id := range ids {
		if id == ir.None {
			c.ok = c.ok && kind == 'O'
			c.word(0)
			continue
		}
		c.word(1)
		c.operands = append(c.operands, c.w.operand(id))
	}
}
