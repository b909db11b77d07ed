package runtime

import (
	"sync"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// A small result of torch's kernels lies in memory of the host that the plugin does not know. To make and free an
// array of the plugin's takes about as long as to compute one. A program or a copy of the plugin's that reads it
// adopts the memory first.

// mostOwn is the size up to which a result lies so. Larger ones take longer to compute than their arrays to make.
const mostOwn = 1 << 16

// spare is memory for a result that no one uses.
type spare struct {
	pjrt.Owned
	bytes int64
}

// mostSpares is how many wait for the next results.
const mostSpares = 16

// spares are those that wait, the latest last: a loop has the memory of its result before the last one again.
type spares struct {
	mu   sync.Mutex
	free []spare // guarded by mu
}

// take is memory of some bytes; it has no address if the host has no memory.
func (s *spares) take(bytes int64) pjrt.Owned {
	s.mu.Lock()
	for i := len(s.free) - 1; i >= 0; i-- {
		if found := s.free[i]; found.bytes == bytes {
			s.free = append(s.free[:i], s.free[i+1:]...)
			s.mu.Unlock()
			return found.Owned
		}
	}
	s.mu.Unlock()
	return pjrt.NewOwned(bytes)
}

// put takes memory back, and frees the one that has waited longest where there are too many.
func (s *spares) put(k spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == nil {
		s.free = make([]spare, 0, mostSpares)
	}
	if len(s.free) == mostSpares {
		pjrt.FreeOwned(s.free[0].Owned)
		s.free = append(s.free[:0], s.free[1:]...)
	}
	s.free = append(s.free, k)
}

// takeOwn gives a pending buffer memory of its own. It is false, with nothing done, if the buffer is to be the
// plugin's.
func (b *Buffer) takeOwn() bool {
	d := b.Dev
	if b.bytes == 0 || b.bytes > mostOwn || len(b.parts) != 1 || d.devs[0].DefaultMemory() == nil || d.adopted.Load()+b.bytes > d.mostAdopted() {
		return false
	}
	own := d.spares.take(b.bytes)
	if own.Address == nil {
		return false
	}
	b.own, b.adopted = own, true
	d.adopted.Add(b.bytes)
	return true
}

// tell makes the buffer, which is ready, an array of the plugin's in the memory that it has. The caller holds
// Device.run.
func (b *Buffer) tell() error {
	if b.own.Address == nil {
		return nil
	}
	d := b.Dev
	raw, err := d.client.Adopt(b.own, pjrt.Type(b.Shape.DType.PJRT()), b.Shape.Dims, d.devs[0].DefaultMemory())
	if err != nil {
		return d.explain(err, "giving %s to %s", b.Shape, d)
	}
	b.parts[0], b.own = raw, pjrt.Owned{}
	return nil
}
