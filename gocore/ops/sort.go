package ops

import (
	"math"
	"math/bits"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// sortRows order elements and search among ordered ones. NaN is larger than any number; these lowerings are stable,
// asked or not.
var sortRows = join(orderedRows, searchRows, histogramRows)

// orderedRows are sorts, whole or of the first elements.
var orderedRows = []Row{
	{Name: "sort", Schema: "(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", Strides: Preserved, Overlap: Aligned, ExactOut: true, Torch: &Kernel{Out: "values", When: many(1 << 12)},
		Infer: func(c *Ctx) error { return inferSort(c, 1) },
		Lower: func(l *Lowering) { l.sort(1, l.Bool(2)) }},
	{Name: "sort.stable", Schema: "(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", Strides: Preserved, Overlap: Aligned, ExactOut: true, Torch: &Kernel{Out: "values_stable", When: many(1 << 12)},
		Infer: func(c *Ctx) error { return inferSort(c, 2) },
		Lower: func(l *Lowering) { l.sort(2, l.Bool(3)) }},
	{Name: "topk", Schema: "(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", Overlap: Aligned, ExactOut: true, Torch: &Kernel{Out: "values", When: many(1 << 12)},
		Infer: inferTopK, Lower: lowerTopK},
}

func inferSort(c *Ctx, dim int) error {
	s := c.In(0)
	if _, err := WrapDim(c.IntOr(dim, -1), len(s.Dims)); err != nil {
		return err
	}
	if s.DType.IsComplex() {
		return errs.New(errs.Type, " Sort does not support complex dtypes on CPU")
	}
	if err := c.ReturnLike(s); err != nil {
		return err
	}
	return c.ReturnLike(s.With(dtype.I64))
}

// sort returns argument 0 sorted along the dimension of argument i, and where its elements came from.
func (l *Lowering) sort(i int, descending bool) {
	x := l.In(0)
	if x.Rank() == 0 || x.Shape().Numel() == 0 {
		l.Return(x, l.omitted(1))
		return
	}
	v, places := sorted(l.B, x, int64(acceptedDim(l.IntOr(i, -1), x.Rank())), descending)
	l.Return(v, l.finish(1, places))
}

// sorted is x sorted along dim and the places of its elements before, in the narrowest type.
func sorted(b *stablehlo.Builder, x value, dim int64, descending bool) (v, places value) {
	if !descending && x.DType() != dtype.Bool {
		return sortPlaces(b, x, dim)
	}
	// what counts is an integer key where the order of a type is not the one asked for
	key := x
	if x.DType() == dtype.Bool {
		key = b.Convert(x, dtype.U8)
	}
	places = b.Iota(shape.Of(placeType(x.Dim(int(dim))), x.Dims()), dim)
	got := b.Sort(dim, true, []value{key, places}, func(b *stablehlo.Builder, lhs, rhs []value) value {
		if !descending {
			return b.Compare(lhs[0], rhs[0], stablehlo.LT)
		}
		more := b.Compare(lhs[0], rhs[0], stablehlo.GT)
		if key.DType().IsFloat() {
			more = b.Or(more, b.And(b.IsNaN(lhs[0]), b.Not(b.IsNaN(rhs[0]))))
		}
		return more
	})
	return Convert(b, got[0], x.DType()), got[1]
}

func inferTopK(c *Ctx) error {
	s, k := c.In(0), c.Int(1)
	dim, err := WrapDim(c.IntOr(2, -1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case k < 0 || k > sizeAt(s, dim):
		return errs.New(errs.Runtime, "selected index k out of range")
	case s.DType.IsComplex():
		return errs.New(errs.Type, " topk does not support complex dtypes on CPU")
	case s.DType == dtype.Bool:
		return errs.New(errs.NotImpl, "topk does not support bool dtypes on CPU")
	}
	dims := append(c.dims[:0], s.Dims...)
	if len(dims) > 0 {
		dims[dim] = k
	}
	if err := c.Return(s.DType, dims...); err != nil {
		return err
	}
	return c.Return(dtype.I64, dims...)
}

// lowerTopK uses the compiler's own selection where its order is torch's. That is so for the largest, and for the
// smallest integers, whose complements order the other way round. The others sort.
func lowerTopK(l *Lowering) {
	b, x, k := l.B, l.In(0), l.Int(1)
	if x.Rank() == 0 {
		l.Return(b.Reshape(x, l.Out(0).Dims), l.omitted(1))
		return
	}
	if l.Out(0).Numel() == 0 {
		l.Return(l.omitted(0), l.omitted(1))
		return
	}
	dim, largest := acceptedDim(l.IntOr(2, -1), x.Rank()), l.Bool(3)
	if !largest && !x.DType().IsInt() {
		v, places := sorted(b, x, int64(dim), false)
		l.Return(b.SliceDim(v, int64(dim), 0, k, 1), l.finish(1, b.SliceDim(places, int64(dim), 0, k, 1)))
		return
	}
	switch {
	case !largest:
		x = b.Not(x)
	case x.DType().IsFloat(): // a NaN may carry a sign, by which the compiler would order it
		x = b.Select(b.IsNaN(x), b.ConstLike(x, math.NaN()), x)
	}
	toLast := swapped(x.Rank(), dim, x.Rank()-1)
	v, places := b.TopK(b.Transpose(x, toLast), k)
	if !largest {
		v = b.Not(v)
	}
	l.Return(b.Transpose(v, toLast), l.finish(1, b.Transpose(places, toLast)))
}

// searchRows place values among ordered ones.
var searchRows = []Row{
	searchsorted("searchsorted.Tensor", "(Tensor sorted_sequence, Tensor self, "+sideOptions).exactOut(),
	searchsorted("searchsorted.Scalar", "(Tensor sorted_sequence, Scalar self, "+sideOptions).exactOut(),
	bucketize("bucketize.Tensor", "(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor").exactOut(),
	bucketize("bucketize.Scalar", "(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor").exactOut(),
	isin("isin.Tensor_Tensor", "(Tensor elements, Tensor test_elements, "+isinOptions).exactOut(),
	isin("isin.Tensor_Scalar", "(Tensor elements, Scalar test_element, "+isinOptions).exactOut(),
	isin("isin.Scalar_Tensor", "(Scalar element, Tensor test_elements, "+isinOptions).exactOut(),
}

const (
	sideOptions = "*, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"
	isinOptions = "*, bool assume_unique=False, bool invert=False) -> Tensor"
)

// placeResult is the type of the places that a search finds.
func placeResult(narrow bool) dtype.DType {
	if narrow {
		return dtype.I32
	}
	return dtype.I64
}

func searchsorted(name, schema string) Row {
	return Row{Name: name, Schema: schema, Infer: inferSearchsorted,
		Lower: func(l *Lowering) {
			seq, v := l.searched(0, 1)
			if l.Has(5) {
				last := seq.Rank() - 1
				seq = takeAlong(l.B, seq, l.In(5), last)
			}
			l.Return(l.finish(0, search(l.B, seq, v, l.Bool(3) || l.Text(4) == "right")))
		}}
}

func bucketize(name, schema string) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			if s := c.In(1); len(s.Dims) != 1 {
				return errs.New(errs.Runtime, "boundaries tensor must be 1 dimension, but got dim(%d)", len(s.Dims))
			}
			if d := c.In(1).DType; d.IsComplex() || c.In(0).DType.IsComplex() {
				return notFor("searchsorted_out_cpu", d)
			}
			if _, err := c.Promote(0, 1); err != nil {
				return err
			}
			return c.Return(placeResult(c.Bool(2)), c.In(0).Dims...)
		},
		Lower: func(l *Lowering) {
			seq, v := l.searched(1, 0)
			l.Return(l.finish(0, search(l.B, seq, v, l.Bool(3))))
		}}
}

// searched is the ordered values and those to place, in their common type.
func (l *Lowering) searched(seq, v int) (value, value) {
	d, err := promote(&l.Args, l.Graph, dtype.F32, []int{seq, v})
	if err != nil {
		l.B.Failf("search", nil, "%v", err)
	}
	if d == dtype.Bool {
		d = dtype.U8
	}
	return l.As(seq, d), l.As(v, d)
}

func inferSearchsorted(c *Ctx) error {
	seq, v, sorter, side := c.In(0), c.In(1), c.In(5), c.Text(4)
	rank := len(seq.Dims)
	switch {
	case side != "" && side != "left" && side != "right":
		return errs.New(errs.Runtime, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side)
	case side == "left" && c.Bool(3):
		return errs.New(errs.Runtime, "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")
	case len(v.Dims) == 0 && rank != 1 && rank != 0:
		return errs.New(errs.Runtime, "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim(%d) and input value's dim(0) numel(1)", rank)
	case rank == 0:
		return errs.New(errs.Runtime, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
	case rank != 1 && (len(v.Dims) != rank || !slices.Equal(v.Dims[:rank-1], seq.Dims[:rank-1])):
		return errs.New(errs.Runtime, "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
			dimsText(seq.Dims), dimsText(v.Dims))
	case sorter != nil && !slices.Equal(sorter.Dims, seq.Dims):
		return errs.New(errs.Runtime, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %sand got sorter tensor %s",
			dimsText(seq.Dims), dimsText(sorter.Dims))
	case sorter != nil && sorter.DType != dtype.I64:
		return errs.New(errs.Runtime, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s", sorter.DType.C10())
	case seq.DType.IsComplex() || v.DType.IsComplex():
		return notFor("searchsorted_out_cpu", seq.DType)
	}
	if _, err := c.Promote(0, 1); err != nil {
		return err
	}
	return c.Return(placeResult(c.Bool(2)), v.Dims...)
}

// maxCounted is up to how many ordered values are compared with every value: it fuses, and for so few it
// is faster than a search.
const maxCounted = 128

// search is for each of the values how many of the ordered values (the last dimension of seq; the others
// are those of v, or none) are less, with right also the equal ones.
func search(b *stablehlo.Builder, seq, v value, right bool) value {
	n := seq.Dim(-1)
	d := placeType(n)
	dims := v.Dims()
	if n == 0 || v.Shape().Numel() == 0 {
		return b.Broadcast(zero(b, d), dims)
	}
	groups := product(seq.Dims()[:seq.Rank()-1])
	each := v.Shape().Numel() / groups
	seq, v = b.Reshape(seq, []int64{groups, n}), b.Reshape(v, []int64{groups, each})
	before := func(x, v value) value { // negated so that a NaN goes to the end
		if right {
			return b.Not(b.Compare(x, v, stablehlo.GT))
		}
		return b.Not(b.Compare(x, v, stablehlo.GE))
	}
	if n <= maxCounted {
		all := []int64{groups, each, n}
		hit := before(b.BroadcastInDim(seq, all, []int64{0, 2}), b.BroadcastInDim(v, all, []int64{0, 1}))
		return b.Reshape(b.ReduceSum(b.Convert(hit, d), []int64{2}), dims)
	}
	lo := b.Broadcast(zero(b, d), []int64{groups, each})
	hi := b.SplatLike(lo, stablehlo.Int(n))
	for range bits.Len64(uint64(n)) {
		half := b.Divide(b.Subtract(hi, lo), b.ConstLike(lo, 2))
		mid := b.Add(lo, half)
		open := b.Compare(lo, hi, stablehlo.LT)
		up := before(takeAlong(b, seq, mid, 1), v)
		next := b.Add(mid, b.ConstLike(mid, 1))
		hi = b.Select(b.And(open, b.Not(up)), mid, hi)
		lo = b.Select(b.And(open, up), next, lo)
	}
	return b.Reshape(lo, dims)
}

func isin(name, schema string) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			for i := range 2 {
				if d := c.In(i).DType; d.IsComplex() || d == dtype.Bool && name == "isin.Tensor_Tensor" {
					return errs.New(errs.NotImpl, "Unsupported input type encountered for isin(): %s", d.C10())
				}
			}
			if _, err := c.Promote(0, 1); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0).With(dtype.Bool))
		},
		Lower: lowerIsin}
}

// maxCompared is up to how many elements isin compares with each, before it sorts and searches.
const maxCompared = 1024

func lowerIsin(l *Lowering) {
	b, o := l.B, l.Out(0)
	tests, v := l.searched(1, 0)
	n := tests.Shape().Numel()
	tests = b.Reshape(tests, []int64{n})
	v = b.Reshape(v, []int64{o.Numel()})
	var found value
	switch {
	case n == 0 || o.Numel() == 0:
		found = b.Broadcast(zero(b, dtype.Bool), v.Dims())
	case n <= maxCompared:
		all := []int64{v.Dim(0), n}
		hit := b.Compare(b.BroadcastInDim(v, all, []int64{0}), b.BroadcastInDim(tests, all, []int64{1}), stablehlo.EQ)
		found = b.ReduceOr(hit, []int64{1})
	default:
		ordered, _ := sorted(b, tests, 0, false)
		at := search(b, ordered, v, false) // n for what is larger than all; the gather takes the last then
		found = b.Compare(takeRows(b, ordered, at, 0), v, stablehlo.EQ)
	}
	if l.Bool(3) {
		found = b.Not(found)
	}
	l.Return(b.Reshape(found, o.Dims))
}
