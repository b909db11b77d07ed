package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// moveRows reorder, repeat or blank out elements.
var moveRows = []Row{
	{Name: "flip", Schema: "(Tensor self, int[] dims) -> Tensor", Strides: Preserved,
		Infer: func(c *Ctx) error {
			if _, err := flipped(c.Ints(1), len(c.In(0).Dims)); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			set, err := flipped(l.Ints(1), len(l.Shape(0).Dims))
			if err != nil {
				l.B.Failf("flip", nil, "%v", err)
			}
			l.Return(reversed(l.B, l.In(0), set.list()))
		}},
	{Name: "roll", Schema: "(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", Offsets: []int{1}, Infer: inferRoll, Lower: lowerRoll},
	{Name: "repeat", Schema: "(Tensor self, SymInt[] repeats) -> Tensor", Infer: inferRepeat, Lower: lowerRepeat},
	{Name: "repeat_interleave.Tensor", Schema: "(Tensor repeats, *, SymInt? output_size=None) -> Tensor", Infer: inferRepeatInterleave,
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			l.Return(l.finish(0, repeats(l.B, l.As(0, dtype.I64), l.Out(0).Dims[0])))
		}},
	triangular("tril", stablehlo.LE).exactOut(), triangular("triu", stablehlo.GE).exactOut(),
	{Name: "trace", Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if len(s.Dims) != 2 {
				return errs.New(errs.Runtime, "trace: expected a matrix, but got tensor with dim %d", len(s.Dims))
			}
			return c.Return(sumAs(s.DType))
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Out(0).DType.Accumulate()
			x := l.As(0, d)
			kept := b.Select(onDiagonal(b, x.Dims(), 0, 1, 0), x, b.ConstLike(x, 0))
			l.Return(l.finish(0, b.ReduceSum(kept, []int64{0, 1})))
		}},
}

// sumAs is the type of a sum of elements of type d.
func sumAs(d dtype.DType) dtype.DType {
	if d.IsIntegral() {
		return dtype.I64
	}
	return d
}

// flipped is a set of dimensions; a 0-dim tensor has one to name, and none to turn round.
func flipped(dims []int64, rank int) (dimSet, error) { return dimsOf(dims, rank) }

func inferRoll(c *Ctx) error {
	s, shifts, dims := c.In(0), c.IDs(1), c.Ints(2)
	switch {
	case len(shifts) == 0:
		return errs.New(errs.Runtime, "`shifts` required")
	case len(dims) == 0 && len(shifts) == 1:
	case len(dims) != len(shifts):
		return errs.New(errs.Runtime, "shifts and dimensions must align. shifts: %d, dims:%d", len(shifts), len(dims))
	}
	for _, d := range dims {
		if len(s.Dims) == 0 {
			return errs.New(errs.Index, "Dimension specified as %d but tensor has no dimensions", d)
		}
		if _, err := WrapDim(d, len(s.Dims)); err != nil {
			return err
		}
	}
	stored, size := c.Graph.Stored(c.ID(0)), s.Numel()
	for i, id := range shifts {
		if len(dims) > 0 {
			size = s.Dims[acceptedDim(dims[i], len(s.Dims))]
		}
		n, _ := c.Graph.Number(id)
		if !stored && !c.Graph.HasDynamicStart(size, -n.I) { // two slices side by side, which fuse with what is around them
			c.Graph.Bake(id)
			continue
		}
		c.Graph.AddDynamicStart(size, n.I) // the gradient rolls it back
	}
	return c.ReturnLike(s)
}

func lowerRoll(l *Lowering) {
	x, dims := l.In(0), l.Ints(2)
	if len(dims) == 0 {
		x = l.B.Reshape(x, []int64{x.Shape().Numel()})
		dims = []int64{0}
	}
	for i, d := range dims {
		x = l.rolled(x, int64(acceptedDim(d, x.Rank())), l.IDs(1)[i])
	}
	l.Return(l.finish(0, x))
}

// rolled moves the elements of a dimension by n places; those that leave at the end come in at the start.
func (l *Lowering) rolled(x value, dim int64, n ir.ID) value {
	b, size := l.B, x.Dim(int(dim))
	if size == 0 {
		return x
	}
	if l.Graph.At(n).Flags&ir.Param == 0 {
		shift, _ := l.Graph.Number(n)
		at := ((-shift.I)%size + size) % size
		if at == 0 {
			return x
		}
		return b.Concatenate(dim, b.SliceDim(x, dim, at, size, 1), b.SliceDim(x, dim, 0, at, 1))
	}
	at := b.Remainder(b.Negate(l.value(n, dtype.I64)), b.Scalar(dtype.I64, stablehlo.Int(size)))
	starts := slices.Repeat([]value{zero(b, dtype.I64)}, x.Rank())
	starts[dim] = wrapped(b, at, size)
	return b.DynamicSlice(b.Concatenate(dim, x, x), starts, x.Dims())
}

func inferRepeat(c *Ctx) error {
	s, repeats := c.In(0), c.Ints(1)
	if len(repeats) < len(s.Dims) {
		return errs.New(errs.Runtime, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
	}
	dims := append(c.dims[:0], repeats...)
	for i, n := range s.Dims {
		dims[len(repeats)-len(s.Dims)+i] *= n
	}
	for _, n := range dims {
		if n < 0 {
			return errs.New(errs.Runtime, "Trying to create tensor with negative dimension %d: %s", n, dimsText(dims))
		}
	}
	return c.Return(s.DType, dims...)
}

// lowerRepeat broadcasts with a dimension for each count before that which it repeats.
func lowerRepeat(l *Lowering) {
	x, o := l.In(0), l.Out(0)
	if o.Numel() == 0 {
		l.Return(l.omitted(0))
		return
	}
	counts := l.Ints(1)
	missing := len(counts) - x.Rank()
	var dims, mapping []int64
	for i, n := range counts {
		if i < missing || n > 1 {
			dims = append(dims, n)
		}
		if i >= missing {
			mapping = append(mapping, int64(len(dims)))
			dims = append(dims, x.Dim(i-missing))
		}
	}
	l.Return(l.B.Reshape(l.B.BroadcastInDim(x, dims, mapping), o.Dims))
}

func inferRepeatInterleave(c *Ctx) error {
	s := c.In(0)
	switch {
	case len(s.Dims) != 1:
		return errs.New(errs.Runtime, "repeat_interleave only accept 1D vector as repeat")
	case s.DType != dtype.I64 && s.DType != dtype.I32:
		return notFor("repeat_interleave_cpu", s.DType)
	case s.Numel() == 0:
		return c.Return(s.DType, 0)
	case !c.Has(1):
		return errs.New(errs.NotLower, "aten::repeat_interleave.Tensor: the size of the result depends on the values of repeats; give output_size")
	}
	return c.Return(s.DType, c.Int(1))
}

// triangular keeps the elements at (i, j) with j − i ≤ or ≥ diagonal.
func triangular(name string, keep stablehlo.Direction) Row {
	return Row{Name: name, Schema: "(Tensor self, SymInt diagonal=0) -> Tensor",
		Infer: func(c *Ctx) error {
			if len(c.In(0).Dims) < 2 {
				return errs.New(errs.Runtime, "%s: input tensor must have at least 2 dimensions", name)
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			b, x := l.B, l.In(0)
			rows, cols := x.Dim(-2), x.Dim(-1)
			offset := min(max(l.Int(1), -rows-1), cols+1)
			plane := shape.Make(placeType(max(rows, cols)*2+2), rows, cols)
			i, j := b.Iota(plane, 0), b.Iota(plane, 1)
			if offset != 0 {
				i = b.Add(i, b.Splat(plane, stablehlo.Int(offset)))
			}
			mask := b.Broadcast(b.Compare(j, i, keep), x.Dims())
			l.Return(b.Select(mask, x, b.ConstLike(x, 0)))
		}}
}

// others is the dimensions of s but two, and the sizes of those.
func others(s []int64, dim1, dim2 int) []int64 {
	dims := slices.Clone(s)
	for _, d := range []int{max(dim1, dim2), min(dim1, dim2)} {
		dims = slices.Delete(dims, d, d+1)
	}
	return dims
}
