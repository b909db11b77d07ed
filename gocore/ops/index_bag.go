package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// bagRows reduce rows of a table that stand in bags: offsets say where in the list of indices each bag begins. The
// gradients use results 1 to 3: the bag of each index, how many indices each bag holds (the padding row left out); and
// for mode max which row each element comes from.
var bagRows = []Row{
	{Name: "_embedding_bag", Unsafe: true, Schema: "(" + bagArgs, Bounds: bagBounds, Infer: inferBag, Lower: lowerBag},
	{Name: "_embedding_bag_forward_only", Unsafe: true, Schema: "(" + bagArgs, Bounds: bagBounds, Infer: inferBag, Lower: lowerBag},
	{Name: "_embedding_bag_backward", Unsafe: true, Schema: "(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
		Infer: func(c *Ctx) error {
			if c.Bool(9) {
				return errs.New(errs.NotLower, "aten::_embedding_bag_backward: a sparse gradient is not supported")
			}
			return c.Return(c.In(0).DType, c.Int(6), c.In(0).Dims[1])
		},
		Lower: func(l *Lowering) {
			l.bagBackward(bagGrad{indices: 1, bags: 3, sizes: 4, winners: 5, byFrequency: 7, mode: 8, weights: 10, padding: 11})
		}},
	{Name: "_embedding_bag_dense_backward", Unsafe: true, Schema: "(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.Int(5), c.In(0).Dims[1]) },
		Lower: func(l *Lowering) {
			l.bagBackward(bagGrad{indices: 1, bags: 2, sizes: 3, winners: 4, byFrequency: 6, mode: 7, weights: 8, padding: 9})
		}},
	{Name: "_embedding_bag_per_sample_weights_backward", Unsafe: true, Schema: "(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
		Infer: func(c *Ctx) error {
			if c.Int(5) != bagSum {
				return errs.New(errs.Runtime, "embedding_bag_backward: per_sample_weights only supported for mode='sum'")
			}
			return c.Return(c.In(0).DType, c.In(2).Numel())
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Out(0).DType.Accumulate()
			index := l.In(2)
			dot := b.Multiply(takeRows(b, l.As(0, d), l.In(4), 0), takeRows(b, l.As(1, d), index, 0))
			v := b.ReduceSum(dot, []int64{1})
			l.Return(l.finish(0, b.Select(notPadding(b, index, l.IntOr(6, -1)), v, b.ConstLike(v, 0))))
		}},
}

const bagArgs = "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"

// The modes of embedding_bag.
const (
	bagSum = iota
	bagMean
	bagMax
)

func inferBag(c *Ctx) error {
	w, index, offsets, samples := c.In(0), c.In(1), c.In(2), c.In(6)
	for _, s := range []*shape.Shape{index, offsets} {
		if err := checkEmbeddingIndex("embedding_bag", s.DType); err != nil {
			return err
		}
	}
	switch {
	case len(w.Dims) != 2:
		return errs.New(errs.Runtime, "weight has to be a 2D Tensor, but got Tensor of dimension %d", len(w.Dims))
	case len(index.Dims) != 1:
		return errs.New(errs.Runtime, "input has to be a 1D Tensor, but got Tensor of dimension %d", len(index.Dims))
	case len(offsets.Dims) != 1:
		return errs.New(errs.Runtime, "offsets has to be a 1D Tensor, but got Tensor of dimension %d", len(offsets.Dims))
	case !floats.has(w.DType):
		return errs.New(errs.Runtime, "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got torch.%sTensor instead (while checking arguments for embedding_bag)", w.DType.C10())
	case samples != nil && c.Int(4) != bagSum:
		return errs.New(errs.Runtime, "embedding_bag: per_sample_weights only supported with mode='sum'")
	case samples != nil && samples.DType != w.DType:
		return errs.New(errs.Runtime, "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor (while checking arguments for embedding_bag)",
			w.DType.C10(), samples.DType.C10())
	case samples != nil && (len(samples.Dims) != 1 || samples.Numel() != index.Numel()):
		return errs.New(errs.Runtime, "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.")
	case c.Bool(7) && offsets.Numel() == 0:
		return errs.New(errs.Runtime, "include_last_offset: number of offset should be at least 1")
	}
	bags := offsets.Dims[0]
	if c.Bool(7) {
		bags--
	}
	d := index.DType
	if offsets.DType == dtype.I64 {
		d = dtype.I64
	}
	_ = c.Return(w.DType, bags, w.Dims[1])
	_ = c.Return(d, index.Dims[0])
	_ = c.Return(d, bags)
	if c.Int(4) == bagMax {
		return c.Return(d, bags, w.Dims[1])
	}
	return c.Return(d, bags)
}

// notPadding is where an index is not that of the padding row; −1 is none.
func notPadding(b *stablehlo.Builder, index value, padding int64) value {
	if padding < 0 {
		return b.Splat(index.Shape().With(dtype.Bool), stablehlo.Bool(true))
	}
	return b.Compare(index, b.SplatLike(index, stablehlo.Int(padding)), stablehlo.NE)
}

// bagOf is the bag of each of n indices: how many bags but the first have begun.
func bagOf(b *stablehlo.Builder, offsets value, n, bags int64) value {
	steps := b.Broadcast(zero(b, placeType(max(n, bags)+1)), []int64{n})
	if bags < 2 || n == 0 {
		return steps
	}
	begins := b.SliceDim(offsets, 0, 1, bags, 1)
	ones := b.Splat(shape.Of(steps.DType(), begins.Dims()), stablehlo.Int(1))
	steps = putRows(b, steps, begins, ones, 0, stablehlo.CombineAdd)
	return cumulative(b, []value{steps}, 0, stablehlo.CombineAdd)[0]
}

func lowerBag(l *Lowering) {
	b, w, o := l.B, l.Shape(0), l.Out(0)
	d := o.DType.Accumulate()
	index, n, bags := l.In(1), l.Shape(1).Dims[0], o.Dims[0]
	if n == 0 || bags == 0 {
		l.Return(l.omitted(0), l.omitted(1), l.omitted(2), l.omitted(3))
		return
	}
	bag := bagOf(b, l.In(2), n, bags)
	counted := notPadding(b, index, l.IntOr(8, -1))
	none := b.Broadcast(zero(b, bag.DType()), []int64{bags})
	sizes := putRows(b, none, bag, b.Convert(counted, bag.DType()), 0, stablehlo.CombineAdd)
	rows := takeRows(b, l.As(0, d), index, 0)
	if l.Has(6) {
		rows = b.Multiply(rows, b.BroadcastInDim(l.As(6, d), rows.Dims(), []int64{0}))
	}
	keep := b.BroadcastInDim(counted, rows.Dims(), []int64{0})
	if l.Int(4) == bagMax {
		l.bagMax(rows, keep, index, bag, sizes)
		return
	}
	rows = b.Select(keep, rows, b.ConstLike(rows, 0))
	sum := putRows(b, b.Broadcast(zero(b, d), []int64{bags, w.Dims[1]}), bag, rows, 0, stablehlo.CombineAdd)
	if l.Int(4) == bagMean {
		sum = b.Divide(sum, b.BroadcastInDim(b.Convert(b.Maximum(sizes, b.ConstLike(sizes, 1)), d), sum.Dims(), []int64{0}))
	}
	l.Return(l.finish(0, sum), l.finish(1, bag), l.finish(2, sizes), l.omitted(3))
}

// bagMax returns the largest element of each column of a bag and the row of the table that it is from, the
// first of several; zeros for a bag of nothing.
func (l *Lowering) bagMax(rows, keep, index, bag, sizes value) {
	b, n := l.B, rows.Dim(0)
	dims := []int64{sizes.Dim(0), rows.Dim(1)}
	least := b.Broadcast(b.MinValue(rows.DType()), rows.Dims())
	rows = b.Select(keep, rows, least)
	best := putRows(b, b.Broadcast(b.MinValue(rows.DType()), dims), bag, rows, 0, stablehlo.CombineMax)
	hit := b.And(keep, b.Compare(rows, takeRows(b, best, bag, 0), stablehlo.EQ))
	place := b.Iota(shape.Of(bag.DType(), rows.Dims()), 0)
	place = b.Select(hit, place, b.SplatLike(place, stablehlo.Int(n-1)))
	first := putRows(b, b.Splat(shape.Of(bag.DType(), dims), stablehlo.Int(n-1)), bag, place, 0, stablehlo.CombineMin)
	some := b.BroadcastInDim(b.Compare(sizes, b.ConstLike(sizes, 0), stablehlo.GT), dims, []int64{0})
	best = b.Select(some, best, b.ConstLike(best, 0))
	winner := takeRows(b, index, first, 0)
	l.Return(l.finish(0, best), l.finish(1, bag), l.finish(2, sizes), l.finish(3, b.Select(some, winner, b.ConstLike(winner, 0))))
}

// bagGrad says where the arguments of a gradient by the table are.
type bagGrad struct {
	indices, bags, sizes, winners, byFrequency, mode, weights, padding int
}

func (l *Lowering) bagBackward(at bagGrad) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	table := b.Broadcast(zero(b, d), o.Dims)
	g, sizes := l.As(0, d), l.In(at.sizes)
	if l.Int(at.mode) == bagMax {
		some := b.BroadcastInDim(b.Compare(sizes, b.ConstLike(sizes, 0), stablehlo.GT), g.Dims(), []int64{0})
		g = b.Select(some, g, b.ConstLike(g, 0))
		l.Return(l.finish(0, putAlong(b, table, l.In(at.winners), g, 0, stablehlo.CombineAdd)))
		return
	}
	index := skipping(b, l.In(at.indices), l.IntOr(at.padding, -1), o.Dims[0])
	each := takeRows(b, g, l.In(at.bags), 0)
	scale := func(v value) { each = b.Multiply(each, b.BroadcastInDim(v, each.Dims(), []int64{0})) }
	if l.Has(at.weights) {
		scale(l.As(at.weights, d))
	}
	if l.Int(at.mode) == bagMean {
		size := b.Convert(b.Maximum(sizes, b.ConstLike(sizes, 1)), d)
		scale(takeRows(b, b.Divide(b.ConstLike(size, 1), size), l.In(at.bags), 0))
	}
	if l.Bool(at.byFrequency) {
		scale(perUse(b, index, o.Dims[0], d))
	}
	l.Return(l.finish(0, putRows(b, table, index, each, 0, stablehlo.CombineAdd)))
}
