package ops

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// compareRows give bool.
var compareRows = join(
	compare("eq", stablehlo.EQ, ^types(0)), compare("ne", stablehlo.NE, ^types(0)),
	compare("lt", stablehlo.LT, bools|ints|floats), compare("le", stablehlo.LE, bools|ints|floats),
	compare("gt", stablehlo.GT, bools|ints|floats), compare("ge", stablehlo.GE, bools|ints|floats),
	[]Row{
		logical("logical_and", (*stablehlo.Builder).And),
		logical("logical_or", (*stablehlo.Builder).Or),
		logical("logical_xor", (*stablehlo.Builder).Xor),
	},
)

// compare is the Tensor and the Scalar overload of a comparison.
func compare(name string, dir stablehlo.Direction, t types) []Row {
	lower := func(l *Lowering) {
		// The default float type matters for a wrapped number against only integers. Then every float type compares
		// alike up to its precision, and f64 loses nothing.
		d, err := promote(&l.Args, l.Graph, dtype.F64, []int{0, 1})
		if err != nil {
			l.B.Failf(name, nil, "%v", err)
			return
		}
		dims := l.Out(0).Dims
		l.Return(l.B.Compare(l.Full(0, d, dims), l.Full(1, d, dims), dir))
	}
	infer := compared(name+"_cpu", t)
	return []Row{
		{Name: name + ".Tensor", Schema: binarySchema, Infer: infer, Lower: lower,
			Shortcut: &Shortcut{Names: fmt.Sprintf("%s __%s__", name, name), Number: name + ".Scalar"}},
		{Name: name + ".Scalar", Schema: scalarSchema, Infer: infer, Lower: lower},
	}
}

// logical computes on truth values.
func logical(name string, f fun2) Row {
	return Row{Name: name, Schema: binarySchema, Infer: compared(name+"_cpu", bools|numbers), Lower: func(l *Lowering) {
		dims := l.Out(0).Dims
		l.Return(f(l.B, l.Full(0, dtype.Bool, dims), l.Full(1, dtype.Bool, dims)))
	}}
}

// selectRows choose by a condition.
var selectRows = []Row{
	{Name: "where.self", Schema: "(Tensor condition, Tensor self, Tensor other) -> Tensor", ExactOut: true,
		Infer: func(c *Ctx) error {
			if d := c.In(0).DType; d != dtype.Bool && d != dtype.U8 {
				return errs.New(errs.Runtime, "where expected condition to be a boolean tensor, but got a tensor with dtype %s", d.C10())
			}
			d, err := c.Promote(1, 2)
			if err != nil {
				return err
			}
			dims, err := c.Broadcast(0, 1, 2)
			if err != nil {
				return err
			}
			return c.Return(d, dims...)
		},
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(l.B.Select(l.Full(0, dtype.Bool, o.Dims), l.Full(1, o.DType, o.Dims), l.Full(2, o.DType, o.Dims)))
		}},
}

// copyRows give a tensor new values.
var copyRows = []Row{
	{Name: "clone", Schema: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", Strides: Copied,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: func(l *Lowering) { l.Return(l.In(0)) }},
	{Name: "copy", Schema: "(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", Overlap: Moved, ShapeOnly: []int{0},
		Infer: func(c *Ctx) error {
			self, src := c.In(0), c.In(1)
			if !expandable(src.Dims, self.Dims) {
				dims, err := c.Broadcast(0, 1)
				if err != nil {
					return err
				}
				return errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", dimsText(self.Dims), dimsText(dims))
			}
			return c.ReturnLike(self)
		},
		Lower: func(l *Lowering) { o := l.Out(0); l.Return(l.Full(1, o.DType, o.Dims)) }},
	{Name: "fill.Scalar", Schema: "(Tensor self, Scalar value) -> Tensor", Overlap: Free, ShapeOnly: []int{0}, Uniform: true,
		Infer: func(c *Ctx) error {
			_ = c.ReturnLike(c.In(0))
			return c.fits(1, c.In(0).DType)
		},
		Lower: func(l *Lowering) { o := l.Out(0); l.Return(l.Full(1, o.DType, o.Dims)) }},
	{Name: "fill.Tensor", Schema: "(Tensor self, Tensor value) -> Tensor", Overlap: Free, ShapeOnly: []int{0},
		Infer: func(c *Ctx) error {
			if n := len(c.In(1).Dims); n != 0 {
				return errs.New(errs.Runtime, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", n)
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) { o := l.Out(0); l.Return(l.Full(1, o.DType, o.Dims)) }},
	{Name: "zero", Schema: unarySchema, Shortcut: &Shortcut{Names: "zero_"}, ShapeOnly: []int{0}, Uniform: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(l.B.Broadcast(zero(l.B, o.DType), o.Dims))
		}},
}
