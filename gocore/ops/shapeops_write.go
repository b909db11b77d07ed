package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// partRows write to a part of a tensor: the functional forms of writing to a view (…_scatter), and the
// gradients of views (…_backward), which are such a write to zeros.
var partRows = []Row{
	{Name: "select_scatter", Schema: "(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dim, _, err := selected(s.Dims, c.Int(2), c.Int(3))
			if err != nil {
				return err
			}
			return c.fill(append(append(c.dims[:0], s.Dims[:dim]...), s.Dims[dim+1:]...))
		},
		Lower: func(l *Lowering) {
			dim, at := l.selected(l.Shape(0).Dims, 2)
			l.Return(writePart(l.B, l.In(0), l.raised(1, dim), dim, at, 1))
		}},
	{Name: "select_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			dim, _, err := selected(size, c.Int(2), c.Int(3))
			if err != nil {
				return err
			}
			return c.spread(append(append(c.dims[:0], size[:dim]...), size[dim+1:]...), size)
		},
		Lower: func(l *Lowering) {
			size := l.Ints(1)
			dim, at := l.selected(size, 2)
			block := append([]int64(nil), size...)
			block[dim] = 1
			g := l.B.Broadcast(l.In(0), append(append([]int64(nil), size[:dim]...), size[dim+1:]...))
			l.Return(padPart(l.B, l.B.Reshape(g, block), size, dim, at, 1))
		}},
	{Name: "slice_scatter", Schema: "(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			p, err := sliced(s.Dims, c.Int(2), c.IntOr(3, 0), c.IntOr(4, math.MaxInt64), c.IntOr(5, 1))
			if err != nil {
				return err
			}
			dims := append(c.dims[:0], s.Dims...)
			dims[p.dim] = p.n
			return c.fill(dims)
		},
		Lower: func(l *Lowering) {
			p, err := sliced(l.Shape(0).Dims, l.Int(2), l.IntOr(3, 0), l.IntOr(4, math.MaxInt64), l.IntOr(5, 1))
			if err != nil {
				l.B.Failf("slice_scatter", nil, "%v", err)
			}
			l.Return(writePart(l.B, l.In(0), l.As(1, l.Out(0).DType), p.dim, p.start, p.step))
		}},
	{Name: "slice_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor",
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			p, err := sliced(size, c.Int(2), c.Int(3), c.Int(4), c.Int(5))
			if err != nil {
				return err
			}
			part := append(c.dims[:0], size...)
			part[p.dim] = p.n
			return c.spread(part, size)
		},
		Lower: func(l *Lowering) {
			p, err := sliced(l.Ints(1), l.Int(2), l.Int(3), l.Int(4), l.Int(5))
			if err != nil {
				l.B.Failf("slice_backward", nil, "%v", err)
			}
			part := append([]int64(nil), l.Ints(1)...)
			part[p.dim] = p.n
			l.Return(padPart(l.B, l.B.Broadcast(l.In(0), part), l.Ints(1), p.dim, p.start, p.step))
		}},
	{Name: "diagonal_scatter", Schema: "(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dim1, dim2, err := diagonalDims(c.Int(3), c.Int(4), len(s.Dims))
			if err != nil {
				return err
			}
			return c.fill(append(others(s.Dims, dim1, dim2), diagonalSize(s.Dims[dim1], s.Dims[dim2], c.Int(2))))
		},
		Lower: func(l *Lowering) {
			x, o := l.In(0), l.Out(0)
			l.Return(l.onto(x, l.As(1, o.DType), l.Int(2), l.Int(3), l.Int(4)))
		}},
	{Name: "diagonal_backward", Schema: "(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
		Infer: func(c *Ctx) error {
			size := c.Ints(1)
			dim1, dim2, err := diagonalDims(c.Int(3), c.Int(4), len(size))
			if err != nil {
				return err
			}
			return c.spread(append(others(size, dim1, dim2), diagonalSize(size[dim1], size[dim2], c.Int(2))), size)
		},
		Lower: func(l *Lowering) { l.Return(l.onto(l.omitted(0), l.In(0), l.Int(2), l.Int(3), l.Int(4))) }},
	{Name: "diag_embed", Schema: "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Infer: inferDiagEmbed,
		Lower: func(l *Lowering) { l.Return(l.onto(l.omitted(0), l.In(0), l.Int(1), l.Int(2), l.Int(3))) }},
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
	if src := c.In(1); !equalDims(src.Dims, dims) {
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

// selected reads arguments i and i+1, which the shape rule has accepted.
func (l *Lowering) selected(dims []int64, i int) (dim int, at int64) {
	dim, at, err := selected(dims, l.Int(i), l.Int(i+1))
	if err != nil {
		l.B.Failf("select", nil, "%v", err)
	}
	return
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

// writePart is x with block in the slice of dim from start on. Steps write by a mask: pads and selects fuse.
func writePart(b *stablehlo.Builder, x, block value, dim int, start, step int64) value {
	switch {
	case block.Shape().Numel() == 0:
		return x
	case step == 1 || block.Dim(dim) == 1:
		starts := make([]value, x.Rank())
		for i, at := range axisOnly(x.Rank(), dim, start) {
			starts[i] = b.Scalar(dtype.I64, stablehlo.Int(at))
		}
		return b.DynamicUpdateSlice(x, block, starts)
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

// onto is x with the diagonal (offset, dim1, dim2) replaced by v, whose last dimension runs along it. The
// diagonal is spread over the whole plane and a mask picks it: no scatter.
func (l *Lowering) onto(x, v value, offset, first, second int64) value {
	b, dims := l.B, x.Dims()
	dim1, dim2, err := diagonalDims(first, second, x.Rank())
	if err != nil {
		return b.Failf("diagonal", nil, "%v", err)
	}
	n := diagonalSize(dims[dim1], dims[dim2], offset)
	v = b.Broadcast(v, append(others(dims, dim1, dim2), n))
	if v.Shape().Numel() == 0 {
		return x
	}
	rank, low := v.Rank(), max(-offset, 0)
	rows := b.Pad(v, zero(b, v.DType()), axisOnly(rank, rank-1, low), axisOnly(rank, rank-1, dims[dim1]-low-n), nil)
	mapping := make([]int64, 0, rank)
	for i := range dims {
		if i != dim1 && i != dim2 {
			mapping = append(mapping, int64(i))
		}
	}
	mask := onDiagonal(b, dims, dim1, dim2, offset)
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
