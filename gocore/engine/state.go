package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// Handle names a storage; see alias.Handle.
type Handle = alias.Handle

// state is what all parts of the engine share: the lock, the devices and the storages.
type state struct {
	gate
	open    atomic.Bool                       // set once, when the device is open
	client  *runtime.Client                   // set before open is
	devices atomic.Pointer[[]*runtime.Device] // as torch sees them: set before open is, and replaced by one device by UseSPMD
	store   *alias.Store                      // set before open is; what it holds is guarded by mu, and changes with every op
	// ctx is what shape rules know; guarded by mu. Its node changes with every op, Partitions with UseSPMD, Functions
	// when one is kept, DefaultFloat with SetDefaultFloat.
	ctx ops.Ctx
	// tracing is, by device, the span since its graph has nodes; guarded by mu. The first op begins it, a sync ends it.
	tracing []profile.Span
	// TakeDead fills dst with handles of storages that died and returns their number. The kernels' side sets it, before
	// any other call.
	TakeDead func(dst []uint64) int
	dead     [256]uint64 // what TakeDead fills; guarded by mu

	checking atomic.Uint32 // ops.Checks of TORCH_GO_XLA_CHECK; Open and Configure set it
	checks   []valueCheck  // recorded or launched, and not looked at; guarded by mu
}

var (
	traced        = metrics.C("TracedOps")
	lockWait      = metrics.M("LockWait", "ns")
	toDevice      = metrics.M("TransferToDeviceTime", "ns")
	fromDevice    = metrics.M("TransferFromDeviceTime", "ns")
	inboundBytes  = metrics.M("InboundData", "bytes")
	outboundBytes = metrics.M("OutboundData", "bytes")
)

// placeholder is the buffer of a storage that stands for an argument of a function being traced. It has no
// value: what is computed of it becomes a function, and is an error if it is read before.
type placeholder struct{}

func (placeholder) Retain()                      {}
func (placeholder) Release()                     {}
func (placeholder) Err() error                   { return nil }
func (placeholder) Donating() bool               { return false }
func (placeholder) Sharding() *sharding.Sharding { return nil }

var errPlaceholder = errs.New(errs.Runtime, "this tensor depends on an argument of a function that is being traced: it has no value")

// check is the error of a call that needs an open device.
func (st *state) check() error {
	if !st.open.Load() {
		return errs.New(errs.Runtime, "no device is open")
	}
	return nil
}

// Closed reports that no device is open, and that opening one may help.
func (st *state) Closed() bool { return !st.open.Load() }

// Idle reports that a device is open and no one holds the core: then calls that would wait for it with the GIL do not.
func (st *state) Idle() bool {
	if st.Closed() || !st.mu.TryLock() {
		return false
	}
	defer st.mu.Unlock()
	return st.compiling == nil
}

// WaitIdle waits until the core was free once, or for a while. It is false if no device is open: the caller opens one.
func (st *state) WaitIdle() bool {
	start := time.Now()
	if st.lock() == nil {
		st.mu.Unlock()
	}
	lockWait.Since(start)
	return !st.Closed()
}

// DeviceCount is the number of devices, 0 before Open.
func (st *state) DeviceCount() int {
	if l := st.devices.Load(); l != nil {
		return len(*l)
	}
	return 0
}

// device is the device of an index.
func (st *state) device(dev int) (*runtime.Device, error) {
	if err := st.check(); err != nil {
		return nil, err
	}
	if n := st.DeviceCount(); dev < 0 || dev >= n {
		return nil, errs.New(errs.Runtime, "xla:%d: invalid device ordinal; this process has %d xla device(s), xla:0 to xla:%d", dev, n, n-1)
	}
	return st.at(int32(dev)), nil
}

// at is the device of a cell.
func (st *state) at(dev int32) *runtime.Device { return (*st.devices.Load())[dev] }

// SetDefaultFloat follows torch.set_default_dtype. The error is errs.Type for any but a floating type.
func (st *state) SetDefaultFloat(torchCode int) error {
	d := dtype.FromTorch(torchCode)
	if !d.IsFloat() {
		return errs.New(errs.Type, "the default dtype must be a floating type")
	}
	st.mu.Lock()
	st.ctx.DefaultFloat = d
	st.mu.Unlock()
	return nil
}

// Alloc makes a storage of a number of bytes, not yet written. The error is errs.Memory if there are too many.
func (st *state) Alloc(bytes int64, dev int32) (alias.Handle, error) {
	if err := st.lock(); err != nil {
		return 0, err
	}
	defer st.mu.Unlock()
	if err := st.check(); err != nil {
		return 0, err
	}
	if _, err := st.device(int(dev)); err != nil {
		return 0, err
	}
	return st.store.New(bytes, dev)
}

// Resize changes the size of a storage and keeps the bytes that fit. Shrinking to 0 frees the memory, as
// FSDP does with parameters between uses.
func (st *state) Resize(handle uint64, bytes int64) error {
	if err := st.lock(); err != nil {
		return err
	}
	defer st.mu.Unlock()
	h := alias.Handle(handle)
	if _, err := st.cell(h); err != nil {
		return err
	}
	return st.store.Resize(h, bytes)
}

// Release frees the cells of storages that have died.
func (st *state) Release(handles []uint64) {
	st.lockWhenIdle()
	defer st.mu.Unlock()
	if st.check() == nil {
		st.release(handles)
	}
}

// idleGraph is the number of nodes up to which a graph keeps those that no storage needs any more. Larger ones are
// compacted, as a program that drops its results unread never syncs.
const idleGraph = 1 << 12

// sweepDue reports that a graph has grown enough to look for what no one needs of it.
func sweepDue(t *alias.Trace) bool { return t.Graph.Len() > max(idleGraph, t.SweepAt) }

func (st *state) release(handles []uint64) {
	for _, h := range handles {
		st.store.Release(alias.Handle(h))
	}
	for dev := range st.store.Devices() {
		switch t := st.store.Trace(int32(dev)); {
		case t.Graph.Len() <= idleGraph:
		case t.Idle():
			discard(t)
		case sweepDue(t):
			st.store.Compact(int32(dev))
			t.SweepAt = idleGraph + 2*t.Graph.Len() + st.store.Live()
		}
	}
}

// discard releases what is left of a trace and starts a new one.
func discard(t *alias.Trace) {
	for i := range t.Leaves {
		if b := t.Leaves[i].Buf; b != nil {
			b.Release()
		}
	}
	t.EndGraph()
}

// drain frees the cells of the storages that the kernels' side knows to have died. What is dead must be
// known before a sync: it decides what is computed and what may be donated.
func (st *state) drain() {
	if st.TakeDead == nil {
		return
	}
	for {
		n := st.TakeDead(st.dead[:])
		st.release(st.dead[:n])
		if n < len(st.dead) {
			return
		}
	}
}

// LiveStorages is the number of storages in use.
func (st *state) LiveStorages() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.check() != nil {
		return 0
	}
	if st.compiling == nil {
		st.drain()
	}
	return st.store.Live()
}

func (st *state) cell(h alias.Handle) (*alias.Cell, error) {
	if err := st.check(); err != nil {
		return nil, err
	}
	return st.store.Cell(h)
}

// handles checks the handles of storages that a capture names.
func (st *state) handles(lists ...[]int64) (all []alias.Handle, err error) {
	for _, list := range lists {
		for _, h := range list {
			c, err := st.store.Cell(alias.Handle(h))
			if err != nil {
				return nil, err
			}
			if first, _ := st.store.Cell(append(all, alias.Handle(h))[0]); first.Dev != c.Dev {
				return nil, errs.New(errs.Runtime, "the tensors are on different devices: xla:%d and xla:%d", first.Dev, c.Dev)
			}
			all = append(all, alias.Handle(h))
		}
	}
	return all, nil
}

// owned is the buffer of a materialized storage, with a reference for the caller; nil for one never written.
func (st *state) owned(h alias.Handle) (*runtime.Buffer, error) {
	c, err := st.store.Cell(h)
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

// spmd reports that UseSPMD was called. The caller holds mu.
func (st *state) spmd() bool { return st.ctx.Partitions > 0 }

// shardingOf is the sharding of a cell's value if it is known and not replicated; nil if not.
func (st *state) shardingOf(c *alias.Cell) *sharding.Sharding {
	switch {
	case c.Sharding != nil:
		return c.Sharding
	case c.State == alias.Device:
		if sh := c.Buf.Sharding(); sh != sharding.Everywhere {
			return sh
		}
	case c.State == alias.Pending:
		t := st.store.Trace(c.Dev)
		if t.Graph.Manual(c.Value) {
			return t.Local(c.Value)
		}
		if sh := t.Annotated(c.Value); sh != sharding.Everywhere {
			return sh
		}
	}
	return nil
}

// local reports that a cell's value is local to the devices.
func (st *state) local(c *alias.Cell) bool {
	sh := st.shardingOf(c)
	return sh != nil && sh.Kind == sharding.Manual
}

// checkValues records the checks of the op that st.ctx describes: node, whose results are stored as values. The caller
// holds mu.
func (st *state) checkValues(t *alias.Trace, dev int32, op ir.Op, node ir.ID, values []ir.ID) error {
	for _, k := range st.ctx.Check(ops.Checks(st.checking.Load()), node, values) {
		h, err := st.store.New(t.Graph.Shape(k.Node).Bytes(), dev)
		if err != nil {
			return err
		}
		c, _ := st.store.Cell(h)
		st.store.SetPending(h, c, k.Node)
		st.checks = append(st.checks, valueCheck{k.Err, runtime.Origin{Op: uint16(op), Loc: t.Graph.Loc}, h})
	}
	return nil
}

// withChecks adds the pending checks of a device to the storages that are about to be computed.
func (st *state) withChecks(dev int32, slots []uint32) []uint32 {
	for _, k := range st.checks {
		if c, err := st.store.Cell(k.storage); err == nil && c.Dev == dev && c.State == alias.Pending {
			slots = append(slots, st.store.Slot(k.storage))
		}
	}
	return slots
}

// launchedChecks takes the checks that have been launched from the list, with a reference to each result, and frees
// those that could not be computed. The caller holds mu.
func (st *state) launchedChecks() (all []launched) {
	st.checks = slices.DeleteFunc(st.checks, func(k valueCheck) bool {
		c, err := st.store.Cell(k.storage)
		switch {
		case err != nil:
		case c.State == alias.Pending:
			return false
		case c.State == alias.Device:
			b := c.Buf.(*runtime.Buffer)
			b.Retain()
			all = append(all, launched{k, b})
		default:
			st.store.Release(k.storage)
		}
		return true
	})
	return all
}

// dropChecks forgets all checks. The caller holds mu.
func (st *state) dropChecks() {
	for _, k := range st.checks {
		st.store.Release(k.storage)
	}
	st.checks = nil
}
