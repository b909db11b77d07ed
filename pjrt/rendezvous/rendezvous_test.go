package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

const secret = "the secret of a job of tests"

func serve(t *testing.T) *Server {
	t.Helper()
	server, err := Serve("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// join dials as a member, the zero Member as none.
func join(t *testing.T, server *Server, m Member) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := Dial(ctx, server.Address(), secret, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func dial(t *testing.T, server *Server) *Store {
	t.Helper()
	return join(t, server, Member{})
}

func wantCode(t *testing.T, err error, code pjrt.Code) {
	t.Helper()
	var e *pjrt.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("got %v, want code %v", err, code)
	}
}

func TestKeysReachTheOthers(t *testing.T) {
	server := serve(t)
	a, b := dial(t, server), dial(t, server)
	_, err := b.TryGet("key")
	wantCode(t, err, pjrt.NotFound)
	_, err = b.Get("key", time.Millisecond)
	wantCode(t, err, pjrt.DeadlineExceeded)
	got := make(chan string)
	go func() {
		value, err := b.Get("key", time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- string(value)
	}()
	if err := a.Put("key", []byte("one\x00")); err != nil {
		t.Fatal(err)
	}
	if value := <-got; value != "one\x00" {
		t.Errorf("got %q", value)
	}
	if err := b.Put("key", []byte("two")); err != nil {
		t.Fatal(err)
	}
	if value, err := a.TryGet("key"); err != nil || string(value) != "two" {
		t.Errorf("got %q, %v", value, err)
	}
}

func TestClosedServerFreesWhoWaits(t *testing.T) {
	server := serve(t)
	store := dial(t, server)
	failed := make(chan error)
	go func() {
		_, err := store.Get("key", time.Hour)
		failed <- err
	}()
	if err := dial(t, server).Put("other", nil); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-failed, pjrt.Unavailable)
	wantCode(t, store.Put("key", nil), pjrt.Unavailable)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, server.Address(), secret, Member{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dialing a closed server: %v", err)
	}
}

// TestClosedStoreFreesWhoWaits: a process that is interrupted closes its connection.
func TestClosedStoreFreesWhoWaits(t *testing.T) {
	store := dial(t, serve(t))
	failed := make(chan error)
	go func() {
		_, err := store.Get("key", time.Hour)
		failed <- err
	}()
	time.Sleep(10 * time.Millisecond)
	store.Close()
	wantCode(t, <-failed, pjrt.Unavailable)
}

func TestDialEndsWithItsContext(t *testing.T) {
	server := serve(t)
	address := server.Address()
	server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := Dial(ctx, address, secret, Member{})
		failed <- err
	}()
	time.Sleep(10 * time.Millisecond)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestValuesOfExchangesAreDropped: the store holds nothing of what all have.
func TestValuesOfExchangesAreDropped(t *testing.T) {
	server := serve(t)
	a, b := join(t, server, Member{0, 2}), join(t, server, Member{1, 2})
	value := bytes.Repeat([]byte("x"), 5000)
	failed := make(chan error, 2)
	for i, s := range []*Store{a, b} {
		go func() {
			for round := range 50 {
				all, err := s.Exchange(fmt.Sprint("round ", round), []int{1, 0}, value[:i+1], time.Minute)
				if err == nil && (len(all) != 2 || len(all[0]) != 2 || len(all[1]) != 1) {
					err = fmt.Errorf("round %d gives %q", round, all)
				}
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	server.table.mu.Lock()
	defer server.table.mu.Unlock()
	if n := len(server.table.exchanges); n != 0 || server.table.held != 0 {
		t.Errorf("%d exchanges and %d bytes are kept", n, server.table.held)
	}
}

func TestExchangeOfSome(t *testing.T) {
	server := serve(t)
	a, b, c := join(t, server, Member{0, 3}), join(t, server, Member{1, 3}), join(t, server, Member{2, 3})
	_, err := a.Exchange("tag", []int{1, 2}, nil, time.Minute)
	wantCode(t, err, pjrt.InvalidArgument)
	_, err = dial(t, server).Exchange("tag", []int{1, 2}, nil, time.Minute)
	wantCode(t, err, pjrt.InvalidArgument)
	a.Close() // whom the others do not wait for
	got := make(chan error)
	go func() {
		_, err := b.Exchange("tag", []int{1, 2}, []byte("b"), time.Minute)
		got <- err
	}()
	all, err := c.Exchange("tag", []int{1, 2}, nil, time.Minute)
	if err := errors.Join(err, <-got); err != nil || len(all) != 2 || string(all[0]) != "b" {
		t.Errorf("got %q, %v", all, err)
	}
	_, err = b.Exchange("late", []int{1, 2}, nil, 10*time.Millisecond)
	wantCode(t, err, pjrt.DeadlineExceeded)
	if err == nil || !strings.Contains(err.Error(), "process 2 has not come within") {
		t.Error(err)
	}
	if n := len(server.table.exchanges); n != 0 {
		t.Errorf("%d exchanges are kept", n)
	}
}

func TestRoomIsBounded(t *testing.T) {
	server := serve(t)
	server.table.room = 1000
	a := join(t, server, Member{0, 2})
	big := make([]byte, 600)
	for range 3 { // in place of the one before
		if err := a.Put("k", big); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, a.Put("other", big), pjrt.ResourceExhausted)
	_, err := a.Exchange("tag", []int{0, 1}, big, time.Minute)
	wantCode(t, err, pjrt.ResourceExhausted)
	wantCode(t, a.Put(strings.Repeat("k", maxKey+1), nil), pjrt.InvalidArgument)
	if err := a.Put("k", nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Put("other", big); err != nil {
		t.Fatal(err)
	}
}
