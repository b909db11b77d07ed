package rendezvous

import (
	"strings"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

func joined(t *testing.T, server *Server, index int) *Store {
	t.Helper()
	store := dial(t, server)
	if err := store.Join(index); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestWhoWaitsHearsThatAMemberHasGone(t *testing.T) {
	server := serve(t)
	stays, goes := joined(t, server, 0), joined(t, server, 1)
	go func() { _ = goes.Contradiction() }() // a call under way does not keep it alive
	if err := goes.Put("left", []byte("behind")); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() {
		_, err := stays.Get("never", time.Hour)
		waits <- err
	}()
	goes.Close()
	err := <-waits
	wantCode(t, err, pjrt.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "process 1 has gone") {
		t.Errorf("waiting for a key: %v", err)
	}
	if value, err := stays.Get("left", time.Hour); err != nil || string(value) != "behind" {
		t.Errorf("a key that it has put: %q, %v", value, err)
	}
	if _, err := stays.Exchange("tag", 0, 2, nil, time.Hour); err == nil {
		t.Error("an exchange with a member that has gone")
	}
}

func TestExchange(t *testing.T) {
	server := serve(t)
	got := make(chan string)
	for i := range 3 {
		store := joined(t, server, i)
		go func() {
			all, err := store.Exchange("tag", i, 3, []byte{byte('a' + i)}, time.Minute)
			if err != nil {
				t.Error(err)
			}
			text := ""
			for _, v := range all {
				text += string(v)
			}
			got <- text
		}()
	}
	for range 3 {
		if text := <-got; text != "abc" {
			t.Errorf("got %q", text)
		}
	}
}

func TestReportsThatDoNotFitAreTold(t *testing.T) {
	server := serve(t)
	a, b := joined(t, server, 0), joined(t, server, 1)
	report := func(s *Store, stream string, from int64, items ...string) error {
		return s.Report([]Segment{{stream, from, items}})
	}
	for _, err := range []error{
		report(a, "s", 0, "x", "y"), report(b, "s", 0, "x"), report(b, "s", 1, "y", "z"), // in other portions
		report(a, "other", 0, "q"), // only one takes part so far
		report(a, "s", 7, "late"),  // with a gap
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	told := make(chan error)
	go func() { told <- a.Contradiction() }()
	want := "number 3 of s is z in process 1 and w in process 0"
	if err := report(a, "s", 2, "w"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := <-told; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("who waits hears %v", err)
	}
	if err := report(b, "s", 3, "v"); err == nil {
		t.Error("a contradiction is forgotten")
	}
	server.Close()
	if err := b.Contradiction(); err != nil {
		t.Errorf("the end of the store is no contradiction: %v", err)
	}
}
