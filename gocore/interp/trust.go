package interp

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// inRange fails when the program runs, unless the integers of an argument are below a limit, or the ignored one.
func (w *writer) inRange(i int, limit, ignored int64) bool {
	if w.isNumber(w.ID(i)) {
		return false
	}
	w.emit(opRange, list(w.valueOf(w.ID(i)), limit, ignored))
	return true
}

// nllLossBackward looks at the targets first, which torch's kernel takes on trust. The classes are dimension 1, or the
// only one.
func nllLossBackward(w *writer) bool {
	self := w.g.Shape(w.ID(1))
	if self.Rank() == 0 || w.Kind(5) == wire.KInt {
		return false
	}
	return w.inRange(2, self.Dims[min(self.Rank()-1, 1)], w.Int(5)) && direct(w)
}

// poolBackward looks at the indices first, which torch's kernel takes on trust. The row's shape rule has compared the
// shapes.
func poolBackward(spatial int) rule {
	return func(w *writer) bool {
		plane := int64(1)
		for _, n := range w.out(0).Dims[w.out(0).Rank()-spatial:] {
			plane *= n
		}
		row := ops.Of(w.g.At(w.node).Op)
		return w.inRange(7, plane, 0) && w.callAs(row.Name+row.Schema)
	}
}

// batchNormBackward compares the statistics with the channels, which torch's kernel takes on trust.
func batchNormBackward(w *writer) bool {
	grad, in := w.g.Shape(w.ID(0)), w.g.Shape(w.ID(1))
	if grad != in || in.Rank() < 2 || in.Numel() == 0 {
		return false
	}
	perChannel := func(i int) bool {
		return w.ID(i) != ir.None && !w.isNumber(w.ID(i)) && w.g.Shape(w.ID(i)).Rank() == 1 && w.g.Shape(w.ID(i)).Dims[0] == in.Dims[1]
	}
	statistics := 3
	if w.Bool(7) {
		statistics = 5
	}
	return perChannel(statistics) && perChannel(statistics+1) && (w.ID(2) == ir.None || perChannel(2)) && direct(w)
}

// convolutionBackward looks at the size of the gradient first, which torch's kernel takes on trust.
func convolutionBackward(w *writer) bool {
	grad, in, kernel := w.g.Shape(w.ID(0)), w.g.Shape(w.ID(1)), w.g.Shape(w.ID(2))
	stride, padding, dilation, more, groups := w.Ints(4), w.Ints(5), w.Ints(6), w.Ints(8), w.Int(9)
	spatial := in.Rank() - 2
	if spatial < 1 || grad.Rank() != in.Rank() || kernel.Rank() != in.Rank() || len(stride) != spatial || len(padding) != spatial ||
		len(dilation) != spatial || len(more) != spatial || groups < 1 || grad.Dims[0] != in.Dims[0] {
		return false
	}
	channels, inner := kernel.Dims[0], kernel.Dims[1]*groups
	if w.Bool(7) {
		channels, inner = inner, channels
	}
	if grad.Dims[1] != channels || in.Dims[1] != inner {
		return false
	}
	for d := range spatial {
		reach := dilation[d] * (kernel.Dims[d+2] - 1)
		if stride[d] < 1 {
			return false
		}
		size := (in.Dims[d+2]+2*padding[d]-reach-1)/stride[d] + 1
		if w.Bool(7) {
			size = (in.Dims[d+2]-1)*stride[d] - 2*padding[d] + reach + more[d] + 1
		}
		if grad.Dims[d+2] != size {
			return false
		}
	}
	return w.callAs("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
}

// attention is torch's, forward or backward. The row's shape rule has compared the operands, but for empty ones.
func attention(w *writer) bool {
	for _, in := range w.g.In(w.node) {
		if in != ir.None && w.g.Shape(in).Numel() == 0 {
			return false
		}
	}
	row := ops.Of(w.g.At(w.node).Op)
	return w.callAs(row.Name + row.Schema)
}

// indexAdd adds rows by the op for indices of dimensions, which takes no factor.
func indexAdd(w *writer) bool {
	self, source := w.g.Shape(w.ID(0)), w.ID(3)
	if d := self.DType; d == dtype.Bool || self.Rank() == 0 || w.g.Shape(source).Rank() != self.Rank() || w.g.Shape(w.ID(2)).Rank() != 1 {
		return false
	}
	dim := w.Int(1)
	if dim < 0 {
		dim += int64(self.Rank())
	}
	if w.g.Shape(w.ID(2)).DType != dtype.I64 || !w.inRange(2, self.Dims[dim], 0) {
		return false
	}
	rows := value(w.valueOf(source))
	if n, known := w.g.Number(w.ID(4)); w.ID(4) != ir.None && (!known || w.isParam(w.ID(4)) || n.Type.IsComplex() || n.Float() != 1) {
		var ok bool
		if rows, ok = w.scaled(3, 4); !ok {
			return false
		}
	}
	indices := make(places, dim+1)
	indices[dim] = w.valueOf(w.ID(2)) + 1
	return w.call(indexPut, arg(0), indices, rows, true)
}

// indexPut looks at the indices, as the ops that need not do.
const indexPut = "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"

// inWideTypes is a row whose kernel in some form rounds each sum of halves to halves; that form is compiled.
func inWideTypes(rounds func(*writer) bool) rule {
	return func(w *writer) bool {
		if d := w.out(0).DType; (d == dtype.F16 || d == dtype.BF16) && rounds(w) {
			return false
		}
		return direct(w)
	}
}
