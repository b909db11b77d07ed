package ops

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// embeddingRows look rows of a table up.
var embeddingRows = []Row{
	{Name: "embedding", Schema: "(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", Bounds: func(c *Ctx) []Bounds { return tableBounds(c, 1, c.In(0).Dims[0]) },
		Infer: inferEmbedding,
		Lower: func(l *Lowering) { l.Return(takeRows(l.B, l.In(0), l.In(1), 0)) }},
	{Name: "embedding_dense_backward", Schema: "(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
		Infer: func(c *Ctx) error {
			g, i := c.In(0), c.In(1)
			if err := checkEmbeddingIndex("embedding_backward", i.DType); err != nil {
				return err
			}
			if len(g.Dims) == 0 {
				return errs.New(errs.Index, "Dimension specified as -1 but tensor has no dimensions")
			}
			return c.Return(g.DType, c.Int(2), g.Dims[len(g.Dims)-1])
		},
		Lower: lowerEmbeddingBackward},
	{Name: "embedding_renorm", Unsafe: true, Schema: "(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor", Bounds: func(c *Ctx) []Bounds {
		n := c.In(0).Dims[0]
		return []Bounds{{Index: c.ID(1), Low: -n, High: n, kind: errs.Index,
			text: fmt.Sprintf("select(): index %%[1]d out of range for tensor of size %s at dimension 0", dimsText(c.In(0).Dims))}}
	},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if len(s.Dims) != 2 {
				return errs.New(errs.Runtime, "Expected 2-dimensional tensor, but got %d-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)", len(s.Dims))
			}
			if err := checkEmbeddingIndex("embedding_renorm_", c.In(1).DType); err != nil {
				return err
			}
			return c.ReturnLike(s)
		},
		Lower: lowerEmbeddingRenorm},
}

// checkEmbeddingIndex is torch's checkScalarTypes of indices.
func checkEmbeddingIndex(op string, d dtype.DType) error {
	if d == dtype.I64 || d == dtype.I32 {
		return nil
	}
	return errs.New(errs.Runtime, "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead (while checking arguments for %s)",
		d.C10(), op)
}

func inferEmbedding(c *Ctx) error {
	w, i := c.In(0), c.In(1)
	if len(w.Dims) != 2 {
		return errs.New(errs.Runtime, "'weight' must be 2-D")
	}
	if err := checkEmbeddingIndex("embedding", i.DType); err != nil {
		return err
	}
	return c.Return(w.DType, append(append(c.dims[:0], i.Dims...), w.Dims[1])...)
}

// takeRows is x with dimension dim replaced by the dimensions of index: the slices that it names, each
// whole.
func takeRows(b *stablehlo.Builder, x, index value, dim int) value {
	dims := append(append(append([]int64(nil), x.Dims()[:dim]...), index.Dims()...), x.Dims()[dim+1:]...)
	if product(dims) == 0 || x.Dim(dim) == 0 {
		return b.Broadcast(zero(b, x.DType()), dims)
	}
	sizes := append([]int64(nil), x.Dims()...)
	sizes[dim] = 1
	d := []int64{int64(dim)}
	return b.Gather(x, within(b, index, x.Dim(dim), placeType(x.Dim(dim))), stablehlo.GatherDims{
		OffsetDims: around(len(dims), dim, index.Rank()), CollapsedSliceDims: d, StartIndexMap: d,
		IndexVectorDim: int64(index.Rank()), SliceSizes: sizes,
	})
}

// putRows combines the slices of update, in the dimensions of takeRows, into those of x.
func putRows(b *stablehlo.Builder, x, index, update value, dim int, combine stablehlo.Combiner) value {
	if update.Shape().Numel() == 0 || x.Shape().Numel() == 0 {
		return x
	}
	d := []int64{int64(dim)}
	// one more than the last index must fit too: it stands for no place
	return b.Scatter([]value{x}, within(b, index, x.Dim(dim), placeType(x.Dim(dim)+1)), []value{update}, stablehlo.ScatterDims{
		UpdateWindowDims: around(update.Rank(), dim, index.Rank()), InsertedWindowDims: d, ScatterDimsToOperandDims: d,
		IndexVectorDim: int64(index.Rank()),
	}, combine)[0]
}

// around is the numbers below rank without the n from at on.
func around(rank, at, n int) []int64 {
	dims := make([]int64, 0, rank)
	for i := range rank {
		if i < at || i >= at+n {
			dims = append(dims, int64(i))
		}
	}
	return dims
}

// lowerEmbeddingBackward adds the gradients of each row up, in f32 for the types below.
func lowerEmbeddingBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	n := l.Shape(1).Numel()
	index := b.Reshape(l.In(1), []int64{n})
	grad := b.Reshape(l.As(0, d), []int64{n, o.Dims[1]})
	index = skipping(b, index, l.Int(3), o.Dims[0])
	if l.Bool(4) {
		grad = b.Multiply(grad, b.BroadcastInDim(perUse(b, index, o.Dims[0], d), grad.Dims(), []int64{0}))
	}
	table := b.Broadcast(zero(b, d), o.Dims)
	l.Return(l.Convert(putRows(b, table, index, grad, 0, stablehlo.CombineAdd), o.DType))
}

// skipping sends the indices of the padding row past the end of the table, where writes have no effect. A
// padding row of −1 is none.
func skipping(b *stablehlo.Builder, index value, padding, rows int64) value {
	if padding < 0 {
		return index
	}
	return b.Select(b.Compare(index, b.SplatLike(index, stablehlo.Int(padding)), stablehlo.EQ),
		b.SplatLike(index, stablehlo.Int(rows)), index)
}

// perUse is for each of the indices 1 / how often it occurs, in type d.
func perUse(b *stablehlo.Builder, index value, rows int64, d dtype.DType) value {
	ones := b.Splat(shape.Of(d, index.Dims()), stablehlo.Float(1))
	counts := putRows(b, b.Broadcast(zero(b, d), []int64{rows}), index, ones, 0, stablehlo.CombineAdd)
	return b.Divide(ones, takeRows(b, counts, index, 0))
}

// lowerEmbeddingRenorm scales the rows down that are used and longer than max_norm.
func lowerEmbeddingRenorm(l *Lowering) {
	b, s := l.B, l.Shape(0)
	d := s.DType.Accumulate()
	x := l.As(0, d)
	index := b.Reshape(l.In(1), []int64{l.Shape(1).Numel()})
	yes := b.Splat(index.Shape().With(dtype.Bool), stablehlo.Bool(true))
	none := b.Broadcast(zero(b, dtype.Bool), s.Dims[:1])
	used := putRows(b, none, index, yes, 0, stablehlo.CombineReplace)
	norm := pnorm(b, x, l.Float(3), []int64{1})
	most := b.ConstLike(norm, l.Float(2))
	scale := b.Divide(most, b.Add(norm, b.ConstLike(norm, 1e-7)))
	scale = b.Select(b.And(used, b.Compare(norm, most, stablehlo.GT)), scale, b.ConstLike(norm, 1))
	l.Return(l.Convert(b.Multiply(x, b.BroadcastInDim(scale, s.Dims, []int64{0})), s.DType))
}
