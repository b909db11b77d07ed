package ir

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Args reads the arguments of a node by their position in the schema. Make one with Decode.
type Args struct {
	g     *Graph
	words []int64
	in    []ID
	n     int
	off   [wire.MaxArgs]uint16 // word of the argument
	first [wire.MaxArgs]uint16 // its first operand
}

// Decode points a at encoded arguments (in the form of a node) and their operands.
func (a *Args) Decode(g *Graph, words []int64, in []ID) {
	a.g, a.words, a.in, a.n = g, words, in, 0
	op := 0
	for i := 0; i < len(words); {
		a.off[a.n], a.first[a.n] = uint16(i), uint16(op)
		a.n++
		k, n := wire.Untag(words[i])
		i++
		switch k {
		case wire.KTensor, wire.KInt, wire.KFloat, wire.KBool, wire.KComplex, wire.KHostZero:
			op++
		case wire.KConst, wire.KConstF, wire.KType:
			i++
		case wire.KInts, wire.KFloats:
			i += n
		case wire.KText:
			i += (n + 7) / 8
		case wire.KTensors, wire.KScalars:
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
func (a *Args) Kind(i int) wire.Kind {
	if i >= a.n {
		return wire.KNull
	}
	k, _ := wire.Untag(a.words[a.off[i]])
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
func (a *Args) Has(i int) bool { return a.Kind(i) != wire.KNull }

// ID is the operand of a Tensor or Scalar argument; None if it is absent.
func (a *Args) ID(i int) ID {
	switch a.Kind(i) {
	case wire.KTensor, wire.KInt, wire.KFloat, wire.KBool, wire.KComplex, wire.KHostZero:
		return a.in[a.first[i]]
	}
	return None
}

// IDs is the operands of a Tensor[] or Scalar[] argument.
func (a *Args) IDs(i int) []ID {
	if i >= a.n {
		return nil
	}
	k, n := wire.Untag(a.words[a.off[i]])
	if k != wire.KTensors && k != wire.KScalars {
		return nil
	}
	return a.in[a.first[i] : int(a.first[i])+n]
}

// Int is an int, bool, enum or SymInt argument; 0 for None.
func (a *Args) Int(i int) int64 { return a.IntOr(i, 0) }

// IntOr is Int with another value for None.
func (a *Args) IntOr(i int, none int64) int64 {
	switch a.Kind(i) {
	case wire.KConst:
		return a.words[a.off[i]+1]
	case wire.KConstF:
		return int64(math.Float64frombits(uint64(a.words[a.off[i]+1])))
	case wire.KInt: // an offset, see ops.Row.Offsets
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
	case wire.KConstF:
		return math.Float64frombits(uint64(a.words[a.off[i]+1]))
	case wire.KConst:
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
	switch k, n := wire.Untag(a.words[o]); k {
	case wire.KInts:
		return a.words[o+1 : int(o)+1+n]
	case wire.KConst:
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
	if k, n := wire.Untag(a.words[o]); k == wire.KFloats {
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
	k, n := wire.Untag(a.words[o])
	if k != wire.KText {
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
	if a.Kind(i) != wire.KType {
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
