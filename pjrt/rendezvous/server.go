package rendezvous

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

const (
	// maxStrangers bounds the connections that have not proved to be of the job; the oldest one goes first.
	maxStrangers = 256
	// maxPending bounds the requests of a connection that wait for an answer.
	maxPending = 1 << 10
)

// Server serves a store until it is closed.
type Server struct {
	listener net.Listener
	secret   []byte
	table    *table
	close    sync.Once

	mu        sync.Mutex            // guards the fields below
	strangers []net.Conn            // that have not proved that they know the secret, oldest first
	known     map[net.Conn]struct{} // that have
	closed    bool
}

// session is one connection. Each request is answered by a goroutine of its own.
type session struct {
	*table
	conn    net.Conn
	member  int           // or noMember
	ended   chan struct{} // closed with the connection
	pending chan struct{} // has a place for each request under way
	write   sync.Mutex    // held while an answer is written to conn
}

// Serve makes an empty store that listens on an address, "host:port"; port 0 takes a free one. Who knows the
// secret, a text that no one can guess, is served.
func Serve(address, secret string) (*Server, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("rendezvous: the secret of a job has %d characters at least", minSecret)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	s := &Server{listener: listener, secret: []byte(secret), table: newTable(), known: make(map[net.Conn]struct{})}
	s.table.awake.Tick()
	go s.accept()
	go s.watch()
	return s, nil
}

// minSecret is the shortest secret.
const minSecret = 16

func (s *Server) accept() {
	defer s.broken()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files, which pass
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if s.meet(conn) {
			go s.serve(conn)
		}
	}
}

// broken is deferred, and recovers: a server that has panicked serves no one, and the members say so.
func (s *Server) broken() {
	if recover() != nil {
		_ = s.Close()
	}
}

// watch looks for members that have stopped.
func (s *Server) watch() {
	defer s.broken()
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.table.look()
		case <-s.table.done:
			return
		}
	}
}

// meet notes a new connection; false if the server is closed.
func (s *Server) meet(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return false
	}
	if len(s.strangers) == maxStrangers {
		s.strangers[0].Close()
		s.strangers = s.strangers[1:]
	}
	s.strangers = append(s.strangers, conn)
	return true
}

// know makes a stranger a connection that others do not displace; false if it has been displaced, or the server is
// closed: it is closed then.
func (s *Server) know(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.strangers, conn)
	if i < 0 || s.closed {
		return false
	}
	s.strangers = slices.Delete(s.strangers, i, i+1)
	s.known[conn] = struct{}{}
	return true
}

// forget drops a connection that has ended.
func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.strangers, conn); i >= 0 {
		s.strangers = slices.Delete(s.strangers, i, i+1)
	}
	delete(s.known, conn)
}

// serve answers the requests of one connection until it ends.
func (s *Server) serve(conn net.Conn) {
	defer func() { _ = recover() }() // what one connection sends ends that one
	defer conn.Close()
	session := &session{table: s.table, conn: conn, member: noMember,
		ended: make(chan struct{}), pending: make(chan struct{}, maxPending)}
	defer session.end()
	_, err := examine(conn, s.Address(), s.secret, func(m Member) error {
		if !s.know(conn) { // strangers can no longer displace it
			return errDisplaced
		}
		return s.table.admit(session, m)
	})
	defer s.forget(conn)
	if err != nil {
		return
	}
	for {
		m, err := read(conn, maxRequest)
		if err != nil {
			return
		}
		session.heard()
		select {
		case session.pending <- struct{}{}:
			go session.handle(m)
		default:
			session.answer(answer(m.id, nil, refusal(pjrt.ResourceExhausted, "more than %d requests wait", maxPending)))
		}
	}
}

// handle answers a request.
func (s *session) handle(m message) {
	defer func() { _ = recover() }() // of the answer; try recovers what the request does
	defer func() { <-s.pending }()
	value, err := s.try(m)
	s.answer(answer(m.id, value, err))
}

// try is do; a panic, which is a mistake of ours, is the answer of this request.
func (s *session) try(m message) (value []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, refusal(pjrt.Internal, "%v", r)
		}
	}()
	return s.do(m)
}

// do is what a request asks for.
func (s *session) do(m message) ([]byte, error) {
	switch {
	case len(m.value) > maxValue || len(m.key) > maxKey:
		return nil, refusal(pjrt.InvalidArgument, "a key of %d bytes with a value of %d; there is room for %d and %d",
			len(m.key), len(m.value), maxKey, maxValue)
	case timeoutOf(m) < 0:
		return nil, errMalformed
	}
	switch m.op {
	case opPut:
		return s.put(m)
	case opGet:
		return s.get(m)
	case opExchange:
		return s.exchange(m)
	case opTaken:
		s.taken(m.key)
		return nil, nil
	case opReport:
		return s.report(m)
	case opFailure:
		return s.failed()
	case opBeat:
		return s.beat(m)
	case opPositions:
		return s.positions(m.key)
	}
	return nil, errMalformed
}

// timeoutOf is the time that a request says.
func timeoutOf(m message) time.Duration { return time.Duration(m.numbers[0]) }

// answer writes a message. A connection that cannot be written to has ended.
func (s *session) answer(m *message) {
	s.write.Lock()
	defer s.write.Unlock()
	if _, err := s.conn.Write(m.encode()); err != nil {
		s.conn.Close()
	}
}

// Address is where the server listens, as Dial takes it.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends the server; a call that waits for a key gets an error. Closing again does nothing.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		err = s.listener.Close()
		close(s.table.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.strangers {
			conn.Close()
		}
		for conn := range s.known {
			conn.Close()
		}
		s.strangers, s.closed = nil, true
	})
	return err
}
