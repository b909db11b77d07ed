package engine

import (
	"cmp"
	"errors"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// With SPMD a graph can be flushed only when its program is compiled. A compiler cannot be interrupted, but its caller
// can. So it runs in a goroutine, which then flushes the graph as planned. Until then the graph must not change: lock is
// an error after a while, and the caller looks for signals and repeats its call.

// patience is how long a call waits for a compile.
const patience = 50 * time.Millisecond

var errBusy = errs.New(errs.Busy, "a program is being compiled; the call has to be repeated")

// lock takes the lock when no program compiles that has to be waited for. Else it is errBusy, after a while.
func (e *Engine) lock() error {
	e.mu.Lock()
	if e.compiling == nil {
		return nil
	}
	expired := time.After(patience)
	for done := e.compiling; done != nil; done = e.compiling {
		e.mu.Unlock()
		select {
		case <-done:
		case <-expired:
			return errBusy
		}
		e.mu.Lock()
	}
	return nil
}

// lockWhenIdle is lock for a caller that cannot repeat its call.
func (e *Engine) lockWhenIdle() {
	for e.lock() != nil {
	}
}

// whenCompiled calls flush, which needs the program of the plan, when it is compiled as far as that is needed. The caller
// holds mu, which is given up meanwhile; after errBusy it must leave the engine.
func (e *Engine) whenCompiled(d *runtime.Device, p *program, flush func() error) error {
	if p == nil || d.Partitions() == 0 || p.shardings != nil {
		return flush()
	}
	done := make(chan struct{})
	e.compiling = done
	go func() {
		defer d.Kick()
		defer e.compiled(done)
		_, _ = p.Executable() // running it says what has failed
		e.mu.Lock()
		defer e.mu.Unlock()
		p.settleShardings(e.plan.Roots)
		e.unreported = cmp.Or(flush(), e.unreported)
	}()
	e.mu.Unlock()
	defer e.mu.Lock()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return errBusy
	}
}

// compiled lets the engine be used again. It is deferred, and recovers.
func (e *Engine) compiled(done chan struct{}) {
	r := recover()
	e.mu.Lock()
	defer e.mu.Unlock()
	if r != nil {
		e.unreported = errs.New(errs.Runtime, "internal error: %v", r)
	}
	e.compiling = nil
	close(done)
}

// report is the error of a sync, or of one before whose caller did not wait for it.
func (e *Engine) report(err error) error {
	if errors.Is(err, errBusy) {
		return err
	}
	err = cmp.Or(err, e.unreported)
	e.unreported = nil
	return err
}
