package interp

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// drawn is what is drawn; torchcpu/random.h has them in the same order.
type drawn int64

const (
	keys drawn = iota
	chance
	integers
	uniform
	uniform11
	uniform8
	exponential
	normal
	cauchy
)

// randomRules are the rows that draw random numbers: the same bits as the compiled program's. Rows that draw by
// rejection are compiled.
var randomRules = map[string]rule{
	"random": randomIntegers, "random.to": randomIntegers, "random.from": randomIntegers,
	"randperm": permutation, "randperm.generator": permutation,
	"native_dropout": dropout,
	"bernoulli.p":    func(w *writer) bool { v, s := w.chance(w.Float(1)); return w.give(v, s) },
	"bernoulli":      func(w *writer) bool { return w.bernoulli(0) }, "bernoulli.Tensor": func(w *writer) bool { return w.bernoulli(1) },
	"uniform":           func(w *writer) bool { return w.fill(uniform, w.Float(1), w.FloatOr(2, 1)-w.Float(1)) },
	"normal_functional": func(w *writer) bool { return w.fill(normal, w.Float(1), ops.StdOf(w.FloatOr(2, 1), w.out(0).DType)) },
	"cauchy":            func(w *writer) bool { return w.fill(cauchy, w.Float(1), w.FloatOr(2, 1)) },
	"exponential":       func(w *writer) bool { return w.fill(exponential, 0, 1/w.FloatOr(1, 1)) },
	"log_normal":        logNormal, "geometric": geometric,
	"normal.Tensor_float":  func(w *writer) bool { return w.normal(arg(0), nil, w.FloatOr(1, 1)) },
	"normal.float_Tensor":  func(w *writer) bool { return w.normal(nil, arg(1), w.Float(0)) },
	"normal.Tensor_Tensor": func(w *writer) bool { return w.normal(arg(0), arg(1), 1) },
	"multinomial":          multinomial,
}

// draw draws an array. low and high are integers or the bits of floats, see torch_draw; block is the first one of the
// op's that it takes, and the result next the first one that it leaves.
func (w *writer) draw(what drawn, natural *shape.Shape, block, low, high int64) (v value, next int64) {
	wide, n := natural.DType.Size() == 8, natural.Numel()
	if what == integers {
		wide = high == 0 || uint64(high) > 1<<32
	}
	each := int64(4)
	if wide {
		each = 2
	}
	key, draws := w.Len()-2, w.Len()-1
	v = value(w.temp(natural))
	w.emit(opRandom, list(int64(v), int64(what), w.numberRef(w.ID(key)), w.numberRef(w.ID(draws)), block, low, high, truth(wide), int64(natural.Rank())), natural.Dims)
	return v, block + (n+each-1)/each
}

// floats draws floats a + b · distribution. That of the normal numbers is √2 of them, which is one factor with b as the
// compiler has it.
func (w *writer) floats(what drawn, s *shape.Shape, block int64, a, b float64) (v value, next int64) {
	switch {
	case what == normal && s.DType == dtype.F32:
		b = float64(float32(math.Sqrt2) * float32(b))
	case what == normal:
		b *= math.Sqrt2
	}
	return w.draw(what, s, block, bitsOf(a), bitsOf(b))
}

func bitsOf(f float64) int64 { return int64(math.Float64bits(f)) }

// give is a value as result 0, in its type.
func (w *writer) give(v value, s *shape.Shape) bool {
	out := w.out(0)
	switch {
	case s.DType == out.DType:
		w.emit(opSame, list(w.result(0), int64(v)))
		return true
	case s.DType.IsFloat() && out.DType.IsIntegral() && out.DType != dtype.Bool && out.DType.Size() < 4: // wraps, as the cast of C
		s = shape.Of(dtype.I32, s.Dims)
		v, _ = w.callFor(toCopy, s, v, s.DType)
	}
	return w.call(toCopy, v, out.DType)
}

// fill draws floats a + b · distribution in the shape and type of the result; a complex one takes two.
func (w *writer) fill(what drawn, a, b float64) bool {
	out := w.out(0)
	natural := shape.Of(out.DType.ToReal().Accumulate(), out.Dims)
	if m := ops.Mantissa(out.DType.ToReal()); what == uniform && m < 24 {
		what = []drawn{8: uniform8, 11: uniform11}[m]
	}
	v, next := w.floats(what, natural, 0, a, b)
	if !out.DType.IsComplex() {
		return w.give(v, natural)
	}
	im, _ := w.floats(what, natural, next, a, b)
	return w.call("complex(Tensor real, Tensor imag) -> Tensor", v, im)
}

// chance is true with a probability.
func (w *writer) chance(p float64) (value, *shape.Shape) {
	s := shape.Of(dtype.Bool, w.out(0).Dims)
	if p <= 0 || p >= 1 {
		v := w.temp(s)
		w.emit(opFull, list(v, w.constant(ir.Number{Type: dtype.I64, I: truth(p >= 1)})), typed(s))
		return value(v), s
	}
	v, _ := w.draw(chance, s, 0, 0, int64(ops.ChanceLimit(p)))
	return v, s
}

func randomIntegers(w *writer) bool {
	s := shape.Of(dtype.I64, w.out(0).Dims)
	from, n := ops.RandomRange(&w.Args, w.out(0).DType)
	v, _ := w.draw(integers, s, 0, from, int64(n))
	return w.give(v, s)
}

// permutation sorts 0, 1, … by random keys.
func permutation(w *writer) bool {
	s := shape.Of(dtype.I64, w.out(0).Dims)
	v, _ := w.draw(keys, s, 0, 0, 0)
	sorted, order := w.temp(s), w.temp(s)
	return w.callTo("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
		[]int64{sorted, order}, []*shape.Shape{s, s}, []any{v, true, int64(0), false}) && w.give(value(order), s)
}

// dropout multiplies the elements that it keeps, and the others by 0, so that NaN stays.
func dropout(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	src, p := w.valueOf(w.ID(0)), w.Float(1)
	if w.Has(2) && !w.Bool(2) {
		if same := w.result(0); same >= 0 {
			w.emit(opSame, list(same, src))
		}
		if mask := w.result(1); mask >= 0 {
			w.emit(opFull, list(mask, w.constant(ir.Number{Type: dtype.I64, I: 1})), typed(w.out(1)))
		}
		return true
	}
	scale := 0.
	if p < 1 {
		scale = 1 / (1 - p)
	}
	mask, _ := w.chance(1 - p)
	if kept := w.result(1); kept >= 0 {
		w.emit(opSame, list(kept, int64(mask)))
	}
	results := []int64{w.result(0)}
	return w.callTo("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", results, []*shape.Shape{w.out(0)}, []any{value(src), mask, scale})
}

// bernoulli compares with the probabilities of an argument.
func (w *writer) bernoulli(p int) bool {
	if w.isNumber(w.ID(p)) {
		return false
	}
	prob := w.g.Shape(w.ID(p))
	s := shape.Of(prob.DType.Accumulate(), w.out(0).Dims)
	wide, yes := shape.Of(s.DType, prob.Dims), shape.Of(dtype.Bool, s.Dims)
	u, _ := w.floats(uniform, s, 0, 0, 1)
	limit := value(w.valueOf(w.ID(p)))
	if prob != wide {
		limit, _ = w.callFor(toCopy, wide, limit, s.DType)
	}
	v, ok := w.callFor("lt.Tensor"+binary, yes, u, limit)
	return ok && w.give(v, yes)
}

func logNormal(w *writer) bool {
	s := shape.Of(w.out(0).DType.Accumulate(), w.out(0).Dims)
	n, _ := w.floats(normal, s, 0, w.FloatOr(1, 1), w.FloatOr(2, 2))
	v, ok := w.callFor("exp(Tensor self) -> Tensor", s, n)
	return ok && w.give(v, s)
}

func geometric(w *writer) bool {
	d := w.out(0).DType.Accumulate()
	if w.out(0).DType.IsIntegral() {
		d = dtype.F64
	}
	s := shape.Of(d, w.out(0).Dims)
	n, _ := w.floats(exponential, s, 0, 0, -1/math.Log1p(-w.Float(1)))
	v, ok := w.callFor("ceil(Tensor self) -> Tensor", s, n)
	return ok && w.give(v, s)
}

// normal is mean + std · normal for tensors; number stands for the std where that is nil, else for the mean.
func (w *writer) normal(mean, std any, number float64) bool {
	out := w.out(0)
	if out.DType.IsComplex() || mean != nil && w.isNumber(w.ID(0)) || std != nil && w.isNumber(w.ID(1)) {
		return false
	}
	s := shape.Of(out.DType.Accumulate(), out.Dims)
	low, high := 0., 1.
	if std == nil {
		high = number
	} else if mean == nil {
		low = 0
	}
	v, _ := w.floats(normal, s, 0, low, high)
	ok := true
	as := func(i int) value { return w.as(w.ID(i), s.DType) }
	if std != nil {
		v, ok = w.callFor("mul.Tensor"+binary, s, v, as(1))
	}
	switch {
	case !ok:
		return false
	case mean != nil:
		sum := w.temp(s)
		w.emit(opAdd, list(sum, int64(v), int64(as(0)), w.constant(ir.Number{Type: dtype.I64, I: 1}), 1))
		v = value(sum)
	case number != 0:
		sum := w.temp(s)
		w.emit(opAdd, list(sum, int64(v), w.numberTensor(w.constant(ir.Number{Type: dtype.F64, F: number}), s.DType), w.constant(ir.Number{Type: dtype.I64, I: 1}), 1))
		v = value(sum)
	}
	return w.give(v, s)
}

// multinomial draws one sample of each row, or several without replacement, as the compiled program does: by the race
// of exponential clocks. With replacement it is compiled: a sum rounded differently would draw other samples.
func multinomial(w *writer) bool {
	in, out := w.g.Shape(w.ID(0)), w.out(0)
	if w.isNumber(w.ID(0)) || w.Bool(2) && w.Int(1) != 1 || in.Numel() == 0 {
		return false
	}
	s := shape.Of(in.DType.Accumulate(), in.Dims)
	clocks, _ := w.floats(exponential, s, 0, 0, 1)
	race, ok := w.callFor("div.Tensor"+binary, s, w.as(w.ID(0), s.DType), clocks)
	most := shape.Of(s.DType, out.Dims)
	best := w.temp(most)
	results := []int64{best, w.result(0)}
	return ok && w.callTo("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
		results, []*shape.Shape{most, out}, []any{race, w.Int(1), int64(-1), true, true})
}
