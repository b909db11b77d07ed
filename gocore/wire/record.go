package wire

import (
	"errors"
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

// ErrMalformed is the error of a record that is cut off or has words that mean nothing.
var ErrMalformed = errors.New("malformed op record")

// Record reads the words of one traced op in their order: the head at any time, then the arguments, then
// the dispositions. Pass checks what it reads; the other methods read what a copy of the record has passed,
// and panic on anything else.
type Record struct {
	words []int64
	pos   int
}

// Read begins to read a record. Words that are not a head are ErrMalformed.
func Read(words []int64) (Record, error) {
	if len(words) < int(HeadWords) || uint64(words[HeadArgs]) > uint64(MaxArgs) {
		return Record{}, ErrMalformed
	}
	return Record{words, int(HeadWords)}, nil
}

// Head is a word of the head.
func (r *Record) Head(w HeadWord) int64 { return r.words[w] }

// Kind is the kind of the next argument.
func (r *Record) Kind() Kind { return Kind(r.words[r.pos] & int64(KindMask)) }

// Pass passes over the next argument, or over the tag of a list of arguments, whose n members are then the
// next ones. word is the first behind the tag: a tensor's handle, a device's index. ok is false at an argument that
// is cut off or of no kind.
func (r *Record) Pass() (k Kind, n int, word int64, ok bool) {
	left := len(r.words) - r.pos - 1
	if left < 0 {
		return
	}
	tag := r.words[r.pos]
	size := Payload(tag)
	if uint(size) > uint(left) { // a negative one too
		return
	}
	if size > 0 {
		word = r.words[r.pos+1]
	}
	k, n = Untag(tag)
	if (k == KTensors || k == KScalars) && n > left { // every member has a word at least
		return
	}
	r.pos += 1 + size
	return k, n, word, true
}

// Take reads an argument as it is: its tag and its payload, which alias the record.
func (r *Record) Take() []int64 {
	start := r.pos
	r.pos += 1 + Payload(r.words[start])
	return r.words[start:r.pos]
}

// Tensor reads a tensor: a strided view of a storage. size and stride alias the record.
func (r *Record) Tensor() (handle, offset int64, t dtype.DType, size, stride []int64) {
	tag := r.words[r.pos]
	nd := int(tag>>CountShift) & int(RankMask)
	w := r.words[r.pos+1 : r.pos+3+2*nd]
	r.pos += 3 + 2*nd
	return w[0], w[1], dtype.FromTorch(int(tag >> TypeShift)), w[2 : 2+nd : 2+nd], w[2+nd:]
}

// Number reads a number. i is the value of an integral type, f of a float type or the real part of a complex one, im
// the imaginary part. Its type is Bool, I64, F64 or C128; of a 0-dim CPU tensor, host, it is the tensor's. ok is false
// if the next argument is not a number.
func (r *Record) Number() (t dtype.DType, i int64, f, im float64, host, ok bool) {
	tag := r.words[r.pos]
	v := r.words[r.pos+1]
	r.pos += 2
	switch Kind(tag & int64(KindMask)) {
	case KBool:
		return dtype.Bool, v, 0, 0, false, true
	case KInt:
		return dtype.I64, v, 0, 0, false, true
	case KFloat:
		return dtype.F64, 0, math.Float64frombits(uint64(v)), 0, false, true
	case KComplex:
		t = dtype.C128
	case KHostZero:
		t, host = dtype.FromTorch(int(tag>>TypeShift)), true
	default:
		return
	}
	r.pos++
	if t.IsIntegral() {
		return t, v, 0, 0, host, true
	}
	return t, 0, math.Float64frombits(uint64(v)), math.Float64frombits(uint64(r.words[r.pos-1])), host, true
}

// Disposition reads a disposition; the tensor of a Write comes next, for Tensor to read. ok is false if there is none,
// or not such a tensor.
func (r *Record) Disposition() (d Disposition, ok bool) {
	if r.pos >= len(r.words) {
		return 0, false
	}
	d = Disposition(r.words[r.pos])
	r.pos++
	switch d & DispositionMask {
	case New, Drop:
		return d, true
	case Write:
		target := *r
		k, _, _, ok := target.Pass()
		return d, ok && k == KTensor
	}
	return 0, false
}

// PutResult writes a dense tensor of a storage into out, from word p on, and returns where the next result
// begins; -1 if out is too short. Without strides the tensor lies row by row.
func PutResult(out []int64, p int, handle int64, t dtype.DType, device int32, dims, strides []int64) int {
	next := p + int(ResultSizes) + len(dims) + len(strides)
	if next > len(out) {
		return -1
	}
	o := out[p:next]
	o[ResultHandle], o[ResultType], o[ResultDevice], o[ResultRank] = handle, int64(t.TorchCode()), int64(device), int64(len(dims))
	copy(o[ResultSizes:], dims)
	if len(strides) > 0 {
		o[ResultRank] |= int64(Strided)
		copy(o[int(ResultSizes)+len(dims):], strides)
	}
	return next
}

// PutResize writes into out which sizes the tensor of disposition k must take, and which strides; none for a tensor
// that lies row by row.
func PutResize(out []int64, k int, quiet bool, dims, strides []int64) {
	out[ResizeDisposition], out[ResizeQuiet], out[ResizeRank] = int64(k), 0, int64(len(dims))
	if quiet {
		out[ResizeQuiet] = 1
	}
	copy(out[ResizeSizes:], dims)
	if len(strides) > 0 {
		out[ResizeRank] |= int64(Strided)
		copy(out[int(ResizeSizes)+len(dims):], strides)
	}
}
