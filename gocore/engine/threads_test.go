package engine

import (
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

var threadTime = flag.Duration("threads", time.Second, "how long TestThreads runs")

// TestThreads records, syncs, holds and reads on eight threads. What a thread alone writes has its values
// always; what all write to is never torn, and no write to it is lost.
func TestThreads(t *testing.T) {
	e := open(t)
	shared := upload(t, e, []float32{0, 0}, 2)
	var writes atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(*threadTime)
	for k := range 8 {
		wg.Go(func() {
			w := &worker{t: t, e: e, own: upload(t, e, []float32{float32(k), float32(k)}, 2), shared: shared}
			for value := float32(k); time.Now().Before(end) && !t.Failed(); {
				w.increment(w.own)
				w.increment(w.shared)
				writes.Add(1)
				value++
				w.look(int(value)%4, value)
			}
			e.Release([]uint64{uint64(w.own.handle)})
		})
	}
	wg.Wait()
	n := float32(writes.Load())
	wants(t, e, "what all write to", shared, [2]float32{n, n})
	t.Logf("%v rounds", n)
}

// worker is one thread of TestThreads.
type worker struct {
	t           *testing.T
	e           *Engine
	own, shared tensor
	out         [64]int64
}

func (w *worker) trace(record []int64) alias.Handle {
	st, err := w.e.Trace(record, w.out[:])
	for ; st == wire.Busy; st, err = w.e.Trace(record, w.out[:]) { // as the kernels do
		w.e.WaitIdle()
	}
	if st != wire.Done {
		w.t.Error(st, err)
	}
	return alias.Handle(w.out[1])
}

func (w *worker) increment(x tensor) {
	w.trace(call("add.Tensor", append([]int64{int64(wire.Write)}, x.whole()...), x.whole(), float(1), integer(1)))
}

// look reads the thread's tensors in one of four ways; its own must be value.
func (w *worker) look(way int, value float32) {
	t, e := w.t, w.e
	own := [2]float32{value, value}
	switch way {
	case 0:
		if _, err := e.Step(0, true, false); err != nil {
			t.Error(err)
		}
	case 1:
		if err := e.SyncSome([]int64{int64(w.own.handle)}); err != nil {
			t.Error(err)
		}
	case 2:
		twice := w.trace(call("mul.Tensor", []int64{int64(wire.New)}, w.own.whole(), float(2)))
		wants(t, e, "a new tensor", tensor{twice, w.own.dims}, [2]float32{2 * value, 2 * value})
		e.Release([]uint64{uint64(twice)})
	case 3:
		id, err := e.Snapshot([]int64{int64(w.own.handle), int64(w.shared.handle)})
		if err != nil {
			t.Error(err)
			return
		}
		w.increment(w.own) // after the moment of the snapshot
		var got [2][2]float32
		for i := range got {
			if err := e.FetchSnapshot(id, i, unsafe.Pointer(&got[i]), 8); err != nil {
				t.Error(err)
			}
		}
		e.DropSnapshot(id)
		if got[0] != own || got[1][0] != got[1][1] {
			t.Errorf("a snapshot of %v and of what all write to is %v", own, got)
		}
		w.trace(call("sub.Tensor", append([]int64{int64(wire.Write)}, w.own.whole()...), w.own.whole(), float(1), integer(1)))
	}
	wants(t, e, "a thread's own", w.own, own)
}
