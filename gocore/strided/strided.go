// Package strided turns torch's strided views into programs of dense array operations.
//
// A storage holds one dense row-major array, the base. A torch tensor over it is a View: size,
// stride and offset in elements. Read gives the steps that make the dense value of a view out of the
// base; Write gives the steps that put a dense value back. Both look for slices of the base's own
// dimensions first, then for a mixed-radix reshape of them, then for pads and skewed copies. They
// fall back on a gather or a scatter of computed indices last. So XLA sees slices, reshapes,
// transposes and broadcasts.
//
// The work is only on integers; element types and devices do not occur. The package imports only
// the standard library and keeps no state but the Cache that a caller makes.
//
// The text form of a program is its steps in order, each with the dimensions it gives:
//
//	reshape[2,12] slice[0:2,1:12:4]=[2,3] transpose(1,0)=[3,2] broadcast(0,2)=[3,5,2]
//	pad(0,0 1,0)=[2,4] gather([3,2] stride [2,1] + 4)=[3,2] empty=[0,3]
package strided

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// View is a strided window on a storage, in elements of the storage's type. Size and Stride have the
// same length; nothing is negative. The element at index i lies at Offset + Σ i[d]·Stride[d].
type View struct {
	Size, Stride []int64
	Offset       int64
}

// The kinds of error. Those that Read and Write return are an *Error that wraps one of them.
var (
	// ErrBounds: the view reaches beyond the last element of the storage.
	ErrBounds = errors.New("strided: view out of bounds of its storage")
	// ErrView: sizes, strides or offset cannot be a view (negative, or of different lengths).
	ErrView = errors.New("strided: not a view")
	// ErrOverlap: a write to a view that torch knows to hold an element twice (a stride of 0 along a
	// dimension of several elements). The text is torch's, of at::assert_no_internal_overlap.
	//
	//lint:ignore ST1005 the text is another program's
	ErrOverlap = errors.New("unsupported operation: more than one element of the written-to tensor " +
		"refers to a single memory location. Please clone() the tensor before performing the operation.")
)

// ErrShared is the text of at::assert_no_partial_overlap: an operand is a part of what is written to.
//
//lint:ignore ST1005 the text is another program's
var ErrShared = errors.New("unsupported operation: some elements of the input tensor and the written-to tensor " +
	"refer to a single memory location. Please clone() the tensor before performing the operation.")

// Error says which view of which base was refused. errors.Is finds the kind.
type Error struct {
	Op   string // "read" or "write"
	Base []int64
	View View
	Kind error
}

// Error is the text of the kind with the view; for ErrOverlap it is torch's message to the letter,
// which programs match on.
func (e *Error) Error() string {
	if e.Kind == ErrOverlap {
		return e.Kind.Error()
	}
	return fmt.Sprintf("%v: %s of size %v, stride %v, offset %d over dimensions %v",
		e.Kind, e.Op, e.View.Size, e.View.Stride, e.View.Offset, e.Base)
}

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.Kind }

func refuse(op string, base []int64, v View, kind error) error {
	return &Error{Op: op, Base: slices.Clone(base), Kind: kind,
		View: View{slices.Clone(v.Size), slices.Clone(v.Stride), v.Offset}}
}

// Contiguous reports whether a tensor of this size and stride is dense in row-major order, as torch's is_contiguous.
// Strides of dimensions of one element don't count, and an empty tensor is contiguous. It is false for lists of
// different lengths, as is NonOverlappingDense.
func Contiguous(size, stride []int64) bool {
	if len(size) != len(stride) {
		return false
	}
	want := int64(1)
	for d := len(size) - 1; d >= 0; d-- {
		if size[d] == 1 {
			continue
		}
		if stride[d] != want {
			return slices.Contains(size, 0)
		}
		want *= size[d]
	}
	return true
}

// NonOverlappingDense reports whether the elements fill a block of memory once each, as torch's
// is_non_overlapping_and_dense. perm lists the dimensions in memory order, outermost first: size
// permuted by perm is contiguous. It is the identity for a contiguous tensor.
func NonOverlappingDense(size, stride []int64) (perm []int64, ok bool) {
	if len(size) != len(stride) {
		return nil, false
	}
	contiguous := Contiguous(size, stride)
	if !contiguous && !(View{Size: size, Stride: stride}).dense() {
		return nil, false
	}
	perm = make([]int64, len(size))
	for d := range perm {
		perm[d] = int64(d)
	}
	if !contiguous {
		slices.SortStableFunc(perm, func(a, b int64) int { return order(stride[b], stride[a]) })
	}
	return perm, true
}

// Unexpanded is the view with every dimension of stride 0 cut to one element: the distinct elements
// of an expanded tensor. torch's fill_ and zero_ accept an expanded tensor, which Write refuses;
// they are writes to its Unexpanded form.
func Unexpanded(v View) View {
	size := slices.Clone(v.Size)
	for d, s := range v.Stride {
		if s == 0 && size[d] > 1 {
			size[d] = 1
		}
	}
	return View{Size: size, Stride: slices.Clone(v.Stride), Offset: v.Offset}
}

// Numel is the number of elements of the view.
func (v View) Numel() int64 { return product(v.Size) }

// expanded reports whether v repeats elements along a dimension of stride 0.
func (v View) expanded() bool {
	for d, s := range v.Stride {
		if s == 0 && v.Size[d] > 1 {
			return true
		}
	}
	return false
}

// Whole reports whether v is the base array of these dimensions itself.
func (v View) Whole(base []int64) bool {
	return v.Offset == 0 && slices.Equal(base, v.Size) && Contiguous(v.Size, v.Stride)
}

// check returns the kind of error of v over n elements, or nil.
func (v View) check(n int64) error {
	if len(v.Size) != len(v.Stride) || v.Offset < 0 || n < 0 {
		return ErrView
	}
	empty := false
	for d, k := range v.Size {
		if k < 0 || v.Stride[d] < 0 {
			return ErrView
		}
		empty = empty || k == 0
	}
	if empty {
		return nil
	}
	last, numel := uint64(v.Offset), uint64(1)
	if last >= uint64(n) {
		return ErrBounds
	}
	for d, k := range v.Size {
		over, step := bits.Mul64(uint64(k-1), uint64(v.Stride[d]))
		more, count := bits.Mul64(numel, uint64(k))
		if over != 0 || more != 0 || count > 1<<62 || step > 1<<62 {
			return ErrBounds
		}
		numel = count
		if last += step; last >= uint64(n) {
			return ErrBounds
		}
	}
	return nil
}

// elements is the number of elements of a base, -1 if dims are not dimensions or too large for any.
func elements(dims []int64) int64 {
	n := uint64(1)
	for _, d := range dims {
		over, m := bits.Mul64(n, uint64(d))
		if d < 0 || over != 0 || m > 1<<62 {
			return -1
		}
		n = m
	}
	return int64(n)
}

// product is the number of elements of dims that are known to be those of an array.
func product(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

func order(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
