package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// groupedProductRows is the product of groups of different sizes, which mixtures of experts use. offs are the ends of
// the groups along the dimension that is not the same in all of them.
//
//	[s, k] × [g, k, n] → [s, n]    each group of rows with a matrix of its own
//	[g, m, k] × [k, s] → [m, s]    each group of columns
//	[m, s] × [s, n]    → [g, m, n] each group of the dimension that is summed over
//	[g, m, k] × [g, k, n] → [g, m, n], without offs
var groupedProductRows = []Row{
	{Name: "_grouped_mm", Unsafe: true, Schema: "(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
		Infer: inferGrouped, Lower: lowerGrouped},
}

func inferGrouped(c *Ctx) error {
	x, y, offs := c.In(0), c.In(1), c.In(2)
	rx, ry := len(x.Dims), len(y.Dims)
	switch {
	case rx != 2 && rx != 3:
		return errs.New(errs.Runtime, "mat_a has to be 2 or 3d")
	case ry != 2 && ry != 3:
		return errs.New(errs.Runtime, "mat_b has to be 2 or 3d")
	case rx == 2 || ry == 2:
		if offs == nil {
			return errs.New(errs.Runtime, "Have to provide offsets if one of mat_a or mat_b is 2d")
		}
		if len(offs.Dims) != 1 || offs.DType != dtype.I32 {
			return errs.New(errs.Runtime, "Offsets have to be int32 and 1-dimensional, got %s", offs)
		}
	case offs != nil:
		return errs.New(errs.Runtime, "Have to have no offsets if mat_a and mat_b are both 3d")
	}
	switch {
	case x.DType != y.DType || !x.DType.IsFloat():
		return errs.New(errs.Runtime, "grouped_mm: expected matrices of one floating type, got %s and %s", x.DType, y.DType)
	case x.Dims[rx-1] != y.Dims[ry-2]:
		return errs.New(errs.Runtime, "contraction dimension of mat_a and mat_b must match")
	case c.Has(3):
		return errs.New(errs.Runtime, "Bias not supported yet")
	case c.Has(4) && c.Type(4) != x.DType:
		return errs.New(errs.Runtime, "Grouped gemm output dtype must match `mat_a` dtype")
	}
	m, n := x.Dims[rx-2], y.Dims[ry-1]
	groups := func(s *shape.Shape) int64 {
		if offs != nil {
			return offs.Dims[0]
		}
		return s.Dims[0]
	}
	if rx == 3 && x.Dims[0] != groups(y) || ry == 3 && y.Dims[0] != groups(x) {
		return errs.New(errs.Runtime, "matrix batch sizes have to match")
	}
	if rx == ry {
		return c.Return(x.DType, groups(x), m, n)
	}
	return c.Return(x.DType, m, n)
}

// lowerGrouped multiplies with the matrices of all groups and keeps of each what belongs to it. Sizes of groups are
// values, and shapes must not depend on them.
func lowerGrouped(l *Lowering) {
	b, x, y := l.B, l.In(0), l.In(1)
	var out value
	switch rx, ry := x.Rank(), y.Rank(); {
	case rx == 2 && ry == 3: // [s, g, n]
		p := l.dot(x, y, stablehlo.DotDims{LhsContract: []int64{1}, RhsContract: []int64{1}})
		out = l.ofGroup(p, 0, 1)
	case rx == 3 && ry == 2: // [g, m, s]
		p := l.dot(x, y, stablehlo.DotDims{LhsContract: []int64{2}, RhsContract: []int64{0}})
		out = l.ofGroup(p, 2, 0)
	case rx == 2: // zeros for both sides: what is not finite outside of a group must not reach it
		g := l.Shape(2).Dims[0]
		x = l.ofGroupOnly(b.BroadcastInDim(x, []int64{g, x.Dim(0), x.Dim(1)}, []int64{1, 2}), 2, 0)
		y = l.ofGroupOnly(b.BroadcastInDim(y, []int64{g, y.Dim(0), y.Dim(1)}, []int64{1, 2}), 1, 0)
		out = l.product(x, y)
	default:
		out = l.product(x, y)
	}
	l.Return(l.Convert(out, l.Out(0).DType))
}

// ofGroup sums over the dimension of groups, each place along a dimension counting only in its group.
func (l *Lowering) ofGroup(v value, along, groups int) value {
	return l.B.ReduceSum(l.ofGroupOnly(v, along, groups), []int64{int64(groups)})
}

// ofGroupOnly is v with zeros where the place along a dimension is not in the group.
func (l *Lowering) ofGroupOnly(v value, along, groups int) value {
	b, ends := l.B, l.In(2)
	n := ends.Dim(0)
	starts := b.Concatenate(0, b.Broadcast(zero(b, dtype.I32), []int64{1}), b.SliceDim(ends, 0, 0, n-1, 1))
	spread := func(w value) value { return b.BroadcastInDim(w, v.Dims(), []int64{int64(groups)}) }
	place := b.Iota(shape.Of(dtype.I32, v.Dims()), int64(along))
	inside := b.And(b.Compare(place, spread(starts), stablehlo.GE), b.Compare(place, spread(ends), stablehlo.LT))
	return b.Select(inside, v, b.ConstLike(v, 0))
}
