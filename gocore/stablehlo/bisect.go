package stablehlo

import (
	"bytes"
	"regexp"
	"strings"
)

// Bisection is a module, as Bytes wrote it or as MLIR prints it, in parts, to be put together again for some of its
// results.
type Bisection struct {
	name    string
	params  []string // "%0: tensor<2xf32>", without a word of donation
	results []typed
	returns []string     // "%5", or "%5#1" of an operation with several results
	ops     []bisectedOp // of @main, but for its return
	rest    []string     // functions, and what follows them
	define  map[string]int
	param   map[string]int
}

// bisectedOp is an operation with its regions.
type bisectedOp struct {
	text string
	uses []string
}

var (
	valueName  = regexp.MustCompile(`%[\w$.-]+`)
	resultName = regexp.MustCompile(`%[\w$.-]+(#\d+)?`)
	returning  = regexp.MustCompile(`^ *("func\.return"|func\.return\b|return\b)`)
	donation   = regexp.MustCompile(`(tf\.aliasing_output = \d+ : i32|jax\.buffer_donor = true)(, )?`)
	operation  = regexp.MustCompile(`^    [%"a-zA-Z_]`)
	calledFunc = regexp.MustCompile(`^  func\.func private (@[^(]+)\(`)
)

// Bisect takes a module apart. ok is false for a program that other devices take part in, as they would not run
// a part of it.
func Bisect(module []byte) (c *Bisection, ok bool) {
	for _, word := range []string{"replica_groups", "source_target_pairs", "channel_handle", "mhlo.sharding", "sdy.mesh"} {
		if bytes.Contains(module, []byte(word)) {
			return nil, false
		}
	}
	t, err := newText(module)
	if err != nil {
		return nil, false
	}
	e, err := t.main()
	if err != nil {
		return nil, false
	}
	c = &Bisection{name: strings.TrimRight(t.all[:e.at], " "), results: e.results, define: make(map[string]int), param: make(map[string]int)}
	for i, p := range e.params {
		c.param[p.name] = i
		c.params = append(c.params, strings.TrimSuffix(donation.ReplaceAllString(p.all, ""), " {}"))
	}
	for _, text := range statements(strings.TrimRight(t.all[e.body:e.end], " ")) {
		if returning.MatchString(text) {
			operands, _, _ := strings.Cut(text, " : ")
			c.returns = resultName.FindAllString(operands, -1)
			break
		}
		defined, _, _ := strings.Cut(text, " = ")
		if !strings.HasPrefix(text, "    %") {
			defined = ""
		}
		for _, v := range valueName.FindAllString(defined, -1) {
			c.define[v] = len(c.ops)
		}
		c.ops = append(c.ops, bisectedOp{text, valueName.FindAllString(text[len(defined):], -1)})
	}
	_, rest, _ := strings.Cut(t.all[e.end:], "\n")
	c.rest = functions(rest)
	return c, len(c.returns) == len(c.results)
}

// Size is the number of the program's parameters and that of its results.
func (c *Bisection) Size() (params, results int) { return len(c.params), len(c.results) }

// statements splits the body of @main: an operation begins where a line is indented by four spaces.
func statements(body string) (out []string) {
	for line := range strings.Lines(strings.TrimPrefix(body, "\n")) {
		if len(out) == 0 || operation.MatchString(line) {
			out = append(out, line)
		} else {
			out[len(out)-1] += line
		}
	}
	return out
}

// functions splits what follows @main: private functions, and the end of the module.
func functions(rest string) (out []string) {
	for line := range strings.Lines(rest) {
		if len(out) == 0 || strings.HasPrefix(line, "  func.func") || strings.HasPrefix(line, "}") {
			out = append(out, line)
		} else {
			out[len(out)-1] += line
		}
	}
	return out
}

// needed marks the operations and the parameters that some results need.
func (c *Bisection) needed(results []int) (ops, params []bool) {
	ops, params = make([]bool, len(c.ops)), make([]bool, len(c.params))
	need := func(v string) {
		v, _, _ = strings.Cut(v, "#")
		if i, ok := c.define[v]; ok {
			ops[i] = true
		} else if i, ok := c.param[v]; ok {
			params[i] = true
		}
	}
	for _, r := range results {
		need(c.returns[r])
	}
	for i := len(c.ops) - 1; i >= 0; i-- {
		if ops[i] {
			for _, v := range c.ops[i].uses {
				need(v)
			}
		}
	}
	return ops, params
}

// Need is the parameters that some results need, and the number of operations.
func (c *Bisection) Need(results []int) (params []int, ops int) {
	needed, used := c.needed(results)
	for i, ok := range used {
		if ok {
			params = append(params, i)
		}
	}
	for _, ok := range needed {
		if ok {
			ops++
		}
	}
	return params, ops
}

// Module is the part of the program that gives some of its results. Its parameters are those that Need names,
// and none of them is donated.
func (c *Bisection) Module(results []int) []byte {
	ops, params := c.needed(results)
	var out strings.Builder
	out.WriteString(c.name + "  func.func public @main(")
	comma := ""
	for i, p := range c.params {
		if params[i] {
			out.WriteString(comma + p)
			comma = ", "
		}
	}
	var given, types, values []string
	for _, r := range results {
		given, types, values = append(given, c.results[r].all), append(types, c.results[r].typ), append(values, c.returns[r])
	}
	out.WriteString(") -> (" + strings.Join(given, ", ") + ") {\n")
	for i, op := range c.ops {
		if ops[i] {
			out.WriteString(op.text)
		}
	}
	out.WriteString(`    "func.return"(` + strings.Join(values, ", ") + ") : (" + strings.Join(types, ", ") + ") -> ()\n  }\n")
	for _, f := range c.called(out.String()) {
		out.WriteString(f)
	}
	return []byte(out.String())
}

// called is the functions that a text calls, directly or not, and the end of the module.
func (c *Bisection) called(text string) (out []string) {
	keep := make([]bool, len(c.rest))
	for changed := true; changed; {
		changed = false
		for i, f := range c.rest {
			name := calledFunc.FindStringSubmatch(f)
			if !keep[i] && (name == nil || strings.Contains(text, name[1])) {
				keep[i], changed = true, true
				text += f
			}
		}
	}
	for i, f := range c.rest {
		if keep[i] {
			out = append(out, f)
		}
	}
	return out
}
