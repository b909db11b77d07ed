package ir

import (
	"fmt"
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Number is a Python number as an op received it.
type Number struct {
	Type dtype.DType // Bool, I64, F64 or C128; the tensor's own type for a 0-dim CPU tensor
	I    int64       // the value of an integral type
	F    float64     // of a float type; the real part of a complex one
	Im   float64
}

// Float is the value as a float64 (the real part of a complex number).
func (n Number) Float() float64 {
	if n.Type.IsIntegral() {
		return float64(n.I)
	}
	return n.F
}

// Int is the value as an int64, truncated towards zero as C does.
func (n Number) Int() int64 {
	if n.Type.IsIntegral() {
		return n.I
	}
	return int64(n.F)
}

// String prints the number as Python would.
func (n Number) String() string {
	switch n.Type.Kind() {
	case dtype.KindBool:
		if n.I != 0 {
			return "True"
		}
		return "False"
	case dtype.KindInt:
		return fmt.Sprint(n.I)
	case dtype.KindComplex:
		return fmt.Sprintf("(%g%+gj)", n.F, n.Im)
	}
	return fmt.Sprintf("%g", n.F)
}

// words is the value as attribute words, the type first.
func (n Number) words() [3]int64 {
	w := [3]int64{int64(n.Type.TorchCode())}
	if n.Type.IsIntegral() {
		w[1] = n.I
	} else {
		w[1], w[2] = int64(math.Float64bits(n.F)), int64(math.Float64bits(n.Im))
	}
	return w
}

// special are the numbers that stay part of the program: they let the compiler simplify, and programs
// use them as literals. Every other number is an argument, so that a learning rate or a step count
// that changes does not compile again.
func special(n Number) bool {
	if n.Type == dtype.Bool || n.Type.IsComplex() {
		return true
	}
	switch f := n.Float(); f {
	case 0, 1, -1, 2, -2, 0.5:
		return true
	default:
		return math.IsInf(f, 0) || math.IsNaN(f)
	}
}

// AddNumber appends a leaf for a number. flags says how the number came (Wrapped, ZeroDimCPU); bake
// keeps it in the program whatever its value is.
func (g *Graph) AddNumber(n Number, flags Flags, bake bool) ID {
	w := n.words()
	if !bake && !special(n) {
		flags |= Param
	}
	return g.Add(OpScalar, nil, w[:], shape.Of(n.Type, nil), flags)
}

// IsZero reports that a node is the leaf of the number 0, which has the bits of zeros: not of -0.
func (g *Graph) IsZero(id ID) bool {
	n, ok := g.Number(id)
	return ok && n == Number{Type: n.Type} && !math.Signbit(n.F) && !math.Signbit(n.Im)
}

// IsArgument reports that an ID is that of a leaf which AddNumber made of this number as an argument of the program.
func (g *Graph) IsArgument(id ID, n Number, flags Flags) bool {
	if int(id) >= len(g.nodes) || g.nodes[id].Flags != flags|Param {
		return false
	}
	have, ok := g.Number(id)
	return ok && have == n
}

// Number is the value of an OpScalar leaf; ok is false for any other node.
func (g *Graph) Number(id ID) (n Number, ok bool) {
	if g.nodes[id].Op != OpScalar {
		return Number{}, false
	}
	w := g.Attr(id)
	n.Type = dtype.FromTorch(int(w[0]))
	if n.Type.IsIntegral() {
		n.I = w[1]
	} else {
		n.F, n.Im = math.Float64frombits(uint64(w[1])), math.Float64frombits(uint64(w[2]))
	}
	return n, true
}

// Bake makes a scalar leaf that was an argument part of the program, for an op whose result shape or
// lowering depends on the value.
func (g *Graph) Bake(id ID) {
	n := &g.nodes[id]
	if n.Op != OpScalar || n.Flags&Param == 0 {
		return
	}
	n.Flags &^= Param
	h := mix(uint64(OpScalar)<<8|uint64(n.Flags), n.Shape.Hash)
	for _, w := range g.Attr(id) {
		h = mix(h, uint64(w))
	}
	n.Hash = h
}

// AddRandom appends a leaf for a part of a random key, an argument of the program. flag is RandomKey or RandomDraw.
// generator tells whose it is, which is not part of the program either.
func (g *Graph) AddRandom(value uint64, flag Flags, generator int64) ID {
	w := Number{Type: dtype.I64, I: int64(value)}.words()
	w[2] = generator
	return g.Add(OpScalar, nil, w[:], shape.Of(dtype.I64, nil), Param|flag)
}

// Generator is the number of the generator that a leaf of AddRandom belongs to.
func (g *Graph) Generator(id ID) int64 { return g.Attr(id)[2] }

// AddArgument appends a leaf for a number that is an argument of the program whatever its value is. flags
// say what it counts, 0 for nothing in particular.
func (g *Graph) AddArgument(n Number, flags Flags) ID {
	w := n.words()
	return g.Add(OpScalar, nil, w[:], shape.Of(n.Type, nil), Param|flags)
}
