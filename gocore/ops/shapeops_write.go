package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// partRows write to a part of a tensor. They are the functional forms of writing to a view (…_scatter), and the
// gradients of views (…_backward), which are such a write to zeros. Where they write is an argument of the program if
// reads have one. That is so in a stored value, and in the gradient of such a read. Else pads, and masks, fuse with
// what is around them.
var partRows = []Row{
	{Name: "select_scatter", Schema: "(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", Strides: Preserved, Offsets: []int{3},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dim, _, err := selected(s.Dims, c.Int(2), c.Int(3))
			if err != nil {
				return err
			}
			c.bakeUnless(c.Graph.Stored(c.ID(0)), 3)
			return c.fill(append(append(c.dims[:0], s.Dims[:dim]...), s.Dims[dim+1:]...))
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			dim := acceptedDim(l.Int(2), x.Rank())
			l.Return(l.put(x, l.raised(1, dim), 3, dim))
		}},
	{Name: "select_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor", Offsets: []int{3},
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			dim, at, err := selected(size, c.Int(2), c.Int(3))
			if err != nil {
				return err
			}
			c.bakeUnless(c.dynamicStart(size, dim, at), 3)
			return c.spread(append(append(c.dims[:0], size[:dim]...), size[dim+1:]...), size)
		},
		Lower: func(l *Lowering) {
			size := l.Ints(1)
			dim, at, err := selected(size, l.Int(2), l.Int(3))
			if err != nil {
				l.B.Failf("select_backward", nil, "%v", err)
			}
			block := slices.Clone(size)
			block[dim] = 1
			g := l.B.Broadcast(l.In(0), slices.Concat(size[:dim], size[dim+1:]))
			l.Return(l.gradientAt(3, l.B.Reshape(g, block), slicing{dim, at, 1, 1}))
		}},
	{Name: "slice_scatter", Schema: "(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", Strides: Preserved, ExactOut: true, Offsets: []int{3, 4},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			p, err := sliced(s.Dims, c.Int(2), c.IntOr(3, 0), c.IntOr(4, math.MaxInt64), c.IntOr(5, 1))
			if err != nil {
				return err
			}
			dims := append(c.dims[:0], s.Dims...)
			dims[p.dim] = p.n
			c.bakeUnless(p.step == 1 && c.Graph.Stored(c.ID(0)), 3, 4)
			return c.fill(dims)
		},
		Lower: func(l *Lowering) {
			p, err := sliced(l.Shape(0).Dims, l.Int(2), l.IntOr(3, 0), l.IntOr(4, math.MaxInt64), l.IntOr(5, 1))
			if err != nil {
				l.B.Failf("slice_scatter", nil, "%v", err)
			}
			x, block := l.In(0), l.As(1, l.Out(0).DType)
			if p.step == 1 {
				l.Return(l.put(x, block, 3, p.dim))
				return
			}
			l.Return(writePart(l.B, x, block, p.dim, p.start, p.step))
		}},
	{Name: "slice_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor", Offsets: []int{3, 4},
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			p, err := sliced(size, c.Int(2), c.Int(3), c.Int(4), c.Int(5))
			if err != nil {
				return err
			}
			part := append(c.dims[:0], size...)
			part[p.dim] = p.n
			c.bakeUnless(slices.Equal(part, c.In(0).Dims) && c.dynamicStart(size, p.dim, p.start), 3, 4)
			return c.spread(part, size)
		},
		Lower: func(l *Lowering) {
			p, err := sliced(l.Ints(1), l.Int(2), l.Int(3), l.Int(4), l.Int(5))
			if err != nil {
				l.B.Failf("slice_backward", nil, "%v", err)
			}
			part := slices.Clone(l.Ints(1))
			part[p.dim] = p.n
			l.Return(l.gradientAt(3, l.B.Broadcast(l.In(0), part), p))
		}},
	{Name: "diagonal_scatter", Schema: "(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", Strides: Preserved, Offsets: []int{2},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dim1, dim2, err := diagonalDims(c.Int(3), c.Int(4), len(s.Dims))
			if err != nil {
				return err
			}
			c.bakeUnless(c.Graph.Stored(c.ID(0)), 2)
			return c.fill(append(others(s.Dims, dim1, dim2), diagonalSize(s.Dims[dim1], s.Dims[dim2], c.Int(2))))
		},
		Lower: func(l *Lowering) {
			x, o := l.In(0), l.Out(0)
			l.Return(l.onto(x, l.As(1, o.DType), 2, l.Int(3), l.Int(4)))
		}},
	{Name: "diagonal_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor", Offsets: []int{2},
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			dim1, dim2, err := diagonalDims(c.Int(3), c.Int(4), len(size))
			if err != nil {
				return err
			}
			rows, cols, offset := size[dim1], size[dim2], c.Int(2)
			part := append(others(size, dim1, dim2), diagonalSize(rows, cols, offset))
			c.bakeUnless(slices.Equal(part, c.In(0).Dims) && c.Graph.HasDynamicStart(rows*cols, max(offset, -offset*cols)), 2)
			return c.spread(part, size)
		},
		Lower: func(l *Lowering) { l.Return(l.onto(l.omitted(0), l.In(0), 2, l.Int(3), l.Int(4))) }},
	{Name: "diag_embed", Schema: "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Infer: inferDiagEmbed,
		Lower: func(l *Lowering) { l.Return(l.onto(l.omitted(0), l.In(0), 1, l.Int(2), l.Int(3))) }},
	{Name: "unfold_backward", Schema: "(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
		Infer: func(c *Ctx) error {
			if _, err := WrapDim(c.Int(2), len(c.Ints(1))); err != nil {
				return err
			}
			return c.Return(c.In(0).DType, c.Ints(1)...)
		},
		Lower: lowerUnfoldBackward},
}

// fill returns self (argument 0) if src (argument 1) has the dimensions of the part that it fills.
func (c *Ctx) fill(dims []int64) error {
	if src := c.In(1); !slices.Equal(src.Dims, dims) {
		return errs.New(errs.Runtime, "expected src to have a size equal to the slice of self. src size = %s, slice size = %s", dimsText(src.Dims), dimsText(dims))
	}
	return c.ReturnLike(c.In(0))
}

// spread returns size if the gradient, argument 0, broadcasts to the dimensions of the part.
func (c *Ctx) spread(part, size []int64) error {
	if err := checkExpand(c.In(0), part...); err != nil {
		return err
	}
	return c.Return(c.In(0).DType, size...)
}

// selected wraps the dimension and the index of a select.
func selected(dims []int64, dim, index int64) (d int, at int64, err error) {
	if len(dims) == 0 {
		return 0, 0, errs.New(errs.Index, "select() cannot be applied to a 0-dim tensor.")
	}
	if d, err = WrapDim(dim, len(dims)); err != nil {
		return
	}
	if n := dims[d]; index < -n || index >= n {
		return 0, 0, errs.New(errs.Index, "select(): index %d out of range for tensor of size %s at dimension %d", index, dimsText(dims), d)
	}
	if index < 0 {
		index += dims[d]
	}
	return d, index, nil
}

// bakeUnless makes offsets part of the program.
func (c *Ctx) bakeUnless(argument bool, offsets ...int) {
	for _, i := range offsets {
		if id := c.ID(i); !argument && id != ir.None {
			c.Graph.Bake(id)
		}
	}
}

// dynamicStart reports that a part has been read that begins at a place of a dimension, which is an argument.
func (c *Ctx) dynamicStart(size []int64, dim int, at int64) bool {
	inner, all := product(size[dim+1:]), product(size)
	return c.Graph.HasDynamicStart(size[dim], at) || c.Graph.HasDynamicStart(all, at*inner)
}

// gradientAt is zeros with block at p, whose start is argument i.
func (l *Lowering) gradientAt(i int, block value, p slicing) value {
	if !l.isLiteral(i) {
		if p.step > 1 && p.n > 1 {
			window := slices.Clone(block.Dims())
			window[p.dim] = (p.n-1)*p.step + 1
			block = padPart(l.B, block, window, p.dim, 0, p.step)
		}
		return l.put(l.omitted(0), block, i, p.dim)
	}
	return padPart(l.B, block, l.Out(0).Dims, p.dim, p.start, p.step)
}

// put is x with block at argument i along dim, an offset, which counts from the end if it is negative.
func (l *Lowering) put(x, block value, i, dim int) value {
	if block.Shape().Numel() == 0 {
		return x
	}
	b := l.B
	starts := slices.Repeat([]value{zero(b, dtype.I64)}, x.Rank())
	if at := l.ID(i); at != ir.None {
		starts[dim] = wrapped(b, l.value(at, dtype.I64), x.Dim(dim))
	}
	return b.DynamicUpdateSlice(x, block, starts)
}

// wrapped is the place at in a dimension of n, which counts from the end if it is negative.
func wrapped(b *stablehlo.Builder, at value, n int64) value {
	return b.Select(b.Compare(at, zero(b, at.DType()), stablehlo.LT), b.Add(at, b.Scalar(at.DType(), stablehlo.Int(n))), at)
}

// raised is argument i in the type of the result with a dimension of size 1 at dim.
func (l *Lowering) raised(i, dim int) value {
	x := l.As(i, l.Out(0).DType)
	dims := append(append(append([]int64(nil), x.Dims()[:dim]...), 1), x.Dims()[dim:]...)
	return l.B.Reshape(x, dims)
}

// slicing is n elements of a dimension, from start on, step apart.
type slicing struct {
	dim            int
	start, step, n int64
}

// sliced is torch's reading of a slice: its ends wrap once and are then moved inside.
func sliced(dims []int64, dim, start, end, step int64) (p slicing, err error) {
	if len(dims) == 0 {
		return p, errs.New(errs.Runtime, "slice() cannot be applied to a 0-dim tensor.")
	}
	if p.dim, err = WrapDim(dim, len(dims)); err != nil {
		return p, err
	}
	if step <= 0 {
		return p, errs.New(errs.Runtime, "slice step must be positive")
	}
	size := dims[p.dim]
	inside := func(i, least int64) int64 {
		if i < 0 {
			i += size
		}
		return min(max(i, least), size)
	}
	p.start, p.step = inside(start, 0), step
	end = inside(end, p.start)
	p.n = (end - p.start + step - 1) / step
	return p, nil
}

// padPart is zeros of the given dimensions with block in the slice of dim from start on.
func padPart(b *stablehlo.Builder, block value, dims []int64, dim int, start, step int64) value {
	if block.Shape().Numel() == 0 {
		return b.Broadcast(zero(b, block.DType()), dims)
	}
	return spreadPart(b, block, zero(b, block.DType()), dims, dim, start, step)
}

// spreadPart surrounds block with fill.
func spreadPart(b *stablehlo.Builder, block, fill value, dims []int64, dim int, start, step int64) value {
	rank := len(dims)
	end := start + (block.Dim(dim)-1)*step + 1
	return b.Pad(block, fill, axisOnly(rank, dim, start), axisOnly(rank, dim, dims[dim]-end), axisOnly(rank, dim, step-1))
}

// writePart is x with block in the slice of dim from start on, by a mask: pads and selects fuse.
func writePart(b *stablehlo.Builder, x, block value, dim int, start, step int64) value {
	if block.Shape().Numel() == 0 {
		return x
	}
	yes := b.Splat(block.Shape().With(dtype.Bool), stablehlo.Bool(true))
	mask := spreadPart(b, yes, zero(b, dtype.Bool), x.Dims(), dim, start, step)
	return b.Select(mask, padPart(b, block, x.Dims(), dim, start, step), x)
}

// diagonalDims wraps the two dimensions of a diagonal.
func diagonalDims(dim1, dim2 int64, rank int) (d1, d2 int, err error) {
	if d1, err = WrapDim(dim1, rank); err != nil {
		return
	}
	if d2, err = WrapDim(dim2, rank); err != nil {
		return
	}
	if d1 == d2 {
		err = errs.New(errs.Runtime, "diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	return
}

// diagonalSize is the length of a diagonal of a matrix.
func diagonalSize(rows, cols, offset int64) int64 {
	if offset >= 0 {
		return max(min(rows, cols-offset), 0)
	}
	return max(min(rows+offset, cols), 0)
}

func inferDiagEmbed(c *Ctx) error {
	s := c.In(0)
	dim1, dim2, err := diagonalDims(c.Int(2), c.Int(3), len(s.Dims)+1)
	if err != nil {
		return err
	}
	rank := len(s.Dims) + 1
	offset := c.Int(1)
	side := s.Dims[rank-2] + max(offset, -offset)
	dims, k := c.dims[:rank], 0
	for i := range dims {
		if i == dim1 || i == dim2 {
			dims[i] = side
			continue
		}
		dims[i] = s.Dims[k]
		k++
	}
	return c.Return(s.DType, dims...)
}

// onto is x with the diagonal (argument i as the offset, dim1, dim2) replaced by v, whose last dimension runs along it.
// The diagonal is spread over the whole plane and a mask picks it: no scatter.
func (l *Lowering) onto(x, v value, i int, first, second int64) value {
	b, dims, offset := l.B, x.Dims(), l.Int(i)
	dim1, dim2, err := diagonalDims(first, second, x.Rank())
	if err != nil {
		return b.Failf("diagonal", nil, "%v", err)
	}
	n := diagonalSize(dims[dim1], dims[dim2], offset)
	v = b.Broadcast(v, append(others(dims, dim1, dim2), n))
	if v.Shape().Numel() == 0 {
		return x
	}
	var rows, mask value
	if l.isLiteral(i) {
		rank, low := v.Rank(), max(-offset, 0)
		rows = b.Pad(v, zero(b, v.DType()), axisOnly(rank, rank-1, low), axisOnly(rank, rank-1, dims[dim1]-low-n), nil)
		mask = onDiagonal(b, dims, dim1, dim2, offset)
	} else {
		at := l.As(i, dtype.I64)
		starts := slices.Repeat([]value{zero(b, dtype.I64)}, v.Rank())
		starts[v.Rank()-1] = b.Maximum(b.Negate(at), starts[0])
		rows = b.Broadcast(zero(b, v.DType()), append(others(dims, dim1, dim2), dims[dim1]))
		rows = b.DynamicUpdateSlice(rows, v, starts)
		mask = onDiagonalAt(b, dims, dim1, dim2, at)
	}
	mapping := make([]int64, 0, v.Rank())
	for i := range dims {
		if i != dim1 && i != dim2 {
			mapping = append(mapping, int64(i))
		}
	}
	return b.Select(mask, b.BroadcastInDim(rows, dims, append(mapping, int64(dim1))), x)
}

// maxWindowPads is up to which size the gradient of overlapping windows is a sum of pads, which fuse.
const maxWindowPads = 32

// lowerUnfoldBackward adds each element of a window up where it came from. The windows are counted by dim,
// their elements by the last dimension of the gradient.
func lowerUnfoldBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	size, step := l.Int(3), l.Int(4)
	d := o.DType.Accumulate()
	g := l.As(0, d)
	last := int64(g.Rank() - 1)
	if o.Numel() == 0 || g.Shape().Numel() == 0 || len(o.Dims) == 0 {
		l.Return(l.finish(0, l.unfoldZeroDim(g, d)))
		return
	}
	dim := acceptedDim(l.Int(2), len(o.Dims))
	if size <= maxWindowPads {
		total := b.Broadcast(zero(b, d), o.Dims)
		for k := range size {
			part := b.Reshape(b.SliceDim(g, last, k, k+1, 1), g.Dims()[:last])
			total = add(b, total, padPart(b, part, o.Dims, dim, k, step))
		}
		l.Return(l.Convert(total, o.DType))
		return
	}
	windows := g.Dim(dim)
	places := shape.Make(placeType(o.Dims[dim]), windows, size)
	at := b.Add(b.Multiply(b.Iota(places, 0), b.Splat(places, stablehlo.Int(step))), b.Iota(places, 1))
	// the elements of a window next to its number
	perm := make([]int64, 0, g.Rank())
	for i := range last {
		perm = append(perm, i)
		if i == int64(dim) {
			perm = append(perm, last)
		}
	}
	zeros := b.Broadcast(zero(b, d), o.Dims)
	l.Return(l.Convert(putRows(b, zeros, at, b.Transpose(g, perm), dim, stablehlo.CombineAdd), o.DType))
}

// unfoldZeroDim is the gradient where there is nothing to add, or one element of a 0-dim tensor.
func (l *Lowering) unfoldZeroDim(g value, d dtype.DType) value {
	o := l.Out(0)
	if g.Shape().Numel() == 1 && o.Numel() == 1 {
		return l.B.Reshape(g, o.Dims)
	}
	return l.B.Broadcast(zero(l.B, d), o.Dims)
}
