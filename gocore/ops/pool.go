package ops

import (
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// poolRows are pooling, padding and resampling. They work on the last one, two or three dimensions;
// those before, a batch and channels or only channels, go along.
var poolRows = join(maxPoolRows, avgPoolRows, adaptiveRows, unpoolRows, padRows, patchRows,
	upsampleRows, gridRows)

var maxPoolRows = []Row{
	{Name: "max_pool2d_with_indices", Schema: "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", Strides: Format, Torch: &Kernel{Out: "out",
		When: func(l *Lowering) bool { return poolsFaster(l.Out(0)) }},
		Infer: func(c *Ctx) error { return inferMaxPool(c, 2) }, Lower: func(l *Lowering) { lowerMaxPool(l, 2) }},
	{Name: "max_pool3d_with_indices", Schema: "(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", Strides: Format,
		Infer: func(c *Ctx) error { return inferMaxPool(c, 3) }, Lower: func(l *Lowering) { lowerMaxPool(l, 3) }},
	{Name: "max_pool2d_with_indices_backward", Schema: "(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor", Strides: Format, StridesOf: 1, Torch: &Kernel{Out: "grad_input", Like: map[int]int{1: 0}, Check: "pool_gradient",
		When: func(l *Lowering) bool { return poolsFaster(l.Shape(0)) }},
		Infer: func(c *Ctx) error { return inferMaxPoolBackward(c, 2) }, Lower: func(l *Lowering) { lowerMaxPoolBackward(l, 2) }},
	{Name: "max_pool3d_with_indices_backward", Schema: "(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferMaxPoolBackward(c, 3) }, Lower: func(l *Lowering) { lowerMaxPoolBackward(l, 3) }},
}

// pooling are the window arguments of a pooling op over the last n dimensions.
type pooling struct {
	n                                 int
	kernel, stride, padding, dilation [3]int64
	ceil                              bool
}

// poolArgs reads kernel_size, stride, padding, dilation (if there is one) and ceil_mode from argument at
// on, and checks them as torch does. op is the name without _with_indices and _backward.
func poolArgs(a *ir.Args, op string, n, at int, dilated bool) (p pooling, err error) {
	p.n = n
	lists := [4][]int64{a.Ints(at), a.Ints(at + 1), a.Ints(at + 2)}
	names := [4]string{"kernel_size", "stride", "padding", "dilation"}
	count := 3
	if dilated {
		lists[3] = a.Ints(at + 3)
		count = 4
	}
	either := "either "
	if op == "avg_pool3d" {
		either = ""
	}
	ints := [4]string{2: "two", 3: "three"}[n]
	p.ceil = a.Bool(at + count)
	p.dilation = [3]int64{1, 1, 1}
	for k, to := range [4]*[3]int64{&p.kernel, &p.stride, &p.padding, &p.dilation} {
		from := lists[k]
		switch {
		case k == 3 && !dilated:
			continue
		case k == 1 && len(from) == 0:
			p.stride = p.kernel
			continue
		case len(from) != 1 && len(from) != n && k == 1:
			return p, errs.New(errs.Runtime, "%s: stride must %sbe omitted, a single int, or a tuple of %s ints", op, either, ints)
		case len(from) != 1 && len(from) != n:
			return p, errs.New(errs.Runtime, "%s: %s must %sbe a single int, or a tuple of %s ints", op, names[k], either, ints)
		}
		for i := range n {
			to[i] = from[min(i, len(from)-1)]
		}
	}
	for i := range n {
		k := p.dilation[i]*(p.kernel[i]-1) + 1
		switch {
		case p.stride[i] == 0:
			return p, errs.New(errs.Runtime, "stride should not be zero")
		case p.padding[i] < 0:
			return p, errs.New(errs.Runtime, "pad must be non-negative, but got pad: %d", p.padding[i])
		case p.padding[i] > k/2:
			return p, errs.New(errs.Runtime, "pad should be at most half of effective kernel size, but got pad=%d, kernel_size=%d and dilation=%d", p.padding[i], p.kernel[i], p.dilation[i])
		case p.kernel[i] <= 0 || p.stride[i] < 0 || p.dilation[i] <= 0:
			return p, errs.New(errs.Runtime, "%s: kernel size, stride and dilation should be greater than zero, but got %s, %s and %s",
				op, dimsText(p.kernel[:n]), dimsText(p.stride[:n]), dimsText(p.dilation[:n]))
		}
	}
	return p, nil
}

// out is the size of pooled dimension i for an input of size in: torch's pooling_output_shape.
func (p *pooling) out(i int, in int64) int64 {
	span := in + 2*p.padding[i] - p.dilation[i]*(p.kernel[i]-1) - 1
	if p.ceil {
		span += p.stride[i] - 1
	}
	o := span/p.stride[i] + 1
	if span < 0 && span%p.stride[i] != 0 {
		o-- // Go rounds towards zero, torch down
	}
	if p.ceil && (o-1)*p.stride[i] >= in+p.padding[i] {
		o-- // the last window must start inside the input or its left padding
	}
	return o
}

// infer checks the input and appends the dimensions of the result to dst.
func (p *pooling) infer(dst []int64, x *shape.Shape) ([]int64, error) {
	rank := x.Rank()
	if rank != p.n+1 && rank != p.n+2 {
		return nil, errs.New(errs.Runtime, "non-empty %dD or %dD (batch mode) tensor expected for input", p.n+1, p.n+2)
	}
	for i, n := range x.Dims {
		if n == 0 && (i > 0 || rank == p.n+1) {
			return nil, errs.New(errs.Runtime, "Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", p.n+1, p.n+2, dimsText(x.Dims))
		}
	}
	lead := rank - p.n
	dst = append(dst, x.Dims[:lead]...)
	for i := range p.n {
		dst = append(dst, p.out(i, x.Dims[lead+i]))
	}
	for _, n := range dst[lead:] {
		if n <= 0 {
			times := func(d []int64) string { return strings.ReplaceAll(strings.Trim(dimsText(d), "[]"), ", ", "x") }
			return nil, errs.New(errs.Runtime, "Given input size: (%s). Calculated output size: (%s). Output size is too small", times(x.Dims[lead-1:]), times(dst[lead-1:]))
		}
	}
	return dst, nil
}

// window is the reduction window over x for a result of dimensions out.
func (p *pooling) window(x, out []int64) stablehlo.Window {
	rank := len(x)
	w := stablehlo.Window{Dims: make([]int64, rank), Strides: make([]int64, rank), Dilation: make([]int64, rank), Padding: make([][2]int64, rank)}
	lead := rank - p.n
	for d := range rank {
		w.Dims[d], w.Strides[d], w.Dilation[d] = 1, 1, 1
		if i := d - lead; i >= 0 {
			w.Dims[d], w.Strides[d], w.Dilation[d] = p.kernel[i], p.stride[i], p.dilation[i]
			need := (out[d]-1)*p.stride[i] + p.dilation[i]*(p.kernel[i]-1) + 1 - x[d] - p.padding[i]
			w.Padding[d] = [2]int64{p.padding[i], max(need, 0)}
		}
	}
	return w
}

func (p *pooling) dilated() bool {
	for _, d := range p.dilation[:p.n] {
		if d != 1 {
			return true
		}
	}
	return false
}

func inferMaxPool(c *Ctx, n int) error {
	op := [4]string{2: "max_pool2d", 3: "max_pool3d"}[n]
	p, err := poolArgs(&c.Args, op, n, 1, true)
	if err != nil {
		return err
	}
	x := c.In(0)
	var scratch [5]int64
	dims, err := p.infer(scratch[:0], x)
	if err != nil {
		return err
	}
	if x.DType == dtype.Bool || x.DType.IsComplex() {
		return notFor(op, x.DType)
	}
	_ = c.Return(x.DType, dims...)
	return c.Return(dtype.I64, dims...)
}

// lowerMaxPool computes values and indices apart: mostly no one asks for the indices (the gradient is
// lowered without them), and the compiler then drops them.
func lowerMaxPool(l *Lowering, n int) {
	b, x, o := l.B, l.In(0), l.Out(0)
	p, err := poolArgs(&l.Args, "max_pool", n, 1, true)
	if err != nil {
		b.Failf("max_pool", []value{x}, "%v", err)
		return
	}
	w := p.window(x.Dims(), o.Dims)
	values := b.ReduceWindow([]value{x}, []value{b.MinValue(x.DType())}, w, preferring(stablehlo.GE))
	at := planeIndex(b, x.Dims(), n)
	both := b.ReduceWindow([]value{x, at}, []value{b.MinValue(x.DType()), b.MaxValue(at.DType())}, w, combineArgMax)
	l.Return(values[0], l.Convert(both[1], dtype.I64))
}

// planeIndex is the flat index of each element in the plane of the last n dimensions.
func planeIndex(b *stablehlo.Builder, dims []int64, n int) value {
	plane := dims[len(dims)-n:]
	size := int64(1)
	for _, k := range plane {
		size *= k
	}
	d := dtype.I32
	if size > 1<<31-1 {
		d = dtype.I64
	}
	return b.Broadcast(b.Reshape(b.Arange(d, size), plane), dims)
}

// combineArgMax keeps the larger of two elements with its index, as torch's CPU kernels do: the first of
// equal ones, but the last NaN. It does not depend on the order of reduction.
func combineArgMax(b *stablehlo.Builder, lhs, rhs []stablehlo.Value) []stablehlo.Value {
	x, i, y, j := lhs[0], lhs[1], rhs[0], rhs[1]
	take := b.Or(b.Compare(y, x, stablehlo.GT), b.And(b.Compare(y, x, stablehlo.EQ), b.Compare(j, i, stablehlo.LT)))
	if x.DType().IsFloat() {
		later := b.Or(b.Compare(x, x, stablehlo.EQ), b.Compare(j, i, stablehlo.GT))
		take = b.Or(take, b.And(b.Compare(y, y, stablehlo.NE), later))
	}
	return []stablehlo.Value{b.Select(take, y, x), b.Select(take, j, i)}
}

func inferMaxPoolBackward(c *Ctx, n int) error {
	p, err := poolArgs(&c.Args, [4]string{2: "max_pool2d", 3: "max_pool3d"}[n], n, 2, true)
	if err != nil {
		return err
	}
	var scratch [5]int64
	dims, err := p.infer(scratch[:0], c.In(1))
	if err != nil {
		return err
	}
	for _, i := range [2]int{0, 7} {
		if err := checkPooled(c.In(i), dims); err != nil {
			return err
		}
	}
	return c.ReturnLike(c.In(1))
}

// checkPooled is torch's check_dim_size over all dimensions of a gradient.
func checkPooled(g *shape.Shape, dims []int64) error {
	for i, n := range dims {
		if g.Rank() != len(dims) || g.Dims[i] != n {
			size := int64(0)
			if i < g.Rank() {
				size = g.Dims[i]
			}
			return errs.New(errs.Runtime, "Expected a tensor of dimension %d and tensor.size[%d] == %d but got: dimension %d and tensor.size[%d] = %d", len(dims), i, n, g.Rank(), i, size)
		}
	}
	return nil
}

// lowerMaxPoolBackward finds the maxima again rather than read the indices, so that the forward pass
// need not compute them and nothing is scattered; a window with gaps does use them.
func lowerMaxPoolBackward(l *Lowering, n int) {
	b, o := l.B, l.Out(0)
	p, err := poolArgs(&l.Args, "max_pool", n, 2, true)
	if err != nil {
		b.Failf("max_pool_backward", []value{l.In(1)}, "%v", err)
		return
	}
	if p.dilated() {
		l.Return(l.scatterPlane(l.In(0), l.In(7), n))
		return
	}
	l.Return(l.maxGradient(l.In(0), l.In(1), p.window(o.Dims, l.Shape(0).Dims)))
}

// maxGradient adds each element of grad to the place of the maximum of its window of x. The padding is
// written out: XLA's own expansion of select_and_scatter prefers it to elements that equal zero.
func (l *Lowering) maxGradient(grad, x value, w stablehlo.Window) value {
	b, d := l.B, x.DType()
	acc := d.Accumulate()
	rank := x.Rank()
	low, high, limits := make([]int64, rank), make([]int64, rank), make([]int64, rank)
	padded := false
	for i, p := range w.Padding {
		low[i], high[i], limits[i] = p[0], p[1], p[0]+x.Dim(i)
		padded = padded || p != [2]int64{}
	}
	x = l.Convert(x, acc)
	if padded {
		x = b.Pad(x, b.MinValue(acc), low, high, nil)
	}
	w.Dilation, w.Padding = nil, nil
	out := b.SelectAndScatter(x, l.Convert(grad, acc), zero(b, acc), w, keepMax, stablehlo.CombineAdd)
	if padded {
		out = b.Slice(out, low, limits, nil)
	}
	return l.Convert(out, d)
}

// keepMax says whether x stays the maximum when y comes after it: yes if they are equal, no if y is NaN.
func keepMax(b *stablehlo.Builder, x, y stablehlo.Value) stablehlo.Value {
	return b.And(b.Not(b.Compare(y, x, stablehlo.GT)), b.Compare(y, y, stablehlo.EQ))
}

// scatterPlane adds grad to zeros of the result's shape at flat indices within the plane of the last n
// dimensions.
func (l *Lowering) scatterPlane(grad, index value, n int) value {
	o := l.Out(0)
	acc := o.DType.Accumulate()
	base := l.B.Broadcast(zero(l.B, acc), o.Dims)
	return l.Convert(scatterPlanes(l.B, base, index, l.Convert(grad, acc), n, stablehlo.CombineAdd), o.DType)
}

// scatterPlanes combines updates into base at flat indices within the plane of the last n dimensions;
// the dimensions before are the same for all three.
func scatterPlanes(b *stablehlo.Builder, base, index, updates value, n int, combine stablehlo.Combiner) value {
	dims := base.Dims()
	lead := len(dims) - n
	rows, plane, count := int64(1), int64(1), int64(1)
	for i, k := range dims {
		if i < lead {
			rows *= k
		} else {
			plane *= k
		}
	}
	for _, k := range updates.Dims()[lead:] {
		count *= k
	}
	out := b.Scatter([]value{b.Reshape(base, []int64{rows, plane})}, b.Reshape(index, []int64{rows, count, 1}),
		[]value{b.Reshape(updates, []int64{rows, count})}, stablehlo.ScatterDims{
			InsertedWindowDims: []int64{1}, InputBatchingDims: []int64{0}, ScatterIndicesBatchingDims: []int64{0},
			ScatterDimsToOperandDims: []int64{1}, IndexVectorDim: 2,
		}, combine)
	return b.Reshape(out[0], dims)
}
