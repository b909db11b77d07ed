package engine

import (
	"sync"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
)

// TestAProgramThatLeavesTheCache: what was found in the cache stays whole while it is used, and what has gone is not
// found.
func TestAProgramThatLeavesTheCache(t *testing.T) {
	for range 200 {
		var released sync.WaitGroup
		released.Add(1)
		kept := cache.New[programKey](1, 1<<20, func(p *program) { p.release(); released.Done() })
		p := &program{}
		p.refs.Store(1)
		kept.Put(programKey{dev: 1}, p)
		found, ok := kept.Get(programKey{dev: 1})
		go kept.Remove(programKey{dev: 1})
		if !ok {
			t.Fatal("not in the cache")
		}
		held := found.acquire()
		released.Wait()
		if n := p.refs.Load(); held && n != 1 || !held && n != 0 {
			t.Fatalf("held: %t, with %d references", held, n)
		}
		if held {
			p.release()
		}
		if p.acquire() {
			t.Fatal("a program without references was acquired")
		}
	}
}

// A graph that runs op by op is kept, to be lowered later: that counts among the bytes of the cache.
func TestAGraphThatIsNotLoweredTakesMemoryOfTheCache(t *testing.T) {
	configured(t, "TORCH_GO_XLA_COMPILATION_CACHE_MB", "0")
	e := opByOp(t)
	x := upload(t, e, []float32{1, 2}, 2)
	for range 3 {
		x = recorded(t, e, x, "add.Tensor", x.whole(), float(1.5), integer(1))
		planned(t, e).release()
		if n := e.cache.Len(); n != 1 {
			t.Errorf("a cache of no bytes has %d programs", n)
		}
	}
}
