package strided

import "slices"

// A run is n > 1 elements spaced c ≥ 1 apart. The dimensions of a view that matter for addresses
// become runs, sorted by falling spacing; id is the place in that order.
type run struct {
	n, c int64
	id   int
}

// An axis is one dimension of the base's reshaped form, the part of the view that lies along it
// starting at off. Always off + Σ (n-1)·c < len. An axis with at most one run is solved: it is a slice.
type axis struct {
	len, off int64
	runs     []run
}

func (a axis) span() int64 { return 1 + reach(a.runs) }

// reach is the distance from the first to the last element of the runs.
func reach(runs []run) int64 {
	var d int64
	for _, r := range runs {
		d += (r.n - 1) * r.c
	}
	return d
}

func solved(axes []axis) bool {
	return !slices.ContainsFunc(axes, func(a axis) bool { return len(a.runs) > 1 })
}

func lengths(axes []axis) []int64 {
	out := make([]int64, len(axes))
	for i, a := range axes {
		out[i] = a.len
	}
	return out
}

// thickDims are the dimensions of v that choose different elements (not of one element, not
// expanded) by falling stride.
func thickDims(v View) []int {
	var dims []int
	for d, n := range v.Size {
		if n > 1 && v.Stride[d] > 0 {
			dims = append(dims, d)
		}
	}
	slices.SortStableFunc(dims, func(a, b int) int { return order(v.Stride[b], v.Stride[a]) })
	return dims
}

// runsOf are the runs of the dimensions dims of v, those merged that together are one run.
func runsOf(v View, dims []int) []run {
	var runs []run
	for _, d := range dims {
		n, c := v.Size[d], v.Stride[d]
		if k := len(runs); k > 0 && runs[k-1].c == n*c {
			runs[k-1].n, runs[k-1].c = runs[k-1].n*n, c
			continue
		}
		runs = append(runs, run{n: n, c: c})
	}
	return runs
}

// axesOf lays the runs of a view over a reshaped base. They lie over the base's own dimensions as far as the view
// keeps to them, over parts of these where several runs share one. Some axes may come out unsolved.
func axesOf(base []int64, off int64, runs []run) []axis {
	bounds, pieces := keepBounds(base, off, runs)
	axes := refine(split(bounds, off, pieces))
	if !solved(axes) {
		if flat := refine(split([]int64{bounds[0], 1}, off, runs)); solved(flat) {
			axes = flat
		}
	}
	if slices.Equal(lengths(axes), thick(base)) {
		axes = withUnits(base, axes)
	}
	id := 0
	for i := range axes {
		for j := range axes[i].runs {
			axes[i].runs[j].id = id
			id++
		}
	}
	return axes
}

// withUnits puts the base's dimensions of one element back between the axes.
func withUnits(base []int64, axes []axis) []axis {
	out := make([]axis, 0, len(base))
	for _, n := range base {
		if n == 1 {
			out = append(out, axis{len: 1})
			continue
		}
		out = append(out, axes[0])
		axes = axes[1:]
	}
	return out
}

// keepBounds finds the boundaries between dimensions of the base that the view respects, and breaks the runs there. A
// boundary is the number of elements below it; they fall from the whole to 1.
func keepBounds(base []int64, off int64, runs []run) ([]int64, []run) {
	bound := product(base)
	bounds := []int64{bound}
	for _, n := range base {
		bound /= n
		if bound == bounds[len(bounds)-1] || bound == 1 {
			continue
		}
		if pieces, ok := breakAt(bound, off, runs); ok {
			bounds, runs = append(bounds, bound), pieces
		}
	}
	if bounds[len(bounds)-1] != 1 {
		bounds = append(bounds, 1)
	}
	return bounds, runs
}

// breakAt breaks the runs in those that step by multiples of bound and those that stay within bound elements. At most
// one run is broken in two for that. It fails where the view carries over.
func breakAt(bound, off int64, runs []run) ([]run, bool) {
	inner := slices.IndexFunc(runs, func(r run) bool { return r.c < bound })
	if inner < 0 {
		inner = len(runs)
	}
	for _, r := range runs[:inner] {
		if r.c%bound != 0 {
			return nil, false
		}
	}
	if off%bound+reach(runs[inner:]) < bound {
		return runs, true
	}
	// Only the widest run can go round whole turns; the rest has to fit between two of its elements.
	r := runs[inner]
	if turn := bound / r.c; bound%r.c != 0 || r.n%turn != 0 || off%bound+reach(runs[inner+1:]) >= r.c {
		return nil, false
	}
	out := append(slices.Clone(runs[:inner]), run{n: r.n / (bound / r.c), c: bound}, run{n: bound / r.c, c: r.c})
	return append(out, runs[inner+1:]...), true
}

// split makes the axes between boundaries; the runs keep to them.
func split(bounds []int64, off int64, runs []run) []axis {
	axes := make([]axis, 0, len(bounds)-1)
	for i := 0; i+1 < len(bounds); i++ {
		unit := bounds[i+1]
		a := axis{len: bounds[i] / unit, off: off % bounds[i] / unit}
		for len(runs) > 0 && runs[0].c >= unit {
			a.runs = append(a.runs, run{n: runs[0].n, c: runs[0].c / unit})
			runs = runs[1:]
		}
		axes = append(axes, a)
	}
	return axes
}

// refine splits the axes that have several runs where the dimensions of a reshape can tell them apart.
func refine(axes []axis) []axis {
	var out []axis
	for _, a := range axes {
		out = append(out, a.parts()...)
	}
	return out
}

// parts splits one axis. A unit between two runs has to divide the length and all wider spacings, and
// the narrower runs have to stay within it; the largest such divisor leaves them the most room.
func (a axis) parts() []axis {
	unit := a.len
	bounds := []int64{a.len}
	for i := 0; i+1 < len(a.runs); i++ {
		unit = gcd(unit, a.runs[i].c)
		if a.off%unit+reach(a.runs[i+1:]) < unit {
			bounds = append(bounds, unit)
		}
	}
	if len(bounds) == 1 {
		return []axis{a}
	}
	ids := make([]int, len(a.runs))
	for i, r := range a.runs {
		ids[i] = r.id
	}
	parts := split(append(bounds, 1), a.off, a.runs)
	for _, p := range parts {
		for i := range p.runs {
			p.runs[i].id, ids = ids[0], ids[1:]
		}
	}
	return parts
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
