package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// gatedRows are activations with a second operand: a gate, a weight or a noise.
var gatedRows = []Row{
	{Name: "glu", Schema: "(Tensor self, int dim=-1) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			d, err := gluDim(s, c.IntOr(1, -1))
			if err != nil {
				return err
			}
			if !floats.has(s.DType) {
				return notFor("glu_cpu", s.DType)
			}
			dims := append(c.dims[:0], s.Dims...)
			dims[d] /= 2
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			a, gate := l.twoHalves(0, l.IntOr(1, -1), d.Accumulate())
			l.Return(l.Convert(l.B.Multiply(a, l.B.Logistic(gate)), d))
		}},
	{Name: "glu_backward", Schema: "(Tensor grad_output, Tensor self, int dim) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(1)
			if _, err := gluDim(s, c.Int(2)); err != nil {
				return err
			}
			if !floats.has(s.DType) {
				return notFor("glu_backward_cpu", s.DType)
			}
			return c.ReturnLike(s)
		},
		Lower: lowerGluBackward},
	{Name: "glu_jvp", Schema: "(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor",
		Infer: func(c *Ctx) error {
			if _, err := gluDim(c.In(1), c.Int(3)); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: lowerGluTangent},
	{Name: "glu_backward_jvp", Schema: "(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int dim) -> Tensor",
		Infer: func(c *Ctx) error {
			if _, err := gluDim(c.In(2), c.Int(5)); err != nil {
				return err
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: lowerGluBackwardTangent},
	{Name: "_prelu_kernel", Schema: "(Tensor self, Tensor weight) -> Tensor",
		Infer: implemented("prelu_cpu", floats, promoted(2)),
		Lower: func(l *Lowering) {
			x, w, d := l.operands()
			l.Return(l.Convert(leaky(l.B, x, x, w), d))
		}},
	{Name: "_prelu_kernel_backward", Schema: "(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error {
			if err := implemented("prelu_backward_cpu", floats, promoted(3))(c); err != nil {
				return err
			}
			return c.ReturnLike(c.outs[0])
		},
		Lower: func(l *Lowering) {
			b, o := l.B, l.Out(0)
			d := o.DType.Accumulate()
			grad, x, w := l.Full(0, d, o.Dims), l.Full(1, d, o.Dims), l.Full(2, d, o.Dims)
			positive := b.Compare(x, b.ConstLike(x, 0), stablehlo.GT)
			dw := b.Select(positive, b.ConstLike(x, 0), b.Multiply(x, grad))
			l.Return(l.Convert(leaky(b, x, grad, w), o.DType), l.Convert(dw, o.DType))
		}},
	{Name: "rrelu_with_noise_backward", Schema: "(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor",
		Static: []int{3, 4}, Infer: implemented("leaky_relu_backward_cpu", floats, promoted(2)), Lower: lowerRReluBackward},
}

// gluDim is the dimension that a gated linear unit halves.
func gluDim(s *shape.Shape, dim int64) (int, error) {
	if len(s.Dims) == 0 {
		return 0, errs.New(errs.Runtime, "glu does not support 0-dimensional tensors")
	}
	d, err := WrapDim(dim, len(s.Dims))
	if err == nil && s.Dims[d]%2 != 0 {
		return 0, errs.New(errs.Runtime, "Halving dimension must be even, but dimension %d is size %d", d, s.Dims[d])
	}
	return d, err
}

// twoHalves is argument i as type t, cut in two along dim.
func (l *Lowering) twoHalves(i int, dim int64, t dtype.DType) (first, second value) {
	x := l.As(i, t)
	d, err := WrapDim(dim, x.Rank())
	if err != nil {
		l.B.Failf("glu", []value{x}, "%v", err)
		return x, x
	}
	n := x.Dim(d)
	return l.B.SliceDim(x, int64(d), 0, n/2, 1), l.B.SliceDim(x, int64(d), n/2, n, 1)
}

// rejoin is the inverse of twoHalves.
func (l *Lowering) rejoin(dim int64, first, second value) value {
	if dim < 0 {
		dim += int64(first.Rank())
	}
	return l.B.Concatenate(dim, first, second)
}

// gate is σ(x) and its slope σ(x)(1−σ(x)).
func gate(b *stablehlo.Builder, x value) (s, slope value) {
	s = b.Logistic(x)
	return s, b.Multiply(s, b.Subtract(b.ConstLike(s, 1), s))
}

func lowerGluBackward(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	grad := l.As(0, d.Accumulate())
	x, y := l.twoHalves(1, l.Int(2), d.Accumulate())
	s, slope := gate(b, y)
	l.Return(l.Convert(l.rejoin(l.Int(2), b.Multiply(s, grad), b.Multiply(b.Multiply(slope, x), grad)), d))
}

// lowerGluTangent: d(x·σ(y)) = σ(y)·dx + glu·(1−σ(y))·dy.
func lowerGluTangent(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	t := d.Accumulate()
	_, y := l.twoHalves(1, l.Int(3), t)
	dx, dy := l.twoHalves(2, l.Int(3), t)
	s := b.Logistic(y)
	keep := b.Subtract(b.ConstLike(s, 1), s)
	out := b.Add(b.Multiply(dx, s), b.Multiply(l.As(0, t), b.Multiply(keep, dy)))
	l.Return(l.Convert(out, d))
}

// lowerGluBackwardTangent is the tangent of glu_backward: of (g·σ(y), g·x·σ′(y)) along dg, dx, dy.
func lowerGluBackwardTangent(l *Lowering) {
	b, d := l.B, l.Out(0).DType
	t, dim := d.Accumulate(), l.Int(5)
	g, dg := l.As(1, t), l.As(3, t)
	x, y := l.twoHalves(2, dim, t)
	dx, dy := l.twoHalves(4, dim, t)
	s, slope := gate(b, y)
	ds := b.Multiply(slope, dy)
	first := b.Add(b.Multiply(dg, s), b.Multiply(g, ds))
	bend := b.Multiply(ds, b.Subtract(b.ConstLike(s, 1), b.Multiply(b.ConstLike(s, 2), s)))
	second := b.Multiply(b.Multiply(dg, x), slope)
	second = b.Add(second, b.Multiply(b.Multiply(g, dx), slope))
	second = b.Add(second, b.Multiply(b.Multiply(g, x), bend))
	l.Return(l.Convert(l.rejoin(dim, first, second), d))
}

// lowerRReluBackward follows rrelu_with_noise_backward: in training the noise is the slope, unless the
// interval it was drawn from is a point.
func lowerRReluBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	grad, x := l.Full(0, d, o.Dims), l.Full(1, d, o.Dims)
	lower, _ := l.Number(3)
	upper, _ := l.Number(4)
	if l.Bool(5) && upper.Float()-lower.Float() > 1e-6 {
		l.Return(l.Convert(b.Multiply(l.Full(2, d, o.Dims), grad), o.DType))
		return
	}
	slope := b.ConstLike(x, (lower.Float()+upper.Float())/2)
	l.Return(l.Convert(leaky(b, x, grad, slope), o.DType))
}
