package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// dropoutRows drop elements at random.
var dropoutRows = []Row{
	{Name: "native_dropout", Schema: "(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Strides: Preserved, Random: true,
		Infer: inferDropout, Lower: lowerDropout},
	{Name: "native_dropout_backward", Schema: "(Tensor grad_output, Tensor mask, float scale) -> Tensor", Strides: Iterated,
		Infer: implemented("mul_cpu_reduced_float", floats|complexes, func(c *Ctx) error {
			d := c.In(0).DType
			if d.IsIntegral() {
				d = c.DefaultFloat
			}
			dims, err := c.Broadcast(0, 1)
			if err != nil {
				return err
			}
			return c.Return(d, dims...)
		}),
		Lower: func(l *Lowering) {
			b, o := l.B, l.Out(0)
			d := o.DType.Accumulate()
			g := l.Full(0, d, o.Dims)
			keep := b.Select(l.Full(1, dtype.Bool, o.Dims), b.ConstLike(g, l.Float(2)), b.ConstLike(g, 0))
			l.Return(l.Convert(b.Multiply(g, keep), o.DType))
		}},
	{Name: "rrelu_with_noise_functional", Schema: "(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)",
		Random: true, Infer: inferRRelu, Lower: lowerRRelu},
}

// inTraining says whether a dropout drops: train is None or true.
func inTraining(has, train bool) bool { return !has || train }

func inferDropout(c *Ctx) error {
	s := c.In(0)
	p := c.Float(1)
	if inTraining(c.Has(2), c.Bool(2)) {
		if !(p >= 0 && p <= 1) {
			return errs.New(errs.Runtime, "bernoulli_ expects p to be in [0, 1], but got p=%g", 1-p)
		}
		if s.DType.IsIntegral() {
			return errs.New(errs.Runtime, "result type Float can't be cast to the desired output type %s", s.DType.C10())
		}
	}
	_ = c.ReturnLike(s)
	return c.ReturnLike(s.With(dtype.Bool))
}

// lowerDropout multiplies by 0 rather than select zeros: NaN stays, as it does in torch.
func lowerDropout(l *Lowering) {
	b, o, p := l.B, l.Out(0), l.Float(1)
	if !inTraining(l.Has(2), l.Bool(2)) {
		l.Return(l.In(0), b.Splat(l.Out(1), stablehlo.Bool(true)))
		return
	}
	mask := l.stream().chance(1-p, o.Dims)
	scale := 0.
	if p < 1 {
		scale = 1 / (1 - p)
	}
	x := l.As(0, o.DType.Accumulate())
	keep := b.Select(mask, b.ConstLike(x, scale), b.ConstLike(x, 0))
	l.Return(l.Convert(b.Multiply(x, keep), o.DType), mask)
}

func inferRRelu(c *Ctx) error {
	s, noise := c.In(0), c.In(1)
	lower, _ := c.Number(2)
	upper, _ := c.Number(3)
	switch {
	case c.Bool(4) && s != noise:
		if s.DType != noise.DType {
			return errs.New(errs.Runtime, "Expected tensor for argument #2 'noise' to have the same type as tensor for argument #1 'self'; but type %s does not equal %s (while checking arguments for rrelu_with_noise_out_cpu)", s.DType.Torch(), noise.DType.Torch())
		}
		return errs.New(errs.Runtime, "noise tensor shape must match self tensor shape. Got self.shape = %s noise.shape = %s", dimsText(s.Dims), dimsText(noise.Dims))
	case !floats.has(s.DType):
		return notFor("leaky_relu_cpu", s.DType)
	case lower.Float() > upper.Float():
		return errs.New(errs.Runtime, "Lower bound should be less than or equal to the upper bound")
	}
	_ = c.ReturnLike(s)
	return c.ReturnLike(noise)
}

// lowerRRelu draws the slope of each element that is not positive from [lower, upper); the noise is the
// slope of every element. Outside training the slope is the middle and the noise stays.
func lowerRRelu(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	x := l.As(0, d.Accumulate())
	lower, upper := l.Like(2, x), l.Like(3, x)
	if !l.Bool(4) {
		slope := b.Multiply(b.Add(lower, upper), b.ConstLike(x, 0.5))
		l.Return(l.Convert(leaky(b, x, x, slope), d), l.In(1))
		return
	}
	drawn := b.Add(lower, b.Multiply(b.Subtract(upper, lower), l.stream().uniform(x.DType(), x.Dims())))
	noise := b.Select(b.Compare(x, b.ConstLike(x, 0), stablehlo.LE), drawn, b.ConstLike(x, 1))
	l.Return(l.Convert(b.Multiply(x, noise), d), l.Convert(noise, d))
}
