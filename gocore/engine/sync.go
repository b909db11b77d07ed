package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// steps computes what is recorded when its callers say so, and waits for the devices.
type steps struct {
	*checker
}

// Sync computes the value of every storage of a device that has been written since the last sync. It
// returns when the program is on its way; reading a result waits for it.
//
// All storages are materialized by one program, so that whoever reads after a sync reads one moment.
func (sp *steps) Sync(dev int) error {
	if err := sp.sync(dev); err != nil {
		return err
	}
	return sp.indexErrors()
}

// sync does the work of Sync, but for looking at the checks of indices.
func (sp *steps) sync(dev int) error {
	d, err := sp.device(dev)
	if err != nil {
		return err
	}
	defer d.Drain() // without the lock
	if err := sp.lock(); err != nil {
		return err
	}
	defer sp.mu.Unlock()
	sp.drain()
	return sp.report(sp.flush(d))
}

// Mark is Sync as the end of a step, which the metrics count.
func (sp *steps) Mark(dev int) error {
	err := sp.Sync(dev)
	if errors.Is(err, errBusy) {
		return err // and is called again
	}
	marks.Add(1)
	profile.Mark(traced.Value(), runtime.LiveBytes())
	return err
}

// SyncSome computes only the given storages; what else is pending stays so, and uses the computed values
// where it needs them. What the rest of the graph still reads is not donated: it has an owner there.
func (sp *steps) SyncSome(handles []int64) error {
	if err := sp.check(); err != nil {
		return err
	}
	byDevice := make(map[int32][]uint32)
	defer func() {
		for dev := range byDevice {
			sp.at(dev).Drain() // without the lock
		}
	}()
	if err := sp.lock(); err != nil {
		return err
	}
	defer sp.mu.Unlock()
	sp.drain()
	for _, h := range handles {
		c, err := sp.store.Cell(alias.Handle(h))
		if err != nil {
			return err
		}
		if slot := sp.store.Slot(alias.Handle(h)); c.State == alias.Pending && !slices.Contains(byDevice[c.Dev], slot) {
			byDevice[c.Dev] = append(byDevice[c.Dev], slot)
		}
	}
	var first error
	for dev, slots := range byDevice {
		slots = sp.withChecks(dev, slots)
		if err := sp.flushSome(sp.at(dev), slots); err != nil && first == nil {
			first = err
		}
	}
	return sp.report(first)
}

// Submitted is the number of programs that a device was ever given.
func (sp *steps) Submitted(dev int) (int64, error) {
	d, err := sp.device(dev)
	if err != nil {
		return 0, err
	}
	return d.Submitted(), nil
}

// Wait waits until a device has run its first programs, as many as Submitted said, or until the timeout; done is
// false if it expired.
func (sp *steps) Wait(dev int, programs int64, timeout time.Duration) (done bool, err error) {
	d, err := sp.device(dev)
	if err != nil {
		return false, err
	}
	span := profile.Begin()
	done = d.Wait(programs, timeout)
	span.Waited()
	if done {
		return true, sp.indexErrors()
	}
	return false, sp.client.Job.Stuck()
}

// Failure is the error of a program of a device that failed, which no reader of a result has been given; nil if there is
// none, or a call has returned it.
func (sp *steps) Failure(dev int) error {
	d, err := sp.device(dev)
	if err != nil {
		return err
	}
	return d.TakeFailure()
}

// Throttle waits until at most n programs wait for their turn, or until the timeout; it reports whether
// that is so. Callers that sync in a loop use it to stay within sight of the device.
func (sp *steps) Throttle(dev, n int, timeout time.Duration) (bool, error) {
	d, err := sp.device(dev)
	if err != nil {
		return false, err
	}
	span := profile.Begin()
	done := d.WaitQueue(n, timeout)
	span.Waited()
	if done {
		return true, nil
	}
	return false, sp.client.Job.Stuck()
}
