package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Combiner is the body of a reduction over one or several tensors. It makes the new accumulators from an accumulator
// (lhs) and an element (rhs) per tensor, all of rank 0. It should be associative.
type Combiner func(b *Builder, lhs, rhs []Value) []Value

// The usual combiners apply one operation to each pair of lhs and rhs.
var (
	CombineAdd Combiner = pairwise((*Builder).Add)
	CombineMul Combiner = pairwise((*Builder).Multiply)
	CombineMax Combiner = pairwise((*Builder).Maximum)
	CombineMin Combiner = pairwise((*Builder).Minimum)
	CombineAnd Combiner = pairwise((*Builder).And)
	CombineOr  Combiner = pairwise((*Builder).Or)
	CombineXor Combiner = pairwise((*Builder).Xor)
	// CombineReplace keeps rhs: the update of a Scatter that overwrites.
	CombineReplace Combiner = func(_ *Builder, _, rhs []Value) []Value { return rhs }
)

func pairwise(f func(b *Builder, x, y Value) Value) Combiner {
	return func(b *Builder, lhs, rhs []Value) []Value {
		out := make([]Value, len(lhs))
		for i := range lhs {
			out[i] = f(b, lhs[i], rhs[i])
		}
		return out
	}
}

// scalarsOf are the rank-0 types of xs, n times over.
func scalarsOf(xs []Value, n int) []*shape.Shape {
	out := make([]*shape.Shape, 0, n*len(xs))
	for range n {
		for _, x := range xs {
			out = append(out, shape.Of(x.DType(), nil))
		}
	}
	return out
}

// combiner writes a Combiner as a region and checks its results; ok is false after an error.
func (b *Builder) combiner(op string, xs []Value, body Combiner) (regions [][]byte, ok bool) {
	n := len(xs)
	types := scalarsOf(xs, 2)
	text, got := b.region(op, true, types, func(args []Value) []Value { return body(b, args[:n:n], args[n:]) })
	return [][]byte{text}, b.yields(op, got, types[:n])
}

// fits reports whether there is one rank-0 init of the right type for each of xs, and whether all xs have the same
// dimensions. If not, it records the error.
func (b *Builder) fits(op string, xs, inits []Value) bool {
	if len(xs) == 0 || len(xs) != len(inits) {
		b.fail(op, fmt.Sprintf("%d operands, %d initial values", len(xs), len(inits)), xs...)
		return false
	}
	for i, x := range xs {
		if !equal(x.Dims(), xs[0].Dims()) {
			b.fail(op, "operands differ in dimensions", xs...)
			return false
		}
		if inits[i].Rank() != 0 || inits[i].DType() != x.DType() {
			b.fail(op, "an initial value is not of rank 0 and its operand's type", append(xs[:len(xs):len(xs)], inits...)...)
			return false
		}
	}
	return b.checkAll(op, xs) && b.checkAll(op, inits)
}

// Reduce folds dimensions away, with one initial value of rank 0 per operand.
func (b *Builder) Reduce(xs, inits []Value, dims []int64, body Combiner) []Value {
	const op = "stablehlo.reduce"
	if !b.fits(op, xs, inits) || !b.dimsOf(op, xs[0], dims) {
		return b.reduced(xs, dims)
	}
	regions, ok := b.combiner(op, xs, body)
	if !ok {
		return b.reduced(xs, dims)
	}
	b.attrDims("dimensions", dims)
	return b.opN(op, append(xs[:len(xs):len(xs)], inits...), regions, shapesOf(b.reduced(xs, dims)))
}

// reduced are values shaped like the results of Reduce.
func (b *Builder) reduced(xs []Value, dims []int64) []Value {
	out := make([]Value, len(xs))
	for k, x := range xs {
		keep := make([]int64, 0, x.Rank())
		for i, d := range x.Dims() {
			if !contains(dims, int64(i)) {
				keep = append(keep, d)
			}
		}
		out[k].s = shape.Of(x.DType(), keep)
	}
	return out
}

func (b *Builder) reduce1(x, init Value, dims []int64, body Combiner) Value {
	return b.Reduce([]Value{x}, []Value{init}, dims, body)[0]
}

// ReduceSum adds up dimensions (nil: none), in x's own type. i1 counts as logical or.
func (b *Builder) ReduceSum(x Value, dims []int64) Value {
	return b.reduce1(x, b.Scalar(x.DType(), Int(0)), dims, CombineAdd)
}

// ReduceProd multiplies dimensions together.
func (b *Builder) ReduceProd(x Value, dims []int64) Value {
	return b.reduce1(x, b.Scalar(x.DType(), Int(1)), dims, CombineMul)
}

// ReduceMax takes the largest element, NaN if there is one; of nothing it is MinValue.
func (b *Builder) ReduceMax(x Value, dims []int64) Value {
	return b.reduce1(x, b.MinValue(x.DType()), dims, CombineMax)
}

// ReduceMin takes the smallest element, NaN if there is one; of nothing it is MaxValue.
func (b *Builder) ReduceMin(x Value, dims []int64) Value {
	return b.reduce1(x, b.MaxValue(x.DType()), dims, CombineMin)
}

// ReduceAnd is true where all elements of i1 are; bitwise for integers.
func (b *Builder) ReduceAnd(x Value, dims []int64) Value {
	ones := Int(-1)
	if x.DType() == dtype.Bool {
		ones = Bool(true)
	}
	return b.reduce1(x, b.Scalar(x.DType(), ones), dims, CombineAnd)
}

// ReduceOr is true where any element of i1 is; bitwise for integers.
func (b *Builder) ReduceOr(x Value, dims []int64) Value {
	return b.reduce1(x, b.Scalar(x.DType(), Int(0)), dims, CombineOr)
}

// Window describes a window that slides over all dimensions of an operand. Nil lists stand for
// strides and dilations of 1 and padding of 0.
type Window struct {
	Dims         []int64    // size in each dimension
	Strides      []int64    // step in each dimension
	BaseDilation []int64    // distance of the operand's elements
	Dilation     []int64    // distance of the window's elements
	Padding      [][2]int64 // added before and after each dimension, with the initial value
}

// output is what sliding the window over dims gives; ok is false if a list does not fit.
func (w *Window) output(dims []int64) (out []int64, ok bool) {
	r := len(dims)
	w.fill(r)
	if len(w.Dims) != r || len(w.Strides) != r || len(w.BaseDilation) != r || len(w.Dilation) != r || len(w.Padding) != r {
		return nil, false
	}
	out = make([]int64, r)
	for i, d := range dims {
		if w.Dims[i] < 1 || w.Strides[i] < 1 || w.BaseDilation[i] < 1 || w.Dilation[i] < 1 {
			return nil, false
		}
		out[i] = windowed(d, w.Dims[i], w.Strides[i], w.BaseDilation[i], w.Dilation[i], w.Padding[i])
	}
	return out, true
}

func (w *Window) fill(r int) {
	if w.Strides == nil {
		w.Strides = filled(r, 1)
	}
	if w.BaseDilation == nil {
		w.BaseDilation = filled(r, 1)
	}
	if w.Dilation == nil {
		w.Dilation = filled(r, 1)
	}
	if w.Padding == nil {
		w.Padding = make([][2]int64, r)
	}
}

// windowed is the number of places of a window along one dimension.
func windowed(size, window, stride, base, dilation int64, pad [2]int64) int64 {
	if size > 0 {
		size = (size-1)*base + 1
	}
	size += pad[0] + pad[1]
	window = (window-1)*dilation + 1
	if size <= 0 || window > size {
		return 0
	}
	return (size-window)/stride + 1
}

func (b *Builder) attrPadding(pads [][2]int64) {
	rows := make([][]int64, len(pads))
	for i := range pads {
		rows[i] = pads[i][:]
	}
	b.attrMatrix("padding", rows, 2)
}

// ReduceWindow folds the elements under each place of the window.
func (b *Builder) ReduceWindow(xs, inits []Value, w Window, body Combiner) []Value {
	const op = "stablehlo.reduce_window"
	results := shapesOf(xs)
	for i, x := range xs {
		dims, ok := w.output(x.Dims())
		if !ok {
			return b.failAll(op, fmt.Sprintf("the window %+v does not fit", w), xs)
		}
		results[i] = shape.Of(x.DType(), dims)
	}
	if !b.fits(op, xs, inits) {
		return b.opN(op, nil, nil, results)
	}
	regions, ok := b.combiner(op, xs, body)
	if !ok {
		return b.opN(op, nil, nil, results)
	}
	b.attrDims("window_dimensions", w.Dims)
	b.attrDims("window_strides", w.Strides)
	b.attrDims("base_dilations", w.BaseDilation)
	b.attrDims("window_dilations", w.Dilation)
	b.attrPadding(w.Padding)
	return b.opN(op, append(xs[:len(xs):len(xs)], inits...), regions, results)
}

// SelectAndScatter finds in each place of the window the element that pick prefers over the others, and there adds up
// source with combine. pick gets two elements and says whether to keep the first. All other elements are init. It is
// the gradient of max pooling. The window has no dilation.
func (b *Builder) SelectAndScatter(x, source, init Value, w Window, pick func(b *Builder, x, y Value) Value, combine Combiner) Value {
	const op = "stablehlo.select_and_scatter"
	dims, ok := w.output(x.Dims())
	if !ok || !equal(dims, source.Dims()) || source.DType() != x.DType() {
		return b.fail(op, fmt.Sprintf("the window %+v does not fit", w), x, source)
	}
	if !b.fits(op, []Value{x}, []Value{init}) || !b.checkAll(op, []Value{source}) {
		return Value{s: x.s}
	}
	el := shape.Of(x.DType(), nil)
	sel, got := b.region(op, true, []*shape.Shape{el, el}, func(a []Value) []Value { return []Value{pick(b, a[0], a[1])} })
	if !b.yields(op, got, []*shape.Shape{shape.Of(dtype.Bool, nil)}) {
		return Value{s: x.s}
	}
	regions, ok := b.combiner(op, []Value{x}, combine)
	if !ok {
		return Value{s: x.s}
	}
	b.attrDims("window_dimensions", w.Dims)
	b.attrDims("window_strides", w.Strides)
	b.attrPadding(w.Padding)
	return b.emit(op, []Value{x, source, init}, append([][]byte{sel}, regions...), x.s)
}

// Map applies body to the elements of xs, which have one shape; body gets and returns rank 0.
func (b *Builder) Map(xs []Value, body func(b *Builder, args []Value) Value) Value {
	const op = "stablehlo.map"
	if len(xs) == 0 {
		return b.fail(op, "no operands")
	}
	dims := make([]int64, xs[0].Rank())
	for i := range dims {
		dims[i] = int64(i)
	}
	for _, x := range xs {
		if !equal(x.Dims(), xs[0].Dims()) {
			return b.fail(op, "operands differ in dimensions", xs...)
		}
	}
	b.checkAll(op, xs)
	text, got := b.region(op, true, scalarsOf(xs, 1), func(a []Value) []Value { return []Value{body(b, a)} })
	if b.err == nil && got[0].Rank() != 0 {
		return b.fail(op, "the body does not return rank 0", got...)
	}
	b.attrDims("dimensions", dims)
	return b.emit(op, xs, [][]byte{text}, shape.Of(got[0].DType(), xs[0].Dims()))
}

// Sort orders dimension dim of all xs together. less gets the two elements to compare of each of xs
// and returns an i1 of rank 0. With stable, equal elements keep their order.
func (b *Builder) Sort(dim int64, stable bool, xs []Value, less func(b *Builder, lhs, rhs []Value) Value) []Value {
	const op = "stablehlo.sort"
	if len(xs) == 0 || dim < 0 || dim >= int64(xs[0].Rank()) {
		return b.failAll(op, fmt.Sprintf("no dimension %d", dim), xs)
	}
	types := make([]*shape.Shape, 0, 2*len(xs))
	for _, x := range xs {
		if !equal(x.Dims(), xs[0].Dims()) {
			return b.failAll(op, "operands differ in dimensions", xs)
		}
		el := shape.Of(x.DType(), nil)
		types = append(types, el, el)
	}
	if !b.checkAll(op, xs) {
		return b.failAll(op, "", xs)
	}
	text, got := b.region(op, true, types, func(args []Value) []Value {
		lhs, rhs := make([]Value, len(xs)), make([]Value, len(xs))
		for i := range xs {
			lhs[i], rhs[i] = args[2*i], args[2*i+1]
		}
		return []Value{less(b, lhs, rhs)}
	})
	if !b.yields(op, got, []*shape.Shape{shape.Of(dtype.Bool, nil)}) {
		return b.failAll(op, "", xs)
	}
	b.attrInt("dimension", dim)
	b.attrBool("is_stable", stable)
	return b.opN(op, xs, [][]byte{text}, shapesOf(xs))
}
