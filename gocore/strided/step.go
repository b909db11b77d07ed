package strided

import (
	"fmt"
	"strings"
)

// Kind says what a Step does.
type Kind uint8

// The kinds of step. All but Gather and Empty are the StableHLO operation of that name.
const (
	// Reshape gives the same elements in row-major order the dimensions Dims.
	Reshape Kind = iota
	// Slice keeps Starts[d], Starts[d]+Strides[d], … below Limits[d] of each dimension.
	Slice
	// Transpose makes dimension Perm[d] of the operand dimension d of the result.
	Transpose
	// Broadcast makes dimension d of the operand dimension Mapping[d] of the result, and repeats it
	// along the others and where the operand's is 1. Mapping ascends.
	Broadcast
	// Pad adds Low[d] elements before and High[d] after each dimension. Their value is never used.
	Pad
	// Gather takes, for every index i below Dims, the element Offset + Σ i[d]·Strides[d] of the operand,
	// which has one dimension.
	Gather
	// Empty is an array of dimensions Dims without elements; the operand is not used.
	Empty
)

var kindNames = [...]string{"reshape", "slice", "transpose", "broadcast", "pad", "gather", "empty"}

// String is the name in the text form.
func (k Kind) String() string { return kindNames[k] }

// Step is one dense array operation. The fields that the kind does not name are nil or 0.
type Step struct {
	Kind Kind
	// Dims are the dimensions of the result, for every kind.
	Dims []int64
	// Starts, Limits and Strides are those of a Slice; Strides also those of a Gather.
	Starts, Limits, Strides []int64
	// Perm is the permutation of a Transpose.
	Perm []int64
	// Mapping is the broadcast_dimensions of a Broadcast.
	Mapping []int64
	// Low and High are the edge padding of a Pad.
	Low, High []int64
	// Offset is the first element of a Gather.
	Offset int64
}

// String is the text form of the step.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(s.Kind.String())
	switch s.Kind {
	case Reshape:
		return b.String() + list(s.Dims)
	case Slice:
		b.WriteByte('[')
		for d, lo := range s.Starts {
			if d > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%d:%d", lo, s.Limits[d])
			if s.Strides[d] != 1 {
				fmt.Fprintf(&b, ":%d", s.Strides[d])
			}
		}
		b.WriteByte(']')
	case Transpose:
		b.WriteString(round(s.Perm))
	case Broadcast:
		b.WriteString(round(s.Mapping))
	case Pad:
		b.WriteByte('(')
		for d, lo := range s.Low {
			if d > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%d,%d", lo, s.High[d])
		}
		b.WriteByte(')')
	case Gather:
		fmt.Fprintf(&b, "(%s stride %s + %d)", list(s.Dims), list(s.Strides), s.Offset)
	}
	return b.String() + "=" + list(s.Dims)
}

// Program is a sequence of steps; without steps it gives its operand.
type Program struct {
	Steps []Step
}

// String is the text form.
func (p Program) String() string { return text(p.Steps) }

func text(steps []Step) string {
	parts := make([]string, len(steps))
	for i, s := range steps {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}

func list(dims []int64) string  { return "[" + join(dims) + "]" }
func round(dims []int64) string { return "(" + join(dims) + ")" }

func join(dims []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", ",")
}
