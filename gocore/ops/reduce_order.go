package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// orderRows are the reductions that pick an element by its place in the order. Among equal elements
// they take the first, where torch leaves open which.
var orderRows = []Row{
	medianAll("median", false).byTorch(&Kernel{When: many(1 << 12)}), medianAll("nanmedian", true).byTorch(&Kernel{When: many(1 << 12)}),
	medianDim("median", false).byTorch(&Kernel{Out: "dim_values", When: many(1 << 12)}), medianDim("nanmedian", true).byTorch(&Kernel{Out: "dim_values", When: many(1 << 12)}),
	{Name: "kthvalue", Schema: "(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", Overlap: Apart, ExactOut: true, Torch: &Kernel{Out: "values", When: many(1 << 12)},
		Infer: func(c *Ctx) error {
			if err := inferPicked(c, "kthvalue", 2, true); err != nil {
				return err
			}
			s := c.In(0)
			dim, k, n := acceptedDim(c.Int(2), len(s.Dims)), c.Int(1), int64(1)
			if len(s.Dims) > 0 {
				n = s.Dims[dim]
			}
			if k < 1 || k > n {
				return errs.New(errs.Runtime, "kthvalue(): selected number k out of range for dimension %d", dim)
			}
			return nil
		},
		Lower: func(l *Lowering) {
			x, dim, ok := l.ordered(2)
			if !ok {
				return
			}
			k := l.Int(1) - 1
			v, places := sortPlaces(l.B, x, dim)
			l.Return(l.finish(0, l.B.SliceDim(v, dim, k, k+1, 1)), l.finish(1, l.B.SliceDim(places, dim, k, k+1, 1)))
		}},
	{Name: "mode", Schema: "(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", Overlap: Apart, ExactOut: true, Torch: &Kernel{Out: "values", When: many(1 << 14)},
		Infer: func(c *Ctx) error { return inferPicked(c, "mode", 1, false) },
		Lower: lowerMode},
}

// inferPicked returns values and indices of a reduction over the dimension of argument dim, which keepdim
// follows.
func inferPicked(c *Ctx, name string, dim int, noBool bool) error {
	s, a := c.In(0), axes{dim: dim, keep: dim + 1}
	if _, err := WrapDim(c.Int(dim), len(s.Dims)); err != nil {
		return err
	}
	if err := a.nonEmpty(c, name+"()", errs.Index); err != nil {
		return err
	}
	if s.DType.IsComplex() || noBool && s.DType == dtype.Bool {
		return notFor(name+"_cpu", s.DType)
	}
	if err := a.infer(c, s.DType); err != nil {
		return err
	}
	return a.infer(c, dtype.I64)
}

// ordered is argument 0 with the dimension of argument i; for a 0-dim operand it returns the results,
// the element and its place 0, and ok is false.
func (l *Lowering) ordered(i int) (x value, dim int64, ok bool) {
	x = l.In(0)
	if x.Rank() == 0 {
		l.Return(x, zero(l.B, dtype.I64))
		return x, 0, false
	}
	return x, int64(acceptedDim(l.Int(i), x.Rank())), true
}

// sortPlaces sorts x along dim in ascending order, NaN last, equal elements in their order, and says
// where each came from.
func sortPlaces(b *stablehlo.Builder, x value, dim int64) (sorted, places value) {
	places = b.Iota(shape.Of(placeType(x.Dim(int(dim))), x.Dims()), dim)
	got := b.Sort(dim, true, []value{x, places}, func(b *stablehlo.Builder, lhs, rhs []value) value {
		if x.DType().IsFloat() {
			return b.Or(b.Compare(lhs[0], rhs[0], stablehlo.LT), b.And(b.IsNaN(rhs[0]), b.Not(b.IsNaN(lhs[0]))))
		}
		return b.Compare(lhs[0], rhs[0], stablehlo.LT)
	})
	return got[0], got[1]
}

func medianAll(name string, skipNaN bool) Row {
	return Row{Name: name, Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if s.DType.IsComplex() || s.DType == dtype.Bool {
				return notFor("median_cpu", s.DType)
			}
			return c.Return(s.DType)
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			n := x.Shape().Numel()
			if n == 0 {
				l.Return(noMedian(l.B, x.DType()))
				return
			}
			v, _ := l.median(l.B.Reshape(x, []int64{n}), 0, skipNaN)
			l.Return(l.finish(0, v))
		}}
}

// noMedian is the median of nothing: NaN, or what C makes of NaN for an integer type.
func noMedian(b *stablehlo.Builder, d dtype.DType) value {
	switch {
	case d.IsFloat():
		return b.Scalar(d, stablehlo.Float(math.NaN()))
	case d == dtype.I32 || d == dtype.I64:
		return b.MinValue(d)
	}
	return zero(b, d)
}

func medianDim(name string, skipNaN bool) Row {
	return Row{Name: name + ".dim", Schema: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		Infer: func(c *Ctx) error { return inferPicked(c, "median", 1, true) },
		Lower: func(l *Lowering) {
			if x, dim, ok := l.ordered(1); ok {
				v, place := l.median(x, dim, skipNaN)
				l.Return(l.finish(0, v), l.finish(1, place))
			}
		}}
}

// median is the lower of the middle elements along dim and its place. A NaN is the median of what holds
// one, unless NaNs are skipped.
func (l *Lowering) median(x value, dim int64, skipNaN bool) (v, place value) {
	b, n := l.B, x.Dim(int(dim))
	sorted, places := sortPlaces(b, x, dim)
	middle := (n - 1) / 2
	if !x.DType().IsFloat() {
		return b.SliceDim(sorted, dim, middle, middle+1, 1), b.SliceDim(places, dim, middle, middle+1, 1)
	}
	isNaN, dims := b.IsNaN(x), []int64{dim}
	if skipNaN {
		d := places.DType()
		numbers := b.ReduceSum(b.Convert(b.Not(isNaN), d), dims)
		at := b.Divide(b.Subtract(numbers, b.ConstLike(numbers, 1)), b.ConstLike(numbers, 2))
		return elementAt(b, sorted, at, dim), elementAt(b, places, at, dim)
	}
	drop := func(v value) value { return b.ReduceSum(b.SliceDim(v, dim, middle, middle+1, 1), dims) }
	bad := b.ReduceOr(isNaN, dims)
	v = b.Select(bad, b.ConstLike(drop(sorted), math.NaN()), drop(sorted))
	return v, b.Select(bad, l.first(isNaN, dim), l.Convert(drop(places), dtype.I64))
}

// elementAt is the element of x at place at[…] of dim, which disappears: a masked sum, which fuses.
func elementAt(b *stablehlo.Builder, x, at value, dim int64) value {
	dims := []int64{dim}
	hit := b.Compare(b.Iota(x.Shape().With(at.DType()), dim), unreduce(b, at, x.Dims(), dims), stablehlo.EQ)
	if x.DType() == dtype.Bool {
		return b.ReduceOr(b.And(hit, x), dims)
	}
	return b.ReduceSum(b.Select(hit, x, b.ConstLike(x, 0)), dims)
}

// lowerMode finds the longest run in the sorted elements, the first of several, and takes its last one.
func lowerMode(l *Lowering) {
	x, dim, ok := l.ordered(1)
	if !ok {
		return
	}
	b := l.B
	sorted, places := sortPlaces(b, x, dim)
	n, d := x.Dim(int(dim)), places.DType()
	if x.Shape().Numel() == 0 {
		l.Return(l.omitted(0), l.omitted(1))
		return
	}
	at := b.Iota(places.Shape(), dim)
	starts := at
	if n > 1 {
		differ := b.Compare(b.SliceDim(sorted, dim, 0, n-1, 1), b.SliceDim(sorted, dim, 1, n, 1), stablehlo.NE)
		head := b.SliceDim(at, dim, 0, 1, 1)
		tail := b.SliceDim(at, dim, 1, n, 1)
		starts = b.Concatenate(dim, head, b.Select(differ, tail, b.ConstLike(tail, 0)))
	}
	runs := b.Subtract(at, cumulative(b, []value{starts}, dim, stablehlo.CombineMax)[0])
	dims := []int64{dim}
	longest := over(b, (*stablehlo.Builder).ReduceMax, runs, dims)
	end := l.Convert(l.first(b.Compare(runs, longest, stablehlo.EQ), dim), d)
	l.Return(l.finish(0, elementAt(b, sorted, end, dim)), l.finish(1, elementAt(b, places, end, dim)))
}
