package pjrt

import (
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// TestUseAfterClose uses everything that a client gave out after the client was
// closed, and then after what it made was closed as well.
func TestUseAfterClose(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{2}, 1, 2)
	x, err := f.Compile([]byte(binary("add", "tensor<2xf32>")), "mlir", CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	k, err := x.Prepare(2)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Ready(b)
	if err != nil {
		t.Fatal(err)
	}
	device, memory := f.AddressableDevices()[0], f.AddressableMemories()[0]
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !f.Closed() {
		t.Error("the client does not say that it is closed")
	}
	afterClientClosed(t, f.Client, b, x, saved, k, device, memory)
	// What is left can be waited for and destroyed, and only then the plugin's
	// client goes.
	if live := f.control.Live(); live.Clients != f.before.Clients+1 || live.Violations != f.before.Violations {
		t.Errorf("the plugin's client is gone although a buffer is left: %+v", live)
	}
	for range 2 {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = x.Name()
	wantCode(t, err, FailedPrecondition, "Executable_Name", "is closed")
	wantCode(t, k.Execute([]Buffer{b, b}, nil, make([]Buffer, 1), nil), FailedPrecondition, "LoadedExecutable_Execute", "the call is closed")
	wantCode(t, k.SetLaunchID(1), FailedPrecondition, "LoadedExecutable_Execute", "the call is closed")
	wantCode(t, k.SetLocation("x"), FailedPrecondition, "LoadedExecutable_Execute", "the call is closed")
	if err := f.AwaitAndDestroy(e); err != nil {
		t.Error(err)
	}
	f.destroy(b)
}

func afterClientClosed(t *testing.T, c *Client, b Buffer, x *Executable, saved []byte, k *Call, device *Device, memory *Memory) {
	t.Helper()
	const words = "the client is closed"
	one, at := []float32{1}, pinnedPointer(t, 8)
	for fn, try := range map[string]func() error{
		"Client_Compile": func() error { _, err := c.Compile([]byte("x"), "mlir", CompileOptions{}); return err },
		"Executable_DeserializeAndLoad": func() error {
			_, err := c.DeserializeAndLoad(saved, nil)
			return err
		},
		"Client_BufferFromHostBuffer": func() error {
			_, _, err := c.FromHost(unsafe.Pointer(&one[0]), F32, []int64{1}, nil, device, OnlyDuringCall)
			return err
		},
		"Client_CreateUninitializedBuffer": func() error { _, err := c.Uninitialized(F32, nil, memory); return err },
		"Buffer_ToHostBuffer":              func() error { _, err := c.ToHost(b, at, 8); return err },
		"Buffer_CopyRawToHost":             func() error { _, err := c.CopyRawToHost(b, at, 0, 8); return err },
		"Buffer_ReadyEvent":                func() error { _, err := c.Ready(b); return err },
		"Buffer_ElementType":               func() error { _, err := c.DType(b); return err },
		"Buffer_Dimensions":                func() error { _, err := c.Dims(b); return err },
		"Buffer_IsDeleted":                 func() error { _, err := c.IsDeleted(b); return err },
		"Buffer_Delete":                    func() error { return c.Delete(b) },
		"Buffer_CopyToDevice":              func() error { _, err := c.CopyToDevice(b, device); return err },
		"Client_LookupDevice":              func() error { _, err := c.LookupDevice(0); return err },
		"Client_DefaultDeviceAssignment":   func() error { _, err := c.DefaultDeviceAssignment(1, 1); return err },
		"Device_MemoryStats":               func() error { _, err := device.MemoryStats(); return err },
		"DeviceDescription_Attributes":     func() error { _, err := device.Attributes(); return err },
		"Memory_Kind_Id":                   func() error { _, err := memory.KindID(); return err },
		"Memory_AddressableByDevices":      func() error { _, err := memory.Devices(); return err },
		"TopologyDescription_Serialize":    func() error { _, err := c.Topology().Serialize(); return err },
		"Event_OnReady":                    func() error { _, err := c.NewCompletionQueue(); return err },
		"Event_Create":                     func() error { _, err := c.NewEvent(); return err },
		"Executable_Name":                  func() error { _, err := x.Name(); return err },
		"Executable_Serialize":             func() error { _, err := x.Serialize(); return err },
		"LoadedExecutable_Execute":         func() error { return k.Execute([]Buffer{b, b}, nil, make([]Buffer, 1), nil) },
	} {
		wantCode(t, try(), FailedPrecondition, fn, words)
	}
	if s := device.String(); s != "(device of a closed client)" {
		t.Error(s)
	}
	if s := memory.String(); s != "(memory of a closed client)" {
		t.Error(s)
	}
}

// TestCloseInAnyOrder closes and destroys a client's objects in every order.
func TestCloseInAnyOrder(t *testing.T) {
	for order := range 24 {
		f := newFixture(t, nil)
		b := f.array(0, []int64{2}, 1, 2)
		x, err := f.Compile([]byte(binary("add", "tensor<2xf32>")), "mlir", CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := x.Prepare(2)
		if err != nil {
			t.Fatal(err)
		}
		ends := []func() error{f.Close, x.Close, k.Close, func() error { return f.Destroy(b) }}
		for n, left := order, len(ends); left > 0; left-- {
			i := n % left
			n /= left
			if err := ends[i](); err != nil {
				t.Errorf("order %d: %v", order, err)
			}
			ends = slices.Delete(ends, i, i+1)
		}
		f.finish()
	}
}

// TestCloseWhileExecuting closes client and executable while other goroutines
// execute: each execution works or is refused.
func TestCloseWhileExecuting(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	b := f.array(0, []int64{2}, 1, 2)
	var ready, done sync.WaitGroup
	for range 3 {
		k := f.prepare(x, 2)
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			outs, events := make([]Buffer, 1), make([]Event, 1)
			var err error
			for n := 0; err == nil; n++ {
				if n == 3 {
					ready.Done()
				}
				err = k.Execute([]Buffer{b, b}, nil, outs, events)
				// Without this, the plugin's worker would be left far behind.
				if failure := f.AwaitAndDestroy(events[0]); failure != nil {
					t.Error(failure)
				}
				f.destroy(outs...)
			}
			wantCode(t, err, FailedPrecondition, "LoadedExecutable_Execute", "is closed")
		}()
	}
	ready.Wait()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	done.Wait()
	f.destroy(b)
}

func TestFailingCloseIsReported(t *testing.T) {
	path := nullplugin.Build(t)
	f := fixtureAt(t, path, nil)
	x, err := f.Compile([]byte(binary("add", "tensor<2xf32>")), "mlir", CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := f.array(0, []int64{2}, 1, 2)
	e, err := f.Ready(b)
	if err != nil {
		t.Fatal(err)
	}
	f.control.Arm("Buffer_Destroy:1:INTERNAL,Event_Destroy:1:ABORTED,Executable_Destroy:1:INTERNAL," +
		"LoadedExecutable_Destroy:1:UNKNOWN,Client_Destroy:1:UNAVAILABLE")
	wantCode(t, f.Destroy(b), Internal, "Buffer_Destroy", "injected")
	wantCode(t, f.DestroyEvents(e), Aborted, "Event_Destroy", "injected")
	wantCode(t, x.Close(), Internal, "Executable_Destroy", "injected")
	wantCode(t, f.Close(), Unavailable, "Client_Destroy", "injected")
	if err := f.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if n := f.control.Armed(); n != 0 {
		t.Errorf("%d faults did not fire", n)
	}
}

func TestMemoryCounters(t *testing.T) {
	of := func(purpose string) MemoryCounter {
		for _, m := range MemoryCounters() {
			if m.Purpose == purpose {
				return m
			}
		}
		t.Fatalf("no counter for %s in %v", purpose, MemoryCounters())
		return MemoryCounter{}
	}
	before := MemoryCounters()
	f := newFixture(t, map[string]any{"version": "counted"})
	x, err := f.Compile([]byte(binary("add", "tensor<2xf32>")), "mlir", CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	calls := of("call arguments")
	k, err := x.Prepare(2)
	if err != nil {
		t.Fatal(err)
	}
	if now := of("call arguments"); now.Blocks != calls.Blocks+1 || now.Bytes <= calls.Bytes {
		t.Errorf("a call: %+v before, %+v after", calls, now)
	}
	events := of("watched events")
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	if now := of("watched events"); now.Blocks != events.Blocks+1 {
		t.Errorf("a queue: %+v before, %+v after", events, now)
	}
	for _, end := range []func() error{q.Close, k.Close, x.Close, f.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if after := MemoryCounters(); !slices.Equal(before, after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
