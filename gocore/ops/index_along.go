package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const (
	indexAddSchema = "(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"
	reduceSchema   = "(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"
)

// alongRows read and write whole slices of one dimension, or single elements of the flattened tensor.
var alongRows = []Row{
	{Name: "index_select", Schema: "(Tensor self, int dim, Tensor index) -> Tensor", Bounds: func(c *Ctx) []Bounds { return tableBounds(c, 2, axisSize(c)) }, Overlap: Apart, ExactOut: true, Infer: inferIndexSelect,
		Lower: func(l *Lowering) {
			x, index, dim := l.vector(0), l.vector(2), acceptedDim(l.Int(1), len(l.Shape(0).Dims))
			l.Return(l.finish(0, takeRows(l.B, x, index, dim)))
		}},
	{Name: "index_add", Schema: indexAddSchema, Bounds: func(c *Ctx) []Bounds {
		if len(c.In(0).Dims) <= 1 {
			return tableBounds(c, 2, axisSize(c))
		}
		return alongBounds(errs.Runtime, "", false)(c)
	}, Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error { return inferIndexReduce(c, "index_add_()") },
		Lower: func(l *Lowering) {
			d := l.Out(0).DType.Accumulate()
			x, index, source, dim := l.slices(d)
			if !l.literal(4, 1) {
				source = mul(l.B, l.Like(4, source), source)
			}
			l.Return(l.finish(0, putRows(l.B, x, index, source, dim, stablehlo.CombineAdd)))
		}},
	{Name: "index_reduce", Schema: reduceSchema, Bounds: func(c *Ctx) []Bounds { return tableBounds(c, 2, axisSize(c)) }, Overlap: ApartButSelf, ExactOut: true,
		Infer: func(c *Ctx) error {
			name := c.Text(4)
			if _, ok := reductions[name]; !ok || name == "sum" {
				return errs.New(errs.Runtime, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.", name)
			}
			return inferIndexReduce(c, "index_reduce_()")
		},
		Lower: func(l *Lowering) {
			x, index, source, dim := l.slices(l.Out(0).DType.Accumulate())
			l.Return(l.finish(0, reduceInto(l.B, reductions[l.Text(4)], l.Bool(5), x, source, func(x, update value, f stablehlo.Combiner) value {
				return putRows(l.B, x, index, update, dim, f)
			})))
		}},
	{Name: "index_copy", Schema: "(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", Bounds: alongBounds(errs.Index, "index_copy_(): ", false), Overlap: ApartButSelf, ExactOut: true, Infer: inferIndexCopy,
		Lower: func(l *Lowering) {
			x, index, source, dim := l.slices(l.Out(0).DType)
			l.Return(l.finish(0, putRows(l.B, x, index, source, dim, stablehlo.CombineReplace)))
		}},
	{Name: "index_fill.int_Scalar", Schema: "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Expanded: true, Overlap: ApartButSelf, Bounds: alongBounds(errs.Index, "", true), Infer: inferIndexFill, Lower: lowerIndexFill},
	{Name: "index_fill.int_Tensor", Schema: "(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", Expanded: true, Bounds: alongBounds(errs.Index, "", true), Infer: inferIndexFill, Lower: lowerIndexFill},
	{Name: "take", Schema: "(Tensor self, Tensor index) -> Tensor", Bounds: flatBounds, Overlap: Apart, ExactOut: true, Infer: inferTake,
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			n := l.Shape(0).Numel()
			l.Return(takeFlat(l.B, l.In(0), fromEnd(l.B, l.In(1), n, placeType(n))))
		}},
	{Name: "put", Unsafe: true, Schema: "(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", Strides: Preserved, Bounds: flatBounds, Overlap: ApartButSelf, Infer: inferPut, Lower: lowerPut},
}

// vector is a Tensor argument with at least one dimension.
func (l *Lowering) vector(i int) value {
	x := l.In(i)
	if x.Rank() == 0 {
		return l.B.Reshape(x, []int64{1})
	}
	return x
}

// slices is for an op (self, dim, index, source). It gives self and source in type d, the index as a vector, and the
// dimension that it counts.
func (l *Lowering) slices(d dtype.DType) (x, index, source value, dim int) {
	x, index = l.Convert(l.vector(0), d), l.vector(2)
	dim = acceptedDim(l.Int(1), x.Rank())
	dims := slices.Clone(x.Dims())
	dims[dim] = index.Dim(0)
	return x, index, l.B.Reshape(l.As(3, d), dims), dim
}

func isIndex(d dtype.DType) bool { return d == dtype.I32 || d == dtype.I64 }

// sizeAt is the size of a dimension; a 0-dim tensor counts as a vector of one.
func sizeAt(s *shape.Shape, dim int) int64 {
	if len(s.Dims) == 0 {
		return 1
	}
	return s.Dims[dim]
}

func inferIndexSelect(c *Ctx) error {
	s, index := c.In(0), c.In(2)
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case len(index.Dims) > 1:
		return errs.New(errs.Index, "index_select(): Index is supposed to be a vector")
	case len(s.Dims) == 0 && index.Numel() != 1:
		return errs.New(errs.Runtime, "index_select(): Index to scalar can have only 1 value, got %d value(s)", index.Numel())
	case !isIndex(index.DType):
		return errs.New(errs.Runtime, "index_select(): Expected dtype int32 or int64 for index")
	case sizeAt(s, dim) == 0 && index.Numel() > 0:
		return errs.New(errs.Runtime, "index_select(): self indexing axis dim should be positive")
	case len(s.Dims) == 0:
		return c.ReturnLike(s)
	}
	dims := append(c.dims[:0], s.Dims...)
	dims[dim] = index.Numel()
	return c.Return(s.DType, dims...)
}

// inferIndexReduce is the shape rule of index_add and index_reduce: torch's index_func_meta_impl.
func inferIndexReduce(c *Ctx, name string) error {
	s, index, source := c.In(0), c.In(2), c.In(3)
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case !isIndex(index.DType):
		return errs.New(errs.Runtime, "%s: Expected dtype int32/int64 for index but got: %s", name, index.DType.C10())
	case len(index.Dims) > 1:
		return errs.New(errs.Index, "%s: Index is supposed to be a vector, but got dim: %d with type: %s and size: %s",
			name, len(index.Dims), index.DType.C10(), dimsText(index.Dims))
	case s.DType != source.DType:
		return errs.New(errs.Runtime, "%s: self (%s) and source (%s) must have the same scalar type", name, s.DType.C10(), source.DType.C10())
	case !sameButFor(s, source, dim):
		return errs.New(errs.Runtime, "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = %s source.shape = %s",
			dimsText(s.Dims), dimsText(source.Dims))
	case index.Numel() != sizeAt(source, dim):
		return errs.New(errs.Runtime, "%s: Number of indices (%d) should be equal to source.size(dim): (%d), for dim: %d",
			name, index.Numel(), sizeAt(source, dim), dim)
	}
	return c.ReturnLike(s)
}

// sameButFor reports that two shapes agree in rank and in all dimensions but one.
func sameButFor(s, t *shape.Shape, dim int) bool {
	if len(s.Dims) != len(t.Dims) {
		return false
	}
	for i, n := range s.Dims {
		if i != dim && n != t.Dims[i] {
			return false
		}
	}
	return true
}

func inferIndexCopy(c *Ctx) error {
	s, index, source := c.In(0), c.In(2), c.In(3)
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	switch {
	case err != nil:
		return err
	case len(index.Dims) > 1:
		return errs.New(errs.Index, "index_copy_(): Index should have dimension 1 or 0 (got %d)", len(index.Dims))
	case len(source.Dims) == 0 && index.Numel() != 1:
		return errs.New(errs.Index, "index_copy_(): When source is scalar, index should have one element (got %d)", index.Numel())
	case len(source.Dims) != len(s.Dims) && len(source.Dims) > 0 && len(s.Dims) > 0:
		return errs.New(errs.Index, "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality (%d), destination dimensionality (%d)",
			len(source.Dims), len(s.Dims))
	case index.DType != dtype.I64:
		return errs.New(errs.Runtime, "index_copy_(): Expected a long tensor for index, but got %s", index.DType.C10())
	case s.DType != source.DType:
		return errs.New(errs.Runtime, "index_copy_(): self and source expected to have the same dtype, but got (self) %s and (source) %s", s.DType.C10(), source.DType.C10())
	case len(source.Dims) == 0 && product(s.Dims)/max(sizeAt(s, dim), 1) != 1, len(source.Dims) > 0 && len(s.Dims) > 0 && !sameButFor(s, source, dim):
		at := min(dim, max(len(source.Dims)-1, 0))
		return errs.New(errs.Runtime, "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: %s at dimension %d and source slice shape: %s at dimension %d.",
			sliceText(s, dim), dim, sliceText(source, at), at)
	case len(source.Dims) > 0 && index.Numel() != sizeAt(source, dim):
		return errs.New(errs.Index, "index_copy_(): Number of indices (%d) should be equal to source.size(dim) (%d)", index.Numel(), sizeAt(source, dim))
	}
	return c.ReturnLike(s)
}

// sliceText prints the dimensions of a slice as torch does, with only blanks: "4 2".
func sliceText(s *shape.Shape, dim int) string {
	text := ""
	for i, n := range s.Dims {
		if i == dim {
			continue
		}
		if text != "" {
			text += " "
		}
		text += itoa(n)
	}
	return text
}

func inferIndexFill(c *Ctx) error {
	s, index, v := c.In(0), c.In(2), c.In(3)
	switch {
	case len(v.Dims) > 0:
		return errs.New(errs.Runtime, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", len(v.Dims))
	case index.DType != dtype.I64:
		return errs.New(errs.Index, "index_fill_(): Expected dtype int64 for index.")
	case len(index.Dims) > 1:
		return errs.New(errs.Runtime, "Index has to be a vector/scalar")
	case v.DType.IsComplex() && !s.DType.IsComplex():
		return errs.New(errs.Runtime, "index_fill_(): Converting complex Scalar to non-complex type is not supported")
	}
	if _, err := WrapDim(c.Int(1), len(s.Dims)); err != nil {
		return err
	}
	return c.ReturnLike(s)
}

// lowerIndexFill marks the slices and selects: the scatter is of one dimension, the rest fuses.
func lowerIndexFill(l *Lowering) {
	b, x := l.B, l.vector(0)
	dim := acceptedDim(l.Int(1), x.Rank())
	n := x.Dim(dim)
	index := fromEnd(b, l.vector(2), n, placeType(n+1))
	yes := b.Splat(index.Shape().With(dtype.Bool), stablehlo.Bool(true))
	marked := putRows(b, b.Broadcast(zero(b, dtype.Bool), []int64{n}), index, yes, 0, stablehlo.CombineReplace)
	mask := b.BroadcastInDim(marked, x.Dims(), []int64{int64(dim)})
	l.Return(l.finish(0, b.Select(mask, l.Full(3, x.DType(), x.Dims()), x)))
}

func inferTake(c *Ctx) error {
	s, index := c.In(0), c.In(1)
	switch {
	case index.DType != dtype.I64:
		return errs.New(errs.Runtime, "take(): Expected a long tensor for index, but got %s", index.DType.C10())
	case s.Numel() == 0 && index.Numel() > 0:
		return errs.New(errs.Index, "take(): tried to take from an empty tensor")
	}
	return c.Return(s.DType, index.Dims...)
}

func inferPut(c *Ctx) error {
	s, index, source := c.In(0), c.In(1), c.In(2)
	switch {
	case index.DType != dtype.I64:
		return errs.New(errs.Runtime, "put_(): Expected a long tensor for index, but got %s", index.DType.C10())
	case s.DType != source.DType:
		return errs.New(errs.Runtime, "put_(): self and source expected to have the same dtype, but got self.dtype = %s and source.dtype = %s", s.DType.C10(), source.DType.C10())
	case source.Numel() != index.Numel():
		return errs.New(errs.Index, "put_(): Expected source and index to have the same number of elements, but got source.numel() = %d, index.numel() = %d", source.Numel(), index.Numel())
	case s.Numel() == 0 && index.Numel() > 0:
		return errs.New(errs.Index, "put_(): Tried to put elements into an empty tensor")
	}
	return c.ReturnLike(s)
}

func lowerPut(l *Lowering) {
	b, s := l.B, l.Shape(0)
	d, combine := s.DType, stablehlo.CombineReplace
	if l.Bool(3) {
		d, combine = s.DType.Accumulate(), stablehlo.CombineAdd
	}
	n, k := s.Numel(), l.Shape(1).Numel()
	x := b.Reshape(l.As(0, d), []int64{n})
	index := fromEnd(b, b.Reshape(l.In(1), []int64{k}), n, placeType(n+1))
	l.Return(l.finish(0, putRows(b, x, index, b.Reshape(l.As(2, d), []int64{k}), 0, combine)))
}
