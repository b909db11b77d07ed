package strided

import (
	"fmt"
	"slices"
)

// Method says how a WriteProgram stores a value.
type Method uint8

// The methods, the cheapest first.
const (
	// Nothing: the view has no elements.
	Nothing Method = iota
	// Replace: the value fills the storage. After Val it is the new base.
	Replace
	// Block: the value is a block of the old array: a dynamic_update_slice at constant starts.
	Block
	// Strided: the value lies at Starts[d], Starts[d]+Strides[d], … of the old array. It is a select between the old
	// array and the value padded with Strides[d]-1 elements in between.
	Strided
	// Scatter: element i of the value goes to element Offset + Σ i[d]·Strides[d] of the flat old array.
	// Where several go to one, the last in row-major order stays.
	Scatter
)

var methodNames = [...]string{"nothing", "replace", "block", "strided", "scatter"}

// String is the name in the text form.
func (m Method) String() string { return methodNames[m] }

// WriteProgram stores a dense array, the value, in a storage. Old brings the base to the array that is updated, and
// Val the value to the update. Method puts one in the other. Back brings the result to the base's dimensions again.
// Replace uses neither Old nor Back.
type WriteProgram struct {
	Method         Method
	Old, Val, Back []Step
	// NewBase are the dimensions of the new base array, nil if they are the old's. Only a Replace
	// changes them; without dimensions (a scalar) NewBase is empty, not nil.
	NewBase []int64
	// OldDims are the dimensions of the updated array, ValDims those of the update (Block, Strided and
	// Scatter; for Scatter OldDims has one dimension and ValDims is the size of the view).
	OldDims, ValDims []int64
	// Starts (Block, Strided) and Strides (Strided) place the update, a pair for each of OldDims.
	// Strides and Offset are the view's for Scatter.
	Starts, Strides []int64
	Offset          int64
}

// String is the text form: the method with its parameters, then the three lists of steps.
func (w WriteProgram) String() string {
	s := w.Method.String()
	switch w.Method {
	case Block:
		s += fmt.Sprintf("(%s at %s)", list(w.ValDims), list(w.Starts))
	case Strided:
		s += fmt.Sprintf("(%s at %s by %s)", list(w.ValDims), list(w.Starts), list(w.Strides))
	case Scatter:
		s += fmt.Sprintf("(%s stride %s + %d)", list(w.ValDims), list(w.Strides), w.Offset)
	}
	for _, part := range []struct {
		name  string
		steps []Step
	}{{"old", w.Old}, {"val", w.Val}, {"back", w.Back}} {
		if len(part.steps) > 0 {
			s += "; " + part.name + " " + text(part.steps)
		}
	}
	if w.NewBase != nil {
		s += " => " + list(w.NewBase)
	}
	return s
}

// Write gives the program that stores a dense array of v's size in a storage whose base array has
// dimensions base. Both arguments are only read. It fails with ErrView or ErrBounds as Read does, and
// with ErrOverlap where torch refuses the write. Views that hold an element twice in a way that torch
// does not look for (at::MemOverlap::TooHard) are scattered.
func Write(base []int64, v View) (WriteProgram, error) {
	n := elements(base)
	if err := v.check(n); err != nil {
		return WriteProgram{}, refuse("write", base, v, err)
	}
	numel := v.Numel()
	if numel == 0 {
		return WriteProgram{Method: Nothing}, nil
	}
	if v.expanded() {
		return WriteProgram{}, refuse("write", base, v, ErrOverlap)
	}
	dims := thickDims(v)
	if numel == n {
		if perm, dense := NonOverlappingDense(v.Size, v.Stride); dense {
			return replace(base, v, dims, perm), nil
		}
	}
	old := newBuilder(base)
	axes := axesOf(base, v.Offset, runsOf(v, dims))
	for !solved(axes) {
		next, ok := old.align(axes)
		if !ok {
			return scatter(base, v), nil
		}
		axes = next
	}
	w := WriteProgram{Method: Block}
	axes, dense := densified(axes)
	for _, a := range axes {
		start, _, stride := a.window()
		w.Starts = append(w.Starts, start)
		w.ValDims = append(w.ValDims, a.count())
		if !dense {
			w.Method, w.Strides = Strided, append(w.Strides, stride)
		}
	}
	old.reshape(lengths(axes))
	w.Old, w.OldDims, w.Back = old.steps, lengths(axes), old.inverse()
	w.Val = stack(v, dims, w.ValDims)
	return w, nil
}

// replace is the program for a value that fills the storage, its dimensions in memory order by perm.
// The base keeps its dimensions where that takes no step more.
func replace(base []int64, v View, dims []int, perm []int64) WriteProgram {
	if ascending(perm) {
		if slices.Equal(base, v.Size) {
			return WriteProgram{Method: Replace}
		}
		return WriteProgram{Method: Replace, NewBase: append([]int64{}, v.Size...)}
	}
	if len(base) == len(v.Size) && slices.Equal(thick(base), pick(v.Size, dims)) {
		return WriteProgram{Method: Replace, Val: stack(v, dims, base)}
	}
	val := newBuilder(v.Size)
	val.transpose(perm)
	return WriteProgram{Method: Replace, Val: val.steps, NewBase: slices.Clone(val.dims)}
}

// count is the number of elements that are taken of a solved axis.
func (a axis) count() int64 {
	if len(a.runs) == 0 {
		return 1
	}
	return a.runs[0].n
}

// align does one round of work on the old array of a write. It pads the axes that have several runs to whole rows of
// the widest spacing, such that the other runs stay within a row. It fails where they can't.
func (b *builder) align(axes []axis) ([]axis, bool) {
	var next []axis
	low, high := make([]int64, len(axes)), make([]int64, len(axes))
	for i, a := range axes {
		if len(a.runs) < 2 {
			next = append(next, a)
			continue
		}
		first, rest := a.runs[0], a.runs[1:]
		row, room := first.c, reach(rest)
		if room >= row {
			return nil, false
		}
		if col := a.off % row; col+room >= row {
			low[i] = row - col
		}
		off := a.off + low[i]
		rows := (low[i] + a.len + row - 1) / row
		high[i] = rows*row - low[i] - a.len
		next = append(next, axis{len: rows, off: off / row, runs: []run{{first.n, 1, first.id}}})
		next = append(next, refine([]axis{{len: row, off: off % row, runs: rest}})...)
	}
	b.reshape(lengths(axes))
	b.pad(low, high)
	b.reshape(lengths(next))
	return next, true
}

// densified splits the axes that the view steps along so that it takes a block of the result, which is an update in
// place. If the length of one is not a multiple of its step, it leaves all as they are and returns false. A mask over
// the whole array then does for all.
func densified(axes []axis) ([]axis, bool) {
	var out []axis
	for _, a := range axes {
		if !a.steps() {
			out = append(out, a)
			continue
		}
		r := a.runs[0]
		if a.len%r.c != 0 {
			return axes, false
		}
		out = append(out, axis{len: a.len / r.c, off: a.off / r.c, runs: []run{{r.n, 1, r.id}}},
			axis{len: r.c, off: a.off % r.c})
	}
	return out, true
}

// inverse gives the steps back from the array of reshapes and pads.
func (b *builder) inverse() []Step {
	back := newBuilder(b.dims)
	for i := len(b.steps) - 1; i >= 0; i-- {
		from := b.base
		if i > 0 {
			from = b.steps[i-1].Dims
		}
		s := b.steps[i]
		if s.Kind == Reshape {
			back.reshape(from)
			continue
		}
		limits, strides := make([]int64, len(from)), make([]int64, len(from))
		for d, n := range from {
			limits[d], strides[d] = s.Low[d]+n, 1
		}
		back.slice(slices.Clone(s.Low), limits, strides)
	}
	return back.steps
}

// stack gives the steps that bring a value of v's size into the order of addresses, with the
// dimensions want.
func stack(v View, dims []int, want []int64) []Step {
	b := newBuilder(v.Size)
	if !slices.IsSorted(dims) {
		var units []int64
		for d, n := range v.Size {
			if n == 1 {
				units = append(units, int64(d))
			}
		}
		var perm []int64
		if len(want) == len(v.Size) && slices.Equal(thick(want), pick(v.Size, dims)) {
			for _, n := range want { // the transpose alone gives want
				if n == 1 {
					perm, units = append(perm, units[0]), units[1:]
				} else {
					perm, dims = append(perm, int64(dims[0])), dims[1:]
				}
			}
		} else {
			perm = units
			for _, d := range dims {
				perm = append(perm, int64(d))
			}
		}
		b.transpose(perm)
	}
	b.reshape(want)
	return b.steps
}

// scatter is the program of last resort.
func scatter(base []int64, v View) WriteProgram {
	flat := []int64{product(base)}
	old := newBuilder(base)
	old.reshape(flat)
	return WriteProgram{Method: Scatter, Old: old.steps, Back: old.inverse(),
		OldDims: flat, ValDims: slices.Clone(v.Size), Strides: slices.Clone(v.Stride), Offset: v.Offset}
}
