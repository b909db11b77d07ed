package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// histogramRows count elements by intervals. That the elements are finite, where they say the range, is not
// known when the op is recorded.
var histogramRows = []Row{
	{Name: "histc", Schema: "(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", ExactOut: true, Static: []int{2, 3},
		Infer: inferHistc, Lower: lowerHistc},
	{Name: "histogram.bin_ct", Unsafe: true, Schema: "(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)", ExactOut: true,
		Infer: inferHistogram, Lower: lowerHistogram},
	{Name: "histogram.bins_tensor", Unsafe: true, Schema: "(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)", ExactOut: true,
		Infer: func(c *Ctx) error {
			s, edges := c.In(0), c.In(1)
			switch {
			case len(edges.Dims) != 1:
				return errs.New(errs.Runtime, "torch.histogramdd: bins tensor should have one dimension, but got %d dimensions in the bins tensor for dimension 0", len(edges.Dims))
			case edges.Dims[0] == 0:
				return errs.New(errs.Runtime, "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0")
			case edges.DType != s.DType:
				return errs.New(errs.Runtime, "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype %s and bins for dimension 0 with dtype %s", cppName(s.DType), cppName(edges.DType))
			}
			return returnHistogram(c, edges.Dims[0]-1, 2)
		},
		Lower: func(l *Lowering) { l.histogram(l.In(1), 2) }},
}

func inferHistogram(c *Ctx) error {
	var scratch [4]float64
	if c.Has(2) {
		switch r := c.Floats(scratch[:0], 2); {
		case len(r) != 2:
			return errs.New(errs.Runtime, "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got %d", len(r))
		case math.IsInf(r[0], 0) || math.IsInf(r[1], 0) || math.IsNaN(r[0]) || math.IsNaN(r[1]):
			return errs.New(errs.Runtime, "torch.histogramdd: dimension 0's range [%s, %s] is not finite", cppFloat(r[0]), cppFloat(r[1]))
		case r[0] > r[1]:
			return errs.New(errs.Runtime, "torch.histogramdd: min should not exceed max, but got min %s max %s for dimension 0", cppFloat(r[0]), cppFloat(r[1]))
		}
	}
	return returnHistogram(c, c.Int(1), 3)
}

// returnHistogram checks what the two forms share and returns the counts of n intervals and their edges.
func returnHistogram(c *Ctx, n int64, weight int) error {
	s, w := c.In(0), c.In(weight)
	switch {
	case n <= 0:
		return errs.New(errs.Runtime, "torch.histogram(): bins must be > 0, but got %d for dimension 0", n)
	case w != nil && w.DType != s.DType:
		return errs.New(errs.Runtime, "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input(%s), and weight(%s)", cppName(s.DType), cppName(w.DType))
	case w != nil && !slices.Equal(w.Dims, s.Dims):
		return errs.New(errs.Runtime, "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape %s and weight with shape %s", dimsText(s.Dims), dimsText(w.Dims))
	case !wide.has(s.DType):
		return notFor("histogramdd", s.DType)
	}
	if err := c.Return(s.DType, n); err != nil {
		return err
	}
	return c.Return(s.DType, n+1)
}

func lowerHistogram(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	lo, hi := zero(b, d), one(b, d) // the range of nothing
	var scratch [2]float64
	switch {
	case l.Has(2):
		r := l.Floats(scratch[:0], 2)
		lo, hi = b.Scalar(d, stablehlo.Float(r[0])), b.Scalar(d, stablehlo.Float(r[1]))
	case l.Shape(0).Numel() > 0:
		all := allDims(len(l.Shape(0).Dims)).list()
		lo, hi = b.ReduceMin(l.In(0), all), b.ReduceMax(l.In(0), all)
	}
	lo, hi = apart(b, lo, hi, 0.5)
	l.histogram(line(b, lo, hi, l.Int(1)+1, false), 3)
}

// apart moves equal bounds away from each other, by a number each.
func apart(b *stablehlo.Builder, lo, hi value, by float64) (value, value) {
	same, step := b.Compare(lo, hi, stablehlo.EQ), b.ConstLike(lo, by)
	return b.Select(same, b.Subtract(lo, step), lo), b.Select(same, b.Add(hi, step), hi)
}

// histogram returns the weight of the elements in each interval, the last of which includes its end.
func (l *Lowering) histogram(edges value, weight int) {
	b, o := l.B, l.Out(0)
	bins := o.Dims[0]
	hist := l.omitted(0)
	if l.Shape(0).Numel() > 0 {
		hist = l.countByEdges(hist, edges, weight)
	}
	if l.Bool(weight + 1) {
		widths := b.Subtract(b.SliceDim(edges, 0, 1, bins+1, 1), b.SliceDim(edges, 0, 0, bins, 1))
		hist = b.Divide(b.Divide(hist, b.Broadcast(b.ReduceSum(hist, []int64{0}), o.Dims)), widths)
	}
	l.Return(hist, edges)
}

// countByEdges adds the weight of each element, or one, to its interval.
func (l *Lowering) countByEdges(hist, edges value, weight int) value {
	b, flat, bins := l.B, []int64{l.Shape(0).Numel()}, hist.Dim(0)
	x := b.Reshape(l.In(0), flat)
	w := b.ConstLike(x, 1)
	if l.Has(weight) {
		w = b.Reshape(l.In(weight), flat)
	}
	place := search(b, edges, x, true)
	place = b.Minimum(b.Subtract(place, b.ConstLike(place, 1)), b.SplatLike(place, stablehlo.Int(bins-1)))
	edge := func(i int64) value { return b.Broadcast(b.SliceDim(edges, 0, i, i+1, 1), flat) }
	inside := b.And(b.Compare(x, edge(0), stablehlo.GE), b.Compare(x, edge(bins), stablehlo.LE))
	place = b.Select(inside, place, b.SplatLike(place, stablehlo.Int(bins)))
	return putRows(b, hist, place, w, 0, stablehlo.CombineAdd)
}

func inferHistc(c *Ctx) error {
	s, bins := c.In(0), c.Int(1)
	lo, hi := numberOr(&c.Args, 2, 0).Float(), numberOr(&c.Args, 3, 0).Float()
	switch {
	case !floats.has(s.DType) && !s.DType.IsInt(): // integers as on CUDA: mixtures of experts count with them
		return notFor("histogram_cpu", s.DType)
	case bins <= 0:
		return errs.New(errs.Runtime, "torch.histogram(): bins must be > 0, but got %d for dimension 0", bins)
	case lo > hi:
		return errs.New(errs.Runtime, "torch.histc: max must be larger than min")
	case math.IsInf(lo, 0) || math.IsInf(hi, 0) || math.IsNaN(lo) || math.IsNaN(hi):
		return errs.New(errs.Runtime, "torch.histc: range of [%s, %s] is not finite", cppFloat(lo), cppFloat(hi))
	}
	return c.Return(s.DType, bins)
}

// lowerHistc counts by a scatter; an element outside the range goes to a bin that does not exist. Equal
// bounds stand for those of the elements.
func lowerHistc(l *Lowering) {
	b, bins := l.B, l.Int(1)
	n := l.Shape(0).Numel()
	if n == 0 {
		l.Return(l.omitted(0))
		return
	}
	d := l.Out(0).DType.Accumulate()
	if d.IsInt() {
		d = dtype.F64
	}
	x := b.Reshape(l.As(0, d), []int64{n})
	lo, hi := l.As(2, d), l.As(3, d)
	if numberOr(&l.Args, 2, 0).Float() == numberOr(&l.Args, 3, 0).Float() {
		lo, hi = b.ReduceMin(x, []int64{0}), b.ReduceMax(x, []int64{0})
		lo, hi = apart(b, lo, hi, 1)
	}
	lo, hi = b.Broadcast(lo, x.Dims()), b.Broadcast(hi, x.Dims())
	at := b.Divide(b.Multiply(b.Subtract(x, lo), b.SplatLike(x, stablehlo.Int(bins))), b.Subtract(hi, lo))
	place := b.Convert(b.Minimum(at, b.SplatLike(x, stablehlo.Int(bins-1))), placeType(bins+1))
	inside := b.And(b.Compare(x, lo, stablehlo.GE), b.Compare(x, hi, stablehlo.LE))
	place = b.Select(inside, place, b.SplatLike(place, stablehlo.Int(bins)))
	counts := b.Broadcast(zero(b, d), []int64{bins})
	l.Return(l.finish(0, putRows(b, counts, place, b.ConstLike(x, 1), 0, stablehlo.CombineAdd)))
}
