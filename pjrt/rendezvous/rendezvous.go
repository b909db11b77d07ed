// Package rendezvous is the key-value store through which the processes of one computation find each other. One of
// them serves it over TCP, and each dials it for its pjrt.Client.
//
//	server, err := rendezvous.Serve("127.0.0.1:0", secret) // in one process
//	store, err := rendezvous.Dial(ctx, address, secret, rendezvous.Member{Index: 0, Count: 2})
//	client, err := plugin.NewClient(map[string]any{"num_nodes": int64(2), "node_id": int64(0)}, store)
//
// A member is a process that has dialed as one. It is missed: once its connection has ended, waiting for a key that no
// one has put is an error. A member that keeps its connection and says nothing for the time that it has set has
// stopped, and the job has failed. Members also report what they exchange with each other (see Segment), and hear of
// it if the reports do not fit together.
//
// Only who knows the secret of the job is served; see handshake.go. The sizes of what is asked and kept are
// bounded; see wire.go. The traffic is not encrypted: listen on an address of a network that you trust.
//
// Errors of a Store are *pjrt.Error. Their code is Unavailable when the connection or the job has ended, and
// DeadlineExceeded when a wait has. It is InvalidArgument or ResourceExhausted for what is too large.
//
// The package imports pjrt and the standard library.
package rendezvous

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// table is what the server holds.
type table struct {
	room  int           // how many bytes it may hold
	done  chan struct{} // closed with the server
	awake Awake         // has a lock of its own

	mu        sync.Mutex // guards the fields below
	values    map[string][]byte
	held      int // bytes of values, those of exchanges included
	exchanges map[string]*exchange
	members   map[int]*presence
	count     int           // of members in all, as the first has said; 0 before
	changed   chan struct{} // closed and replaced when there is something to wake up for
	failure   error         // why the job has failed; set once
	streams   streams
}

// presence is what the store knows of a member; table.mu guards it.
type presence struct {
	session   *session
	heard     time.Duration    // when it said something, by table.awake
	patience  time.Duration    // for how long it may say nothing; 0: without end
	positions map[string]int64 // how far it has come, by stream
	gone      bool
}

func newTable() *table {
	return &table{values: make(map[string][]byte), room: maxHeld, exchanges: make(map[string]*exchange),
		members: make(map[int]*presence), changed: make(chan struct{}), done: make(chan struct{}),
		streams: make(streams)}
}

// wake lets everybody who waits look again. The caller holds mu.
func (t *table) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// fail makes every wait an error. The first failure stays. The caller holds mu.
func (t *table) fail(err error) {
	if t.failure == nil {
		t.failure = err
		t.wake()
	}
}

// hold counts bytes that are to be kept; it is an error if there are too many. The caller holds mu.
func (t *table) hold(bytes int) error {
	if t.held+bytes > t.room {
		return refusal(pjrt.ResourceExhausted, "the store holds %d bytes and has room for %d", t.held, t.room)
	}
	t.held += bytes
	return nil
}

// gone is the error of waiting for a member that has gone: one of those, or any if none are named. The
// caller holds mu.
func (t *table) gone(of ...int) error {
	if t.failure != nil {
		return t.failure
	}
	first := noMember
	see := func(m int) {
		if p := t.members[m]; p != nil && p.gone && (first < 0 || m < first) {
			first = m
		}
	}
	for _, m := range of {
		see(m)
	}
	if len(of) == 0 {
		for m := range t.members {
			see(m)
		}
	}
	if first < 0 {
		return nil
	}
	return fmt.Errorf("process %d has gone", first)
}

var (
	errClosed = errors.New("the store was closed")
	errEnded  = errors.New("the connection has ended")
)

// await waits until ready, which is called with mu held, reports true; false once the time is over.
func (s *session) await(timeout time.Duration, ready func() (bool, error)) (bool, error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		s.mu.Lock()
		ok, err := ready()
		changed := s.changed
		s.mu.Unlock()
		if ok || err != nil {
			return ok, err
		}
		select {
		case <-changed:
		case <-late.C:
			return false, nil
		case <-s.ended:
			return false, errEnded
		case <-s.done:
			return false, errClosed
		}
	}
}

// put sets a key.
func (s *session) put(m message) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.values[m.key]
	grown := len(m.value) - len(old)
	if !known {
		grown += len(m.key)
	}
	if err := s.hold(grown); err != nil {
		return nil, err
	}
	s.values[m.key] = m.value
	s.wake()
	return nil, nil
}

// get waits for a key.
func (s *session) get(m message) (value []byte, err error) {
	timeout := time.Duration(m.numbers[0])
	found, err := s.await(timeout, func() (ok bool, err error) {
		if value, ok = s.values[m.key]; !ok && timeout > 0 {
			err = s.gone()
		}
		return ok, err
	})
	if !found && err == nil {
		err = refusal(pjrt.DeadlineExceeded, "no one has put %s within %v", m.key, timeout)
	}
	return value, err
}

// failed waits until the job has failed and says why.
func (s *session) failed() (value []byte, err error) {
	for {
		found, err := s.await(time.Hour, func() (bool, error) {
			if s.failure != nil {
				value = []byte(s.failure.Error())
			}
			return s.failure != nil, nil
		})
		if found || err != nil {
			return value, err
		}
	}
}

// admit makes a connection that of a member.
func (t *table) admit(s *session, m Member) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.Count == 0:
		s.member = noMember
		return nil
	case m.Index < 0 || m.Index >= m.Count:
		return fmt.Errorf("process %d of %d makes no sense", m.Index, m.Count)
	case t.count > 0 && m.Count != t.count:
		return fmt.Errorf("the job has %d processes, not %d", t.count, m.Count)
	case t.members[m.Index] != nil:
		return fmt.Errorf("process %d has joined already", m.Index)
	}
	s.member, t.count = m.Index, m.Count
	t.members[m.Index] = &presence{session: s, heard: t.awake.Total(), positions: make(map[string]int64)}
	return nil
}

// heard notes that a connection has brought something.
func (s *session) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.members[s.member]; p != nil {
		p.heard = s.awake.Total()
	}
}

// end notes that a connection has ended.
func (s *session) end() {
	close(s.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, x := range s.exchanges {
		s.leave(tag, x)
	}
	if p := s.members[s.member]; p != nil {
		p.gone = true
		s.wake()
	}
}
