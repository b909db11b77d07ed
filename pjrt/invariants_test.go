//go:build invariants

package pjrt

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

const invariantsOn = true

// TestStaleHandles uses and destroys handles that were destroyed, or never made.
func TestStaleHandles(t *testing.T) {
	f := newFixture(t, nil)
	const words = "was destroyed"
	b, alive := f.array(0, []int64{2}, 1, 2), f.array(0, []int64{2}, 3, 4)
	stale := b
	f.destroy(b)
	wantCode(t, f.Destroy(stale), FailedPrecondition, "Buffer_Destroy", words)
	wantCode(t, f.Destroy(Buffer(0xdead0), alive), FailedPrecondition, "Buffer_Destroy", words)
	if n := f.Live().Buffers; n != 0 {
		t.Errorf("%d buffers are left: the good one of a list was not destroyed", n)
	}
	_, err := f.ToHost(stale, pinnedPointer(t, 8), 8)
	wantCode(t, err, FailedPrecondition, "Buffer_ToHostBuffer", words)
	_, err = f.Dims(stale)
	wantCode(t, err, FailedPrecondition, "Buffer_Dimensions", words)
	k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
	wantCode(t, k.Execute([]Buffer{stale, stale}, nil, make([]Buffer, 1), nil), FailedPrecondition, "LoadedExecutable_Execute", words)
	e, err := f.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	old := e
	if err := f.DestroyEvents(e); err != nil {
		t.Fatal(err)
	}
	wantCode(t, f.DestroyEvents(old), FailedPrecondition, "Event_Destroy", words)
	wantCode(t, f.Await(old), FailedPrecondition, "Event_Await", words)
	wantCode(t, f.AwaitAndDestroy(old), FailedPrecondition, "Event_Await", words)
	wantCode(t, f.SetEvent(old, OK, ""), FailedPrecondition, "Event_Set", words)
	_, err = f.EventReady(old)
	wantCode(t, err, FailedPrecondition, "Event_IsReady", words)
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, q.Watch(old, 1), FailedPrecondition, "Event_OnReady", words)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeaksAreNamed(t *testing.T) {
	f := newFixture(t, nil)
	x := []float32{1}
	b, e, err := f.FromHost(unsafe.Pointer(&x[0]), F32, []int64{1}, nil, f.AddressableDevices()[0], OnlyDuringCall)
	if err != nil {
		t.Fatal(err)
	}
	leaks := f.Leaks()
	if len(leaks) != 2 || !strings.Contains(leaks[0], "invariants_test.go:") || !strings.Contains(strings.Join(leaks, ""), "pjrt.Buffer") {
		t.Errorf("leaks %q", leaks)
	}
	if err := f.DestroyEvents(e); err != nil {
		t.Error(err)
	}
	f.destroy(b)
	if leaks := f.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks %q", leaks)
	}
}

// TestUnclosedIsReported drops a call and a queue without closing them.
func TestUnclosedIsReported(t *testing.T) {
	f := newFixture(t, nil)
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	var mu sync.Mutex
	var reports []string
	before := reportLeak
	reportLeak = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, text)
	}
	defer func() { reportLeak = before }()
	call, queue := func() (*Call, *CompletionQueue) {
		k, err := x.Prepare(2)
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.NewCompletionQueue()
		if err != nil {
			t.Fatal(err)
		}
		// What frees them in the end.
		return &Call{x: k.x, block: k.block}, &CompletionQueue{handle: q.handle, wake: q.wake, client: q.client}
	}()
	got, ok := eventually(func() (string, bool) {
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(reports, "; "), len(reports) > 1
	})
	for _, want := range []string{"a call made at", "a completion queue made at", "invariants_test.go:"} {
		if !ok || !strings.Contains(got, want) {
			t.Errorf("reports without %q: %q", want, got)
		}
	}
	if err := errors.Join(call.Close(), queue.Close()); err != nil {
		t.Error(err)
	}
}
