package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// factoryRows are ops that make tensors from numbers. The forms that take a tensor as a pattern
// (zeros_like, new_full) are torch's own, which keep its memory format.
var factoryRows = join(fullRows, rangeRows, spaceRows, triangleIndexRows)

// options is what a factory's schema ends with.
const options = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"

// fullRows fill a tensor with one value, or its diagonal.
var fullRows = []Row{
	{Name: "full", Schema: "(SymInt[] size, Scalar fill_value, " + options, Uniform: true, Quiet: true,
		Infer: func(c *Ctx) error {
			d := c.Type(2)
			if d == dtype.Invalid {
				if d = c.In(1).DType; d.IsFloat() {
					d = c.DefaultFloat
				} else if d.IsComplex() {
					d = c.DefaultFloat.ToComplex()
				}
			}
			return inferFull(c, 1, d, c.Ints(0))
		},
		Lower: func(l *Lowering) { l.Return(l.Full(1, l.Out(0).DType, l.Out(0).Dims)) }},
	{Name: "scalar_tensor", Schema: "(Scalar s, " + options,
		Infer: func(c *Ctx) error { return inferFull(c, 0, c.typeOr(1, c.DefaultFloat), nil) },
		Lower: func(l *Lowering) { l.Return(l.As(0, l.Out(0).DType)) }},
	{Name: "zeros", Schema: "(SymInt[] size, " + options, Uniform: true, Quiet: true,
		Infer: func(c *Ctx) error {
			for _, n := range c.Ints(0) {
				if n < 0 {
					return errs.New(errs.Runtime, "zeros: Dimension size must be non-negative.")
				}
			}
			return c.Return(c.typeOr(1, c.DefaultFloat), c.Ints(0)...)
		},
		Lower: func(l *Lowering) { l.Return(l.omitted(0)) }},
	{Name: "ones", Schema: "(SymInt[] size, " + options, Uniform: true, Quiet: true,
		Infer: func(c *Ctx) error { return inferFull(c, noArg, c.typeOr(1, c.DefaultFloat), c.Ints(0)) },
		Lower: func(l *Lowering) { l.Return(l.B.Broadcast(one(l.B, l.Out(0).DType), l.Out(0).Dims)) }},
	{Name: "eye", Schema: "(SymInt n, " + options, Quiet: true, Infer: func(c *Ctx) error { return inferEye(c, c.Int(0), c.Int(0), 1) }, Lower: lowerEye},
	{Name: "eye.m", Schema: "(SymInt n, SymInt m, " + options, Quiet: true, Infer: func(c *Ctx) error { return inferEye(c, c.Int(0), c.Int(1), 2) }, Lower: lowerEye},
}

// typeOr is the ScalarType argument i, d if it is None.
func (c *Ctx) typeOr(i int, d dtype.DType) dtype.DType {
	if t := c.Type(i); t != dtype.Invalid {
		return t
	}
	return d
}

// inferFull returns dims; the number that fills them, an argument unless it is noArg, must fit in type d.
func inferFull(c *Ctx, number int, d dtype.DType, dims []int64) error {
	for _, n := range dims {
		if n < 0 {
			return errs.New(errs.Runtime, "Trying to create tensor with negative dimension %d: %s", n, dimsText(dims))
		}
	}
	if number != noArg {
		if err := c.fits(number, d); err != nil {
			return err
		}
	}
	return c.Return(d, dims...)
}

func inferEye(c *Ctx, n, m int64, typ int) error {
	switch {
	case n < 0:
		return errs.New(errs.Runtime, "n must be greater or equal to 0, got %d", n)
	case m < 0:
		return errs.New(errs.Runtime, "m must be greater or equal to 0, got %d", m)
	}
	return c.Return(c.typeOr(typ, c.DefaultFloat), n, m)
}

func lowerEye(l *Lowering) {
	o := l.Out(0)
	l.Return(l.Convert(onDiagonal(l.B, o.Dims, 0, 1, 0), o.DType))
}

// onDiagonal is where j − i = offset for the places i of dimension dim1 and j of dim2.
func onDiagonal(b *stablehlo.Builder, dims []int64, dim1, dim2 int, offset int64) value {
	d := placeType(max(dims[dim1], dims[dim2]) + max(offset, -offset))
	i, j := b.Iota(shape.Of(d, dims), int64(dim1)), b.Iota(shape.Of(d, dims), int64(dim2))
	if offset != 0 {
		i = b.Add(i, b.SplatLike(i, stablehlo.Int(offset)))
	}
	return b.Compare(i, j, stablehlo.EQ)
}

// onDiagonalAt is onDiagonal for an offset that is a value.
func onDiagonalAt(b *stablehlo.Builder, dims []int64, dim1, dim2 int, offset value) value {
	s := shape.Of(offset.DType(), dims)
	return b.Compare(b.Add(b.Iota(s, int64(dim1)), b.Broadcast(offset, dims)), b.Iota(s, int64(dim2)), stablehlo.EQ)
}

// rangeRows count. Their length depends on the numbers, which are part of the program.
var rangeRows = []Row{
	{Name: "arange", Schema: "(Scalar end, " + options, Static: []int{0}, Flat: true,
		Infer: func(c *Ctx) error { return inferArange(c, noArg, 0, noArg, 1) },
		Lower: func(l *Lowering) { l.Return(l.counted(noArg, noArg)) }},
	{Name: "arange.start", Schema: "(Scalar start, Scalar end, " + options, Static: []int{0, 1}, Flat: true,
		Infer: func(c *Ctx) error { return inferArange(c, 0, 1, noArg, 2) },
		Lower: func(l *Lowering) { l.Return(l.counted(0, noArg)) }},
	{Name: "arange.start_step", Schema: "(Scalar start, Scalar end, Scalar step=1, " + options, Static: []int{0, 1, 2}, Flat: true,
		Infer: func(c *Ctx) error { return inferArange(c, 0, 1, 2, 3) },
		Lower: func(l *Lowering) { l.Return(l.counted(0, 2)) }},
	{Name: "range", Schema: "(Scalar start, Scalar end, " + options, Static: []int{0, 1}, Quiet: true, Flat: true,
		Infer: func(c *Ctx) error { return inferRange(c, noArg, 2) },
		Lower: func(l *Lowering) { l.Return(l.counted(0, noArg)) }},
	{Name: "range.step", Schema: "(Scalar start, Scalar end, Scalar step=1, " + options, Static: []int{0, 1, 2}, Quiet: true, Flat: true,
		Infer: func(c *Ctx) error { return inferRange(c, 2, 3) },
		Lower: func(l *Lowering) { l.Return(l.counted(0, 2)) }},
}

// noArg is the position of a number that a schema lacks.
const noArg = -1

// numberOr is the number at position i, none if it is noArg.
func numberOr(a *ir.Args, i int, none int64) ir.Number {
	if i != noArg {
		if n, ok := a.Number(i); ok {
			return n
		}
	}
	return ir.Number{Type: dtype.I64, I: none}
}

// checkSpan is torch's arange_check_bounds.
func checkSpan(start, end, step ir.Number) error {
	a, z, s := start.Float(), end.Float(), step.Float()
	switch {
	case s == 0 || math.IsNaN(s):
		return errs.New(errs.Runtime, "step must be nonzero")
	case math.IsInf(a, 0) || math.IsNaN(a) || math.IsInf(z, 0) || math.IsNaN(z):
		return errs.New(errs.Runtime, "unsupported range: %v -> %v", cppFloat(a), cppFloat(z))
	case s > 0 && z < a || s < 0 && z > a:
		return errs.New(errs.Runtime, "upper bound and lower bound inconsistent with step sign")
	}
	return nil
}

// cppFloat prints a float as a C++ stream does.
func cppFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return ir.Number{Type: dtype.F64, F: f}.String()
}

func inferArange(c *Ctx, start, end, step, typ int) error {
	from, to, by := numberOr(&c.Args, start, 0), numberOr(&c.Args, end, 0), numberOr(&c.Args, step, 1)
	whole := from.Type.IsIntegral() && to.Type.IsIntegral() && by.Type.IsIntegral()
	d := c.Type(typ)
	if d == dtype.Invalid {
		if d = c.DefaultFloat; whole {
			d = dtype.I64
		}
	}
	if err := checkSpan(from, to, by); err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() {
		return notFor("arange_cpu", d)
	}
	n := int64(math.Ceil((to.Float() - from.Float()) / by.Float()))
	if whole {
		n = (to.I - from.I + by.I - sign64(by.I)) / by.I
	}
	return c.Return(d, n)
}

func sign64(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}

// inferRange is the shape rule of the old torch.range, which includes its end.
func inferRange(c *Ctx, step, typ int) error {
	from, to, by := numberOr(&c.Args, 0, 0), numberOr(&c.Args, 1, 0), numberOr(&c.Args, step, 1)
	d := c.typeOr(typ, c.DefaultFloat)
	if err := checkSpan(from, to, by); err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() {
		return notFor("range_cpu", d)
	}
	if d == dtype.I64 {
		return c.Return(d, (to.Int()-from.Int())/by.Int()+1)
	}
	return c.Return(d, int64((to.Float()-from.Float())/by.Float())+1)
}

// counted is start + i·step. Floats are computed in f64, as torch does, unless f32 is exact.
func (l *Lowering) counted(start, step int) value {
	b, o := l.B, l.Out(0)
	from, by := numberOr(&l.Args, start, 0), numberOr(&l.Args, step, 1)
	d := dtype.I64
	switch last := math.Abs(from.Float()) + math.Abs(by.Float())*float64(o.Dims[0]); {
	case o.DType.IsInt():
		if last < math.MaxInt32 {
			d = dtype.I32
		}
	case last < 1<<24 && from.Float() == math.Trunc(from.Float()) && by.Float() == math.Trunc(by.Float()):
		d = dtype.F32
	default:
		d = dtype.F64
	}
	v := b.Arange(d, o.Dims[0])
	if by.Float() != 1 {
		v = b.Multiply(v, b.Broadcast(Constant(b, by, d), o.Dims))
	}
	if from.Float() != 0 {
		v = b.Add(v, b.Broadcast(Constant(b, from, d), o.Dims))
	}
	return l.Convert(v, o.DType)
}
