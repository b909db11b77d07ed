package strided

import "slices"

// builder appends steps to an array and follows its dimensions. A step that would change nothing is
// left out.
type builder struct {
	base  []int64 // dimensions before the first step
	dims  []int64 // dimensions now; shared with the last step, never written to
	steps []Step
}

func newBuilder(dims []int64) *builder { return &builder{base: dims, dims: dims} }

func (b *builder) add(s Step) {
	b.steps = append(b.steps, s)
	b.dims = s.Dims
}

// reshape takes the place of a reshape just before it.
func (b *builder) reshape(dims []int64) {
	if last := len(b.steps) - 1; last >= 0 && b.steps[last].Kind == Reshape {
		b.steps = b.steps[:last]
		b.dims = b.base
		if last > 0 {
			b.dims = b.steps[last-1].Dims
		}
	}
	if !slices.Equal(b.dims, dims) {
		b.add(Step{Kind: Reshape, Dims: slices.Clone(dims)})
	}
}

// slice takes ownership of its arguments, as do transpose, broadcast and pad.
func (b *builder) slice(starts, limits, strides []int64) {
	dims := make([]int64, len(starts))
	for d := range starts {
		dims[d] = (limits[d] - starts[d] + strides[d] - 1) / strides[d]
	}
	if !slices.Equal(dims, b.dims) {
		b.add(Step{Kind: Slice, Dims: dims, Starts: starts, Limits: limits, Strides: strides})
	}
}

func (b *builder) transpose(perm []int64) {
	if ascending(perm) {
		return
	}
	dims := make([]int64, len(perm))
	for d, p := range perm {
		dims[d] = b.dims[p]
	}
	b.add(Step{Kind: Transpose, Dims: dims, Perm: perm})
}

func (b *builder) broadcast(dims, mapping []int64) {
	if !slices.Equal(dims, b.dims) {
		b.add(Step{Kind: Broadcast, Dims: dims, Mapping: mapping})
	}
}

func (b *builder) pad(low, high []int64) {
	dims := slices.Clone(b.dims)
	for d := range dims {
		dims[d] += low[d] + high[d]
	}
	if !slices.Equal(dims, b.dims) {
		b.add(Step{Kind: Pad, Dims: dims, Low: low, High: high})
	}
}

func ascending(list []int64) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// thick is dims without those of one element.
func thick(dims []int64) []int64 {
	var out []int64
	for _, n := range dims {
		if n != 1 {
			out = append(out, n)
		}
	}
	return out
}
