package lower

import (
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

// composite is what lies between two marks (torch_go_xla::mark). It becomes an operation stablehlo.composite, which
// backends know by its name, with a function that computes the same for those that do not.
type composite struct {
	begin, end ir.ID // the marks: of the operands, of the results
	name       string
	attributes string  // JSON, "" for none
	results    []ir.ID // what is computed
	inside     []ir.ID // what the function computes, in the order of recording
	outside    []ir.ID // what it reads beside the operands
}

var opMark, _ = ops.Lookup("torch_go_xla::mark")

// composites finds the composites among nodes, by the marks of their results. It returns which nodes are to be lowered
// for roots, in the order of recording; without marks all of them, in their order. With SPMD marks do nothing: the
// partitioner does not look into composites.
func (w *lowering) composites(nodes, roots []ir.ID) ([]ir.ID, map[ir.ID]*composite) {
	g := w.graph
	if !slices.ContainsFunc(nodes, func(id ir.ID) bool { return g.At(id).Op == opMark }) || w.plan.Trace.Partitions > 0 {
		return nodes, nil
	}
	nodes = slices.Sorted(slices.Values(nodes))
	found := make(map[ir.ID]*composite)
	for _, id := range nodes {
		if g.At(id).Op != opMark {
			continue
		}
		var a ir.Args
		a.Node(g, id)
		if a.ID(1) == ir.None {
			continue
		}
		c := &composite{begin: g.Producer(a.ID(1)), end: id, name: a.Text(2), attributes: a.Text(3), results: a.IDs(0)}
		if g.At(c.begin).Op == opMark && w.enclose(c) {
			found[id] = c
		}
	}
	return w.needed(nodes, roots, found), found
}

// enclose finds what is computed between the marks; false: there is a collective, whose order a function would hide.
// What was recorded before the first mark is outside.
func (w *lowering) enclose(c *composite) bool {
	seen := make(map[ir.ID]bool)
	stack := slices.Clone(c.results)
	for len(stack) > 0 {
		id := w.graph.Producer(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if id == ir.None || id == c.begin || seen[id] {
			continue
		}
		seen[id] = true
		if id < c.begin || w.graph.At(id).Op < ir.FirstRow {
			c.outside = append(c.outside, id)
			continue
		}
		if row := ops.Of(w.graph.At(id).Op); row.Collective || row.Exchanges {
			return false
		}
		c.inside = append(c.inside, id)
		stack = append(stack, w.graph.In(id)...)
	}
	slices.Sort(c.inside)
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
		if c := found[id]; c != nil {
			stack = append(append(stack, c.begin), c.outside...)
		} else {
			stack = append(stack, w.graph.In(id)...)
		}
	}
	return slices.DeleteFunc(nodes, func(id ir.ID) bool { return !need[id] })
}

// compose emits the operation of a composite.
func (w *lowering) compose(c *composite, o Options) error {
	attributes, err := attributesOf(c.attributes)
	if err != nil {
		return errs.New(errs.Value, "composite %s: %v", c.name, err)
	}
	sub := newLowering(w.plan, "composite")
	sub.outer, sub.fixed = w, w.fixed
	for k := range ir.ID(w.graph.At(c.begin).Results) {
		sub.vals[c.begin+k] = sub.take(w.vals[c.begin+k])
	}
	o.Locations = false
	l, err := sub.nodes(c.inside, c.results, o)
	if err != nil {
		return err
	}
	outs := make([]stablehlo.Value, len(c.results))
	for i, id := range c.results {
		outs[i] = sub.root(l, id)
	}
	sub.b.Return(outs...)
	f, err := sub.b.Function()
	if err != nil {
		return err
	}
	for i, v := range w.b.Composite(c.name, w.b.Import(f), sub.taken, attributes...) {
		w.vals[c.end+ir.ID(i)] = v
	}
	return w.b.Err()
}

// take makes a value of the module around a parameter of the function.
func (w *lowering) take(v stablehlo.Value) stablehlo.Value {
	w.taken = append(w.taken, v)
	return w.b.Param(v.Shape())
}

// attributesOf reads an object of JSON with texts, booleans, numbers, and lists of one of the last two kinds. Integers
// are i64, others f32, as torch_xla writes them.
func attributesOf(text string) (attrs []stablehlo.Attr, err error) {
	if text == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
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
