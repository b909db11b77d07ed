package ops

import "strings"

// Overlap says which writes to memory that an op also reads torch refuses. Whatever the op, it refuses to write to a
// view that has an element several times, if a stride of 0 shows that.
type Overlap uint8

const (
	// Free: what is written is looked at alone. The op has read everything before it writes.
	Free Overlap = iota
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

// overlaps has the rules by the names of ops, without overloads. Families of elementwise ops are Aligned, all others
// Free, but for these.
var overlaps = map[Overlap]string{
	Free:    "fill", // torch copies a value that is a part of what is filled
	Aligned: "addr cumsum cumprod logcumsumexp renorm sort topk",
	Apart:   "cat cross gather index_select kthvalue linalg_cross max min mode stack take",
	ApartButSelf: "index_add index_copy index_put _index_put_impl _unsafe_index_put index_reduce put " +
		"scatter scatter_add scatter_reduce",
	Moved: "copy",
}

// settleOverlaps gives rows the rules of the table.
func settleOverlaps(rows []Row) []Row {
	rule := make(map[string]Overlap)
	for o, names := range overlaps {
		for _, name := range strings.Fields(names) {
			rule[name] = o
		}
	}
	for i := range rows {
		name, _, _ := strings.Cut(rows[i].Name, ".")
		if o, ok := rule[name]; ok {
			rows[i].Overlap = o
		}
	}
	return rows
}

// Checks reports whether an operand, by its position in the schema, must not overlap with what is written.
func (r *Row) Checks(arg int) bool {
	return r.Overlap != Free && !r.Uniform && (r.Overlap != ApartButSelf || arg > 0)
}
