package interp

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// overAll is a reduction to a number: torch's kernel of it is the one over dimensions, which can write into given
// memory.
func overAll(signature string) rule {
	return func(w *writer) bool { return w.call(signature, arg(0), nil, false, arg(1)) }
}

// vectorNorm is the Euclidean norm; of others torch's op takes the order as a Scalar.
func vectorNorm(w *writer) bool {
	n, ok := w.g.Number(w.ID(1))
	dims := w.Ints(2)
	if ok && n.Float() != 2 || w.isNumber(w.ID(0)) {
		return false
	}
	for d := range w.g.Shape(w.ID(0)).Rank() {
		if len(w.Ints(2)) == 0 {
			dims = append(dims, int64(d))
		}
	}
	return w.call("linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
		arg(0), nil, dims, arg(3), arg(4))
}

// variance is the forms of the variance with a correction of 0 or 1.
func variance(op string) rule {
	returns := ") -> Tensor"
	if op == "var_mean.dim" || op == "std_mean.dim" {
		returns = ") -> (Tensor, Tensor)"
	}
	return func(w *writer) bool {
		n, ok := w.g.Number(w.ID(2))
		if !ok {
			n.F, n.Type = 1, dtype.F64
		}
		if f := n.Float(); f != 0 && f != 1 || w.isParam(w.ID(2)) {
			return false
		}
		return w.call(op+"(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False"+returns, arg(0), arg(1), n.Float() == 1, arg(3))
	}
}

// nonzero is the indices of the elements that are not zero, as many as the graph's result holds.
func nonzero(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	w.emit(opNonzero, list(w.result(0), w.valueOf(w.ID(0)), w.out(0).Dims[0], w.IntOr(2, -1), w.out(0).Dims[1]))
	return true
}

// histc counts integers in bins, which torch's kernel does not. Floats are compiled: the kernel for bins of equal width
// rounds differently at their edges.
func histc(w *writer) bool {
	d := w.out(0).DType
	lo, ok := w.g.Number(w.ID(2))
	hi, fine := w.g.Number(w.ID(3))
	if !d.IsInt() || !ok || !fine || lo.Float() >= hi.Float() || w.isNumber(w.ID(0)) {
		return false
	}
	bins := w.Int(1)
	counts := shape.Of(dtype.F64, []int64{bins})
	made := w.temp(counts)
	const op = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor, Tensor)"
	return w.callTo(op, []int64{made, -1}, []*shape.Shape{counts, shape.Of(dtype.F64, []int64{bins + 1})},
		[]any{w.as(w.ID(0), dtype.F64), bins, []float64{lo.Float(), hi.Float()}}) && w.give(value(made), counts)
}
