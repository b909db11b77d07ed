package engine

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Results lie in memory as torch's do. A result with strides is a storage whose value is the dense array in the order
// of the strides: a transpose of the computed value. To read it again is the inverse transpose, which cancels.

// view reads an encoded tensor. Its sizes and strides alias the record.
func view(r *wire.Record) alias.View {
	handle, offset, t, size, stride := r.Tensor()
	return alias.View{Handle: alias.Handle(handle), Type: t, View: strided.View{Offset: offset, Size: size, Stride: stride}}
}

// layouts are how the operands of a call lie in memory, and scratch to find its results' strides. Most operands lie row
// by row, and then so do most results: operands are read from the record where that is not so.
type layouts struct {
	other     bool           // an operand does not lie row by row
	known     bool           // operands are those of the call
	operands  []strided.View // see read
	arguments []int          // to which each operand belongs
	strides   []int64
	perm      []int64
}

// matter reports that results of a row may lie otherwise than row by row.
func (l *layouts) matter(row *ops.Row) bool {
	return row.Strides > ops.RowByRow && (l.other || row.Strides >= ops.ByColumns)
}

// read reads the operands of a call from its record, and the numbers that torch's iterator sees as tensors.
func (l *layouts) read(words []int64, row *ops.Row) {
	if l.known {
		return
	}
	l.known, l.operands, l.arguments = true, l.operands[:0], l.arguments[:0]
	r, _ := wire.Read(words) // which has been read without an error
	for i := range int(r.Head(wire.HeadArgs)) {
		for left := 1; left > 0; left-- {
			switch r.Kind() {
			case wire.KTensor:
				_, offset, _, size, stride := r.Tensor()
				l.operands = append(l.operands, strided.View{Offset: offset, Size: size, Stride: stride})
				l.arguments = append(l.arguments, i)
				continue
			case wire.KInt, wire.KFloat, wire.KBool, wire.KComplex, wire.KHostZero:
				if row.Iterates(i) {
					l.operands, l.arguments = append(l.operands, strided.View{}), append(l.arguments, i)
				}
			}
			if k, n, _, _ := r.Pass(); k == wire.KTensors || k == wire.KScalars {
				left += n
			}
		}
	}
}

// rowMajor reports the strides of a new tensor. It is stricter than strided.Contiguous: a dimension of one element
// counts, as torch looks at its stride too.
func rowMajor(size, stride []int64) bool {
	want := int64(1)
	for d := len(size) - 1; d >= 0; d-- {
		if stride[d] != want {
			return false
		}
		want *= max(size[d], 1)
	}
	return true
}

// of gives the strides of a result of a size, until the next call; nil if it lies row by row.
func (l *layouts) of(row *ops.Row, size []int64, a *ir.Args) ([]int64, error) {
	switch row.Strides {
	case ops.Copied:
		return l.copied(row, size, a)
	case ops.ByColumns:
		return l.byColumns(row, size), nil
	}
	if !l.other || len(size) < 2 {
		return nil, nil
	}
	dst := l.strides[:0]
	switch row.Strides {
	case ops.Iterated:
		for i := range l.operands {
			if len(l.operands[i].Size) > len(size) {
				return nil, nil
			}
		}
		dst = strided.Iterated(dst, size, l.operands)
	case ops.Preserved:
		if v := l.find(row.StridesOf); v != nil && slices.Equal(v.Size, size) {
			dst = strided.Preserved(dst, *v)
		}
	case ops.Format, ops.FormatOfAny, ops.FormatOfAll:
		if l.channelsLast(row, len(size)) {
			dst = strided.ChannelsLast(dst, size)
		}
	case ops.Stacked:
		if l.channelsLast(row, len(size)-1) {
			dst = stacked(dst, size, a.Int(row.StridesOf+1))
		}
	}
	l.strides = dst
	return dst, nil
}

// find is the first operand that is or belongs to an argument; nil if there is none.
func (l *layouts) find(argument int) *strided.View {
	if i := slices.Index(l.arguments, argument); i >= 0 {
		return &l.operands[i]
	}
	return nil
}

// channelsLast decides for a row whose results take over the memory format of operands.
func (l *layouts) channelsLast(row *ops.Row, rank int) bool {
	found := false
	for i, v := range l.operands {
		if at := l.arguments[i] - row.StridesOf; at < 0 || at > 0 && (row.Strides != ops.FormatOfAny || at > 1) {
			continue
		}
		is := len(v.Size) == rank && strided.IsChannelsLast(v)
		if !is && (row.Strides == ops.FormatOfAll || row.Strides == ops.Stacked) {
			return false
		}
		found = found || is
	}
	return found
}

// stacked appends the strides of members in channels last along dimension dim. They are those of their concatenation
// there, split. Along the last dimension torch concatenates tensors of another rank, which lie row by row.
func stacked(dst, size []int64, dim int64) []int64 {
	rank := int64(len(size))
	if dim < 0 {
		dim += rank
	}
	if dim == rank-1 {
		return dst
	}
	n := size[dim]
	joined := slices.Delete(slices.Clone(size), int(dim), int(dim)+1)
	joined[dim] *= n
	dst = strided.ChannelsLast(dst, joined)
	return slices.Insert(dst, int(dim), dst[dim]*size[dim+1])
}

// byColumns are the strides of matrices that lie column by column.
func (l *layouts) byColumns(row *ops.Row, size []int64) []int64 {
	v, n := l.find(row.StridesOf), len(size)
	if v == nil || n < 2 || len(v.Size) != n {
		return nil
	}
	l.strides = shape.Contiguous(l.strides[:0], size)
	l.strides[n-2], l.strides[n-1] = 1, max(size[n-2], 1)
	return l.strides
}

// The numbers of torch's memory formats.
const (
	contiguousFormat = iota
	preserveFormat
	channelsLastFormat
	channelsLast3DFormat
)

func (l *layouts) copied(row *ops.Row, size []int64, a *ir.Args) ([]int64, error) {
	dst, rank, name := l.strides[:0], 4, "channels_last"
	switch a.IntOr(row.StridesOf+1, preserveFormat) {
	case contiguousFormat:
		return nil, nil
	case preserveFormat:
		if v := l.find(row.StridesOf); v != nil && l.other {
			dst = strided.Preserved(dst, *v)
		}
		l.strides = dst
		return dst, nil
	case channelsLast3DFormat:
		rank, name = 5, "channels_last_3d"
	}
	if len(size) != rank {
		return nil, errs.New(errs.Runtime, "required rank %d tensor to use %s format", rank, name)
	}
	l.strides = strided.ChannelsLast(dst, size)
	return l.strides, nil
}

// arranged is a value as the dense array that a tensor with these strides, dense too, stands for.
func (l *layouts) arranged(t *alias.Trace, v ir.ID, stride []int64) ir.ID {
	perm := l.perm[:0]
	for d, n := range stride { // after those of strides that are not smaller
		i := len(perm)
		for perm = append(perm, 0); i > 0 && stride[perm[i-1]] < n; i-- {
			perm[i] = perm[i-1]
		}
		perm[i] = int64(d)
	}
	l.perm = perm
	return t.Transpose(v, perm)
}
