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

// sync computes the value of every storage of a device that has been written since the last sync. It
// returns when the program is on its way; reading a result waits for it. started reports that all of the device's
// programs are on their way, and none waits for its turn.
//
// All storages are materialized by one program, so that a reader after a sync reads one moment.
func (sp *steps) sync(dev int) (started bool, err error) {
	d, err := sp.device(dev)
	if err != nil {
		return false, err
	}
	err = sp.planned(d)
	started = d.Drain() // without the lock
	if err == nil {
		err = sp.valueErrors()
	}
	return started, err
}

// planned plans what is recorded for a device, and queues its launch.
func (sp *steps) planned(d *runtime.Device) error {
	if err := sp.lock(); err != nil {
		return err
	}
	defer sp.mu.Unlock()
	sp.drain()
	return sp.report(sp.flush(d))
}

// Step computes what is recorded for a device, or for all of them for -1, by one program for each. With mark it ends a
// step, which the metrics count. It returns when the programs are on their way; with wait it also waits for the device,
// for a while. It reports whether nothing is left to do; else the caller goes on by Throttle, or by Wait and Failure.
// This is one crossing from Python in place of five, and most steps of few ops have nothing left.
//
// errs.Busy asks for the same call again: a program is being compiled, or a check of indices runs. The other errors are
// those of the program, which cannot be lowered, compiled or started, and that of an index out of range.
func (sp *steps) Step(dev int, mark, wait bool) (through bool, err error) {
	first, last := dev, dev
	if dev < 0 {
		first, last = 0, sp.DeviceCount()-1
	}
	through = true
	for i := first; i <= last && err == nil; i++ {
		started, failure := sp.sync(i)
		through, err = through && started, failure
	}
	if errors.Is(err, errBusy) {
		return false, err // and is called again
	}
	if mark && first <= last {
		marks.Add(1)
		profile.Mark(traced.Value(), runtime.LiveBytes())
	}
	if err != nil || !wait {
		return through, err
	}
	if through, err = sp.Finish(dev); errors.Is(err, errBusy) {
		return false, nil // the step has ended, so only the wait is repeated
	}
	return through, err
}

// Finish waits for a device, for a while, and is then its Failure. It reports whether it waited for all. Of several
// devices, which -1 stands for, it waits for none: each may have an error.
func (sp *steps) Finish(dev int) (through bool, err error) {
	if dev < 0 {
		if sp.DeviceCount() != 1 {
			return sp.DeviceCount() == 0, nil
		}
		dev = 0
	}
	d, err := sp.device(dev)
	if err != nil {
		return false, err
	}
	if through, err = sp.Wait(dev, d.Submitted(), patience); through && err == nil {
		err = d.TakeFailure()
	}
	return through, err
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
		return true, sp.valueErrors()
	}
	return false, sp.client.Job.Stuck()
}

// Failure is the error of a program of a device that failed, which no reader of a result has been given; nil if there
// is none, or a call has returned it.
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
