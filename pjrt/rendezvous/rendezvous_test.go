package rendezvous

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

func serve(t *testing.T) *Server {
	t.Helper()
	server, err := Serve("127.0.0.1:0")
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

func dial(t *testing.T, server *Server) *Store {
	t.Helper()
	store, err := Dial(server.Address(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
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
	if _, err := b.Get("key", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a key that nobody puts: %v", err)
	}
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
	if _, err := Dial(server.Address(), time.Millisecond); err == nil {
		t.Error("a closed server was reached")
	}
}
