package engine

import (
	"slices"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// With XLA_CHECK_INDICES every op that has indices is followed by a node that finds the first one out of range. Its value
// goes to a storage of the engine's own, so that it is computed, captured and replayed with the values that callers see.
// A sync, a read or a wait looks at those that have been launched.

// indexCheck is a recorded test of the indices of an op.
type indexCheck struct {
	bounds  ops.Bounds
	by      runtime.Origin
	storage alias.Handle // i64[2], see ops.Bounds.Check
}

// of is the same test with its result in another storage.
func (c indexCheck) of(h alias.Handle) indexCheck {
	c.storage = h
	return c
}

// checkBounds records the checks of the op that e.ctx describes. The caller holds mu.
func (e *Engine) checkBounds(t *alias.Trace, dev int32, op ir.Op) error {
	for _, b := range e.ctx.Row.Bounds(&e.ctx) {
		id := b.Check(&t.Graph)
		if id == ir.None {
			continue
		}
		h, err := e.store.New(t.Graph.Shape(id).Bytes(), dev)
		if err != nil {
			return err
		}
		c, _ := e.store.Cell(h)
		e.store.SetPending(h, c, id)
		e.checks = append(e.checks, indexCheck{b, runtime.Origin{Op: uint16(op), Loc: t.Graph.Loc}, h})
	}
	return nil
}

// withChecks adds the pending checks of a device to the storages that are about to be computed.
func (e *Engine) withChecks(dev int32, slots []uint32) []uint32 {
	for _, k := range e.checks {
		if c, err := e.store.Cell(k.storage); err == nil && c.Dev == dev && c.State == alias.Pending {
			slots = append(slots, e.store.Slot(k.storage))
		}
	}
	return slots
}

// captureChecks makes the pending checks of a device part of a captured computation and returns their storages. Those that
// depend on arguments of functions being traced have no value.
func (e *Engine) captureChecks(r *replay, t *alias.Trace) (made []alias.Handle) {
	slots := e.withhold(t, e.withChecks(r.dev.Index, nil))
	for _, k := range e.checks {
		if slices.Contains(slots, e.store.Slot(k.storage)) {
			r.checks, made = append(r.checks, k.of(0)), append(made, k.storage)
		}
	}
	return made
}

// launched is a check whose program has been launched.
type launched struct {
	indexCheck
	result *runtime.Buffer
}

// indexErrors waits for the checks that have been launched, and is the error of the first one that has found something. It
// is errBusy after a while: the caller looks for signals and repeats its call.
func (e *Engine) indexErrors() (first error) {
	if !e.checksIndices.Load() {
		return nil
	}
	e.mu.Lock()
	all := e.launchedChecks()
	e.mu.Unlock()
	until := time.Now().Add(patience)
	for i, k := range all {
		done, err := k.result.AwaitFor(max(time.Until(until), time.Millisecond))
		if !done && err == nil { // keep what is left for the next call
			e.mu.Lock()
			for _, k := range all[i:] {
				e.checks = append(e.checks, k.indexCheck)
				k.result.Release()
			}
			e.mu.Unlock()
			if first == nil {
				first = errBusy
			}
			return first
		}
		var found [2]int64
		if err == nil { // else the values that it belongs to have the error
			err = e.download(k.result, unsafe.Pointer(&found), int64(unsafe.Sizeof(found)))
		}
		if err == nil && found[0] >= 0 && first == nil {
			first = errs.Recorded(k.bounds.Err(found[1], found[0]), ops.At(ir.Op(k.by.Op), e.Where(k.by.Loc)))
		}
		k.result.Release()
		e.Release([]uint64{uint64(k.storage)})
	}
	return first
}

// launchedChecks takes the checks that have been launched from the list, with a reference to each result, and frees those
// that could not be computed. The caller holds mu.
func (e *Engine) launchedChecks() (all []launched) {
	e.checks = slices.DeleteFunc(e.checks, func(k indexCheck) bool {
		c, err := e.store.Cell(k.storage)
		switch {
		case err != nil:
		case c.State == alias.Pending:
			return false
		case c.State == alias.Device:
			b := c.Buf.(*runtime.Buffer)
			b.Retain()
			all = append(all, launched{k, b})
		default:
			e.store.Release(k.storage)
		}
		return true
	})
	return all
}

// dropChecks forgets all checks. The caller holds mu.
func (e *Engine) dropChecks() {
	for _, k := range e.checks {
		e.store.Release(k.storage)
	}
	e.checks = nil
}
