package ops

import "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"

// A convolution of x [N,C,…] with a kernel [O,C/groups,…] gives [N,O,…]. Its gradients are convolutions
// too: that by x slides the turned kernel over the gradient, whose elements stand stride apart; that by
// the kernel slides the gradient over x, with channels as the batch and the batch as channels. A
// transposed convolution is the first of the two, so that three functions make all six.

// conv is the plain convolution; out are the dimensions of the result.
func (l *Lowering) conv(x, kernel value, w *window, out []int64) value {
	d := stablehlo.ConvNCHW(w.n)
	d.FeatureGroups, d.Precision = w.groups, l.Precision
	for i := range w.n {
		low := w.padding[i]
		reach := (out[2+i]-1)*w.stride[i] + w.dilation[i]*(kernel.Dim(2+i)-1) + 1
		high := low
		if w.transposed { // the output padding of the transposed one may leave a rest of more than a stride
			high = reach - x.Dim(2+i) - low
		}
		d.Strides = append(d.Strides, w.stride[i])
		d.RhsDilation = append(d.RhsDilation, w.dilation[i])
		d.Padding = append(d.Padding, [2]int64{low, high})
	}
	return l.B.Convolution(x, kernel, d)
}

// convInput is the gradient of conv by its input: grad [N,O,…] with kernel [O,C/groups,…] gives
// [N,C,…], whose dimensions are in.
func (l *Lowering) convInput(grad, kernel value, w *window, in []int64) value {
	d := stablehlo.ConvNCHW(w.n)
	d.FeatureGroups, d.Precision = w.groups, l.Precision
	d.KernelInput, d.KernelOutput = 0, 1
	var turned []int64
	for i := range w.n {
		reach := w.dilation[i] * (kernel.Dim(2+i) - 1)
		low := reach - w.padding[i]
		spread := (grad.Dim(2+i)-1)*w.stride[i] + 1
		if grad.Dim(2+i) == 0 {
			spread = 0
		}
		d.LhsDilation = append(d.LhsDilation, w.stride[i])
		d.RhsDilation = append(d.RhsDilation, w.dilation[i])
		d.Padding = append(d.Padding, [2]int64{low, in[2+i] + reach - spread - low})
		if kernel.Dim(2+i) > 1 {
			turned = append(turned, int64(2+i))
		}
	}
	// reversed as a value: XLA:CPU has no fast path for a reversed window, and others fold it back
	kernel = l.B.Reverse(kernel, turned)
	return l.B.Convolution(grad, l.swapGroups(kernel, w.groups), d)
}

// swapGroups turns a kernel [O, C/groups, …] into [O/groups, C, …]: the groups move from the outputs
// to the inputs.
func (l *Lowering) swapGroups(kernel value, groups int64) value {
	if groups == 1 {
		return kernel
	}
	dims := kernel.Dims()
	split := append([]int64{groups, dims[0] / groups}, dims[1:]...)
	perm := make([]int64, len(split))
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[0], perm[1], perm[2] = 1, 0, 2
	joined := append([]int64{dims[0] / groups, groups * dims[1]}, dims[2:]...)
	return l.B.Reshape(l.B.Transpose(l.B.Reshape(kernel, split), perm), joined)
}

// convKernel is the gradient of conv by its kernel: x [N,C,…] with grad [N,O,…] gives [O,C/groups,…],
// whose dimensions are out.
func (l *Lowering) convKernel(x, grad value, w *window, out []int64) value {
	d := stablehlo.ConvNCHW(w.n)
	d.InputBatch, d.InputFeature = 1, 0
	d.KernelInput, d.KernelOutput = 0, 1
	d.OutputBatch, d.OutputFeature = 1, 0
	d.BatchGroups, d.Precision = w.groups, l.Precision
	for i := range w.n {
		low := w.padding[i]
		reach := (out[2+i]-1)*w.dilation[i] + (grad.Dim(2+i)-1)*w.stride[i] + 1
		d.Strides = append(d.Strides, w.dilation[i])
		d.RhsDilation = append(d.RhsDilation, w.stride[i])
		d.Padding = append(d.Padding, [2]int64{low, reach - x.Dim(2+i) - low})
	}
	return l.B.Convolution(x, grad, d)
}
