package engine

import (
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

const (
	// joinTimeout is how long the processes of a job may take to start.
	joinTimeout = 10 * time.Minute
	// exchangeTimeout is how far apart they may come to the same point.
	exchangeTimeout = 30 * time.Minute
)

// ServeStore makes this process serve the store by which the processes of a job find each other, on a host
// of its own, and returns the address for all of them, its own included. It serves as long as it lives.
func (e *Engine) ServeStore(host string) (string, error) {
	server, err := rendezvous.Serve(host + ":0")
	if err != nil {
		return "", errs.Wrap(errs.Runtime, err, "%v", err)
	}
	return server.Address(), nil
}

// exchange is one that has begun.
type exchange struct {
	done   chan struct{}
	values [][]byte
	err    error
}

// Exchange gives the members, processes of the job of which this is one, a value of this one, under a tag,
// and returns as JSON what all have given, by member; each does so with the same tags and members, one after
// the other. It waits for the timeout at most: then it returns "" and is to be called again.
func (e *Engine) Exchange(tag, value string, members []int, timeout time.Duration) (string, error) {
	x, err := e.exchange(tag, value, members)
	if err != nil {
		return "", err
	}
	select {
	case <-x.done:
	case <-time.After(timeout):
		return "", e.client.Job.Failure()
	}
	e.mu.Lock()
	delete(e.exchanges, tag)
	e.mu.Unlock()
	if x.err != nil {
		return "", errs.Wrap(errs.Runtime, x.err, "rendezvous %q: %v", tag, x.err)
	}
	texts := make([]string, len(x.values))
	for i, v := range x.values {
		texts[i] = string(v)
	}
	return marshal(texts), nil
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
	at := slices.Index(members, self)
	if at < 0 {
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
		x.values, x.err = job.Store.Exchange(tag, at, len(members), []byte(value), exchangeTimeout)
	}()
	return x, nil
}
