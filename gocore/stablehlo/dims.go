package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// BroadcastInDim gives x the dimensions dims: dimension i of x becomes dimension mapping[i], whose
// size it has unless it is 1. The mapping need not be ascending.
func (b *Builder) BroadcastInDim(x Value, dims, mapping []int64) Value {
	const op = "stablehlo.broadcast_in_dim"
	out := b.outShape(x, dims)
	if len(mapping) != x.Rank() {
		b.fail(op, fmt.Sprintf("mapping %v for rank %d", mapping, x.Rank()), x)
		return Value{s: out}
	}
	for i, m := range mapping {
		if m < 0 || m >= int64(len(dims)) || x.Dim(i) != 1 && x.Dim(i) != dims[m] || contains(mapping[:i], m) {
			b.fail(op, fmt.Sprintf("mapping %v does not broadcast to %v", mapping, dims), x)
			return Value{s: out}
		}
	}
	b.attrDims("broadcast_dimensions", mapping)
	return b.op1(op, out, x)
}

// Broadcast gives x the dimensions dims as numpy does: trailing dimensions are matched, those of
// size 1 are stretched. It is x itself if it has them.
func (b *Builder) Broadcast(x Value, dims []int64) Value {
	if equal(x.Dims(), dims) && x.s != nil {
		return x
	}
	k := len(dims) - x.Rank()
	if k < 0 {
		b.fail("stablehlo.broadcast_in_dim", fmt.Sprintf("cannot broadcast to fewer dimensions, %v", dims), x)
		return Value{s: b.outShape(x, dims)}
	}
	var buf [8]int64
	mapping := buf[:0]
	for i := 0; i < x.Rank(); i++ {
		mapping = append(mapping, int64(k+i))
	}
	return b.BroadcastInDim(x, dims, mapping)
}

// outShape is x's element type with dims, for results whose dimensions the caller states.
func (b *Builder) outShape(x Value, dims []int64) *shape.Shape {
	for _, d := range dims {
		if d < 0 {
			b.fail("stablehlo", fmt.Sprintf("negative dimension in %v", dims), x)
			return x.Shape()
		}
	}
	return shape.Of(x.DType(), dims)
}

// Reshape changes the dimensions, keeping the row-major order; x itself if it has them.
func (b *Builder) Reshape(x Value, dims []int64) Value {
	const op = "stablehlo.reshape"
	out := b.outShape(x, dims)
	if out == x.s {
		return x
	}
	if out.Numel() != x.Shape().Numel() {
		b.fail(op, fmt.Sprintf("%v has another number of elements", dims), x)
		return Value{s: out}
	}
	x = b.Unreshaped(x)
	if out == x.s {
		return x
	}
	v := b.op1(op, out, x)
	if len(b.scopes) == 1 {
		b.reshaped[v.id] = x
	}
	return v
}

// Unreshaped is the value of @main that Reshape has made x of, x itself if there is none.
func (b *Builder) Unreshaped(x Value) Value {
	if from, ok := b.reshaped[x.id]; ok && len(b.scopes) == 1 && x.scope == b.scope() {
		return from
	}
	return x
}

// Transpose permutes dimensions: dimension i of the result is dimension perm[i] of x. It is x itself
// for the identity.
func (b *Builder) Transpose(x Value, perm []int64) Value {
	const op = "stablehlo.transpose"
	if len(perm) != x.Rank() {
		return b.fail(op, fmt.Sprintf("permutation %v for rank %d", perm, x.Rank()), x)
	}
	var buf [8]int64
	dims := buf[:0]
	identity := true
	for i, p := range perm {
		if p < 0 || p >= int64(len(perm)) || contains(perm[:i], p) {
			return b.fail(op, fmt.Sprintf("%v is not a permutation", perm), x)
		}
		dims = append(dims, x.Dims()[p])
		identity = identity && p == int64(i)
	}
	if identity {
		return x
	}
	b.attrDims("permutation", perm)
	return b.op1(op, shape.Of(x.DType(), dims), x)
}

// Slice takes elements starts[i], starts[i]+strides[i], … below limits[i] of each dimension; nil
// strides are all 1.
func (b *Builder) Slice(x Value, starts, limits, strides []int64) Value {
	const op = "stablehlo.slice"
	r := x.Rank()
	if strides == nil {
		strides = filled(r, 1)
	}
	if len(starts) != r || len(limits) != r || len(strides) != r {
		return b.fail(op, fmt.Sprintf("bounds %v:%v:%v for rank %d", starts, limits, strides, r), x)
	}
	var buf [8]int64
	dims := buf[:0]
	for i, d := range x.Dims() {
		if starts[i] < 0 || starts[i] > limits[i] || limits[i] > d || strides[i] < 1 {
			return b.fail(op, fmt.Sprintf("bounds %v:%v:%v leave dimension %d", starts, limits, strides, i), x)
		}
		dims = append(dims, (limits[i]-starts[i]+strides[i]-1)/strides[i])
	}
	b.attrDims("start_indices", starts)
	b.attrDims("limit_indices", limits)
	b.attrDims("strides", strides)
	return b.op1(op, shape.Of(x.DType(), dims), x)
}

// SliceDim is Slice along one dimension, the others whole; x itself if nothing is cut off.
func (b *Builder) SliceDim(x Value, dim, start, limit, stride int64) Value {
	r := x.Rank()
	if dim < 0 || dim >= int64(r) {
		return b.fail("stablehlo.slice", fmt.Sprintf("no dimension %d", dim), x)
	}
	if start == 0 && limit == x.Dims()[dim] && stride == 1 {
		return x
	}
	starts, limits, strides := make([]int64, r), append([]int64(nil), x.Dims()...), filled(r, 1)
	starts[dim], limits[dim], strides[dim] = start, limit, stride
	return b.Slice(x, starts, limits, strides)
}

// DynamicSlice takes a block of the given sizes at starts, one integer of rank 0 per dimension, all
// of one type; starts are moved so that the block lies inside.
func (b *Builder) DynamicSlice(x Value, starts []Value, sizes []int64) Value {
	const op = "stablehlo.dynamic_slice"
	if len(sizes) != x.Rank() {
		return b.fail(op, fmt.Sprintf("sizes %v for rank %d", sizes, x.Rank()), x)
	}
	out := b.outShape(x, sizes)
	for i, d := range x.Dims() {
		if sizes[i] > d {
			b.fail(op, fmt.Sprintf("sizes %v do not fit", sizes), x)
			return Value{s: out}
		}
	}
	if !b.startIndices(op, x, starts) {
		return Value{s: out}
	}
	b.attrDims("slice_sizes", sizes)
	return b.emit(op, append([]Value{x}, starts...), nil, out)
}

func (b *Builder) startIndices(op string, x Value, starts []Value) bool {
	if len(starts) != x.Rank() {
		b.fail(op, fmt.Sprintf("%d start indices for rank %d", len(starts), x.Rank()), x)
		return false
	}
	for _, s := range starts {
		if s.Rank() != 0 || !s.DType().IsInt() || s.s != starts[0].s {
			b.fail(op, "start indices must be integers of rank 0 and one type", starts...)
			return false
		}
	}
	return true
}

// DynamicUpdateSlice replaces the block of x at starts by update; see DynamicSlice.
func (b *Builder) DynamicUpdateSlice(x, update Value, starts []Value) Value {
	const op = "stablehlo.dynamic_update_slice"
	if update.DType() != x.DType() || update.Rank() != x.Rank() {
		return b.fail(op, "the update does not fit", x, update)
	}
	for i, d := range x.Dims() {
		if update.Dims()[i] > d {
			return b.fail(op, "the update does not fit", x, update)
		}
	}
	if !b.startIndices(op, x, starts) {
		return Value{s: x.s}
	}
	return b.emit(op, append([]Value{x, update}, starts...), nil, x.s)
}

// Pad adds low and high elements around each dimension, or takes some away if negative, and interior ones between two
// elements. All have the value of rank 0. A nil list is all 0.
func (b *Builder) Pad(x, value Value, low, high, interior []int64) Value {
	const op = "stablehlo.pad"
	r := x.Rank()
	low, high, interior = orZero(low, r), orZero(high, r), orZero(interior, r)
	if len(low) != r || len(high) != r || len(interior) != r || value.Rank() != 0 || value.DType() != x.DType() {
		return b.fail(op, fmt.Sprintf("padding %v, %v, %v does not fit", low, high, interior), x, value)
	}
	var buf [8]int64
	dims := buf[:0]
	for i, d := range x.Dims() {
		n := d + low[i] + high[i] + max(d-1, 0)*interior[i]
		if interior[i] < 0 || n < 0 {
			return b.fail(op, fmt.Sprintf("padding %v, %v, %v leaves less than nothing", low, high, interior), x)
		}
		dims = append(dims, n)
	}
	b.attrDims("edge_padding_low", low)
	b.attrDims("edge_padding_high", high)
	b.attrDims("interior_padding", interior)
	return b.op1(op, shape.Of(x.DType(), dims), x, value)
}

// Concatenate joins values that agree in all other dimensions; a single one is returned as it is.
func (b *Builder) Concatenate(dim int64, xs ...Value) Value {
	const op = "stablehlo.concatenate"
	if len(xs) == 0 || dim < 0 || dim >= int64(xs[0].Rank()) {
		return b.fail(op, fmt.Sprintf("no dimension %d", dim), xs...)
	}
	if len(xs) == 1 {
		return xs[0]
	}
	dims := append([]int64(nil), xs[0].Dims()...)
	dims[dim] = 0
	for _, x := range xs {
		fits := x.DType() == xs[0].DType() && x.Rank() == len(dims)
		for i := 0; fits && i < len(dims); i++ {
			fits = int64(i) == dim || x.Dims()[i] == dims[i]
		}
		if !fits {
			return b.fail(op, fmt.Sprintf("operands do not fit along dimension %d", dim), xs...)
		}
		dims[dim] += x.Dims()[dim]
	}
	b.attrInt("dimension", dim)
	return b.emit(op, xs, nil, shape.Of(xs[0].DType(), dims))
}

// Reverse turns the order of these dimensions round; x itself if there are none.
func (b *Builder) Reverse(x Value, dims []int64) Value {
	const op = "stablehlo.reverse"
	if !b.dimsOf(op, x, dims) {
		return Value{s: x.s}
	}
	if len(dims) == 0 {
		return x
	}
	b.attrDims("dimensions", dims)
	return b.op1(op, x.s, x)
}

// dimsOf reports, or records as an error, whether dims are different dimensions of x.
func (b *Builder) dimsOf(op string, x Value, dims []int64) bool {
	for i, d := range dims {
		if d < 0 || d >= int64(x.Rank()) || contains(dims[:i], d) {
			b.fail(op, fmt.Sprintf("dimensions %v are not different ones of the operand", dims), x)
			return false
		}
	}
	return true
}

// Iota counts 0, 1, 2, … along dimension dim and is constant along the others.
func (b *Builder) Iota(s *shape.Shape, dim int64) Value {
	const op = "stablehlo.iota"
	if !valid(s) || dim < 0 || dim >= int64(s.Rank()) || kindOf(s.DType)&(kInt|kFC) == 0 {
		b.fail(op, fmt.Sprintf("no counting along dimension %d of %s", dim, s))
		return Value{s: s}
	}
	if b.found() && s.Rank() > 1 {
		return b.BroadcastInDim(b.Arange(s.DType, s.Dims[dim]), s.Dims, []int64{dim})
	}
	if n := s.Dims[dim]; n > 0 && n%wrap == 0 {
		return b.longIota(s, dim, n)
	}
	b.attrInt("iota_dimension", dim)
	return b.source(op, s)
}

// wrap is a size that XLA:CPU takes for 0 where it counts, and divides by.
const wrap = 1 << 32

// longIota counts in two dimensions, then makes one of them.
func (b *Builder) longIota(s *shape.Shape, dim, n int64) Value {
	const low = 1 << 16
	square := shape.Make(dtype.I64, n/low, low)
	i := b.Add(b.Multiply(b.Iota(square, 0), b.SplatLike(Value{s: square}, Int(low))), b.Iota(square, 1))
	return b.BroadcastInDim(b.Convert(b.Reshape(i, []int64{n}), s.DType), s.Dims, []int64{dim})
}

// Arange is Iota of rank 1: 0 … n-1.
func (b *Builder) Arange(d dtype.DType, n int64) Value { return b.Iota(shape.Make(d, n), 0) }

func contains(xs []int64, x int64) bool {
	for _, y := range xs {
		if x == y {
			return true
		}
	}
	return false
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func filled(n int, x int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = x
	}
	return out
}

func orZero(xs []int64, n int) []int64 {
	if xs == nil {
		return make([]int64, n)
	}
	return xs
}
