package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Program is a graph that was read from text.
type Program struct {
	Graph Graph
	Data  []ID // the buffers it reads, in order
	Roots []ID // what it returns
}

// Parse reads the text form of a graph: nodes in order, then "return" with the results. Empty lines, and those
// that begin with #, mean nothing. It takes the shapes at their word; what runs the graph has them checked
// by the shape rules. Errors name the line.
func Parse(v Vocabulary, text string) (*Program, error) {
	p := parser{v: v, program: new(Program), names: make(map[string]ID)}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var err error
		switch rest, isReturn := strings.CutPrefix(line, "return"); {
		case p.done:
			err = fmt.Errorf("text behind the graph's return")
		case isReturn:
			err = p.results(rest)
		default:
			err = p.node(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if !p.done {
		return nil, fmt.Errorf("the graph has no return")
	}
	return p.program, nil
}

type parser struct {
	v       Vocabulary
	program *Program
	names   map[string]ID
	done    bool
}

// node reads "%3 = aten::add.Tensor %1, %2 {alpha=1} : f32[32,128]".
func (p *parser) node(line string) error {
	name, rest, ok := strings.Cut(line, " = ")
	if !ok || !strings.HasPrefix(name, "%") || strings.Contains(name, "#") {
		return fmt.Errorf("want %%name = op, got %q", line)
	}
	if _, twice := p.names[name]; twice {
		return fmt.Errorf("%s is defined twice", name)
	}
	colon := strings.LastIndex(rest, " : ")
	if colon < 0 {
		return fmt.Errorf("%s has no shape", name)
	}
	shapes, err := readShapes(rest[colon+3:])
	if err != nil {
		return err
	}
	op, args, _ := strings.Cut(rest[:colon], " ")
	id, err := p.add(op, strings.TrimSpace(args), shapes)
	p.names[name] = id
	return err
}

func readShapes(text string) (out []*shape.Shape, err error) {
	for _, t := range strings.Split(text, ", ") {
		s, ok := shape.Parse(t)
		if !ok {
			return nil, fmt.Errorf("bad shape %q", t)
		}
		out = append(out, s)
	}
	return out, nil
}

func (p *parser) add(name, args string, shapes []*shape.Shape) (ID, error) {
	g := &p.program.Graph
	switch name {
	case p.v.Name(OpData):
		var flags Flags
		if args == "("+local+")" {
			flags = Manual
		} else if args != "" {
			return None, fmt.Errorf("%s takes no arguments, got %q", name, args)
		}
		place := []int64{int64(len(p.program.Data))}
		id := g.Add(OpData, nil, place, shapes[0], flags)
		p.program.Data = append(p.program.Data, id)
		return id, nil
	case p.v.Name(OpScalar):
		return p.number(args, shapes[0])
	}
	op, ok := p.v.Lookup(name)
	if !ok {
		return None, fmt.Errorf("no op named %s", name)
	}
	words, in, err := p.args(op, args)
	if err != nil {
		return None, fmt.Errorf("%s: %w", name, err)
	}
	if len(shapes) == 1 {
		return g.Add(op, in, words, shapes[0], 0), nil
	}
	return g.AddMulti(op, in, words, shapes), nil
}

// number reads "0.1 (argument)".
func (p *parser) number(text string, s *shape.Shape) (ID, error) {
	value, words, marked := strings.Cut(strings.TrimSuffix(text, ")"), " (")
	if !marked {
		value = text
	}
	if s.Rank() != 0 {
		return None, fmt.Errorf("a number of shape %s", s)
	}
	n, err := parseNumber(value, s.DType)
	if err != nil {
		return None, err
	}
	flags := Wrapped
	for _, word := range fields(words) {
		known := word == index
		if known {
			flags &^= Wrapped
		}
		for _, m := range marks {
			if m.word == word {
				known = true
				if flags |= m.flag; m.flag != Param {
					flags &^= Wrapped
				}
			}
		}
		if !known {
			return None, fmt.Errorf("unknown mark %q", word)
		}
	}
	w := n.words()
	return p.program.Graph.Add(OpScalar, nil, w[:], s, flags), nil
}

// args reads "%1, [%2, None] {dim=[1], keepdim=0}" into the words and operands of a node.
func (p *parser) args(op Op, text string) (words []int64, in []ID, err error) {
	operands, attributes := text, ""
	if i := strings.IndexByte(text, '{'); i >= 0 {
		if !strings.HasSuffix(text, "}") {
			return nil, nil, fmt.Errorf("no } at the end")
		}
		operands, attributes = strings.TrimSpace(text[:i]), text[i+1:len(text)-1]
	}
	given := make(map[string]string)
	for _, a := range fields(attributes) {
		name, value, ok := strings.Cut(a, "=")
		if _, twice := given[name]; !ok || value == "" || twice {
			return nil, nil, fmt.Errorf("bad or repeated attribute %q", a)
		}
		given[name] = value
	}
	values := fields(operands)
	params := p.v.Arguments(op)
	for _, param := range params {
		value, ok := given[param.Name]
		delete(given, param.Name)
		switch {
		case ok:
			words, err = attribute(words, value, param)
		case param.Operand && len(values) > 0:
			words, in, err = p.operand(words, in, values[0], param)
			values = values[1:]
		case param.Needed:
			err = fmt.Errorf("argument %s is missing", param.Name)
		default:
			words = append(words, wire.Tag(wire.KNull, 0))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, value := range values { // of a random op: the seed and the draw
		if words, in, err = p.operand(words, in, value, Argument{}); err != nil {
			return nil, nil, err
		}
	}
	for name := range given {
		return nil, nil, fmt.Errorf("no argument named %s", name)
	}
	if len(params)+len(values) > int(wire.MaxArgs) || len(words) > math.MaxUint16 || len(in) > math.MaxUint16 {
		return nil, nil, fmt.Errorf("too many arguments")
	}
	return words, in, nil
}

// operand reads "%1", "None", or a list of them.
func (p *parser) operand(words []int64, in []ID, text string, param Argument) ([]int64, []ID, error) {
	if text == "None" && !param.Needed {
		return append(words, wire.Tag(wire.KNull, 0)), in, nil
	}
	if body, ok := strings.CutPrefix(text, "["); ok {
		items := fields(strings.TrimSuffix(body, "]"))
		kind := wire.KTensors
		if param.Scalars {
			kind = wire.KScalars
		}
		for _, item := range items {
			id := None
			var err error
			if item != "None" {
				id, err = p.value(item)
			}
			if err != nil {
				return nil, nil, err
			}
			in = append(in, id)
		}
		return append(words, wire.Tag(kind, len(items))), in, nil
	}
	id, err := p.value(text)
	if err != nil {
		return nil, nil, err
	}
	return append(words, wire.Tag(p.kind(id), 0)), append(in, id), nil
}

// kind is how a value was given to an op: as a tensor, or as a number of a type.
func (p *parser) kind(id ID) wire.Kind {
	n := p.program.Graph.At(id)
	switch {
	case n.Op != OpScalar:
		return wire.KTensor
	case n.Flags&ZeroDimCPU != 0:
		return wire.KHostZero
	case n.Shape.DType.IsComplex():
		return wire.KComplex
	case n.Shape.DType.IsFloat():
		return wire.KFloat
	case n.Shape.DType.IsInt():
		return wire.KInt
	}
	return wire.KBool
}

// value is what "%5" or "%5#1" names.
func (p *parser) value(text string) (ID, error) {
	name, result, several := strings.Cut(text, "#")
	id, ok := p.names[name]
	if !ok {
		return None, fmt.Errorf("%s is not defined", name)
	}
	if !several {
		return id, nil
	}
	k, err := strconv.Atoi(result)
	if err != nil || k < 0 || k >= int(p.program.Graph.At(id).Results) {
		return None, fmt.Errorf("%s has no result %s", name, result)
	}
	return id + ID(k), nil
}

// results reads " %5 : f32[4], %5#1 : i64[4]".
func (p *parser) results(text string) error {
	p.done = true
	for _, item := range fields(text) {
		name, stated, _ := strings.Cut(item, " : ")
		id, err := p.value(name)
		if err != nil {
			return err
		}
		if have := p.program.Graph.Shape(id).String(); stated != have {
			return fmt.Errorf("%s is %s, not %s", name, have, stated)
		}
		p.program.Roots = append(p.program.Roots, id)
	}
	return nil
}
