package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// extremeRows pick one of two operands, or of an operand and its bounds.
var extremeRows = []Row{
	extreme("maximum", larger).shortcut("maximum"),
	extreme("minimum", smaller).shortcut("minimum"),
	extreme("fmax", skipNaN(larger)),
	extreme("fmin", skipNaN(smaller)),
	{Name: "heaviside", Schema: "(Tensor self, Tensor values) -> Tensor", ExactOut: true, Infer: inferHeaviside,
		Lower: func(l *Lowering) {
			b, o := l.B, l.Out(0)
			x := l.Full(0, o.DType, o.Dims)
			none := b.ConstLike(x, 0)
			step := b.Convert(l.positive(x), o.DType)
			l.Return(b.Select(b.Compare(x, none, stablehlo.EQ), l.Full(1, o.DType, o.Dims), step))
		}},
	{Name: "clamp", Schema: "(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
		Infer: inferClamp("clamp_scalar_cpu", 1, 2), Lower: lowerClamp},
	{Name: "clamp.Tensor", Schema: "(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
		Infer: inferClamp("clamp_cpu", 0, 0), Lower: lowerClamp},
	{Name: "clamp_min", Schema: "(Tensor self, Scalar min) -> Tensor", Infer: inferClamp("clamp_min_scalar_cpu", 1, 0), Lower: lowerClamp},
	{Name: "clamp_min.Tensor", Schema: "(Tensor self, Tensor min) -> Tensor", Infer: inferClamp("maximum_cpu", 0, 0), Lower: lowerClamp},
	{Name: "clamp_max", Schema: "(Tensor self, Scalar max) -> Tensor", Infer: inferClamp("clamp_max_scalar_cpu", 0, 1), Lower: lowerClampMax},
	{Name: "clamp_max.Tensor", Schema: "(Tensor self, Tensor max) -> Tensor", Infer: inferClamp("minimum_cpu", 0, 0), Lower: lowerClampMax},
}

// positive is x > 0; a bool is itself.
func (l *Lowering) positive(x value) value {
	if x.DType() == dtype.Bool {
		return x
	}
	return l.B.Compare(x, l.B.ConstLike(x, 0), stablehlo.GT)
}

func extreme(name string, f fun2) Row {
	infer := promoted(2)
	return Row{Name: name, Schema: binarySchema,
		Infer: func(c *Ctx) error {
			if c.In(0).DType.IsComplex() || c.In(1).DType.IsComplex() {
				return errs.New(errs.Type, "%s not implemented for complex tensors.", name)
			}
			if err := infer(c); err != nil {
				return err
			}
			if d := c.outs[0].DType; d.IsF8() {
				return notFor(name+"_cpu", d)
			}
			return nil
		},
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(f(l.B, l.Full(0, o.DType, o.Dims), l.Full(1, o.DType, o.Dims)))
		}}
}

// skipNaN prefers the other operand to NaN.
func skipNaN(f fun2) fun2 {
	return func(b *stablehlo.Builder, x, y value) value {
		if !x.DType().IsFloat() {
			return f(b, x, y)
		}
		v := b.Select(b.Compare(y, y, stablehlo.NE), x, f(b, x, y))
		return b.Select(b.Compare(x, x, stablehlo.NE), y, v)
	}
}

func inferHeaviside(c *Ctx) error {
	x, y := c.In(0).DType, c.In(1).DType
	switch {
	case x.IsComplex() || y.IsComplex():
		return errs.New(errs.NotImpl, "heaviside is not yet implemented for complex tensors.")
	case x != y:
		return errs.New(errs.Runtime, "heaviside is not yet implemented for tensors with different dtypes.")
	}
	return implemented("heaviside_cpu", bools|ints|floats, promoted(2))(c)
}

// larger is the maximum, NaN if one operand is: some backends lose NaN in the second operand of their
// own maximum.
func larger(b *stablehlo.Builder, x, y value) value {
	if !x.DType().IsFloat() {
		return b.Maximum(x, y)
	}
	return b.Select(b.Or(b.Compare(x, y, stablehlo.GE), b.Compare(x, x, stablehlo.NE)), x, y)
}

// smaller is larger for the minimum.
func smaller(b *stablehlo.Builder, x, y value) value {
	if !x.DType().IsFloat() {
		return b.Minimum(x, y)
	}
	return b.Select(b.Or(b.Compare(x, y, stablehlo.LE), b.Compare(x, x, stablehlo.NE)), x, y)
}

// inferClamp is the rule of all forms of clamp. lo and hi are the positions of bounds that are numbers,
// 0 for none.
func inferClamp(kernel string, lo, hi int) func(c *Ctx) error {
	infer := promoted(3)
	return func(c *Ctx) error {
		if !c.Has(1) && !c.Has(2) {
			return errs.New(errs.Runtime, "torch.clamp: At least one of 'min' or 'max' must not be None")
		}
		if err := infer(c); err != nil {
			return err
		}
		switch d := c.outs[0].DType; {
		case d.IsComplex() && lo+hi > 0:
			return errs.New(errs.NotImpl, "clamp is not supported for complex types")
		case !(bools | reals).has(d):
			return notFor(kernel, d)
		case d.IsInt() && d.Size() < 8:
			return checkBounds(c, d, lo, hi)
		}
		for _, i := range [...]int{lo, hi} {
			if i != 0 {
				if err := c.fits(i, c.outs[0].DType); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// checkBounds refuses bounds that leave no value of the type.
func checkBounds(c *Ctx, d dtype.DType, lo, hi int) error {
	bottom, top := d.Range()
	if n, ok := c.Number(lo); lo != 0 && ok && n.Int() > top {
		return errs.New(errs.Runtime, "Clamp min value %d is outside the representable range of %s", n.Int(), d.C10())
	}
	if n, ok := c.Number(hi); hi != 0 && ok && n.Int() < bottom {
		return errs.New(errs.Runtime, "Clamp max value %d is outside the representable range of %s", n.Int(), d.C10())
	}
	return nil
}

// bound is argument i as a bound of values of type d. A number outside the range of a narrow integer
// type counts as the end of that range.
func (l *Lowering) bound(i int, d dtype.DType, dims []int64) value {
	if _, number := l.Number(i); !number || !d.IsInt() || d.Size() == 8 {
		return l.Full(i, d, dims)
	}
	b, v := l.B, l.As(i, dtype.I64)
	bottom, top := d.Range()
	v = b.Clamp(b.ConstLike(v, float64(bottom)), v, b.ConstLike(v, float64(top)))
	return b.Broadcast(b.Convert(v, d), dims)
}

// lowerClamp lets NaN through from all operands, and max win over min.
func lowerClamp(l *Lowering) {
	o := l.Out(0)
	x := l.Full(0, o.DType, o.Dims)
	if l.Has(1) {
		x = larger(l.B, x, l.bound(1, o.DType, o.Dims))
	}
	if l.Has(2) {
		x = smaller(l.B, x, l.bound(2, o.DType, o.Dims))
	}
	l.Return(x)
}

func lowerClampMax(l *Lowering) {
	o := l.Out(0)
	l.Return(smaller(l.B, l.Full(0, o.DType, o.Dims), l.bound(1, o.DType, o.Dims)))
}
