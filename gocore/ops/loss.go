package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// lossRows are losses and their gradients.
var lossRows = join(pairLossRows, entropyRows, nllRows, marginRows, ctcRows)

// The values of a reduction argument (at::Reduction).
const (
	reduceNone = iota
	reduceMean
	reduceSum
)

// pairLossRows are functions of the difference of input and target.
var pairLossRows = []Row{
	pairLoss("mse_loss", "mse_cpu", "(Tensor self, Tensor target, int reduction=1) -> Tensor", nil,
		func(l *Lowering, x, y value) value { return l.B.Square(l.B.Subtract(x, y)) }),
	pairLossBackward("mse_loss_backward", "(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
		func(l *Lowering, diff value) value { return l.B.Add(diff, diff) }),
	pairLoss("smooth_l1_loss", "smooth_l1_cpu", "(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", checkBeta, smoothL1),
	pairLossBackward("smooth_l1_loss_backward", "(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
		func(l *Lowering, diff value) value {
			b, beta := l.B, l.Float(4)
			inner := b.Divide(diff, b.ConstLike(diff, beta))
			low := b.Compare(diff, b.ConstLike(diff, -beta), stablehlo.LE)
			high := b.Compare(diff, b.ConstLike(diff, beta), stablehlo.GE)
			return b.Select(low, b.ConstLike(diff, -1), b.Select(high, b.ConstLike(diff, 1), inner))
		}),
	pairLoss("huber_loss", "huber_cpu", "(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", checkDelta, huber),
	pairLossBackward("huber_loss_backward", "(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
		func(l *Lowering, diff value) value {
			b, delta := l.B, l.Float(4)
			return b.Clamp(b.ConstLike(diff, -delta), diff, b.ConstLike(diff, delta))
		}),
}

// pairLoss is f(self, target), broadcast and reduced as argument 2 says.
func pairLoss(name, kernel, schema string, check func(c *Ctx) error, f func(l *Lowering, x, y value) value) Row {
	return Row{Name: name, Schema: schema, Strides: Iterated,
		Infer: func(c *Ctx) error {
			if check != nil {
				if err := check(c); err != nil {
					return err
				}
			}
			d, err := c.Promote(0, 1)
			if err != nil {
				return err
			}
			if !d.IsFloat() {
				return notFor(kernel, d)
			}
			dims, err := c.Broadcast(0, 1)
			if err != nil {
				return err
			}
			return c.lossResult(d, dims, 2)
		},
		Lower: func(l *Lowering) {
			x, y := l.pair(0, 1, l.Out(0).DType.Accumulate())
			l.Return(l.reduceLoss(f(l, x, y), 2))
		}}
}

// lossResult returns the elements of a loss, or their mean or sum.
func (c *Ctx) lossResult(d dtype.DType, dims []int64, reduction int) error {
	if c.Int(reduction) != reduceNone {
		dims = nil
	}
	return c.Return(d, dims...)
}

// reduceLoss reduces v as argument i says and gives it the type of result 0.
func (l *Lowering) reduceLoss(v value, i int) value {
	dims := allDims(v.Rank()).list()
	switch l.Int(i) {
	case reduceMean:
		v = average(l.B, v, dims)
	case reduceSum:
		v = addUp(l.B, v, dims)
	}
	return l.finish(0, v)
}

// pair is arguments i and j as type d, broadcast to each other.
func (l *Lowering) pair(i, j int, d dtype.DType) (x, y value) {
	x, y = l.As(i, d), l.As(j, d)
	dims := broadcastDims(x.Dims(), y.Dims())
	return l.B.Broadcast(x, dims), l.B.Broadcast(y, dims)
}

// broadcastDims is the common dimensions of two operands that the shape rule has accepted.
func broadcastDims(x, y []int64) []int64 {
	if len(x) < len(y) {
		x, y = y, x
	}
	dims := append([]int64(nil), x...)
	for i, n := range y {
		if k := len(x) - len(y) + i; dims[k] == 1 {
			dims[k] = n
		}
	}
	return dims
}

// pairLossBackward is the gradient by self: f(self − target) is the derivative of an element.
func pairLossBackward(name, schema string, f func(l *Lowering, diff value) value) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			dims, err := c.Broadcast(0, 1, 2)
			if err != nil {
				return err
			}
			return c.Return(c.In(1).DType, dims...)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType.Accumulate()
			x, y := l.pair(1, 2, d)
			l.Return(l.scaleGrad(f(l, l.B.Subtract(x, y)), 0, 3, l.Shape(1).Numel()))
		}}
}

// scaleGrad multiplies the derivative v of a loss by the incoming gradient (argument grad), divided by n
// if the loss was a mean.
func (l *Lowering) scaleGrad(v value, grad, reduction int, n int64) value {
	o := l.Out(0)
	g := l.As(grad, v.DType())
	if l.Int(reduction) == reduceMean {
		g = l.B.Divide(g, l.B.ConstLike(g, float64(n)))
	}
	return l.finish(0, l.B.Multiply(l.B.Broadcast(v, o.Dims), l.B.Broadcast(g, o.Dims)))
}

func checkBeta(c *Ctx) error {
	if c.Float(3) < 0 {
		return errs.New(errs.Runtime, "smooth_l1_loss does not support negative values for beta.")
	}
	return nil
}

func checkDelta(c *Ctx) error {
	if c.Float(3) <= 0 {
		return errs.New(errs.Runtime, "huber_loss does not support non-positive values for delta.")
	}
	return nil
}

func smoothL1(l *Lowering, x, y value) value {
	b, beta := l.B, l.Float(3)
	z := b.Abs(b.Subtract(x, y))
	if beta == 0 {
		return z
	}
	small := b.Multiply(b.Square(z), b.ConstLike(z, 0.5/beta))
	return b.Select(b.Compare(z, b.ConstLike(z, beta), stablehlo.LT), small, b.Subtract(z, b.ConstLike(z, beta/2)))
}

func huber(l *Lowering, x, y value) value {
	b, delta := l.B, l.Float(3)
	z := b.Abs(b.Subtract(x, y))
	small := b.Multiply(b.Square(z), b.ConstLike(z, 0.5))
	large := b.Multiply(b.Subtract(z, b.ConstLike(z, delta/2)), b.ConstLike(z, delta))
	return b.Select(b.Compare(z, b.ConstLike(z, delta), stablehlo.LE), small, large)
}

// entropyRows are the losses of yes and no.
var entropyRows = []Row{
	{Name: "binary_cross_entropy", Schema: "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
		Infer: func(c *Ctx) error {
			dims, err := inferEntropy(c, 0, 1, 2)
			if err != nil {
				return err
			}
			return c.lossResult(c.In(0).DType, dims, 3)
		},
		Lower: func(l *Lowering) {
			b := l.B
			x, y := l.pair(0, 1, l.Out(0).DType.Accumulate())
			floor := b.ConstLike(x, -100) // torch's bound on the logarithms
			no := b.Maximum(b.LogPlusOne(b.Negate(x)), floor)
			yes := b.Maximum(b.Log(x), floor)
			v := b.Subtract(b.Multiply(b.Subtract(y, b.ConstLike(y, 1)), no), b.Multiply(y, yes))
			l.Return(l.reduceLoss(l.weighted(v, 2), 3))
		}},
	{Name: "binary_cross_entropy_backward", Schema: "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
		Infer: func(c *Ctx) error {
			if _, err := inferEntropy(c, 1, 2, 3); err != nil {
				return err
			}
			dims, err := c.Broadcast(0, 1, 2)
			if err != nil {
				return err
			}
			return c.Return(c.In(1).DType, dims...)
		},
		Lower: func(l *Lowering) {
			b := l.B
			x, y := l.pair(1, 2, l.Out(0).DType.Accumulate())
			slope := b.Maximum(b.Multiply(b.Subtract(b.ConstLike(x, 1), x), x), b.ConstLike(x, 1e-12))
			v := l.weighted(b.Divide(b.Subtract(x, y), slope), 3)
			l.Return(l.scaleGrad(v, 0, 4, l.Shape(1).Numel()))
		}},
	{Name: "binary_cross_entropy_with_logits", Schema: "(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
		Infer: inferLogits, Lower: lowerLogits},
	{Name: "soft_margin_loss", Schema: "(Tensor self, Tensor target, int reduction=1) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !s.DType.IsFloat() {
				return errs.New(errs.Runtime, "result type Float can't be cast to the desired output type %s", s.DType.C10())
			}
			dims, err := c.Broadcast(0, 1)
			if err != nil {
				return err
			}
			if !slices.Equal(dims, s.Dims) {
				return errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", dimsText(s.Dims), dimsText(dims))
			}
			return c.lossResult(s.DType, dims, 2)
		},
		Lower: func(l *Lowering) {
			x, y := l.pair(0, 1, l.Out(0).DType.Accumulate())
			l.Return(l.reduceLoss(l.B.LogPlusOne(l.B.Exponential(l.B.Negate(l.B.Multiply(x, y)))), 2))
		}},
	{Name: "soft_margin_loss_backward", Schema: "(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
		Infer: func(c *Ctx) error {
			dims, err := c.Broadcast(0, 1, 2)
			if err != nil {
				return err
			}
			return c.Return(c.In(1).DType, dims...)
		},
		Lower: func(l *Lowering) {
			b := l.B
			x, y := l.pair(1, 2, l.Out(0).DType.Accumulate())
			// z/(1+z) for z = exp(−x·y), without the overflow
			v := b.Negate(b.Multiply(y, b.Logistic(b.Negate(b.Multiply(x, y)))))
			l.Return(l.scaleGrad(v, 0, 3, l.Shape(1).Numel()))
		}},
}

// inferEntropy checks the operands of binary cross entropy and returns their common dimensions.
func inferEntropy(c *Ctx, self, target, weight int) ([]int64, error) {
	x, y := c.In(self), c.In(target)
	switch {
	case !x.DType.IsFloat():
		return nil, notFor("binary_cross_entropy", x.DType)
	case x.DType != y.DType:
		return nil, errs.New(errs.Runtime, "Found dtype %s but expected %s", y.DType.C10(), x.DType.C10())
	}
	dims, err := c.Broadcast(self, target)
	if err != nil {
		return nil, err
	}
	if w := c.In(weight); w != nil && !expandable(w.Dims, dims) {
		return nil, errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape of weight %s", dimsText(dims), dimsText(w.Dims))
	}
	return dims, nil
}

// weighted multiplies v by the optional argument i.
func (l *Lowering) weighted(v value, i int) value {
	if !l.Has(i) {
		return v
	}
	return l.B.Multiply(v, l.Full(i, v.DType(), v.Dims()))
}

// inferLogits: the result has the type and dimensions of target, into which torch computes.
func inferLogits(c *Ctx) error {
	x, y := c.In(0), c.In(1)
	switch {
	case !x.DType.IsFloat():
		return notFor("log_sigmoid_cpu", x.DType)
	case !y.DType.IsFloat():
		return errs.New(errs.Runtime, "result type %s can't be cast to the desired output type %s", x.DType.C10(), y.DType.C10())
	}
	if _, err := c.Broadcast(0, 1); err != nil {
		return err
	}
	dims, err := c.Broadcast(0, 1, 2)
	if err != nil {
		return err
	}
	if !slices.Equal(dims, y.Dims) {
		return errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", dimsText(y.Dims), dimsText(dims))
	}
	if dims, err = c.Broadcast(0, 1, 3); err != nil {
		return err
	}
	if !slices.Equal(dims, y.Dims) {
		return errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", dimsText(x.Dims), dimsText(dims))
	}
	return c.lossResult(y.DType, y.Dims, 4)
}

// lowerLogits is (1 − y)·x − logsigmoid(x)·(1 + (pos_weight − 1)·y), weighted.
func lowerLogits(l *Lowering) {
	b := l.B
	d, _ := promote(&l.Args, l.Graph, dtype.F32, []int{0, 1})
	x, y := l.pair(0, 1, d.Accumulate())
	logSigmoid := b.Subtract(b.Minimum(x, b.ConstLike(x, 0)), b.LogPlusOne(b.Exponential(b.Negate(b.Abs(x)))))
	if l.Has(3) {
		p := l.Full(3, x.DType(), x.Dims())
		scale := b.Add(b.Multiply(b.Subtract(p, b.ConstLike(p, 1)), y), b.ConstLike(p, 1))
		logSigmoid = b.Multiply(logSigmoid, scale)
	}
	v := b.Subtract(b.Multiply(b.Subtract(b.ConstLike(y, 1), y), x), logSigmoid)
	l.Return(l.reduceLoss(l.weighted(v, 2), 4))
}
