package engine

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// How many graphs are kept to compare a new one with, and how many lowerings are remembered.
const (
	comparable  = 8
	remembered  = 64
	longestLine = 200
)

// lowered is the graph of a program, to compare later ones with.
type lowered struct {
	plan  *lazy.Plan
	step  int64
	lines []uint64 // see lazy.Plan.Lines
}

// Compilation says why a graph was lowered again.
type Compilation struct {
	Step    int64  `json:"step"` // the sync that met it
	Program string `json:"program"`
	Device  string `json:"device"`
	Nodes   int    `json:"nodes"`
	Params  int    `json:"parameters"`
	Results int    `json:"results"`
	// Nearest is the step of the earlier graph that agrees longest with this one; 0 for the first graph.
	Nearest int64 `json:"nearest"`
	// Equal is how many leading nodes they have in common.
	Equal int `json:"equal"`
	// Was and Now are the first nodes that differ; "" where a graph has ended.
	Was   string `json:"was"`
	Now   string `json:"now"`
	Where string `json:"where"` // the source line that recorded Now
	// Reason is the difference in words.
	Reason string `json:"reason"`
	// Tier says of a graph that runs op by op how often it was seen, and from when on a compilation is worth it; ""
	// for one that was compiled.
	Tier string `json:"tier"`
	// Work is what such a graph does.
	Work *work `json:"work,omitempty"`

	ops *interpretable // nil: it was compiled
}

// history is what explanations draw on; guarded by mu.
type history struct {
	graphs []lowered
	log    []Compilation
}

// argument is behind a number that is an argument of the program, in the text of a graph.
const argument = " (argument"

// explain notes a plan that is new, with a copy to keep, and how it differs from the earlier graph nearest to it.
func (h *history) explain(p, kept *lazy.Plan, d *runtime.Device, step int64, where func(int32) string, ops *interpretable) {
	now := lowered{plan: kept, step: step, lines: p.Lines()}
	c := Compilation{Step: step, Program: p.Key.String(), Device: d.String(),
		Nodes: len(p.Nodes), Params: len(p.Params), Results: len(p.Roots), ops: ops}
	var near *lowered
	for i := range h.graphs {
		if n := common(h.graphs[i].lines, now.lines); near == nil || n >= c.Equal {
			near, c.Equal = &h.graphs[i], n
		}
	}
	if near == nil {
		c.Reason = "the first graph"
	} else {
		c.Nearest = near.step
		c.Was, c.Now = near.text(c.Equal), now.text(c.Equal)
		for i := c.Equal; c.Where == "" && i < len(p.Nodes); i++ { // what autograd records has no line: the next op's
			c.Where = where(p.Trace.Graph.At(p.Nodes[i]).Loc)
		}
		c.Reason = difference(c.Was, c.Now)
	}
	if len(h.graphs) == comparable {
		h.graphs = append(h.graphs[:0], h.graphs[1:]...)
	}
	h.graphs = append(h.graphs, now)
	if len(h.log) == remembered {
		h.log = append(h.log[:0], h.log[1:]...)
	}
	h.log = append(h.log, c)
	if config.Number("PT_XLA_DEBUG_LEVEL") >= 1 || config.On("PT_XLA_DEBUG") {
		tell(c)
	}
}

// tell writes an explanation to where the user wants it; stderr if that cannot be.
func tell(c Compilation) {
	path := config.String("PT_XLA_DEBUG_FILE")
	if path == "" || appendTo(path, c.String()+"\n") != nil {
		fmt.Fprintln(os.Stderr, c)
	}
}

// appendTo adds text to a file, which it makes if there is none.
func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// text is a line of the graph's text form; "" behind the last one.
func (l *lowered) text(i int) string {
	if i >= len(l.lines) {
		return ""
	}
	text := planLine(l.plan, i)
	if head, rest, ok := strings.Cut(text, argument); ok { // its value does not matter
		text = head[:strings.LastIndexByte(head, ' ')] + argument + rest
	}
	if len(text) > longestLine {
		text = text[:longestLine] + "…"
	}
	return text
}

func common(a, b []uint64) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// difference says in words how two lines of graphs differ: "%3 = op operands {attributes} : shape".
func difference(was, now string) string {
	a, b := parts(was), parts(now)
	switch {
	case was == now:
		return "the same graph with other buffers to write into, or other options of the compiler"
	case a.op == "return" && b.op == "return":
		return "other results are alive at the end of the step"
	case was == "" || now == "" || a.op == "return" || b.op == "return":
		return "one step has more ops than the other"
	case b.op == "xla::data" && a.op != b.op:
		return "an input where the other step computes: " + a.op
	case a.op == "xla::data" && a.op != b.op:
		return "computed where the other step has an input: " + b.op
	case a.op != b.op:
		return fmt.Sprintf("another op: %s, not %s", b.op, a.op)
	case a.shape != b.shape && b.op == "xla::data":
		return fmt.Sprintf("an input has another shape: %s, not %s", b.shape, a.shape)
	case a.shape != b.shape:
		return fmt.Sprintf("another shape: %s, not %s", b.shape, a.shape)
	case b.op == "xla::scalar":
		return fmt.Sprintf("a number that is part of the program: %s, not %s", b.args, a.args)
	case a.attrs != b.attrs:
		return fmt.Sprintf("other arguments of %s: {%s}, not {%s}", b.op, b.attrs, a.attrs)
	}
	return fmt.Sprintf("other operands of %s:%s, not%s", b.op, b.args, a.args)
}

type parsed struct{ op, args, attrs, shape string }

func parts(line string) (p parsed) {
	if strings.HasPrefix(line, "return") {
		return parsed{op: "return"}
	}
	if _, rest, ok := strings.Cut(line, " = "); ok {
		line = rest
	}
	if i := strings.LastIndex(line, " : "); i >= 0 {
		line, p.shape = line[:i], line[i+3:]
	}
	if i := strings.Index(line, " {"); i >= 0 {
		line, p.attrs = line[:i], strings.TrimSuffix(line[i+2:], "}")
	}
	p.op, p.args, _ = strings.Cut(line, " ")
	return p
}

// String is the explanation for people.
func (c Compilation) String() string {
	var b strings.Builder
	what := "compiles a program"
	if how := tierOf(c.ops); how != "" {
		what = "runs " + how + ", a program"
	}
	fmt.Fprintf(&b, "torch_go_xla: step %d on %s %s of %d nodes: %s", c.Step, c.Device, what, c.Nodes, c.Reason)
	if c.Nearest > 0 {
		fmt.Fprintf(&b, "\n  nearest: the program of step %d, equal up to node %d", c.Nearest, c.Equal)
		fmt.Fprintf(&b, "\n  was: %s\n  now: %s", c.Was, c.Now)
		if c.Where != "" {
			fmt.Fprintf(&b, "\n  at:  %s", c.Where)
		}
	}
	return b.String()
}
