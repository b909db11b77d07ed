package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// activationRows are activations and their gradients.
var activationRows = join(smoothRows, clippedRows, gatedRows)

const gradSchema = "(Tensor grad_output, Tensor self) -> Tensor"

// activation is an op on one tensor whose torch kernel, named in its errors, takes the types t.
func activation(name, schema, kernel string, t types, f func(l *Lowering, x value) value) Row {
	return Row{Name: name, Schema: schema, Infer: implemented(kernel, t, promoted(1)),
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			l.Return(l.Convert(f(l, l.As(0, d.Accumulate())), d))
		}}
}

// activationGrad is the gradient of an activation; its first two arguments are tensors, grad and x.
func activationGrad(name, schema, kernel string, t types, f func(l *Lowering, grad, x value) value) Row {
	return Row{Name: name, Schema: schema, Infer: implemented(kernel, t, promoted(2)),
		Lower: func(l *Lowering) {
			grad, x, d := l.operands()
			l.Return(l.Convert(f(l, grad, x), d))
		}}
}

// smoothRows are the activations without a kink, or with only one.
var smoothRows = []Row{
	activation("gelu", "(Tensor self, *, str approximate=\"none\") -> Tensor", "GeluKernelImpl", floats, lowerGelu).exactOut().checked(checkGelu(1)),
	activationGrad("gelu_backward", "(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
		"GeluBackwardKernelImpl", floats, lowerGeluBackward).checked(checkGelu(2)),
	activation("silu", unarySchema, "silu_cpu", floats|complexes, func(l *Lowering, x value) value {
		return l.B.Multiply(x, l.B.Logistic(x))
	}),
	activation("mish", unarySchema, "mish_cpu", floats, func(l *Lowering, x value) value {
		return l.B.Multiply(x, l.B.Tanh(l.B.LogPlusOne(l.B.Exponential(x))))
	}),
	activationGrad("tanh_backward", "(Tensor grad_output, Tensor output) -> Tensor", "tanh_backward_cpu", floats|complexes,
		func(l *Lowering, grad, y value) value {
			b := l.B
			return b.Multiply(grad, conj(b, b.Subtract(b.ConstLike(y, 1), b.Multiply(y, y))))
		}),
	activationGrad("sigmoid_backward", "(Tensor grad_output, Tensor output) -> Tensor", "sigmoid_backward_cpu", floats|complexes,
		func(l *Lowering, grad, y value) value {
			b := l.B
			return b.Multiply(grad, conj(b, b.Multiply(b.Subtract(b.ConstLike(y, 1), y), y)))
		}),
	activation("elu", "(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", "elu_cpu", floats, lowerElu),
	{Name: "elu_backward", Schema: "(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor",
		Infer: implemented("elu_backward_cpu", floats, inferEluBackward), Lower: lowerEluBackward},
	activation("softplus", "(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", "softplus_cpu", floats, lowerSoftplus).exactOut(),
	activationGrad("softplus_backward", "(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
		"softplus_backward_cpu", floats, lowerSoftplusBackward),
	{Name: "log_sigmoid_forward", Schema: "(Tensor self) -> (Tensor output, Tensor buffer)", ExactOut: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !floats.has(s.DType) {
				return notFor("log_sigmoid_cpu", s.DType)
			}
			_ = c.ReturnLike(s)
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Out(0).DType
			x := l.As(0, d.Accumulate())
			z := b.Exponential(b.Negate(b.Abs(x)))
			y := b.Subtract(b.Minimum(x, b.ConstLike(x, 0)), b.LogPlusOne(z))
			l.Return(l.Convert(y, d), l.Convert(z, d))
		}},
	{Name: "log_sigmoid_backward", Schema: "(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
		Infer: implemented("log_sigmoid_backward_cpu", floats, promoted(3)), Lower: lowerLogSigmoidBackward},
}

// conj is the complex conjugate, x itself if it is real.
func conj(b *stablehlo.Builder, x value) value {
	if x.DType().IsComplex() {
		return b.Conj(x)
	}
	return x
}

// checkGelu is a check of the approximate argument at position i.
func checkGelu(i int) func(c *Ctx) error {
	return func(c *Ctx) error {
		if s := c.Text(i); s != "none" && s != "tanh" && c.Has(i) {
			return errs.New(errs.Runtime, "approximate argument must be either none or tanh.")
		}
		return nil
	}
}

// The constants of the tanh form of gelu: √(2/π) and that of the cubic term.
const (
	geluBeta  = math.Sqrt2 * 2 / math.SqrtPi * 0.5
	geluKappa = 0.044715
)

// geluTanh is tanh(β(x + κx³)), and x².
func geluTanh(b *stablehlo.Builder, x value) (t, square value) {
	square = b.Multiply(x, x)
	inner := b.Add(x, b.Multiply(b.ConstLike(x, geluKappa), b.Multiply(square, x)))
	return b.Tanh(b.Multiply(b.ConstLike(x, geluBeta), inner)), square
}

func lowerGelu(l *Lowering, x value) value {
	b := l.B
	unit, half := b.ConstLike(x, 1), b.Multiply(b.ConstLike(x, 0.5), x)
	if l.Text(1) == "tanh" {
		t, _ := geluTanh(b, x)
		return b.Multiply(half, b.Add(unit, t))
	}
	return b.Multiply(half, b.Add(unit, b.Erf(b.Multiply(x, b.ConstLike(x, math.Sqrt2/2)))))
}

func lowerGeluBackward(l *Lowering, grad, x value) value {
	b := l.B
	unit, half := b.ConstLike(x, 1), b.ConstLike(x, 0.5)
	if l.Text(2) == "tanh" {
		t, square := geluTanh(b, x)
		left := b.Multiply(half, b.Add(unit, t))
		slope := b.Multiply(b.ConstLike(x, geluBeta), b.Add(unit, b.Multiply(b.ConstLike(x, 3*geluKappa), square)))
		right := b.Multiply(b.Multiply(b.Multiply(half, x), b.Subtract(unit, b.Multiply(t, t))), slope)
		return b.Multiply(grad, b.Add(left, right))
	}
	cdf := b.Multiply(half, b.Add(unit, b.Erf(b.Multiply(x, b.ConstLike(x, math.Sqrt2/2)))))
	bell := b.Exponential(b.Multiply(b.Multiply(x, x), b.ConstLike(x, -0.5)))
	pdf := b.Multiply(bell, b.ConstLike(x, math.Sqrt2/2/math.SqrtPi))
	return b.Multiply(grad, b.Add(cdf, b.Multiply(x, pdf)))
}

// lowerElu follows elu_kernel: scale·x for x ≥ 0, alpha·scale·expm1(input_scale·x) below.
func lowerElu(l *Lowering, x value) value {
	b := l.B
	alpha, scale, input := l.Like(1, x), l.Like(2, x), l.Like(3, x)
	below := b.Multiply(b.ExponentialMinusOne(b.Multiply(x, input)), b.Multiply(alpha, scale))
	return b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.LT), below, b.Multiply(x, scale))
}

func inferEluBackward(c *Ctx) error {
	if n, ok := c.Number(1); ok && c.Bool(4) && n.Float() < 0 {
		return errs.New(errs.Runtime, "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by calling in-place forward function with a negative slope, please call out-of-place version instead.")
	}
	d, err := c.Promote(0, 5)
	if err != nil {
		return err
	}
	dims, err := c.Broadcast(0, 5)
	if err != nil {
		return err
	}
	return c.Return(d, dims...)
}

func lowerEluBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	grad, x := l.Full(0, d, o.Dims), l.Full(5, d, o.Dims)
	alpha, scale, input := l.Like(1, x), l.Like(2, x), l.Like(3, x)
	coef := b.Multiply(alpha, scale)
	var slope value
	if l.Bool(4) {
		slope = b.Multiply(input, b.Add(x, coef))
	} else {
		slope = b.Multiply(b.Multiply(input, coef), b.Exponential(b.Multiply(x, input)))
	}
	g := b.Multiply(grad, b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.LE), slope, scale))
	l.Return(l.Convert(g, o.DType))
}

func lowerSoftplus(l *Lowering, x value) value {
	b := l.B
	beta := l.Like(1, x)
	scaled := b.Multiply(x, beta)
	y := b.Divide(b.LogPlusOne(b.Exponential(scaled)), beta)
	return b.Select(b.Compare(scaled, l.Like(2, x), stablehlo.GT), x, y)
}

func lowerSoftplusBackward(l *Lowering, grad, x value) value {
	b := l.B
	scaled := b.Multiply(x, l.Like(2, x))
	z := b.Exponential(scaled)
	g := b.Divide(b.Multiply(grad, z), b.Add(z, b.ConstLike(z, 1)))
	return b.Select(b.Compare(scaled, l.Like(3, x), stablehlo.GT), grad, g)
}

// lowerLogSigmoidBackward uses buffer = exp(−|x|), kept by the forward op: the slope is 1 − z/(1+z)
// below zero and z/(1+z) above.
func lowerLogSigmoidBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	grad, x, z := l.Full(0, d, o.Dims), l.Full(1, d, o.Dims), l.Full(2, d, o.Dims)
	unit := b.ConstLike(z, 1)
	p := b.Divide(z, b.Add(unit, z))
	slope := b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.LT), b.Subtract(unit, p), p)
	l.Return(l.Convert(b.Multiply(grad, slope), o.DType))
}
