package strided

// maxSpread bounds how many elements a skewed copy may have for each one that the view takes from it;
// a view that needs more is gathered.
const maxSpread = 8

// A cut is what one round of unravel does to one axis.
type cut struct {
	start, limit, stride int64  // the slice taken first
	high                 int64  // elements padded after it
	copies, shift        int64  // of a skew: see skewed
	next                 []axis // what becomes of it
}

// unravel does one round of work on axes that have runs which no reshape tells apart. It returns the axes that the
// array then has, in which fewer runs share one. It fails if only copies too large would do.
func (b *builder) unravel(axes []axis) ([]axis, bool) {
	cuts := make([]cut, len(axes))
	var next []axis
	for i, a := range axes {
		c, ok := a.cut()
		if !ok {
			return nil, false
		}
		cuts[i] = c
		next = append(next, c.next...)
	}
	n := len(axes)
	starts, limits, strides := make([]int64, n), make([]int64, n), make([]int64, n)
	high := make([]int64, n)
	for i, c := range cuts {
		starts[i], limits[i], strides[i], high[i] = c.start, c.limit, c.stride, c.high
	}
	b.reshape(lengths(axes))
	b.slice(starts, limits, strides)
	b.pad(make([]int64, n), high)
	b.skew(cuts)
	b.reshape(lengths(next))
	return next, true
}

// cut chooses the round's work on an axis. A solved axis is sliced, so that the copies of the others
// hold nothing that is not needed.
func (a axis) cut() (cut, bool) {
	if len(a.runs) < 2 {
		start, limit, stride := a.window()
		next := axis{len: 1}
		if len(a.runs) == 1 {
			r := a.runs[0]
			next = axis{len: r.n, runs: []run{{r.n, 1, r.id}}}
		}
		return cut{start: start, limit: limit, stride: stride, next: []axis{next}}, true
	}
	if k, unit := a.nested(); k > 0 {
		return a.windowed(k, unit), true
	}
	return a.skewed()
}

// nested finds the first k runs, whose spacings have a common divisor that the other runs stay within.
// It returns 0 if there is none.
func (a axis) nested() (k int, unit int64) {
	for i := 0; i+1 < len(a.runs); i++ {
		unit = gcd(a.runs[i].c, unit)
		if reach(a.runs[i+1:]) < unit {
			return i + 1, unit
		}
	}
	return 0, 0
}

// windowed cuts the axis from the view's first element on into rows of unit elements. The last of them is padded where
// the axis ends too soon. The first k runs choose rows, the others choose in a row.
func (a axis) windowed(k int, unit int64) cut {
	rows := reach(a.runs[:k])/unit + 1
	outer := axis{len: rows}
	for _, r := range a.runs[:k] {
		outer.runs = append(outer.runs, run{r.n, r.c / unit, r.id})
	}
	inner := axis{len: unit, runs: a.runs[k:]}
	limit := min(a.off+rows*unit, a.len)
	return cut{start: a.off, limit: limit, stride: 1, high: a.off + rows*unit - limit,
		next: refine([]axis{outer, inner})}
}

// skewed takes one run off an axis whose runs interleave or overlap, such as the windows of unfold. Cut the axis to
// the view's length L, and repeat it end to end. Element i·c + j of it is then element i·(L+c) + j: rows of L+c
// elements in which the run's step is gone.
func (a axis) skewed() (cut, bool) {
	length, best, wanted := a.span(), 0, int64(1)
	for i, r := range a.runs {
		wanted *= r.n
		if r.n < a.runs[best].n {
			best = i
		}
	}
	r := a.runs[best]
	row := length + r.c
	if float64(r.n)*float64(row) > maxSpread*float64(wanted) {
		return cut{}, false
	}
	rest := axis{len: row}
	for i, q := range a.runs {
		if i != best {
			rest.runs = append(rest.runs, q)
		}
	}
	taken := axis{len: r.n, runs: []run{{r.n, 1, r.id}}}
	return cut{start: a.off, limit: a.off + length, stride: 1,
		copies: (r.n*row + length - 1) / length, shift: r.c,
		next: append([]axis{taken}, refine([]axis{rest})...)}, true
}

// skew repeats the axes that a skew was chosen for and cuts them to whole rows.
func (b *builder) skew(cuts []cut) {
	var repeated, mapping, joined, rows []int64
	for i, c := range cuts {
		length := b.dims[i]
		if c.copies == 0 {
			mapping = append(mapping, int64(len(repeated)))
			repeated, joined, rows = append(repeated, length), append(joined, length), append(rows, length)
			continue
		}
		mapping = append(mapping, int64(len(repeated)+1))
		repeated = append(repeated, c.copies, length)
		joined = append(joined, c.copies*length)
		rows = append(rows, c.next[0].len*(length+c.shift))
	}
	if len(repeated) == len(cuts) {
		return
	}
	b.broadcast(repeated, mapping)
	b.reshape(joined)
	strides := make([]int64, len(rows))
	for i := range strides {
		strides[i] = 1
	}
	b.slice(make([]int64, len(rows)), rows, strides)
}
