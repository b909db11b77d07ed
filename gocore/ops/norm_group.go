package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// groupNormRows normalize over groups of channels.
var groupNormRows = []Row{
	{Name: "native_group_norm", Schema: "(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)", Strides: Format,
		Infer: func(c *Ctx) error {
			s, groups := c.In(0), c.Int(6)
			if err := checkGroups(s, c.Int(4), groups); err != nil {
				return err
			}
			for i, name := range [...]string{1: "weight", 2: "bias"} {
				if p := c.In(i); i > 0 && p != nil && (len(p.Dims) != 1 || p.Dims[0] != c.Int(4)) {
					return errs.New(errs.Runtime, "Expected %s to be a vector of size equal to the number of channels in input, but got %s of shape %s and input of shape %s",
						name, name, dimsText(p.Dims), dimsText(s.Dims))
				}
			}
			if !s.DType.IsFloat() {
				return notFor("GroupNormKernelImpl", s.DType)
			}
			stats := shape.Make(statType(c, 0, 1, 2), c.Int(3), groups)
			c.outs = append(c.outs, s, stats, stats)
			return nil
		},
		Lower: lowerGroupNorm},
	{Name: "native_group_norm_backward", Schema: "(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", Strides: Format, StridesOf: 1,
		Infer: func(c *Ctx) error {
			s := c.In(1)
			if err := checkGroups(s, c.Int(6), c.Int(8)); err != nil {
				return err
			}
			if g := c.In(0); g.Numel() != s.Numel() {
				return errs.New(errs.Runtime, "Expected X and dY to have the same number of elements, but got %d and %d", s.Numel(), g.Numel())
			}
			param := shape.Make(gradType(c, 1, 4, -1), c.Int(6))
			return masked(c, 9, s, param, param)
		},
		Lower: lowerGroupNormBackward},
}

func checkGroups(s *shape.Shape, channels, groups int64) error {
	if groups <= 0 {
		return errs.New(errs.Runtime, "Expected num groups to be greater than 0, got %d", groups)
	}
	if channels%groups != 0 {
		return errs.New(errs.Runtime, "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and num_groups=%d", dimsText(s.Dims), groups)
	}
	return nil
}

// gradType is the type of a parameter's gradient: the parameter's. Without one it is that of the statistics (argument
// stats, if not negative), or else the input's.
func gradType(c *Ctx, input, weight, stats int) dtype.DType {
	if w := c.In(weight); w != nil {
		return w.DType
	}
	if stats >= 0 && c.In(stats) != nil {
		return c.In(stats).DType
	}
	return c.In(input).DType
}

// groupDims is an input [N, C, …] as [N, groups, channels of a group, positions].
func groupDims(n, channels, positions, groups int64) []int64 {
	return []int64{n, groups, channels / groups, positions}
}

func lowerGroupNorm(l *Lowering) {
	b, x := l.B, l.As(0, l.Shape(0).DType.Accumulate())
	dims, channels := x.Dims(), l.Int(4)
	x = b.Reshape(x, groupDims(l.Int(3), channels, l.Int(5), l.Int(6)))
	y, mu, rstd := standardize(b, x, l.Float(7), []int64{2, 3})
	y = b.Reshape(y, []int64{l.Int(3), channels, l.Int(5)})
	y = b.Reshape(l.scaleShift(y, 1, 2, []int64{1}), dims)
	l.Return(l.finish(0, y), l.finish(1, mu), l.finish(2, rstd))
}

func lowerGroupNormBackward(l *Lowering) {
	b, d := l.B, l.Shape(1).DType.Accumulate()
	dims := groupDims(l.Int(5), l.Int(6), l.Int(7), l.Int(8))
	inner := []int64{2, 3}
	g, x := b.Reshape(l.As(0, d), dims), b.Reshape(l.As(1, d), dims)
	mu, rstd := unreduce(b, l.As(2, d), dims, inner), unreduce(b, l.As(3, d), dims, inner)
	y := b.Multiply(b.Subtract(x, mu), rstd)
	want := l.Ints(9)
	for k := range 3 {
		switch {
		case want[k] == 0 || l.Out(k).Numel() == 0:
			l.Return(l.omitted(k))
		case k == 0:
			gw := g
			if l.Has(4) {
				w := b.Reshape(l.As(4, d), dims[1:3])
				gw = b.Multiply(g, b.BroadcastInDim(w, dims, []int64{1, 2}))
			}
			l.Return(l.finish(0, standardizeBackward(b, gw, y, rstd, inner)))
		case k == 1:
			l.Return(l.finish(1, addUp(b, b.Multiply(g, y), []int64{0, 3})))
		default:
			l.Return(l.finish(2, addUp(b, g, []int64{0, 3})))
		}
	}
}
