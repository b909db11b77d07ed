package interp

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// isNumber tells of an operand that it is a number, and not a tensor.
func (w *writer) isNumber(id ir.ID) bool { return id != ir.None && w.g.At(id).Op == ir.OpScalar }

// isParam tells of a number that it may be another one when the program runs again.
func (w *writer) isParam(id ir.ID) bool { return id != ir.None && w.g.At(id).Flags&ir.Param != 0 }

// constant is the number of a number of the program itself.
func (w *writer) constant(n ir.Number) int64 {
	w.p.Numbers = append(w.p.Numbers, n)
	return int64(len(w.plan.Scalars) + len(w.p.Numbers) - 1)
}

// constantOr is the number of argument i, or of the number that stands for none.
func (w *writer) constantOr(i int, none int64) int64 {
	if i >= 0 && w.isNumber(w.ID(i)) {
		return w.numberRef(w.ID(i))
	}
	return w.constant(ir.Number{Type: dtype.I64, I: none})
}

// numberRef is the number of a leaf that is a number.
func (w *writer) numberRef(id ir.ID) int64 {
	if i, ok := w.scalar[id]; ok {
		return i
	}
	n, _ := w.g.Number(id)
	i := w.constant(n)
	w.scalar[id] = i
	return i
}

// operand is the value of a Tensor argument, for which a number may be given.
func (w *writer) operand(id ir.ID) int64 {
	if w.isNumber(id) {
		return w.number(id, w.promoted(id))
	}
	return w.valueOf(id)
}

// number is a number as a 0-dim tensor of a type.
func (w *writer) number(id ir.ID, d dtype.DType) int64 { return w.numberTensor(w.numberRef(id), d) }

func (w *writer) numberTensor(ref int64, d dtype.DType) int64 {
	v := w.temp(shape.Of(d, nil))
	w.emit(opNumber, list(v, ref, code(d), 0))
	return v
}

// whole is an integer of the program as a 0-dim tensor.
func (w *writer) whole(i int64, d dtype.DType) int64 {
	return w.numberTensor(w.constant(ir.Number{Type: dtype.I64, I: i}), d)
}

// promoted is the type of the 0-dim tensor that stands for a number among the node's tensors. With it torch's
// promotion gives what it gives for the number. A tensor of no dimensions yields to one with dimensions of its
// category or a higher one.
func (w *writer) promoted(id ir.ID) dtype.DType {
	n, _ := w.g.Number(id)
	if w.g.At(id).Flags&ir.ZeroDimCPU != 0 {
		return n.Type
	}
	var zero *shape.Shape
	for _, in := range w.g.In(w.node) {
		if in == ir.None || w.isNumber(in) || w.g.Shape(in).DType.Kind() < n.Type.Kind() {
			continue
		}
		s := w.g.Shape(in)
		if s.Rank() > 0 {
			return n.Type
		}
		zero = s
	}
	out := w.out(0).DType
	switch {
	case zero != nil && out.Kind() == zero.DType.Kind():
		return out
	case zero != nil:
		return zero.DType
	case out.Kind() == n.Type.Kind():
		return out
	case n.Type.IsFloat():
		return dtype.F32
	case n.Type.IsComplex():
		return dtype.C64
	}
	return n.Type
}

const toCopy = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"

// as is a value in another type.
func (w *writer) as(id ir.ID, d dtype.DType) value {
	if w.isNumber(id) {
		return value(w.number(id, d))
	}
	s := w.g.Shape(id)
	if s.DType == d {
		return value(w.valueOf(id))
	}
	v, _ := w.callFor(toCopy, shape.Of(d, s.Dims), value(w.valueOf(id)), d)
	return v
}
