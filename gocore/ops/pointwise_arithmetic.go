package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const alphaScalarSchema = "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"

// arithmeticRows are the four operations, remainders and the fused forms with a factor.
var arithmeticRows = join(
	[]Row{
		{Name: "add.Tensor", Shortcut: &Shortcut{Names: "add __add__ __radd__ add_ __iadd__", Number: "add.Tensor"}, Schema: alphaSchema, Infer: inferSum, Lower: lowerAdd},
		{Name: "add.Scalar", Schema: alphaScalarSchema, Infer: inferSum, Lower: lowerAdd},
		{Name: "sub.Tensor", Shortcut: &Shortcut{Names: "sub __sub__ sub_ __isub__", Number: "sub.Tensor"}, Schema: alphaSchema, Infer: noBool(inferSum), Lower: lowerSub},
		{Name: "sub.Scalar", Schema: alphaScalarSchema, Infer: noBool(inferSum), Lower: lowerSub},
		{Name: "rsub.Tensor", Schema: alphaSchema, Infer: noBool(inferSum), Lower: lowerRsub},
		{Name: "rsub.Scalar", Schema: alphaScalarSchema, Infer: noBool(inferSum), Lower: lowerRsub},
		{Name: "div.Tensor_mode", Schema: "(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", Infer: divMode, Lower: lowerDivMode},
		{Name: "div.Scalar_mode", Schema: "(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", Infer: divMode, Lower: lowerDivMode},
		binary("floor_divide", binarySchema, inferQuotient("div_floor_cpu"), floorDivide),
		binary("floor_divide.Scalar", scalarSchema, inferQuotient("div_floor_cpu"), floorDivide),
		binary("remainder.Scalar_Tensor", baseSchema, inferQuotient("remainder_cpu"), remainder).unsafe(),
		addc("addcmul", implemented("addcmul_cpu_out", numbers, promoted(3)), mul),
		addc("addcdiv", inferAddcdiv, (*stablehlo.Builder).Divide),
		{Name: "lerp.Scalar", Schema: "(Tensor self, Tensor end, Scalar weight) -> Tensor",
			Infer: inferLerp(2, "lerp_kernel_scalar"), Lower: lowerLerp},
		{Name: "lerp.Tensor", Schema: "(Tensor self, Tensor end, Tensor weight) -> Tensor",
			Infer: inferLerp(3, "lerp_kernel_tensor"), Lower: lowerLerp},
	},
	operator("mul", "mul __mul__ __rmul__ mul_ __imul__", promoted(2), mul),
	operator("div", "div __truediv__ div_ __idiv__", implemented("div_cpu", floats|complexes, promotedFloat(2)), (*stablehlo.Builder).Divide),
	binaryPair("remainder", inferQuotient("remainder_cpu"), remainder),
	binaryPair("fmod", inferQuotient("fmod_cpu"), fmod),
)

// noBool refuses bool operands with torch's message for subtraction.
func noBool(infer func(c *Ctx) error) func(c *Ctx) error {
	return func(c *Ctx) error {
		a, b := c.In(0).DType == dtype.Bool, c.In(1).DType == dtype.Bool
		switch {
		case a && b:
			return errs.New(errs.NotImpl, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
		case a || b:
			return errs.New(errs.NotImpl, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
		}
		return infer(c)
	}
}

var inferSummands = implemented("add_stub", bools|numbers, promoted(2))

// inferSum is the rule of add and sub: torch's alpha_check holds alpha against the result type.
func inferSum(c *Ctx) error {
	if err := inferSummands(c); err != nil {
		return err
	}
	n, ok := c.Number(2)
	if !ok {
		return nil
	}
	d := c.outs[0].DType
	switch {
	case n.Type == dtype.Bool && d != dtype.Bool:
		return errs.New(errs.Runtime, "Boolean alpha only supported for Boolean results.")
	case d.IsIntegral() && !n.Type.IsIntegral():
		return errs.New(errs.Runtime, "For integral input tensors, argument alpha must not be a floating point number.")
	case !d.IsComplex() && n.Type.IsComplex():
		return errs.New(errs.Runtime, "For non-complex input tensors, argument alpha must not be a complex number.")
	}
	return nil
}

// scaled multiplies y by argument i unless that is the literal 1.
func (l *Lowering) scaled(y value, i int) value {
	if n, ok := l.Number(i); ok && l.isLiteral(i) && n.Float() == 1 && n.Im == 0 {
		return y
	}
	return mul(l.B, l.Like(i, y), y)
}

func lowerAdd(l *Lowering) {
	x, y, d := l.operands()
	l.Return(l.Convert(add(l.B, x, l.scaled(y, 2)), d))
}

func lowerSub(l *Lowering) {
	x, y, d := l.operands()
	l.Return(l.Convert(l.B.Subtract(x, l.scaled(y, 2)), d))
}

func lowerRsub(l *Lowering) {
	x, y, d := l.operands()
	l.Return(l.Convert(l.B.Subtract(y, l.scaled(x, 2)), d))
}

// add is + with torch's meaning for bool, logical or.
func add(b *stablehlo.Builder, x, y value) value {
	if x.DType() == dtype.Bool {
		return b.Or(x, y)
	}
	return b.Add(x, y)
}

// mul is × with torch's meaning for bool, logical and.
func mul(b *stablehlo.Builder, x, y value) value {
	if x.DType() == dtype.Bool {
		return b.And(x, y)
	}
	return b.Multiply(x, y)
}

// differ is true where exactly one of x and y is negative.
func differ(b *stablehlo.Builder, x, y value) value {
	none := b.ConstLike(x, 0)
	return b.Compare(b.Compare(x, none, stablehlo.LT), b.Compare(y, none, stablehlo.LT), stablehlo.NE)
}

// inferQuotient is the rule of divisions that stay in their type. Integers have no quotient by the number
// 0, unless there are none; that a tensor holds a 0 is not known here, and gives an unspecified value.
func inferQuotient(kernel string) func(c *Ctx) error {
	infer := implemented(kernel, ints|floats, promoted(2))
	return func(c *Ctx) error {
		if err := infer(c); err != nil {
			return err
		}
		if n, ok := c.Number(1); ok && c.outs[0].DType.IsInt() && c.outs[0].Numel() != 0 && n.Float() == 0 {
			return errs.New(errs.Runtime, "ZeroDivisionError")
		}
		return nil
	}
}

// divisor is y where an integer may be divided by it: 1 in place of 0. StableHLO's passes divide constants by each
// other, and a 0 among them would end the process.
func divisor(b *stablehlo.Builder, y value) value {
	if !y.DType().IsInt() {
		return y
	}
	return b.Select(b.Compare(y, b.ConstLike(y, 0), stablehlo.EQ), b.ConstLike(y, 1), y)
}

// truncDivide rounds integers towards zero.
func truncDivide(b *stablehlo.Builder, x, y value) value { return b.Divide(x, divisor(b, y)) }

// fmod has the sign of the dividend, as C's %.
func fmod(b *stablehlo.Builder, x, y value) value { return b.Remainder(x, divisor(b, y)) }

// remainder has the sign of the divisor, as Python's %.
func remainder(b *stablehlo.Builder, x, y value) value {
	r := fmod(b, x, y)
	if x.DType().IsUnsigned() {
		return r
	}
	inexact := b.Compare(r, b.ConstLike(r, 0), stablehlo.NE)
	return b.Select(b.And(inexact, differ(b, r, y)), b.Add(r, y), r)
}

// floorDivide rounds towards minus infinity.
func floorDivide(b *stablehlo.Builder, x, y value) value {
	switch d := x.DType(); {
	case d.IsFloat():
		return floorDivideFloat(b, x, y)
	case d.IsUnsigned():
		return truncDivide(b, x, y)
	}
	q := truncDivide(b, x, y)
	inexact := b.Compare(fmod(b, x, y), b.ConstLike(x, 0), stablehlo.NE)
	return b.Select(b.And(inexact, differ(b, x, y)), b.Subtract(q, b.ConstLike(q, 1)), q)
}

// floorDivideFloat follows c10::div_floor_floating, which corrects the quotient so that it agrees with
// remainder.
func floorDivideFloat(b *stablehlo.Builder, x, y value) value {
	none, unit := b.ConstLike(x, 0), b.ConstLike(x, 1)
	mod := b.Remainder(x, y)
	q := b.Divide(b.Subtract(x, mod), y)
	q = b.Select(b.And(b.Compare(mod, none, stablehlo.NE), differ(b, mod, y)), b.Subtract(q, unit), q)
	fl := b.Floor(q)
	fl = b.Select(b.Compare(b.Subtract(q, fl), b.ConstLike(x, 0.5), stablehlo.GT), b.Add(fl, unit), fl)
	quotient := b.Divide(x, y)
	signed := b.Select(signBit(b, quotient), b.ConstLike(x, math.Copysign(0, -1)), none)
	fl = b.Select(b.Compare(q, none, stablehlo.EQ), signed, fl)
	return b.Select(b.Compare(y, none, stablehlo.EQ), quotient, fl)
}

func divMode(c *Ctx) error {
	switch mode := c.Text(2); {
	case !c.Has(2):
		return implemented("div_cpu", floats|complexes, promotedFloat(2))(c)
	case mode == "trunc" || mode == "floor":
		return inferQuotient("div_" + mode + "_cpu")(c)
	default:
		return errs.New(errs.Runtime, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode)
	}
}

func lowerDivMode(l *Lowering) {
	x, y, d := l.operands()
	var q value
	switch l.Text(2) {
	case "floor":
		q = floorDivide(l.B, x, y)
	case "trunc":
		q = wholeOr(trunc)(l.B, rounded(l.B, truncDivide(l.B, x, y), d))
	default:
		q = l.B.Divide(x, y)
	}
	l.Return(l.Convert(q, d))
}

// rounded is x, computed in f32 for a result of f16 or bf16, with the precision of that type. torch rounds so in the
// middle of a formula, and a discontinuous function may follow.
func rounded(b *stablehlo.Builder, x value, d dtype.DType) value {
	switch d {
	case dtype.F16:
		return b.ReducePrecision(x, 5, 10)
	case dtype.BF16:
		return b.ReducePrecision(x, 8, 7)
	}
	return x
}

func inferAddcdiv(c *Ctx) error {
	if c.In(1).DType.IsIntegral() && c.In(2).DType.IsIntegral() {
		return errs.New(errs.Runtime, "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.")
	}
	return implemented("addcdiv_cpu_out", numbers, promoted(3))(c)
}

// addc is self + value · f(tensor1, tensor2).
func addc(name string, infer func(c *Ctx) error, f fun2) Row {
	return Row{Name: name, Schema: "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
		Infer: func(c *Ctx) error {
			if err := infer(c); err != nil {
				return err
			}
			return c.fits(3, c.outs[0].DType)
		},
		Lower: func(l *Lowering) {
			o := l.Out(0)
			d := o.DType.Accumulate()
			x, t1, t2 := l.Full(0, d, o.Dims), l.Full(1, d, o.Dims), l.Full(2, d, o.Dims)
			l.Return(l.Convert(add(l.B, x, f(l.B, l.scaled(t1, 3), t2)), o.DType))
		}}
}

// inferLerp requires one type of self and end, and of a weight that is a tensor of dimensions.
func inferLerp(n int, kernel string) func(c *Ctx) error {
	broadcast := [...]int{0, 1, 2}
	return func(c *Ctx) error {
		self, end := c.In(0), c.In(1)
		if self.DType != end.DType {
			return errs.New(errs.Runtime, "expected dtype %s for `end` but got dtype %s", demangled(self.DType), demangled(end.DType))
		}
		if n == 3 {
			if w := c.In(2); w.DType != self.DType && len(w.Dims) > 0 {
				return errs.New(errs.Runtime, "expected dtype %s for `weight` but got dtype %s", demangled(self.DType), demangled(w.DType))
			}
		}
		if !(floats | complexes).has(self.DType) {
			return notFor(kernel, self.DType)
		}
		dims, err := c.Broadcast(broadcast[:n]...)
		if err != nil {
			return err
		}
		_ = c.Return(self.DType, dims...)
		return c.fits(2, self.DType)
	}
}

// lowerLerp follows at::native::lerp: the form is chosen by |weight| < ½.
func lowerLerp(l *Lowering) {
	o := l.Out(0)
	b, d := l.B, o.DType.Accumulate()
	x, end, w := l.Full(0, d, o.Dims), l.Full(1, d, o.Dims), l.Full(2, d, o.Dims)
	diff := b.Subtract(end, x)
	near := b.Add(x, b.Multiply(w, diff))
	far := b.Subtract(end, b.Multiply(diff, b.Subtract(b.ConstLike(w, 1), w)))
	size := b.Abs(w)
	small := b.Compare(size, b.ConstLike(size, 0.5), stablehlo.LT)
	l.Return(l.Convert(b.Select(small, near, far), o.DType))
}
