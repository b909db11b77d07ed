package pjrt

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// TestAsynchronousFailures lets what calls started fail, and follows the error
// to everything that depends on it.
func TestAsynchronousFailures(t *testing.T) {
	for _, delay := range []int64{0, 1} {
		f := newFixture(t, map[string]any{"delay_us": delay})
		k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
		a := f.array(0, []int64{2}, 1, 2)
		f.control.Arm("LoadedExecutable_Execute@event:1:DATA_LOSS:cosmic ray")
		bad, events := make([]Buffer, 1), make([]Event, 1)
		if err := k.Execute([]Buffer{a, a}, nil, bad, events); err != nil {
			t.Fatal(err)
		}
		wantCode(t, f.AwaitAndDestroy(events[0]), DataLoss, "Event_Await", "cosmic ray")
		ready, err := f.Ready(bad[0])
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, f.Await(ready), DataLoss, "Event_Await", "cosmic ray")
		wantCode(t, f.EventError(ready), DataLoss, "Event_Error", "cosmic ray")
		if err := f.DestroyEvents(ready); err != nil {
			t.Error(err)
		}
		_, err = f.tryRead(bad[0], 2)
		wantCode(t, err, DataLoss, "Event_Await", "cosmic ray")
		worse := make([]Buffer, 1)
		if err := k.Execute([]Buffer{a, bad[0]}, nil, worse, events); err != nil {
			t.Fatal(err)
		}
		wantCode(t, f.AwaitAndDestroy(events[0]), DataLoss, "Event_Await", "cosmic ray")
		_, err = f.tryRead(worse[0], 2)
		wantCode(t, err, DataLoss, "Event_Await", "cosmic ray")
		// A later execution on healthy buffers is as good as ever.
		good := make([]Buffer, 1)
		if err := k.Execute([]Buffer{a, a}, nil, good, nil); err != nil {
			t.Fatal(err)
		}
		f.expect(good[0], 2, 4)
		f.destroy(a, bad[0], worse[0], good[0])
	}
}

func TestFailingTransfers(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	f.control.Arm("Client_BufferFromHostBuffer@event:1:CANCELLED,Buffer_ToHostBuffer@event:1:ABORTED")
	x := pinned[float32](t, 1)
	b, e, err := f.FromHost(unsafe.Pointer(&x[0]), F32, []int64{1}, nil, f.AddressableDevices()[0], UntilTransferCompletes)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, f.AwaitAndDestroy(e), Cancelled, "Event_Await", "injected")
	healthy := f.array(0, []int64{1}, 3)
	_, err = f.tryRead(healthy, 1)
	wantCode(t, err, Aborted, "Event_Await", "injected")
	f.expect(healthy, 3)
	_, err = f.tryRead(b, 1)
	wantCode(t, err, Cancelled, "Event_Await", "injected")
	f.destroy(b, healthy)
}

// TestDeletedUnderTheCaller has the plugin delete buffers that it has just made: whoever uses one gets an error, its
// device and the other buffers serve on.
func TestDeletedUnderTheCaller(t *testing.T) {
	for _, delay := range []int64{0, 1} {
		f := newFixture(t, map[string]any{"delay_us": delay})
		k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
		f.control.Arm("Client_BufferFromHostBuffer@deleted:2,LoadedExecutable_Execute@deleted:1")
		a, gone := f.array(0, []int64{2}, 1, 2), f.array(0, []int64{2}, 3, 4)
		outs, next := make([]Buffer, 1), make([]Buffer, 1)
		wantCode(t, k.Execute([]Buffer{a, gone}, nil, outs, nil), InvalidArgument, "LoadedExecutable_Execute", "argument 1 has been deleted")
		if err := k.Execute([]Buffer{a, a}, nil, outs, nil); err != nil {
			t.Fatal(err)
		}
		for _, b := range []Buffer{gone, outs[0]} {
			if deleted, err := f.IsDeleted(b); !deleted || err != nil {
				t.Errorf("deleted: %v, %v", deleted, err)
			}
			_, err := f.tryRead(b, 2)
			wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "deleted or donated")
		}
		if err := k.Execute([]Buffer{a, a}, nil, next, nil); err != nil {
			t.Fatal(err)
		}
		f.expect(next[0], 2, 4)
		f.destroy(a, gone, outs[0], next[0])
	}
}

func TestZeroEvent(t *testing.T) {
	f := newFixture(t, nil)
	if err := errors.Join(f.Await(0), f.AwaitAndDestroy(0), f.EventError(0), f.DestroyEvents(0)); err != nil {
		t.Error(err)
	}
	if done, err := f.EventReady(0); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	wantCode(t, f.SetEvent(0, OK, ""), InvalidArgument, "Event_Set", "zero")
}

func TestOwnEvents(t *testing.T) {
	f := newFixture(t, nil)
	for code, message := range map[Code]string{OK: "", Aborted: "given up"} {
		e, err := f.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		if done, err := f.EventReady(e); done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
		if err := f.SetEvent(e, code, message); err != nil {
			t.Error(err)
		}
		err = f.AwaitAndDestroy(e)
		if code == OK {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantCode(t, err, code, "Event_Await", message)
	}
}

func TestCompletionQueue(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	f.control.Hold()
	k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
	a := f.array(0, []int64{2}, 1, 2)
	f.control.Arm("LoadedExecutable_Execute@event:2:ABORTED:second")
	const n = 100
	events, outs := make([]Event, n), make([]Buffer, n)
	for i := range n {
		if err := k.Execute([]Buffer{a, a}, nil, outs[i:i+1], events[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if err := q.Watch(events[i], uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	// An event may be destroyed while it is watched.
	if err := f.DestroyEvents(events...); err != nil {
		t.Error(err)
	}
	got := make([]Completion, 7)
	if m, err := q.Poll(got); m != 0 || err != nil {
		t.Errorf("%v while the worker is held, %v", got[:m], err)
	}
	f.control.Release()
	var tokens []uint64
	for len(tokens) < n {
		m, err := q.Wait(got)
		if err != nil || m == 0 {
			t.Fatalf("%d, %v", m, err)
		}
		for _, c := range got[:m] {
			tokens = append(tokens, c.Token)
			if c.Token == 1 {
				wantCode(t, c.Err, Aborted, "Event_OnReady", "second")
			} else if c.Err != nil {
				t.Errorf("%d: %v", c.Token, c.Err)
			}
		}
	}
	slices.Sort(tokens)
	for i, token := range tokens {
		if token != uint64(i) {
			t.Fatalf("tokens %v", tokens)
		}
	}
	f.destroy(append(outs, a)...)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// TestQueueClose closes a queue under a reader that waits, with events watched
// that complete later.
func TestQueueClose(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	before := MemoryCounters()
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	f.control.Hold()
	b := f.array(0, []int64{1}, 1)
	x := pinned[float32](t, 1)
	e, err := f.ToHost(b, unsafe.Pointer(&x[0]), 4)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, q.Watch(0, 1), InvalidArgument, "Event_OnReady", "zero")
	if err := q.Watch(e, 1); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		_, err := q.Wait(make([]Completion, 1))
		waited <- err
	}()
	for range 2 {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
	wantCode(t, <-waited, FailedPrecondition, "Event_OnReady", "is closed")
	wantCode(t, q.Watch(e, 1), FailedPrecondition, "Event_OnReady", "is closed")
	_, err = q.Poll(make([]Completion, 1))
	wantCode(t, err, FailedPrecondition, "Event_OnReady", "is closed")
	_, err = f.View(1, F32, nil, f.AddressableMemories()[0], q, 0)
	wantCode(t, err, FailedPrecondition, "Client_CreateViewOfDeviceBuffer", "is closed")
	f.control.Release()
	if err := f.AwaitAndDestroy(e); err != nil {
		t.Error(err)
	}
	f.destroy(b)
	if now, ok := eventually(func() ([]MemoryCounter, bool) {
		now := MemoryCounters()
		return now, slices.Equal(now, before)
	}); !ok {
		t.Errorf("before %+v, after %+v", before, now)
	}
}

// TestWatchFails checks that a watch that the plugin refuses leaves nothing.
func TestWatchFails(t *testing.T) {
	f := newFixture(t, nil)
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e, err := f.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	before := MemoryCounters()
	f.control.Arm("Event_OnReady:1:INTERNAL,Client_CreateViewOfDeviceBuffer:1:INTERNAL")
	wantCode(t, q.Watch(e, 1), Internal, "Event_OnReady", "injected")
	_, err = f.View(1, F32, nil, f.AddressableMemories()[0], q, 0)
	wantCode(t, err, Internal, "Client_CreateViewOfDeviceBuffer", "injected")
	if now := MemoryCounters(); !slices.Equal(now, before) {
		t.Errorf("before %+v, after %+v", before, now)
	}
	if err := f.DestroyEvents(e); err != nil {
		t.Error(err)
	}
}

func TestAwaitContext(t *testing.T) {
	f := newFixture(t, nil)
	e, err := f.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() { waited <- f.AwaitContext(ctx, e) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	go func() { waited <- f.AwaitContext(context.Background(), e) }()
	if err := f.SetEvent(e, Aborted, "enough"); err != nil {
		t.Fatal(err)
	}
	var failure *Error
	if err := <-waited; !errors.As(err, &failure) || failure.Code != Aborted || failure.Msg != "enough" {
		t.Errorf("a wait for an event that failed: %v", err)
	}
	// A context that is over does not hide an event that is complete.
	wantCode(t, f.AwaitContext(ctx, e), Aborted, "Event_Await", "enough")
	if err := f.DestroyEvents(e); err != nil {
		t.Error(err)
	}
}

// TestWaitContextCanBeRepeated waits on one queue after a wait was cancelled.
func TestWaitContextCanBeRepeated(t *testing.T) {
	f := newFixture(t, nil)
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	done := make([]Completion, 1)
	if _, err := q.WaitContext(over, done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	e, err := f.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Watch(e, 9), f.SetEvent(e, OK, "")); err != nil {
		t.Fatal(err)
	}
	if n, err := q.WaitContext(context.Background(), done); n != 1 || err != nil || done[0].Token != 9 {
		t.Errorf("got %d, %v, %v", n, err, done)
	}
	if err := f.DestroyEvents(e); err != nil {
		t.Error(err)
	}
}

// TestAwaitFor waits for an event that comes too late, that comes meanwhile, and that has come.
func TestAwaitFor(t *testing.T) {
	f := newFixture(t, nil)
	if done, err := f.AwaitFor(0, time.Hour); !done || err != nil {
		t.Errorf("no event: %v, %v", done, err)
	}
	before := MemoryCounters()
	for code, message := range map[Code]string{OK: "", Aborted: "given up"} {
		e, err := f.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		for _, timeout := range []time.Duration{-time.Second, 0, time.Nanosecond, 2 * spin} {
			if done, err := f.AwaitFor(e, timeout); done || err != nil {
				t.Errorf("for %v: %v, %v", timeout, done, err)
			}
		}
		set := make(chan error)
		go func() { set <- f.SetEvent(e, code, message) }()
		if done, err := f.AwaitFor(e, time.Hour); !done || err != nil {
			t.Errorf("%v: %v, %v", code, done, err)
		}
		if err := <-set; err != nil {
			t.Error(err)
		}
		if done, err := f.AwaitFor(e, 0); !done || err != nil {
			t.Errorf("%v, complete: %v, %v", code, done, err)
		}
		if err := f.AwaitAndDestroy(e); (err != nil) != (code != OK) {
			t.Errorf("%v: %v", code, err)
		}
	}
	// The thread that completes an event may be the last to leave a wait.
	if after, ok := eventually(func() ([]MemoryCounter, bool) {
		now := MemoryCounters()
		return now, slices.Equal(now, before)
	}); !ok {
		t.Errorf("waits that are over keep memory: %+v before, %+v after", before, after)
	}
}
