package ops

import (
	"math"
	"math/bits"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// maskedRows write where a mask is true, and list the places where a tensor is not zero.
var maskedRows = []Row{
	{Name: "masked_fill.Scalar", Schema: "(Tensor self, Tensor mask, Scalar value) -> Tensor", Expanded: true, Infer: inferMaskedFill, Lower: lowerMaskedFill},
	{Name: "masked_fill.Tensor", Schema: "(Tensor self, Tensor mask, Tensor value) -> Tensor", Expanded: true, Infer: inferMaskedFill, Lower: lowerMaskedFill},
	{Name: "masked_scatter", Schema: "(Tensor self, Tensor mask, Tensor source) -> Tensor", Infer: inferMaskedScatter, Lower: lowerMaskedScatter},
	{Name: "masked_scatter_backward", Unsafe: true, Schema: "(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
		Infer: func(c *Ctx) error {
			if !slices.Equal(c.In(0).Dims, c.In(1).Dims) && !expandable(c.In(1).Dims, c.In(0).Dims) {
				_, err := c.Broadcast(0, 1)
				return err
			}
			return c.Return(c.In(0).DType, c.Ints(2)...)
		},
		Lower: lowerMaskedScatterBackward},
	{Name: "nonzero_static", Schema: "(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
		Infer: func(c *Ctx) error {
			if c.Int(1) < 0 {
				return errs.New(errs.Runtime, "nonzero_static: 'size' must be an non-negative integer")
			}
			return c.Return(dtype.I64, c.Int(1), int64(len(c.In(0).Dims)))
		},
		Lower: lowerNonzeroStatic},
}

// fits refuses a number as argument i that type d cannot hold: torch's checked conversion of Scalars.
// Fractions are cut off, and a negative number may wrap to an unsigned type.
func (c *Ctx) fits(i int, d dtype.DType) error {
	n, ok := c.Number(i)
	if !ok || d == dtype.Bool {
		return nil
	}
	bad := n.Im != 0 && !d.IsComplex()
	switch f := n.Float(); {
	case d.IsUnsigned():
		most := math.Ldexp(1, 8*d.Size()) - 1
		bad = bad || !(math.Abs(f) <= most)
	case d.IsInt():
		// the bounds of 64 bits are no float64: integers are compared as such
		if n.Type.IsIntegral() {
			bad = bits.Len64(uint64(n.I^n.I>>63)) >= 8*d.Size()
		} else {
			limit := math.Ldexp(1, 8*d.Size()-1)
			bad = bad || !(f >= -limit && f < limit)
		}
	case d == dtype.F16 || d == dtype.BF16 || d == dtype.F32 || d == dtype.C64:
		bad = bad || math.Abs(f) > highest(d.ToReal()) && !math.IsInf(f, 0)
	}
	if bad {
		return errs.New(errs.Runtime, "value cannot be converted to type %s without overflow", scalarTypeName(d))
	}
	return nil
}

// scalarTypeName is the C++ type that torch's conversions of Scalars name.
func scalarTypeName(d dtype.DType) string {
	switch d {
	case dtype.U8, dtype.I8, dtype.I16, dtype.I64, dtype.U16, dtype.U32, dtype.U64:
		return map[bool]string{true: "u"}[d.IsUnsigned()] + "int" + itoa(int64(8*d.Size())) + "_t"
	case dtype.I32:
		return "int"
	case dtype.F32:
		return "float"
	case dtype.F64:
		return "double"
	}
	return cppName(d)
}

func inferMaskedFill(c *Ctx) error {
	s, mask, v := c.In(0), c.In(1), c.In(2)
	switch {
	case len(v.Dims) > 0:
		return errs.New(errs.Runtime, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", len(v.Dims))
	case mask.DType != dtype.Bool:
		return errs.New(errs.Runtime, "masked_fill_ only supports boolean masks, but got mask with dtype %s", cppName(mask.DType))
	case v.DType.IsComplex() && !s.DType.IsComplex():
		return errs.New(errs.Runtime, "value cannot be converted to type %s without overflow", scalarTypeName(s.DType))
	}
	if err := c.fits(2, s.DType); err != nil {
		return err
	}
	dims, err := c.Broadcast(1, 0)
	if err != nil {
		return err
	}
	return c.Return(s.DType, dims...)
}

func lowerMaskedFill(l *Lowering) {
	o := l.Out(0)
	l.Return(l.B.Select(l.Full(1, dtype.Bool, o.Dims), l.Full(2, o.DType, o.Dims), l.Full(0, o.DType, o.Dims)))
}

func inferMaskedScatter(c *Ctx) error {
	s, mask, source := c.In(0), c.In(1), c.In(2)
	switch {
	case s.DType != source.DType:
		return errs.New(errs.Runtime, "masked_scatter: expected self and source to have same dtypes but got%s and %s", s.DType.C10(), source.DType.C10())
	case mask.DType != dtype.Bool:
		return errs.New(errs.Runtime, "masked_scatter_ only supports boolean masks, but got mask with dtype %s", mask.DType.C10())
	}
	dims, err := c.Broadcast(1, 0)
	if err != nil {
		return err
	}
	return c.Return(s.DType, dims...)
}

// ranks is for each element of a flat mask how many before it are true.
func ranks(b *stablehlo.Builder, mask value) value {
	n := mask.Dim(0)
	hits := b.Convert(mask, placeType(n+1))
	return b.Subtract(cumulative(b, []value{hits}, 0, stablehlo.CombineAdd)[0], hits)
}

func lowerMaskedScatter(l *Lowering) {
	b, o := l.B, l.Out(0)
	x, n := l.Full(0, o.DType, o.Dims), o.Numel()
	if n == 0 || l.Shape(2).Numel() == 0 {
		l.Return(x)
		return
	}
	mask := l.Full(1, dtype.Bool, o.Dims)
	source := takeFlat(b, l.In(2), ranks(b, b.Reshape(mask, []int64{n})))
	l.Return(b.Select(mask, b.Reshape(source, o.Dims), x))
}

// lowerMaskedScatterBackward packs the gradients of the written elements, zeros after them.
func lowerMaskedScatterBackward(l *Lowering) {
	b, o := l.B, l.Out(0)
	g := l.In(0)
	n, size := g.Shape().Numel(), o.Numel()
	mask := b.Reshape(l.Full(1, dtype.Bool, g.Dims()), []int64{n})
	packed := pack(b, mask, b.Reshape(g, []int64{n}), b.Broadcast(zero(b, g.DType()), []int64{size}))
	l.Return(b.Reshape(packed, o.Dims))
}

// pack writes the elements of x where the mask is true to the front of out, as many as fit. All are flat.
func pack(b *stablehlo.Builder, mask, x, out value) value {
	if mask.Dim(0) == 0 || out.Dim(0) == 0 {
		return out
	}
	size := out.Dim(0)
	place := Convert(b, ranks(b, mask), placeType(max(mask.Dim(0), size)+1))
	place = b.Select(mask, place, b.SplatLike(place, stablehlo.Int(size)))
	return putRows(b, out, place, x, 0, stablehlo.CombineReplace)
}

// lowerNonzeroStatic packs the flat places of the nonzero elements and takes them apart by dimension.
func lowerNonzeroStatic(l *Lowering) {
	b, s, size := l.B, l.Shape(0), l.Int(1)
	n, rank := s.Numel(), len(s.Dims)
	if rank == 0 || size == 0 {
		l.Return(l.omitted(0))
		return
	}
	d := placeType(n)
	mask := b.Reshape(l.As(0, dtype.Bool), []int64{n})
	none := b.Splat(shape.Make(d, size), stablehlo.Int(-1))
	flat := pack(b, mask, b.Arange(d, n), none)
	empty := b.Compare(flat, b.ConstLike(flat, 0), stablehlo.LT)
	fill := b.Splat(shape.Make(dtype.I64, size), stablehlo.Int(l.IntOr(2, -1)))
	columns := make([]value, rank)
	for i := rank - 1; i >= 0; i-- {
		count := b.SplatLike(flat, stablehlo.Int(max(s.Dims[i], 1)))
		at := b.Select(empty, fill, b.Convert(b.Remainder(flat, count), dtype.I64))
		columns[i] = b.Reshape(at, []int64{size, 1})
		flat = b.Divide(flat, count)
	}
	l.Return(b.Concatenate(1, columns...))
}
