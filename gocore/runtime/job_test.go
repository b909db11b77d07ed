package runtime

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

// meeting is a job of n processes, all of them here.
func meeting(t *testing.T, n int) []*Job {
	t.Helper()
	const secret = "the secret of a job of tests"
	server, err := rendezvous.Serve("127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	jobs, met := make([]*Job, n), make(chan error, n)
	for i := range jobs {
		if jobs[i], err = Reach(context.Background(), i, n, server.Address(), secret); err != nil {
			t.Fatal(err)
		}
		go func() { met <- jobs[i].Meet(time.Minute) }()
	}
	for range jobs {
		if err := <-met; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, j := range jobs {
			_ = j.Store.Close()
		}
		_ = server.Close()
	})
	return jobs
}

// runs makes a job wait for others by a program.
func runs(j *Job, stream string, processes ...int) error {
	x := exchange{Segment: rendezvous.Segment{Stream: stream, Items: []string{"a sum"}}, processes: processes}
	return j.enter(&Executable{exchanges: []exchange{x}})
}

func TestThePluginHearsOfTheFailureOfAJob(t *testing.T) {
	jobs := meeting(t, 2)
	k := jobs[1].keys()
	told := make(chan string)
	wait := func() {
		value, err := k.Get("xlacpu/failure/1", time.Hour)
		if err != nil {
			t.Error(err)
		}
		told <- string(value)
	}
	go wait()
	for i, item := range []string{"a", "b"} {
		_ = jobs[i].Store.Report([]rendezvous.Segment{{Stream: "s", Items: []string{item}}})
	}
	if text := <-told; !strings.Contains(text, "do not exchange the same") {
		t.Errorf("the plugin hears %q", text)
	}
	if err := runs(jobs[1], "s", 0, 1); err == nil {
		t.Error("a program runs in a job that has failed")
	}
	if err := jobs[1].Stuck(); err != nil {
		t.Errorf("nothing waits, but the job is stuck: %v", err)
	}
	k = jobs[0].keys()
	if err := k.Put("xlacpu/failure/0", nil); err != nil {
		t.Error(err)
	}
	if _, err := k.Get("key", time.Millisecond); err == nil || !strings.Contains(err.Error(), "do not exchange the same") {
		t.Errorf("who waits for a key hears %v", err)
	}
}

// TestAPluginThatEndsStopsWaiting: its client is destroyed while the job goes on.
func TestAPluginThatEndsStopsWaiting(t *testing.T) {
	k := meeting(t, 1)[0].keys()
	told := make(chan string)
	go func() {
		value, err := k.Get("xlacpu/failure/0", time.Hour)
		if err != nil {
			t.Error(err)
		}
		told <- string(value)
	}()
	if err := k.Put("xlacpu/failure/0", nil); err != nil {
		t.Error(err)
	}
	if text := <-told; text != "" {
		t.Errorf("got %q", text)
	}
}

func TestWhoDoesNotComeIsNamed(t *testing.T) {
	jobs := meeting(t, 3)
	for _, j := range jobs[:2] {
		if err := runs(j, "the sums", 0, 1, 2); err != nil {
			t.Fatal(err)
		}
	}
	jobs[0].SetTimeout(3 * time.Second) // so that all have reported their progress
	<-jobs[0].failed
	want := "process 2 has not come within 3s to number 1 of the sums, a sum in process 0"
	if err := jobs[0].Failure(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	time.Sleep(1100 * time.Millisecond)
	if jobs[0].Stuck() == nil {
		t.Error("the program that waits is not seen")
	}
}
