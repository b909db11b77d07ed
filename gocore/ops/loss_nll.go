package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const (
	nllSchema = "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)"

	nllBackwardSchema = "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
)

// nllRows pick the log-probability of the class that target names. Classes are dimension 1, or 0 of a single sample. A
// target out of range is an error in torch, which a device cannot raise. It counts as the nearest class in the loss
// and as none in the gradient.
var nllRows = []Row{
	{Name: "nll_loss_forward", Schema: nllSchema, Bounds: func(c *Ctx) []Bounds { return targetBounds(c, 0, 4) },
		Infer: func(c *Ctx) error {
			s, t := c.In(0), c.In(1)
			if err := checkNLL(s, t, c.In(2)); err != nil {
				return err
			}
			dims := t.Dims
			if len(s.Dims) == 1 {
				dims = nil
			}
			if err := c.lossResult(s.DType, dims, 3); err != nil {
				return err
			}
			return c.Return(s.DType)
		},
		Lower: lowerNLL},
	{Name: "nll_loss2d_forward", Schema: nllSchema, Bounds: func(c *Ctx) []Bounds { return targetBounds(c, 0, 4) },
		Infer: func(c *Ctx) error {
			s, t := c.In(0), c.In(1)
			if err := checkNLL2d(s, t, c.In(2)); err != nil {
				return err
			}
			if err := c.lossResult(s.DType, t.Dims, 3); err != nil {
				return err
			}
			return c.Return(s.DType)
		},
		Lower: lowerNLL},
	{Name: "nll_loss_backward", Schema: nllBackwardSchema, Bounds: func(c *Ctx) []Bounds { return targetBounds(c, 1, 5) },
		Infer: func(c *Ctx) error {
			if err := checkNLL(c.In(1), c.In(2), c.In(3)); err != nil {
				return err
			}
			return inferNLLBackward(c)
		},
		Lower: lowerNLLBackward},
	{Name: "nll_loss2d_backward", Schema: nllBackwardSchema, Bounds: func(c *Ctx) []Bounds { return targetBounds(c, 1, 5) },
		Infer: func(c *Ctx) error {
			if err := checkNLL2d(c.In(1), c.In(2), c.In(3)); err != nil {
				return err
			}
			return inferNLLBackward(c)
		},
		Lower: lowerNLLBackward},
}

func checkNLL(s, t, weight *shape.Shape) error {
	switch {
	case len(s.Dims) != 1 && len(s.Dims) != 2:
		return errs.New(errs.Runtime, "input tensor should be 1D or 2D")
	case len(t.Dims) > 1:
		return errs.New(errs.Runtime, "0D or 1D target tensor expected, multi-target not supported")
	case len(s.Dims) == 1 && t.Numel() != 1 || len(s.Dims) == 2 && (len(t.Dims) != 1 || t.Dims[0] != s.Dims[0]):
		return errs.New(errs.Runtime, "size mismatch (got input: %s, target: %s)", dimsText(s.Dims), dimsText(t.Dims))
	}
	return checkClasses(s, t, weight, s.Dims[len(s.Dims)-1])
}

func checkNLL2d(s, t, weight *shape.Shape) error {
	switch {
	case len(t.Dims) != 3:
		return errs.New(errs.Runtime, "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d", len(t.Dims))
	case len(s.Dims) != 4:
		return errs.New(errs.Runtime, "only batches of spatial inputs supported (4D tensors), but got input of dimension: %d", len(s.Dims))
	case s.Dims[0] != t.Dims[0] || s.Dims[2] != t.Dims[1] || s.Dims[3] != t.Dims[2]:
		return errs.New(errs.Runtime, "size mismatch (got input: %s , target: %s", dimsText(s.Dims), dimsText(t.Dims))
	}
	return checkClasses(s, t, weight, s.Dims[1])
}

func checkClasses(s, t, weight *shape.Shape, classes int64) error {
	switch {
	case weight != nil && weight.Numel() != classes:
		return errs.New(errs.Runtime, "weight tensor should be defined either for all %d classes or no classes but got weight tensor of shape: %s", classes, dimsText(weight.Dims))
	case t.DType != dtype.I64 && t.DType != dtype.U8:
		return errs.New(errs.Runtime, "expected target dtype to be Long or Byte, but got %s", t.DType.C10())
	case !s.DType.IsFloat():
		return notFor("nll_loss_out_frame", s.DType)
	case weight != nil && weight.DType != s.DType:
		return errs.New(errs.Runtime, "expected scalar type %s but found %s", s.DType.C10(), weight.DType.C10())
	}
	return nil
}

// classes is how a loss looks at its input and target: a batch [N, C, …] and [N, …].
type classes struct {
	x      value // in the compute type
	target value // i64
	counts value // i1: target is not ignore_index
	weight value // of each target, in the compute type
}

// classes reads the input, target and weight arguments.
func (l *Lowering) classes(self, target, weight, ignore int, d dtype.DType) classes {
	b := l.B
	c := classes{x: l.As(self, d), target: l.As(target, dtype.I64)}
	if c.x.Rank() == 1 {
		c.x = b.Reshape(c.x, []int64{1, c.x.Dim(0)})
		c.target = b.Reshape(c.target, []int64{1})
	}
	c.counts = b.Compare(c.target, b.SplatLike(c.target, stablehlo.Int(l.Int(ignore))), stablehlo.NE)
	weights := b.ConstLike(b.Convert(c.counts, d), 1)
	if l.Has(weight) {
		weights = takeFlat(b, l.As(weight, d), c.target)
	}
	c.weight = b.Select(c.counts, weights, b.ConstLike(weights, 0))
	return c
}

// pick is x[n, target[n, …], …], of target's dimensions.
func (c *classes) pick(b *stablehlo.Builder) value {
	if c.x.Shape().Numel() == 0 {
		return b.Broadcast(zero(b, c.x.DType()), c.target.Dims())
	}
	rank := c.x.Rank()
	batch, places, sizes := make([]int64, 0, rank-1), make([]int64, 0, rank-1), make([]int64, 0, rank)
	for i := range rank {
		sizes = append(sizes, 1)
		if i != 1 {
			batch, places = append(batch, int64(i)), append(places, int64(len(places)))
		}
	}
	return b.Gather(c.x, c.target, stablehlo.GatherDims{
		OperandBatchingDims: batch, StartIndicesBatchingDims: places, CollapsedSliceDims: []int64{1},
		StartIndexMap: []int64{1}, IndexVectorDim: int64(c.target.Rank()), SliceSizes: sizes,
	})
}

func lowerNLL(l *Lowering) {
	b := l.B
	c := l.classes(0, 1, 2, 4, l.Out(0).DType.Accumulate())
	// an ignored element counts as 0 even where its neighbours are infinite
	picked := b.Select(c.counts, c.pick(b), b.ConstLike(c.weight, 0))
	losses := b.Negate(b.Multiply(picked, c.weight))
	all := allDims(losses.Rank()).list()
	total := addUp(b, c.weight, all)
	v := losses
	switch l.Int(3) {
	case reduceMean:
		v = b.Divide(addUp(b, losses, all), total)
	case reduceSum:
		v = addUp(b, losses, all)
	default:
		if len(l.Shape(0).Dims) > 1 { // torch leaves it at 0 here
			total = b.ConstLike(total, 0)
		}
	}
	l.Return(l.finish(0, v), l.finish(1, total))
}

func inferNLLBackward(c *Ctx) error {
	g, s, t := c.In(0), c.In(1), c.In(2)
	if c.Int(4) == reduceNone && len(s.Dims) > 1 {
		if !slices.Equal(g.Dims, t.Dims) {
			return errs.New(errs.Runtime, "Expected a tensor of dimension %d and tensor.size %s but got: dimension %d and tensor.size %s",
				len(t.Dims), dimsText(t.Dims), len(g.Dims), dimsText(g.Dims))
		}
	} else if g.Numel() != 1 {
		return errs.New(errs.Runtime, "Expected a single element grad_output tensor, but got: %s", dimsText(g.Dims))
	}
	return c.ReturnLike(s)
}

// lowerNLLBackward compares every class with the target rather than scatter: it fuses with what follows.
func lowerNLLBackward(l *Lowering) {
	b, d := l.B, l.Out(0).DType.Accumulate()
	c := l.classes(1, 2, 3, 5, d)
	g := l.As(0, d)
	if l.Int(4) == reduceMean {
		g = b.Divide(b.Reshape(g, nil), b.Reshape(l.As(6, d), nil))
	}
	if g.Shape().Numel() == 1 {
		g = b.Reshape(g, nil)
	}
	g = b.Negate(b.Multiply(b.Broadcast(g, c.target.Dims()), c.weight))
	full := c.x.Dims()
	one := []int64{1}
	hit := b.Compare(b.Iota(shape.Of(dtype.I64, full), 1), unreduce(b, c.target, full, one), stablehlo.EQ)
	hit = b.And(hit, unreduce(b, c.counts, full, one))
	l.Return(l.finish(0, b.Select(hit, unreduce(b, g, full, one), b.ConstLike(c.x, 0))))
}
