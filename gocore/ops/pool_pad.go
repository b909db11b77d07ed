package ops

import (
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// padRows extend the last dimensions. A pad list has two numbers a dimension, before and after, the last
// dimension first; a negative number takes elements away.
var padRows = join([]Row{
	{Name: "constant_pad_nd", Schema: "(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", Strides: Format,
		Infer: inferConstantPad, Lower: lowerConstantPad},
}, edgePads("reflection", reflectPad), edgePads("replication", replicatePad))

func inferConstantPad(c *Ctx) error {
	x, pad := c.In(0), c.Ints(1)
	if len(pad)%2 != 0 {
		return errs.New(errs.Runtime, "Length of pad must be even but instead it equals %d", len(pad))
	}
	if len(pad)/2 > x.Rank() {
		return errs.New(errs.Runtime, "Length of pad should be no more than twice the number of dimensions of the input. Pad length is %dwhile the input has %ddimensions.", len(pad), x.Rank())
	}
	var scratch [16]int64
	dims := append(scratch[:0], x.Dims...)
	for i := range len(pad) / 2 {
		d := len(dims) - 1 - i
		if dims[d] += pad[2*i] + pad[2*i+1]; dims[d] < 0 {
			return errs.New(errs.Runtime, "The input size %d, plus negative padding %d and %d resulted in a negative output size, which is invalid. Check dimension %d of your input.", x.Dims[d], pad[2*i], pad[2*i+1], d)
		}
	}
	if n, ok := c.Number(2); ok && n.Type.IsComplex() && n.Im != 0 && !x.DType.IsComplex() {
		return errs.New(errs.Runtime, "value cannot be converted to type %s without overflow", cppName(x.DType))
	}
	return c.Return(x.DType, dims...)
}

func lowerConstantPad(l *Lowering) {
	x, pad := l.In(0), l.Ints(1)
	low, high := padDims(x.Rank(), pad)
	l.Return(l.B.Pad(x, l.As(2, x.DType()), low, high, make([]int64, x.Rank())))
}

// padDims sorts a pad list by dimension.
func padDims(rank int, pad []int64) (low, high []int64) {
	low, high = make([]int64, rank), make([]int64, rank)
	for i := range len(pad) / 2 {
		low[rank-1-i], high[rank-1-i] = pad[2*i], pad[2*i+1]
	}
	return low, high
}

// edgePad extends dimension dim of x from its own elements; transposed, it is the gradient: the result
// has size elements and each is the sum of its copies.
type edgePad func(b *stablehlo.Builder, x value, dim int, low, high, size int64, transposed bool) value

// edgePads are the ops pad1d, pad2d and pad3d of a kind with their gradients.
func edgePads(kind string, f edgePad) (rows []Row) {
	for n := 1; n <= 3; n++ {
		op := fmt.Sprintf("%s_pad%dd", kind, n)
		rows = append(rows, Row{Name: op, Schema: fmt.Sprintf("(Tensor self, SymInt[%d] padding) -> Tensor", 2*n), Strides: Format,
			Infer: func(c *Ctx) error {
				if d := c.In(0).DType; d == dtype.Bool {
					return notFor(op, d)
				}
				var scratch [5]int64
				dims, err := inferEdgePad(scratch[:0], c.In(0), c.Ints(1), n, kind == "reflection")
				if err != nil {
					return err
				}
				return c.Return(c.In(0).DType, dims...)
			},
			Lower: func(l *Lowering) {
				x := l.In(0)
				low, high := padDims(x.Rank(), l.Ints(1))
				for d := x.Rank() - n; d < x.Rank(); d++ {
					x = f(l.B, x, d, low[d], high[d], x.Dim(d), false)
				}
				l.Return(x)
			}})
		rows = append(rows, Row{Name: op + "_backward", Schema: fmt.Sprintf("(Tensor grad_output, Tensor self, SymInt[%d] padding) -> Tensor", 2*n),
			Infer: func(c *Ctx) error {
				var scratch [5]int64
				dims, err := inferEdgePad(scratch[:0], c.In(1), c.Ints(2), n, kind == "reflection")
				if err != nil {
					return err
				}
				if err := checkPadGrad(c.In(0), dims); err != nil {
					return err
				}
				return c.ReturnLike(c.In(1))
			},
			Lower: func(l *Lowering) {
				o := l.Out(0)
				grad := l.As(0, o.DType.Accumulate())
				low, high := padDims(grad.Rank(), l.Ints(2))
				for d := grad.Rank() - n; d < grad.Rank(); d++ {
					grad = f(l.B, grad, d, low[d], high[d], o.Dims[d], true)
				}
				l.Return(l.Convert(grad, o.DType))
			}})
	}
	return rows
}

// inferEdgePad appends the dimensions of the padded x to dst.
func inferEdgePad(dst []int64, x *shape.Shape, pad []int64, n int, reflect bool) ([]int64, error) {
	if len(pad) != 2*n {
		return nil, errs.New(errs.Runtime, "padding size is expected to be %d, but got: %d", 2*n, len(pad))
	}
	rank := x.Rank()
	ok := rank == n+1 || rank == n+2
	for d := 1; ok && d < rank; d++ {
		ok = x.Dims[d] != 0
	}
	if !ok || rank == n+1 && x.Dims[0] == 0 {
		return nil, errs.New(errs.Runtime, "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s", n+1, n+2, dimsText(x.Dims))
	}
	dst = append(dst, x.Dims...)
	for i := range n {
		d := rank - 1 - i
		in, low, high := x.Dims[d], pad[2*i], pad[2*i+1]
		if reflect && (low >= in || high >= in) {
			return nil, errs.New(errs.Runtime, "Argument #%d: Padding size should be less than the corresponding input dimension, but got: padding (%d, %d) at dimension %d of input %s", 4+2*i, low, high, d, dimsText(x.Dims))
		}
		if dst[d] += low + high; dst[d] < 1 {
			return nil, padTooSmall(x, dst, i, n)
		}
	}
	return dst, nil
}

func padTooSmall(x *shape.Shape, out []int64, i, n int) error {
	if n == 1 {
		d := x.Rank() - 1
		return errs.New(errs.Runtime, "input (W: %d) is too small. Calculated output W: %d", x.Dims[d], out[d])
	}
	var ins, outs []string
	for d := x.Rank() - n; d < x.Rank(); d++ {
		axis := string("WHD"[x.Rank()-1-d])
		ins = append(ins, fmt.Sprintf("%s: %d", axis, x.Dims[d]))
		outs = append(outs, fmt.Sprintf("%s: %d", axis, out[d]))
	}
	return errs.New(errs.Runtime, "Calculated output %s must be >= 1 in every dimension (input %s)", strings.Join(outs, " "), strings.Join(ins, ", "))
}

func checkPadGrad(grad *shape.Shape, dims []int64) error {
	names := [3]string{"width", "height", "depth"}
	for d := len(dims) - 1; d >= 0; d-- {
		if grad.Rank() != len(dims) {
			return errs.New(errs.Runtime, "Expected grad_output to be a tensor of dimension %d but got: dimension %d", len(dims), grad.Rank())
		}
		if grad.Dims[d] != dims[d] {
			return errs.New(errs.Runtime, "grad_output %s unexpected. Expected: %d, Got: %d", names[min(len(dims)-1-d, 2)], dims[d], grad.Dims[d])
		}
	}
	return nil
}

// cut is the part [start, start+n) of a dimension.
func cut(b *stablehlo.Builder, x value, dim int, start, n int64) value {
	return b.SliceDim(x, int64(dim), start, start+n, 1)
}

// reflectPad mirrors at the first and the last element, which are not repeated.
func reflectPad(b *stablehlo.Builder, x value, dim int, low, high, size int64, transposed bool) value {
	flip := []int64{int64(dim)}
	if !transposed {
		var parts []value
		if low > 0 {
			parts = append(parts, b.Reverse(cut(b, x, dim, 1, low), flip))
		}
		parts = append(parts, cut(b, x, dim, max(-low, 0), size+min(low, 0)+min(high, 0)))
		if high > 0 {
			parts = append(parts, b.Reverse(cut(b, x, dim, size-1-high, high), flip))
		}
		return b.Concatenate(int64(dim), parts...)
	}
	total := padDim(b, cut(b, x, dim, max(low, 0), size+min(low, 0)+min(high, 0)), dim, max(-low, 0), max(-high, 0))
	if low > 0 {
		part := b.Reverse(cut(b, x, dim, 0, low), flip)
		total = b.Add(total, padDim(b, part, dim, 1, size-1-low))
	}
	if high > 0 {
		part := b.Reverse(cut(b, x, dim, low+size, high), flip)
		total = b.Add(total, padDim(b, part, dim, size-1-high, 1))
	}
	return total
}

// replicatePad repeats the first and the last element.
func replicatePad(b *stablehlo.Builder, x value, dim int, low, high, size int64, transposed bool) value {
	along := func(n int64) []int64 {
		dims := append([]int64(nil), x.Dims()...)
		dims[dim] = n
		return dims
	}
	if !transposed {
		var parts []value
		if low > 0 {
			parts = append(parts, b.Broadcast(cut(b, x, dim, 0, 1), along(low)))
		}
		// beyond the whole of the input, a negative pad goes on into the other side's copies
		start, end := min(max(-low, 0), size), max(size+min(high, 0), 0)
		if start < end {
			parts = append(parts, cut(b, x, dim, start, end-start))
		}
		if high > 0 {
			n := high - max(-low-size, 0)
			parts = append(parts, b.Broadcast(cut(b, x, dim, size-1, 1), along(n)))
		}
		out := b.Concatenate(int64(dim), parts...)
		return cut(b, out, dim, 0, low+size+high)
	}
	out := x.Dim(dim)
	sum := func(start, n int64) value {
		return b.Reshape(b.ReduceSum(cut(b, x, dim, start, n), []int64{int64(dim)}), along(1))
	}
	// element i of the input is element i+low of the padded one, if it is there
	first, last := max(low, 0), min(low+size, out)
	total := value{}
	if first < last {
		total = padDim(b, cut(b, x, dim, first, last-first), dim, first-low, size-(last-low))
	} else {
		total = b.Broadcast(zero(b, x.DType()), along(size))
	}
	if n := min(low, out); n > 0 {
		total = b.Add(total, padDim(b, sum(0, n), dim, 0, size-1))
	}
	if start := max(low+size, 0); start < out {
		total = b.Add(total, padDim(b, sum(start, out-start), dim, size-1, 0))
	}
	return total
}

// padDim puts zeros before and after one dimension.
func padDim(b *stablehlo.Builder, x value, dim int, before, after int64) value {
	if before == 0 && after == 0 {
		return x
	}
	low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
	low[dim], high[dim] = before, after
	return b.Pad(x, zero(b, x.DType()), low, high, make([]int64, x.Rank()))
}
