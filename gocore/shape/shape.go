// Package shape holds the type of a value: an element type and dimensions, interned.
//
// A *Shape is immutable and unique in the process: two shapes are equal exactly when their pointers are. The table that
// makes them so does not keep them: what nothing refers to is freed. Printed form: f32[32,128], i64[]. The package
// imports only dtype.
package shape

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

// Shape is an element type with dimensions. Get one from Of or Make; never write to Dims.
type Shape struct {
	DType dtype.DType
	Dims  []int64
	// Hash is a hash of the content, the same in every process.
	Hash  uint64
	numel int64
}

// entry is a shape in the intern table.
type entry struct {
	hash  uint64
	shape weak.Pointer[Shape]
	next  *entry
}

// MaxRank is the largest number of dimensions of an array, torch's own limit for what its kernels compute.
const MaxRank = 64

const buckets = 1 << 12

var table struct {
	sync.RWMutex // guards the fields below; they only grow
	bucket       [buckets]*entry
	n            int // entries
}

// Of returns the shape with these dimensions (each ≥ 0). dims is copied if the shape is new; a known
// shape costs no allocation.
func Of(d dtype.DType, dims []int64) *Shape {
	h := hash(d, dims)
	b := &table.bucket[h%buckets]
	table.RLock()
	s := find(*b, h, d, dims)
	table.RUnlock()
	if s != nil {
		return s
	}
	table.Lock()
	defer table.Unlock()
	if s := find(*b, h, d, dims); s != nil {
		return s
	}
	s = &Shape{DType: d, Dims: append(make([]int64, 0, len(dims)), dims...), Hash: h, numel: product(dims)}
	*b = &entry{hash: h, shape: weak.Make(s), next: *b}
	table.n++
	runtime.AddCleanup(s, sweep, h)
	return s
}

// sweep removes the entries of shapes that are gone from the chain of a hash.
func sweep(h uint64) {
	table.Lock()
	defer table.Unlock()
	for at := &table.bucket[h%buckets]; *at != nil; {
		if (*at).shape.Value() == nil {
			*at = (*at).next
			table.n--
		} else {
			at = &(*at).next
		}
	}
}

// Interned is the number of shapes in use, and of those that were and are not swept yet.
func Interned() int {
	table.RLock()
	defer table.RUnlock()
	return table.n
}

// Make is Of with the dimensions spelled out.
func Make(d dtype.DType, dims ...int64) *Shape { return Of(d, dims) }

func find(e *entry, h uint64, d dtype.DType, dims []int64) *Shape {
next:
	for ; e != nil; e = e.next {
		if e.hash != h {
			continue
		}
		s := e.shape.Value()
		if s == nil || s.DType != d || len(s.Dims) != len(dims) {
			continue
		}
		for i, x := range dims {
			if s.Dims[i] != x {
				continue next
			}
		}
		return s
	}
	return nil
}

// hash mixes the StableHLO name of the type rather than its number, which is private to the process.
func hash(d dtype.DType, dims []int64) uint64 {
	h := uint64(1469598103934665603)
	for _, c := range []byte(d.String()) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ uint64(len(dims))) * 1099511628211
	for _, x := range dims {
		h ^= uint64(x)
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// Rank is the number of dimensions.
func (s *Shape) Rank() int { return len(s.Dims) }

// Numel is the number of elements, math.MaxInt64 if there are more.
func (s *Shape) Numel() int64 { return s.numel }

// Bytes is the size of a dense buffer of this shape, math.MaxInt64 if it is larger.
func (s *Shape) Bytes() int64 { return times(s.numel, int64(s.DType.Size())) }

func product(dims []int64) int64 {
	if slices.Contains(dims, 0) {
		return 0
	}
	n := int64(1)
	for _, x := range dims {
		n = times(n, x)
	}
	return n
}

// times is a product of two numbers ≥ 0, math.MaxInt64 if it is larger.
func times(x, y int64) int64 {
	if high, low := bits.Mul64(uint64(x), uint64(y)); high == 0 && low <= math.MaxInt64 {
		return int64(low)
	}
	return math.MaxInt64
}

// With is the same dimensions with another element type.
func (s *Shape) With(d dtype.DType) *Shape {
	if s.DType == d {
		return s
	}
	return Of(d, s.Dims)
}

// String prints the form f32[2,3].
func (s *Shape) String() string {
	if s == nil {
		return "?"
	}
	var b strings.Builder
	b.WriteString(s.DType.String())
	b.WriteString(Dims(s.Dims))
	return b.String()
}

// TorchDims prints dimensions as torch's error messages do: [2, 3].
func TorchDims(dims []int64) string { return strings.ReplaceAll(Dims(dims), ",", ", ") }

// Dims prints dimensions without spaces: [2,3].
func Dims(dims []int64) string {
	b := []byte{'['}
	for i, x := range dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, x, 10)
	}
	return string(append(b, ']'))
}

// Parse reads the printed form; ok is false for anything else.
func Parse(text string) (s *Shape, ok bool) {
	i := strings.LastIndexByte(text, '[')
	if i < 0 || !strings.HasSuffix(text, "]") {
		return nil, false
	}
	d := dtype.Parse(text[:i])
	if d == dtype.Invalid {
		return nil, false
	}
	var dims []int64
	if body := text[i+1 : len(text)-1]; body != "" {
		for _, f := range strings.Split(body, ",") {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil || n < 0 {
				return nil, false
			}
			dims = append(dims, n)
		}
	}
	return Of(d, dims), true
}

// Contiguous appends the row-major strides (in elements) of dims to dst; a dimension of size 0
// counts as 1, as in torch.
func Contiguous(dst, dims []int64) []int64 {
	n := len(dst)
	dst = append(dst, dims...)
	st := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		dst[n+i] = st
		st *= max(dims[i], 1)
	}
	return dst
}

// Broadcast appends to dst the dimensions that a and b broadcast to; ok is false, with the last offending
// dimension (counted in the result), if they do not.
func Broadcast(dst, a, b []int64) (dims []int64, bad int, ok bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	n := len(dst)
	dst = append(dst, a...)
	k := len(a) - len(b)
	for i, y := range slices.Backward(b) {
		x := dst[n+k+i]
		switch {
		case x == y || y == 1:
		case x == 1:
			dst[n+k+i] = y
		default:
			return nil, k + i, false
		}
	}
	return dst, 0, true
}
