package strided

import "slices"

// arrange brings the array, whose dimensions are those of the taken axes, to the size of v. dims are
// v's thick dimensions by falling stride; the runs' ids follow the same order of addresses, though
// one dimension may be several runs and one run several dimensions.
//
// At most one reshape, one transpose and one broadcast are needed. Only a skewed array whose runs are not the view's
// dimensions is transposed into the order of addresses first.
func (b *builder) arrange(v View, dims []int, axes []axis) {
	sizes := pick(v.Size, dims)
	source := b.match(sizes, axes)
	expanded := v.expanded()
	inOrder := slices.IsSorted(dims)
	if source != nil {
		inOrder = slices.IsSorted(targets(dims, source))
	}
	if inOrder && !expanded {
		b.reshape(v.Size)
		return
	}
	free := len(v.Size) - len(dims) // of one element or expanded
	if units := len(source) - len(dims); source == nil || !expanded && units != free {
		source = b.restack(sizes, source, free, expanded)
	}
	place, ok := places(len(v.Size), dims, source, inOrder)
	if !ok {
		source = b.restack(sizes, source, free, expanded)
		place, _ = places(len(v.Size), dims, source, inOrder)
	}
	perm := upTo(len(place))
	slices.SortFunc(perm, func(x, y int64) int { return order(place[x], place[y]) })
	b.transpose(perm)
	if expanded {
		slices.Sort(place)
		b.broadcast(slices.Clone(v.Size), place)
	}
}

// match says of which of v's thick dimensions (by index in sizes) each dimension of the array is, -1
// for those of one element. It returns nil if they don't correspond; the array is then in the order
// of addresses.
func (b *builder) match(sizes []int64, axes []axis) []int {
	var ids, ns []int64 // of the runs, in the order of the axes
	for _, a := range axes {
		for _, r := range a.runs {
			ids, ns = append(ids, int64(r.id)), append(ns, r.n)
		}
	}
	if ascending(ids) {
		if !slices.Equal(thick(b.dims), sizes) {
			return nil
		}
		return number(b.dims, upTo(len(sizes)))
	}
	same := len(ns) == len(sizes)
	for i, id := range ids {
		same = same && sizes[id] == ns[i]
	}
	if same {
		return number(b.dims, ids)
	}
	key := number(b.dims, ids)
	perm := upTo(len(key))
	slices.SortStableFunc(perm, func(x, y int64) int { return key[x] - key[y] })
	b.transpose(perm)
	return nil
}

// number gives the dimensions of more than one element the numbers in ids, the others -1.
func number(dims, ids []int64) []int {
	out := make([]int, len(dims))
	for i, n := range dims {
		out[i] = -1
		if n != 1 {
			out[i], ids = int(ids[0]), ids[1:]
		}
	}
	return out
}

// restack reshapes the array to its thick dimensions. Behind them it puts as many of one element as a transpose to the
// final size has use for, none if a broadcast makes them.
func (b *builder) restack(sizes []int64, source []int, free int, expanded bool) []int {
	var out []int
	var dims []int64
	if !expanded {
		for range free {
			out, dims = append(out, -1), append(dims, 1)
		}
	}
	if source == nil {
		for i := range sizes {
			source = append(source, i)
		}
	}
	for _, s := range source {
		if s >= 0 {
			out, dims = append(out, s), append(dims, sizes[s])
		}
	}
	b.reshape(dims)
	return out
}

// places says which dimension of the result each dimension of the array becomes. If the thick ones are in order
// already, it looks for places that keep the others in order with them. It reports whether it found them.
func places(rank int, dims, source []int, inOrder bool) ([]int64, bool) {
	var free []int64
	for d := range rank {
		if !slices.Contains(dims, d) {
			free = append(free, int64(d))
		}
	}
	place := make([]int64, 0, len(source))
	last := int64(-1)
	for _, s := range source {
		if s >= 0 {
			if inOrder && int64(dims[s]) < last {
				return nil, false
			}
			last = int64(dims[s])
			place = append(place, last)
			continue
		}
		for inOrder && len(free) > 0 && free[0] < last {
			free = free[1:]
		}
		if len(free) == 0 {
			return nil, false
		}
		place = append(place, free[0])
		last, free = free[0], free[1:]
	}
	return place, true
}

// targets are the dimensions of the view that the thick dimensions of the array become.
func targets(dims, source []int) []int {
	var out []int
	for _, s := range source {
		if s >= 0 {
			out = append(out, dims[s])
		}
	}
	return out
}

func pick(list []int64, index []int) []int64 {
	out := make([]int64, len(index))
	for i, d := range index {
		out[i] = list[d]
	}
	return out
}

func upTo(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}
