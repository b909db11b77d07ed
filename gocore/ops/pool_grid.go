package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// gridRows sample an image at places given by a tensor. grid_sampler_…_backward's results are masked by
// output_mask: a gradient that is not asked for has no elements, and the registration replaces it by
// None.
var gridRows = []Row{
	{Name: "grid_sampler_2d", Schema: "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", Torch: &Kernel{When: func(l *Lowering) bool { return l.Out(0).Numel() >= 1<<17 }},
		Infer: func(c *Ctx) error { return inferGrid(c, 2) }, Lower: func(l *Lowering) { lowerGrid(l, 2) }},
	{Name: "grid_sampler_3d", Schema: "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
		Infer: func(c *Ctx) error { return inferGrid(c, 3) }, Lower: func(l *Lowering) { lowerGrid(l, 3) }},
	{Name: "grid_sampler_2d_backward", Schema: "(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error { return inferGridBackward(c, 2) }, Lower: func(l *Lowering) { lowerGridBackward(l, 2) }},
	{Name: "grid_sampler_3d_backward", Schema: "(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
		Infer: func(c *Ctx) error { return inferGridBackward(c, 3) }, Lower: func(l *Lowering) { lowerGridBackward(l, 3) }},
}

// The numbers of torch's GridSamplerInterpolation and GridSamplerPadding.
const (
	gridLinear, gridNearest, gridCubic   = 0, 1, 2
	gridZeros, gridBorder, gridReflected = 0, 1, 2
)

func checkGrid(x, grid *shape.Shape, n int) error {
	switch {
	case x.Rank() == 0 || grid.Rank() == 0 || x.Dims[0] != grid.Dims[0]:
		return errs.New(errs.Runtime, "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid with sizes %s", dimsText(x.Dims), dimsText(grid.Dims))
	case x.Rank() != n+2 || grid.Rank() != n+2:
		return errs.New(errs.Runtime, "grid_sampler(): expected %dD input and grid with same number of dimensions, but got input with sizes %s and grid with sizes %s", n+2, dimsText(x.Dims), dimsText(grid.Dims))
	case grid.Dims[n+1] != int64(n):
		return errs.New(errs.Runtime, "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", n, dimsText(grid.Dims))
	case x.DType != grid.DType:
		return errs.New(errs.Runtime, "expected scalar type %s but found %s", x.DType.C10(), grid.DType.C10())
	}
	for i := 2; i < x.Rank(); i++ {
		if x.Dims[i] == 0 {
			return errs.New(errs.Runtime, "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with dimension %d being empty", dimsText(x.Dims), i)
		}
	}
	if !x.DType.IsFloat() {
		return notFor("grid_sampler_cpu", x.DType)
	}
	return nil
}

func inferGrid(c *Ctx, n int) error {
	x, grid := c.In(0), c.In(1)
	if err := checkGrid(x, grid, n); err != nil {
		return err
	}
	var scratch [5]int64
	return c.Return(x.DType, append(append(scratch[:0], x.Dims[:2]...), grid.Dims[1:n+1]...)...)
}

func inferGridBackward(c *Ctx, n int) error {
	x, grid, mask := c.In(1), c.In(2), c.Ints(6)
	if err := checkGrid(x, grid, n); err != nil {
		return err
	}
	for i, s := range [2]*shape.Shape{x, grid} {
		if mask[i] != 0 {
			_ = c.ReturnLike(s)
		} else {
			_ = c.Return(s.DType, 0)
		}
	}
	return nil
}

// gridAxis is one spatial dimension of the sampled places. For each of a few neighbours it has the index, the weight
// and the weight's derivative by the grid's coordinate. An index is a float, perhaps outside of the image. All values
// are [batch, places].
type gridAxis struct {
	size                 int64
	index, weight, slope []value
}

// neighbours finds the neighbours of coordinates at, which run from -1 to 1 across size elements.
func (l *Lowering) neighbours(at value, size, mode, padding int64, align bool) gridAxis {
	b := l.B
	num := func(x float64) value { return b.ConstLike(at, x) }
	a := gridAxis{size: size}
	half, x := float64(size)/2, value{}
	if align {
		half = float64(size-1) / 2
		x = b.Multiply(b.Add(at, num(1)), num(half))
	} else {
		x = b.Multiply(b.Subtract(b.Multiply(b.Add(at, num(1)), num(float64(size))), num(1)), num(0.5))
	}
	slope := num(half)
	if mode == gridCubic {
		low := b.Floor(x)
		t := b.Subtract(x, low)
		a.weight, a.slope = cubicWeights(b, t)
		for j := range 4 {
			i, _ := l.gridPad(b.Add(low, num(float64(j-1))), size, padding, align)
			a.index = append(a.index, i)
			a.slope[j] = b.Multiply(a.slope[j], slope)
		}
		return a
	}
	x, sign := l.gridPad(x, size, padding, align)
	if mode == gridNearest {
		a.index, a.weight, a.slope = []value{b.RoundNearestEven(x)}, []value{num(1)}, []value{num(0)}
		return a
	}
	slope = b.Multiply(slope, sign)
	low := b.Floor(x)
	next := b.Add(low, num(1))
	a.index = []value{low, next}
	a.weight = []value{b.Subtract(next, x), b.Subtract(x, low)}
	a.slope = []value{b.Negate(slope), slope}
	return a
}

// gridPad moves coordinates into the image as the padding mode says, and gives the derivative of that.
func (l *Lowering) gridPad(x value, size, padding int64, align bool) (in, slope value) {
	b := l.B
	num := func(v float64) value { return b.ConstLike(x, v) }
	slope = num(1)
	if padding == gridZeros {
		return x, slope
	}
	if padding == gridReflected {
		low, span := -0.5, float64(size)
		if align {
			low, span = 0, float64(size-1)
		}
		if span == 0 {
			return num(0), num(0)
		}
		x = b.Subtract(x, num(low))
		slope = b.Select(b.Compare(x, num(0), stablehlo.LT), num(-1), slope)
		x = b.Abs(x)
		extra := b.Remainder(x, num(span))
		flips := b.Floor(b.Divide(x, num(span)))
		even := b.Compare(b.Remainder(flips, num(2)), num(0), stablehlo.EQ)
		x = b.Add(b.Select(even, extra, b.Subtract(num(span), extra)), num(low))
		slope = b.Select(even, slope, b.Negate(slope))
	}
	top := float64(size - 1)
	outside := b.Or(b.Compare(x, num(0), stablehlo.LE), b.Compare(x, num(top), stablehlo.GE))
	return b.Clamp(num(0), x, num(top)), b.Select(outside, num(0), slope)
}

// cubicWeights are the weights of the neighbours -1, 0, 1 and 2 for a place t after neighbour 0, with
// their derivatives by t; a = -0.75.
func cubicWeights(b *stablehlo.Builder, t value) (weight, slope []value) {
	const a = -0.75
	poly := func(x value, c ...float64) value { // Horner, the highest power first
		p := b.ConstLike(x, c[0])
		for _, k := range c[1:] {
			p = b.Add(b.Multiply(p, x), b.ConstLike(x, k))
		}
		return p
	}
	unit := b.ConstLike(t, 1)
	before, after := b.Add(t, unit), b.Subtract(unit, t)
	beyond := b.Add(after, unit)
	far, near := []float64{a, -5 * a, 8 * a, -4 * a}, []float64{a + 2, -(a + 3), 0, 1}
	dfar, dnear := []float64{3 * a, -10 * a, 8 * a}, []float64{3 * (a + 2), -2 * (a + 3), 0}
	weight = []value{poly(before, far...), poly(t, near...), poly(after, near...), poly(beyond, far...)}
	slope = []value{poly(before, dfar...), poly(t, dnear...), b.Negate(poly(after, dnear...)), b.Negate(poly(beyond, dfar...))}
	return weight, slope
}

// gridCorner is one neighbour of every place. It has its flat index in the plane, clamped, whether it lies inside, and
// which neighbour it is on each axis.
type gridCorner struct {
	index, inside value
	pick          [3]int
}

// corners are the neighbours on all axes.
func (l *Lowering) corners(axes []gridAxis) (all []gridCorner) {
	b := l.B
	all = []gridCorner{{}}
	for d, a := range axes {
		var next []gridCorner
		for _, c := range all {
			for k, x := range a.index {
				top := b.ConstLike(x, float64(a.size-1))
				inside := b.And(b.Compare(x, b.ConstLike(x, 0), stablehlo.GE), b.Compare(x, top, stablehlo.LE))
				i := b.Convert(b.Clamp(b.ConstLike(x, 0), x, top), dtype.I32)
				n := gridCorner{index: i, inside: inside, pick: c.pick}
				if d > 0 {
					n.index = b.Add(b.Multiply(c.index, b.ConstLike(i, float64(a.size))), i)
					n.inside = b.And(c.inside, inside)
				}
				n.pick[d] = k
				next = append(next, n)
			}
		}
		all = next
	}
	return all
}

// weightOf is the corner's weight, or its derivative along one axis (none for -1); zero outside.
func (l *Lowering) weightOf(axes []gridAxis, c gridCorner, along int) value {
	var w value
	for d, a := range axes {
		f := a.weight[c.pick[d]]
		if d == along {
			f = a.slope[c.pick[d]]
		}
		if d == 0 {
			w = f
		} else {
			w = l.B.Multiply(w, f)
		}
	}
	return l.B.Select(c.inside, w, l.B.ConstLike(w, 0))
}

// gridAxes reads grid (argument at) and the modes after it; x has the image's dimensions.
func (l *Lowering) gridAxes(at, n int, x []int64, d dtype.DType) []gridAxis {
	b := l.B
	grid := l.As(at, d)
	places := grid.Shape().Numel() / max(x[0]*int64(n), 1)
	grid = b.Reshape(grid, []int64{x[0], places, int64(n)})
	axes := make([]gridAxis, n)
	for i := range n { // the grid's coordinates are x, y, z; the axes are z, y, x
		k := int64(n - 1 - i)
		c := b.Reshape(b.SliceDim(grid, 2, k, k+1, 1), []int64{x[0], places})
		axes[i] = l.neighbours(c, x[2+i], l.Int(at+1), l.Int(at+2), l.Bool(at+3))
	}
	return axes
}

// flatPlanes is x [batch, channels, …] as [batch, channels, plane].
func flatPlanes(b *stablehlo.Builder, x value) value {
	plane := int64(1)
	for _, k := range x.Dims()[2:] {
		plane *= k
	}
	return b.Reshape(x, []int64{x.Dim(0), x.Dim(1), plane})
}

// gatherPlane is x[batch, channel, index[batch, place]].
func gatherPlane(b *stablehlo.Builder, x, index value) value {
	index = b.Reshape(index, []int64{index.Dim(0), index.Dim(1), 1})
	return b.Gather(x, index, stablehlo.GatherDims{
		OffsetDims: []int64{1}, CollapsedSliceDims: []int64{2}, OperandBatchingDims: []int64{0}, StartIndicesBatchingDims: []int64{0},
		StartIndexMap: []int64{2}, IndexVectorDim: 2, SliceSizes: []int64{1, x.Dim(1), 1},
	})
}

// overChannels gives w [batch, places] the dimensions of x [batch, channels, places].
func overChannels(b *stablehlo.Builder, w, x value) value {
	return b.BroadcastInDim(w, x.Dims(), []int64{0, 2})
}

func lowerGrid(l *Lowering, n int) {
	b, o := l.B, l.Out(0)
	if o.Numel() == 0 {
		l.Return(b.Broadcast(zero(b, o.DType), o.Dims))
		return
	}
	d := o.DType.Accumulate()
	x := l.As(0, d)
	axes := l.gridAxes(1, n, x.Dims(), d)
	x = flatPlanes(b, x)
	var sum value
	for _, c := range l.corners(axes) {
		v := gatherPlane(b, x, c.index)
		inside := overChannels(b, c.inside, v)
		v = b.Select(inside, b.Multiply(v, overChannels(b, l.weightOf(axes, c, -1), v)), b.ConstLike(v, 0))
		if sum.IsZero() {
			sum = v
		} else {
			sum = b.Add(sum, v)
		}
	}
	l.Return(l.Convert(b.Reshape(sum, o.Dims), o.DType))
}

func lowerGridBackward(l *Lowering, n int) {
	b, mask := l.B, l.Ints(6)
	o := l.Out(0)
	d := o.DType.Accumulate()
	x := l.As(1, d)
	none := b.Broadcast(zero(b, o.DType), []int64{0})
	if x.Shape().Numel() == 0 || l.Shape(2).Numel() == 0 {
		l.Return(b.Broadcast(zero(b, o.DType), o.Dims), b.Broadcast(zero(b, o.DType), l.Out(1).Dims))
		return
	}
	axes := l.gridAxes(2, n, x.Dims(), d)
	corners := l.corners(axes)
	grad := flatPlanes(b, l.As(0, d))
	if mask[0] != 0 {
		var index, updates []value
		for _, c := range corners {
			index = append(index, c.index)
			updates = append(updates, b.Multiply(grad, overChannels(b, l.weightOf(axes, c, -1), grad)))
		}
		sum := scatterPlane(b, flatPlanes(b, b.ConstLike(x, 0)), b.Concatenate(1, index...), b.Concatenate(2, updates...))
		l.Return(l.Convert(b.Reshape(sum, o.Dims), o.DType))
	} else {
		l.Return(none)
	}
	if mask[1] == 0 {
		l.Return(none)
		return
	}
	l.Return(l.gridGradient(flatPlanes(b, x), grad, axes, corners, l.Out(1)))
}

// gridGradient is the gradient by the grid's coordinates.
func (l *Lowering) gridGradient(x, grad value, axes []gridAxis, corners []gridCorner, o *shape.Shape) value {
	b := l.B
	sums := make([]value, len(axes))
	for _, c := range corners {
		v := gatherPlane(b, x, c.index)
		v = b.Select(overChannels(b, c.inside, v), b.Multiply(v, grad), b.ConstLike(v, 0))
		v = b.ReduceSum(v, []int64{1})
		for i := range axes {
			term := b.Multiply(v, l.weightOf(axes, c, i))
			if sums[i].IsZero() {
				sums[i] = term
			} else {
				sums[i] = b.Add(sums[i], term)
			}
		}
	}
	var parts []value
	for i := len(axes) - 1; i >= 0; i-- {
		parts = append(parts, b.Reshape(sums[i], []int64{sums[i].Dim(0), sums[i].Dim(1), 1}))
	}
	return l.Convert(b.Reshape(b.Concatenate(2, parts...), o.Dims), o.DType)
}

// scatterPlane adds updates [batch, channels, places] to base at index [batch, places].
func scatterPlane(b *stablehlo.Builder, base, index, updates value) value {
	index = b.Reshape(index, []int64{index.Dim(0), index.Dim(1), 1})
	return b.Scatter([]value{base}, index, []value{updates}, stablehlo.ScatterDims{
		UpdateWindowDims: []int64{1}, InsertedWindowDims: []int64{2}, InputBatchingDims: []int64{0},
		ScatterIndicesBatchingDims: []int64{0}, ScatterDimsToOperandDims: []int64{2}, IndexVectorDim: 2,
	}, stablehlo.CombineAdd)[0]
}
