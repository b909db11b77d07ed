package lower

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// composite is what lies between marks of one id (torch_go_xla::mark). It becomes an operation stablehlo.composite, which
// backends know by its name, with a function that computes the same for those that do not.
type composite struct {
	mark
	inputs, outputs []mark  // by position
	inside          []ir.ID // what the function computes, in the order of recording; nil: it stays in its place
	outside         []ir.ID // what it reads beside its inputs
}

// mark is a node of the op torch_go_xla::mark.
type mark struct {
	node       ir.ID
	name       string
	position   int64
	id         string
	input      bool
	attributes string // JSON, of an output
}

var opMark, _ = ops.Lookup("torch_go_xla::mark")

// composites finds the composites among nodes, by the nodes of their outputs, and which nodes are to be lowered for
// roots, in the order of recording. Without marks these are all nodes, in their order. With SPMD marks do nothing: the
// partitioner does not look into composites.
func (w *lowering) composites(nodes, roots []ir.ID) ([]ir.ID, map[ir.ID]*composite) {
	g := w.graph
	if !slices.ContainsFunc(nodes, func(id ir.ID) bool { return g.At(id).Op == opMark }) || w.plan.Trace.Partitions > 0 {
		return nodes, nil
	}
	nodes = slices.Sorted(slices.Values(nodes))
	groups := make(map[string]*composite)
	for _, id := range nodes {
		if g.At(id).Op != opMark {
			continue
		}
		var a ir.Args
		a.Node(g, id)
		m := mark{id, a.Text(1), a.Int(2), a.Text(3), a.Bool(4), a.Text(5)}
		c := groups[m.id]
		if c == nil {
			c = &composite{mark: m}
			groups[m.id] = c
		}
		if m.input {
			c.inputs = append(c.inputs, m)
		} else {
			c.outputs = append(c.outputs, m)
		}
	}
	found := make(map[ir.ID]*composite)
	for _, c := range groups {
		if w.enclose(c, nodes) {
			for _, m := range c.outputs {
				found[m.node] = c
			}
		}
	}
	return w.needed(nodes, roots, found), found
}

// enclose finds what is computed between the marks; false: nothing that a function can hold. What was recorded before the
// first mark is outside.
func (w *lowering) enclose(c *composite, nodes []ir.ID) bool {
	if len(c.outputs) == 0 {
		return false
	}
	first, last := nodes[0], c.outputs[0].node
	if len(c.inputs) > 0 {
		first = c.inputs[0].node
	}
	inputs := make(map[ir.ID]bool)
	for _, m := range c.inputs {
		inputs[m.node] = true
	}
	inside := make(map[ir.ID]bool)
	var stack []ir.ID
	for _, m := range c.outputs {
		stack = append(stack, w.graph.In(m.node)[0])
	}
	for len(stack) > 0 {
		id := w.graph.Producer(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if id == ir.None || inputs[id] || inside[id] {
			continue
		}
		if id < first || w.graph.At(id).Op < ir.FirstRow {
			c.outside = append(c.outside, id)
			continue
		}
		if row := ops.Of(w.graph.At(id).Op); id > last || row.Collective || row.Exchanges {
			return false
		}
		inside[id] = true
		stack = append(stack, w.graph.In(id)...)
	}
	c.inside = slices.Sorted(maps.Keys(inside))
	for _, marks := range [][]mark{c.inputs, c.outputs} {
		slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.position, b.position) })
	}
	return true
}

// needed is the nodes that roots need when each composite is one operation.
func (w *lowering) needed(nodes, roots []ir.ID, found map[ir.ID]*composite) []ir.ID {
	need := make(map[ir.ID]bool)
	stack := slices.Clone(roots)
	for len(stack) > 0 {
		id := w.graph.Producer(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if id == ir.None || need[id] {
			continue
		}
		need[id] = true
		c := found[id]
		if c == nil {
			stack = append(stack, w.graph.In(id)...)
			continue
		}
		stack = append(stack, c.outside...)
		for _, m := range slices.Concat(c.inputs, c.outputs) {
			stack = append(stack, m.node)
		}
	}
	return slices.DeleteFunc(nodes, func(id ir.ID) bool { return !need[id] })
}

// compose emits the operation of a composite.
func (w *lowering) compose(c *composite, o Options) error {
	attributes, err := attributesOf(c.outputs)
	if err != nil {
		return errs.New(errs.Value, "composite %s: %v", c.name, err)
	}
	sub := newLowering(w.plan, "composite")
	sub.outer, sub.fixed = w, w.fixed
	for _, m := range c.inputs {
		sub.vals[m.node] = sub.take(w.vals[m.node])
	}
	o.Locations = false
	roots := make([]ir.ID, len(c.outputs))
	for i, m := range c.outputs {
		roots[i] = w.graph.In(m.node)[0]
	}
	l, err := sub.nodes(c.inside, roots, o)
	if err != nil {
		return err
	}
	outs := make([]stablehlo.Value, len(roots))
	for i, id := range roots {
		outs[i] = sub.root(l, id)
	}
	sub.b.Return(outs...)
	f, err := sub.b.Function()
	if err != nil {
		return err
	}
	for i, v := range w.b.Composite(c.name, w.b.Import(f), sub.taken, attributes...) {
		w.vals[c.outputs[i].node] = v
	}
	return w.b.Err()
}

// take makes a value of the module around a parameter of the function.
func (w *lowering) take(v stablehlo.Value) stablehlo.Value {
	w.taken = append(w.taken, v)
	return w.b.Param(v.Shape())
}

// attributesOf reads the attributes that an output carries: an object of JSON with texts, booleans, numbers, and lists of
// one of the last two kinds. Integers are i64, others f32, as torch_xla writes them.
func attributesOf(outputs []mark) (attrs []stablehlo.Attr, err error) {
	i := slices.IndexFunc(outputs, func(m mark) bool { return m.attributes != "" })
	if i < 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(outputs[i].attributes)))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf("expected its attributes as an object of JSON: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, kind, err := attribute(values[name])
		switch list, isList := values[name].([]any); {
		case err != nil:
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		case isList:
			text = fmt.Sprintf("dense<%s> : tensor<%dx%s>", text, len(list), kind)
		case kind == "i64" || kind == "f32":
			text += " : " + kind
		}
		attrs = append(attrs, stablehlo.RawAttr(stablehlo.StringAttr("", name).Value(), text))
	}
	return attrs, nil
}

// attribute is a value as MLIR writes it, and the element type of a number or a list.
func attribute(value any) (text, kind string, err error) {
	switch v := value.(type) {
	case string:
		return stablehlo.StringAttr("", v).Value(), "text", nil
	case bool:
		return strconv.FormatBool(v), "i1", nil
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return v.String(), "i64", nil
		}
		f, err := v.Float64()
		return strings.TrimSuffix(stablehlo.Float32Attr("", float32(f)).Value(), " : f32"), "f32", err
	case []any:
		var texts []string
		for _, x := range v {
			t, k, err := attribute(x)
			if _, nested := x.([]any); err != nil || nested || k == "text" || kind != "" && k != kind {
				return "", "", fmt.Errorf("want numbers, or booleans, of one type: got %v", v)
			}
			texts, kind = append(texts, t), k
		}
		if kind == "" {
			return "[]", "i64", nil
		}
		return "[" + strings.Join(texts, ", ") + "]", kind, nil
	}
	return "", "", fmt.Errorf("want a text, a boolean, a number or a list: got %v", value)
}
