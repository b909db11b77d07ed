package ops

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Bounds are the values that an op accepts in one of its operands, and torch's error for any other.
type Bounds struct {
	Index     ir.ID
	Low, High int64  // Low ≤ value < High
	Except    *int64 // accepted too; nil: none
	kind      errs.Kind
	text      string // a format for the value and its place
}

// Err is torch's error for a value at a place of the flattened operand.
func (b Bounds) Err(value, place int64) error {
	return errs.New(b.kind, "%s", fmt.Sprintf(b.text, value, place))
}

// opFirstOutside finds a value that is out of bounds; see compilerRows.
var opFirstOutside, _ = Lookup("torch_go_xla::first_outside")

// record records the test of some bounds.
func (b *Bounds) record(g *ir.Graph) ir.ID {
	words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KConst, 0), b.Low, wire.Tag(wire.KConst, 0), b.High}
	if b.Except != nil {
		words = append(words, wire.Tag(wire.KConst, 0), *b.Except)
	}
	return g.Add(opFirstOutside, []ir.ID{b.Index}, words, shape.Make(dtype.I64, 2), 0)
}

func lowerFirstOutside(l *Lowering) {
	b := l.B
	x := b.Reshape(l.As(0, dtype.I64), []int64{l.Shape(0).Numel()})
	is := func(v int64, by stablehlo.Direction) value { return b.Compare(x, b.SplatLike(x, stablehlo.Int(v)), by) }
	bad := b.Or(is(l.Int(1), stablehlo.LT), is(l.Int(2), stablehlo.GE))
	if l.Has(3) {
		bad = b.And(bad, is(l.Int(3), stablehlo.NE))
	}
	l.Return(firstOf(b, bad, x))
}

// Torch on the CPU compares operands of these rows with bounds, with the classes and messages of its errors: see
// Row.Bounds. _unsafe_index and ctc_loss have none: torch does not look there either.

// accepted is what torch's messages do not say: which value is refused, and what is accepted.
const accepted = ": got %%[1]d, expected %d to %d"

// axisSize is the size of dimension (argument 1) of self (argument 0).
func axisSize(c *Ctx) int64 { return sizeAt(c.In(0), acceptedDim(c.Int(1), len(c.In(0).Dims))) }

// outOf are the bounds of an index into n elements of dimension dim, with torch's usual message.
func outOf(id ir.ID, kind errs.Kind, prefix string, dim int, n int64, fromEnd bool) Bounds {
	b := Bounds{Index: id, High: n, kind: kind, text: fmt.Sprintf("%sindex %%[1]d is out of bounds for dimension %d with size %d", prefix, dim, n)}
	if fromEnd {
		b.Low = -n
	}
	return b
}

// alongBounds are those of an op (self, dim, index, …).
func alongBounds(kind errs.Kind, prefix string, fromEnd bool) func(*Ctx) []Bounds {
	return func(c *Ctx) []Bounds {
		return []Bounds{outOf(c.ID(2), kind, prefix, acceptedDim(c.Int(1), len(c.In(0).Dims)), axisSize(c), fromEnd)}
	}
}

// listBounds are those of a list of index tensors; masks among them have none.
func listBounds(c *Ctx, arg int) (all []Bounds) {
	for i, id := range c.IDs(arg) {
		if id != ir.None && !isMask(c.Graph.Shape(id).DType) {
			all = append(all, outOf(id, errs.Index, "", i, c.In(0).Dims[i], true))
		}
	}
	return all
}

// tableBounds are those of argument arg, which names rows of a table of n.
func tableBounds(c *Ctx, arg int, n int64) []Bounds {
	return []Bounds{{Index: c.ID(arg), High: n, kind: errs.Index, text: fmt.Sprintf("index out of range in self"+accepted, 0, n-1)}}
}

// flatBounds are those of places in the flattened self.
func flatBounds(c *Ctx) []Bounds {
	n := c.In(0).Numel()
	return []Bounds{{Index: c.ID(1), Low: -n, High: n, kind: errs.Index,
		text: fmt.Sprintf("out of range: tried to access index %%[1]d on a tensor of %d elements.", n)}}
}

func bagBounds(c *Ctx) []Bounds {
	n := c.In(0).Dims[0]
	b := Bounds{Index: c.ID(1), High: n, kind: errs.Runtime,
		text: fmt.Sprintf("Index %%[2]d of input takes value %%[1]d which is not in the valid range [0, %d)", n)}
	if c.Int(4) == bagMax {
		b.text = fmt.Sprintf("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be %%[1]d, and num_embeddings %d", n)
	}
	return []Bounds{b}
}

// targetBounds are those of the classes that a loss is asked for, next to its input, argument self.
func targetBounds(c *Ctx, self, ignore int) []Bounds {
	s, except := c.In(self), c.Int(ignore)
	n := s.Dims[min(1, len(s.Dims)-1)]
	return []Bounds{{Index: c.ID(self + 1), High: n, Except: &except, kind: errs.Index,
		text: fmt.Sprintf("Target %%[1]d is out of bounds. There are %d classes", n)}}
}

func marginBounds(c *Ctx, text string) Bounds {
	s := c.In(0)
	n := sizeAt(s, max(len(s.Dims)-1, 0))
	return Bounds{Index: c.ID(1), High: n, kind: errs.Runtime, text: fmt.Sprintf(text+accepted, 0, n-1)}
}

// pivotBounds are those of the rows that a factorization of argument 0 has exchanged, counted from one.
func pivotBounds(text string) func(*Ctx) []Bounds {
	return func(c *Ctx) []Bounds {
		s := c.In(0)
		n := sizeAt(s, max(len(s.Dims)-2, 0))
		return []Bounds{{Index: c.ID(1), Low: 1, High: n + 1, kind: errs.Runtime, text: fmt.Sprintf(text+accepted, 1, n)}}
	}
}

func unpoolBounds(c *Ctx) []Bounds {
	size := c.Ints(2)
	text := ""
	for i, n := range size {
		if i > 0 {
			text += "x"
		}
		text += itoa(n)
	}
	return []Bounds{{Index: c.ID(1), High: product(size), kind: errs.Runtime,
		text: "Found an invalid max index: %[1]d (output volumes are of size " + text + ")"}}
}
