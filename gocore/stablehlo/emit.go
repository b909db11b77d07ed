package stablehlo

import (
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

const indentation = "                                "

func (b *Builder) indent() {
	for n := 2 * b.depth; n > 0; {
		k := min(n, len(indentation))
		b.out = append(b.out, indentation[:k]...)
		n -= k
	}
}

// usable reports whether v may be an operand here; if not, it records why.
func (b *Builder) usable(op string, v Value) bool {
	if v.scope == 0 {
		b.fail(op, "an operand is the zero Value", v)
		return false
	}
	for i := len(b.scopes) - 1; i >= 0; i-- {
		f := &b.scopes[i]
		if f.id == v.scope {
			return true
		}
		if !f.isolated {
			continue
		}
		if i > 0 && b.isOpen(v.scope) {
			b.fail(op, "the body of "+f.op+" may not use a value from around it", v)
		} else {
			b.fail(op, "an operand comes from another function or from a region that has ended", v)
		}
		return false
	}
	return false
}

func (b *Builder) isOpen(scope int32) bool {
	for _, f := range b.scopes {
		if f.id == scope {
			return true
		}
	}
	return false
}

// checkAll is the part of emit that can fail; it is also run by operations with regions before
// their body, so that the error names the operation and not one of its body.
func (b *Builder) checkAll(op string, operands []Value) bool {
	for _, v := range operands {
		if b.err != nil || !b.usable(op, v) {
			return false
		}
	}
	return b.err == nil
}

// emit writes one operation with the attributes gathered in b.attrs, and returns the first of its
// results, which are numbered consecutively. After an error it writes nothing.
func (b *Builder) emit(op string, operands []Value, regions [][]byte, results ...*shape.Shape) Value {
	first := Value{}
	if !b.checkAll(op, operands) {
		if len(results) > 0 {
			first.s = results[0]
		}
		b.attrs, b.extra = b.attrs[:0], nil
		return first
	}
	b.indent()
	for i, s := range results {
		v := b.fresh(s)
		if i == 0 {
			first = v
		} else {
			b.out = append(b.out, ", "...)
		}
		b.out = v.append(b.out)
	}
	if len(results) > 0 {
		b.out = append(b.out, " = "...)
	}
	b.out = append(b.out, '"')
	b.out = append(b.out, op...)
	b.out = append(b.out, `"(`...)
	for i, v := range operands {
		if i > 0 {
			b.out = append(b.out, ", "...)
		}
		b.out = v.append(b.out)
	}
	b.out = append(b.out, ')')
	b.emitRegions(regions)
	b.emitMark(len(results))
	b.emitAttrs()
	b.emitSignature(operands, results)
	return first
}

func (b *Builder) emitRegions(regions [][]byte) {
	if len(regions) == 0 {
		return
	}
	b.out = append(b.out, " ({\n"...)
	for i, r := range regions {
		if i > 0 {
			b.indent()
			b.out = append(b.out, "}, {\n"...)
		}
		b.out = append(b.out, r...)
		b.spare = append(b.spare, r[:0])
	}
	b.indent()
	b.out = append(b.out, "})"...)
}

// emitMark adds the sharding of Mark to the operation's attributes: for several results, one for each.
func (b *Builder) emitMark(results int) {
	if results == 0 || !b.marks() || b.found() {
		return
	}
	text := b.mark.Sharding
	if results > 1 {
		text = "{" + text + strings.Repeat(", "+text, results-1) + "}"
	}
	b.extra = append(b.extra, Sharding(text))
}

func (b *Builder) emitAttrs() {
	for _, a := range b.extra {
		b.attrName(a.name)
		b.attrs = append(b.attrs, a.value...)
	}
	if len(b.attrs) > 0 {
		b.out = append(b.out, " {"...)
		b.out = append(b.out, b.attrs...)
		b.out = append(b.out, '}')
	}
	b.attrs, b.extra = b.attrs[:0], nil
}

func (b *Builder) emitSignature(operands []Value, results []*shape.Shape) {
	b.out = append(b.out, " : ("...)
	for i, v := range operands {
		if i > 0 {
			b.out = append(b.out, ", "...)
		}
		b.out = appendType(b.out, v.s)
	}
	b.out = append(b.out, ") -> "...)
	if len(results) != 1 {
		b.out = append(b.out, '(')
	}
	for i, s := range results {
		if i > 0 {
			b.out = append(b.out, ", "...)
		}
		b.out = appendType(b.out, s)
	}
	if len(results) != 1 {
		b.out = append(b.out, ')')
	}
	b.emitLoc()
	b.out = append(b.out, '\n')
}

// op1 writes an operation of one result.
func (b *Builder) op1(op string, out *shape.Shape, operands ...Value) Value {
	b.checkLoop(op)
	if b.apart(op) {
		return b.emitApart(op, operands, nil, []*shape.Shape{out})[0]
	}
	return b.emit(op, operands, nil, out)
}

// opN writes an operation of any number of results.
func (b *Builder) opN(op string, operands []Value, regions [][]byte, results []*shape.Shape) []Value {
	b.checkLoop(op)
	if b.apart(op) {
		return b.emitApart(op, operands, regions, results)
	}
	first := b.emit(op, operands, regions, results...)
	vs := make([]Value, len(results))
	for i, s := range results {
		vs[i] = Value{id: first.id + int32(i), scope: first.scope, s: s}
	}
	return vs
}

// apart reports that an operation is to be written with the marking's other one.
func (b *Builder) apart(op string) bool { return b.marks() && b.mark.Apart != nil && undivided(op) }

// checkLoop refuses an operation in a region, such as a loop's body, that the partitioner would end the process at.
func (b *Builder) checkLoop(op string) {
	if b.mark != nil && b.mark.Apart != nil && len(b.scopes) > 1 && undivided(op) && !strings.HasPrefix(op, "chlo.") {
		b.fail(op, "XLA cannot divide it within a loop, among devices that share a local value; redistribute() to Replicate() before")
	}
}

func (b *Builder) emitApart(op string, operands []Value, regions [][]byte, results []*shape.Shape) []Value {
	attrs, extra, m := b.attrs, b.extra, b.Mark(nil)
	defer b.Mark(m)
	b.attrs, b.extra = nil, nil
	in := make([]Value, len(operands))
	for i, v := range operands {
		in[i] = m.Apart.Into(v)
	}
	b.attrs, b.extra = attrs, extra
	b.Mark(m.Apart.Mark)
	vs := b.opN(op, in, regions, results)
	b.Mark(nil)
	for i, v := range vs {
		vs[i] = m.Apart.OutOf(v)
	}
	return vs
}

// region runs body in a scope of its own and returns the printed block with the values it ended
// with. args are the types of the block's arguments.
func (b *Builder) region(op string, isolated bool, args []*shape.Shape, body func(args []Value) []Value) ([]byte, []Value) {
	outer := b.out
	attrs := b.attrs
	extra := b.extra
	b.out, b.attrs, b.extra = nil, nil, nil
	if n := len(b.spare); n > 0 {
		b.out, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	b.push(op, isolated)
	b.indent()
	b.out = append(b.out, "^bb0("...)
	vals := make([]Value, len(args))
	for i, s := range args {
		if i > 0 {
			b.out = append(b.out, ", "...)
		}
		vals[i] = b.fresh(s)
		b.out = vals[i].append(b.out)
		b.out = append(b.out, ": "...)
		b.out = appendType(b.out, s)
	}
	b.out = append(b.out, "):\n"...)
	b.depth++
	results := body(vals)
	b.emit("stablehlo.return", results, nil)
	b.depth--
	b.scopes = b.scopes[:len(b.scopes)-1]
	text := b.out
	b.out, b.attrs, b.extra = outer, attrs, extra
	return text, results
}

// yields checks what a region ended with.
func (b *Builder) yields(op string, got []Value, want []*shape.Shape) bool {
	if b.err != nil {
		return false
	}
	if len(got) != len(want) {
		b.fail(op, "the body returns "+strconv.Itoa(len(got))+" values instead of "+strconv.Itoa(len(want)), got...)
		return false
	}
	for i, v := range got {
		if v.s != want[i] {
			b.fail(op, "the body returns "+v.s.String()+" as value "+strconv.Itoa(i)+" instead of "+want[i].String(), got...)
			return false
		}
	}
	return true
}

// valid reports whether s is the type of a tensor.
func valid(s *shape.Shape) bool {
	if s == nil || s.DType == dtype.Invalid {
		return false
	}
	for _, d := range s.Dims {
		if d < 0 {
			return false
		}
	}
	return true
}

func shapesOf(vs []Value) []*shape.Shape {
	out := make([]*shape.Shape, len(vs))
	for i, v := range vs {
		out[i] = v.Shape()
	}
	return out
}
