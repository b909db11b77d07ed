package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Argument is an argument of an op's schema as the text form needs it.
type Argument struct {
	Name    string
	Operand bool // a Tensor or a Scalar, or a list of them: a value of the graph, not an attribute
	Scalars bool // if a list is given, it is one of Scalars
	Floats  bool // if a list is given, it is one of floats
	Needed  bool // it is never None and has no default
}

// Vocabulary names ops. Package ops has the one of the op table.
type Vocabulary interface {
	// Name is the printed name of an op, built-in ones included.
	Name(op Op) string
	// Lookup is the row of a printed name.
	Lookup(name string) (op Op, ok bool)
	// Arguments are those of a row, in the order of its schema.
	Arguments(op Op) []Argument
}

// marks are the words behind a number, by flag. A Python number has none of them; one that has no flag at all
// is an index.
var marks = []struct {
	flag Flags
	word string
}{{Param, "argument"}, {ZeroDimCPU, "tensor"}, {RandomKey, "seed"}, {RandomDraw, "draw"}}

const (
	index = "index"
	local = "local" // a buffer that has a value of its own on each device
)

// Text is the printed form of a node but for its name; ref names its operands.
func Text(v Vocabulary, g *Graph, id ID, ref func(ID) string) string {
	n := g.At(id)
	var b strings.Builder
	b.WriteString(v.Name(n.Op))
	switch {
	case n.Op == OpScalar:
		num, _ := g.Number(id)
		b.WriteString(" " + num.String())
		writeMarks(&b, n.Flags)
	case n.Op == OpData:
		if n.Flags&Manual != 0 {
			b.WriteString(" (" + local + ")")
		}
	default:
		writeArgs(&b, v.Arguments(n.Op), g, id, ref)
	}
	b.WriteString(" : " + g.Shape(id).String())
	for k := 1; k < int(n.Results); k++ {
		b.WriteString(", " + g.Shape(id+ID(k)).String())
	}
	return b.String()
}

func writeMarks(b *strings.Builder, f Flags) {
	var words []string
	for _, m := range marks {
		if f&m.flag != 0 {
			words = append(words, m.word)
		}
	}
	if f&^Param == 0 {
		words = append(words, index)
	}
	if len(words) > 0 {
		b.WriteString(" (" + strings.Join(words, ", ") + ")")
	}
}

// writeArgs prints the operands by position, then what is not an operand by name.
func writeArgs(b *strings.Builder, params []Argument, g *Graph, id ID, ref func(ID) string) {
	var a Args
	a.Node(g, id)
	name := func(id ID) string {
		if id == None {
			return "None"
		}
		return ref(id)
	}
	var operands, attributes []string
	for i := range a.Len() {
		p := Argument{Name: strconv.Itoa(i)}
		if i < len(params) {
			p = params[i]
		}
		switch k := a.Kind(i); k {
		case wire.KNull:
			if p.Operand {
				operands = append(operands, "None")
			}
		case wire.KTensors, wire.KScalars:
			var list []string
			for _, in := range a.IDs(i) {
				list = append(list, name(in))
			}
			operands = append(operands, "["+strings.Join(list, ", ")+"]")
		case wire.KTensor, wire.KInt, wire.KFloat, wire.KBool, wire.KComplex, wire.KHostZero:
			operands = append(operands, name(a.ID(i)))
		default:
			attributes = append(attributes, p.Name+"="+a.text(i))
		}
	}
	if len(operands) > 0 {
		b.WriteString(" " + strings.Join(operands, ", "))
	}
	if len(attributes) > 0 {
		b.WriteString(" {" + strings.Join(attributes, ", ") + "}")
	}
}

// text prints an attribute so that its kind can be read: 1, 1.0, [1, 2], [1.0], "mean", f32.
func (a *Args) text(i int) string {
	switch a.Kind(i) {
	case wire.KConstF:
		return floatText(a.Float(i))
	case wire.KInts:
		return shape.TorchDims(a.Ints(i))
	case wire.KFloats:
		var list []string
		for _, f := range a.Floats(nil, i) {
			list = append(list, floatText(f))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case wire.KText:
		return strconv.Quote(a.Text(i))
	case wire.KType:
		return a.Type(i).String()
	}
	return strconv.FormatInt(a.Int(i), 10)
}

// floatText is the shortest text that reads as the same float, and not as an int.
func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if strings.ContainsAny(s, ".eIN") {
		return s
	}
	return s + ".0"
}

// parseNumber reads what Number.String printed, of a type.
func parseNumber(text string, d dtype.DType) (n Number, err error) {
	n.Type = d
	switch d.Kind() {
	case dtype.KindBool:
		switch text {
		case "True":
			n.I = 1
		case "False":
		default:
			return n, fmt.Errorf("%q is not True or False", text)
		}
	case dtype.KindInt:
		n.I, err = strconv.ParseInt(text, 10, 64)
	case dtype.KindComplex:
		var c complex128
		c, err = strconv.ParseComplex(strings.Replace(text, "j)", "i)", 1), 128)
		n.F, n.Im = real(c), imag(c)
	default:
		n.F, err = strconv.ParseFloat(text, 64)
	}
	return n, err
}

// attribute appends the words of an attribute's text.
func attribute(words []int64, text string, p Argument) ([]int64, error) {
	switch c := text[0]; {
	case c == '"':
		s, err := strconv.Unquote(text)
		if err != nil {
			return nil, fmt.Errorf("bad text %s", text)
		}
		return AppendText(words, s), nil
	case c == '[':
		return list(words, text, p)
	case c == '-' || c == '+' || c >= '0' && c <= '9' || text == "NaN":
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			return append(words, wire.Tag(wire.KConst, 0), v), nil
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("bad number %q", text)
		}
		return append(words, wire.Tag(wire.KConstF, 0), int64(math.Float64bits(f))), nil
	}
	d := dtype.Parse(text)
	if d == dtype.Invalid {
		return nil, fmt.Errorf("%q is neither a number nor a list, text or type", text)
	}
	return append(words, wire.Tag(wire.KType, 0), int64(d.TorchCode())), nil
}

func list(words []int64, text string, p Argument) ([]int64, error) {
	items := fields(strings.TrimSuffix(text[1:], "]"))
	kind := wire.KInts
	if p.Floats {
		kind = wire.KFloats
	}
	words = append(words, wire.Tag(kind, len(items)))
	for _, item := range items {
		if kind == wire.KFloats {
			f, err := strconv.ParseFloat(item, 64)
			if err != nil {
				return nil, fmt.Errorf("bad number %q", item)
			}
			words = append(words, int64(math.Float64bits(f)))
			continue
		}
		v, err := strconv.ParseInt(item, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("bad number %q", item)
		}
		words = append(words, v)
	}
	return words, nil
}

// AppendText appends the words of a str argument.
func AppendText(words []int64, s string) []int64 {
	words = append(words, wire.Tag(wire.KText, len(s)))
	for i := 0; i < len(s); i += 8 {
		var w uint64
		for j := range min(8, len(s)-i) {
			w |= uint64(s[i+j]) << (8 * j)
		}
		words = append(words, int64(w))
	}
	return words
}

// fields splits a list at its commas, those within brackets and quotes left as they are.
func fields(text string) (out []string) {
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	if last := strings.TrimSpace(text[min(start, len(text)):]); last != "" || len(out) > 0 {
		out = append(out, last)
	}
	return out
}
