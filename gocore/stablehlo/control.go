package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Branch is the body of a branch of If or Case. It may use values from around it.
type Branch func(b *Builder) []Value

// If runs one of two branches by an i1 of rank 0. Both return values of the same types.
func (b *Builder) If(pred Value, then, otherwise Branch) []Value {
	return b.branches("stablehlo.if", pred, dtype.Bool, then, otherwise)
}

// Case runs branch number index, an i32 of rank 0; the last one if there is no such branch.
func (b *Builder) Case(index Value, branches ...Branch) []Value {
	return b.branches("stablehlo.case", index, dtype.I32, branches...)
}

func (b *Builder) branches(op string, sel Value, d dtype.DType, branches ...Branch) []Value {
	if sel.Shape() != shape.Of(d, nil) {
		b.fail(op, "the selector is not "+d.String()+"[]", sel)
	}
	if len(branches) == 0 {
		b.fail(op, "no branches", sel)
	}
	b.checkAll(op, []Value{sel})
	var types []*shape.Shape
	texts := make([][]byte, 0, len(branches))
	for i, br := range branches {
		text, got := b.region(op, false, nil, func([]Value) []Value { return br(b) })
		if i == 0 {
			types = shapesOf(got)
		} else {
			b.yields(op, got, types)
		}
		texts = append(texts, text)
	}
	return b.opN(op, []Value{sel}, texts, types)
}

// While runs body as long as cond is true (an i1 of rank 0). Both get the loop's values, which start
// as init and keep their types. Both may use values from around the loop.
func (b *Builder) While(init []Value, cond func(b *Builder, vals []Value) Value, body func(b *Builder, vals []Value) []Value) []Value {
	const op = "stablehlo.while"
	types := shapesOf(init)
	if !b.checkAll(op, init) {
		return b.failAll(op, "", init)
	}
	c, got := b.region(op, false, types, func(v []Value) []Value { return []Value{cond(b, v)} })
	b.yields(op, got, []*shape.Shape{shape.Of(dtype.Bool, nil)})
	text, got := b.region(op, false, types, func(v []Value) []Value { return body(b, v) })
	b.yields(op, got, types)
	return b.opN(op, init, [][]byte{c, text}, types)
}

// OptimizationBarrier keeps the compiler from moving anything across: the results are the operands.
func (b *Builder) OptimizationBarrier(xs ...Value) []Value {
	return b.opN("stablehlo.optimization_barrier", xs, nil, shapesOf(xs))
}

// Func is a private function of the module. Get one from DefineFunc.
type Func struct{ f function }

// Name is the function's symbol, without the @.
func (f *Func) Name() string { return f.f.name }

// Results are the types of its results.
func (f *Func) Results() []*shape.Shape { return shapesOf(f.f.results) }

// DefineFunc adds a private function, whose body may not use values from around it. A second definition under the same
// name is not written: the caller gets the first. So a name must say everything that the body depends on. It may be
// called anywhere, also inside a region.
func (b *Builder) DefineFunc(name string, params []*shape.Shape, body func(b *Builder, args []Value) []Value) *Func {
	const op = "func.func"
	if f := b.Func(name); f != nil {
		if !sameShapes(shapesOf(f.f.params), params) {
			b.fail(op, fmt.Sprintf("@%s is defined with other parameters", name), f.f.params...)
		}
		return f
	}
	f := &Func{function{name: name}}
	if name == "main" || name == "" {
		b.fail(op, fmt.Sprintf("no function can be called %q", name))
	}
	out, scopes, depth, attrs, extra := b.out, b.scopes, b.depth, b.attrs, b.extra
	b.out, b.scopes, b.depth, b.attrs, b.extra = nil, nil, 2, nil, nil
	b.push(op, true)
	for _, s := range params {
		if !valid(s) {
			b.fail(op, fmt.Sprintf("a parameter of @%s is of type %s", name, s))
		}
		f.f.params = append(f.f.params, b.fresh(s))
	}
	b.funcs = append(b.funcs, f)
	f.f.results = body(b, f.f.params)
	b.emit("func.return", f.f.results, nil)
	f.f.body = b.out
	b.out, b.scopes, b.depth, b.attrs, b.extra = out, scopes, depth, attrs, extra
	return f
}

// Func is the function defined under this name, nil if there is none.
func (b *Builder) Func(name string) *Func {
	for _, f := range b.funcs {
		if f.f.name == name {
			return f
		}
	}
	return nil
}

// Call calls a function of this module.
func (b *Builder) Call(f *Func, args ...Value) []Value {
	const op = "func.call"
	if f == nil {
		return b.failAll(op, "no function", args)
	}
	if !sameShapes(shapesOf(f.f.params), shapesOf(args)) {
		b.failAll(op, fmt.Sprintf("@%s takes %s", f.f.name, shapesOf(f.f.params)), args)
	}
	b.attrName("callee")
	b.attrs = appendSymbol(append(b.attrs, '@'), f.f.name)
	return b.opN(op, args, nil, f.Results())
}

// Composite is an operation with a name of its own ("torch.gelu") that backends may know; for others
// it is a call of decomposition. attrs become its composite_attributes.
func (b *Builder) Composite(name string, decomposition *Func, args []Value, attrs ...Attr) []Value {
	const op = "stablehlo.composite"
	if decomposition == nil {
		return b.failAll(op, "no decomposition", args)
	}
	if !sameShapes(shapesOf(decomposition.f.params), shapesOf(args)) {
		b.fail(op, "operands do not fit the decomposition", args...)
	}
	b.attrString("name", name)
	b.attrName("decomposition")
	b.attrs = appendSymbol(append(b.attrs, '@'), decomposition.f.name)
	if len(attrs) > 0 {
		b.attrName("composite_attributes")
		b.attrs = appendAttrs(b.attrs, attrs)
	}
	return b.opN(op, args, nil, decomposition.Results())
}

func sameShapes(a, b []*shape.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
