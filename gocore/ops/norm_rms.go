package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// rmsNormRows divide by the root mean square of the trailing dimensions.
var rmsNormRows = []Row{
	{Name: "_fused_rms_norm", Schema: "(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error {
			s, list := c.In(0), c.Ints(1)
			start, err := trailing(s, list)
			if err != nil {
				return err
			}
			if w := c.In(2); w != nil && !slices.Equal(w.Dims, list) {
				return errs.New(errs.Runtime, "Expected weight to be of same shape as normalized_shape, but got weight of shape %s and normalized_shape = %s",
					dimsText(w.Dims), dimsText(list))
			}
			if !s.DType.IsFloat() {
				return notFor("RMSNormKernelImpl", s.DType)
			}
			dims := append(c.dims[:0], s.Dims[:start]...)
			for range list {
				dims = append(dims, 1)
			}
			c.outs = append(c.outs, s, shape.Of(s.DType.Accumulate(), dims))
			return nil
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Shape(0).DType.Accumulate()
			x := l.As(0, d)
			dims := from(x.Rank()-len(l.Ints(1)), x.Rank())
			rstd := inverse(b, average(b, b.Square(x), dims), l.FloatOr(3, smallest(d)))
			y := b.Multiply(x, unreduce(b, rstd, x.Dims(), dims))
			if l.Has(2) {
				y = b.Multiply(y, b.BroadcastInDim(l.As(2, d), y.Dims(), dims))
			}
			l.Return(l.finish(0, y), l.finish(1, rstd))
		}},
	{Name: "_fused_rms_norm_backward", Schema: "(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error {
			s := c.In(1)
			if _, err := trailing(s, c.Ints(2)); err != nil {
				return err
			}
			if err := masked(c, 5, s, c.In(4), nil); err != nil {
				return err
			}
			c.outs = c.outs[:len(c.outs)-1]
			return nil
		},
		Lower: lowerRMSNormBackward},
}

// smallest is the eps that torch takes for a compute type when none is given.
func smallest(d dtype.DType) float64 {
	if d == dtype.F64 {
		return math.Nextafter(1, 2) - 1
	}
	return float64(math.Nextafter32(1, 2) - 1)
}

func lowerRMSNormBackward(l *Lowering) {
	b, d := l.B, l.Shape(1).DType.Accumulate()
	g, x := l.As(0, d), l.As(1, d)
	start := x.Rank() - len(l.Ints(2))
	inner, outer := from(start, x.Rank()), allDims(start).list()
	rstd := b.Broadcast(l.As(3, d), x.Dims())
	y := b.Multiply(x, rstd)
	want := l.Ints(5)
	if want[0] != 0 {
		gw := g
		if l.Has(4) {
			gw = b.Multiply(g, b.BroadcastInDim(l.As(4, d), x.Dims(), inner))
		}
		along := unreduce(b, average(b, b.Multiply(gw, y), inner), x.Dims(), inner)
		l.Return(l.finish(0, b.Multiply(b.Subtract(gw, b.Multiply(y, along)), rstd)))
	} else {
		l.Return(l.omitted(0))
	}
	if want[1] != 0 && l.Has(4) {
		l.Return(l.finish(1, addUp(b, b.Multiply(g, y), outer)))
	} else {
		l.Return(l.omitted(1))
	}
}

// weightNormRows are v·g/‖v‖, with the norm over all dimensions but one.
var weightNormRows = []Row{
	{Name: "_weight_norm_interface", Schema: "(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error {
			v, g := c.In(0), c.In(1)
			if _, err := WrapDim(c.Int(2), len(v.Dims)); err != nil {
				return err
			}
			return join2(c, v, g.With(g.DType.Accumulate()))
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Out(1).DType
			v, g := l.As(0, d), l.As(1, d)
			norm := pnorm(b, v, 2, l.otherDims(2))
			norm = b.Reshape(norm, g.Dims())
			l.Return(l.finish(0, b.Multiply(v, b.Broadcast(b.Divide(g, norm), v.Dims()))), norm)
		}},
	{Name: "_weight_norm_interface_backward", Schema: "(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error { return join2(c, c.In(1), c.In(2)) },
		Lower: func(l *Lowering) {
			b, d := l.B, l.Shape(3).DType
			grad, v, g, norm := l.As(0, d), l.As(1, d), l.As(2, d), l.In(3)
			along := b.Reshape(addUp(b, b.Multiply(grad, v), l.otherDims(4)), g.Dims())
			stretch := func(x value) value { return b.Broadcast(x, v.Dims()) }
			inv := b.Divide(b.ConstLike(norm, 1), norm)
			// d(v/‖v‖) takes away what points along v
			radial := b.Multiply(along, b.Multiply(inv, b.Multiply(inv, inv)))
			dv := b.Multiply(stretch(g), b.Subtract(b.Multiply(grad, stretch(inv)), b.Multiply(v, stretch(radial))))
			l.Return(l.finish(0, dv), l.finish(1, b.Multiply(along, inv)))
		}},
}

// join2 returns two shapes.
func join2(c *Ctx, first, second *shape.Shape) error {
	c.outs = append(c.outs, first, second)
	return nil
}

// otherDims is every dimension of the operand at position 0 but the one that argument i names.
func (l *Lowering) otherDims(i int) []int64 {
	rank := len(l.Shape(0).Dims)
	return (allDims(rank) &^ (1 << acceptedDim(l.Int(i), rank))).list()
}
