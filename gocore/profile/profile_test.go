package profile

import (
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"
)

// What is off costs nothing but the look whether it is: no span may allocate, recording or not.
func TestAllocations(t *testing.T) {
	work := func() {
		s := Begin()
		s.End(Plan, 1)
		s.Waited()
		Named("named", Now())
		Mark(1, 1)
	}
	if n := testing.AllocsPerRun(1000, work); n != 0 {
		t.Errorf("off: %v allocations", n)
	}
	Start(0)
	defer Stop()
	for range capacity { // the ring has its size
		Begin().End(Plan, 1)
	}
	if n := testing.AllocsPerRun(1000, func() { Begin().End(Plan, 1) }); n != 0 {
		t.Errorf("on: %v allocations", n)
	}
}

type decoded struct {
	Events []traceEvent   `json:"traceEvents"`
	Other  map[string]any `json:"otherData"`
}

func stop(t *testing.T) decoded {
	t.Helper()
	var d decoded
	if err := json.Unmarshal(Stop(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d decoded) named(name string) (found []traceEvent) {
	for _, e := range d.Events {
		if e.Name == name {
			found = append(found, e)
		}
	}
	return found
}

func TestStepsHoldTheirSpans(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !Start(10) || Start(0) {
		t.Fatal("one recording at a time")
	}
	for i := range 2 {
		outer, inner := Begin(), Begin()
		inner.End(Lower, 7)
		outer.End(Trace, 3)
		Mark(int64(10+(i+1)*5), 64)
	}
	d := stop(t)
	if Stop() != nil || On() || Number() != -1 {
		t.Error("the recording goes on")
	}
	for i, name := range []string{"step 0", "step 1"} {
		steps, inner, outer := d.named(name), d.named("lower"), d.named("trace")
		if len(steps) != 1 || len(inner) != 2 || len(outer) != 2 {
			t.Fatalf("%d %d %d spans", len(steps), len(inner), len(outer))
		}
		for _, pair := range [][2]traceEvent{{steps[0], outer[i]}, {outer[i], inner[i]}} {
			around, within := pair[0], pair[1]
			if around.Start > within.Start || around.Start+*around.Duration < within.Start+*within.Duration-rounding {
				t.Errorf("%s is not within %s: %+v %+v", within.Name, around.Name, within, around)
			}
		}
		if got := outer[i].Args["step"]; got != float64(i) {
			t.Errorf("trace %d is of step %v", i, got)
		}
	}
	for _, c := range d.named("ops per step") {
		if c.Phase != "C" || c.Args["ops"] != 5.0 {
			t.Errorf("%+v", c)
		}
	}
}

// rounding is what the sum of a start and a duration, which are ns written as µs, may be off by.
const rounding = 1e-4

// A device computes one program after the other, and Stop waits for the last.
func TestExecutionsDoNotOverlap(t *testing.T) {
	Start(0)
	for i := range 3 {
		Executed(1, int64(i), 2, func() { time.Sleep(time.Duration(i+1) * time.Millisecond) })
	}
	d := stop(t)
	spans, end := d.named("execute"), 0.0
	if len(spans) != 3 {
		t.Fatalf("%d executions", len(spans))
	}
	for _, s := range spans {
		if s.Start < end-rounding || s.Process != devices || s.Thread != 1 {
			t.Errorf("%+v begins before %v", s, end)
		}
		end = s.Start + *s.Duration
	}
	if n := len(d.named("thread_name")); n != 2 { // and that of the steps
		t.Errorf("%d names of rows", n)
	}
}

// A wait in slices is one span, until the thread does something else.
func TestWaitsAreJoined(t *testing.T) {
	wait := func(row int32, start, end int64) event { return event{kind: Wait, row: row, start: start, end: end} }
	got := joinWaits([]event{
		wait(1, 0, 10), wait(2, 5, 9), {kind: Execute, device: true, row: 1, start: 8, end: 9}, wait(1, 11, 20), {kind: Bytes, start: 21},
		wait(1, 22, 30), {kind: Plan, row: 1, start: 31, end: 32}, wait(1, 33, 40), wait(1, 40+slice, 50+slice),
	})
	var waits []event
	for _, e := range got {
		if e.kind == Wait {
			waits = append(waits, e)
		}
	}
	want := []event{wait(1, 0, 30), wait(2, 5, 9), wait(1, 33, 40), wait(1, 40+slice, 50+slice)}
	if !slices.Equal(waits, want) || len(got) != len(want)+3 {
		t.Errorf("%+v", got)
	}
}

func TestTheLatestEventsStay(t *testing.T) {
	Start(0)
	for i := range capacity + 5 {
		Begin().End(Plan, int64(i))
	}
	d := stop(t)
	if got := d.Other["events_dropped"]; got != 5.0 {
		t.Errorf("%v dropped", got)
	}
	if first := d.named("plan")[0]; first.Args["nodes"] != 5.0 {
		t.Errorf("the first that stays: %+v", first)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Begin().End(Plan, 1)
	}
}

func BenchmarkOn(b *testing.B) {
	Start(0)
	defer Stop()
	b.ReportAllocs()
	for b.Loop() {
		Begin().End(Plan, 1)
	}
}
