package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Work below which a custom call costs more than torch's kernel saves (docs/performance.md): multiplications of a
// convolution, elements of a pooling's result.
const (
	minConvWork = 1 << 20
	minPoolWork = 1 << 14
)

// torchKernel tells whether torch's CPU kernel serves this op: on values of type d, with n spatial dimensions.
func (l *Lowering) torchKernel(d dtype.DType, n int) bool {
	return l.TorchKernels && n <= 3 && (d == dtype.F32 || d == dtype.BF16 || d == dtype.F16)
}

// callTorch is a call of a kernel of package torchcpu.
func (l *Lowering) callTorch(target string, operands []value, results []*shape.Shape, config ...stablehlo.Attr) []value {
	return l.B.CustomCall(target, operands, results, stablehlo.CustomCallOptions{APIVersion: 4, Config: config})
}

// torchConvolution is the convolution, with its bias, by torch's kernel; false where XLA's serves better.
func (l *Lowering) torchConvolution(x, kernel value, w *window, o *shape.Shape) bool {
	work := o.Numel() * kernel.Shape().Numel() / max(kernel.Dim(0), 1)
	if w.transposed {
		work = x.Shape().Numel() * kernel.Shape().Numel() / max(kernel.Dim(0), 1)
	}
	if !l.torchKernel(o.DType, w.n) || work < minConvWork {
		return false
	}
	operands := []value{x, kernel}
	if l.Has(2) {
		operands = append(operands, l.In(2))
	}
	l.Return(l.callTorch("torch_convolution", operands, []*shape.Shape{o}, w.config()...)...)
	return true
}

// torchConvolutionBackward gives the gradients of a convolution that mask asks for by torch's kernel; false
// where XLA's serves better.
func (l *Lowering) torchConvolutionBackward(grad, x, kernel value, w *window, mask []int64) bool {
	work := grad.Shape().Numel() * kernel.Shape().Numel() / max(kernel.Dim(0), 1)
	if !l.torchKernel(x.DType(), w.n) || work < minConvWork || mask[0] == 0 && mask[1] == 0 {
		return false
	}
	var results []*shape.Shape
	for i := range 3 {
		if mask[i] != 0 {
			results = append(results, l.Out(i))
		}
	}
	given := l.callTorch("torch_convolution_backward", []value{grad, x, kernel}, results, append(w.config(), stablehlo.Int64sAttr("mask", mask))...)
	for i := range 3 {
		if mask[i] == 0 {
			l.Return(l.B.Broadcast(zero(l.B, l.Out(i).DType), l.Out(i).Dims))
			continue
		}
		l.Return(given[0])
		given = given[1:]
	}
	return true
}

// config are the window's numbers as attributes of a call.
func (w *window) config() []stablehlo.Attr {
	return []stablehlo.Attr{
		stablehlo.Int64sAttr("stride", w.stride[:w.n]), stablehlo.Int64sAttr("padding", w.padding[:w.n]),
		stablehlo.Int64sAttr("dilation", w.dilation[:w.n]), stablehlo.Int64sAttr("output_padding", w.outputs[:w.n]),
		flag("transposed", w.transposed), stablehlo.Int64Attr("groups", w.groups),
	}
}

// torchPool tells whether torch's kernels serve a max pooling with a result of shape o, and its gradient.
func (l *Lowering) torchPool(p *pooling, o *shape.Shape) bool {
	return p.n == 2 && l.torchKernel(o.DType, p.n) && o.Numel() >= minPoolWork
}

// config are the pooling's numbers as attributes of a call.
func (p *pooling) config() []stablehlo.Attr {
	return []stablehlo.Attr{
		stablehlo.Int64sAttr("kernel", p.kernel[:p.n]), stablehlo.Int64sAttr("stride", p.stride[:p.n]),
		stablehlo.Int64sAttr("padding", p.padding[:p.n]), stablehlo.Int64sAttr("dilation", p.dilation[:p.n]), flag("ceil", p.ceil),
	}
}

// flag is a truth as the number that the kernels take it for.
func flag(name string, set bool) stablehlo.Attr {
	if set {
		return stablehlo.Int64Attr(name, 1)
	}
	return stablehlo.Int64Attr(name, 0)
}
