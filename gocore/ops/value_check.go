package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Checks says which values are looked at while programs run.
type Checks uint32

// The kinds of checks.
const (
	CheckIndices Checks = 1 << iota // indices and labels are within their bounds
	CheckNaN                        // an op makes no NaN of operands that have none
	CheckInf                        // an op makes no infinity of operands that have none
)

// Check is a recorded test of values. The node is i64[2]: the place of the first bad one in the flattened tensor, −1
// for none, and what is there.
type Check struct {
	Node ir.ID
	Err  func(value, place int64) error // for what the node says
}

// Check records the tests of the op that c describes: node, whose results are stored as values. Local values of SPMD
// are not tested, as they differ between the devices, and no op that takes one; nor is what comes from other processes.
func (c *Ctx) Check(which Checks, node ir.ID, values []ir.ID) (all []Check) {
	if which&CheckIndices != 0 && c.Row.Bounds != nil {
		for _, b := range c.Row.Bounds(c) {
			if b.Index != ir.None && c.testable(b.Index) {
				all = append(all, Check{b.record(c.Graph), b.Err})
			}
		}
	}
	if which &= CheckNaN | CheckInf; c.Row.Exchanges || c.Row.Collective || c.Graph.At(node).Op < ir.FirstRow {
		return all
	}
	var operands []ir.ID
	for _, x := range c.Graph.In(node) {
		if x == ir.None || slices.Contains(operands, x) {
			continue
		}
		n, number := c.Graph.Number(x)
		switch {
		case number && math.IsNaN(n.F+n.Im): // what the program asks for in so many words is not a mistake
			which &^= CheckNaN
		case number && (math.IsInf(n.F, 0) || math.IsInf(n.Im, 0)):
			which &^= CheckInf
		case c.Graph.Manual(x):
			return all
		case !number && c.testable(x) && !c.Graph.Shape(x).DType.IsIntegral():
			operands = append(operands, x)
		}
	}
	for _, v := range values {
		if which != 0 && c.testable(v) && !c.Graph.Shape(v).DType.IsIntegral() {
			all = append(all, c.checkFinite(which, v, operands))
		}
	}
	return all
}

func (c *Ctx) testable(id ir.ID) bool { return c.Graph.Shape(id).Numel() > 0 && !c.Graph.Manual(id) }

var opFirstNotFinite, _ = Lookup("torch_go_xla::first_not_finite")

func (c *Ctx) checkFinite(which Checks, id ir.ID, operands []ir.ID) Check {
	words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KTensors, len(operands)), wire.Tag(wire.KConst, 0), int64(which)}
	s, name := c.Graph.Shape(id), c.Row.Name
	node := c.Graph.Add(opFirstNotFinite, append([]ir.ID{id}, operands...), words, shape.Make(dtype.I64, 2), 0)
	return Check{node, func(value, place int64) error {
		what := [...]string{"nan", "inf"}[value]
		return errs.New(errs.Runtime, "%s made %s of operands without one, first at %s of its result %s", name, what, shape.TorchDims(position(place, s.Dims)), s)
	}}
}

// position is the indices of an element of the flattened tensor.
func position(place int64, dims []int64) []int64 {
	at := make([]int64, len(dims))
	for i := len(dims) - 1; i >= 0; i-- {
		at[i], place = place%dims[i], place/dims[i]
	}
	return at
}

func lowerFirstNotFinite(l *Lowering) {
	b, which := l.B, Checks(l.Int(2))
	isNaN := func(x value) value { return b.Compare(x, x, stablehlo.NE) }
	x := b.Reshape(l.In(0), []int64{l.Shape(0).Numel()})
	nan := isNaN(x)
	bad := b.SplatLike(nan, stablehlo.Bool(false))
	find := func(is func(value) value) {
		here := is(x)
		for _, operand := range l.Ins(1) {
			flat := b.Reshape(operand, []int64{operand.Shape().Numel()})
			here = b.And(here, b.Not(b.Broadcast(b.ReduceOr(is(flat), []int64{0}), here.Dims())))
		}
		bad = b.Or(bad, here)
	}
	if which&CheckNaN != 0 {
		find(isNaN)
	}
	if which&CheckInf != 0 {
		find(func(x value) value { return isInf(b, x) })
	}
	l.Return(firstOf(b, bad, b.Convert(b.Not(nan), dtype.I64)))
}

// firstOf is i64[2]: the place of the first true element of bad, −1 for none, and the element of what that is there.
func firstOf(b *stablehlo.Builder, bad, what value) value {
	n, all, one := what.Dims()[0], []int64{0}, []int64{1}
	places := b.Iota(what.Shape(), 0)
	first := b.ReduceMin(b.Select(bad, places, b.SplatLike(places, stablehlo.Int(n))), all)
	there := b.Compare(places, b.Broadcast(first, what.Dims()), stablehlo.EQ)
	found := b.ReduceMax(b.Select(there, what, b.SplatLike(what, stablehlo.Int(math.MinInt64))), all)
	none := b.Compare(first, b.SplatLike(first, stablehlo.Int(n)), stablehlo.EQ)
	first = b.Select(none, b.SplatLike(first, stablehlo.Int(-1)), first)
	return b.Concatenate(0, b.Reshape(first, one), b.Reshape(found, one))
}
