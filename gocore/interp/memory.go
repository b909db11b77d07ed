package interp

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// memory follows how many bytes the values of a program take while it runs. Views lie in the memory of others. The
// results of kernels are taken to be dense.
type memory struct {
	values []held
	live   int64 // bytes now, but for placed
	placed int64 // bytes of roots that are computed in given memory, which is there from the start
	peak   int64 // the most that live was
}

// held is a value.
type held struct {
	layout
	element int64 // bytes of one
	owner   int64 // the value in whose memory it lies, or argument
	bytes   int64 // of the memory, if it is the owner
	lying   int   // how many values lie in the memory, if it is the owner
}

// argument is the owner of the program's parameters.
const argument = -1

// layout is how the elements of a value lie in its memory.
type layout struct{ dims, strides []int64 }

// dense is the layout of an array in row-major order.
func dense(dims []int64) layout {
	l, step := layout{slices.Clone(dims), make([]int64, len(dims))}, int64(1)
	for d, n := range slices.Backward(dims) {
		l.strides[d] = step
		step *= max(n, 1)
	}
	return l
}

func (l layout) isDense() bool {
	step := int64(1)
	for d, n := range slices.Backward(l.dims) {
		if n != 1 && l.strides[d] != step {
			return slices.Contains(l.dims, 0)
		}
		step *= n
	}
	return true
}

func (l layout) numel() int64 {
	n := int64(1)
	for _, d := range l.dims {
		n *= d
	}
	return n
}

// argument adds a value that is a parameter.
func (m *memory) argument(s *shape.Shape) {
	m.values = append(m.values, held{layout: dense(s.Dims), element: int64(s.DType.Size()), owner: argument})
}

// made adds a value that is about to be computed, in memory of its own, and gives its number.
func (m *memory) made(s *shape.Shape) int64 {
	v := int64(len(m.values))
	m.values = append(m.values, held{layout: dense(s.Dims), element: int64(s.DType.Size()), owner: v, bytes: s.Bytes(), lying: 1})
	m.live += s.Bytes()
	return v
}

// free notes that a value is not used any more.
func (m *memory) free(v int64) {
	if owner := m.values[v].owner; owner != argument {
		at := &m.values[owner]
		if at.lying--; at.lying == 0 {
			m.live -= at.bytes
		}
	}
}

// share notes that a value which was made lies in the memory of another one.
func (m *memory) share(v, of int64, l layout) {
	m.free(v)
	at := &m.values[v]
	if at.layout, at.owner = l, m.values[of].owner; at.owner != argument {
		m.values[at.owner].lying++
	}
}

// place notes that a value which was made is a root, computed in given memory.
func (m *memory) place(v int64) {
	m.live -= m.values[v].bytes
	m.placed += m.values[v].bytes
}

// follow notes an instruction, whose results were made.
func (m *memory) follow(op opcode, words []int64) {
	switch {
	case op == opNumber: // of an op whose results are made already
		return
	case slices.Contains(views, op):
		m.view(op, words)
	case op == opScatter:
		rank := words[3]
		if from := &m.values[words[2]]; from.seenAs(words[4:4+rank]) == nil {
			m.raise(from.size())
		}
	}
	m.raise(0)
}

// raise notes that so many bytes are there besides the values.
func (m *memory) raise(bytes int64) { m.peak = max(m.peak, m.live+bytes) }

// size is the bytes of the value's elements.
func (h *held) size() int64 { return h.numel() * h.element }

// view follows an instruction that copies nothing, or only what has no other layout: as torchcpu/views.c has them.
func (m *memory) view(op opcode, words []int64) {
	dst, src, words := words[0], words[1], words[2:]
	from := m.values[src].layout
	to := layout{m.values[dst].dims, make([]int64, len(m.values[dst].dims))}
	rank := len(to.dims)
	switch op {
	case opSame:
		to = from
	case opTranspose:
		for d := range rank {
			to.strides[d] = from.strides[words[1+d]]
		}
	case opSlice:
		for d := range rank {
			to.strides[d] = from.strides[d] * words[1+2*rank+d]
		}
	case opDynamicSlice:
		to.strides = from.strides
	case opBroadcast:
		for d, at := range words[2+rank:] {
			if from.dims[d] == to.dims[at] {
				to.strides[at] = from.strides[d]
			}
		}
	case opReshape:
		to.strides = from.seenAs(to.dims)
	case opStrided:
		if to.strides = words[1+rank : 1+2*rank]; !from.isDense() {
			m.live += m.values[src].size() - m.values[dst].bytes
			m.values[dst].layout, m.values[dst].bytes = to, m.values[src].size()
			return
		}
	}
	if to.strides != nil {
		m.share(dst, src, to)
	}
}

// seenAs are the strides of the same elements with other dimensions; nil if there are none: at::detail::computeStride.
func (l layout) seenAs(dims []int64) []int64 {
	if l.numel() == 0 {
		return dense(dims).strides
	}
	strides, d, rank := make([]int64, len(dims)), len(dims)-1, len(l.dims)
	base, chunk, viewed := int64(1), int64(1), int64(1)
	if rank > 0 {
		base = l.strides[rank-1]
	}
	for i := rank - 1; i >= 0; i-- {
		chunk *= l.dims[i]
		if i > 0 && (l.dims[i-1] == 1 || l.strides[i-1] == chunk*base) {
			continue
		}
		for ; d >= 0 && (viewed < chunk || dims[d] == 1); d-- {
			strides[d] = viewed * base
			viewed *= dims[d]
		}
		if viewed != chunk {
			return nil
		}
		if i > 0 {
			base, chunk, viewed = l.strides[i-1], 1, 1
		}
	}
	for ; d >= 0; d-- {
		strides[d] = viewed * base // all of size 1
	}
	return strides
}

// give ends the program: its roots stay, dense and in memory that is not a parameter's, nor much larger than they are.
// The results are the most bytes that were there, and those that stay.
func (m *memory) give(roots []int64, placed []bool) (peak, kept int64) {
	shared := make(map[int64]bool)
	for i, v := range roots {
		r := &m.values[v]
		switch {
		case placed[i] || shared[r.owner]:
		case r.owner != argument && r.isDense() && m.values[r.owner].bytes/2 <= r.size():
			shared[r.owner] = true
			kept += m.values[r.owner].bytes
		default:
			kept += r.size()
			m.raise(r.size())
			m.live += r.size()
		}
	}
	return m.peak + m.placed, kept + m.placed
}
