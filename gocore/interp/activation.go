package interp

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// activationRules are the activations whose parameters are Scalars, by other ops of torch.
var activationRules = map[string]rule{
	"threshold": elementwise(func(e *element) value { return e.where(e.less("le", e.in(0), e.in(1)), e.in(2), e.in(0)) }),
	"hardtanh_backward": elementwise(func(e *element) value {
		x := e.in(1)
		return e.where(e.or(e.less("le", x, e.in(2)), e.less("ge", x, e.in(3))), e.whole(0), e.in(0))
	}),
	"hardshrink":          elementwise(func(e *element) value { return e.outside(e.in(0), e.in(0), e.in(1)) }),
	"hardshrink_backward": elementwise(func(e *element) value { return e.outside(e.in(1), e.in(0), e.in(2)) }),
	"softshrink_backward": elementwise(func(e *element) value { return e.outside(e.in(1), e.in(0), e.in(2)) }),
	"softshrink": elementwise(func(e *element) value {
		x, by := e.in(0), e.in(1)
		minus := e.numbers(by, e.whole(-1))
		inside := e.do("mul", x, e.whole(0)) // keeps NaN
		return e.where(e.less("gt", x, by), e.do("add", x, minus), e.where(e.less("lt", x, minus), e.do("add", x, by), inside))
	}),
	"elu": elementwise(func(e *element) value {
		x := e.in(0)
		low := e.do("mul", e.one("expm1", e.do("mul", x, e.in(3))), e.numbers(e.in(1), e.in(2)))
		return e.where(e.less("le", x, e.whole(0)), low, e.do("mul", x, e.in(2)))
	}),
	"elu_backward": elementwise(func(e *element) value {
		x, factor := e.in(5), e.numbers(e.in(1), e.in(2))
		slope := e.do("mul", e.in(0), e.in(3))
		low := e.do("add", x, factor)
		if !e.w.Bool(4) {
			low = e.do("mul", e.one("exp", e.do("mul", x, e.in(3))), factor)
		}
		return e.where(e.less("le", x, e.whole(0)), e.do("mul", slope, low), e.do("mul", e.in(0), e.in(2)))
	}),
	"softplus": elementwise(func(e *element) value {
		x := e.in(0)
		scaled := e.do("mul", x, e.in(1))
		return e.where(e.less("gt", scaled, e.in(2)), x, e.do("div", e.one("log1p", e.one("exp", scaled)), e.in(1)))
	}),
	"softplus_backward": elementwise(func(e *element) value {
		scaled := e.do("mul", e.in(1), e.in(2))
		power := e.one("exp", scaled)
		return e.where(e.less("gt", scaled, e.in(3)), e.in(0), e.do("div", e.do("mul", e.in(0), power), e.do("add", power, e.whole(1))))
	}),
}

// element computes a result element by element, in the type that its kernel computes in.
type element struct {
	w    *writer
	s    *shape.Shape
	ok   bool
	args map[int]value
}

// elementwise is a row whose operands have the result's shape.
func elementwise(compute func(e *element) value) rule {
	return func(w *writer) bool {
		out := w.out(0)
		e := &element{w: w, s: shape.Of(out.DType.Accumulate(), out.Dims), ok: out.DType.IsFloat(), args: make(map[int]value)}
		if !e.ok {
			return false
		}
		v := compute(e)
		return e.ok && w.give(v, e.s)
	}
}

// in is an argument, a tensor or a number.
func (e *element) in(i int) value {
	if v, ok := e.args[i]; ok {
		return v
	}
	id := e.w.ID(i)
	if id == ir.None || !e.w.isNumber(id) && e.w.g.Shape(id).With(e.s.DType) != e.s {
		e.ok = false
		return 0
	}
	v := e.w.as(id, e.s.DType)
	e.args[i] = v
	return v
}

func (e *element) whole(i int64) value { return value(e.w.whole(i, e.s.DType)) }

func (e *element) call(signature string, d dtype.DType, args ...any) value {
	if !e.ok {
		return 0
	}
	v, ok := e.w.callFor(signature, e.s.With(d), args...)
	e.ok = ok
	return v
}

func (e *element) do(op string, a, b value) value {
	if op == "add" { // torch's has a Scalar
		if !e.ok {
			return 0
		}
		v := e.w.temp(e.s)
		e.w.emit(opAdd, list(v, int64(a), int64(b), e.w.constant(ir.Number{Type: dtype.I64, I: 1}), 1))
		return value(v)
	}
	return e.call(op+".Tensor"+binary, e.s.DType, a, b)
}

// numbers is the product of two numbers.
func (e *element) numbers(a, b value) value {
	if !e.ok {
		return 0
	}
	v, ok := e.w.callFor("mul.Tensor"+binary, shape.Of(e.s.DType, nil), a, b)
	e.ok = ok
	return v
}

func (e *element) one(op string, a value) value {
	return e.call(op+"(Tensor self) -> Tensor", e.s.DType, a)
}

func (e *element) less(op string, a, b value) value {
	return e.call(op+".Tensor"+binary, dtype.Bool, a, b)
}

func (e *element) or(a, b value) value { return e.call("logical_or"+binary, dtype.Bool, a, b) }

func (e *element) where(condition, a, b value) value {
	return e.call(where, e.s.DType, condition, a, b)
}

// outside is 0 where −by ≤ x ≤ by, and v elsewhere.
func (e *element) outside(x, v, by value) value {
	above, below := e.less("gt", x, by), e.less("lt", x, e.numbers(by, e.whole(-1)))
	nan := e.less("ne", x, x)
	return e.where(e.or(e.or(above, below), nan), v, e.whole(0))
}

const where = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"

// mask compares a value of the node with a number.
func (w *writer) mask(op string, i, number int) (value, bool) {
	s := w.g.Shape(w.ID(i))
	v := w.number(w.ID(number), s.DType)
	return w.callFor(op+binary, shape.Of(dtype.Bool, s.Dims), arg(i), value(v))
}

func thresholdBackward(w *writer) bool {
	if !w.isNumber(w.ID(2)) || w.isNumber(w.ID(1)) {
		return false
	}
	small, ok := w.mask("le.Tensor", 1, 2)
	return ok && w.call("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", arg(0), small, value(w.whole(0, w.out(0).DType)))
}

// scaled is a value times a number that is an argument of the node.
func (w *writer) scaled(i, number int) (value, bool) {
	return w.callFor("mul.Tensor"+binary, w.g.Shape(w.ID(i)), arg(i), value(w.number(w.ID(number), w.g.Shape(w.ID(i)).DType)))
}

// positive is where a value is above 0.
func (w *writer) positive(i int) (value, bool) {
	s := w.g.Shape(w.ID(i))
	return w.callFor("gt.Tensor"+binary, shape.Of(dtype.Bool, s.Dims), arg(i), value(w.whole(0, s.DType)))
}

func leakyRelu(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	above, ok := w.positive(0)
	low, fine := w.scaled(0, 1)
	return ok && fine && w.call(where, above, arg(0), low)
}

func leakyReluBackward(w *writer) bool {
	if w.isNumber(w.ID(0)) || w.isNumber(w.ID(1)) || w.g.Shape(w.ID(0)) != w.out(0) {
		return false
	}
	above, ok := w.positive(1)
	low, fine := w.scaled(0, 2)
	return ok && fine && w.call(where, above, arg(0), low)
}
