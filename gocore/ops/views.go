package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// viewRows are the steps of strided reads and writes (see package strided), in the order of the ir.Op
// constants from ir.OpReshape on. Package alias records them with shapes that it knows, so that Infer
// only repeats the arithmetic for graphs that come from text.
var viewRows = []Row{
	{Name: "xla::reshape", Schema: "(Tensor base, int[] dims) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.Ints(1)...) },
		Lower: func(l *Lowering) { l.Return(l.B.Reshape(l.In(0), l.Ints(1))) }},
	{Name: "xla::slice", Schema: "(Tensor base, int[] starts, int[] limits, int[] strides) -> Tensor", Internal: true,
		Infer: inferSlice,
		Lower: func(l *Lowering) { l.Return(l.B.Slice(l.In(0), l.Ints(1), l.Ints(2), l.Ints(3))) }},
	{Name: "xla::transpose", Schema: "(Tensor base, int[] permutation) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dims := make([]int64, len(s.Dims))
			for i, p := range c.Ints(1) {
				dims[i] = s.Dims[p]
			}
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) { l.Return(permuteApart(l.B, l.In(0), l.Ints(1))) }},
	{Name: "xla::broadcast", Schema: "(Tensor base, int[] dims, int[] mapping) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.Ints(1)...) },
		Lower: func(l *Lowering) { l.Return(l.B.BroadcastInDim(l.In(0), l.Ints(1), l.Ints(2))) }},
	{Name: "xla::pad", Schema: "(Tensor base, int[] low, int[] high) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			s, low, high := c.In(0), c.Ints(1), c.Ints(2)
			dims := make([]int64, len(s.Dims))
			for i, n := range s.Dims {
				dims[i] = n + low[i] + high[i]
			}
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			l.Return(l.B.Pad(x, zero(l.B, x.DType()), l.Ints(1), l.Ints(2), make([]int64, x.Rank())))
		}},
	{Name: "xla::gather", Schema: "(Tensor base, int[] size, int[] stride, int offset) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.Ints(1)...) },
		Lower: func(l *Lowering) { l.Return(takeFlat(l.B, l.In(0), flatIndex(l.B, l.Ints(1), l.Ints(2), l.Int(3)))) }},
	{Name: "xla::bitcast", Schema: "(Tensor base, ScalarType dtype, int[] dims) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.Type(1), c.Ints(2)...) },
		Lower: func(l *Lowering) { l.Return(l.B.Reshape(bitcast(l.B, l.In(0), l.Type(1)), l.Ints(2))) }},
	{Name: "xla::update", Schema: "(Tensor base, Tensor block, int[] starts) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: func(l *Lowering) {
			starts := make([]value, 0, 8)
			for _, s := range l.Ints(2) {
				starts = append(starts, l.B.Splat(shape.Make(dtype.I64), stablehlo.Int(s)))
			}
			l.Return(l.B.DynamicUpdateSlice(l.In(0), l.In(1), starts))
		}},
	{Name: "xla::update_strided", Schema: "(Tensor base, Tensor block, int[] starts, int[] strides) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: lowerUpdateStrided},
	{Name: "xla::scatter", Schema: "(Tensor base, Tensor value, int[] size, int[] stride, int offset) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: lowerScatterFlat},
	{Name: "xla::cast", Schema: "(Tensor self, ScalarType dtype) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0).With(c.Type(1))) },
		Lower: func(l *Lowering) { l.Return(l.As(0, l.Type(1))) }},
	{Name: "xla::zeros", Schema: "(ScalarType dtype, int[] dims) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.Type(0), c.Ints(1)...) },
		Lower: func(l *Lowering) { l.Return(l.B.Broadcast(zero(l.B, l.Type(0)), l.Ints(1))) }},
	{Name: "xla::dynamic_slice", Schema: "(Tensor base, Scalar[] starts, int[] sizes) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.Ints(2)...) },
		Lower: func(l *Lowering) { l.Return(l.B.DynamicSlice(l.In(0), l.starts(1), l.Ints(2))) }},
	{Name: "xla::dynamic_update", Schema: "(Tensor base, Tensor block, Scalar[] starts) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: func(l *Lowering) { l.Return(l.B.DynamicUpdateSlice(l.In(0), l.In(1), l.starts(2))) }},
}

// starts are the numbers of a Scalar[] argument as i64 values.
func (l *Lowering) starts(i int) []value {
	ids := l.IDs(i)
	v := make([]value, len(ids))
	for k, id := range ids {
		v[k] = l.value(id, dtype.I64)
	}
	return v
}

// permuteApart permutes dimensions; batches stay apart, see batches.
func permuteApart(b *stablehlo.Builder, x value, perm []int64) value {
	s, n := batches(b, x)
	if n == 1 || perm[0] != 0 {
		return b.Transpose(x, perm)
	}
	apart := make([]int64, s.Rank())
	dims := make([]int64, len(perm))
	for i := range apart {
		if apart[i] = int64(i); i >= n {
			apart[i] = perm[i-n+1] + int64(n) - 1
		}
	}
	for i, p := range perm {
		dims[i] = x.Dims()[p]
	}
	return b.Reshape(b.Transpose(s, apart), dims)
}

func inferSlice(c *Ctx) error {
	s, starts, limits, strides := c.In(0), c.Ints(1), c.Ints(2), c.Ints(3)
	if len(starts) != len(s.Dims) || len(limits) != len(starts) || len(strides) != len(starts) {
		return errs.New(errs.Runtime, "xla::slice: %d dimensions for %s", len(starts), s)
	}
	dims := make([]int64, len(s.Dims))
	for i := range dims {
		dims[i] = (limits[i] - starts[i] + strides[i] - 1) / strides[i]
	}
	return c.Return(s.DType, dims...)
}

// flatIndex is an i64 array of dimensions size whose element at i is offset + Σ i[d]·stride[d].
func flatIndex(b *stablehlo.Builder, size, stride []int64, offset int64) value {
	s := shape.Of(dtype.I64, size)
	sum := b.Splat(s, stablehlo.Int(offset))
	for d, st := range stride {
		if st != 0 && size[d] > 1 {
			sum = b.Add(sum, b.Multiply(b.Iota(s, int64(d)), b.Splat(s, stablehlo.Int(st))))
		}
	}
	return sum
}

// takeFlat is x.flatten()[index], index of any dimensions with values in range.
func takeFlat(b *stablehlo.Builder, x, index value) value {
	flat := b.Reshape(x, []int64{x.Shape().Numel()})
	n := index.Shape().Numel()
	rows := b.Reshape(index, []int64{n, 1})
	out := b.Gather(flat, rows, stablehlo.GatherDims{
		CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1},
	})
	return b.Reshape(out, index.Dims())
}

// lowerUpdateStrided writes the block to base[starts::strides], by a mask rather than a scatter: pads
// and selects fuse.
func lowerUpdateStrided(l *Lowering) {
	base, block, starts, strides := l.In(0), l.In(1), l.Ints(2), l.Ints(3)
	b := l.B
	high, inner := make([]int64, len(starts)), make([]int64, len(starts))
	for d, n := range block.Dims() {
		inner[d] = strides[d] - 1
		high[d] = base.Dims()[d] - starts[d] - max(n-1, 0)*strides[d] - min(n, 1)
	}
	padded := b.Pad(block, zero(b, block.DType()), starts, high, inner)
	yes := b.Splat(block.Shape().With(dtype.Bool), stablehlo.Bool(true))
	mask := b.Pad(yes, zero(b, dtype.Bool), starts, high, inner)
	l.Return(b.Select(mask, padded, base))
}

// lowerScatterFlat writes value[i] to the flat base at offset + Σ i[d]·stride[d]; of several writes to
// one place the last wins, as in torch's serial copy.
func lowerScatterFlat(l *Lowering) {
	base, v := l.In(0), l.In(1)
	b := l.B
	n := v.Shape().Numel()
	index := b.Reshape(flatIndex(b, l.Ints(2), l.Ints(3), l.Int(4)), []int64{n, 1})
	flat := b.Reshape(base, []int64{base.Shape().Numel()})
	out := b.Scatter([]value{flat}, index, []value{b.Reshape(v, []int64{n})}, stablehlo.ScatterDims{
		InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1,
	}, func(_ *stablehlo.Builder, _, update []value) []value { return update })
	l.Return(b.Reshape(out[0], base.Dims()))
}

// bitcast reads the bytes of x as elements of type d; the result is flat. A bool is a byte 0 or 1.
func bitcast(b *stablehlo.Builder, x value, d dtype.DType) value {
	if x.DType() == dtype.Bool {
		x = b.Convert(x, dtype.U8)
	}
	if x.DType().IsComplex() { // the real and imaginary parts alternate
		n := x.Shape().Numel()
		re, im := b.Reshape(b.Real(x), []int64{n, 1}), b.Reshape(b.Imag(x), []int64{n, 1})
		x = b.Concatenate(1, re, im)
	}
	x = b.Reshape(x, []int64{x.Shape().Numel()})
	to := d
	switch {
	case d == dtype.Bool:
		to = dtype.U8
	case d.IsComplex():
		to = d.ToReal()
	}
	x = recast(b, x, to)
	switch {
	case d == dtype.Bool:
		return b.Compare(x, b.ConstLike(x, 0), stablehlo.NE)
	case d.IsComplex():
		n := x.Dim(0) / 2
		pair := b.Reshape(x, []int64{n, 2})
		part := func(i int64) value {
			return b.Reshape(b.Slice(pair, []int64{0, i}, []int64{n, i + 1}, []int64{1, 1}), []int64{n})
		}
		return b.Complex(part(0), part(1))
	}
	return x
}

// recast is bitcast between real types on a flat array.
func recast(b *stablehlo.Builder, x value, to dtype.DType) value {
	have, want := int64(x.DType().Size()), int64(to.Size())
	n := x.Dim(0)
	switch {
	case have == want:
		return b.BitcastConvert(x, to)
	case have > want:
		k := have / want
		return b.Reshape(b.BitcastConvert(x, to), []int64{n * k})
	}
	k := want / have
	return b.BitcastConvert(b.Reshape(x, []int64{n / k, k}), to)
}
