package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// scatterRows pair each element with an index along one dimension. A tensor larger than the index takes
// part with its first elements.
var scatterRows = []Row{
	{Name: "gather", Schema: "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: Apart, ExactOut: true, Infer: inferGather,
		Lower: func(l *Lowering) {
			index := l.vector(2)
			l.Return(l.finish(0, takeAlong(l.B, l.vector(0), index, acceptedDim(l.Int(1), index.Rank()))))
		}},
	{Name: "scatter.src", Schema: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferScatter(c, true) }, Lower: lowerScatterReplace},
	{Name: "scatter.value", Schema: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferScatter(c, false) }, Lower: lowerScatterReplace},
	{Name: "scatter.reduce", Schema: "(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferScatterOp(c, true) }, Lower: lowerScatterOp},
	{Name: "scatter.value_reduce", Schema: "(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferScatterOp(c, false) }, Lower: lowerScatterOp},
	{Name: "scatter_add", Schema: "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferScatter(c, true) },
		Lower: func(l *Lowering) { l.Return(l.scatterBy(reductions["sum"], true)) }},
	{Name: "scatter_reduce.two", Schema: "(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", Bounds: alongBounds(errs.Runtime, "", false), Overlap: ApartButSelf, ExactOut: true,
		Infer: inferScatterReduce,
		Lower: func(l *Lowering) { l.Return(l.scatterBy(reductions[l.Text(4)], l.Bool(5))) }},
}

// reduction is a way to combine what meets at one place.
type reduction struct {
	combine stablehlo.Combiner
	// identity has no effect on the others: what self counts as if it is not included.
	identity func(b *stablehlo.Builder, d dtype.DType) value
	mean     bool
}

// reductions are torch's names for them.
var reductions = map[string]reduction{
	"sum":  {combine: stablehlo.CombineAdd, identity: zero},
	"prod": {combine: stablehlo.CombineMul, identity: one},
	"mean": {combine: stablehlo.CombineAdd, identity: zero, mean: true},
	"amax": {combine: stablehlo.CombineMax, identity: (*stablehlo.Builder).MinValue},
	"amin": {combine: stablehlo.CombineMin, identity: (*stablehlo.Builder).MaxValue},
}

// reduceInto combines update into x at the places that put knows.
func reduceInto(b *stablehlo.Builder, r reduction, includeSelf bool, x, update value, put func(x, update value, f stablehlo.Combiner) value) value {
	var counts value
	if r.mean {
		counts = put(b.ConstLike(x, 0), b.ConstLike(update, 1), stablehlo.CombineAdd)
	}
	if !includeSelf {
		yes := b.Splat(update.Shape().With(dtype.Bool), stablehlo.Bool(true))
		none := b.Broadcast(zero(b, dtype.Bool), x.Dims())
		touched := put(none, yes, stablehlo.CombineReplace)
		x = b.Select(touched, b.Broadcast(r.identity(b, x.DType()), x.Dims()), x)
	}
	x = put(x, update, r.combine)
	switch {
	case !r.mean:
		return x
	case includeSelf:
		counts = b.Add(counts, b.ConstLike(counts, 1))
	default:
		counts = b.Maximum(counts, b.ConstLike(counts, 1))
	}
	if x.DType().IsIntegral() {
		return floorDivide(b, x, counts)
	}
	return b.Divide(x, counts)
}

// foremost is the first elements of x: of each dimension but dim as many as size says, all of dim.
func foremost(b *stablehlo.Builder, x value, size []int64, dim int) value {
	for i, n := range size {
		if i != dim {
			x = b.SliceDim(x, int64(i), 0, n, 1)
		}
	}
	return x
}

// takeAlong is x[…, index[…, i, …], …] at each place of index: torch.gather.
func takeAlong(b *stablehlo.Builder, x, index value, dim int) value {
	if index.Shape().Numel() == 0 || x.Shape().Numel() == 0 {
		return b.Broadcast(zero(b, x.DType()), index.Dims())
	}
	rank := index.Rank()
	others := around(rank, dim, 1)
	d := []int64{int64(dim)}
	sizes := slices.Repeat([]int64{1}, rank)
	return b.Gather(foremost(b, x, index.Dims(), dim), within(b, index, x.Dim(dim), placeType(x.Dim(dim))), stablehlo.GatherDims{
		OperandBatchingDims: others, StartIndicesBatchingDims: others, CollapsedSliceDims: d, StartIndexMap: d,
		IndexVectorDim: int64(rank), SliceSizes: sizes,
	})
}

// putAlong combines update into x at the places that index names along dim; update has index's dimensions.
func putAlong(b *stablehlo.Builder, x, index, update value, dim int, f stablehlo.Combiner) value {
	if index.Shape().Numel() == 0 || x.Shape().Numel() == 0 {
		return x
	}
	rank := index.Rank()
	others := around(rank, dim, 1)
	d := []int64{int64(dim)}
	part := foremost(b, x, index.Dims(), dim)
	out := b.Scatter([]value{part}, within(b, index, x.Dim(dim), placeType(x.Dim(dim))), []value{update}, stablehlo.ScatterDims{
		InputBatchingDims: others, ScatterIndicesBatchingDims: others, InsertedWindowDims: d, ScatterDimsToOperandDims: d,
		IndexVectorDim: int64(rank),
	}, f)[0]
	if part.Shape() == x.Shape() {
		return out
	}
	starts := slices.Repeat([]value{zero(b, dtype.I32)}, rank)
	return b.DynamicUpdateSlice(x, out, starts)
}

// operandsAlong is for an op (self, dim, index, src). It gives self, the index and the source (a tensor, cut to the
// index, or a number) in type d.
func (l *Lowering) operandsAlong(d dtype.DType) (x, index, source value, dim int) {
	b := l.B
	x, index = l.Convert(l.vector(0), d), l.vector(2)
	dim = acceptedDim(l.Int(1), index.Rank())
	if source = l.As(3, d); source.Rank() == 0 {
		return x, index, b.Broadcast(source, index.Dims()), dim
	}
	return x, index, foremost(b, source, index.Dims(), -1), dim
}

func (l *Lowering) scatterBy(r reduction, includeSelf bool) value {
	x, index, source, dim := l.operandsAlong(l.Out(0).DType.Accumulate())
	return l.finish(0, reduceInto(l.B, r, includeSelf, x, source, func(x, update value, f stablehlo.Combiner) value {
		return putAlong(l.B, x, index, update, dim, f)
	}))
}

func lowerScatterReplace(l *Lowering) {
	x, index, source, dim := l.operandsAlong(l.Out(0).DType)
	l.Return(l.finish(0, putAlong(l.B, x, index, source, dim, stablehlo.CombineReplace)))
}

func lowerScatterOp(l *Lowering) {
	name := "sum"
	if l.Text(4) == "multiply" {
		name = "prod"
	}
	l.Return(l.scatterBy(reductions[name], true))
}

func inferGather(c *Ctx) error {
	s, index := c.In(0), c.In(2)
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case index.Numel() == 0:
		return c.Return(s.DType, index.Dims...)
	case !isIndex(index.DType):
		return errs.New(errs.Runtime, "gather(): Expected dtype int32/int64 for index")
	case max(len(index.Dims), 1) != max(len(s.Dims), 1):
		return errs.New(errs.Runtime, "Index tensor must have the same number of dimensions as input tensor")
	}
	if bad := exceeds(index, s, dim); bad >= 0 {
		return errs.New(errs.Runtime, "Size does not match at dimension %d expected index %s to be no larger than self %s apart from dimension %d",
			bad, dimsText(index.Dims), dimsText(s.Dims), dim)
	}
	if sizeAt(s, dim) == 0 {
		return errs.New(errs.Runtime, "index 0 is out of bounds for dimension %d with size 0", dim)
	}
	return c.Return(s.DType, index.Dims...)
}

// exceeds is the first dimension but dim in which s is larger than t, −1 for none.
func exceeds(s, t *shape.Shape, dim int) int {
	for i := range s.Dims {
		if i != dim && s.Dims[i] > sizeAt(t, i) {
			return i
		}
	}
	return -1
}

// inferScatter is torch's scatter_meta_impl; withSource says that argument 3 is a tensor.
func inferScatter(c *Ctx, withSource bool) error {
	s, index, source := c.In(0), c.In(2), c.In(3)
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case withSource && s.DType != source.DType:
		return errs.New(errs.Runtime, "scatter(): Expected self.dtype to be equal to src.dtype")
	case index.Numel() > 0 && !isIndex(index.DType):
		return errs.New(errs.Runtime, "scatter(): Expected dtype int32/int64 for index")
	case index.Numel() == 0:
	case max(len(index.Dims), 1) != max(len(s.Dims), 1):
		return errs.New(errs.Runtime, "Index tensor must have the same number of dimensions as self tensor")
	case withSource && max(len(index.Dims), 1) != max(len(source.Dims), 1):
		return errs.New(errs.Runtime, "Index tensor must have the same number of dimensions as src tensor")
	case withSource && (exceeds(index, s, dim) >= 0 || exceeds(index, source, -1) >= 0):
		return errs.New(errs.Runtime, "Expected index %s to be no larger than self %s apart from dimension %d and to be no larger size than src %s",
			dimsText(index.Dims), dimsText(s.Dims), dim, dimsText(source.Dims))
	case exceeds(index, s, dim) >= 0:
		return errs.New(errs.Runtime, "Expected index %s to be no larger than self %s apart from dimension %d", dimsText(index.Dims), dimsText(s.Dims), dim)
	}
	if !withSource {
		if err := c.fits(3, s.DType); err != nil {
			return err
		}
	}
	return c.ReturnLike(s)
}

func inferScatterOp(c *Ctx, withSource bool) error {
	if r := c.Text(4); r != "add" && r != "multiply" {
		return errs.New(errs.Runtime, "reduce argument must be either add or multiply.")
	}
	return inferScatter(c, withSource)
}

func inferScatterReduce(c *Ctx) error {
	name := c.Text(4)
	r, ok := reductions[name]
	if !ok {
		return errs.New(errs.Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name)
	}
	if d := c.In(0).DType; r.mean && d == dtype.Bool || d.IsComplex() && (name == "amax" || name == "amin") {
		return notFor("scatter_gather_tensor_cpu_reduce_"+name, d)
	}
	return inferScatter(c, true)
}
