package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

// noLimit is how long the processes of a job may take to start if they wait without end for each other.
const noLimit = 10 * 365 * 24 * time.Hour

// jobs is the job that the process is in, and what it exchanges with the others. Its lock is not the engine's, which a
// device that opens holds: joining can be interrupted.
type jobs struct {
	jobMu     sync.Mutex           // guards the other fields
	job       *runtime.Job         // nil: this process is alone. ReachJob sets it, LeaveJob takes it away
	stop      context.CancelFunc   // ends ReachJob, which sets it
	timeout   time.Duration        // see SetJobTimeout
	set       bool                 // whether it was called
	met       bool                 // set once, when the device is open
	exchanges map[string]*exchange // under way, by tag
}

// opened lets processes exchange values: the device is open.
func (j *jobs) opened() {
	j.jobMu.Lock()
	j.met = true
	j.jobMu.Unlock()
}

// ServeStore makes this process serve the store by which the processes of a job find each other, as long as it lives.
// The store listens on host, and answers those who know the secret. The address that is returned serves all processes,
// this one included.
func (j *jobs) ServeStore(host, secret string) (string, error) {
	server, err := rendezvous.Serve(host+":0", secret)
	if err != nil {
		return "", errs.Wrap(errs.Runtime, err, "%v", err)
	}
	return server.Address(), nil
}

// ReachJob makes this process one of a job of count, whose store listens at an address. False: it could not be
// reached in time. An error: the store refuses the process.
func (j *jobs) ReachJob(index, count int, address, secret string, timeout time.Duration) (bool, error) {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	j.jobMu.Lock()
	j.stop = stop
	j.jobMu.Unlock()
	job, err := runtime.Reach(ctx, index, count, address, secret)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false, nil
	case err != nil:
		return false, err
	}
	j.jobMu.Lock()
	defer j.jobMu.Unlock()
	j.job = job
	return true, nil
}

// LeaveJob ends what joining a job and opening the device wait for, with an error. It is called when the
// device cannot be opened, or need not.
func (j *jobs) LeaveJob() {
	j.jobMu.Lock()
	defer j.jobMu.Unlock()
	if j.stop != nil {
		j.stop()
	}
	if j.job != nil {
		_ = j.job.Store.Close() // which has no error
		j.job = nil
	}
}

// SetJobTimeout sets for how long the processes of a job wait for each other, in place of
// TORCH_GO_XLA_JOB_TIMEOUT; 0: without end.
func (j *jobs) SetJobTimeout(d time.Duration) {
	j.jobMu.Lock()
	defer j.jobMu.Unlock()
	j.timeout, j.set = d, true
	if j.job != nil {
		j.job.SetTimeout(d)
	}
}

// meet waits for the other processes of the job, nil if this is the only one.
func (j *jobs) meet() (*runtime.Job, error) {
	j.jobMu.Lock()
	job, limit := j.job, noLimit
	if job != nil {
		if !j.set {
			j.timeout = time.Duration(config.Number("TORCH_GO_XLA_JOB_TIMEOUT")) * time.Second
		}
		job.SetTimeout(j.timeout)
		limit = cmp.Or(j.timeout, noLimit)
	}
	j.jobMu.Unlock()
	if job == nil {
		return nil, nil
	}
	return job, job.Meet(limit)
}

// exchange is one that has begun.
type exchange struct {
	job    *runtime.Job // nil: this process is alone
	done   chan struct{}
	values [][]byte
	err    error
}

// Exchange gives a value of this process to the members, of which this is one, and returns what all have given, by
// member. All of them do so with the same tag and members, one exchange after the other. It waits for the timeout at
// most: then it returns nil and is to be called again. The error is errs.Value if this process is not a member.
func (j *jobs) Exchange(tag, value string, members []int, timeout time.Duration) ([]string, error) {
	x, err := j.exchange(tag, value, members)
	if err != nil {
		return nil, err
	}
	select {
	case <-x.done:
	case <-time.After(timeout):
		return nil, x.job.Failure()
	}
	j.jobMu.Lock()
	delete(j.exchanges, tag)
	j.jobMu.Unlock()
	if x.err != nil {
		return nil, errs.Wrap(errs.Runtime, x.err, "rendezvous %q: %v", tag, x.err)
	}
	texts := make([]string, len(x.values))
	for i, v := range x.values {
		texts[i] = string(v)
	}
	return texts, nil
}

// exchange finds the exchange of a tag, or begins it.
func (j *jobs) exchange(tag, value string, members []int) (*exchange, error) {
	j.jobMu.Lock()
	defer j.jobMu.Unlock()
	if !j.met {
		return nil, errs.New(errs.Runtime, "no device is open")
	}
	if x := j.exchanges[tag]; x != nil {
		return x, nil
	}
	job, self := j.job, 0
	if job != nil {
		self = job.Index
	}
	if !slices.Contains(members, self) {
		return nil, errs.New(errs.Value, "rendezvous %q: process %d is none of %v", tag, self, members)
	}
	x := &exchange{job: job, done: make(chan struct{})}
	if j.exchanges == nil {
		j.exchanges = make(map[string]*exchange)
	}
	j.exchanges[tag] = x
	if job == nil {
		x.values = [][]byte{[]byte(value)}
		close(x.done)
		return x, nil
	}
	go func() {
		defer close(x.done)
		defer errs.Catch(&x.err, "exchanging values with the job")
		x.values, x.err = job.Store.Exchange(tag, members, []byte(value), job.Timeout())
	}()
	return x, nil
}
