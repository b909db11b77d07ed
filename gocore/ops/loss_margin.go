package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// marginRows want the score of the right classes above the others by a margin.
var marginRows = []Row{
	{Name: "multi_margin_loss", Schema: "(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor", Bounds: func(c *Ctx) []Bounds {
		return []Bounds{marginBounds(c, "target out of range")}
	}, Static: []int{2},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if err := checkMultiMargin(s, c.In(1), c.In(4)); err != nil {
				return err
			}
			if err := checkPower(c, 2); err != nil {
				return err
			}
			return c.lossResult(s.DType, c.In(1).Dims, 5)
		},
		Lower: lowerMultiMargin},
	{Name: "multi_margin_loss_backward", Unsafe: true, Schema: "(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor", Static: []int{3},
		Infer: func(c *Ctx) error {
			if err := checkMultiMargin(c.In(1), c.In(2), c.In(5)); err != nil {
				return err
			}
			if err := checkPower(c, 3); err != nil {
				return err
			}
			return c.ReturnLike(c.In(1))
		},
		Lower: lowerMultiMarginBackward},
	{Name: "multilabel_margin_loss_forward", Schema: "(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)", Bounds: func(c *Ctx) []Bounds {
		b := marginBounds(c, "argument #2 'target' is out of range")
		b.Low = -1 // ends the labels of a sample
		return []Bounds{b}
	},
		Infer: func(c *Ctx) error {
			s, t := c.In(0), c.In(1)
			if err := checkMultiLabel(s, t); err != nil {
				return err
			}
			dims := c.dims[:0]
			if len(s.Dims) == 2 {
				dims = append(dims, s.Dims[0])
			}
			if err := c.lossResult(s.DType, dims, 2); err != nil {
				return err
			}
			return c.ReturnLike(t.With(s.DType))
		},
		Lower: lowerMultiLabel},
	{Name: "multilabel_margin_loss_backward", Unsafe: true, Schema: "(Tensor grad_output, Tensor self, Tensor target, int reduction, Tensor is_target) -> Tensor",
		Infer: func(c *Ctx) error {
			if err := checkMultiLabel(c.In(1), c.In(2)); err != nil {
				return err
			}
			return c.ReturnLike(c.In(1))
		},
		Lower: lowerMultiLabelBackward},
}

func checkMultiMargin(s, t, weight *shape.Shape) error {
	n, classes := batchOf(s)
	switch {
	case len(s.Dims) > 2 || classes == 0:
		return errs.New(errs.Runtime, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s", dimsText(s.Dims))
	case len(t.Dims) > 1 || t.Numel() != n:
		return errs.New(errs.Runtime, "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [%d], but got %s. Input has shape %s.",
			n, dimsText(t.Dims), dimsText(s.Dims))
	case weight != nil && (len(weight.Dims) > 1 || weight.Numel() != classes):
		return errs.New(errs.Runtime, "inconsistent weight size, expected %d but got %s", classes, dimsText(weight.Dims))
	case t.DType != dtype.I64:
		return errs.New(errs.Runtime, "expected scalar type Long but found %s", t.DType.C10())
	case !s.DType.IsFloat():
		return notFor("multi_margin_loss_cpu_kernel", s.DType)
	}
	return nil
}

// batchOf is the samples and classes of a matrix, vector (one sample) or number (one of one class).
func batchOf(s *shape.Shape) (n, classes int64) {
	switch len(s.Dims) {
	case 0:
		return 1, 1
	case 1:
		return 1, s.Dims[0]
	}
	return s.Dims[0], s.Dims[1]
}

func checkPower(c *Ctx, i int) error {
	if n, ok := c.Number(i); !ok || n.Float() != 1 && n.Float() != 2 {
		return errs.New(errs.Runtime, "only p == 1 and p == 2 supported")
	}
	return nil
}

// margins are the terms of multi_margin_loss: violation[n, i] = max(0, margin − x[n, target] + x[n, i]),
// 0 where i is the target.
func (l *Lowering) margins(self, target, margin, weight int, d dtype.DType) (violation, isTarget value, c classes) {
	b := l.B
	n, k := batchOf(l.Shape(self))
	c = classes{x: b.Reshape(l.As(self, d), []int64{n, k}), target: b.Reshape(l.In(target), []int64{n})}
	c.weight = b.ConstLike(b.Convert(c.target, d), 1)
	if l.Has(weight) {
		c.weight = takeFlat(b, b.Reshape(l.As(weight, d), []int64{k}), c.target)
	}
	dims, inner := c.x.Dims(), []int64{1}
	isTarget = b.Compare(b.Iota(shape.Of(dtype.I64, dims), 1), unreduce(b, c.target, dims, inner), stablehlo.EQ)
	z := b.Add(b.Subtract(l.Full(margin, d, dims), unreduce(b, c.pick(b), dims, inner)), c.x)
	none := b.ConstLike(z, 0)
	return b.Select(isTarget, none, b.Maximum(z, none)), isTarget, c
}

func lowerMultiMargin(l *Lowering) {
	b, d := l.B, l.Out(0).DType.Accumulate()
	z, _, c := l.margins(0, 1, 3, 4, d)
	if p, _ := l.Number(2); p.Float() == 2 {
		z = b.Square(z)
	}
	sum := b.ReduceSum(z, []int64{1})
	v := b.Divide(b.Multiply(sum, c.weight), b.ConstLike(sum, float64(z.Dim(1))))
	l.Return(l.reduceLoss(v, 5))
}

func lowerMultiMarginBackward(l *Lowering) {
	b, d := l.B, l.Out(0).DType.Accumulate()
	z, isTarget, c := l.margins(1, 2, 4, 5, d)
	slope := b.Convert(b.Compare(z, b.ConstLike(z, 0), stablehlo.GT), d)
	if p, _ := l.Number(3); p.Float() == 2 {
		slope = b.Add(z, z)
	}
	dims, inner := z.Dims(), []int64{1}
	slope = b.Multiply(slope, unreduce(b, c.weight, dims, inner))
	total := over(b, (*stablehlo.Builder).ReduceSum, slope, inner)
	l.Return(l.finish(0, l.marginGrad(b.Select(isTarget, b.Negate(total), slope), 6)))
}

// marginGrad scales the slopes v[n, class] of a margin loss by the incoming gradient, argument 0.
func (l *Lowering) marginGrad(v value, reduction int) value {
	b, dims := l.B, v.Dims()
	scale := float64(dims[1])
	g := l.As(0, v.DType())
	if l.Int(reduction) == reduceNone {
		g = unreduce(b, b.Reshape(g, dims[:1]), dims, []int64{1})
	} else {
		g = b.Broadcast(b.Reshape(g, nil), dims)
	}
	if l.Int(reduction) == reduceMean {
		scale *= float64(dims[0])
	}
	return b.Divide(b.Multiply(g, v), b.ConstLike(v, scale))
}

func checkMultiLabel(s, t *shape.Shape) error {
	_, classes := batchOf(s)
	switch {
	case len(s.Dims) > 2 || classes == 0:
		return errs.New(errs.Runtime, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s", dimsText(s.Dims))
	case !slices.Equal(s.Dims, t.Dims):
		return errs.New(errs.Runtime, "inconsistent target size: %s for input of size: %s", dimsText(t.Dims), dimsText(s.Dims))
	case t.DType != dtype.I64:
		return errs.New(errs.Runtime, "expected scalar type Long but found %s", t.DType.C10())
	case !s.DType.IsFloat():
		return notFor("multilabel_margin_loss_forward_out_frame", s.DType)
	}
	return nil
}

// labels are the pairs of multilabel_margin_loss. violation[n, j, i] is max(0, 1 − x[n, target[n, j]] + x[n, i]) where
// j is a label and i is not. It is 0 elsewhere. Labels end at the first −1 of a row. names[n, j, i] says that label j
// is class i.
func (l *Lowering) labels(self, target int, d dtype.DType) (violation, names, isTarget value) {
	b := l.B
	n, k := batchOf(l.Shape(self))
	x, t := b.Reshape(l.As(self, d), []int64{n, k}), b.Reshape(l.In(target), []int64{n, k})
	ended := b.Convert(b.Compare(t, b.ConstLike(t, 0), stablehlo.LT), dtype.I32)
	given := b.Compare(b.ConstLike(ended, 0), cumulative(b, []value{ended}, 1, stablehlo.CombineAdd)[0], stablehlo.EQ)
	dims := []int64{n, k, k}
	perLabel := func(v value) value { return b.BroadcastInDim(v, dims, []int64{0, 1}) }
	perClass := func(v value) value { return b.BroadcastInDim(v, dims, []int64{0, 2}) }
	names = b.And(perLabel(given), b.Compare(b.Iota(shape.Of(dtype.I64, dims), 2), perLabel(t), stablehlo.EQ))
	isTarget = b.ReduceOr(names, []int64{1})
	none := b.Broadcast(zero(b, d), dims)
	scores := b.ReduceSum(b.Select(names, perClass(x), none), []int64{2})
	z := b.Add(b.Subtract(b.ConstLike(none, 1), perLabel(scores)), perClass(x))
	counts := b.And(perLabel(given), b.Not(perClass(isTarget)))
	return b.Select(counts, b.Maximum(z, none), none), names, isTarget
}

func lowerMultiLabel(l *Lowering) {
	b, d := l.B, l.Out(0).DType.Accumulate()
	z, _, isTarget := l.labels(0, 1, d)
	sum := b.ReduceSum(z, []int64{1, 2})
	l.Return(l.reduceLoss(b.Divide(sum, b.ConstLike(sum, float64(z.Dim(1)))), 2), l.finish(1, isTarget))
}

func lowerMultiLabelBackward(l *Lowering) {
	b, d := l.B, l.Out(0).DType.Accumulate()
	z, names, _ := l.labels(1, 2, d)
	slope := b.Convert(b.Compare(z, b.ConstLike(z, 0), stablehlo.GT), d)
	up := b.ReduceSum(slope, []int64{1})
	perLabel := b.BroadcastInDim(b.ReduceSum(slope, []int64{2}), z.Dims(), []int64{0, 1})
	down := b.ReduceSum(b.Select(names, perLabel, b.ConstLike(z, 0)), []int64{1})
	l.Return(l.finish(0, l.marginGrad(b.Subtract(up, down), 3)))
}
