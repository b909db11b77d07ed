package strided

import "slices"

// maxRank bounds the dimensions of what these functions lay out; torch's TensorIterator knows 64.
const maxRank = 64

// Iterated appends the strides that torch's TensorIterator gives an element-wise result of a size, computed from
// operands that broadcast to it. It appends nothing for a result that lies row by row.
func Iterated(dst, size []int64, operands []View) []int64 {
	n := len(size)
	if n > maxRank {
		return dst
	}
	// Operands of the result's size: all row by row, all channels last, or all with the same strides.
	contiguous, last, same := true, len(size) == 4, len(operands) > 0
	for i := range operands {
		v := &operands[i]
		if !slices.Equal(v.Size, size) {
			contiguous, last, same = false, false, false
			break
		}
		contiguous = contiguous && Contiguous(v.Size, v.Stride)
		last = last && v.channelsLastDense()
		same = same && slices.Equal(v.Stride, operands[0].Stride)
	}
	switch {
	case contiguous:
		return dst
	case last:
		return ChannelsLast(dst, size)
	case same && operands[0].dense():
		return append(dst, operands[0].Stride...)
	}
	return packed(dst, size, false, operands)
}

// dense reports whether the elements fill a block of memory once each.
func (v View) dense() bool {
	want, last := int64(1), elements(v.Size)
	if last < 0 { // more than memory has
		return false
	}
	for want < last {
		found := false
		for d, n := range v.Size {
			if n > 1 && v.Stride[d] == want {
				want, found = want*n, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// broadcast is the stride along dimension d, which has size n in the result; 0 where the view lacks it.
func (v *View) broadcast(d int, n int64) int64 {
	if d < 0 || v.Size[d] == 1 && n != 1 {
		return 0
	}
	return v.Stride[d]
}

// iteratorOrder is TensorIterator's comparison of two dimensions: 1 if the inner one belongs outside, −1 if not, 0 if
// no operand tells.
func iteratorOrder(size []int64, operands []View, inner, outer int) int {
	for i := range operands {
		v := &operands[i]
		lacks := len(size) - len(v.Size)
		a, b := v.broadcast(inner-lacks, size[inner]), v.broadcast(outer-lacks, size[outer])
		switch {
		case a == 0 || b == 0:
		case a < b:
			return -1
		case a > b || size[inner] > size[outer]:
			return 1
		}
	}
	return 0
}

// Preserved appends the strides of torch.preserve_format for a copy of a view. They are its own where it is dense,
// else those of a dense tensor whose dimensions are in the same order. It appends nothing for a copy that lies row by
// row.
func Preserved(dst []int64, v View) []int64 {
	switch {
	case Contiguous(v.Size, v.Stride) || len(v.Size) > maxRank:
		return dst
	case v.dense():
		return append(dst, v.Stride...)
	}
	return packed(dst, v.Size, true, []View{v})
}

// packed appends the strides of a dense tensor of a size whose dimensions are sorted by those of operands. torch sorts
// them by insertion, as the comparison may not tell. It appends nothing if that leaves them in their order. With ones,
// an empty dimension counts as one of one element.
func packed(dst, size []int64, ones bool, operands []View) []int64 {
	var few [8]int
	n, perm := len(size), few[:0] // innermost first
	for i := range n {
		perm = append(perm, n-1-i)
	}
	for i := 1; i < n; i++ {
		outer := i
		for inner := i - 1; inner >= 0; inner-- {
			c := iteratorOrder(size, operands, perm[inner], perm[outer])
			if c < 0 {
				break
			}
			if c > 0 {
				perm[inner], perm[outer] = perm[outer], perm[inner]
				outer = inner
			}
		}
	}
	moved := false
	for i := range n {
		moved = moved || perm[i] != n-1-i
	}
	if !moved {
		return dst
	}
	from, step := len(dst), int64(1)
	dst = append(dst, size...)
	for _, d := range perm {
		dst[from+d] = step
		if !ones || size[d] > 1 {
			step *= size[d]
		}
	}
	return dst
}

// channelsLast lists the dimensions from the innermost on, of images and of volumes.
var channelsLast = map[int][]int{4: {1, 3, 2, 0}, 5: {1, 4, 3, 2, 0}}

// ChannelsLast appends the strides of torch.channels_last, or channels_last_3d, for a size of 4 or 5 dimensions.
func ChannelsLast(dst, size []int64) []int64 {
	from, step := len(dst), int64(1)
	dst = append(dst, size...)
	for _, d := range channelsLast[len(size)] {
		dst[from+d] = step
		step *= max(size[d], 1)
	}
	return dst
}

// channelsLastDense is torch's is_contiguous(memory_format=torch.channels_last).
func (v *View) channelsLastDense() bool {
	if len(v.Size) != 4 {
		return false
	}
	want := int64(1)
	for _, d := range channelsLast[4] {
		if v.Size[d] == 1 {
			continue
		}
		if v.Stride[d] != want {
			return false
		}
		want *= v.Size[d]
	}
	return true
}

// IsChannelsLast is torch's rule for the memory format that an op takes over from an operand of 4 or 5 dimensions. It
// reports whether its strides are those of channels last, with gaps or without. What may be either is row by row.
func IsChannelsLast(v View) bool {
	dims, ok := channelsLast[len(v.Size)]
	if !ok || v.Stride[1] == 0 {
		return false
	}
	least := int64(0)
	for _, d := range dims {
		if v.Size[d] == 0 || v.Stride[d] < least || d == 0 && least == v.Stride[1] {
			return false
		}
		least = v.Stride[d]
		if v.Size[d] > 1 {
			least *= v.Size[d]
		}
	}
	return true
}
