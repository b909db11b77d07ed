package rendezvous

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

func joined(t *testing.T, server *Server, index int) *Store {
	t.Helper()
	return join(t, server, Member{index, 3})
}

func TestWhoWaitsHearsThatAMemberHasGone(t *testing.T) {
	server := serve(t)
	stays, goes := joined(t, server, 0), joined(t, server, 1)
	go func() { _ = goes.Failure() }() // a call under way does not keep it alive
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
	if _, err := stays.Exchange("tag", []int{0, 1}, nil, time.Hour); err == nil {
		t.Error("an exchange with a member that has gone")
	}
}

func TestExchange(t *testing.T) {
	server := serve(t)
	got := make(chan string)
	for i := range 3 {
		store := joined(t, server, i)
		go func() {
			all, err := store.Exchange("tag", []int{0, 1, 2}, []byte{byte('a' + i)}, time.Minute)
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
	go func() { told <- a.Failure() }()
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
	if err := b.Failure(); err != nil {
		t.Errorf("the end of the store is not a failure: %v", err)
	}
}

// TestReportsAreForgotten: what is long past is not kept, and what is new is still compared.
func TestReportsAreForgotten(t *testing.T) {
	all := make(streams)
	const portion = 1000
	items := make([]string, portion)
	for i := range items {
		items[i] = "x"
	}
	last := int64(10 * maxPlaces / portion * portion)
	for _, member := range []int{0, 1} {
		for at := int64(0); at <= last; at += portion {
			if err := all.add(member, Segment{"s", at, items}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(all["s"].words); n > 2*maxPlaces+portion {
		t.Errorf("%d places are kept", n)
	}
	if err := all.add(1, Segment{"s", 0, []string{"y"}}); err != nil {
		t.Errorf("what is forgotten contradicts: %v", err)
	}
	if err := all.add(1, Segment{"s", last, []string{"y"}}); err == nil {
		t.Error("a contradiction is not found")
	}
	if err := all.add(1, Segment{"s", 1 << 60, []string{"y"}}); err != nil || len(all["s"].words) > 2*maxPlaces {
		t.Errorf("a leap: %v", err)
	}
	for i := range 2 * maxStreams {
		if err := all.add(0, Segment{fmt.Sprint(i), 0, items[:1]}); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) > maxStreams {
		t.Errorf("%d streams are kept", len(all))
	}
}

// TestAMemberThatSaysNothingHasStopped: the others' errors name it, also those that wait for no one.
func TestAMemberThatSaysNothingHasStopped(t *testing.T) {
	server := serve(t)
	a, b, c := joined(t, server, 0), joined(t, server, 1), joined(t, server, 2)
	at := map[string]int64{"s": 7}
	alive := func(s *Store) {
		s.SetPatience(time.Hour)
		s.KeepAlive(func() map[string]int64 { return at }, func(err error) { t.Error(err) })
	}
	alive(a)
	alive(b)
	if _, err := c.call(message{op: opBeat, numbers: [2]int64{int64(time.Millisecond)}, value: []byte(`{"s":6}`)}); err != nil {
		t.Fatal(err)
	}
	for {
		reached, err := a.Positions("s")
		if err != nil {
			t.Fatal(err)
		}
		if len(reached) == 3 {
			if reached[0] != 7 || reached[2] != 6 {
				t.Errorf("got %v", reached)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	waits := make(chan error)
	go func() {
		_, err := b.Exchange("tag", []int{0, 1}, nil, time.Hour)
		waits <- err
	}()
	want := "process 2 has said nothing for 1ms"
	if err := a.Failure(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := <-waits; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("who waits hears %v", err)
	}
	wantCode(t, c.Put("key", nil), pjrt.Unavailable)
}

// TestTheTimeInWhichAProcessWasStoppedDoesNotCount: after SIGCONT no one else has stopped.
func TestTheTimeInWhichAProcessWasStoppedDoesNotCount(t *testing.T) {
	var a Awake
	now := time.Now()
	a.tick(now)
	if d := a.tick(now.Add(time.Second)); d != time.Second {
		t.Errorf("got %v", d)
	}
	if d := a.tick(now.Add(time.Hour)); d > 5*time.Second {
		t.Errorf("got %v", d)
	}
}

// TestASilentStoreHasStopped: the server's process accepts what is sent, and says nothing.
func TestASilentStoreHasStopped(t *testing.T) {
	server := serve(t)
	store := joined(t, server, 1)
	server.table.mu.Lock() // nothing is answered
	defer server.table.mu.Unlock()
	store.SetPatience(time.Millisecond)
	stopped := make(chan error, 1)
	store.KeepAlive(func() map[string]int64 { return nil }, func(err error) { stopped <- err })
	if err := <-stopped; !strings.Contains(err.Error(), "process 0, which serves the store of the job, has said nothing") {
		t.Error(err)
	}
	wantCode(t, store.Put("key", nil), pjrt.Unavailable)
}
