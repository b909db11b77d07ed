package ops

// Overlap says which writes to memory that an op also reads torch refuses. Whatever the op, it refuses to write to a
// view that has an element several times, if a stride of 0 shows that.
type Overlap uint8

const (
	// Unstated is Free, and in a family of elementwise ops Aligned.
	Unstated Overlap = iota
	// Free: no operand is looked at. The op has read everything before it writes.
	Free
	// Aligned: an operand may be what is written, element for element, but no part of it
	// (at::assert_no_partial_overlap). Elementwise ops are so.
	Aligned
	// Apart: no operand shares an element with what is written (at::assert_no_overlap).
	Apart
	// ApartButSelf is Apart for all operands but the first, which the op changes.
	ApartButSelf
	// Moved is Aligned, and what is written onto itself, element for element, is left as it is.
	Moved
)

// Checks reports whether an operand, by its position in the schema, must not overlap with what is written.
func (r *Row) Checks(arg int) bool {
	return r.Overlap > Free && !r.Uniform && (r.Overlap != ApartButSelf || arg > 0)
}
