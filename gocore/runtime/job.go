package runtime

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

// Job is the processes that run programs together. What they exchange, in which order, must be the same
// in all that take part; how it is spread over programs may differ. A process tells the others what a
// program exchanges when it runs it for the first time, and of any other program when that does not end.
type Job struct {
	Index, Count int
	Store        *rendezvous.Store

	mu      sync.Mutex
	at      map[string]int64 // by stream: how many exchanges there were
	untold  []rendezvous.Segment
	overdue *time.Timer // tells of untold
	failure error
}

// patience is how long a program may wait for other processes before they are told what it is. That costs
// nothing but a message, so it is no limit.
const patience = 5 * time.Second

// Join makes this process one of a job of count processes, whose store listens at an address.
func Join(index, count int, address string, timeout time.Duration) (*Job, error) {
	store, err := rendezvous.Dial(address, timeout)
	if err == nil {
		err = store.Join(index)
	}
	if err != nil {
		return nil, errs.Wrap(errs.Runtime, err, "%v", err)
	}
	j := &Job{Index: index, Count: count, Store: store, at: make(map[string]int64)}
	j.overdue = time.AfterFunc(time.Hour, j.tell)
	j.overdue.Stop()
	go func() {
		defer caught("waiting for what contradicts this process")
		j.fail(store.Contradiction())
	}()
	return j, nil
}

// keys is the store as plugins take it, nil for none.
func (j *Job) keys() pjrt.KeyValueStore {
	if j == nil {
		return nil
	}
	return j.Store
}

// Failure is why processes cannot run programs together any more; nil if they can.
func (j *Job) Failure() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

func (j *Job) fail(err error) {
	if err == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == nil {
		j.failure = errs.Wrap(errs.Runtime, err, "%v", err)
	}
}

// tell reports what was not told of the program that runs.
func (j *Job) tell() {
	defer caught("telling the job what this process runs")
	j.mu.Lock()
	segments := j.untold
	j.untold = nil
	j.mu.Unlock()
	j.fail(j.report(segments))
}

// report returns what contradicts the reports, or that the store has gone.
func (j *Job) report(segments []rendezvous.Segment) error {
	if len(segments) == 0 {
		return nil
	}
	return j.Store.Report(segments)
}

// enter notes that a device is about to run a program. It is an error if the others run something that
// does not fit.
func (j *Job) enter(x *Executable) error {
	j.mu.Lock()
	if j.failure != nil {
		defer j.mu.Unlock()
		return j.failure
	}
	segments := make([]rendezvous.Segment, len(x.exchanges))
	for i, s := range x.exchanges {
		segments[i] = rendezvous.Segment{Stream: s.Stream, From: j.at[s.Stream], Items: s.Items}
		j.at[s.Stream] += int64(len(s.Items))
	}
	known := x.told
	x.told = true
	j.untold = nil
	if known {
		j.untold = segments
		j.overdue.Reset(patience)
	}
	j.mu.Unlock()
	if known {
		return nil
	}
	j.fail(j.report(segments))
	return j.Failure()
}

// leave notes that the program has ended.
func (j *Job) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.overdue.Stop()
	j.untold = nil
}

// exchangesOf is what this process does of a program's collectives on a device, a stream for each group of
// processes that it exchanges data with, or with SPMD of devices.
func (j *Job) exchangesOf(d *Device, all []hlo.Collective) []rendezvous.Segment {
	var segments []rendezvous.Segment
	kind, members, first, count := "processes", j.Count, int64(j.Index), int64(1)
	if d.spmd {
		kind, members, first, count = "devices", len(d.ids), int64(d.first), int64(len(d.devs))
	}
	own := func(member int64) bool { return first <= member && member < first+count }
	other := func(member int64) bool { return !own(member) }
	add := func(with []int64, c hlo.Collective) {
		name := fmt.Sprintf("the exchanges of %s among %s %s", d, kind, strings.Trim(fmt.Sprint(with), "[]"))
		i := slices.IndexFunc(segments, func(s rendezvous.Segment) bool { return s.Stream == name })
		if i < 0 {
			i = len(segments)
			segments = append(segments, rendezvous.Segment{Stream: name})
		}
		for _, s := range c.Shapes { // the compiler combines what happens to be in one program
			segments[i].Items = append(segments[i].Items, c.Kind+" of "+s)
		}
	}
	everybody := make([]int64, members)
	for i := range everybody {
		everybody[i] = int64(i)
	}
	for _, c := range all {
		groups := c.Groups
		if len(groups) == 0 {
			groups = [][]int64{everybody}
		}
		for _, g := range groups {
			if slices.ContainsFunc(g, own) && slices.ContainsFunc(g, other) {
				add(g, c)
			}
		}
	}
	return segments
}
