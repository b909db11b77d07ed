package interp

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// sum is self + sign · alpha · other.
func sum(sign int64) rule {
	return func(w *writer) bool { return w.add(w.ID(0), w.ID(1), sign) }
}

// difference is other − alpha · self.
func difference(w *writer) bool { return w.add(w.ID(1), w.ID(0), -1) }

// add is a + sign · argument 2 · b. Torch's function for it takes floats; integers are added with a product by 1.
func (w *writer) add(a, b ir.ID, sign int64) bool {
	alpha := w.constantOr(2, 1)
	if n, ok := w.g.Number(w.ID(2)); ok && n.Type.IsComplex() {
		return false
	}
	d := w.out(0).DType
	if d.IsFloat() || d.IsComplex() {
		x, y := w.operand(a), w.operand(b)
		w.emit(opAdd, list(w.result(0), x, y, alpha, sign))
		return true
	}
	if d == dtype.Bool || alpha < int64(len(w.plan.Scalars)) && sign < 0 {
		return false
	}
	x, y := w.as(a, d), w.as(b, d)
	scale := w.temp(shape.Of(dtype.I64, []int64{1}))
	n, _ := w.g.Number(w.ID(2))
	if w.ID(2) == ir.None {
		n.I = 1
	}
	if alpha >= int64(len(w.plan.Scalars)) {
		alpha = w.constant(ir.Number{Type: dtype.I64, I: sign * n.Int()})
	}
	w.emit(opNumber, list(scale, alpha, code(dtype.I64), 1))
	return w.call("_foreach_addcmul.Tensor"+eachSchema, values{x}, values{y}, values{value(w.whole(1, d))}, value(scale))
}

// fused is an op on three tensors and a number, of which torch has a form for lists that takes the number as a tensor.
func fused(op string) rule {
	return func(w *writer) bool {
		d := w.out(0).DType
		if d == dtype.Bool || d.IsComplex() {
			return false
		}
		number := dtype.F64
		if d.IsInt() {
			number = dtype.I64
		}
		scale, alpha := w.temp(shape.Of(number, []int64{1})), w.constantOr(3, 1)
		w.emit(opNumber, list(scale, alpha, code(number), 1))
		x, y, z := w.as(w.ID(0), d), w.as(w.ID(1), d), w.as(w.ID(2), d)
		return w.call(op+eachSchema, values{x}, values{y}, values{z}, value(scale))
	}
}

func power(w *writer) bool {
	n, ok := w.g.Number(w.ID(1))
	if !ok || n.Type.IsComplex() || w.isNumber(w.ID(0)) {
		return false
	}
	if d := w.g.Shape(w.ID(0)).DType; d.IsFloat() || d.IsComplex() {
		src, ref := w.valueOf(w.ID(0)), w.numberRef(w.ID(1))
		w.emit(opPower, list(w.result(0), src, ref))
		return true
	}
	return w.call("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", arg(0), arg(1))
}

func lerp(w *writer) bool {
	if !w.out(0).DType.IsFloat() || !w.isNumber(w.ID(2)) {
		return false
	}
	return w.call("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", arg(0), arg(1), value(w.number(w.ID(2), w.out(0).DType)))
}

// addmm is addmm and baddbmm.
func addmm(w *writer) bool {
	if !w.out(0).DType.IsFloat() || slices.ContainsFunc([]ir.ID{w.ID(0), w.ID(1), w.ID(2)}, w.isNumber) {
		return false
	}
	self, a, b := w.valueOf(w.ID(0)), w.valueOf(w.ID(1)), w.valueOf(w.ID(2))
	beta, alpha := w.constantOr(3, 1), w.constantOr(4, 1)
	w.emit(opAddmm, list(w.result(0), self, a, b, beta, alpha), typed(w.out(0)))
	return true
}

const clampTensor = "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"

// clamped is a clamp, to which a number outside the range of a narrow integer type counts as the end of that range.
func clamped(signature string) rule {
	return func(w *writer) bool {
		d := w.out(0).DType
		if !d.IsInt() || d.Size() == 8 {
			return w.callAs(signature)
		}
		bottom, top := d.Range()
		end := func(n int64) value {
			return value(w.numberTensor(w.constant(ir.Number{Type: dtype.I64, I: n}), dtype.I64))
		}
		args, ok := []any{arg(0)}, true
		for i := 1; i < arguments(signature); i++ {
			if !w.isNumber(w.ID(i)) {
				args = append(args, arg(i))
				continue
			}
			bound, known := w.callFor(clampTensor, shape.Of(dtype.I64, nil), value(w.number(w.ID(i), dtype.I64)), end(bottom), end(top))
			narrow, fits := w.callFor(toCopy, shape.Of(d, nil), bound, d)
			args, ok = append(args, narrow), ok && known && fits
		}
		return ok && w.call(signature, args...)
	}
}

// division is an op that on integers may divide by 0, or the least of them by −1, which ends the process. There it
// runs with a number only. A number that is an argument of the program is never 0 or −1 (see ir.AddNumber).
func division(op string) rule {
	return func(w *writer) bool {
		if d := w.out(0).DType; d.IsFloat() {
			return w.callAs(op)
		}
		n, ok := w.g.Number(w.ID(1))
		if !ok || !n.Type.IsInt() || n.Int() == 0 || n.Int() == -1 {
			return false
		}
		return w.callAs(op)
	}
}

const eachSchema = "(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]"
