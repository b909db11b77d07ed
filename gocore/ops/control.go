package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// controlRows are ops that call functions, which are named in their arguments. They are torch's control flow
// (torch.cond, while_loop, scan), whose branches and bodies were traced before, and programs of users.
var controlRows = []Row{
	{Name: "torch_go_xla::cond", Schema: "(Tensor pred, Tensor[] operands, str then, str otherwise) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error {
			if c.In(0).Numel() != 1 {
				return errs.New(errs.Runtime, "cond: expected a predicate of one element, got shape %s", c.In(0))
			}
			then, err := c.function(2, c.Ins(1))
			if err != nil {
				return err
			}
			otherwise, err := c.function(3, c.Ins(1))
			if err != nil {
				return err
			}
			if err := same("cond: the branches return", then.Results, otherwise.Results); err != nil {
				return err
			}
			return c.returnAll(then.Results)
		},
		Lower: func(l *Lowering) {
			b, operands := l.B, l.Ins(1)
			then, otherwise := l.imported(2), l.imported(3)
			l.Return(b.If(l.condition(l.In(0)),
				func(b *stablehlo.Builder) []value { return b.Call(then, operands...) },
				func(b *stablehlo.Builder) []value { return b.Call(otherwise, operands...) })...)
		}},
	// cond and body take carried and extra values; the body returns carried ones.
	{Name: "torch_go_xla::while_loop", Schema: "(Tensor[] carried, Tensor[] extra, str cond, str body) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error {
			carried := c.Ins(0)
			all := append(carried[:len(carried):len(carried)], c.Ins(1)...)
			cond, err := c.function(2, all)
			if err != nil {
				return err
			}
			if len(cond.Results) != 1 || cond.Results[0].Numel() != 1 {
				return errs.New(errs.Runtime, "while_loop: expected a condition of one element, got %s", cond.Results)
			}
			body, err := c.function(3, all)
			if err != nil {
				return err
			}
			if err := same("while_loop: the body takes and returns", carried, body.Results); err != nil {
				return err
			}
			return c.returnAll(carried)
		},
		Lower: func(l *Lowering) {
			extra := l.Ins(1)
			cond, body := l.imported(2), l.imported(3)
			l.Return(l.B.While(l.Ins(0),
				func(b *stablehlo.Builder, v []value) value {
					return l.condition(b.Call(cond, slices.Concat(v, extra)...)[0])
				},
				func(b *stablehlo.Builder, v []value) []value { return b.Call(body, slices.Concat(v, extra)...) })...)
		}},
	// body takes carried values, a row of each of xs, and extra values; it returns carried values and rows. With
	// reverse the last row is the first, and the rows of the results lie where those of xs do.
	{Name: "torch_go_xla::scan", Schema: "(Tensor[] carried, Tensor[] xs, Tensor[] extra, str body, bool reverse=False) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error {
			carried, xs := c.Ins(0), c.Ins(1)
			args := carried[:len(carried):len(carried)]
			for _, x := range xs {
				if len(x.Dims) == 0 || x.Dims[0] != xs[0].Dims[0] {
					return errs.New(errs.Runtime, "scan: expected tensors of one length, got %s and %s", xs[0], x)
				}
				args = append(args, shape.Of(x.DType, x.Dims[1:]))
			}
			if len(xs) == 0 {
				return errs.New(errs.Runtime, "scan: expected a tensor to scan over")
			}
			body, err := c.function(3, append(args, c.Ins(2)...))
			if err != nil {
				return err
			}
			n := len(carried)
			if len(body.Results) < n {
				return errs.New(errs.Runtime, "scan: the body returns %d values, %d are carried", len(body.Results), n)
			}
			if err := same("scan: the body takes and returns", carried, body.Results[:n]); err != nil {
				return err
			}
			if err := c.returnAll(carried); err != nil {
				return err
			}
			for _, y := range body.Results[n:] {
				if err := c.Return(y.DType, append([]int64{xs[0].Dims[0]}, y.Dims...)...); err != nil {
					return err
				}
			}
			return nil
		},
		Lower: func(l *Lowering) { l.Return(l.scan(l.Ins(0), l.Ins(1), l.Ins(2), l.imported(3), l.Bool(4))...) }},
	// program is a function that a user has written in StableHLO; see stablehlo.Written.
	{Name: "torch_go_xla::call", Schema: "(Tensor[] operands, str program) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error {
			f, err := c.function(1, c.Ins(0))
			if err != nil {
				return err
			}
			return c.returnAll(f.Results)
		},
		Lower: func(l *Lowering) { l.Return(l.B.Call(l.imported(1), l.Ins(0)...)...) }},
}

// function is the function that argument i names, for operands of these shapes.
func (c *Ctx) function(i int, operands []*shape.Shape) (*stablehlo.Function, error) {
	f := c.Functions[c.Text(i)]
	if f == nil {
		return nil, errs.New(errs.Runtime, "there is no traced function %q", c.Text(i))
	}
	return f, same("the operands and the function's parameters are", operands, f.Params)
}

// same is an error that starts with what if two lists of shapes differ.
func same(what string, a, b []*shape.Shape) error {
	equal := len(a) == len(b)
	for i := 0; equal && i < len(a); i++ {
		equal = a[i] == b[i]
	}
	if !equal {
		return errs.New(errs.Runtime, "%s %s and %s", what, a, b)
	}
	return nil
}

func (c *Ctx) returnAll(shapes []*shape.Shape) error {
	for _, s := range shapes {
		if err := c.ReturnLike(s); err != nil {
			return err
		}
	}
	return nil
}

// imported is the function that argument i names, in the module.
func (l *Lowering) imported(i int) *stablehlo.Func { return l.B.Import(l.Functions[l.Text(i)]) }

// condition is a value of one element as an i1 of rank 0.
func (l *Lowering) condition(v value) value { return l.B.Reshape(Convert(l.B, v, dtype.Bool), nil) }

// scan is a loop over the rows of xs that writes the rows of the results.
func (l *Lowering) scan(carried, xs, extra []value, body *stablehlo.Func, reverse bool) []value {
	b, n := l.B, len(carried)
	length := b.Splat(shape.Make(dtype.I32), stablehlo.Int(xs[0].Dim(0)))
	one := b.Splat(shape.Make(dtype.I32), stablehlo.Int(1))
	start := zero(b, dtype.I32)
	init := append([]value{start}, carried...)
	for k := n; k < len(body.Results()); k++ {
		init = append(init, b.Broadcast(zero(b, l.Out(k).DType), l.Out(k).Dims))
	}
	place := func(i value, rank int) []value {
		at := make([]value, rank)
		for d := range at {
			at[d] = start
		}
		at[0] = i
		return at
	}
	return b.While(init,
		func(b *stablehlo.Builder, v []value) value { return b.Compare(v[0], length, stablehlo.LT) },
		func(b *stablehlo.Builder, v []value) []value {
			i := v[0]
			if reverse {
				i = b.Subtract(b.Splat(shape.Make(dtype.I32), stablehlo.Int(xs[0].Dim(0)-1)), i)
			}
			args := append([]value(nil), v[1:1+n]...)
			for _, x := range xs {
				sizes := append([]int64{1}, x.Dims()[1:]...)
				args = append(args, b.Reshape(b.DynamicSlice(x, place(i, x.Rank()), sizes), sizes[1:]))
			}
			got := b.Call(body, append(args, extra...)...)
			next := append([]value{b.Add(v[0], one)}, got[:n]...)
			for k, y := range got[n:] {
				all := v[1+n+k]
				row := b.Reshape(y, append([]int64{1}, y.Dims()...))
				next = append(next, b.DynamicUpdateSlice(all, row, place(i, all.Rank())))
			}
			return next
		})[1:]
}
