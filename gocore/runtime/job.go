package runtime

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

// Job is the processes that run programs together. What they exchange, in which order, must be the same in all that
// take part; how it is spread over programs may differ. A process tells the others what a program exchanges when it
// runs it for the first time. It tells it of any other program when that does not end.
//
// A process waits for another one for the time that SetTimeout sets. Then the job has failed: what waits in
// the plugin ends too, and nothing that processes exchange runs any more.
type Job struct {
	// Set when it is made; they do not change.
	Index, Count int
	Store        *rendezvous.Store
	overdue      *time.Timer   // tells of unreported; started and stopped under mu
	failed       chan struct{} // closed with failure

	awake rendezvous.Awake // has a lock of its own

	mu         sync.Mutex           // guards the fields below
	at         map[string]int64     // by stream: how many exchanges there were; enter counts it up
	unreported []rendezvous.Segment // what enter adds and tell or leave removes
	waits      *wait                // for the others, by the program that runs: from enter to leave
	timeout    time.Duration        // 0: none; see SetTimeout
	failure    error                // set once, by fail
	since      time.Time            // of the failure
}

// wait is one of a program for other processes.
type wait struct {
	since     time.Duration // by Job.awake
	exchanges []exchange
}

// exchange is what a program exchanges among some processes, in order.
type exchange struct {
	rendezvous.Segment
	processes []int
}

// patience is how long a program may wait for other processes before its text is sent to them. That costs
// nothing but a message, so it limits nothing.
const patience = 5 * time.Second

// Reach connects this process, one of count, to the store of its job. The error of a store that refuses it is
// a *pjrt.Error of code PermissionDenied, Unauthenticated or AlreadyExists.
func Reach(ctx context.Context, index, count int, address, secret string) (*Job, error) {
	store, err := rendezvous.Dial(ctx, address, secret, rendezvous.Member{Index: index, Count: count})
	if err != nil {
		return nil, errs.Wrap(errs.Runtime, err, "%v", err)
	}
	j := &Job{Index: index, Count: count, Store: store, at: make(map[string]int64), failed: make(chan struct{})}
	j.overdue = time.AfterFunc(time.Hour, j.tell)
	j.overdue.Stop()
	return j, nil
}

// Meet waits for all processes of the job, and watches them from then on. The error is errs.Runtime if they do not
// come in time.
func (j *Job) Meet(timeout time.Duration) error {
	if _, err := j.Store.Exchange("join", j.everybody(), nil, timeout); err != nil {
		return errs.Wrap(errs.Runtime, err, "the processes of the job do not come together: %v", err)
	}
	j.Store.KeepAlive(j.positions, j.fail)
	go func() {
		defer caught("waiting for the failure of the job")
		j.fail(j.Store.Failure())
	}()
	go j.watch()
	return nil
}

func (j *Job) everybody() []int {
	all := make([]int, j.Count)
	for i := range all {
		all[i] = i
	}
	return all
}

// SetTimeout sets for how long a process waits for another one; 0: without end. That is 1 s at least.
func (j *Job) SetTimeout(d time.Duration) {
	if d > 0 {
		d = max(d, time.Second)
	}
	j.mu.Lock()
	j.timeout = d
	j.mu.Unlock()
	j.Store.SetPatience(d)
}

// Timeout is what SetTimeout has set, for calls that need a time.
func (j *Job) Timeout() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timeout == 0 {
		return math.MaxInt64
	}
	return j.timeout
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
		j.since = time.Now()
		close(j.failed)
	}
}

// Stuck is the failure of the job if a program still waits for other processes, although the plugin has had time to
// end it. What is behind it will not run.
func (j *Job) Stuck() error {
	const grace = time.Second
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waits == nil || time.Since(j.since) < grace {
		return nil
	}
	return j.failure
}

// positions is how far this process has come in each stream.
func (j *Job) positions() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.at)
}

// watch looks every second whether a program has waited for too long, until the job has failed.
func (j *Job) watch() {
	defer caught("watching the processes of the job")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-j.failed:
			return
		case <-tick.C:
		}
		now := j.awake.Tick()
		j.mu.Lock()
		w, timeout := j.waits, j.timeout
		j.mu.Unlock()
		if w != nil && timeout > 0 && now-w.since > timeout {
			j.fail(j.late(w.exchanges, timeout))
		}
	}
}

// late is the error of a program that has waited for too long. It names the processes that have not come to
// the first exchange that somebody has not come to.
func (j *Job) late(exchanges []exchange, timeout time.Duration) error {
	for _, x := range exchanges {
		reached, err := j.Store.Positions(x.Stream)
		if err != nil {
			return err
		}
		var behind []int
		for _, p := range x.processes {
			if p != j.Index && reached[p] <= x.From {
				behind = append(behind, p)
			}
		}
		if len(behind) > 0 {
			return fmt.Errorf("%s not come within %v to number %d of %s, %s in process %d",
				rendezvous.Have(behind), timeout, x.From+1, x.Stream, x.Items[0], j.Index)
		}
	}
	return fmt.Errorf("what process %d exchanges with others has not ended within %v", j.Index, timeout)
}

// tell sends what was not sent yet of the program that runs.
func (j *Job) tell() {
	defer caught("telling the job what this process runs")
	j.mu.Lock()
	segments := j.unreported
	j.unreported = nil
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
	exchanges := slices.Clone(x.exchanges)
	segments := make([]rendezvous.Segment, len(exchanges))
	for i := range exchanges {
		s := &exchanges[i].Segment
		s.From = j.at[s.Stream]
		j.at[s.Stream] += int64(len(s.Items))
		segments[i] = *s
	}
	j.waits = &wait{j.awake.Total(), exchanges}
	known := x.posted
	x.posted = true
	j.unreported = nil
	if known {
		j.unreported = segments
		j.overdue.Reset(patience)
	}
	j.mu.Unlock()
	if known {
		return nil
	}
	j.fail(j.report(segments))
	if err := j.Failure(); err != nil {
		j.leave()
		return err
	}
	return nil
}

// leave notes that the program has ended.
func (j *Job) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.overdue.Stop()
	j.unreported, j.waits = nil, nil
}

// exchangesOf is what this process does of a program's collectives on a device. It is a stream for each group of
// processes, or with SPMD of devices, that it exchanges data with.
func (j *Job) exchangesOf(d *Device, all []hlo.Collective) []exchange {
	var exchanges []exchange
	kind, members, first, count := "processes", j.Count, int64(j.Index), int64(1)
	if d.spmd {
		kind, members, first, count = "devices", len(d.ids), int64(d.first), int64(len(d.devs))
	}
	own := func(member int64) bool { return first <= member && member < first+count }
	other := func(member int64) bool { return !own(member) }
	add := func(with []int64, c hlo.Collective) {
		name := fmt.Sprintf("the exchanges of %s among %s %s", d, kind, strings.Trim(fmt.Sprint(with), "[]"))
		i := slices.IndexFunc(exchanges, func(x exchange) bool { return x.Stream == name })
		if i < 0 {
			i = len(exchanges)
			x := exchange{Segment: rendezvous.Segment{Stream: name}}
			for _, m := range with {
				if p := int(m / count); !slices.Contains(x.processes, p) {
					x.processes = append(x.processes, p)
				}
			}
			exchanges = append(exchanges, x)
		}
		for _, s := range c.Shapes { // the compiler combines what happens to be in one program
			exchanges[i].Items = append(exchanges[i].Items, c.Kind+" of "+s)
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
	return exchanges
}
