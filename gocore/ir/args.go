package ir

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

// Kind tags the first word of an encoded argument: word = kind | count<<8 (| more<<16).
//
// The same encoding serves twice. On the wire from the C kernels a tensor or number carries its data
// behind the tag; in a node the data has moved to the operands and the tag alone is left:
//
//	kind      on the wire                                              in a node
//	Null      –                                                        –
//	Tensor    n=ndim, type<<16; handle, offset, sizes[n], strides[n]   – (one operand)
//	Int       value (Scalar argument or number in a Tensor place)      – (one operand, an OpScalar)
//	Float     IEEE bits                                                – (one operand, an OpScalar)
//	Boolean   0 or 1                                                   – (one operand, an OpScalar)
//	Complex   IEEE bits, IEEE bits                                     – (one operand, an OpScalar)
//	HostZero  type<<16; two words of value (a 0-dim CPU tensor)        – (one operand, an OpScalar)
//	Const     value (int, bool, SymInt, enum or None-able int)         the same
//	ConstF    IEEE bits (float argument)                               the same
//	Ints      n values (int[], bool[])                                 the same
//	Floats    n IEEE bits                                              the same
//	Tensors   n encoded Tensor or Null arguments                       – (n operands, None for Null)
//	Scalars   n encoded numbers                                        – (n operands)
//	Text      n bytes, padded to words                                 the same
//	Type      c10::ScalarType number                                   the same
//	Dev       device index                                             Null (the graph has one device)
//	Gen       handle of a generator                                    Null
type Kind uint8

// The kinds of encoded arguments.
const (
	KNull Kind = iota
	KTensor
	KInt
	KFloat
	KBool
	KComplex
	KHostZero
	KConst
	KConstF
	KInts
	KFloats
	KTensors
	KScalars
	KText
	KType
	KDevice
	KGenerator
)

// MaxArgs bounds the arguments of a schema; torch's longest has 30-odd.
const MaxArgs = 48

// Tag makes the first word of an encoded argument.
func Tag(k Kind, n int) int64 { return int64(k) | int64(n)<<8 }

// Untag splits the first word: count is 8 bits for tensors (the rank), 48 bits for lists.
func Untag(w int64) (k Kind, n int) { return Kind(w & 0xff), int(uint64(w) >> 8) }

// Args reads the arguments of a node by their position in the schema. Make one with Decode.
type Args struct {
	g     *Graph
	words []int64
	in    []ID
	n     int
	off   [MaxArgs]uint16 // word of the argument
	first [MaxArgs]uint16 // its first operand
}

// Decode points a at encoded arguments (in the form of a node) and their operands.
func (a *Args) Decode(g *Graph, words []int64, in []ID) {
	a.g, a.words, a.in, a.n = g, words, in, 0
	op := 0
	for i := 0; i < len(words); {
		a.off[a.n], a.first[a.n] = uint16(i), uint16(op)
		a.n++
		k, n := Untag(words[i])
		i++
		switch k {
		case KTensor, KInt, KFloat, KBool, KComplex, KHostZero:
			op++
		case KConst, KConstF, KType:
			i++
		case KInts, KFloats:
			i += n
		case KText:
			i += (n + 7) / 8
		case KTensors, KScalars:
			op += n
		}
	}
}

// Node points a at a node's own arguments.
func (a *Args) Node(g *Graph, id ID) { a.Decode(g, g.Attr(id), g.In(id)) }

// Len is the number of arguments.
func (a *Args) Len() int { return a.n }

// Kind is the kind of argument i; KNull for None and for an index past the end (an op recorded by an
// older torch with a shorter schema).
func (a *Args) Kind(i int) Kind {
	if i >= a.n {
		return KNull
	}
	k, _ := Untag(a.words[a.off[i]])
	return k
}

// Words is argument i as it is encoded in the node; nil for an index past the end.
func (a *Args) Words(i int) []int64 {
	if i >= a.n {
		return nil
	}
	end := len(a.words)
	if i+1 < a.n {
		end = int(a.off[i+1])
	}
	return a.words[a.off[i]:end]
}

// Has reports that argument i is not None.
func (a *Args) Has(i int) bool { return a.Kind(i) != KNull }

// ID is the operand of a Tensor or Scalar argument; None if it is absent.
func (a *Args) ID(i int) ID {
	switch a.Kind(i) {
	case KTensor, KInt, KFloat, KBool, KComplex, KHostZero:
		return a.in[a.first[i]]
	}
	return None
}

// IDs is the operands of a Tensor[] or Scalar[] argument.
func (a *Args) IDs(i int) []ID {
	if i >= a.n {
		return nil
	}
	k, n := Untag(a.words[a.off[i]])
	if k != KTensors && k != KScalars {
		return nil
	}
	return a.in[a.first[i] : int(a.first[i])+n]
}

// Int is an int, bool, enum or SymInt argument; 0 for None.
func (a *Args) Int(i int) int64 { return a.IntOr(i, 0) }

// IntOr is Int with another value for None.
func (a *Args) IntOr(i int, none int64) int64 {
	switch a.Kind(i) {
	case KConst:
		return a.words[a.off[i]+1]
	case KConstF:
		return int64(math.Float64frombits(uint64(a.words[a.off[i]+1])))
	case KInt: // an offset, see ops.Row.Offsets
		n, _ := a.g.Number(a.in[a.first[i]])
		return n.I
	}
	return none
}

// Bool is a bool argument; false for None.
func (a *Args) Bool(i int) bool { return a.Int(i) != 0 }

// Float is a float argument; 0 for None.
func (a *Args) Float(i int) float64 { return a.FloatOr(i, 0) }

// FloatOr is Float with another value for None.
func (a *Args) FloatOr(i int, none float64) float64 {
	switch a.Kind(i) {
	case KConstF:
		return math.Float64frombits(uint64(a.words[a.off[i]+1]))
	case KConst:
		return float64(a.words[a.off[i]+1])
	}
	return none
}

// Ints is an int[] or bool[] argument; nil for None. A single int counts as a list of one.
func (a *Args) Ints(i int) []int64 {
	if i >= a.n {
		return nil
	}
	o := a.off[i]
	switch k, n := Untag(a.words[o]); k {
	case KInts:
		return a.words[o+1 : int(o)+1+n]
	case KConst:
		return a.words[o+1 : o+2]
	}
	return nil
}

// Floats appends a float[] argument to dst.
func (a *Args) Floats(dst []float64, i int) []float64 {
	if i >= a.n {
		return dst
	}
	o := a.off[i]
	if k, n := Untag(a.words[o]); k == KFloats {
		for _, w := range a.words[o+1 : int(o)+1+n] {
			dst = append(dst, math.Float64frombits(uint64(w)))
		}
	}
	return dst
}

// Text is a str argument; "" for None.
func (a *Args) Text(i int) string {
	if i >= a.n {
		return ""
	}
	o := a.off[i]
	k, n := Untag(a.words[o])
	if k != KText {
		return ""
	}
	b := make([]byte, n)
	for j := range b {
		b[j] = byte(a.words[int(o)+1+j/8] >> (8 * (j % 8)))
	}
	return string(b)
}

// Type is a ScalarType argument; Invalid for None or a type without a row.
func (a *Args) Type(i int) dtype.DType {
	if a.Kind(i) != KType {
		return dtype.Invalid
	}
	return dtype.FromTorch(int(a.words[a.off[i]+1]))
}

// Number is a Scalar argument, or a Tensor argument given as a number; ok is false for anything else.
func (a *Args) Number(i int) (Number, bool) {
	id := a.ID(i)
	if id == None {
		return Number{}, false
	}
	return a.g.Number(id)
}
