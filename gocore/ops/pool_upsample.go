package ops

import (
	"fmt"
	"math"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// upsampler is a way of interpolation over the last n dimensions.
type upsampler struct {
	n       int
	corners bool // there is an align_corners argument
	taps    func(in, out int64, align bool, scale float64, wide bool) taps
}

// upsampleRows are the interpolations with their gradients. Each dimension is a sparse linear map, and
// the gradient is its transpose.
var upsampleRows = join(
	upsample("upsample_nearest1d", upsampler{1, false, nearestTaps(0)}),
	upsample("upsample_nearest2d", upsampler{2, false, nearestTaps(0)}),
	upsample("upsample_nearest3d", upsampler{3, false, nearestTaps(0)}),
	upsample("_upsample_nearest_exact1d", upsampler{1, false, nearestTaps(0.5)}),
	upsample("_upsample_nearest_exact2d", upsampler{2, false, nearestTaps(0.5)}),
	upsample("_upsample_nearest_exact3d", upsampler{3, false, nearestTaps(0.5)}),
	upsample("upsample_linear1d", upsampler{1, true, linearTaps}),
	upsample("upsample_bilinear2d", upsampler{2, true, linearTaps}),
	upsample("upsample_trilinear3d", upsampler{3, true, linearTaps}),
	upsample("upsample_bicubic2d", upsampler{2, true, cubicTaps}),
	upsample("_upsample_bilinear2d_aa", upsampler{2, true, filterTaps(1, triangle)}),
	upsample("_upsample_bicubic2d_aa", upsampler{2, true, filterTaps(2, cubic)}),
)

func upsample(name string, u upsampler) []Row {
	scales := [4]string{1: "float? scales=None", 2: "float? scales_h=None, float? scales_w=None", 3: "float? scales_d=None, float? scales_h=None, float? scales_w=None"}[u.n]
	corners := ""
	if u.corners {
		corners = "bool align_corners, "
	}
	return []Row{
		{Name: name, Schema: fmt.Sprintf("(Tensor self, SymInt[%d] output_size, %s%s) -> Tensor", u.n, corners, scales),
			Strides: Format, Infer: u.infer, Lower: u.lower},
		{Name: name + "_backward", Schema: fmt.Sprintf("(Tensor grad_output, SymInt[%d] output_size, SymInt[%d] input_size, %s%s) -> Tensor", u.n, u.n+2, corners, scales),
			Strides: Format, Infer: u.inferBackward, Lower: u.lowerBackward},
	}
}

// check checks sizes as torch's upsample_…_common_check does.
func (u upsampler) check(in, out []int64) error {
	if len(out) != u.n {
		return errs.New(errs.Runtime, "It is expected output_size equals to %d, but got size %d", u.n, len(out))
	}
	if len(in) != u.n+2 {
		return errs.New(errs.Runtime, "It is expected input_size equals to %d, but got size %d", u.n+2, len(in))
	}
	ok := true
	var ins, outs []string
	for i := range u.n {
		ok = ok && in[2+i] > 0 && out[i] > 0
	}
	if ok {
		return nil
	}
	for i := range u.n {
		axis := string("DHW"[3-u.n+i])
		ins = append(ins, fmt.Sprintf("%s: %d", axis, in[2+i]))
		outs = append(outs, fmt.Sprintf("%s: %d", axis, out[i]))
	}
	return errs.New(errs.Runtime, "Input and output sizes should be greater than 0, but got input (%s) output (%s)", strings.Join(ins, ", "), strings.Join(outs, ", "))
}

func (u upsampler) infer(c *Ctx) error {
	x, out := c.In(0), c.Ints(1)
	if err := u.check(x.Dims, out); err != nil {
		return err
	}
	if x.Dims[1] == 0 {
		return errs.New(errs.Runtime, "Non-empty %dD data tensor expected but got a tensor with sizes %s", u.n+2, dimsText(x.Dims))
	}
	if d := x.DType; !d.IsFloat() && d != dtype.U8 {
		return notFor(c.Row.Name, d)
	}
	var scratch [5]int64
	return c.Return(x.DType, append(append(scratch[:0], x.Dims[:2]...), out...)...)
}

func (u upsampler) inferBackward(c *Ctx) error {
	grad, out, in := c.In(0), c.Ints(1), c.Ints(2)
	if err := u.check(in, out); err != nil {
		return err
	}
	if grad.Rank() != u.n+2 {
		return errs.New(errs.Runtime, "Expected grad_output to be a tensor of dimension %d but got: dimension %d", u.n+2, grad.Rank())
	}
	for i, n := range grad.Dims {
		want := in[i]
		if i >= 2 {
			want = out[i-2]
		}
		if n != want {
			return errs.New(errs.Runtime, "Expected grad_output to have the same shape as output; output.size(%d) = %d but got grad_output.size(%d) = %d", i, want, i, n)
		}
	}
	return c.Return(grad.DType, in...)
}

// dim is the map of spatial dimension i, whose arguments end with align_corners (number at), if there
// is one, and the scales.
func (u upsampler) dim(a *ir.Args, i, at int, in, out int64, wide bool) taps {
	align := false
	if u.corners {
		align = a.Bool(at)
		at++
	}
	return u.taps(in, out, align, a.Float(at+i), wide)
}

func (u upsampler) lower(l *Lowering) {
	o, d := l.Out(0), l.Out(0).DType
	x := l.In(0)
	if u.corners && d == dtype.U8 {
		l.Return(u.lowerBytes(l, x))
		return
	}
	if u.corners {
		x = l.Convert(x, d.Accumulate())
	}
	for i := u.n - 1; i >= 0; i-- { // the last dimension first, as torch nests the sums
		x = l.resample(x, 2+i, u.dim(&l.Args, i, 2, x.Dim(2+i), o.Dims[2+i], d == dtype.F64))
	}
	l.Return(l.Convert(x, d))
}

// lowerBytes interpolates u8 as torch does: with weights of 16 bits, rounding to bytes after each
// dimension. The sums are integers below 2^24, which f32 holds exactly.
func (u upsampler) lowerBytes(l *Lowering, x value) value {
	b, o := l.B, l.Out(0)
	for i := u.n - 1; i >= 0; i-- {
		if x.Dim(2+i) == o.Dims[2+i] {
			continue
		}
		t, bits := u.dim(&l.Args, i, 2, x.Dim(2+i), o.Dims[2+i], true).quantize()
		sum := l.resample(l.Convert(x, dtype.F32), 2+i, t)
		sum = b.Add(b.Multiply(sum, b.ConstLike(sum, math.Ldexp(1, -bits))), b.ConstLike(sum, 0.5))
		top := b.Splat(shape.Make(dtype.F32), stablehlo.Float(255))
		x = b.Convert(b.Clamp(zero(b, dtype.F32), b.Floor(sum), top), dtype.U8)
	}
	return x
}

// quantize joins taps of one source and scales weights to integers of 16 bits: by 2 to the bits.
func (t taps) quantize() (q taps, bits int) {
	t = t.transpose().transpose()
	most := 0.0
	for _, row := range t.rows {
		for _, p := range row {
			most = max(most, p.weight)
		}
	}
	for bits < 22 && int64(0.5+math.Ldexp(most, bits+1)) < 1<<15 {
		bits++
	}
	for _, row := range t.rows {
		for j := range row {
			row[j].weight = math.Round(math.Ldexp(row[j].weight, bits))
		}
	}
	return t, bits
}

func (u upsampler) lowerBackward(l *Lowering) {
	o := l.Out(0)
	grad := l.As(0, o.DType.Accumulate())
	for i := range u.n {
		t := u.dim(&l.Args, i, 3, o.Dims[2+i], grad.Dim(2+i), o.DType == dtype.F64)
		grad = l.resample(grad, 2+i, t.transpose())
	}
	l.Return(l.Convert(grad, o.DType))
}

// real computes in the type in which torch computes source indices: f64 for f64 tensors, else f32.
type real struct{ wide bool }

func (r real) of(x float64) float64 {
	if r.wide {
		return x
	}
	return float64(float32(x))
}

// step is the distance of sources: torch's area_pixel_compute_scale. scale is zero if it is not given.
func (r real) step(in, out int64, align bool, scale float64) float64 {
	switch {
	case align && out > 1:
		return r.of(float64(in-1) / float64(out-1))
	case align:
		return 0
	case scale > 0:
		return r.of(1 / scale)
	}
	return r.of(float64(in) / float64(out))
}

// source is torch's area_pixel_compute_source_index for cubic interpolation; the others cut it off at
// zero.
func (r real) source(step float64, o int64, align bool) float64 {
	if align {
		return r.of(step * float64(o))
	}
	return r.of(r.of(step*r.of(float64(o)+0.5)) - 0.5)
}

// nearestTaps takes the source below the place of output o, which lies at o + shift. torch computes it
// in f32 for every type.
func nearestTaps(shift float64) func(in, out int64, align bool, scale float64, wide bool) taps {
	return func(in, out int64, _ bool, scale float64, _ bool) taps {
		r := real{}
		step := r.step(in, out, false, scale)
		t := taps{in: in, rows: make([][]tap, out)}
		for o := range t.rows {
			from := int64(math.Floor(r.of(r.of(float64(o)+shift) * step)))
			t.rows[o] = []tap{{min(from, in-1), 1}}
		}
		return t
	}
}

// guard splits a source place into an index and the way to the next one: torch's guard_index_and_lambda.
func (r real) guard(at float64, in int64) (from int64, rest float64) {
	from = min(int64(math.Floor(at)), in-1)
	return from, min(max(r.of(at-float64(from)), 0), 1)
}

func linearTaps(in, out int64, align bool, scale float64, wide bool) taps {
	r := real{wide}
	step := r.step(in, out, align, scale)
	t := taps{in: in, rows: make([][]tap, out)}
	for o := range t.rows {
		if in == out {
			t.rows[o] = []tap{{int64(o), 1}}
			continue
		}
		from, rest := r.guard(max(r.source(step, int64(o), align), 0), in)
		t.rows[o] = []tap{{from, r.of(1 - rest)}, {min(from+1, in-1), rest}}
	}
	return t
}

// cubicTaps is the convolution with a = -0.75; indices beyond the edges stay at them.
func cubicTaps(in, out int64, align bool, scale float64, wide bool) taps {
	const a = -0.75
	r := real{wide}
	step := r.step(in, out, align, scale)
	t := taps{in: in, rows: make([][]tap, out)}
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	for o := range t.rows {
		from, x := r.guard(r.source(step, int64(o), align), in)
		for j, w := range [4]float64{far(x + 1), near(x), near(1 - x), far(2 - x)} {
			i := max(min(from+int64(j)-1, in-1), 0)
			t.rows[o] = append(t.rows[o], tap{i, w})
		}
	}
	return t
}

// triangle is the filter of linear interpolation.
func triangle(x float64) float64 { return max(1-math.Abs(x), 0) }

// cubic is the filter of cubic interpolation with a = -0.5, as in torch's antialiased kernel.
func cubic(x float64) float64 {
	const a = -0.5
	switch x = math.Abs(x); {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return (((x-5)*x+8)*x - 4) * a
	}
	return 0
}

// filterTaps is interpolation with a filter that widens with the step: torch's
// _compute_indices_min_size_weights_aa. radius is that of the filter itself.
func filterTaps(radius float64, filter func(float64) float64) func(in, out int64, align bool, scale float64, wide bool) taps {
	return func(in, out int64, align bool, scale float64, wide bool) taps {
		r := real{wide}
		step := r.step(in, out, align, scale)
		stretch := max(step, 1)
		support := r.of(radius * stretch)
		t := taps{in: in, rows: make([][]tap, out)}
		for o := range t.rows {
			center := r.of(step * (float64(o) + 0.5))
			first := max(int64(r.of(center-support+0.5)), 0)
			end := min(int64(r.of(center+support+0.5)), in)
			total := 0.0
			var row []tap
			for i := first; i < end; i++ {
				w := filter((float64(i) - center + 0.5) / stretch)
				total += w
				row = append(row, tap{i, w})
			}
			for i := range row {
				if total != 0 {
					row[i].weight /= total
				}
			}
			t.rows[o] = row
		}
		return t
	}
}
