package interp

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// view writes an instruction on argument 0 with lists of one length.
func (w *writer) view(op opcode, lists ...[]int64) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	src, dst := w.valueOf(w.ID(0)), w.result(0)
	w.emit(op, append([][]int64{list(dst, src, int64(len(lists[0])))}, lists...)...)
	return true
}

func broadcast(w *writer) bool {
	src, dims, mapping := w.operand(w.ID(0)), w.Ints(1), w.Ints(2)
	w.emit(opBroadcast, list(w.result(0), src, int64(len(dims))), dims, list(int64(len(mapping))), mapping)
	return true
}

func strided(w *writer) bool {
	src, size := w.operand(w.ID(0)), w.Ints(1)
	w.emit(opStrided, list(w.result(0), src, int64(len(size))), size, w.Ints(2), list(w.Int(3)))
	return true
}

func pad(w *writer) bool {
	src, out := w.operand(w.ID(0)), w.out(0)
	w.emit(opPad, list(w.result(0), src), typed(out), w.Ints(1))
	return true
}

func update(w *writer, steps []int64) bool {
	base, block, starts := w.operand(w.ID(0)), w.operand(w.ID(1)), w.Ints(2)
	limits := slices.Clone(starts)
	for d, n := range w.g.Shape(w.ID(1)).Dims { // the compiler moves a block that does not fit; torch's memory ends there
		if n > 0 {
			limits[d] += (n-1)*steps[d] + 1
		}
		if starts[d] < 0 || limits[d] > w.out(0).Dims[d] {
			return false
		}
	}
	w.emit(opUpdate, list(w.result(0), base, block, int64(len(starts))), starts, steps)
	return true
}

func scatterFlat(w *writer) bool {
	base, v, size := w.operand(w.ID(0)), w.operand(w.ID(1)), w.Ints(2)
	w.emit(opScatter, list(w.result(0), base, v, int64(len(size))), size, w.Ints(3), list(w.Int(4)))
	return true
}

// starts are the numbers of a list of them.
func (w *writer) starts(i int) (refs []int64) {
	for _, id := range w.IDs(i) {
		refs = append(refs, w.numberRef(id))
	}
	return refs
}

func dynamicSlice(w *writer) bool {
	src, sizes := w.operand(w.ID(0)), w.Ints(2)
	w.emit(opDynamicSlice, list(w.result(0), src, int64(len(sizes))), sizes, w.starts(1))
	return true
}

func dynamicUpdate(w *writer) bool {
	base, block, starts := w.operand(w.ID(0)), w.operand(w.ID(1)), w.starts(2)
	w.emit(opDynamicUpdate, list(w.result(0), base, block, int64(len(starts))), starts)
	return true
}

// same is a result that is its argument: nothing is written in place.
func same(w *writer) bool {
	src := w.operand(w.ID(0))
	w.emit(opSame, list(w.result(0), src))
	return true
}

// copyTo is the value of argument 1, in the shape and type of the result.
func copyTo(w *writer) bool {
	if w.isNumber(w.ID(1)) {
		return w.fullOf(1)
	}
	src, out := w.as(w.ID(1), w.out(0).DType), w.out(0)
	from := w.g.Shape(w.ID(1))
	if from.Rank() > out.Rank() {
		return false
	}
	var mapping []int64
	for d := range from.Rank() {
		mapping = append(mapping, int64(out.Rank()-from.Rank()+d))
	}
	w.emit(opBroadcast, list(w.result(0), int64(src), int64(out.Rank())), out.Dims, list(int64(from.Rank())), mapping)
	return true
}

// bitcast looks at the elements' bytes as another type. Torch's op scales the last dimension.
func bitcast(w *writer) bool {
	if w.isNumber(w.ID(0)) {
		return false
	}
	s, out := w.g.Shape(w.ID(0)), w.out(0)
	line := shape.Of(s.DType, []int64{s.Numel()})
	flat := w.temp(line)
	w.emit(opReshape, list(flat, w.valueOf(w.ID(0)), 1, s.Numel()))
	whole, ok := w.callFor("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", line, value(flat))
	other := shape.Of(out.DType, []int64{out.Numel()})
	seen := w.temp(other)
	w.memory.share(seen, int64(whole), dense(other.Dims))
	fine := w.callTo("view.dtype(Tensor self, ScalarType dtype) -> Tensor", []int64{seen}, []*shape.Shape{other}, []any{whole, out.DType})
	w.emit(opReshape, list(w.result(0), seen, int64(out.Rank())), out.Dims)
	return ok && fine
}
