// Package rendezvous is the key-value store through which the processes of one computation find each
// other: one of them serves it over TCP, and each dials it for its pjrt.Client.
//
//	server, err := rendezvous.Serve("127.0.0.1:0") // in one process
//	store, err := rendezvous.Dial(address, time.Minute)
//	client, err := plugin.NewClient(map[string]any{"num_nodes": int64(2), "node_id": int64(0)}, store)
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

// table is the served object. Its methods are called by net/rpc, each call in a goroutine of its own.
type table struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed and made anew when a key is put
	done    chan struct{} // closed with the server
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

// Put sets a key.
func (t *table) Put(e Entry, _ *struct{}) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.values[e.Key] = e.Value
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// Get waits for a key.
func (t *table) Get(w Wait, out *Found) error {
	late := time.NewTimer(w.Timeout)
	defer late.Stop()
	for {
		t.mu.Lock()
		out.Value, out.OK = t.values[w.Key]
		changed := t.changed
		t.mu.Unlock()
		if out.OK {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil
		case <-t.done:
			return errors.New("the store was closed")
		}
	}
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
		table:    &table{values: make(map[string][]byte), changed: make(chan struct{}), done: make(chan struct{})},
		conns:    make(map[net.Conn]struct{}),
	}
	calls := rpc.NewServer()
	if err := calls.RegisterName(service, s.table); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go s.accept(calls)
	return s, nil
}

func (s *Server) accept(calls *rpc.Server) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		if !s.keep(conn) {
			conn.Close()
			return
		}
		go func() {
			calls.ServeConn(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		}()
	}
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
	if err := s.calls.Call(service+"."+method, args, reply); err != nil {
		return &pjrt.Error{Code: pjrt.Unavailable, Func: method, Msg: "the rendezvous store does not answer: " + err.Error()}
	}
	return nil
}
