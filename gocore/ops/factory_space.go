package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// spaceRows divide an interval evenly, or its exponents. Their ends may be tensors, which are not waited
// for.
var spaceRows = spaces()

func spaces() (rows []Row) {
	for _, ends := range []struct{ overload, types string }{
		{"", "Scalar start, Scalar end"},
		{".Tensor_Tensor", "Tensor start, Tensor end"},
		{".Tensor_Scalar", "Tensor start, Scalar end"},
		{".Scalar_Tensor", "Scalar start, Tensor end"},
	} {
		rows = append(rows,
			Row{Name: "linspace" + ends.overload, Schema: "(" + ends.types + ", int steps, " + options, Quiet: true, Flat: true,
				Infer: func(c *Ctx) error { return inferSpace(c, "linspace", 3) },
				Lower: func(l *Lowering) { l.Return(l.finish(0, l.space())) }},
			Row{Name: "logspace" + ends.overload, Schema: "(" + ends.types + ", int steps, float base=10., " + options, Quiet: true, Flat: true,
				Infer: func(c *Ctx) error { return inferSpace(c, "logspace", 4) },
				Lower: func(l *Lowering) {
					v := l.space()
					base := l.B.SplatLike(v, stablehlo.Float(l.Float(3)))
					l.Return(l.finish(0, l.B.Power(base, v)))
				}})
	}
	return rows
}

func inferSpace(c *Ctx, name string, typ int) error {
	start, end := c.In(0), c.In(1)
	if len(start.Dims) > 0 || len(end.Dims) > 0 {
		return endsError(c, name)
	}
	d := c.DefaultFloat
	if start.DType.IsComplex() || end.DType.IsComplex() {
		d = d.ToComplex()
		if t := c.Type(typ); t != dtype.Invalid && !t.IsComplex() {
			return errs.New(errs.Runtime, "torch.%s(): inferred dtype %s can't be safely cast to passed dtype %s", name, cppName(d), t.C10())
		}
	}
	d = c.typeOr(typ, d)
	switch {
	case c.Int(2) < 0:
		return errs.New(errs.Runtime, "number of steps must be non-negative")
	case d == dtype.Bool:
		return notFor(name+"_cpu", d)
	}
	return c.Return(d, c.Int(2))
}

// endsError is the error for ends that are tensors of more than one number; it names those that are tensors.
func endsError(c *Ctx, name string) error {
	text := ""
	for i, end := range []string{"start", "end"} {
		if c.Kind(i) != wire.KTensor {
			continue
		}
		if text != "" {
			text += " and "
		}
		text += end + " with " + itoa(int64(len(c.In(i).Dims))) + " dimension(s)"
	}
	return errs.New(errs.Runtime, "%s only supports 0-dimensional start and end tensors, but got %s.", name, text)
}

// space is the points between arguments 0 and 1. Integers are computed in f64, after the ends have become
// integers.
func (l *Lowering) space() value {
	d := l.Out(0).DType
	t := d.Accumulate()
	if t.IsIntegral() {
		t = dtype.F64
	}
	return line(l.B, l.Convert(l.As(0, d), t), l.Convert(l.As(1, d), t), l.Int(2), d.IsIntegral())
}

// line is evenly spaced points from start to end, counted from the nearer one so that both are exact. With exact the
// step is rounded once, as the points are cut to integers.
func line(b *stablehlo.Builder, start, end value, points int64, exact bool) value {
	d, dims := start.DType(), []int64{points}
	if points < 2 {
		return b.Broadcast(start, dims)
	}
	parts := b.Scalar(d, stablehlo.Float(float64(points-1)))
	if exact { // the compiler divides by a constant by multiplying with its inverse
		parts = b.OptimizationBarrier(parts)[0]
	}
	step := b.Divide(b.Subtract(end, start), parts)
	i := b.Arange(placeType(points), points)
	k := Convert(b, i, d)
	back := b.Subtract(b.SplatLike(k, stablehlo.Float(float64(points-1))), k)
	spread := func(v value) value { return b.Broadcast(v, dims) }
	up := b.Add(spread(start), b.Multiply(spread(step), k))
	down := b.Subtract(spread(end), b.Multiply(spread(step), back))
	return b.Select(b.Compare(i, b.SplatLike(i, stablehlo.Int(points/2)), stablehlo.LT), up, down)
}

// triangleIndexRows list the places of a triangle of a matrix.
var triangleIndexRows = []Row{triangleIndices("tril_indices", true), triangleIndices("triu_indices", false)}

func triangleIndices(name string, lower bool) Row {
	return Row{Name: name, Schema: "(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
		Infer: func(c *Ctx) error {
			rows, cols := c.Int(0), c.Int(1)
			switch {
			case rows < 0:
				return errs.New(errs.Runtime, "row must be non-negative, got%d", rows)
			case cols < 0:
				return errs.New(errs.Runtime, "col must be non-negative, got%d", cols)
			}
			d := c.typeOr(3, dtype.I64)
			if !d.IsInt() {
				return notFor(name, d)
			}
			n := trilSize(rows, cols, c.Int(2))
			if !lower {
				n = rows*cols - trilSize(rows, cols, c.Int(2)-1)
			}
			return c.Return(d, 2, n)
		},
		Lower: func(l *Lowering) { l.triangle(lower) }}
}

// trilSize is how many places (i, j) of a matrix have j − i ≤ offset.
func trilSize(rows, cols, offset int64) (n int64) {
	for i := max(0, -offset); i < rows; i++ {
		if i+offset+1 >= cols { // this row and all below are whole
			return n + (rows-i)*cols
		}
		n += i + offset + 1
	}
	return n
}

// triangle repeats each row's number as often as the triangle has places there, and counts those.
func (l *Lowering) triangle(lower bool) {
	b, o := l.B, l.Out(0)
	rows, cols, offset, n := l.Int(0), l.Int(1), l.Int(2), o.Dims[1]
	if n == 0 {
		l.Return(l.omitted(0))
		return
	}
	i := b.Arange(dtype.I64, rows)
	at := func(k int64) value { return b.SplatLike(i, stablehlo.Int(k)) }
	first, last := at(0), at(cols) // of each row's places; last is one behind
	if lower {
		last = b.Clamp(at(0), b.Add(i, at(offset+1)), last)
	} else {
		first = b.Clamp(first, b.Add(i, at(offset)), last)
	}
	counts := b.Subtract(last, first)
	before := b.Subtract(cumulative(b, []value{counts}, 0, stablehlo.CombineAdd)[0], counts)
	row := repeats(b, counts, n)
	column := b.Subtract(b.Arange(dtype.I64, n), takeRows(b, b.Subtract(before, first), row, 0))
	line := func(v value) value { return b.Reshape(b.Convert(v, o.DType), []int64{1, n}) }
	l.Return(b.Concatenate(0, line(row), line(column)))
}

// repeats is each number k as often as counts[k] says, n numbers in all: a one where each but the first
// begins, summed up.
func repeats(b *stablehlo.Builder, counts value, n int64) value {
	d := counts.DType()
	steps := b.Broadcast(zero(b, d), []int64{n})
	if m := counts.Dim(0); m > 1 && n > 0 {
		ends := cumulative(b, []value{counts}, 0, stablehlo.CombineAdd)[0]
		begins := b.SliceDim(ends, 0, 0, m-1, 1)
		steps = putRows(b, steps, begins, b.ConstLike(begins, 1), 0, stablehlo.CombineAdd)
		steps = cumulative(b, []value{steps}, 0, stablehlo.CombineAdd)[0]
	}
	return steps
}
