package interp

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

// full is an array of one number.
func (w *writer) full(ref int64) bool {
	w.emit(opFull, list(w.result(0), ref), typed(w.out(0)))
	return true
}

// fullOf is an array of the number that is an argument.
func (w *writer) fullOf(i int) bool { return w.isNumber(w.ID(i)) && w.full(w.numberRef(w.ID(i))) }

func zeros(w *writer) bool { return w.full(w.constant(ir.Number{Type: dtype.I64})) }

func ones(w *writer) bool { return w.full(w.constant(ir.Number{Type: dtype.I64, I: 1})) }

// iota is start, start + step, …; −1 for an argument that is 0 or 1.
func (w *writer) iota(start, step int) bool {
	from, by := w.constantOr(start, 0), w.constantOr(step, 1)
	d := w.out(0).DType
	if d.IsComplex() || d == dtype.Bool {
		return false
	}
	w.emit(opIota, list(w.result(0), from, by, code(d), w.out(0).Dims[0]))
	return true
}

func constantPad(w *writer) bool {
	const op = "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor"
	if w.out(0).DType.IsComplex() {
		return false
	}
	return w.call(op, arg(0), arg(1), "constant", arg(2))
}

// filled gives a number in the result's type where the op takes a tensor.
func filled(op string, number int) rule {
	return func(w *writer) bool {
		if !w.isNumber(w.ID(number)) {
			return false
		}
		args := make([]any, number+1)
		for i := range number {
			args[i] = arg(i)
		}
		args[number] = value(w.number(w.ID(number), w.out(0).DType))
		return w.call(op, args...)
	}
}
