package ops

import (
	"fmt"
	"math"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// clippedRows are the piecewise linear activations.
var clippedRows = []Row{
	activation("threshold", "(Tensor self, Scalar threshold, Scalar value) -> Tensor", "threshold_cpu", ints|floats,
		func(l *Lowering, x value) value {
			return l.B.Select(l.B.Compare(x, l.Like(1, x), stablehlo.LE), l.Like(2, x), x)
		}),
	activationGrad("threshold_backward", "(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", "threshold_cpu", ints|floats,
		func(l *Lowering, grad, x value) value {
			return l.B.Select(l.B.Compare(x, l.Like(2, x), stablehlo.LE), l.B.ConstLike(grad, 0), grad)
		}),
	{Name: "hardtanh", Schema: "(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
		Infer: inferHardtanh,
		Lower: func(l *Lowering) {
			x := l.In(0)
			x = larger(l.B, x, l.bound(1, x.DType(), x.Dims()))
			l.Return(smaller(l.B, x, l.bound(2, x.DType(), x.Dims())))
		}},
	activationGrad("hardtanh_backward", "(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
		"hardshrink_backward_cpu", floats,
		func(l *Lowering, grad, x value) value {
			b := l.B
			cut := b.Or(b.Compare(x, l.Like(2, x), stablehlo.LE), b.Compare(x, l.Like(3, x), stablehlo.GE))
			return b.Select(cut, b.ConstLike(grad, 0), grad)
		}),
	activation("hardswish", unarySchema, "hardswish_cpu", floats, func(l *Lowering, x value) value {
		return l.B.Divide(l.B.Multiply(x, relu6(l.B, l.B.Add(x, l.B.ConstLike(x, 3)))), l.B.ConstLike(x, 6))
	}),
	activationGrad("hardswish_backward", gradSchema, "hardswish_backward_cpu", floats, func(l *Lowering, grad, x value) value {
		b := l.B
		slope := b.Add(b.Divide(x, b.ConstLike(x, 3)), b.ConstLike(x, 0.5))
		inside := b.Select(b.Compare(x, b.ConstLike(x, 3), stablehlo.LT), b.Multiply(grad, slope), grad)
		return b.Select(b.Compare(x, b.ConstLike(x, -3), stablehlo.LE), b.ConstLike(grad, 0), inside)
	}),
	activation("hardsigmoid", unarySchema, "hardsigmoid_cpu", floats, func(l *Lowering, x value) value {
		return l.B.Divide(relu6(l.B, l.B.Add(x, l.B.ConstLike(x, 3))), l.B.ConstLike(x, 6))
	}),
	activationGrad("hardsigmoid_backward", gradSchema, "hardsigmoid_backward", floats, func(l *Lowering, grad, x value) value {
		b := l.B
		inside := b.And(b.Compare(x, b.ConstLike(x, -3), stablehlo.GT), b.Compare(x, b.ConstLike(x, 3), stablehlo.LT))
		return b.Select(inside, b.Multiply(grad, b.ConstLike(grad, 1./6)), b.ConstLike(grad, 0))
	}),
	activation("leaky_relu", "(Tensor self, Scalar negative_slope=0.01) -> Tensor", "leaky_relu_cpu", floats,
		func(l *Lowering, x value) value { return leaky(l.B, x, x, l.Like(1, x)) }),
	activationGrad("leaky_relu_backward", "(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
		"leaky_relu_backward_cpu", floats,
		func(l *Lowering, grad, x value) value { return leaky(l.B, x, grad, l.Like(2, x)) },
	).checked(func(c *Ctx) error {
		if n, ok := c.Number(2); ok && c.Bool(3) && n.Float() < 0 {
			return errs.New(errs.Runtime, "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is caused by calling in-place forward function with a negative slope, please call out-of-place version instead. File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward calculation with negative slope")
		}
		return nil
	}),
	activation("hardshrink", "(Tensor self, Scalar lambd=0.5) -> Tensor", "hardshrink_cpu", floats,
		func(l *Lowering, x value) value { return shrink(l.B, x, x, l.Like(1, x)) }).exactOut(),
	activationGrad("hardshrink_backward", "(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", "shrink_backward_cpu", floats,
		func(l *Lowering, grad, x value) value { return shrink(l.B, x, grad, l.Like(2, x)) }),
	activation("softshrink", "(Tensor self, Scalar lambd=0.5) -> Tensor", "softshrink_check", floats,
		func(l *Lowering, x value) value {
			b := l.B
			by := l.Like(1, x)
			// x·0 rather than 0 keeps NaN
			inside := b.Multiply(x, b.ConstLike(x, 0))
			below := b.Select(b.Compare(x, b.Negate(by), stablehlo.LT), b.Add(x, by), inside)
			return b.Select(b.Compare(x, by, stablehlo.GT), b.Subtract(x, by), below)
		}).exactOut().checked(checkLambda),
	activationGrad("softshrink_backward", "(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor", "shrink_backward_cpu", floats,
		func(l *Lowering, grad, x value) value { return shrink(l.B, x, grad, l.Like(2, x)) }),
	{Name: "logit", Schema: "(Tensor self, float? eps=None) -> Tensor",
		Infer: implemented("logit_cpu", floats, promotedFloat(1)), Lower: lowerLogit},
	activationGrad("logit_backward", "(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", "logit_backward_cpu", floats, lowerLogitBackward),
}

// relu6 limits x to [0, 6]; NaN stays.
func relu6(b *stablehlo.Builder, x value) value {
	return b.Minimum(b.Maximum(x, b.ConstLike(x, 0)), b.ConstLike(x, 6))
}

// leaky is v where x > 0 and slope·v elsewhere.
func leaky(b *stablehlo.Builder, x, v, slope value) value {
	return b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.GT), v, b.Multiply(v, slope))
}

// shrink is 0 where −by ≤ x ≤ by and v elsewhere.
func shrink(b *stablehlo.Builder, x, v, by value) value {
	inside := b.And(b.Compare(x, b.Negate(by), stablehlo.GE), b.Compare(x, by, stablehlo.LE))
	return b.Select(inside, b.ConstLike(v, 0), v)
}

func checkLambda(c *Ctx) error {
	d := c.In(0).DType
	if n, ok := c.Number(1); ok && d.IsFloat() && !(n.Float() >= 0 && n.Float() <= highest(d)) {
		found := strings.TrimPrefix(strings.ToLower(fmt.Sprintf("%.6g", n.Float())), "+")
		return errs.New(errs.Runtime, "lambda must be in range [0, %.6g] for input dtype %s, but found %s", highest(d), d.C10(), found)
	}
	return nil
}

func inferHardtanh(c *Ctx) error {
	s := c.In(0)
	switch {
	case s.DType == dtype.Bool:
		return errs.New(errs.NotImpl, "Bool inputs not supported for hardtanh")
	case s.DType.IsComplex():
		return errs.New(errs.NotImpl, "clamp is not supported for complex types")
	case s.DType.IsF8():
		return notFor("clamp_scalar_cpu", s.DType)
	}
	return c.ReturnLike(s)
}

// lowerLogit is log(x/(1−x)), x first limited to [eps, 1−eps] if there is an eps.
func lowerLogit(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	x := l.As(0, d.Accumulate())
	unit := b.ConstLike(x, 1)
	if eps := l.FloatOr(1, -1); eps >= 0 {
		// below eps first, even where eps is above 1−eps
		lo := b.ConstLike(x, eps)
		hi := b.Subtract(unit, lo)
		high := b.Select(b.Compare(x, hi, stablehlo.GT), hi, x)
		x = b.Select(b.Compare(x, lo, stablehlo.LT), lo, high)
	}
	l.Return(l.Convert(b.Log(b.Divide(x, b.Subtract(unit, x))), d))
}

// lowerLogitBackward is grad/(x(1−x)); outside the domain 0 if there is an eps and NaN if not.
func lowerLogitBackward(l *Lowering, grad, x value) value {
	b := l.B
	none, unit := b.ConstLike(x, 0), b.ConstLike(x, 1)
	lo, hi, out := none, unit, b.ConstLike(x, math.NaN())
	if eps := l.FloatOr(2, -1); eps >= 0 {
		lo = b.ConstLike(x, eps)
		hi, out = b.Subtract(unit, lo), none
	}
	edge := b.Or(b.Compare(x, none, stablehlo.EQ), b.Compare(x, unit, stablehlo.EQ))
	g := b.Divide(grad, b.Multiply(x, b.Subtract(unit, x)))
	g = b.Select(edge, b.Multiply(grad, b.ConstLike(x, math.Inf(1))), g)
	outside := b.Or(b.Compare(x, lo, stablehlo.LT), b.Compare(x, hi, stablehlo.GT))
	return b.Select(outside, out, g)
}
