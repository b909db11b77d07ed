package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

const (
	softmaxSchema         = "(Tensor self, int dim, bool half_to_float) -> Tensor"
	softmaxBackwardSchema = "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"
)

// softmaxRows are softmax, its logarithm and its kin over one dimension.
var softmaxRows = []Row{
	softmaxRow("_softmax", "softmax", softmax).exactOut(),
	softmaxRow("_log_softmax", "log_softmax", logSoftmax).exactOut(),
	softmaxBackwardRow("_softmax_backward_data", softmaxBackward),
	softmaxBackwardRow("_log_softmax_backward_data", logSoftmaxBackward),
	{Name: "_safe_softmax", Schema: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if t := c.Type(2); t != dtype.Invalid {
				s = s.With(t)
			}
			return inferSoftmax(c, "softmax", s.DType)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			x := l.Convert(l.As(0, d), d.Accumulate())
			l.Return(l.finish(0, safeSoftmax(l.B, x, l.softmaxDims(1))))
		}},
	{Name: "_masked_softmax", Schema: "(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
		Infer: inferMaskedSoftmax,
		Lower: func(l *Lowering) {
			x := l.As(0, l.Out(0).DType.Accumulate())
			dim := acceptedDim(l.IntOr(2, -1), x.Rank())
			x = l.B.Select(l.maskLike(1, x), l.B.Broadcast(l.B.MinValue(x.DType()), x.Dims()), x)
			l.Return(l.finish(0, softmax(l.B, x, axis(dim, x.Rank()))))
		}},
	{Name: "_masked_softmax_backward", Schema: "(Tensor grad_output, Tensor output, Tensor mask, int? dim=None) -> Tensor",
		Infer: func(c *Ctx) error {
			if _, err := WrapDim(c.IntOr(3, -1), len(c.In(0).Dims)); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType.Accumulate()
			g, y := l.As(0, d), l.As(1, d)
			dims := axis(acceptedDim(l.IntOr(3, -1), y.Rank()), y.Rank())
			dx := softmaxBackward(l.B, g, y, dims)
			l.Return(l.finish(0, l.B.Select(l.maskLike(2, y), l.B.ConstLike(dx, 0), dx)))
		}},
	{Name: "logsumexp", Schema: "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
		Infer: func(c *Ctx) error {
			d := c.In(0).DType
			if d.IsIntegral() {
				d = c.DefaultFloat
			}
			return overDim.infer(c, d)
		},
		Lower: func(l *Lowering) {
			x := l.As(0, l.Out(0).DType.Accumulate())
			l.Return(l.finish(0, logSumExp(l.B, x, overDim.list(l))))
		}},
}

func softmaxRow(name, kernel string, f func(b *stablehlo.Builder, x value, dims []int64) value) Row {
	return Row{Name: name, Schema: softmaxSchema,
		Infer: func(c *Ctx) error {
			d := c.In(0).DType
			if c.Bool(2) {
				if d != dtype.F16 && d != dtype.BF16 {
					return errs.New(errs.Runtime, "conversion is supported for Half and BFloat16 types only")
				}
				d = dtype.F32
			}
			return inferSoftmax(c, kernel, d)
		},
		Lower: func(l *Lowering) {
			x := l.As(0, l.Out(0).DType.Accumulate())
			l.Return(l.finish(0, f(l.B, x, l.softmaxDims(1))))
		}}
}

// inferSoftmax returns argument 0 as type d; argument 1 is the dimension.
func inferSoftmax(c *Ctx, kernel string, d dtype.DType) error {
	s := c.In(0)
	i, err := WrapDim(c.Int(1), len(s.Dims))
	if err != nil {
		return err
	}
	if !d.IsFloat() {
		if i == len(s.Dims)-1 {
			kernel += "_lastdim"
		}
		return notFor(kernel+"_kernel_impl", d)
	}
	return c.ReturnLike(s.With(d))
}

func softmaxBackwardRow(name string, f func(b *stablehlo.Builder, grad, out value, dims []int64) value) Row {
	return Row{Name: name, Schema: softmaxBackwardSchema,
		Infer: func(c *Ctx) error {
			g, y, d := c.In(0), c.In(1), c.Type(3)
			if _, err := WrapDim(c.Int(2), len(g.Dims)); err != nil {
				return err
			}
			if g.DType != y.DType {
				return errs.New(errs.Runtime, "expected scalar type %s but found %s", g.DType.C10(), y.DType.C10())
			}
			return c.ReturnLike(g.With(d))
		},
		Lower: func(l *Lowering) {
			d := l.Shape(0).DType.Accumulate()
			l.Return(l.finish(0, f(l.B, l.As(0, d), l.As(1, d), l.softmaxDims(2))))
		}}
}

// softmaxDims is the one dimension that argument i names, none for a 0-dim operand.
func (l *Lowering) softmaxDims(i int) []int64 {
	rank := len(l.Shape(0).Dims)
	return axis(acceptedDim(l.Int(i), rank), rank)
}

// axis is the list of dimension i, none if the rank is 0.
func axis(i, rank int) []int64 {
	if rank == 0 {
		return nil
	}
	return []int64{int64(i)}
}

// softmax is exp(x − max) / Σ exp(x − max): NaN for a row of −∞. A NaN need not show in the maximum, it
// shows in the sum.
func softmax(b *stablehlo.Builder, x value, dims []int64) value {
	e := b.Exponential(b.Subtract(x, over(b, (*stablehlo.Builder).ReduceMax, x, dims)))
	return b.Divide(e, over(b, (*stablehlo.Builder).ReduceSum, e, dims))
}

func logSoftmax(b *stablehlo.Builder, x value, dims []int64) value {
	x = b.Subtract(x, over(b, (*stablehlo.Builder).ReduceMax, x, dims))
	sum := b.ReduceSum(b.Exponential(x), dims)
	return b.Subtract(x, unreduce(b, b.Log(sum), x.Dims(), dims))
}

// safeSoftmax is softmax with 0 for a row of −∞, the row of a query that may see nothing.
func safeSoftmax(b *stablehlo.Builder, x value, dims []int64) value {
	hidden := b.ReduceAnd(b.IsNegInf(x), dims)
	return b.Select(unreduce(b, hidden, x.Dims(), dims), b.ConstLike(x, 0), softmax(b, x, dims))
}

func softmaxBackward(b *stablehlo.Builder, grad, out value, dims []int64) value {
	sum := over(b, (*stablehlo.Builder).ReduceSum, b.Multiply(grad, out), dims)
	return b.Multiply(b.Subtract(grad, sum), out)
}

func logSoftmaxBackward(b *stablehlo.Builder, grad, out value, dims []int64) value {
	sum := over(b, (*stablehlo.Builder).ReduceSum, grad, dims)
	return b.Subtract(grad, b.Multiply(b.Exponential(out), sum))
}

// over is a reduction with its result at every place that it came from.
func over(b *stablehlo.Builder, f reducer, x value, dims []int64) value {
	return unreduce(b, f(b, x, dims), x.Dims(), dims)
}

// logSumExp is log Σ exp(x); rows of +∞ or −∞ give that infinity. A complex x is scaled by its real part.
func logSumExp(b *stablehlo.Builder, x value, dims []int64) value {
	top := b.ReduceMax(b.Real(x), dims)
	top = b.Select(b.IsInf(top), b.ConstLike(top, 0), top)
	shift := Convert(b, top, x.DType())
	sum := b.ReduceSum(b.Exponential(b.Subtract(x, unreduce(b, shift, x.Dims(), dims))), dims)
	return b.Add(b.Log(sum), shift)
}

func inferMaskedSoftmax(c *Ctx) error {
	s, m := c.In(0), c.In(1)
	switch {
	case m.DType != dtype.Bool:
		return errs.New(errs.Runtime, "Mask should be a boolean tensor")
	case c.Has(3) && (c.Int(3) < 0 || c.Int(3) > 2):
		return errs.New(errs.Runtime, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)")
	case !expandable(m.Dims, s.Dims) && !maskFits(s.Dims, m.Dims):
		return errs.New(errs.Runtime, "Mask shape should match input. mask: %s input: %s", dimsText(m.Dims), dimsText(s.Dims))
	case !s.DType.IsFloat():
		return notFor("masked_softmax", s.DType)
	}
	if _, err := WrapDim(c.IntOr(2, -1), len(s.Dims)); err != nil {
		return err
	}
	return c.ReturnLike(s)
}

// maskFits reports an attention mask for scores [B,H,L,L]: the key padding [B,L]. The other form, [L,L],
// broadcasts by itself.
func maskFits(x, mask []int64) bool {
	return len(x) == 4 && len(mask) == 2 && mask[0] == x[0] && mask[1] == x[3]
}

// maskLike is the bool argument i stretched over x. A mask [B,L] for scores [B,H,L,L] is the padding of
// the keys if mask_type says so, or if it fits in no other way.
func (l *Lowering) maskLike(i int, x value) value {
	m := l.As(i, dtype.Bool)
	padding := i == 1 && l.Has(3) && l.Int(3) == 1
	if maskFits(x.Dims(), m.Dims()) && (padding || !expandable(m.Dims(), x.Dims())) {
		return l.B.BroadcastInDim(m, x.Dims(), []int64{0, 3})
	}
	return l.B.Broadcast(m, x.Dims())
}
