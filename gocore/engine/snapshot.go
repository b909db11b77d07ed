package engine

import (
	"errors"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
)

// snapshots are the values that callers hold, by number.
type snapshots struct {
	held map[int64][]held
	last int64
}

// held is a value of a snapshot.
type held struct {
	buf    *runtime.Buffer // nil: a storage that was never written
	pinned bool
}

func (h held) release() {
	if h.pinned {
		h.buf.Unpin()
	}
	if h.buf != nil {
		h.buf.Release()
	}
}

// Snapshot holds the values that the given storages have at one moment: under one lock, what is recorded
// for their devices is synced, by one program a device, and every value gets an owner more, so that no
// later step writes into it. The values may still be on their way: wait for the devices, then fetch them.
// DropSnapshot lets go of them. If computing one of them has failed before, its cause is the error.
func (e *Engine) Snapshot(handles []int64) (int64, error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	id, devices, err := e.hold(handles)
	for _, d := range devices {
		d.Kick()
	}
	if err == nil {
		if err = e.indexErrors(); err != nil {
			e.DropSnapshot(id)
		}
	}
	return id, err
}

// hold does the work of Snapshot, but for kicking the devices, which it returns.
func (e *Engine) hold(handles []int64) (id int64, devices []*runtime.Device, err error) {
	if err := e.lock(); err != nil {
		return 0, nil, err
	}
	defer e.mu.Unlock()
	e.drain()
	for _, h := range handles {
		c, err := e.store.Cell(alias.Handle(h))
		if err != nil {
			return 0, devices, err
		}
		if c.State == alias.Pending {
			d := e.at(c.Dev)
			devices = append(devices, d)
			if err := e.cut(d); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
				return 0, devices, err
			}
		}
	}
	e.unreported = nil // the storages have it
	var values []held
	for _, h := range handles {
		b, err := e.owned(alias.Handle(h))
		if err != nil {
			for _, v := range values {
				v.release()
			}
			return 0, devices, err
		}
		values = append(values, held{buf: b})
	}
	s := &e.snapshots
	if s.held == nil {
		s.held = make(map[int64][]held)
	}
	s.last++
	s.held[s.last] = values
	return s.last, devices, nil
}

// owned is the buffer of a settled storage, with a reference for the caller; nil for one never written.
func (e *Engine) owned(h alias.Handle) (*runtime.Buffer, error) {
	c, err := e.store.Cell(h)
	if err != nil {
		return nil, err
	}
	if c.State != alias.Device {
		return nil, c.Err
	}
	b, ok := c.Buf.(*runtime.Buffer)
	if !ok {
		return nil, errPlaceholder
	}
	b.Retain()
	return b, nil
}

// DropSnapshot ends a snapshot; the addresses that it gave are no longer good.
func (e *Engine) DropSnapshot(id int64) {
	e.mu.Lock()
	values := e.snapshots.held[id]
	delete(e.snapshots.held, id)
	e.mu.Unlock()
	for _, v := range values {
		v.release()
	}
}

// snapshotValue is value i of a snapshot, with a reference for the caller; nil for a storage never written.
func (e *Engine) snapshotValue(id int64, i int) (*runtime.Buffer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	values := e.snapshots.held[id]
	if i < 0 || i >= len(values) {
		return nil, errs.New(errs.Runtime, "snapshot %d has no value %d", id, i)
	}
	b := values[i].buf
	if b != nil {
		b.Retain()
	}
	return b, nil
}

// FetchSnapshot copies value i of a snapshot to host memory of exactly its size.
func (e *Engine) FetchSnapshot(id int64, i int, dst unsafe.Pointer, size int64) error {
	b, err := e.snapshotValue(id, i)
	if err != nil {
		return err
	}
	if b != nil {
		defer b.Release()
	}
	return e.download(b, dst, size)
}

// SnapshotAddress is where value i of a snapshot lies in host memory, to be read there until DropSnapshot; 0 where
// the host cannot read the device's memory, and for a storage that was never written.
func (e *Engine) SnapshotAddress(id int64, i int) (int64, error) {
	b, err := e.snapshotValue(id, i)
	if err != nil || b == nil {
		return 0, err
	}
	defer b.Release()
	addr, err := b.Pin()
	if err != nil || addr == 0 {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	values := e.snapshots.held[id]
	if values == nil || values[i].pinned { // dropped meanwhile, or asked for before
		b.Unpin()
	}
	if values == nil {
		return 0, errs.New(errs.Runtime, "snapshot %d has ended", id)
	}
	values[i].pinned = true
	return int64(addr), nil
}
