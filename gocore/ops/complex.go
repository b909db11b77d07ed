package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// complexRows make complex numbers of real ones. The way back (real, imag, view_as_real) is a view.
var complexRows = []Row{
	{Name: "complex", Schema: "(Tensor real, Tensor imag) -> Tensor", ExactOut: true, Infer: inferComplex,
		Lower: func(l *Lowering) {
			o := l.Out(0)
			l.Return(l.B.Complex(l.Full(0, o.DType.ToReal(), o.Dims), l.Full(1, o.DType.ToReal(), o.Dims)))
		}},
	{Name: "polar", Schema: "(Tensor abs, Tensor angle) -> Tensor", ExactOut: true, Infer: inferComplex,
		Lower: func(l *Lowering) {
			b, o := l.B, l.Out(0)
			size, angle := l.Full(0, o.DType.ToReal(), o.Dims), l.Full(1, o.DType.ToReal(), o.Dims)
			l.Return(b.Complex(b.Multiply(size, b.Cosine(angle)), b.Multiply(size, b.Sine(angle))))
		}},
}

// inferComplex requires two tensors of one real type. Complex numbers of f16 do not exist in StableHLO.
func inferComplex(c *Ctx) error {
	x, y := c.In(0).DType, c.In(1).DType
	const pair = wide | 1<<dtype.F16
	switch {
	case !pair.has(x) || !pair.has(y):
		return errs.New(errs.NotImpl, "Expected both inputs to be Half, Float or Double tensors but got %s and %s", x.C10(), y.C10())
	case x != y:
		return errs.New(errs.Runtime, "Expected object of scalar type %s but got scalar type %s for second argument", x.C10(), y.C10())
	case x == dtype.F16:
		return errs.New(errs.NotLower, "complex numbers of torch.float16 cannot be lowered")
	}
	dims, err := c.Broadcast(0, 1)
	if err != nil {
		return err
	}
	return c.Return(x.ToComplex(), dims...)
}
