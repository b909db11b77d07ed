package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// ConstantInts is a constant with these elements in row-major order, converted as Splat does.
func (b *Builder) ConstantInts(s *shape.Shape, data []int64) Value {
	return b.dense(s, len(data), func(i int) Scalar { return Int(data[i]) })
}

// ConstantFloats is a constant with these elements in row-major order, converted as Splat does.
func (b *Builder) ConstantFloats(s *shape.Shape, data []float64) Value {
	return b.dense(s, len(data), func(i int) Scalar { return Float(data[i]) })
}

// ConstantComplex is a constant with these elements in row-major order, converted as Splat does.
func (b *Builder) ConstantComplex(s *shape.Shape, data []complex128) Value {
	return b.dense(s, len(data), func(i int) Scalar { return Complex(data[i]) })
}

// Ints is a constant of type i64 and rank 1.
func (b *Builder) Ints(data ...int64) Value {
	return b.ConstantInts(shape.Make(i64, int64(len(data))), data)
}

// dense writes elements one by one as nested lists.
func (b *Builder) dense(s *shape.Shape, n int, at func(int) Scalar) Value {
	const op = "stablehlo.constant"
	if !valid(s) || int64(n) != s.Numel() {
		b.fail(op, fmt.Sprintf("%d elements for a constant of type %s", n, s))
		return Value{s: s}
	}
	b.attrName("value")
	b.attrs = append(b.attrs, "dense<"...)
	if n > 0 {
		next := 0
		if !b.appendNested(s, 0, &next, at) {
			b.attrs = b.attrs[:0]
			b.fail(op, fmt.Sprintf("element %d, %s, cannot be converted to %s", next, at(next), s.DType))
			return Value{s: s}
		}
	}
	b.attrs = append(b.attrs, "> : "...)
	b.attrs = appendType(b.attrs, s)
	return b.source(op, s)
}

// appendNested prints dimension dim and those after it, taking elements from *next on.
func (b *Builder) appendNested(s *shape.Shape, dim int, next *int, at func(int) Scalar) bool {
	if dim == len(s.Dims) {
		var ok bool
		b.attrs, ok = appendScalar(b.attrs, s.DType, at(*next))
		if ok {
			*next++
		}
		return ok
	}
	b.attrs = append(b.attrs, '[')
	for i := int64(0); i < s.Dims[dim]; i++ {
		if i > 0 {
			b.attrs = append(b.attrs, ", "...)
		}
		if !b.appendNested(s, dim+1, next, at) {
			return false
		}
	}
	b.attrs = append(b.attrs, ']')
	return true
}

// ConstantBytes is a constant with the elements of a dense, row-major, little-endian buffer, as
// torch keeps them (one byte for an element of i1). It is written as hexadecimal digits.
func (b *Builder) ConstantBytes(s *shape.Shape, raw []byte) Value {
	const op = "stablehlo.constant"
	if !valid(s) || int64(len(raw)) != s.Bytes() {
		b.fail(op, fmt.Sprintf("%d bytes for a constant of type %s", len(raw), s))
		return Value{s: s}
	}
	if s.DType.String() == "i1" || len(raw) == 0 {
		return b.dense(s, len(raw), func(i int) Scalar { return Bool(raw[i] != 0) })
	}
	const hex = "0123456789ABCDEF"
	b.attrName("value")
	b.attrs = append(b.attrs, `dense<"0x`...)
	for _, c := range raw {
		b.attrs = append(b.attrs, hex[c>>4], hex[c&15])
	}
	b.attrs = append(b.attrs, `"> : `...)
	b.attrs = appendType(b.attrs, s)
	return b.source(op, s)
}
