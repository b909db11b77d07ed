package engine

import (
	"errors"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// Replay runs a captured computation on storages in place of its arguments. outs takes the handles of the
// storages that it makes, in the order of the capture's. A Replay that fails has done nothing.
func (rp *replays) Replay(id int64, args, outs []int64) (wire.Outcome, error) {
	r, ok, idle, err := rp.replay(id, args, outs)
	if !ok && err == nil {
		mismatches.Add(1)
	}
	if r == nil {
		return wire.Missed, err
	}
	through := r.dev.Drain()
	switch {
	case !ok:
		return wire.Missed, err
	case idle && through:
		return wire.Synced, nil
	}
	return wire.Ran, nil
}

// replay does the work of Replay, but for draining the device; idle says that a sync would do nothing but wait.
func (rp *replays) replay(id int64, args, outs []int64) (r *replay, ok, idle bool, err error) {
	if err := rp.lock(); err != nil {
		return nil, false, false, err
	}
	defer rp.mu.Unlock()
	if err := rp.check(); err != nil {
		return nil, false, false, err
	}
	r = rp.held[id]
	if r == nil || len(args) != r.arguments || len(outs)+len(r.checks) != len(r.outs) {
		return nil, false, false, errs.New(errs.Runtime, "capture %d: unknown, or called with %d arguments and %d results", id, len(args), len(outs))
	}
	if r.loading == nil && r.checking != rp.checking.Load() {
		return r, false, false, nil
	}
	rp.drain()
	cells := rp.cells[:0]
	for _, h := range args {
		cells = append(cells, alias.Handle(h))
	}
	cells = append(cells, r.state...)
	rp.cells = cells
	if ok, err := rp.fits(r, cells); !ok || err != nil {
		return r, false, false, err
	}
	if !rp.acquire(r.program) {
		return r, false, false, nil
	}
	l := rp.relaunch(r, cells)
	at := func(w *write) *runtime.Buffer {
		b := w.copy.constant
		switch {
		case w.result >= 0:
			b = l.Outs[w.result]
		case w.copy.argument >= 0:
			c, _ := rp.store.Cell(cells[w.copy.argument])
			b = c.Buf.(*runtime.Buffer)
		}
		b.Retain()
		return b
	}
	// all values first: an argument that is copied may be written too
	values := make([]*runtime.Buffer, 0, len(r.outs)+len(r.writes))
	for i := range r.outs {
		values = append(values, at(&r.outs[i]))
	}
	for i := range r.writes {
		values = append(values, at(&r.writes[i]))
	}
	for i, w := range r.outs {
		h, err := rp.store.New(w.shape.Bytes(), r.dev.Index)
		if err != nil {
			panic(err) // out of 2²⁸ storages
		}
		rp.store.SetDevice(rp.store.Slot(h), w.shape, values[i])
		if i < len(outs) {
			outs[i] = int64(h)
		} else {
			rp.checks = append(rp.checks, r.checks[i-len(outs)].of(h))
		}
	}
	for i, w := range r.writes {
		h, b := cells[w.argument], values[len(r.outs)+i]
		if _, err := rp.store.Cell(h); err != nil {
			b.Release() // written only, and no one is left to read it
			continue
		}
		rp.store.SetDevice(rp.store.Slot(h), w.shape, b)
	}
	for _, o := range l.Outs {
		o.Release()
	}
	r.dev.Enqueue(l)
	replayed.Add(1)
	return r, true, rp.idle(r.dev), nil
}

// acquire takes a reference to the program of a computation. It is false if the program has left the cache.
func (rp *replays) acquire(p *program) bool {
	if p.cache != nil {
		if in, ok := rp.cache.Get(p.key); !ok || in != p {
			return false
		}
	}
	return p.acquire()
}

// fits materializes the arguments and reports whether they are what the computation was captured for.
func (rp *replays) fits(r *replay, cells []alias.Handle) (bool, error) {
	for i, h := range cells {
		c, err := rp.store.Cell(h)
		if err != nil {
			if i < r.arguments {
				return false, err
			}
			if r.needs[i].shape != nil {
				return false, nil
			}
			continue
		}
		if c.State == alias.Pending {
			if err := rp.flush(r.dev); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
				return false, err
			}
			c, _ = rp.store.Cell(h)
		}
		need := &r.needs[i]
		switch {
		case c.Dev != r.dev.Index:
			return false, nil
		case need.shape == nil:
		case c.Err != nil:
			return false, c.Err
		case c.State == alias.Device && c.Buf == placeholder{}:
			return false, nil // recorded as part of the function being traced
		case c.State != alias.Device || c.Shape != need.shape || c.Buf.Sharding() != need.sharding || c.Buf.Donating():
			return false, nil
		}
	}
	return true, nil
}

// relaunch makes the execution of a captured program, to which it takes over a reference.
func (rp *replays) relaunch(r *replay, cells []alias.Handle) *runtime.Launch {
	p := r.program
	syncs.Add(1)
	l := &runtime.Launch{Program: p, Donors: p.donors, Given: r.given, Step: syncs.Value(), Recorded: profile.Number(),
		Args: make([]*runtime.Buffer, len(r.params))}
	for i, s := range r.params {
		b := s.constant
		if s.argument >= 0 {
			c, _ := rp.store.Cell(cells[s.argument])
			b = c.Buf.(*runtime.Buffer)
		}
		b.Retain()
		l.Args[i] = b
	}
	numbers := r.numbers
	if len(r.streams) > 0 {
		numbers = append(rp.scalars[:0], r.numbers...)
		rp.scalars = numbers
		for i, s := range r.drawn {
			switch {
			case r.flags[i]&ir.RandomKey != 0:
				numbers[i].I = int64(s.from.key)
			case r.flags[i]&ir.RandomDraw != 0:
				numbers[i].I += int64(s.from.draws - s.first)
			}
		}
		for _, s := range r.streams {
			s.from.draws += s.draws
		}
	}
	switch {
	case p.runsAlone():
		l.Interpret = &interpretation{p, slices.Clone(numbers)}
	case len(r.streams) > 0:
		l.Packs = p.packs(numbers)
	default:
		if r.packs == nil {
			r.packs = p.packs(numbers)
		}
		l.Packs = r.packs
	}
	l.NewOuts(r.dev, p.results, p.shardings)
	for i, o := range r.origins {
		l.Outs[i].Origin = o
	}
	l.Done = rp.measured(p)
	return l
}

// DropReplay forgets a captured computation.
func (rp *replays) DropReplay(id int64) {
	rp.mu.Lock()
	r := rp.held[id]
	delete(rp.held, id)
	rp.mu.Unlock()
	if r == nil {
		return
	}
	for _, s := range r.params {
		if s.constant != nil {
			s.constant.Release()
		}
	}
	for _, list := range [][]write{r.outs, r.writes} {
		for _, w := range list {
			if w.copy.constant != nil {
				w.copy.constant.Release()
			}
		}
	}
	if r.program.cache == nil {
		r.program.release()
	}
}
