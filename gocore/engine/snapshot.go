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
	*transfers
	held map[int64][]held // guarded by mu; Snapshot adds, DropSnapshot removes
	last int64            // guarded by mu; Snapshot counts it up
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

// Snapshot holds the values that the given storages have at one moment. Under one lock, what is recorded
// for their devices is synced, by one program a device. Every value gets an owner more, so that no
// later step writes into it. The values may still be on their way: wait for the devices, then fetch them.
// DropSnapshot releases them. If computing one of them has failed before, its cause is the error.
func (sn *snapshots) Snapshot(handles []int64) (int64, error) {
	if err := sn.check(); err != nil {
		return 0, err
	}
	id, devices, err := sn.hold(handles)
	for _, d := range devices {
		d.Drain()
	}
	if err == nil {
		if err = sn.valueErrors(); err != nil {
			sn.DropSnapshot(id)
		}
	}
	return id, err
}

// hold does the work of Snapshot, but for draining the devices, which it returns.
func (sn *snapshots) hold(handles []int64) (id int64, devices []*runtime.Device, err error) {
	if err := sn.lock(); err != nil {
		return 0, nil, err
	}
	defer sn.mu.Unlock()
	sn.drain()
	for _, h := range handles {
		c, err := sn.store.Cell(alias.Handle(h))
		if err != nil {
			return 0, devices, err
		}
		if c.State == alias.Pending {
			d := sn.at(c.Dev)
			devices = append(devices, d)
			if err := sn.flush(d); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
				return 0, devices, err
			}
		}
	}
	sn.unreported = nil // the storages have it
	var values []held
	for _, h := range handles {
		b, err := sn.owned(alias.Handle(h))
		if err != nil {
			for _, v := range values {
				v.release()
			}
			return 0, devices, err
		}
		values = append(values, held{buf: b})
	}
	if sn.held == nil {
		sn.held = make(map[int64][]held)
	}
	sn.last++
	sn.held[sn.last] = values
	return sn.last, devices, nil
}

// DropSnapshot ends a snapshot; the addresses that it gave are no longer good.
func (sn *snapshots) DropSnapshot(id int64) {
	sn.mu.Lock()
	values := sn.held[id]
	delete(sn.held, id)
	sn.mu.Unlock()
	for _, v := range values {
		v.release()
	}
}

// snapshotValue is value i of a snapshot, with a reference for the caller; nil for a storage never written.
func (sn *snapshots) snapshotValue(id int64, i int) (*runtime.Buffer, error) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	values := sn.held[id]
	if i < 0 || i >= len(values) {
		return nil, errs.New(errs.Runtime, "snapshot %d has no value %d", id, i)
	}
	b := values[i].buf
	if b != nil {
		b.Retain()
	}
	return b, nil
}

// FetchSnapshot copies value i of a snapshot to host memory of exactly its size. The error is errs.Runtime if it has
// ended, or has no such value.
func (sn *snapshots) FetchSnapshot(id int64, i int, dst unsafe.Pointer, size int64) error {
	b, err := sn.snapshotValue(id, i)
	if err != nil {
		return err
	}
	if b != nil {
		defer b.Release()
	}
	return sn.download(b, dst, size)
}

// SnapshotAddress is where value i of a snapshot lies in host memory, to be read there until DropSnapshot; 0 where
// the host cannot read the device's memory, and for a storage that was never written.
func (sn *snapshots) SnapshotAddress(id int64, i int) (int64, error) {
	b, err := sn.snapshotValue(id, i)
	if err != nil || b == nil {
		return 0, err
	}
	defer b.Release()
	addr, err := b.Pin()
	if err = reported(b.Dev, err); err != nil || addr == 0 {
		return 0, err
	}
	sn.mu.Lock()
	defer sn.mu.Unlock()
	values := sn.held[id]
	if values == nil || values[i].pinned { // dropped meanwhile, or asked for before
		b.Unpin()
	}
	if values == nil {
		return 0, errs.New(errs.Runtime, "snapshot %d has ended", id)
	}
	values[i].pinned = true
	return int64(addr), nil
}
