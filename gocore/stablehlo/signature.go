package stablehlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Signature is what a program's text says of itself: the types of what @main takes and gives.
type Signature struct {
	Params, Results []*shape.Shape
}

// entry is @main in a program's text.
type entry struct {
	params, results []typed
	at              int // of func.func
	body, end       int // where the body's lines begin, and where its brace closes
}

// typed is a parameter or a result.
type typed struct {
	name, typ string
	all       string // as the text has it, with its attributes
}

// text is a program's text, in parts.
type text struct {
	all    string
	tokens []token
	pairs  map[int]int
}

func newText(module []byte) (*text, error) {
	t := &text{all: string(module)}
	var ok bool
	if t.tokens, ok = scan(t.all); !ok {
		return nil, fmt.Errorf("stablehlo: the program is not MLIR's text form")
	}
	if t.pairs, ok = closing(t.tokens); !ok {
		return nil, fmt.Errorf("stablehlo: brackets of the program do not pair")
	}
	return t, nil
}

// at is the token of a number; tokenEnd behind the last.
func (t *text) at(i int) token {
	if i < len(t.tokens) {
		return t.tokens[i]
	}
	return token{at: len(t.all), end: len(t.all)}
}

// skip is the number behind a pair of brackets that may start at i.
func (t *text) skip(i int) int {
	if end, ok := t.pairs[i]; ok {
		return end + 1
	}
	return i
}

// main finds @main, which must be a func.func in MLIR's usual form, in a module or not.
func (t *text) main() (*entry, error) {
	var found *entry
	for i := 0; i < len(t.tokens); {
		switch {
		case t.at(i).named("module"):
			i = t.body(i + 1)
			continue
		case !t.at(i).named("func.func"):
			i = max(i+1, t.skip(i))
			continue
		}
		first := i
		for i++; t.at(i).kind == tokenWord; i++ {
		}
		if name := t.at(i); name.kind != tokenSymbol || name.word != "main" {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("stablehlo: the program has two @main")
		}
		e := &entry{at: t.at(first).at}
		if i = t.arrays(e, i+1); i < 0 || !t.at(i).is("{") {
			return nil, fmt.Errorf("stablehlo: the signature of @main is not in MLIR's usual form")
		}
		e.body, e.end = t.at(i).end, t.at(t.pairs[i]).at
		found, i = e, t.skip(i)
	}
	if found == nil {
		return nil, fmt.Errorf("stablehlo: the program has no func.func @main in MLIR's usual form")
	}
	return found, nil
}

// body is the number of the first token in a module's braces, i the one behind the word.
func (t *text) body(i int) int {
	if t.at(i).kind == tokenSymbol {
		i++
	}
	if t.at(i).named("attributes") {
		i = t.skip(i + 1)
	}
	if t.at(i).is("{") {
		i++
	}
	return i
}

// arrays reads "(%0: type {…}, …) -> (type {…}, …) attributes {…}" from token i and returns the number of the token
// behind it, -1 if it is something else.
func (t *text) arrays(e *entry, i int) int {
	if !t.at(i).is("(") {
		return -1
	}
	end := t.pairs[i]
	for i++; i < end; {
		if t.at(i).kind != tokenValue || !t.at(i+1).is(":") {
			return -1
		}
		p := typed{name: "%" + t.at(i).word}
		if i = t.typed(&p, i+2, end); i < 0 {
			return -1
		}
		e.params = append(e.params, p)
	}
	i = end + 1
	if t.at(i).is("->") {
		if i++; !t.at(i).is("(") {
			var p typed
			if i = t.typ(&p, i); i < 0 {
				return -1
			}
			p.all = p.typ
			e.results = append(e.results, p)
		} else {
			end = t.pairs[i]
			for i++; i < end; {
				var p typed
				if i = t.typed(&p, i, end); i < 0 {
					return -1
				}
				e.results = append(e.results, p)
			}
			i = end + 1
		}
	}
	if t.at(i).named("attributes") {
		i = t.skip(i + 1)
	}
	return i
}

// typed reads a type, its attributes, its location and a comma.
func (t *text) typed(p *typed, i, end int) int {
	first := t.at(i)
	if p.name != "" {
		first = t.at(i - 2)
	}
	if i = t.typ(p, i); i < 0 {
		return -1
	}
	if t.at(i).is("{") {
		i = t.skip(i)
	}
	p.all = t.all[first.at:t.at(i-1).end]
	if t.at(i).named("loc") {
		i = t.skip(i + 1)
	}
	switch {
	case i == end:
		return i
	case t.at(i).is(",") && i+1 < end:
		return i + 1
	}
	return -1
}

// typ reads a type: a word, or a word with something in angle brackets.
func (t *text) typ(p *typed, i int) int {
	first := t.at(i)
	if first.kind != tokenWord {
		return -1
	}
	if i++; t.at(i).is("<") {
		depth := 0
		for ; ; i++ {
			switch k := t.at(i); {
			case k.kind == tokenEnd:
				return -1
			case k.is("<"):
				depth++
			case k.is(">"):
				depth--
			}
			if depth == 0 {
				i++
				break
			}
		}
	}
	p.typ = t.all[first.at:t.at(i-1).end]
	return i
}

// arrayOf is the shape of a type "tensor<2x3xf32>" with fixed sizes, of an element type that torch has.
func arrayOf(typ string) (*shape.Shape, bool) {
	rest, ok := strings.CutPrefix(typ, "tensor<")
	rest, end := strings.CutSuffix(rest, ">")
	var dims []int64
	for ok && end && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		size, more, found := strings.Cut(rest, "x")
		n, err := strconv.ParseInt(size, 10, 64)
		if !found || err != nil {
			return nil, false
		}
		dims, rest = append(dims, n), more
	}
	d := dtype.Parse(rest)
	if !ok || !end || d == dtype.Invalid {
		return nil, false
	}
	s := shape.Of(d, dims)
	return s, s.Bytes() < math.MaxInt64
}

// signature is the types of @main.
func (e *entry) signature() (s Signature, err error) {
	for list, arrays := range map[*[]*shape.Shape][]typed{&s.Params: e.params, &s.Results: e.results} {
		for _, a := range arrays {
			array, ok := arrayOf(a.typ)
			if !ok {
				return Signature{}, fmt.Errorf("stablehlo: @main has a parameter or result of type %.100s, want an array of fixed sizes", a.typ)
			}
			*list = append(*list, array)
		}
	}
	return s, nil
}
