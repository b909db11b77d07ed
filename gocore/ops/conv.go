package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const convolutionSchema = "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"

// convRows are convolutions. The memory layout is left to the compiler: operands keep torch's order of
// dimensions and the convolution's dimension numbers say which is which.
//
// convolution_backward's results are masked by output_mask: a gradient that is not asked for has no
// elements, and the registration replaces it by None.
var convRows = []Row{
	{Name: "convolution", Schema: convolutionSchema, Strides: FormatOfAny, Torch: &Kernel{When: convolvesFaster}, Multiplications: convolution, Infer: inferConvolution, Lower: lowerConvolution},
	{Name: "convolution_overrideable", Unsafe: true, Schema: convolutionSchema, Strides: FormatOfAny, Infer: inferConvolution, Lower: lowerConvolution},
	{Name: "convolution_backward", Schema: "(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", Strides: FormatOfAny, StridesOf: 1, Torch: &Kernel{When: convolvesBackFaster, Asked: func(l *Lowering) []bool { return truths(l.Ints(10)) }, Check: "convolution_gradient"}, Multiplications: convolutionBackward,
		Infer: func(c *Ctx) error { return inferConvolutionBackward(c, 4) },
		Lower: func(l *Lowering) { lowerConvolutionBackward(l, 4) }},
	{Name: "convolution_backward_overrideable", Unsafe: true, Schema: "(Tensor grad_output, Tensor input, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)", Strides: FormatOfAny, StridesOf: 1,
		Infer: func(c *Ctx) error { return inferConvolutionBackward(c, 3) },
		Lower: func(l *Lowering) { lowerConvolutionBackward(l, 3) }},
	{Name: "conv_tbc", Schema: "(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
		Infer: inferConvTBC, Lower: lowerConvTBC},
}

// maxSpatial bounds the spatial dimensions of a convolution.
const maxSpatial = 6

// window are the arguments of a convolution, one number for each of n spatial dimensions.
type window struct {
	n                                  int
	stride, padding, dilation, outputs [maxSpatial]int64 // outputs is the output padding
	transposed                         bool
	groups                             int64
}

// convWindow reads the six arguments from stride (number at) on, for n spatial dimensions.
func convWindow(stride, padding, dilation, output []int64, transposed bool, groups int64, n int) (w window, err error) {
	w.n, w.transposed, w.groups = n, transposed, groups
	lists := [4][]int64{stride, padding, dilation, output}
	names := [4]string{"stride", "padding", "dilation", "output_padding"}
	for k, to := range [4]*[maxSpatial]int64{&w.stride, &w.padding, &w.dilation, &w.outputs} {
		from := lists[k]
		if len(from) != n && len(from) != 1 {
			return w, errs.New(errs.Runtime, "expected %s to be a single integer value or a list of %d values to match the convolution dimensions, but got %s=%s", names[k], n, names[k], dimsText(from))
		}
		for i := range n {
			to[i] = from[min(i, len(from)-1)]
		}
	}
	for i := range n {
		switch {
		case w.padding[i] < 0:
			return w, errs.New(errs.Runtime, "negative padding is not supported")
		case w.outputs[i] < 0:
			return w, errs.New(errs.Runtime, "negative output_padding is not supported")
		case w.stride[i] <= 0:
			return w, errs.New(errs.Runtime, "non-positive stride is not supported")
		case w.dilation[i] <= 0:
			return w, errs.New(errs.Runtime, "non-positive dilation is not supported")
		case transposed && w.outputs[i] >= w.stride[i] && w.outputs[i] >= w.dilation[i]:
			return w, errs.New(errs.Runtime, "output padding must be smaller than either stride or dilation, but got output_padding: %d stride: %d dilation: %d", w.outputs[i], w.stride[i], w.dilation[i])
		}
	}
	return w, nil
}

// out is the size of spatial dimension i of the result, for an input of size in and a kernel of size k.
func (w *window) out(i int, in, k int64) int64 {
	if w.transposed {
		return (in-1)*w.stride[i] - 2*w.padding[i] + w.dilation[i]*(k-1) + w.outputs[i] + 1
	}
	return (in+2*w.padding[i]-w.dilation[i]*(k-1)-1)/w.stride[i] + 1
}

// checkConv are torch's check_shape_forward.
func checkConv(x, k, bias *shape.Shape, w *window) error {
	if x.Rank() != k.Rank() {
		return errs.New(errs.Runtime, "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of size %s instead",
			k.Rank(), k.Rank(), dimsText(k.Dims), x.Rank(), dimsText(x.Dims))
	}
	if w.groups <= 0 {
		return errs.New(errs.Runtime, "non-positive groups is not supported")
	}
	if k.Dims[0] < w.groups {
		return errs.New(errs.Runtime, "Given groups=%d, expected weight to be at least %d at dimension 0, but got weight of size %s instead", w.groups, w.groups, dimsText(k.Dims))
	}
	if k.Dims[0]%w.groups != 0 {
		return errs.New(errs.Runtime, "Given groups=%d, expected weight to be divisible by %d at dimension 0, but got weight of size %s instead", w.groups, w.groups, dimsText(k.Dims))
	}
	in, out := k.Dims[1]*w.groups, k.Dims[0]
	if w.transposed {
		in, out = out, in
	}
	if x.Dims[1] != in {
		if w.transposed {
			return errs.New(errs.Runtime, "Given transposed=1, weight of size %s, expected input%s to have %d channels, but got %d channels instead", dimsText(k.Dims), dimsText(x.Dims), in, x.Dims[1])
		}
		return errs.New(errs.Runtime, "Given groups=%d, weight of size %s, expected input%s to have %d channels, but got %d channels instead", w.groups, dimsText(k.Dims), dimsText(x.Dims), in, x.Dims[1])
	}
	if bias != nil && (bias.Rank() != 1 || bias.Dims[0] != out) {
		return errs.New(errs.Runtime, "Given %sweight of size %s, expected bias to be 1-dimensional with %d elements, but got bias of size %s instead",
			map[bool]string{true: "transposed=1, "}[w.transposed], dimsText(k.Dims), out, dimsText(bias.Dims))
	}
	if w.transposed {
		return nil
	}
	for i := range w.n {
		if x.Dims[2+i]+2*w.padding[i] < w.dilation[i]*(k.Dims[2+i]-1)+1 {
			return kernelTooLarge(x, k, w)
		}
	}
	return nil
}

func kernelTooLarge(x, k *shape.Shape, w *window) error {
	var padded, kernel string
	for i := range w.n {
		if i > 0 {
			padded, kernel = padded+" x ", kernel+" x "
		}
		padded += itoa(x.Dims[2+i] + 2*w.padding[i])
		kernel += itoa(w.dilation[i]*(k.Dims[2+i]-1) + 1)
	}
	return errs.New(errs.Runtime, "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater than actual input size", padded, kernel)
}

func inferConvolution(c *Ctx) error {
	x, k, bias := c.In(0), c.In(1), c.In(2)
	n := k.Rank() - 2
	if n <= 0 || n > maxSpatial {
		return errs.New(errs.Runtime, "weight should have at least three dimensions")
	}
	w, err := convWindow(c.Ints(3), c.Ints(4), c.Ints(5), c.Ints(7), c.Bool(6), c.Int(8), n)
	if err != nil {
		return err
	}
	if err := checkConv(x, k, bias, &w); err != nil {
		return err
	}
	if x.DType != k.DType {
		return errs.New(errs.Runtime, "Input type (torch.%sTensor) and weight type (torch.%sTensor) should be the same", x.DType.C10(), k.DType.C10())
	}
	if bias != nil && bias.DType != x.DType {
		return errs.New(errs.Runtime, "Input type (torch.%sTensor) and bias type (torch.%sTensor) should be the same", x.DType.C10(), bias.DType.C10())
	}
	if x.DType == dtype.Bool {
		return notFor("slow_conv2d_cpu", x.DType)
	}
	var dims [2 + maxSpatial]int64
	dims[0], dims[1] = x.Dims[0], k.Dims[0]
	if w.transposed {
		dims[1] = k.Dims[1] * w.groups
	}
	if x.Dims[1] == 0 {
		dims[1] = 0 // no channels in, none out
	}
	for i := range n {
		if dims[2+i] = w.out(i, x.Dims[2+i], k.Dims[2+i]); dims[2+i] < 0 {
			return errs.New(errs.Runtime, "Given input size per channel: %s. Calculated output size per channel: %s. Output size is too small", dimsText(x.Dims[2:]), dimsText(dims[2:2+n]))
		}
	}
	return c.Return(x.DType, dims[:2+n]...)
}

func lowerConvolution(l *Lowering) {
	x, k := l.In(0), l.In(1)
	w, err := convWindow(l.Ints(3), l.Ints(4), l.Ints(5), l.Ints(7), l.Bool(6), l.Int(8), k.Rank()-2)
	if err != nil {
		l.B.Failf("convolution", []value{x, k}, "%v", err)
		return
	}
	o := l.Out(0)
	if o.Numel() == 0 {
		l.Return(l.B.Broadcast(zero(l.B, o.DType), o.Dims))
		return
	}
	var out value
	if w.transposed {
		out = l.convInput(x, k, &w, o.Dims)
	} else {
		out = l.conv(x, k, &w, o.Dims)
	}
	if l.Has(2) {
		d := o.DType.Accumulate()
		bias := l.B.BroadcastInDim(l.As(2, d), o.Dims, []int64{1})
		out = l.B.Add(l.Convert(out, d), bias)
	}
	l.Return(l.Convert(out, o.DType))
}

func inferConvolutionBackward(c *Ctx, at int) error {
	grad, x, k := c.In(0), c.In(1), c.In(2)
	n := k.Rank() - 2
	if n <= 0 || n > maxSpatial || x.Rank() != k.Rank() || grad.Rank() != k.Rank() {
		return errs.New(errs.Runtime, "convolution_backward: expected grad_output, input and weight of one rank, at least 3, got %s, %s and %s", dimsText(grad.Dims), dimsText(x.Dims), dimsText(k.Dims))
	}
	w, err := convWindow(c.Ints(at), c.Ints(at+1), c.Ints(at+2), c.Ints(at+4), c.Bool(at+3), c.Int(at+5), n)
	if err != nil {
		return err
	}
	if err := checkConv(x, k, nil, &w); err != nil {
		return err
	}
	mask := c.Ints(at + 6)
	for i, s := range [2]*shape.Shape{x, k} {
		if mask[i] != 0 {
			_ = c.ReturnLike(s)
		} else {
			_ = c.Return(s.DType, 0)
		}
	}
	if mask[2] != 0 {
		return c.Return(grad.DType, grad.Dims[1])
	}
	return c.Return(grad.DType, 0)
}

func lowerConvolutionBackward(l *Lowering, at int) {
	b := l.B
	grad, x, k := l.In(0), l.In(1), l.In(2)
	w, err := convWindow(l.Ints(at), l.Ints(at+1), l.Ints(at+2), l.Ints(at+4), l.Bool(at+3), l.Int(at+5), k.Rank()-2)
	if err != nil {
		b.Failf("convolution_backward", []value{grad, x, k}, "%v", err)
		return
	}
	mask := l.Ints(at + 6)
	empty := grad.Shape().Numel() == 0 || x.Shape().Numel() == 0
	results := [3]func() value{
		func() value {
			if w.transposed {
				return l.conv(grad, k, &w, x.Dims())
			}
			return l.convInput(grad, k, &w, x.Dims())
		},
		func() value {
			if w.transposed {
				return l.convKernel(grad, x, &w, k.Dims())
			}
			return l.convKernel(x, grad, &w, k.Dims())
		},
		func() value {
			dims := []int64{0}
			for i := 2; i < grad.Rank(); i++ {
				dims = append(dims, int64(i))
			}
			return b.ReduceSum(l.Convert(grad, grad.DType().Accumulate()), dims)
		},
	}
	for i, f := range results {
		o := l.Out(i)
		if mask[i] == 0 || empty {
			l.Return(b.Broadcast(zero(b, o.DType), o.Dims))
			continue
		}
		l.Return(l.Convert(f(), o.DType))
	}
}

// inferConvTBC convolves self [time, batch, in] with weight [kernel, in, out].
func inferConvTBC(c *Ctx) error {
	x, k, bias, pad := c.In(0), c.In(1), c.In(2), c.Int(3)
	switch {
	case x.Rank() != 3:
		return errs.New(errs.Runtime, "Input must have 3 dims: time, batch, in_channel")
	case k.Rank() != 3:
		return errs.New(errs.Runtime, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
	case bias.Rank() != 1:
		return errs.New(errs.Runtime, "Bias must be 1-D")
	case x.Dims[2] != k.Dims[1]:
		return errs.New(errs.Runtime, "Input dim 2 (input channels) == Weight dim 1 (weight input channels) is expected, got %d and %d", x.Dims[2], k.Dims[1])
	case bias.Dims[0] != k.Dims[2]:
		return errs.New(errs.Runtime, "Bias size must equal the weight's output channels, got %d and %d", bias.Dims[0], k.Dims[2])
	case x.Dims[0]+2*pad < k.Dims[0]-1:
		return errs.New(errs.Runtime, "the kernel of size %d does not fit the padded input of size %d", k.Dims[0], x.Dims[0]+2*pad)
	}
	return c.Return(x.DType, x.Dims[0]+2*pad-k.Dims[0]+1, x.Dims[1], k.Dims[2])
}

func lowerConvTBC(l *Lowering) {
	o, pad := l.Out(0), l.Int(3)
	d := o.DType.Accumulate()
	out := l.B.Convolution(l.In(0), l.In(1), stablehlo.ConvDims{
		InputBatch: 1, InputFeature: 2, InputSpatial: []int64{0},
		KernelInput: 1, KernelOutput: 2, KernelSpatial: []int64{0},
		OutputBatch: 1, OutputFeature: 2, OutputSpatial: []int64{0},
		Padding: [][2]int64{{pad, pad}}, Precision: l.Precision,
	})
	out = l.B.Add(l.Convert(out, d), l.Full(2, d, o.Dims))
	l.Return(l.Convert(out, o.DType))
}
