package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Store is a connection to a server. It is a pjrt.KeyValueStore.
type Store struct {
	conn  net.Conn
	write sync.Mutex    // held while a request is written to conn
	done  chan struct{} // closed with err

	mu      sync.Mutex              // guards the fields below
	next    uint64                  // the number of the latest request
	waiting map[uint64]chan message // for answers, by request
	err     error                   // why it is closed; set once, before done is

	awake    Awake        // has a lock of its own
	heard    atomic.Int64 // when the server said something, by awake
	patience atomic.Int64 // for how long it, or this process, may say nothing; 0: without end
}

var _ pjrt.KeyValueStore = (*Store)(nil)

// Dial connects to a server, which may come up until the context ends; it is an error at once if the server
// refuses, a *pjrt.Error of code PermissionDenied, Unauthenticated or AlreadyExists.
func Dial(ctx context.Context, address, secret string, m Member) (*Store, error) {
	const pause = 50 * time.Millisecond
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			err = prove(conn, address, []byte(secret), m)
			if stop() && err == nil {
				return newStore(conn), nil
			}
			conn.Close()
			var refused *pjrt.Error
			if errors.As(err, &refused) {
				refused.Func = "Dial"
				return nil, refused
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rendezvous: no one serves the store at %s: %w", address, errors.Join(ctx.Err(), err))
		case <-time.After(pause):
		}
	}
}

func newStore(conn net.Conn) *Store {
	s := &Store{conn: conn, waiting: make(map[uint64]chan message), done: make(chan struct{})}
	s.awake.Tick()
	go s.receive()
	return s
}

// receive hands answers to those who wait for them until the connection ends.
func (s *Store) receive() {
	defer s.broken()
	for {
		m, err := read(s.conn, maxAnswer)
		if err != nil {
			s.fail(fmt.Errorf("the rendezvous store does not answer, so process 0 may have gone: %w", err))
			return
		}
		s.heard.Store(int64(s.awake.Total()))
		s.mu.Lock()
		waiting := s.waiting[m.id]
		delete(s.waiting, m.id)
		s.mu.Unlock()
		if waiting != nil {
			waiting <- m
		}
	}
}

// broken is deferred, and recovers: every call fails with what has panicked.
func (s *Store) broken() {
	if r := recover(); r != nil {
		s.fail(fmt.Errorf("rendezvous: internal error: %v", r))
	}
}

// fail ends the connection and every call; the first reason stays.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	close(s.done)
	s.conn.Close()
}

// call sends a request and waits for its answer.
func (s *Store) call(m message) ([]byte, error) {
	if len(m.key) > maxKey || len(m.value) > maxValue {
		return nil, &pjrt.Error{Code: pjrt.InvalidArgument, Func: m.op.String(),
			Msg: fmt.Sprintf("a key of %d bytes with a value of %d; a store takes %d and %d", len(m.key), len(m.value), maxKey, maxValue)}
	}
	came := make(chan message, 1)
	s.mu.Lock()
	s.next++
	m.id = s.next
	s.waiting[m.id] = came
	s.mu.Unlock()
	s.write.Lock()
	_, err := s.conn.Write(m.encode())
	s.write.Unlock()
	if err != nil {
		s.fail(fmt.Errorf("the rendezvous store does not answer, so process 0 may have gone: %w", err))
	}
	select {
	case a := <-came:
		if code := pjrt.Code(a.op); code != pjrt.OK {
			return nil, &pjrt.Error{Code: code, Func: m.op.String(), Msg: string(a.value)}
		}
		return a.value, nil
	case <-s.done:
		return nil, &pjrt.Error{Code: pjrt.Unavailable, Func: m.op.String(), Msg: s.err.Error()}
	}
}

// KeepAlive makes the process tell the store that it lives, every second, and how far it has come, as positions says.
// Who has said nothing for a time, see SetPatience, has stopped. If that is the process that serves the store, every
// call fails, and stopped is called with the reason.
func (s *Store) KeepAlive(positions func() map[string]int64, stopped func(error)) {
	go s.beats(positions)
	go func() {
		defer s.broken()
		tick := time.NewTicker(beatTime)
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-tick.C:
			}
			patience := time.Duration(s.patience.Load())
			if silence := s.awake.Tick() - time.Duration(s.heard.Load()); patience > 0 && silence > patience {
				err := fmt.Errorf("process 0, which serves the store of the job, has said nothing for %v: it has stopped, or its machine has", patience)
				s.fail(err)
				stopped(err)
			}
		}
	}()
}

func (s *Store) beats(positions func() map[string]int64) {
	defer s.broken()
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for {
		value, err := json.Marshal(positions())
		if err == nil {
			_, err = s.call(message{op: opBeat, numbers: [2]int64{s.patience.Load()}, value: value})
		}
		if err != nil {
			return // the connection has ended
		}
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
	}
}

// SetPatience sets for how long a process may say nothing before it counts as stopped; 0: without end. It
// takes effect with the next beat.
func (s *Store) SetPatience(d time.Duration) { s.patience.Store(int64(d)) }

// Exchange gives each of some members a value, and returns those of all in the order of the list. Each calls
// it once with the same tag and list. The first of the job, which may serve the store, stays until the others
// have theirs.
func (s *Store) Exchange(tag string, members []int, value []byte, timeout time.Duration) ([][]byte, error) {
	list, err := s.call(message{op: opExchange, key: tag, numbers: [2]int64{int64(timeout), int64(len(members))},
		value: encodeMembers(members, value)})
	if err != nil {
		return nil, err
	}
	if _, err := s.call(message{op: opTaken, key: tag}); err != nil {
		return nil, err
	}
	return decodeList(list)
}

// Close ends the connection.
func (s *Store) Close() error {
	s.fail(errors.New("the connection to the store was closed"))
	return nil
}

// Put sets a key's value.
func (s *Store) Put(key string, value []byte) error {
	_, err := s.call(message{op: opPut, key: key, value: value})
	return err
}

// Get waits up to the timeout for a key and returns its value; the error is a *pjrt.Error of code
// DeadlineExceeded if no one puts it.
func (s *Store) Get(key string, timeout time.Duration) ([]byte, error) {
	return s.call(message{op: opGet, key: key, numbers: [2]int64{int64(max(0, timeout))}})
}

// TryGet returns a key's value, or at once a *pjrt.Error of code NotFound.
func (s *Store) TryGet(key string) ([]byte, error) {
	value, err := s.Get(key, 0)
	var e *pjrt.Error
	if errors.As(err, &e) && e.Code == pjrt.DeadlineExceeded {
		return nil, &pjrt.Error{Code: pjrt.NotFound, Func: "TryGet", Msg: "no one has put " + key}
	}
	return value, err
}

// Report says what this process exchanges with others. It is an error if that, or what was reported
// before, is not what the others have reported.
func (s *Store) Report(segments []Segment) error {
	value, err := json.Marshal(segments)
	if err != nil {
		return err
	}
	_, err = s.call(message{op: opReport, value: value})
	return err
}

// Failure waits until the job has failed and returns why, or nil when the store has gone.
func (s *Store) Failure() error {
	reason, err := s.call(message{op: opFailure})
	if err != nil {
		return nil
	}
	return errors.New(string(reason))
}

// Positions is how far the members have come in a stream, as far as they have said.
func (s *Store) Positions(stream string) (map[int]int64, error) {
	value, err := s.call(message{op: opPositions, key: stream})
	if err != nil {
		return nil, err
	}
	var reached map[int]int64
	return reached, json.Unmarshal(value, &reached)
}
