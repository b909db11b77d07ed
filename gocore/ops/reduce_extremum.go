package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// extremumRows are maxima and minima, by value and by place.
var extremumRows = []Row{
	extremum("amax", "max_values_cpu", amaxSchema, overDim, greatest).exactOut(),
	extremum("amin", "min_values_cpu", amaxSchema, overDim, least).exactOut(),
	extremum("max", "max_all", unarySchema, overAll, greatest).overlapping(Apart).shortcut("max"),
	extremum("min", "min_all", unarySchema, overAll, least).overlapping(Apart).shortcut("min"),
	extremumDim("max", greatest).overlapping(Apart).exactOut(),
	extremumDim("min", least).overlapping(Apart).exactOut(),
	extremumPlace("argmax", greatest).exactOut(),
	extremumPlace("argmin", least).exactOut(),
	aminmax("aminmax", "(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", overDim).exactOut(),
	aminmax("_aminmax", "(Tensor self) -> (Tensor, Tensor)", overAll),
	aminmax("_aminmax.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", overDim),
}

const amaxSchema = "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"

// reducer is a reduction over some dimensions, such as Builder.ReduceSum.
type reducer func(b *stablehlo.Builder, x value, dims []int64) value

// greatest is the maximum over dims, NaN if there is one.
func greatest(b *stablehlo.Builder, x value, dims []int64) value {
	switch {
	case !x.DType().IsFloat():
		return b.ReduceMax(x, dims)
	case b.Partitions() > 0:
		return withNaN(b, x, dims, (*stablehlo.Builder).ReduceMax)
	}
	return byComparison(b, x, b.MinValue(x.DType()), dims, stablehlo.GE)
}

// least is the minimum over dims, NaN if there is one.
func least(b *stablehlo.Builder, x value, dims []int64) value {
	switch {
	case !x.DType().IsFloat():
		return b.ReduceMin(x, dims)
	case b.Partitions() > 0:
		return withNaN(b, x, dims, (*stablehlo.Builder).ReduceMin)
	}
	return byComparison(b, x, b.MaxValue(x.DType()), dims, stablehlo.LE)
}

// byComparison keeps NaN by comparing: XLA:CPU vectorizes maximum and minimum in a way that loses it.
func byComparison(b *stablehlo.Builder, x, init value, dims []int64, prefer stablehlo.Direction) value {
	return inTwo(b, x, dims, func(b *stablehlo.Builder, x value, dims []int64) value {
		return b.Reduce([]value{x}, []value{init}, dims, preferring(prefer))[0]
	})
}

// withNaN is a reduction that is NaN where x has one. It is the way where x may be sharded: the partitioner
// makes the combiner that of an all-reduce, and backends know few.
func withNaN(b *stablehlo.Builder, x value, dims []int64, f reducer) value {
	best := f(b, x, dims)
	return b.Select(b.ReduceOr(b.IsNaN(x), dims), b.ConstLike(best, math.NaN()), best)
}

// preferring combines to the operand that compares so with the other, or to the NaN.
func preferring(prefer stablehlo.Direction) stablehlo.Combiner {
	return func(b *stablehlo.Builder, lhs, rhs []value) []value {
		keep := b.Compare(lhs[0], rhs[0], prefer)
		if lhs[0].DType().IsFloat() {
			keep = b.Or(keep, b.IsNaN(lhs[0]))
		}
		return []value{b.Select(keep, lhs[0], rhs[0])}
	}
}

func extremum(name, kernel, schema string, a axes, f reducer) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if s.DType.IsComplex() {
				return notFor(kernel, s.DType)
			}
			if err := a.nonEmpty(c, name+"()", errs.Runtime); err != nil {
				return err
			}
			return a.infer(c, s.DType)
		},
		Lower: func(l *Lowering) { l.Return(l.finish(0, f(l.B, l.In(0), a.list(l)))) }}
}

func extremumDim(name string, f reducer) Row {
	return Row{Name: name + ".dim", Schema: "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if _, err := WrapDim(c.Int(1), len(s.Dims)); err != nil {
				return err
			}
			if s.DType.IsComplex() {
				return errs.New(errs.Type, "%s(): does not support complex input", name)
			}
			if err := overDim.nonEmpty(c, name+"()", errs.Index); err != nil {
				return err
			}
			if err := overDim.infer(c, s.DType); err != nil {
				return err
			}
			return overDim.infer(c, dtype.I64)
		},
		Lower: func(l *Lowering) {
			best, place := l.locate(l.In(0), overDim.list(l), f)
			l.Return(l.finish(0, best), l.finish(1, place))
		}}
}

func extremumPlace(name string, f reducer) Row {
	return Row{Name: name, Schema: "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			switch {
			case s.DType.IsComplex():
				return errs.New(errs.Type, "%s(): does not support complex input", name)
			case s.DType == dtype.Bool:
				return errs.New(errs.NotImpl, "%s(): does not support bool input", name)
			case !c.Has(1) && s.Numel() == 0:
				return errs.New(errs.Index, "%s(): Expected reduction dim to be specified for input.numel() == 0.", name)
			}
			if c.Has(1) {
				if err := overDim.nonEmpty(c, name+"()", errs.Index); err != nil {
					return err
				}
			}
			return overDim.infer(c, dtype.I64)
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			dims := overDim.list(l)
			if !l.Has(1) { // the place is counted in the flattened tensor
				x, dims = l.B.Reshape(x, []int64{x.Shape().Numel()}), []int64{0}
			}
			_, place := l.locate(x, dims, f)
			l.Return(l.finish(0, place))
		}}
}

// locate reduces x over at most one dimension and finds the first place of the extremum there. If there is a NaN, that
// is the first NaN's. Two plain reductions vectorize where one over pairs does not.
func (l *Lowering) locate(x value, dims []int64, f reducer) (best, place value) {
	b := l.B
	best = f(b, x, dims)
	if len(dims) == 0 {
		return best, b.Broadcast(zero(b, dtype.I64), x.Dims())
	}
	hit := b.Compare(x, unreduce(b, best, x.Dims(), dims), stablehlo.EQ)
	if x.DType().IsFloat() {
		hit = b.Or(hit, b.IsNaN(x))
	}
	return best, l.first(hit, dims[0])
}

// first is the first place along dim where hit is true.
func (l *Lowering) first(hit value, dim int64) value {
	b, d := l.B, placeType(hit.Dim(int(dim)))
	places := b.Iota(hit.Shape().With(d), dim)
	none := b.Broadcast(b.MaxValue(d), hit.Dims())
	return l.Convert(b.ReduceMin(b.Select(hit, places, none), []int64{dim}), dtype.I64)
}

// placeType is the type to count n places in: narrow integers vectorize better.
func placeType(n int64) dtype.DType {
	if n < math.MaxInt32 {
		return dtype.I32
	}
	return dtype.I64
}

func aminmax(name, schema string, a axes) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if s.DType.IsComplex() {
				return errs.New(errs.Type, "aminmax not implemented for %s", s.DType.C10())
			}
			if s.Numel() == 0 && (a.dim == 0 || !c.Has(a.dim)) {
				return errs.New(errs.Runtime, "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
			}
			if err := a.nonEmpty(c, "aminmax", errs.Index); err != nil {
				return err
			}
			if err := a.infer(c, s.DType); err != nil {
				return err
			}
			return c.ReturnLike(c.outs[0])
		},
		Lower: func(l *Lowering) {
			x, dims := l.In(0), a.list(l)
			l.Return(l.finish(0, least(l.B, x, dims)), l.finish(1, greatest(l.B, x, dims)))
		}}
}
