package engine

import (
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

// meetTimeout is how long the processes of a job may take to start.
const meetTimeout = 10 * time.Minute

// membership is the job that the process is to open its device in. Its lock is not the engine's, which a
// device that opens holds: joining can be interrupted.
type membership struct {
	mu      sync.Mutex
	job     *runtime.Job
	stop    context.CancelFunc // ends ReachJob
	timeout time.Duration      // see SetJobTimeout
	set     bool
}

// ServeStore makes this process serve the store by which the processes of a job find each other, on a host
// of its own, for those who know the secret, and returns the address for all of them, its own included. It
// serves as long as it lives.
func (e *Engine) ServeStore(host, secret string) (string, error) {
	server, err := rendezvous.Serve(host+":0", secret)
	if err != nil {
		return "", errs.Wrap(errs.Runtime, err, "%v", err)
	}
	return server.Address(), nil
}

// ReachJob makes this process one of a job of count, whose store listens at an address. False: it could not be
// reached in time. An error: the store refuses the process.
func (e *Engine) ReachJob(index, count int, address, secret string, timeout time.Duration) (bool, error) {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	e.joined.mu.Lock()
	e.joined.stop = stop
	e.joined.mu.Unlock()
	job, err := runtime.Reach(ctx, index, count, address, secret)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false, nil
	case err != nil:
		return false, err
	}
	e.joined.mu.Lock()
	defer e.joined.mu.Unlock()
	e.joined.job = job
	return true, nil
}

// LeaveJob ends what joining a job and opening the device wait for, with an error. It is called when the
// device cannot be opened, or need not.
func (e *Engine) LeaveJob() {
	e.joined.mu.Lock()
	defer e.joined.mu.Unlock()
	if e.joined.stop != nil {
		e.joined.stop()
	}
	if e.joined.job != nil {
		_ = e.joined.job.Store.Close() // which has no error
		e.joined.job = nil
	}
}

// SetJobTimeout sets for how long the processes of a job wait for each other, in place of
// TORCH_GO_XLA_JOB_TIMEOUT; 0: without end.
func (e *Engine) SetJobTimeout(d time.Duration) {
	e.joined.mu.Lock()
	defer e.joined.mu.Unlock()
	e.joined.timeout, e.joined.set = d, true
	if e.joined.job != nil {
		e.joined.job.SetTimeout(d)
	}
}

// meet waits for the other processes of the job, nil if this one is alone.
func (e *Engine) meet() (*runtime.Job, error) {
	e.joined.mu.Lock()
	job := e.joined.job
	if job != nil {
		if !e.joined.set {
			e.joined.timeout = time.Duration(config.Number("TORCH_GO_XLA_JOB_TIMEOUT")) * time.Second
		}
		job.SetTimeout(e.joined.timeout)
	}
	e.joined.mu.Unlock()
	if job == nil {
		return nil, nil
	}
	return job, job.Meet(meetTimeout)
}

// exchange is one that has begun.
type exchange struct {
	done   chan struct{}
	values [][]byte
	err    error
}

// Exchange gives the members, processes of the job of which this is one, a value of this one, under a tag,
// and returns what all have given, by member; each does so with the same tags and members, one after
// the other. It waits for the timeout at most: then it returns nil and is to be called again.
func (e *Engine) Exchange(tag, value string, members []int, timeout time.Duration) ([]string, error) {
	x, err := e.exchange(tag, value, members)
	if err != nil {
		return nil, err
	}
	select {
	case <-x.done:
	case <-time.After(timeout):
		return nil, e.client.Job.Failure()
	}
	e.mu.Lock()
	delete(e.exchanges, tag)
	e.mu.Unlock()
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
func (e *Engine) exchange(tag, value string, members []int) (*exchange, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.check(); err != nil {
		return nil, err
	}
	if x := e.exchanges[tag]; x != nil {
		return x, nil
	}
	job, self := e.client.Job, 0
	if job != nil {
		self = job.Index
	}
	if !slices.Contains(members, self) {
		return nil, errs.New(errs.Value, "rendezvous %q: process %d is none of %v", tag, self, members)
	}
	x := &exchange{done: make(chan struct{})}
	if e.exchanges == nil {
		e.exchanges = make(map[string]*exchange)
	}
	e.exchanges[tag] = x
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
