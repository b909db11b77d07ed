package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// batchNormRows normalize channels (dimension 1) over everything else. The mutating overloads are these
// with the new running statistics written back. Arguments 0 to 4 are input, weight, bias, running_mean,
// running_var wherever a schema has running statistics.
var batchNormRows = []Row{
	{Name: "_native_batch_norm_legit_functional", Schema: "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)", Strides: Format,
		Infer: func(c *Ctx) error {
			if err := inferBatchNorm(c, c.Bool(5), true); err != nil {
				return err
			}
			c.outs = append(c.outs, c.In(3), c.In(4))
			return nil
		},
		Lower: func(l *Lowering) {
			stats := l.batchNorm(l.Bool(5), true, l.Float(7))
			l.runningStats(stats, 3, l.Float(6))
		}},
	{Name: "_native_batch_norm_legit.no_stats", Schema: "(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Strides: Format, ExactOut: true,
		Infer: func(c *Ctx) error {
			if !c.Bool(3) {
				return errs.New(errs.Value, "running_mean must be defined in evaluation mode")
			}
			return inferBatchNorm(c, true, false)
		},
		Lower: func(l *Lowering) { l.batchNorm(true, false, l.Float(5)) }},
	{Name: "_native_batch_norm_legit_no_training", Schema: "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Strides: Format,
		Infer: func(c *Ctx) error { return inferBatchNorm(c, false, true) },
		Lower: func(l *Lowering) { l.batchNorm(false, true, l.Float(6)) }},
	{Name: "_batch_norm_with_update_functional", Unsafe: true, Schema: "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
		Infer: func(c *Ctx) error {
			if err := inferBatchNorm(c, true, true); err != nil {
				return err
			}
			c.outs = append(c.outs, reserve(), c.In(3), c.In(4))
			return nil
		},
		Lower: func(l *Lowering) {
			stats := l.batchNorm(true, true, l.Float(6))
			l.Return(l.omitted(3))
			l.runningStats(stats, 4, l.Float(5))
		}},
	{Name: "_batch_norm_no_update", Unsafe: true, Schema: "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
		Infer: func(c *Ctx) error {
			if !c.Has(3) || !c.Has(4) {
				return errs.New(errs.Value, "running_mean must be defined in evaluation mode")
			}
			if err := inferBatchNorm(c, false, true); err != nil {
				return err
			}
			return c.ReturnLike(reserve())
		},
		Lower: func(l *Lowering) {
			l.batchNorm(false, true, l.Float(6))
			l.Return(l.omitted(3))
		}},
	{Name: "native_batch_norm_backward", Schema: "(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", Strides: Format, StridesOf: 1,
		Infer: inferBatchNormBackward, Lower: lowerBatchNormBackward},
	{Name: "batch_norm_backward", Unsafe: true, Schema: "(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
		Infer: inferBatchNormBackward, Lower: lowerBatchNormBackward},
}

// reserve is the shape of cuDNN's workspace, which nothing here needs.
func reserve() *shape.Shape { return shape.Make(dtype.U8, 0) }

// inferBatchNorm returns the output and the saved statistics, which evaluation leaves empty.
func inferBatchNorm(c *Ctx, training, running bool) error {
	s := c.In(0)
	channels := int64(0)
	if len(s.Dims) > 1 {
		channels = s.Dims[1]
	}
	last := 2
	if running {
		last = 4
	}
	for i, name := range [...]string{1: "weight", 2: "bias", 3: "running_mean", 4: "running_var"} {
		if i < 1 || i > last {
			continue
		}
		if p := c.In(i); p != nil && p.Numel() != channels {
			return errs.New(errs.Runtime, "%s should contain %d elements not %d", name, channels, p.Numel())
		}
	}
	if !s.DType.IsFloat() {
		return notFor("batch_norm", s.DType)
	}
	if training && s.Numel() == 0 {
		return errs.New(errs.Runtime, "input tensor must have at least one element, but got input_sizes = %s", dimsText(s.Dims))
	}
	d := statType(c, 0, 1, 2)
	if running {
		d = statType(c, 0, 1, 2, 3, 4)
	}
	n := channels
	if !training {
		n = 0
	}
	stats := shape.Make(d, n)
	c.outs = append(c.outs, s, stats, stats)
	return nil
}

// channelStats are the statistics of a batch, in the compute type, with how many elements a channel has.
type channelStats struct {
	mean, squares value // squares: Σ(x − mean)²
	n             int64
}

// allButChannels is the dimensions that batch norm reduces.
func allButChannels(rank int) []int64 { return (allDims(rank) &^ 2).list() }

// batchNorm returns the first three results. In training the statistics are those of the batch,
// otherwise the running ones.
func (l *Lowering) batchNorm(training, running bool, eps float64) *channelStats {
	b, d := l.B, l.Shape(0).DType.Accumulate()
	x := l.As(0, d)
	dims := allButChannels(x.Rank())
	if !training {
		y := b.Multiply(b.Subtract(x, unreduce(b, l.As(3, d), x.Dims(), dims)), unreduce(b, inverse(b, l.As(4, d), eps), x.Dims(), dims))
		l.Return(l.finish(0, l.scaleShift(y, 1, 2, []int64{1})), l.omitted(1), l.omitted(2))
		return nil
	}
	n := count(x.Shape(), dims)
	squares, mu := deviation(b, x, dims)
	rstd := inverse(b, b.Divide(squares, b.ConstLike(squares, float64(n))), eps)
	y := b.Multiply(b.Subtract(x, unreduce(b, mu, x.Dims(), dims)), unreduce(b, rstd, x.Dims(), dims))
	l.Return(l.finish(0, l.scaleShift(y, 1, 2, []int64{1})), l.finish(1, mu), l.finish(2, rstd))
	return &channelStats{mu, squares, n}
}

// inverse is 1/√(variance + eps).
func inverse(b *stablehlo.Builder, variance value, eps float64) value {
	return b.Rsqrt(b.Add(variance, b.ConstLike(variance, eps)))
}

// runningStats returns the new running mean and (unbiased) variance as results k and k+1; in evaluation
// they are the old ones.
func (l *Lowering) runningStats(stats *channelStats, k int, momentum float64) {
	if stats == nil {
		l.Return(l.In(3), l.In(4))
		return
	}
	b, d := l.B, stats.mean.DType()
	blend := func(old, now value) value {
		return b.Add(b.Multiply(b.ConstLike(now, momentum), now), b.Multiply(b.ConstLike(old, 1-momentum), old))
	}
	variance := b.Divide(stats.squares, b.ConstLike(stats.squares, float64(stats.n-1)))
	l.Return(l.finish(k, blend(l.As(3, d), stats.mean)), l.finish(k+1, blend(l.As(4, d), variance)))
}

func inferBatchNormBackward(c *Ctx) error {
	s := c.In(1)
	if len(s.Dims) < 2 {
		return errs.New(errs.Runtime, "native_batch_norm_backward: expected an input of two dimensions or more, got %s", dimsText(s.Dims))
	}
	if g := c.In(0); !slices.Equal(g.Dims, s.Dims) {
		return errs.New(errs.Runtime, "native_batch_norm_backward: grad_out has dimensions %s, input %s", dimsText(g.Dims), dimsText(s.Dims))
	}
	if c.Bool(7) && (!c.Has(5) || !c.Has(6)) || !c.Bool(7) && (!c.Has(3) || !c.Has(4)) {
		return errs.New(errs.Runtime, "native_batch_norm_backward: the statistics that it needs are not given")
	}
	param := shape.Make(gradType(c, 1, 2, 3), s.Dims[1])
	return masked(c, 9, s, param, param)
}

func lowerBatchNormBackward(l *Lowering) {
	b, d := l.B, l.Shape(1).DType.Accumulate()
	g, x := l.As(0, d), l.As(1, d)
	dims, training := allButChannels(x.Rank()), l.Bool(7)
	full := func(v value) value { return unreduce(b, v, x.Dims(), dims) }
	var mu, rstd value
	if training {
		mu, rstd = l.As(5, d), l.As(6, d)
	} else {
		mu, rstd = l.As(3, d), inverse(b, l.As(4, d), l.Float(8))
	}
	y := b.Multiply(b.Subtract(x, full(mu)), full(rstd))
	dWeight, dBias := addUp(b, b.Multiply(g, y), dims), addUp(b, g, dims)
	want := l.Ints(9)
	for k, v := range [...]value{{}, dWeight, dBias} {
		switch {
		case want[k] == 0 || l.Out(k).Numel() == 0:
			l.Return(l.omitted(k))
		case k > 0:
			l.Return(l.finish(k, v))
		default:
			scale := rstd
			if l.Has(2) {
				scale = b.Multiply(rstd, l.As(2, d))
			}
			dx := g
			if training {
				n := b.ConstLike(dBias, float64(count(x.Shape(), dims)))
				dx = b.Subtract(b.Subtract(g, full(b.Divide(dBias, n))), b.Multiply(y, full(b.Divide(dWeight, n))))
			}
			l.Return(l.finish(0, b.Multiply(dx, full(scale))))
		}
	}
}
