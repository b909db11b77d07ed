package engine

import (
	"sync"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// loans are the arrays in host memory that storages have for their values, by number.
type loans struct {
	mu       sync.Mutex
	last     int64
	returned []int64
}

func (l *loans) give(id int64) {
	l.mu.Lock()
	l.returned = append(l.returned, id)
	l.mu.Unlock()
}

// Borrow is Upload of an array that may stay where it is: on a CPU device it is not copied if its address is
// aligned as the compiler wants. It must not change until Returned has given the number that Borrow returns.
// No program writes to it: a write to the storage makes a new value, in memory of the device.
func (e *Engine) Borrow(h alias.Handle, src unsafe.Pointer, d dtype.DType, dims []int64) (int64, error) {
	l := &e.loans
	l.mu.Lock()
	l.last++
	id := l.last
	l.mu.Unlock()
	whole := shape.Of(d, dims)
	return id, e.fill(h, whole, func(dev *runtime.Device, s *shape.Shape, sh *sharding.Sharding) (*runtime.Buffer, error) {
		if sh == nil {
			return dev.Borrow(src, s, func() { l.give(id) })
		}
		l.give(id)
		return dev.Upload(src, s, sh)
	})
}

// Returned takes the numbers of the arrays that were borrowed and are free for other use, each once.
func (e *Engine) Returned() []int64 {
	l := &e.loans
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.returned
	l.returned = nil
	return ids
}
