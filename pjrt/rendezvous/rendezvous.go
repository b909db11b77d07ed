// Package rendezvous is the key-value store through which the processes of one computation find each
// other: one of them serves it over TCP, and each dials it for its pjrt.Client.
//
//	server, err := rendezvous.Serve("127.0.0.1:0") // in one process
//	store, err := rendezvous.Dial(address, time.Minute)
//	client, err := plugin.NewClient(map[string]any{"num_nodes": int64(2), "node_id": int64(0)}, store)
//
// A process that has joined as a member is missed: once its connection has ended, waiting for a key that
// nobody has put is an error. Processes also report what they exchange with each other (see Segment), and
// hear of it if the reports do not fit together.
//
// The traffic is neither encrypted nor authenticated: listen on an address of a network that you trust.
// It imports pjrt and the standard library.
package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

const service = "Rendezvous"

// table is what the server holds.
type table struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed and made anew when there is something to wake up for
	done    chan struct{} // closed with the server
	gone    error         // which member went first
	streams streams
}

// session is the served object of one connection. Its methods are called by net/rpc, each call in a
// goroutine of its own.
type session struct {
	*table
	member int // -1 before Join
}

// Entry is a key with its value; a Wait asks for the key alone.
type Entry struct {
	Key   string
	Value []byte
}

// Wait asks for a key and says how long to wait for it.
type Wait struct {
	Key     string
	Timeout time.Duration
}

// Found is the answer to a Wait; OK is false if nobody has put the key in time.
type Found struct {
	Value []byte
	OK    bool
}

// wake lets everybody who waits look again. The caller holds mu.
func (t *table) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until ready, which is called with mu held, reports true; false once the time is over.
func (t *table) await(timeout time.Duration, ready func() (bool, error)) (bool, error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		t.mu.Lock()
		ok, err := ready()
		changed := t.changed
		t.mu.Unlock()
		if ok || err != nil {
			return ok, err
		}
		select {
		case <-changed:
		case <-late.C:
			return false, nil
		case <-t.done:
			return false, errors.New("the store was closed")
		}
	}
}

// Join makes the connection that of a member.
func (s *session) Join(member int, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member = member
	return nil
}

// end notes that the connection has ended.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member >= 0 && s.gone == nil {
		s.gone = fmt.Errorf("process %d has gone", s.member)
		s.wake()
	}
}

// Put sets a key.
func (s *session) Put(e Entry, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[e.Key] = e.Value
	s.wake()
	return nil
}

// Get waits for a key.
func (s *session) Get(w Wait, out *Found) error {
	found, err := s.await(w.Timeout, func() (ok bool, err error) {
		if out.Value, ok = s.values[w.Key]; !ok && w.Timeout > 0 {
			err = s.gone
		}
		return ok, err
	})
	out.OK = found
	return err
}

// Server serves a store until it is closed.
type Server struct {
	listener net.Listener
	table    *table
	close    sync.Once

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once closed
}

// Serve makes an empty store that listens on an address, "host:port"; port 0 takes a free one.
func Serve(address string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	s := &Server{
		listener: listener,
		table: &table{values: make(map[string][]byte), changed: make(chan struct{}), done: make(chan struct{}),
			streams: streams{said: make(map[place]word)}},
		conns: make(map[net.Conn]struct{}),
	}
	go s.accept()
	return s, nil
}

func (s *Server) accept() {
	defer func() { _ = recover() }()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		if !s.keep(conn) {
			conn.Close()
			return
		}
		go s.serve(conn)
	}
}

// serve answers the calls of one connection until it ends.
func (s *Server) serve(conn net.Conn) {
	defer func() { _ = recover() }() // what one connection sends ends that one
	session := &session{table: s.table, member: -1}
	calls := rpc.NewServer()
	if err := calls.RegisterName(service, session); err != nil {
		panic(err) // a method's signature is wrong
	}
	calls.ServeConn(&watched{conn, session.end})
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

// watched is a connection whose end is told at once: rpc waits for the calls under way before it tells.
type watched struct {
	net.Conn
	ended func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.ended()
	}
	return n, err
}

// keep notes a connection for Close; false if that was called.
func (s *Server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

// Address is where the server listens, as Dial takes it.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends the server; whoever waits for a key gets an error. Closing again does nothing.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		err = s.listener.Close()
		close(s.table.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.conns {
			conn.Close()
		}
		s.conns = nil
	})
	return err
}

// Store is a connection to a server. It is a pjrt.KeyValueStore.
type Store struct {
	calls *rpc.Client
}

var _ pjrt.KeyValueStore = (*Store)(nil)

// Dial connects to a server, which may take up to the timeout to come up.
func Dial(address string, timeout time.Duration) (*Store, error) {
	const pause = 50 * time.Millisecond
	deadline := time.Now().Add(timeout)
	for {
		conn, err := net.DialTimeout("tcp", address, time.Until(deadline))
		if err == nil {
			return &Store{rpc.NewClient(conn)}, nil
		}
		if time.Until(deadline) < pause {
			return nil, fmt.Errorf("rendezvous: nobody serves the store at %s within %v: %w", address, timeout, err)
		}
		time.Sleep(pause)
	}
}

// Join makes this process a member: when its connection ends, those that wait for a key hear that it has gone.
func (s *Store) Join(member int) error { return s.call("Join", member, &struct{}{}) }

// Exchange gives every member a value and returns those of all, in the order of the members. Each of count
// members calls it once with a tag. The first, which may serve the store, stays until all others have got theirs.
func (s *Store) Exchange(tag string, member, count int, value []byte, timeout time.Duration) ([][]byte, error) {
	key := func(what string, m int) string { return fmt.Sprintf("exchange/%s/%s/%d", tag, what, m) }
	if err := s.Put(key("value", member), value); err != nil {
		return nil, err
	}
	all := make([][]byte, count)
	for m := range all {
		var err error
		if all[m], err = s.Get(key("value", m), timeout); err != nil {
			return nil, err
		}
	}
	if member > 0 {
		return all, s.Put(key("done", member), nil)
	}
	for m := 1; m < count; m++ {
		if _, err := s.Get(key("done", m), timeout); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Close ends the connection.
func (s *Store) Close() error { return s.calls.Close() }

// Put sets a key's value.
func (s *Store) Put(key string, value []byte) error {
	return s.call("Put", Entry{key, value}, &struct{}{})
}

// Get waits up to the timeout for a key and returns its value; the error is a context.DeadlineExceeded
// if nobody puts it.
func (s *Store) Get(key string, timeout time.Duration) ([]byte, error) {
	var found Found
	if err := s.call("Get", Wait{key, timeout}, &found); err != nil {
		return nil, err
	}
	if !found.OK {
		return nil, fmt.Errorf("nobody has put %s within %v: %w", key, timeout, context.DeadlineExceeded)
	}
	return found.Value, nil
}

// TryGet returns a key's value, or at once a *pjrt.Error of code NotFound.
func (s *Store) TryGet(key string) ([]byte, error) {
	value, err := s.Get(key, 0)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &pjrt.Error{Code: pjrt.NotFound, Func: "TryGet", Msg: "nobody has put " + key}
	}
	return value, err
}

func (s *Store) call(method string, args, reply any) error {
	err := s.calls.Call(service+"."+method, args, reply)
	var answer rpc.ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return &pjrt.Error{Code: pjrt.Unavailable, Func: method, Msg: string(answer)}
	}
	return &pjrt.Error{Code: pjrt.Unavailable, Func: method, Msg: "the rendezvous store does not answer, so process 0 may have gone: " + err.Error()}
}
