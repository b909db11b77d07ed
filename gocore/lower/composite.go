package lower

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// attributesOf reads an object of JSON with texts, booleans, numbers, and lists of booleans or of numbers. Integers are
// i64, others f32, as torch_xla writes them; a list with one other is f32.
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
		a, err := attribute(name, values[name])
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		attrs = append(attrs, a)
	}
	return attrs, nil
}

func attribute(name string, value any) (stablehlo.Attr, error) {
	switch v := value.(type) {
	case string:
		return stablehlo.StringAttr(name, v), nil
	case bool:
		return stablehlo.BoolAttr(name, v), nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return stablehlo.Int64Attr(name, n), nil
		}
		f, err := v.Float64()
		return stablehlo.Float32Attr(name, float32(f)), err
	case []any:
		if booleans, ok := each(v, func(x any) (bool, bool) { b, ok := x.(bool); return b, ok }); ok && len(v) > 0 {
			return stablehlo.DenseAttr(name, booleans), nil
		}
		if integers, ok := each(v, integer); ok {
			return stablehlo.DenseAttr(name, integers), nil
		}
		if floats, ok := each(v, float); ok {
			return stablehlo.DenseAttr(name, floats), nil
		}
		return stablehlo.Attr{}, fmt.Errorf("want a list of numbers or of booleans: got %v", v)
	}
	return stablehlo.Attr{}, fmt.Errorf("want a text, a boolean, a number or a list: got %v", value)
}

// each reads all values of a list; false: one is of another type.
func each[T any](values []any, read func(any) (T, bool)) ([]T, bool) {
	out := make([]T, len(values))
	for i, v := range values {
		var ok bool
		if out[i], ok = read(v); !ok {
			return nil, false
		}
	}
	return out, true
}

func integer(value any) (int64, bool) {
	n, isNumber := value.(json.Number)
	if !isNumber {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

func float(value any) (float32, bool) {
	n, isNumber := value.(json.Number)
	if !isNumber {
		return 0, false
	}
	f, err := n.Float64()
	return float32(f), err == nil
}
