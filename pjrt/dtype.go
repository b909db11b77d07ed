package pjrt

import "fmt"

// Type is the type of a buffer's elements, in PJRT's numbering.
type Type int32

// String is the name that XLA gives the type, such as BF16.
func (t Type) String() string {
	if t >= 0 && int(t) < len(types) {
		return types[t].name
	}
	return fmt.Sprintf("TYPE(%d)", int32(t))
}

// Size is the bytes that one element takes in host memory, where types of fewer
// than eight bits take one byte each; 0 for InvalidType and Token.
func (t Type) Size() int {
	if t >= 0 && int(t) < len(types) {
		return types[t].bits / 8
	}
	return 0
}
