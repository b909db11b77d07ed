package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

var avgPoolRows = []Row{
	{Name: "avg_pool2d", Schema: "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", Strides: Format, ExactOut: true,
		Infer: func(c *Ctx) error { return inferAvgPool(c, 2) }, Lower: func(l *Lowering) { lowerAvgPool(l, 2) }},
	{Name: "avg_pool3d", Schema: "(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", Strides: Format, ExactOut: true,
		Infer: func(c *Ctx) error { return inferAvgPool(c, 3) }, Lower: func(l *Lowering) { lowerAvgPool(l, 3) }},
	{Name: "avg_pool2d_backward", Schema: "(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferAvgPoolBackward(c, 2) }, Lower: func(l *Lowering) { lowerAvgPoolBackward(l, 2) }},
	{Name: "avg_pool3d_backward", Schema: "(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferAvgPoolBackward(c, 3) }, Lower: func(l *Lowering) { lowerAvgPoolBackward(l, 3) }},
}

// avgArgs reads the arguments from kernel_size (number at) on; the divisor's are at+4 and at+5.
func avgArgs(a *ir.Args, n, at int) (p pooling, err error) {
	if p, err = poolArgs(a, [4]string{2: "avg_pool2d", 3: "avg_pool3d"}[n], n, at, false); err != nil {
		return p, err
	}
	if a.Has(at+5) && a.Int(at+5) == 0 {
		return p, errs.New(errs.Runtime, "divisor must be not zero")
	}
	return p, nil
}

func inferAvgPool(c *Ctx, n int) error {
	p, err := avgArgs(&c.Args, n, 1)
	if err != nil {
		return err
	}
	x := c.In(0)
	var scratch [5]int64
	dims, err := p.infer(scratch[:0], x)
	if err != nil {
		return err
	}
	if d := x.DType; !d.IsFloat() && d != dtype.I64 {
		return notFor([4]string{2: "avg_pool2d", 3: "avg_pool3d_out_frame"}[n], d)
	}
	return c.Return(x.DType, dims...)
}

func lowerAvgPool(l *Lowering, n int) {
	o := l.Out(0)
	p, err := avgArgs(&l.Args, n, 1)
	if err != nil {
		l.B.Failf("avg_pool", []value{l.In(0)}, "%v", err)
		return
	}
	x := l.As(0, o.DType.Accumulate())
	sum := l.windowSum(x, &p, o.Dims)
	l.Return(l.Convert(l.B.Divide(sum, l.divisor(&p, x.Dims(), sum, 5)), o.DType))
}

// windowSum adds up the elements under each place of the window.
func (l *Lowering) windowSum(x value, p *pooling, out []int64) value {
	lead := x.Rank() - p.n
	whole := true
	var dims []int64
	for i := range p.n {
		dims = append(dims, int64(lead+i))
		whole = whole && out[lead+i] == 1 && p.kernel[i] == x.Dim(lead+i) && p.padding[i] == 0
	}
	if whole { // one window: a plain reduction
		return l.B.Reshape(l.B.ReduceSum(x, dims), out)
	}
	w := p.window(x.Dims(), out)
	return l.B.ReduceWindow([]value{x}, []value{zero(l.B, x.DType())}, w, stablehlo.CombineAdd)[0]
}

// divisor is what each element of the result is divided by, in the shape and type of like. It is the
// divisor_override (argument at+1), or the size of the window. That includes its part outside of the
// input if count_include_pad (argument at) says so, but never what lies beyond the padding. in are the
// dimensions of the input.
func (l *Lowering) divisor(p *pooling, in []int64, like value, at int) value {
	b := l.B
	if l.Has(at + 1) {
		return b.SplatLike(like, stablehlo.Int(l.Int(at+1)))
	}
	include := l.Bool(at)
	lead := len(in) - p.n
	var total value
	uniform := int64(1)
	for i := range p.n {
		counts := make([]int64, like.Dim(lead+i))
		same := true
		for o := range counts {
			start := int64(o)*p.stride[i] - p.padding[i]
			end := min(start+p.kernel[i], in[lead+i]+p.padding[i])
			if !include {
				start, end = max(start, 0), min(end, in[lead+i])
			}
			counts[o] = max(end-start, 1)
			same = same && counts[o] == counts[0]
		}
		if same {
			uniform *= counts[0]
			continue
		}
		v := b.ConstantInts(shape.Make(like.DType(), int64(len(counts))), counts)
		v = b.BroadcastInDim(v, like.Dims(), []int64{int64(lead + i)})
		if total.IsZero() {
			total = v
		} else {
			total = b.Multiply(total, v)
		}
	}
	switch {
	case total.IsZero():
		return b.SplatLike(like, stablehlo.Int(uniform))
	case uniform != 1:
		return b.Multiply(total, b.SplatLike(like, stablehlo.Int(uniform)))
	}
	return total
}

func inferAvgPoolBackward(c *Ctx, n int) error {
	p, err := avgArgs(&c.Args, n, 2)
	if err != nil {
		return err
	}
	var scratch [5]int64
	dims, err := p.infer(scratch[:0], c.In(1))
	if err != nil {
		return err
	}
	if err := checkPooled(c.In(0), dims); err != nil {
		return err
	}
	return c.ReturnLike(c.In(1))
}

func lowerAvgPoolBackward(l *Lowering, n int) {
	o := l.Out(0)
	p, err := avgArgs(&l.Args, n, 2)
	if err != nil {
		l.B.Failf("avg_pool_backward", []value{l.In(0)}, "%v", err)
		return
	}
	grad := l.As(0, o.DType.Accumulate())
	grad = l.B.Divide(grad, l.divisor(&p, o.Dims, grad, 6))
	l.Return(l.Convert(l.windowSpread(grad, &p, o.Dims), o.DType))
}

// windowSpread is the transpose of windowSum: each element of the result, of dimensions in, is the sum
// of the grads whose windows cover it.
func (l *Lowering) windowSpread(grad value, p *pooling, in []int64) value {
	b := l.B
	lead := grad.Rank() - p.n
	tiled := true
	for i := range p.n {
		tiled = tiled && p.padding[i] == 0 && (p.stride[i] == p.kernel[i] && grad.Dim(lead+i)*p.kernel[i] <= in[lead+i] ||
			grad.Dim(lead+i) == 1 && p.kernel[i] <= in[lead+i])
	}
	rank := grad.Rank()
	low, high, inner := make([]int64, rank), make([]int64, rank), make([]int64, rank)
	if tiled { // windows side by side: every grad is repeated
		for i := range p.n {
			grad = repeat(b, grad, lead+i, p.kernel[i])
			high[lead+i] = in[lead+i] - grad.Dim(lead+i)
		}
		return b.Pad(grad, zero(b, grad.DType()), low, high, inner)
	}
	w := stablehlo.Window{Dims: make([]int64, rank)}
	for d := range rank {
		w.Dims[d] = 1
		if i := d - lead; i >= 0 {
			k := p.kernel[i]
			w.Dims[d] = k
			inner[d] = p.stride[i] - 1
			low[d] = k - 1 - p.padding[i]
			high[d] = in[d] + k - 1 - low[d] - ((grad.Dim(d)-1)*p.stride[i] + 1)
		}
	}
	none := zero(b, grad.DType())
	grad = b.Pad(grad, none, low, high, inner)
	return b.ReduceWindow([]value{grad}, []value{none}, w, stablehlo.CombineAdd)[0]
}

// repeat is torch's repeat_interleave along one dimension.
func repeat(b *stablehlo.Builder, x value, dim int, times int64) value {
	if times == 1 {
		return x
	}
	dims := x.Dims()
	wide := make([]int64, 0, len(dims)+1)
	mapping := make([]int64, len(dims))
	for d, n := range dims {
		mapping[d] = int64(len(wide))
		wide = append(wide, n)
		if d == dim {
			wide = append(wide, times)
		}
	}
	joined := append([]int64(nil), dims...)
	joined[dim] *= times
	return b.Reshape(b.BroadcastInDim(x, wide, mapping), joined)
}
