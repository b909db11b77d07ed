package runtime

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// inFlight is how many executions of a device may be started and not finished; the next one waits, so
// that a fast tracer does not fill the device's memory with the inputs of steps to come.
const inFlight = 4

// Device is what torch sees as a device, with its queue: one of the plugin's devices, or all of them with
// SPMD.
type Device struct {
	// Set before the device is used; they do not change.
	Index       int32
	home        *Client
	client      *pjrt.Client
	devs        []*pjrt.Device // the plugin's devices of this process, in the order of the partitions
	spmd        bool           // programs are partitioned over ids, and buffers have shardings
	ids         []int          // the plugin's numbers of the devices of all partitions, process by process
	first       int            // the partition of devs[0]
	job         *Job           // the processes whose devices run the same programs, or replicas of them; nil: this one alone
	peers       []int          // without SPMD: the plugin's numbers of the devices of this index, by process
	mostAdopted func() int64   // the most that adopted may be; the device's limit does not count these bytes

	mu        sync.Mutex
	idle      *sync.Cond   // on mu: the queue has become shorter
	queue     []*Launch    // guarded by mu; Enqueue appends, step removes the head
	working   bool         // guarded by mu; a goroutine runs the queue: Drain or work
	submitted int64        // launches ever queued; guarded by mu, Enqueue counts it up
	started   atomic.Int64 // launches that have left the queue; written under mu

	addresses []unsafe.Pointer // of the arguments and results of a launch; scratch of the goroutine that runs the queue

	run     sync.Mutex             // held while a launch enters the plugin, so that they run in order
	ring    [inFlight][]pjrt.Event // of each execution, one event a device; guarded by run
	numbers [inFlight]int64        // of each execution, the launch that it belongs to; guarded by run
	next    int                    // the place of the oldest execution in ring; guarded by run

	failures failures // has a lock of its own
	spares   spares   // has a lock of its own
	arrays   arrays
	adopted  atomic.Int64 // bytes of the buffers whose memory is not the plugin's
	peak     atomic.Int64 // the most bytes in use that MemoryStats has reported
}

// adoptedPart is the part of the device's memory that buffers in torch's memory may take besides.
const adoptedPart = 16

func newDevice(c *Client, index int, devs []*pjrt.Device, spmd bool) *Device {
	d := &Device{Index: int32(index), home: c, client: c.PJRT, devs: devs, spmd: spmd}
	for _, dev := range devs {
		d.ids = append(d.ids, dev.ID())
	}
	d.idle = sync.NewCond(&d.mu)
	d.mostAdopted = sync.OnceValue(func() int64 { return d.MemoryLimit() / adoptedPart })
	for i := range d.ring {
		d.ring[i] = make([]pjrt.Event, len(devs))
	}
	return d
}

// Client is the connection to a plugin with its devices. Its fields are set before the devices are used, and do not
// change.
type Client struct {
	PJRT    *pjrt.Client
	Devices []*Device
	Job     *Job // nil: this process is alone
	// Recorder says in words by what a buffer's value was recorded, for errors; nil: they do not say.
	Recorder func(Origin) string
	// Flags are options of XLA that every program is compiled with.
	Flags map[string]any
}

// Open creates a client of a plugin. opts are the plugin's create options; job is the processes that run programs
// together, nil if this is the only one. The error is the plugin's; errs.Runtime if it has no device here, or other
// processes have another number of them.
func Open(plugin *pjrt.Plugin, opts map[string]any, job *Job) (*Client, error) {
	pc, err := plugin.NewClient(opts, job.keys())
	if err != nil {
		return nil, Translate(err)
	}
	c := &Client{PJRT: pc, Job: job}
	for i, d := range pc.AddressableDevices() {
		c.Devices = append(c.Devices, newDevice(c, i, []*pjrt.Device{d}, false))
	}
	if job != nil {
		if err := c.join(); err != nil {
			return nil, errors.Join(err, pc.Close())
		}
	}
	if len(c.Devices) == 0 {
		return nil, errors.Join(errs.New(errs.Runtime, "%s has no device in this process", pc), pc.Close())
	}
	return c, nil
}

// join finds the devices of the other processes.
func (c *Client) join() error {
	peers := make([][]int, c.Job.Count)
	for _, d := range c.PJRT.Devices() {
		if p := d.ProcessIndex(); p >= 0 && p < len(peers) {
			peers[p] = append(peers[p], d.ID())
		}
	}
	for _, d := range c.Devices {
		d.job = c.Job
		for p := range peers {
			if int(d.Index) >= len(peers[p]) {
				return errs.New(errs.Runtime, "process %d has %d devices and process %d has %d; all must have as many",
					c.Job.Index, len(c.Devices), p, len(peers[p]))
			}
			d.peers = append(d.peers, peers[p][d.Index])
		}
	}
	return nil
}

// Merge is the device that SPMD makes of all devices of the client, those of other processes included.
func (c *Client) Merge() *Device {
	d := newDevice(c, 0, c.PJRT.AddressableDevices(), true)
	if d.job = c.Job; d.job == nil {
		return d
	}
	d.ids = nil
	for p := range c.Job.Count {
		for _, single := range c.Devices {
			d.ids = append(d.ids, single.peers[p])
		}
	}
	d.first = c.Job.Index * len(d.devs)
	return d
}

// Partitions is the number of the plugin's devices behind an SPMD device; 0 without SPMD.
func (d *Device) Partitions() int {
	if d.spmd {
		return len(d.ids)
	}
	return 0
}

// Local are the first of the partitions of an SPMD device that are devices of this process, and their number.
func (d *Device) Local() (first, count int) { return d.first, len(d.devs) }

// Spans reports that an SPMD device has partitions in other processes, which run all its programs too.
func (d *Device) Spans() bool { return len(d.ids) > len(d.devs) }

// IDs are the plugin's numbers of the devices, by partition.
func (d *Device) IDs() []int { return d.ids }

// Replicas are the plugin's numbers of the devices that run a replica each of a program in which processes exchange
// data. They are by process, this device among them; nil if this is the only process.
func (d *Device) Replicas() []int { return d.peers }

// String is torch's name of the device.
func (d *Device) String() string { return fmt.Sprintf("xla:%d", d.Index) }

// Submitted is the number of launches that the device was ever given.
func (d *Device) Submitted() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submitted
}

// Wait waits until the first launches of the device, as many as Submitted said, have finished, or until the
// timeout (0: none); it is false if that expired. Launches that come later are not waited for: threads that
// always have another one would keep the caller here. TakeFailure tells what has failed.
func (d *Device) Wait(launches int64, timeout time.Duration) bool {
	until := time.Time{}
	if timeout > 0 {
		until = time.Now().Add(timeout)
	}
	if !d.waitUntil(func() bool { return d.started.Load() >= launches }, timeout) {
		return false
	}
	d.run.Lock()
	defer d.run.Unlock()
	for range inFlight {
		if d.numbers[d.next] > launches {
			break
		}
		if !d.retireBefore(until, d.next) {
			return false
		}
		d.next = (d.next + 1) % inFlight
	}
	return true
}

// TakeFailure is the error of the launches that have failed since the last call, nil if none has: what reading their
// results gives. It leaves out those whose argument had failed, and those that Reported named.
func (d *Device) TakeFailure() error { return d.failures.take() }

// Reported says that a caller gets an error that reading a result gave; TakeFailure does not return it again.
func (d *Device) Reported(err error) {
	if err != nil {
		d.failures.reported(err)
	}
}

// WaitQueue waits until at most n launches wait for their turn, or until the timeout (0: none); it
// reports whether that is so.
func (d *Device) WaitQueue(n int, timeout time.Duration) bool {
	return d.waitUntil(func() bool { return len(d.queue) <= n }, timeout)
}

// waitUntil waits until something holds that changes as a launch leaves the queue, or until the timeout
// (0: none); it reports whether that holds. It is asked with mu held.
func (d *Device) waitUntil(holds func() bool, timeout time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	expired := false
	if timeout > 0 && !holds() {
		t := time.AfterFunc(timeout, func() {
			d.mu.Lock()
			expired = true
			d.mu.Unlock()
			d.idle.Broadcast()
		})
		defer t.Stop()
	}
	for !holds() && !expired {
		d.idle.Wait()
	}
	return holds()
}

// retire waits for the oldest execution in flight. The caller holds run.
func (d *Device) retire() {
	oldest := d.next
	d.next = (d.next + 1) % inFlight
	d.noteExecution(d.retireAt(oldest))
}

// noteExecution keeps for TakeFailure that an execution has failed on the device.
func (d *Device) noteExecution(err error) {
	if err != nil {
		d.failures.noteExecution(err)
	}
}

func (d *Device) retireAt(place int) error {
	events := d.ring[place]
	var first error
	for i, ev := range events {
		if ev == 0 {
			continue
		}
		events[i] = 0
		if err := d.client.AwaitAndDestroy(ev); err != nil && first == nil {
			first = d.explain(err, "running a program on %s", d)
		}
	}
	return first
}

// retireBefore waits as retire does, but no longer than until a time (zero: for ever); it is false if that has come,
// and the rest of the execution is still to be retired.
func (d *Device) retireBefore(until time.Time, place int) bool {
	events := d.ring[place]
	var first error
	defer func() { d.noteExecution(first) }()
	for i, ev := range events {
		if ev == 0 {
			continue
		}
		err := error(nil)
		if !until.IsZero() {
			done := false
			if done, err = d.client.AwaitFor(ev, time.Until(until)); !done && err == nil {
				return false
			}
		}
		events[i] = 0
		if err == nil {
			err = d.client.AwaitAndDestroy(ev)
		} else {
			err = errors.Join(err, d.client.DestroyEvents(ev))
		}
		if err != nil && first == nil {
			first = d.explain(err, "running a program on %s", d)
		}
	}
	return true
}

// MemoryLimit is how many bytes the device's allocators may use; 0 if the plugin does not tell.
func (d *Device) MemoryLimit() int64 {
	stats, err := d.MemoryStats()
	if err != nil {
		countUnknown(err)
		return 0
	}
	return stats.BytesLimit
}

// MemoryStats are the figures of the device's allocator, with SPMD of all allocators together.
func (d *Device) MemoryStats() (pjrt.MemoryStats, error) {
	var sum pjrt.MemoryStats
	for _, dev := range d.devs {
		st, err := dev.MemoryStats()
		if err != nil {
			return st, Translate(err)
		}
		sum.BytesInUse += st.BytesInUse
		sum.PeakBytesInUse += st.PeakBytesInUse
		sum.BytesLimit += st.BytesLimit
		sum.NumAllocs += st.NumAllocs
		sum.LargestAllocSize = max(sum.LargestAllocSize, st.LargestAllocSize)
	}
	sum.BytesInUse += d.adopted.Load()
	for peak := d.peak.Load(); ; peak = d.peak.Load() { // the plugin's own forgets what was adopted meanwhile
		sum.PeakBytesInUse = max(sum.PeakBytesInUse, sum.BytesInUse, peak)
		if d.peak.CompareAndSwap(peak, sum.PeakBytesInUse) {
			return sum, nil
		}
	}
}

// explain gives a plugin's error the kind and the sentence that a user can act on.
func (d *Device) explain(err error, doing string, args ...any) error {
	var pe *pjrt.Error
	if !errors.As(err, &pe) {
		return err
	}
	what := fmt.Sprintf(doing, args...)
	if kindOf(pe) == errs.OOM {
		msg := fmt.Sprintf("out of memory on %s while %s: %s", d, what, pe.Msg)
		if st, serr := d.MemoryStats(); serr == nil {
			msg += fmt.Sprintf(" (in use %d bytes, peak %d, limit %d)", st.BytesInUse, st.PeakBytesInUse, st.BytesLimit)
		}
		return errs.Wrap(errs.OOM, err, "%s", msg)
	}
	return errs.Wrap(kindOf(pe), err, "%s: %v", what, err)
}

// kindOf is the kind of a plugin's error. LAPACK's iterations that do not converge are recognized by torch's text, as a
// plugin passes nothing else on. XLA repeats the text of a failed argument, but not its code.
func kindOf(pe *pjrt.Error) errs.Kind {
	switch {
	case pe.Code == pjrt.ResourceExhausted, strings.Contains(pe.Msg, "Error dispatching computation: out of memory"):
		return errs.OOM
	case strings.Contains(pe.Msg, "The algorithm failed to converge"):
		return errs.LinAlg
	}
	return errs.Xla
}

// Translate gives a plugin's error a kind, such as out of memory; nil stays nil.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	var pe *pjrt.Error
	if errors.As(err, &pe) {
		return errs.Wrap(kindOf(pe), err, "")
	}
	return errs.Wrap(errs.Xla, err, "")
}
