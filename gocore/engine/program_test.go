package engine

import (
	"sync"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
)

// TestAProgramThatLeavesTheCache: what was found in the cache stays whole while it is used, and what has gone is not found.
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
