package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

var adaptiveRows = []Row{
	{Name: "_adaptive_avg_pool2d", Schema: "(Tensor self, SymInt[2] output_size) -> Tensor", Strides: Format,
		Infer: func(c *Ctx) error { return inferAdaptiveAvg(c, 2) }, Lower: func(l *Lowering) { lowerAdaptiveAvg(l, 2) }},
	{Name: "_adaptive_avg_pool3d", Schema: "(Tensor self, SymInt[3] output_size) -> Tensor",
		Infer: func(c *Ctx) error { return inferAdaptiveAvg(c, 3) }, Lower: func(l *Lowering) { lowerAdaptiveAvg(l, 3) }},
	{Name: "_adaptive_avg_pool2d_backward", Schema: "(Tensor grad_output, Tensor self) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferAdaptiveBackward(c, 2) }, Lower: func(l *Lowering) { lowerAdaptiveAvgBackward(l, 2) }},
	{Name: "_adaptive_avg_pool3d_backward", Schema: "(Tensor grad_output, Tensor self) -> Tensor",
		Infer: func(c *Ctx) error { return inferAdaptiveBackward(c, 3) }, Lower: func(l *Lowering) { lowerAdaptiveAvgBackward(l, 3) }},
	{Name: "adaptive_max_pool2d", Schema: "(Tensor self, int[2] output_size) -> (Tensor, Tensor)", Strides: Format,
		Infer: func(c *Ctx) error { return inferAdaptiveMax(c, 2) }, Lower: func(l *Lowering) { lowerAdaptiveMax(l, 2) }},
	{Name: "adaptive_max_pool3d", Schema: "(Tensor self, int[3] output_size) -> (Tensor, Tensor)", Strides: Format,
		Infer: func(c *Ctx) error { return inferAdaptiveMax(c, 3) }, Lower: func(l *Lowering) { lowerAdaptiveMax(l, 3) }},
	{Name: "adaptive_max_pool2d_backward", Unsafe: true, Schema: "(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferAdaptiveMaxBackward(c, 2) }, Lower: func(l *Lowering) { lowerAdaptiveMaxBackward(l, 2) }},
	{Name: "adaptive_max_pool3d_backward", Unsafe: true, Schema: "(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferAdaptiveMaxBackward(c, 3) }, Lower: func(l *Lowering) { lowerAdaptiveMaxBackward(l, 3) }},
}

// inferAdaptive checks the input of an adaptive op and appends the result's dimensions to dst.
func inferAdaptive(dst []int64, op string, x *shape.Shape, out []int64, n int) ([]int64, error) {
	rank := x.Rank()
	if rank != n+1 && rank != n+2 {
		return nil, errs.New(errs.Runtime, "%s(): Expected %dD or %dD tensor, but got %s", op, n+1, n+2, dimsText(x.Dims))
	}
	if len(out) != n {
		return nil, errs.New(errs.Runtime, "%s: output_size must be %d", op, n)
	}
	for i := rank - n; i < rank; i++ {
		if x.Dims[i] == 0 {
			return nil, errs.New(errs.Runtime, "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty", op, dimsText(x.Dims), i)
		}
	}
	dst = append(append(dst, x.Dims[:rank-n]...), out...)
	for _, k := range out {
		if k < 0 {
			return nil, errs.New(errs.Runtime, "Trying to create tensor with negative dimension %d: %s", k, dimsText(dst))
		}
	}
	return dst, nil
}

func inferAdaptiveAvg(c *Ctx, n int) error {
	x := c.In(0)
	op := [4]string{2: "adaptive_avg_pool2d", 3: "adaptive_avg_pool3d"}[n]
	var scratch [5]int64
	dims, err := inferAdaptive(scratch[:0], op, x, c.Ints(1), n)
	if err != nil {
		return err
	}
	if !x.DType.IsFloat() {
		return notFor([4]string{2: "adaptive_avg_pool2d", 3: "adaptive_avg_pool3d_cpu"}[n], x.DType)
	}
	return c.Return(x.DType, dims...)
}

// adaptiveWindow is the range of sources of place o: torch's start_index and end_index.
func adaptiveWindow(o, out, in int64) (start, end int64) {
	return o * in / out, (o+1)*in/out + min((o+1)*in%out, 1)
}

// adaptiveTaps sums the windows of an adaptive pooling.
func adaptiveTaps(in, out int64) taps {
	t := taps{in: in, rows: make([][]tap, out)}
	for o := range t.rows {
		start, end := adaptiveWindow(int64(o), out, in)
		for i := start; i < end; i++ {
			t.rows[o] = append(t.rows[o], tap{i, 1})
		}
	}
	return t
}

// tiles is the pooling that an adaptive one amounts to where each size divides that of the input.
func tiles(in, out []int64, n int) (p pooling, ok bool) {
	p.n, p.dilation = n, [3]int64{1, 1, 1}
	lead := len(in) - n
	for i := range n {
		if out[lead+i] == 0 || in[lead+i]%out[lead+i] != 0 {
			return p, false
		}
		p.kernel[i] = in[lead+i] / out[lead+i]
		p.stride[i] = p.kernel[i]
	}
	return p, true
}

// adaptiveSizes divides v, of dimensions out, by the sizes of the windows over in.
func (l *Lowering) adaptiveSizes(v value, in, out []int64, n int) value {
	b := l.B
	lead := len(in) - n
	for d := lead; d < len(in); d++ {
		sizes := make([]int64, out[d])
		same := true
		for o := range sizes {
			start, end := adaptiveWindow(int64(o), out[d], in[d])
			sizes[o] = end - start
			same = same && sizes[o] == sizes[0]
		}
		switch {
		case len(sizes) == 0 || same && sizes[0] == 1:
		case same:
			v = b.Divide(v, b.SplatLike(v, stablehlo.Int(sizes[0])))
		default:
			s := b.ConstantInts(shape.Make(v.DType(), out[d]), sizes)
			v = b.Divide(v, b.BroadcastInDim(s, v.Dims(), []int64{int64(d)}))
		}
	}
	return v
}

func lowerAdaptiveAvg(l *Lowering, n int) {
	o := l.Out(0)
	x := l.As(0, o.DType.Accumulate())
	in := x.Dims()
	if p, ok := tiles(in, o.Dims, n); ok {
		x = l.windowSum(x, &p, o.Dims)
	} else {
		for d := len(in) - n; d < len(in); d++ {
			x = l.resample(x, d, adaptiveTaps(in[d], o.Dims[d]))
		}
	}
	l.Return(l.Convert(l.adaptiveSizes(x, in, o.Dims, n), o.DType))
}

// inferAdaptiveBackward returns the input's shape, argument 1.
func inferAdaptiveBackward(c *Ctx, n int) error {
	grad, x := c.In(0), c.In(1)
	if grad.Rank() != x.Rank() {
		return errs.New(errs.Runtime, "adaptive_avg_pool%dd_backward: Expected dimensions %d for `grad_output` but got dimensions %d", n, x.Rank(), grad.Rank())
	}
	var scratch [5]int64
	dims, err := inferAdaptive(scratch[:0], [4]string{2: "adaptive_avg_pool2d_backward", 3: "adaptive_avg_pool3d_backward"}[n], x, grad.Dims[max(grad.Rank()-n, 0):], n)
	if err != nil {
		return err
	}
	if err := checkPooled(grad, dims); err != nil {
		return err
	}
	return c.ReturnLike(x)
}

func lowerAdaptiveAvgBackward(l *Lowering, n int) {
	o := l.Out(0)
	grad := l.As(0, o.DType.Accumulate())
	out := grad.Dims()
	grad = l.adaptiveSizes(grad, o.Dims, out, n)
	if p, ok := tiles(o.Dims, out, n); ok {
		grad = l.windowSpread(grad, &p, o.Dims)
	} else {
		for d := len(out) - n; d < len(out); d++ {
			grad = l.resample(grad, d, adaptiveTaps(o.Dims[d], out[d]).transpose())
		}
	}
	l.Return(l.Convert(grad, o.DType))
}

func inferAdaptiveMax(c *Ctx, n int) error {
	x := c.In(0)
	op := [4]string{2: "adaptive_max_pool2d", 3: "adaptive_max_pool3d"}[n]
	var scratch [5]int64
	dims, err := inferAdaptive(scratch[:0], op, x, c.Ints(1), n)
	if err != nil {
		return err
	}
	if !x.DType.IsFloat() {
		return notFor(op, x.DType)
	}
	_ = c.Return(x.DType, dims...)
	return c.Return(dtype.I64, dims...)
}

// lowerAdaptiveMax is a max pooling where the sizes divide, and otherwise a reduction of gathered
// windows, short ones filled up with minus infinity.
func lowerAdaptiveMax(l *Lowering, n int) {
	b, x, o := l.B, l.In(0), l.Out(0)
	least := b.MinValue(x.DType())
	at := planeIndex(b, x.Dims(), n)
	most := b.MaxValue(at.DType())
	if p, ok := tiles(x.Dims(), o.Dims, n); ok {
		w := p.window(x.Dims(), o.Dims)
		values := b.ReduceWindow([]value{x}, []value{least}, w, preferring(stablehlo.GE))
		both := b.ReduceWindow([]value{x, at}, []value{least, most}, w, combineArgMax)
		l.Return(values[0], l.Convert(both[1], dtype.I64))
		return
	}
	if o.Numel() == 0 {
		l.Return(b.Broadcast(zero(b, o.DType), o.Dims), b.Broadcast(zero(b, dtype.I64), o.Dims))
		return
	}
	lead := x.Rank() - n
	split := append([]int64(nil), o.Dims[:lead]...)
	var inside []int64 // the dimensions within a window
	for i := range n {
		t := adaptiveTaps(x.Dim(lead+i), o.Dims[lead+i])
		width := t.width()
		x, at = gatherWindows(b, x, lead+i, t, width, least), gatherWindows(b, at, lead+i, t, width, most)
		split = append(split, o.Dims[lead+i], int64(width))
		inside = append(inside, int64(len(split)-1))
	}
	x, at = b.Reshape(x, split), b.Reshape(at, split)
	both := b.Reduce([]value{x, at}, []value{least, most}, inside, combineArgMax)
	l.Return(greatest(b, x, inside), l.Convert(both[1], dtype.I64))
}

// gatherWindows makes dimension dim of x the windows of t, one after the other, each of the same width:
// what is missing is fill.
func gatherWindows(b *stablehlo.Builder, x value, dim int, t taps, width int, fill value) value {
	var index, present []int64
	for _, row := range t.rows {
		for j := range width {
			if j < len(row) {
				index, present = append(index, row[j].from), append(present, 1)
			} else {
				index, present = append(index, 0), append(present, 0)
			}
		}
	}
	v := take(b, x, dim, index)
	mask := b.ConstantInts(shape.Make(dtype.Bool, int64(len(present))), present)
	return b.Select(b.BroadcastInDim(mask, v.Dims(), []int64{int64(dim)}), v, b.Broadcast(fill, v.Dims()))
}

func inferAdaptiveMaxBackward(c *Ctx, n int) error {
	grad, x, index := c.In(0), c.In(1), c.In(2)
	op := [4]string{2: "adaptive_max_pooling2d_backward", 3: "adaptive_max_pooling3d_backward"}[n]
	if r := grad.Rank(); r != n+1 && r != n+2 {
		return errs.New(errs.Runtime, "%s(): Expected %dD or %dD grad_output, but got: %s", op, n+1, n+2, dimsText(grad.Dims))
	}
	if shape.Of(index.DType, grad.Dims) != index {
		return errs.New(errs.Runtime, "expected sizes %s for `grad_output` but got sizes %s", dimsText(index.Dims), dimsText(grad.Dims))
	}
	return c.ReturnLike(x)
}

func lowerAdaptiveMaxBackward(l *Lowering, n int) {
	o, grad := l.Out(0), l.In(0)
	if p, ok := tiles(o.Dims, grad.Dims(), n); ok {
		l.Return(l.maxGradient(grad, l.In(1), p.window(o.Dims, grad.Dims())))
		return
	}
	l.Return(l.scatterPlane(grad, l.In(2), n))
}

// unpoolRows put values back to the places that a max pooling took them from.
var unpoolRows = []Row{
	{Name: "max_unpool2d", Unsafe: true, Schema: "(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", Strides: Format, Bounds: unpoolBounds,
		Infer: func(c *Ctx) error { return inferUnpool(c, 2) }, Lower: func(l *Lowering) { lowerUnpool(l, 2) }},
	{Name: "max_unpool3d", Unsafe: true, Schema: "(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor", Bounds: unpoolBounds,
		Infer: func(c *Ctx) error {
			if err := unpoolWindow(&c.Args); err != nil {
				return err
			}
			return inferUnpool(c, 3)
		}, Lower: func(l *Lowering) { lowerUnpool(l, 3) }},
}

func unpoolWindow(a *ir.Args) error {
	switch stride, padding := a.Ints(3), a.Ints(4); {
	case len(stride) != 3:
		return errs.New(errs.Runtime, "There should be exactly three elements (depth, height, width) in stride, but got: %d elements.", len(stride))
	case len(padding) != 3:
		return errs.New(errs.Runtime, "There should be exactly three elements (depth, height, width) in padding, but got: %d elements.", len(padding))
	case min(stride[0], stride[1], stride[2]) <= 0:
		return errs.New(errs.Runtime, "strides should be greater than zero, but got stride: %s", dimsText(stride))
	}
	return nil
}

func inferUnpool(c *Ctx, n int) error {
	x, index, size := c.In(0), c.In(1), c.Ints(2)
	word := [4]string{2: "two elements (height, width)", 3: "three elements (depth, height, width)"}[n]
	switch {
	case index.DType != dtype.I64:
		return errs.New(errs.Runtime, "elements in indices should be type int64 but got: %s", index.DType.C10())
	case len(size) != n:
		return errs.New(errs.Runtime, "There should be exactly %s in output_size, but got %d elements.", word, len(size))
	case x.Rank() != n+1 && x.Rank() != n+2:
		return errs.New(errs.Runtime, "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d dimensions.", n, n+1, n+2, x.Rank())
	case shape.Of(index.DType, x.Dims) != index:
		return errs.New(errs.Runtime, "Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor with shape: %s", dimsText(x.Dims), dimsText(index.Dims))
	}
	for i := 1; i < x.Rank(); i++ {
		if x.Dims[i] == 0 {
			return errs.New(errs.Runtime, "max_unpooling%dd(): Expected input to have non-zero size for non-batch dimensions, but got %s with dimension %d being empty.", n, dimsText(x.Dims), i)
		}
	}
	var scratch [5]int64
	return c.Return(x.DType, append(append(scratch[:0], x.Dims[:x.Rank()-n]...), size...)...)
}

func lowerUnpool(l *Lowering, n int) {
	o := l.Out(0)
	base := l.B.Broadcast(zero(l.B, o.DType), o.Dims)
	l.Return(scatterPlanes(l.B, base, l.In(1), l.In(0), n, stablehlo.CombineReplace))
}
