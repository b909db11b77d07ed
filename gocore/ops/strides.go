package ops

// Strides says how the results of an op lie in memory: by which rule of torch their strides follow from those of the
// operands. A result of another rank than the rule is about lies row by row.
type Strides uint8

const (
	// Unlaid is RowByRow, and in a family of elementwise ops Iterated.
	Unlaid Strides = iota
	// RowByRow: the results are contiguous, whatever the operands are.
	RowByRow
	// Iterated: the order of dimensions that torch's TensorIterator finds in all operands.
	Iterated
	// Preserved: as empty_like lays out a tensor like the operand.
	Preserved
	// Format: channels last if the operand is, else row by row.
	Format
	// FormatOfAny: channels last if the operand or the one behind it is.
	FormatOfAny
	// FormatOfAll: channels last if all members of the list are.
	FormatOfAll
	// Stacked: parts of a result of FormatOfAll, which are the members of a list along a new dimension, the next
	// argument.
	Stacked
	// ByColumns and Copied may apply where all operands lie row by row, the others do not.

	// ByColumns: matrices lie column by column, as LAPACK computes them, if the result has the operand's rank.
	ByColumns
	// Copied: as the memory format asks that is the next argument; Preserved without one.
	Copied
)
