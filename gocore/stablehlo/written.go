package stablehlo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Written is what @main of a program's text computes, as a function for other modules to call. The text is in MLIR's
// usual form, such as JAX prints it: functions, in a module or not. Arrays that @main takes and returns have fixed
// sizes, or it is an error. Unlike Foreign it trusts the text, which may call code of the process.
func Written(module []byte) (*Function, error) {
	t, err := newText(module)
	if err != nil {
		return nil, err
	}
	e, err := t.main()
	if err != nil {
		return nil, err
	}
	s, err := e.signature()
	if err != nil {
		return nil, err
	}
	texts, err := t.functions()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(module)
	out := &Function{Name: "user_" + hex.EncodeToString(sum[:16]), Params: s.Params, Results: s.Results}
	renamed := make(map[string]string, len(texts))
	for _, f := range texts {
		renamed[f.name] = out.Name + "_" + f.name
	}
	renamed["main"] = out.Name
	for _, f := range texts {
		own := &Func{function{name: renamed[f.name], text: t.renamed(f, renamed)}}
		if f.name == "main" {
			own.f.params, own.f.results = typesOf(s.Params), typesOf(s.Results)
			out.funcs = append([]*Func{own}, out.funcs...)
			continue
		}
		out.funcs = append(out.funcs, own)
	}
	return out, nil
}

// typesOf are values that stand for arrays of these shapes.
func typesOf(shapes []*shape.Shape) []Value {
	out := make([]Value, len(shapes))
	for i, s := range shapes {
		out[i].s = s
	}
	return out
}

// written is a function in a program's text: the tokens behind its name up to the brace that ends it.
type written struct {
	name       string
	first, end int
}

// functions finds all functions. Anything else beside them is an error: a function cannot take it along.
func (t *text) functions() (out []written, err error) {
	i := 0
	if t.at(0).named("module") {
		i = t.body(1)
	}
	for ; t.at(i).kind != tokenEnd && !t.at(i).is("}"); i++ {
		first := t.at(i)
		if !first.named("func.func") {
			return nil, fmt.Errorf("stablehlo: the program has %.40q beside its functions", t.all[first.at:min(first.at+40, len(t.all))])
		}
		for i++; t.at(i).kind == tokenWord; i++ {
		}
		f := written{name: t.at(i).word, first: i + 1}
		if t.at(i).kind != tokenSymbol {
			return nil, fmt.Errorf("stablehlo: a function of the program has no name")
		}
		if i = t.arrays(&entry{}, i+1); i < 0 || !t.at(i).is("{") {
			return nil, fmt.Errorf("stablehlo: the signature of @%.100s is not in MLIR's usual form", f.name)
		}
		i = t.pairs[i]
		f.end = i
		out = append(out, f)
	}
	return out, nil
}

// renamed is the text of a private function in which functions have other names. Its lines are indented as those of
// Bytes are, which NewCut relies on.
func (t *text) renamed(f written, names map[string]string) []byte {
	var out strings.Builder
	out.WriteString("  func.func private @")
	out.Write(appendSymbol(nil, names[f.name]))
	at := t.at(f.first).at
	for i := f.first; i <= f.end; i++ {
		if s := t.at(i); s.kind == tokenSymbol && names[s.word] != "" {
			out.WriteString(t.all[at:s.at] + "@")
			out.Write(appendSymbol(nil, names[s.word]))
			at = s.end
		}
	}
	out.WriteString(t.all[at:t.at(f.end).at])
	lines := strings.Split(strings.TrimRight(out.String(), " \t\r\n"), "\n")
	for i := 1; i < len(lines); i++ {
		lines[i] = "    " + strings.TrimLeft(lines[i], " \t")
	}
	return []byte(strings.Join(lines, "\n") + "\n  }\n")
}
