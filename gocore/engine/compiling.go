package engine

import (
	"cmp"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// With SPMD a graph can be flushed only when its program is compiled. A compiler cannot be interrupted, but its caller
// can. So it runs in a goroutine, which then flushes the graph as planned. Until then the graph must not change: lock
// is an error after a while, and the caller looks for signals and repeats its call.

// whenCompiled calls flush, which needs the program of the plan, when it is compiled as far as that is needed. The
// caller holds mu, which is given up meanwhile; after errBusy it must leave the engine.
func (pl *planner) whenCompiled(d *runtime.Device, p *program, flush func() error) error {
	if p == nil || d.Partitions() == 0 || p.shardings != nil {
		return flush()
	}
	done := make(chan struct{})
	pl.compiling = done
	go func() {
		defer d.Drain()
		defer pl.compiled(done)
		_, _ = p.Executable() // running it says what has failed
		pl.mu.Lock()
		defer pl.mu.Unlock()
		p.resolveShardings(pl.plan.Roots)
		pl.unreported = cmp.Or(flush(), pl.unreported)
	}()
	pl.mu.Unlock()
	defer pl.mu.Lock()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return errBusy
	}
}

// compiled lets the engine be used again. It is deferred, and recovers.
func (pl *planner) compiled(done chan struct{}) {
	r := recover()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if r != nil {
		pl.unreported = errs.New(errs.Runtime, "internal error: %v", r)
	}
	pl.compiling = nil
	close(done)
}
