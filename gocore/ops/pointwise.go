package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

type value = stablehlo.Value

// pointwiseRows are the elementwise ops whose value at a point depends only on the operands there.
var pointwiseRows = join(unaryRows, floatRows, arithmeticRows, powerRows, integerRows, extremeRows, compareRows, selectRows, copyRows)

const (
	unarySchema  = "(Tensor self) -> Tensor"
	binarySchema = "(Tensor self, Tensor other) -> Tensor"
	scalarSchema = "(Tensor self, Scalar other) -> Tensor"
	baseSchema   = "(Scalar self, Tensor other) -> Tensor"
	alphaSchema  = "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
)

type (
	fun1 = func(b *stablehlo.Builder, x value) value
	fun2 = func(b *stablehlo.Builder, x, y value) value
)

// unary keeps the type of its operand, one of t, in which it computes.
func unary(name, kernel string, t types, f fun1) Row {
	return Row{Name: name, Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !t.has(s.DType) {
				return notFor(kernel, s.DType)
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) { l.Return(f(l.B, l.In(0))) }}
}

// unaryFloat computes in a float type: integers become the default float, f16 and bf16 compute in f32.
func unaryFloat(name, kernel string, t types, f fun1) Row {
	return Row{Name: name, Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if s.DType.IsIntegral() {
				s = s.With(c.DefaultFloat)
			}
			if !t.has(s.DType) {
				return notFor(kernel, s.DType)
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			x := f(l.B, l.As(0, d.Accumulate()))
			l.Return(l.Convert(x, d))
		}}
}

// predicate maps its operand to bool.
func predicate(name, kernel string, t types, f fun1) Row {
	return Row{Name: name, Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !t.has(s.DType) {
				return notFor(kernel, s.DType)
			}
			return c.ReturnLike(s.With(dtype.Bool))
		},
		Lower: func(l *Lowering) { l.Return(f(l.B, l.In(0))) }}
}

// promoted is the shape rule of an op that computes in the promoted type of its first n arguments.
func promoted(n int) func(c *Ctx) error {
	args := []int{0, 1, 2, 3}[:n]
	return func(c *Ctx) error {
		d, err := c.Promote(args...)
		if err != nil {
			return err
		}
		dims, err := c.Broadcast(args...)
		if err != nil {
			return err
		}
		return c.Return(d, dims...)
	}
}

// promotedFloat is promoted with integers computing in the default float type.
func promotedFloat(n int) func(c *Ctx) error {
	args := []int{0, 1, 2, 3}[:n]
	return func(c *Ctx) error {
		d, err := c.Promote(args...)
		if err != nil {
			return err
		}
		if d.IsIntegral() {
			d = c.DefaultFloat
		}
		dims, err := c.Broadcast(args...)
		if err != nil {
			return err
		}
		return c.Return(d, dims...)
	}
}

// compared is the shape rule of an op that computes in the promoted type, one of t, and returns bool.
func compared(kernel string, t types) func(c *Ctx) error {
	return func(c *Ctx) error {
		d, err := c.Promote(0, 1)
		if err != nil {
			return err
		}
		if !t.has(d) {
			return notFor(kernel, d)
		}
		dims, err := c.Broadcast(0, 1)
		if err != nil {
			return err
		}
		return c.Return(dtype.Bool, dims...)
	}
}

// operands are arguments 0 and 1 in the compute type of the result, broadcast to its dimensions.
func (l *Lowering) operands() (x, y value, d dtype.DType) {
	o := l.Out(0)
	d = o.DType.Accumulate()
	return l.Full(0, d, o.Dims), l.Full(1, d, o.Dims), o.DType
}

// binary computes in the type of the result (f16 and bf16 in f32).
func binary(name, schema string, infer func(c *Ctx) error, f fun2) Row {
	return Row{Name: name, Schema: schema, Infer: infer,
		Lower: func(l *Lowering) {
			x, y, d := l.operands()
			l.Return(l.Convert(f(l.B, x, y), d))
		}}
}

// binaryPair is the Tensor and the Scalar overload of one op.
func binaryPair(name string, infer func(c *Ctx) error, f fun2) []Row {
	return []Row{
		binary(name+".Tensor", binarySchema, infer, f),
		binary(name+".Scalar", scalarSchema, infer, f),
	}
}

// operator is such a pair with a shortcut, which calls the Tensor overload for a number too.
func operator(name, shortcut string, infer func(c *Ctx) error, f fun2) []Row {
	rows := binaryPair(name, infer, f)
	rows[0].Shortcut = &Shortcut{Names: shortcut, Number: rows[0].Name}
	return rows
}

// refuse makes the row raise an error of torch's own wording if one of its first two operands is of a
// type in t.
func (r Row) refuse(t types, kind errs.Kind, message string) Row {
	infer := r.Infer
	r.Infer = func(c *Ctx) error {
		for i := range 2 {
			if s := c.In(i); s != nil && t.has(s.DType) {
				return errs.New(kind, "%s", message)
			}
		}
		return infer(c)
	}
	return r
}

// isLiteral reports that argument i is part of the program and not one of its arguments.
func (l *Lowering) isLiteral(i int) bool { return l.Graph.At(l.ID(i)).Flags&ir.Param == 0 }

// complexOfParts applies a function of reals to both parts of a complex x, to a real x itself.
func complexOfParts(b *stablehlo.Builder, x value, f func(x value) value) value {
	if x.DType().IsComplex() {
		return b.Complex(f(b.Real(x)), f(b.Imag(x)))
	}
	return f(x)
}

// scaleBy is c·x for a real constant c, exact for the parts of complex numbers.
func scaleBy(b *stablehlo.Builder, x value, c float64) value {
	return complexOfParts(b, x, func(x value) value { return b.Multiply(x, b.ConstLike(x, c)) })
}
