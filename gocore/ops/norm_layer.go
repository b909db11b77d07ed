package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// layerNormRows normalize over the trailing dimensions.
var layerNormRows = []Row{
	{Name: "native_layer_norm", Schema: "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
		Infer: inferLayerNorm, Lower: lowerLayerNorm},
	{Name: "native_layer_norm_backward", Schema: "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
		Infer: inferLayerNormBackward, Lower: lowerLayerNormBackward},
}

// statType is the type in which the normalizations keep mean and 1/deviation. It is that of the parameters where a
// half input meets float ones, the input's otherwise.
func statType(c *Ctx, input int, params ...int) dtype.DType {
	d := c.In(input).DType
	if d != dtype.F16 && d != dtype.BF16 {
		return d
	}
	for _, p := range params {
		if s := c.In(p); s != nil && s.DType == dtype.F32 {
			return dtype.F32
		}
	}
	return d
}

// trailing checks that the list ends the dimensions of s and returns where it starts.
func trailing(s *shape.Shape, list []int64) (start int, err error) {
	if len(list) == 0 {
		return 0, errs.New(errs.Runtime, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []")
	}
	start = len(s.Dims) - len(list)
	if start < 0 || !slices.Equal(s.Dims[start:], list) {
		return 0, errs.New(errs.Runtime, "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s",
			dimsText(list), dimsText(list)[1:], dimsText(s.Dims))
	}
	return start, nil
}

func inferLayerNorm(c *Ctx) error {
	s, list := c.In(0), c.Ints(1)
	start, err := trailing(s, list)
	if err != nil {
		return err
	}
	for i, name := range [...]string{2: "weight", 3: "bias"} {
		if p := c.In(i); i >= 2 && p != nil && !slices.Equal(p.Dims, list) {
			return errs.New(errs.Runtime, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and normalized_shape = %s",
				name, name, dimsText(p.Dims), dimsText(list))
		}
	}
	if !s.DType.IsFloat() {
		return notFor("LayerNormKernelImpl", s.DType)
	}
	dims := append(c.dims[:0], s.Dims[:start]...)
	for range list {
		dims = append(dims, 1)
	}
	stats := shape.Of(statType(c, 0, 2, 3), dims)
	c.outs = append(c.outs, s, stats, stats)
	return nil
}

// from is the dimensions start … rank-1.
func from(start, rank int) []int64 {
	dims := make([]int64, 0, rank-start)
	for i := start; i < rank; i++ {
		dims = append(dims, int64(i))
	}
	return dims
}

// standardize is (x − mean)·rstd over dims, with both statistics without those dimensions.
func standardize(b *stablehlo.Builder, x value, eps float64, dims []int64) (y, mu, rstd value) {
	n := float64(count(x.Shape(), dims))
	mu = average(b, x, dims)
	centered := b.Subtract(x, unreduce(b, mu, x.Dims(), dims))
	squares := addUp(b, b.Square(centered), dims)
	rstd = b.Rsqrt(b.Add(b.Divide(squares, b.ConstLike(squares, n)), b.ConstLike(squares, eps)))
	return b.Multiply(centered, unreduce(b, rstd, x.Dims(), dims)), mu, rstd
}

// scaleShift is y·weight + bias for absent or present parameters, whose dimension i is dimension
// mapping[i] of y.
func (l *Lowering) scaleShift(y value, weight, bias int, mapping []int64) value {
	if l.Has(weight) {
		y = l.B.Multiply(y, l.B.BroadcastInDim(l.As(weight, y.DType()), y.Dims(), mapping))
	}
	if l.Has(bias) {
		y = l.B.Add(y, l.B.BroadcastInDim(l.As(bias, y.DType()), y.Dims(), mapping))
	}
	return y
}

func lowerLayerNorm(l *Lowering) {
	x := l.As(0, l.Shape(0).DType.Accumulate())
	dims := from(x.Rank()-len(l.Ints(1)), x.Rank())
	y, mu, rstd := standardize(l.B, x, l.Float(4), dims)
	y = l.scaleShift(y, 2, 3, dims)
	l.Return(l.finish(0, y), l.finish(1, mu), l.finish(2, rstd))
}

// masked returns the shapes of three gradients, that of the input and those of the parameters, as
// output_mask (argument mask) asks. A parameter that is absent has no gradient.
func masked(c *Ctx, mask int, input, weight, bias *shape.Shape) error {
	want := c.Ints(mask)
	for i, s := range [...]*shape.Shape{input, weight, bias} {
		if s == nil || i >= len(want) || want[i] == 0 {
			c.outs = append(c.outs, shape.Make(input.DType, 0))
			continue
		}
		c.outs = append(c.outs, s)
	}
	return nil
}

func inferLayerNormBackward(c *Ctx) error {
	s := c.In(1)
	if _, err := trailing(s, c.Ints(2)); err != nil {
		return err
	}
	if g := c.In(0); !slices.Equal(g.Dims, s.Dims) {
		return errs.New(errs.Runtime, "native_layer_norm_backward: grad_out has dimensions %s, input %s", dimsText(g.Dims), dimsText(s.Dims))
	}
	w, b := c.In(5), c.In(6)
	return masked(c, 7, s, w, b)
}

func lowerLayerNormBackward(l *Lowering) {
	b, d := l.B, l.Shape(1).DType.Accumulate()
	g, x := l.As(0, d), l.As(1, d)
	start := x.Rank() - len(l.Ints(2))
	inner := from(start, x.Rank())
	outer := allDims(start).list()
	rstd := b.Broadcast(l.As(4, d), x.Dims())
	y := b.Multiply(b.Subtract(x, b.Broadcast(l.As(3, d), x.Dims())), rstd)
	want := l.Ints(7)
	for k := range 3 {
		switch {
		case l.Out(k).Numel() == 0 || want[k] == 0:
			l.Return(l.omitted(k))
		case k == 0:
			gw := g
			if l.Has(5) {
				gw = b.Multiply(g, b.BroadcastInDim(l.As(5, d), x.Dims(), inner))
			}
			l.Return(l.finish(0, standardizeBackward(b, gw, y, rstd, inner)))
		case k == 1:
			l.Return(l.finish(1, addUp(b, b.Multiply(g, y), outer)))
		default:
			l.Return(l.finish(2, addUp(b, g, outer)))
		}
	}
}

// standardizeBackward is the gradient by x of y = (x − mean)·rstd, where both statistics are of x over dims. That is
// rstd·(g − mean(g) − y·mean(g·y)).
func standardizeBackward(b *stablehlo.Builder, g, y, rstd value, dims []int64) value {
	gMean := unreduce(b, average(b, g, dims), g.Dims(), dims)
	gyMean := unreduce(b, average(b, b.Multiply(g, y), dims), g.Dims(), dims)
	return b.Multiply(b.Subtract(b.Subtract(g, gMean), b.Multiply(y, gyMean)), rstd)
}
