package stablehlo

import (
	"fmt"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// Error is a wrong use of an operation.
type Error struct {
	Op     string         // as in the text: "stablehlo.add"
	Msg    string         // what is wrong, without the operands
	Shapes []*shape.Shape // the operands; nil for a value that does not exist
	Loc    string         // the source location set by Builder.Loc, if any
}

// Error prints "stablehlo.add: operands differ in shape (f32[2], f32[3])".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	b.WriteString(e.Msg)
	for i, s := range e.Shapes {
		if i == 0 {
			b.WriteString(" (")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(s.String())
	}
	if len(e.Shapes) > 0 {
		b.WriteByte(')')
	}
	if e.Loc != "" {
		b.WriteString(" at ")
		b.WriteString(e.Loc)
	}
	return b.String()
}

// Err is the first error, nil if there is none.
func (b *Builder) Err() error {
	if b.err == nil {
		return nil
	}
	return b.err
}

// Failf records an error of the caller's own, if it is the first: op names what was being lowered.
// It returns a value shaped like the first operand, to go on with.
func (b *Builder) Failf(op string, operands []Value, format string, args ...any) Value {
	if b.err == nil {
		shapes := make([]*shape.Shape, len(operands))
		for i, v := range operands {
			shapes[i] = v.s
		}
		b.err = &Error{Op: op, Msg: fmt.Sprintf(format, args...), Shapes: shapes, Loc: b.locText()}
	}
	if len(operands) > 0 {
		return Value{s: operands[0].s}
	}
	return Value{}
}

// fail is Failf for the operations of this package.
func (b *Builder) fail(op string, msg string, operands ...Value) Value {
	return b.Failf(op, operands, "%s", msg)
}

// failAll is fail for operations with several results.
func (b *Builder) failAll(op string, msg string, operands []Value) []Value {
	b.Failf(op, operands, "%s", msg)
	out := make([]Value, len(operands))
	for i, v := range operands {
		out[i] = Value{s: v.s}
	}
	return out
}
