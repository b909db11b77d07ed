package pjrt

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// steady is an executable whose outputs take the place of its arguments, so that
// it can be executed again and again.
func steady(f *fixture, n int) (*Call, []Buffer, []Buffer) {
	x := f.compile(passThrough(n, "tensor<1xf32>", true), CompileOptions{})
	k := f.prepare(x, n)
	args := make([]Buffer, n)
	for i := range args {
		args[i] = f.array(0, []int64{1}, float32(i))
	}
	return k, args, make([]Buffer, n)
}

func TestHotPathAllocatesNothing(t *testing.T) {
	if invariantsOn {
		t.Skip("the table of live objects that the tag invariants adds allocates")
	}
	f := newFixture(t, nil)
	const n = 100
	k, args, outs := steady(f, n)
	events := make([]Event, 1)
	var failure error
	note := func(err error) {
		if err != nil {
			failure = err
		}
	}
	step := func() {
		note(k.Execute(args, nil, outs, nil))
		note(f.Destroy(args...))
		copy(args, outs)
	}
	if allocs := testing.AllocsPerRun(100, step); allocs != 0 {
		t.Errorf("execute and destroy: %v allocations", allocs)
	}
	withEvents := func() {
		note(k.Execute(args, nil, outs, events))
		note(f.AwaitAndDestroy(events[0]))
		note(f.Destroy(args...))
		copy(args, outs)
	}
	if allocs := testing.AllocsPerRun(100, withEvents); allocs != 0 {
		t.Errorf("execute, await and destroy: %v allocations", allocs)
	}
	if failure != nil {
		t.Error(failure)
	}
	f.expect(args[n-1], n-1)
	f.destroy(args...)
}

func BenchmarkExecuteDestroy(b *testing.B) {
	for _, n := range []int{1, 10, 100, 600} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { executeDestroy(b, newFixture(b, nil), n) })
	}
}

// BenchmarkRealExecuteDestroy is the same on XLA's own CPU plugin.
func BenchmarkRealExecuteDestroy(b *testing.B) {
	for _, n := range []int{1, 100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { executeDestroy(b, realFixture(b, 1), n) })
	}
}

// executeDestroy executes a program of n donated arrays and destroys what it was
// given. Beside the time it reports the processor time of the calling thread,
// which other work on the machine disturbs less.
func executeDestroy(b *testing.B, f *fixture, n int) {
	k, args, outs := steady(f, n)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	before := threadTime(b)
	for b.Loop() {
		if err := k.Execute(args, nil, outs, nil); err != nil {
			b.Fatal(err)
		}
		if err := f.Destroy(args...); err != nil {
			b.Fatal(err)
		}
		copy(args, outs)
	}
	b.ReportMetric(float64(threadTime(b)-before)/float64(b.N), "cpu-ns/op")
	f.destroy(args...)
}

// threadTime is the processor time of the thread in nanoseconds.
func threadTime(b *testing.B) int64 {
	const thread = 1 // RUSAGE_THREAD, which package syscall does not name
	var use syscall.Rusage
	if err := syscall.Getrusage(thread, &use); err != nil {
		b.Fatal(err)
	}
	return use.Utime.Nano() + use.Stime.Nano()
}
