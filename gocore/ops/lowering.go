package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Source gives a Lowering the values outside its own node. Package lower implements it.
type Source interface {
	// Value is the StableHLO value of a node already lowered.
	Value(id ir.ID) stablehlo.Value
	// Argument is a 0-dim value of type d that carries a number as an argument of the program.
	Argument(id ir.ID, d dtype.DType) stablehlo.Value
	// Channel is a number that no other collective of the program has, 1 and up.
	Channel() int64
	// Exchanged is the operand x of a node that exchanges data.
	Exchanged(node ir.ID, x stablehlo.Value) stablehlo.Value
}

// Lowering is what a row's Lower sees: the arguments by their position in the schema, tensors as StableHLO values. It
// has the shapes that Infer promised. One Lowering is reused for every node.
type Lowering struct {
	ir.Args
	B     *stablehlo.Builder
	Graph *ir.Graph
	Node  ir.ID
	Src   Source
	// Precision is the operand precision of matrix products and convolutions.
	Precision stablehlo.Precision
	// TorchKernels tells that the program may call torch's own CPU kernels (package torchcpu).
	TorchKernels bool
	// HostMemory tells that the device has a memory of the host's beside its own.
	HostMemory bool
	// Functions are those that control flow calls, by name.
	Functions map[string]*stablehlo.Function
	outs      []stablehlo.Value
}

// Begin points l at a node.
func (l *Lowering) Begin(id ir.ID) {
	l.Node, l.outs = id, l.outs[:0]
	l.Args.Node(l.Graph, id)
}

// Outs is the values that the row returned.
func (l *Lowering) Outs() []stablehlo.Value { return l.outs }

// Return gives the results, in order.
func (l *Lowering) Return(v ...stablehlo.Value) { l.outs = append(l.outs, v...) }

// Out is the shape that result k must have.
func (l *Lowering) Out(k int) *shape.Shape { return l.Graph.Shape(l.Node + ir.ID(k)) }

// Shape is the shape of a Tensor argument; nil if it is None.
func (l *Lowering) Shape(i int) *shape.Shape {
	if id := l.ID(i); id != ir.None {
		return l.Graph.Shape(id)
	}
	return nil
}

// In is a Tensor argument in its own type (a number becomes a 0-dim value of its own type).
func (l *Lowering) In(i int) stablehlo.Value { return l.value(l.ID(i), dtype.Invalid) }

// Ins is a Tensor[] argument; zero values for None.
func (l *Lowering) Ins(i int) []stablehlo.Value {
	ids := l.IDs(i)
	v := make([]stablehlo.Value, len(ids))
	for k, id := range ids {
		v[k] = l.value(id, dtype.Invalid)
	}
	return v
}

// As is a Tensor or Scalar argument converted to type d.
func (l *Lowering) As(i int, d dtype.DType) stablehlo.Value { return l.value(l.ID(i), d) }

// Full is a Tensor or Scalar argument converted to type d and broadcast to dims.
func (l *Lowering) Full(i int, d dtype.DType, dims []int64) stablehlo.Value {
	return l.B.Broadcast(l.As(i, d), dims)
}

// Like is a Scalar argument as a value of the shape of v.
func (l *Lowering) Like(i int, v stablehlo.Value) stablehlo.Value {
	return l.Full(i, v.DType(), v.Dims())
}

// Convert is torch's cast of v to d: float to integer truncates, anything to bool is v != 0, complex to
// real drops the imaginary part.
func (l *Lowering) Convert(v stablehlo.Value, d dtype.DType) stablehlo.Value {
	return Convert(l.B, v, d)
}

// Convert is torch's cast; see Lowering.Convert.
func Convert(b *stablehlo.Builder, v stablehlo.Value, d dtype.DType) stablehlo.Value {
	from := v.DType()
	switch {
	case from == d:
		return v
	case from == dtype.F8E8M0FNU:
		return fromExponent(b, v, d)
	case d == dtype.F8E8M0FNU:
		return toExponent(b, Convert(b, v, dtype.F32))
	case d == dtype.Bool:
		return b.Compare(v, b.ConstLike(v, 0), stablehlo.NE)
	case from.IsComplex() && !d.IsComplex():
		return Convert(b, b.Real(v), d)
	case d.IsComplex() && !from.IsComplex():
		re := b.Convert(v, d.ToReal())
		return b.Complex(re, b.ConstLike(re, 0))
	case from.IsFloat() && d.IsIntegral() && d.Size() < 4:
		// C truncates to 32 bits and then wraps, where StableHLO saturates
		return b.Convert(b.Convert(v, dtype.I32), d)
	}
	return b.Convert(v, d)
}

// toExponent is the cast of f32 to F8E8M0FNU, which holds an exponent and nothing else. XLA rounds differently from
// torch.
func toExponent(b *stablehlo.Builder, v stablehlo.Value) stablehlo.Value {
	bits := b.BitcastConvert(v, dtype.U32)
	k := func(n int64) stablehlo.Value { return b.Splat(bits.Shape(), stablehlo.Int(n)) }
	part := func(shift, mask int64) stablehlo.Value { return b.And(b.ShiftRightLogical(bits, k(shift)), k(mask)) }
	e := part(23, 0xff)
	half := b.Compare(part(22, 1), k(0), stablehlo.NE)
	above := b.Or(b.Compare(e, k(0), stablehlo.NE), b.Compare(part(0, 1<<22-1), k(0), stablehlo.NE))
	up := b.And(b.And(half, above), b.Compare(e, k(0xff), stablehlo.NE))
	e = b.Add(e, b.Convert(up, dtype.U32))
	return b.BitcastConvert(b.Convert(e, dtype.U8), dtype.F8E8M0FNU)
}

// fromExponent is the cast of F8E8M0FNU to another type. What it holds is put together by integers: a compiler may take
// its least value, which f32 has as a subnormal number, for zero.
func fromExponent(b *stablehlo.Builder, v stablehlo.Value, d dtype.DType) stablehlo.Value {
	e := b.BitcastConvert(v, dtype.U8)
	build := func(word, to dtype.DType, shift, bias, least, nan int64) stablehlo.Value {
		w := b.Convert(e, word)
		k := func(n int64) stablehlo.Value { return b.Splat(w.Shape(), stablehlo.Int(n)) }
		bits := b.ShiftLeft(b.Add(w, k(bias)), k(shift))
		bits = b.Select(b.Compare(w, k(0), stablehlo.EQ), k(least), bits)
		return b.BitcastConvert(b.Select(b.Compare(w, k(0xff), stablehlo.EQ), k(nan), bits), to)
	}
	switch d.ToReal() {
	case dtype.Bool: // it has no zero
		return b.Compare(e, e, stablehlo.EQ)
	case dtype.F64:
		return Convert(b, build(dtype.U64, dtype.F64, 52, 1023-127, (1023-127)<<52, 0x7ff8<<48), d)
	case dtype.BF16:
		return build(dtype.U16, dtype.BF16, 7, 0, 0x40, 0x7fc0)
	}
	return Convert(b, build(dtype.U32, dtype.F32, 23, 0, 0x400000, 0x7fc00000), d)
}

func (l *Lowering) value(id ir.ID, d dtype.DType) stablehlo.Value {
	if id == ir.None {
		return stablehlo.Value{}
	}
	n := l.Graph.At(id)
	if n.Op != ir.OpScalar {
		v := l.Src.Value(id)
		if d != dtype.Invalid {
			v = Convert(l.B, v, d)
		}
		return v
	}
	if d == dtype.Invalid {
		d = n.Shape.DType
	}
	if n.Flags&ir.Param != 0 && d == dtype.F8E8M0FNU {
		return toExponent(l.B, l.Src.Argument(id, dtype.F32))
	}
	if n.Flags&ir.Param != 0 {
		return l.Src.Argument(id, d)
	}
	num, _ := l.Graph.Number(id)
	return Constant(l.B, num, d)
}

// Constant is a number as a 0-dim constant of type d, converted as C++ converts it.
func Constant(b *stablehlo.Builder, n ir.Number, d dtype.DType) stablehlo.Value {
	s := shape.Make(d)
	switch {
	case d.IsComplex():
		re := n.Float()
		return b.Splat(s, stablehlo.Complex(complex(re, n.Im)))
	case d == dtype.Bool:
		return b.Splat(s, stablehlo.Bool(n.Float() != 0 || n.Im != 0))
	case d.IsInt():
		return b.Splat(s, stablehlo.Int(n.Int()))
	case n.Type.IsIntegral():
		return b.Splat(s, stablehlo.Float(float64(n.I)))
	}
	return b.Splat(s, stablehlo.Float(n.F))
}

// zero is the 0-dim zero of a type.
func zero(b *stablehlo.Builder, d dtype.DType) value {
	return Constant(b, ir.Number{Type: dtype.I64}, d)
}

// one is the 0-dim one of a type.
func one(b *stablehlo.Builder, d dtype.DType) value {
	return Constant(b, ir.Number{Type: dtype.I64, I: 1}, d)
}

// omitted is the value of a result that output_mask leaves out.
func (l *Lowering) omitted(k int) value {
	o := l.Out(k)
	return l.B.Broadcast(zero(l.B, o.DType), o.Dims)
}
