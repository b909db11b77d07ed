package strided

import (
	"math/bits"
	"slices"
)

// ways is how many programs share a slot of a Cache: the number of keys that may collide before one is
// forgotten.
const ways = 4

// Cache remembers programs by the content of base and view. It holds a bounded number and forgets
// those of a slot that were not asked for longest. A known key costs no allocation; a view that is
// the whole base costs no look-up. The programs are shared and must not be written to.
//
// A Cache has no lock: calls must not overlap.
type Cache struct {
	slots []slot
	mask  uint64
}

type slot [ways]*entry

// An entry holds what is known of one key; read and write are nil until asked for.
type entry struct {
	hash       uint64
	base       []int64
	view       View
	read       *Program
	write      *WriteProgram
	readError  error
	writeError error
}

var (
	readWhole  = &Program{}
	writeWhole = &WriteProgram{Method: Replace}
)

// NewCache makes a cache for at least n keys, rounded up to a power of two.
func NewCache(n int) *Cache {
	slots := 1 << bits.Len(uint(max(n, ways)-1)/ways)
	return &Cache{slots: make([]slot, slots), mask: uint64(slots - 1)}
}

// Read is the function Read, with its result or error remembered.
func (c *Cache) Read(base []int64, v View) (*Program, error) {
	if v.Whole(base) {
		return readWhole, nil
	}
	e := c.find(base, v)
	if e.read == nil && e.readError == nil {
		if p, err := Read(e.base, e.view); err != nil {
			e.readError = err
		} else {
			e.read = &p
		}
	}
	return e.read, e.readError
}

// Write is the function Write, with its result or error remembered.
func (c *Cache) Write(base []int64, v View) (*WriteProgram, error) {
	if v.Whole(base) && product(base) != 0 {
		return writeWhole, nil
	}
	e := c.find(base, v)
	if e.write == nil && e.writeError == nil {
		if w, err := Write(e.base, e.view); err != nil {
			e.writeError = err
		} else {
			e.write = &w
		}
	}
	return e.write, e.writeError
}

// find returns the entry of the key, new if need be, and puts it first in its slot.
func (c *Cache) find(base []int64, v View) *entry {
	h := hash(base, v)
	s := &c.slots[h&c.mask]
	for i, e := range s {
		if e == nil {
			break
		}
		if e.hash != h || !e.is(base, v) {
			continue
		}
		for ; i > 0; i-- {
			s[i] = s[i-1]
		}
		s[0] = e
		return e
	}
	copy(s[1:], s[:ways-1])
	s[0] = newEntry(h, base, v)
	return s[0]
}

// newEntry copies the key into one array, so that a comparison reads neighbouring memory.
func newEntry(h uint64, base []int64, v View) *entry {
	key := slices.Concat(base, v.Size, v.Stride)
	a, b := len(base), len(base)+len(v.Size)
	return &entry{hash: h, base: key[:a:a], view: View{key[a:b:b], key[b:], v.Offset}}
}

func (e *entry) is(base []int64, v View) bool {
	return e.view.Offset == v.Offset && equal(e.base, base) &&
		equal(e.view.Size, v.Size) && equal(e.view.Stride, v.Stride)
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	b = b[:len(a)] // one bounds check
	for i, x := range a {
		if b[i] != x {
			return false
		}
	}
	return true
}

// hash mixes the key, two words at a time. The lengths of the lists are mixed in, so that lists can't
// run into each other.
func hash(base []int64, v View) uint64 {
	h := mix(uint64(v.Offset), uint64(len(base))<<32|uint64(len(v.Size))<<16|uint64(len(v.Stride)))
	for len(base) >= 2 {
		h = mix(h^uint64(base[0]), uint64(base[1]))
		base = base[2:]
	}
	if len(base) > 0 {
		h = mix(h, uint64(base[0]))
	}
	if len(v.Stride) != len(v.Size) {
		return h // no view; the program is an error
	}
	for d, n := range v.Size {
		h = mix(h^uint64(n), uint64(v.Stride[d]))
	}
	return h
}

// mix folds the 128-bit product of two tweaked words, as wyhash does.
func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, x^0xa0761d6478bd642f)
	return hi ^ lo
}
