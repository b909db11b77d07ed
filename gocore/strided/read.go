package strided

import "slices"

// Read gives the program that makes the dense array of v's size out of a base array of dimensions
// base. Both are only read. It fails with ErrView or ErrBounds. A view without elements never fails
// for its strides and offset.
func Read(base []int64, v View) (Program, error) {
	n := elements(base)
	if err := v.check(n); err != nil {
		return Program{}, refuse("read", base, v, err)
	}
	if v.Whole(base) {
		return Program{}, nil
	}
	b := newBuilder(base)
	if v.Numel() == 0 {
		if n == 0 {
			b.reshape(v.Size)
		} else {
			b.add(Step{Kind: Empty, Dims: slices.Clone(v.Size)})
		}
		return Program{b.steps}, nil
	}
	dims := thickDims(v)
	axes := axesOf(base, v.Offset, runsOf(v, dims))
	for !solved(axes) {
		next, ok := b.unravel(axes)
		if !ok {
			return Program{gather(base, v)}, nil
		}
		axes = next
	}
	b.take(axes)
	b.arrange(v, dims, axes)
	return Program{b.steps}, nil
}

// take slices the view out of solved axes.
func (b *builder) take(axes []axis) {
	starts, limits, strides := make([]int64, len(axes)), make([]int64, len(axes)), make([]int64, len(axes))
	for i, a := range axes {
		starts[i], limits[i], strides[i] = a.window()
	}
	b.reshape(lengths(axes))
	b.slice(starts, limits, strides)
}

// steps reports whether a solved axis leaves elements out between those it takes.
func (a axis) steps() bool { return len(a.runs) == 1 && a.runs[0].c > 1 }

// window is the slice of a solved axis.
func (a axis) window() (start, limit, stride int64) {
	stride = 1
	if len(a.runs) == 1 {
		stride = a.runs[0].c
	}
	return a.off, a.off + a.span(), stride
}

// gather is the program of last resort. Expanded dimensions are gathered once.
func gather(base []int64, v View) []Step {
	b := newBuilder(base)
	b.reshape([]int64{product(base)})
	u := Unexpanded(v)
	b.add(Step{Kind: Gather, Dims: u.Size, Strides: u.Stride, Offset: u.Offset})
	b.broadcast(slices.Clone(v.Size), upTo(len(v.Size)))
	return b.steps
}
