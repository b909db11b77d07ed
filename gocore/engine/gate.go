package engine

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// patience is how long a call waits for a compile.
const patience = 50 * time.Millisecond

var errBusy = errs.New(errs.Busy, "a program is being compiled; the call has to be repeated")

// gate is the engine's lock. It guards the storages, the graphs and what is said to be guarded by mu. It is held while
// an op is recorded and while a sync is planned, not while a program compiles or runs.
type gate struct {
	mu         sync.Mutex
	compiling  chan struct{} // closed when the engine may be used again; nil: it may be. Guarded by mu; see compiling.go
	unreported error         // of a flush that its caller did not wait for; guarded by mu, the next sync reports it
}

// lock takes the lock when no program compiles that has to be waited for. Else it is errBusy, after a while.
func (g *gate) lock() error {
	g.mu.Lock()
	if g.compiling == nil {
		return nil
	}
	expired := time.After(patience)
	for done := g.compiling; done != nil; done = g.compiling {
		g.mu.Unlock()
		select {
		case <-done:
		case <-expired:
			return errBusy
		}
		g.mu.Lock()
	}
	return nil
}

// lockWhenIdle is lock for a caller that cannot repeat its call.
func (g *gate) lockWhenIdle() {
	for g.lock() != nil {
	}
}

// report is the error of a sync, or of one before whose caller did not wait for it.
func (g *gate) report(err error) error {
	if errors.Is(err, errBusy) {
		return err
	}
	err = cmp.Or(err, g.unreported)
	g.unreported = nil
	return err
}
