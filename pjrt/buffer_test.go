package pjrt

import (
	"slices"
	"testing"
	"unsafe"
)

func TestBufferFacts(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2)})
	b := f.array(1, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	defer f.destroy(b)
	if typ, err := f.DType(b); err != nil || typ != F32 {
		t.Errorf("type %v, %v", typ, err)
	}
	for name, ask := range map[string]func(Buffer) ([]int64, error){"dims": f.Dims, "unpadded dims": f.UnpaddedDims} {
		if dims, err := ask(b); err != nil || !slices.Equal(dims, []int64{2, 3}) {
			t.Errorf("%s %v, %v", name, dims, err)
		}
	}
	if dims, err := f.DynamicDims(b); err != nil || len(dims) != 0 {
		t.Errorf("dynamic dims %v, %v", dims, err)
	}
	if n, err := f.OnDeviceSize(b); err != nil || n != 24 {
		t.Errorf("size on device %d, %v", n, err)
	}
	if n, err := f.HostSize(b); err != nil || n != 24 {
		t.Errorf("size on host %d, %v", n, err)
	}
	if d, err := f.DeviceOf(b); err != nil || d != f.AddressableDevices()[1] {
		t.Errorf("device %v, %v", d, err)
	}
	if m, err := f.MemoryOf(b); err != nil || m != f.AddressableDevices()[1].DefaultMemory() {
		t.Errorf("memory %v, %v", m, err)
	}
	if cpu, err := f.OnCPU(b); err != nil || !cpu {
		t.Errorf("on CPU: %v, %v", cpu, err)
	}
	if l, err := f.LayoutOf(b); err != nil || !l.RowMajor() || !slices.Equal(l.MinorToMajor, []int64{1, 0}) {
		t.Errorf("layout %+v, %v", l, err)
	}
	if (Layout{MinorToMajor: []int64{0, 1}}).RowMajor() || (Layout{ByteStrides: []int64{4}}).RowMajor() {
		t.Error("a layout that is not row-major is said to be")
	}
	f.expect(b, 1, 2, 3, 4, 5, 6)
}

// TestFromHost checks every element type, shapes without elements or dimensions,
// and strides.
func TestFromHost(t *testing.T) {
	f := newFixture(t, nil)
	device := f.AddressableDevices()[0]
	data := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}
	for typ := Pred; typ <= F4E2M1FN; typ++ {
		if typ == Token {
			continue
		}
		b, e, err := f.FromHost(unsafe.Pointer(&data[0]), typ, []int64{2}, nil, device, OnlyDuringCall)
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		if err := f.AwaitAndDestroy(e); err != nil {
			t.Error(err)
		}
		n := 2 * typ.Size()
		out := pinned[byte](t, n)
		if e, err = f.ToHost(b, unsafe.Pointer(&out[0]), n); err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitAndDestroy(e); err != nil || !slices.Equal(out, data[:n]) {
			t.Errorf("%v: %v, %v", typ, out, err)
		}
		f.destroy(b)
	}
	scalar := f.array(0, nil, 7)
	empty := f.array(0, []int64{0, 3})
	f.expect(scalar, 7)
	f.expect(empty)
	f.destroy(scalar, empty)

	matrix := []float32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		start         int
		dims, strides []int64
		want          []float32
	}{
		{0, []int64{3, 2}, []int64{4, 12}, []float32{1, 4, 2, 5, 3, 6}}, // transposed
		{0, []int64{2, 2}, []int64{12, 8}, []float32{1, 3, 4, 6}},       // every other column
		{5, []int64{6}, []int64{-4}, []float32{6, 5, 4, 3, 2, 1}},       // reversed
		{1, []int64{2, 2}, []int64{0, 4}, []float32{2, 3, 2, 3}},        // repeated
	} {
		b, e, err := f.FromHost(unsafe.Pointer(&matrix[c.start]), F32, c.dims, c.strides, device, OnlyDuringCall)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitAndDestroy(e); err != nil {
			t.Error(err)
		}
		f.expect(b, c.want...)
		f.destroy(b)
	}
}

func TestBufferRefusals(t *testing.T) {
	f := newFixture(t, nil)
	other := newFixture(t, nil)
	device, x := f.AddressableDevices()[0], []float32{1, 2}
	at := unsafe.Pointer(&x[0])
	const from = "Client_BufferFromHostBuffer"
	for _, c := range []struct {
		words         string
		at            unsafe.Pointer
		dtype         Type
		dims, strides []int64
		device        *Device
	}{
		{"negative", at, F32, []int64{2, -1}, nil, device},
		{"no data", nil, F32, []int64{2}, nil, device},
		{"2 strides for 1", at, F32, []int64{2}, []int64{4, 4}, device},
		{"none of this client", at, F32, []int64{2}, nil, nil},
		{"none of this client", at, F32, []int64{2}, nil, other.AddressableDevices()[0]},
		{"more than 64 dimensions", at, F32, slices.Repeat([]int64{1}, 65), nil, device},
		{"no element type", at, Type(77), []int64{2}, nil, device},
	} {
		_, _, err := f.FromHost(c.at, c.dtype, c.dims, c.strides, c.device, OnlyDuringCall)
		wantCode(t, err, InvalidArgument, from, c.words)
	}
	_, _, err := f.FromHostToMemory(at, F32, []int64{2}, nil, nil, OnlyDuringCall)
	wantCode(t, err, InvalidArgument, from, "none of this client")

	b := f.array(0, []int64{2}, 1, 2)
	defer f.destroy(b)
	_, err = f.ToHost(0, at, 8)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "zero")
	_, err = f.ToHost(b, nil, 8)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "no memory")
	_, err = f.ToHost(b, at, -1)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "-1 bytes")
	_, err = f.ToHost(b, pinnedPointer(t, 4), 4)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "4 bytes of room")
	_, err = f.CopyRawToHost(b, pinnedPointer(t, 8), 4, 8)
	wantCode(t, err, InvalidArgument, "Buffer_CopyRawToHost", "outside")
	_, err = f.CopyRawToHost(b, nil, 0, 8)
	wantCode(t, err, InvalidArgument, "Buffer_CopyRawToHost", "8 bytes at offset 0")
	_, err = f.CopyToDevice(b, device)
	wantCode(t, err, InvalidArgument, "Buffer_CopyToDevice", "there already")
	_, err = f.CopyToDevice(b, other.AddressableDevices()[0])
	wantCode(t, err, InvalidArgument, "Buffer_CopyToDevice", "none of this client")
	_, err = f.CopyToMemory(b, nil)
	wantCode(t, err, InvalidArgument, "Buffer_CopyToMemory", "none of this client")
	wantCode(t, f.DecreaseExternalRef(b), FailedPrecondition, "Buffer_DecreaseExternalReferenceCount", "no external")
	_, err = f.Uninitialized(F32, []int64{-2}, device.DefaultMemory())
	wantCode(t, err, InvalidArgument, "Client_CreateUninitializedBuffer", "negative")
	_, err = f.View(1, F32, []int64{2}, device.DefaultMemory(), nil, 0)
	wantCode(t, err, InvalidArgument, "Client_CreateViewOfDeviceBuffer", "no queue")
}

func TestDelete(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{2}, 1, 2)
	defer f.destroy(b)
	if gone, err := f.IsDeleted(b); gone || err != nil {
		t.Errorf("deleted before: %v, %v", gone, err)
	}
	if err := f.Delete(b); err != nil {
		t.Fatal(err)
	}
	if gone, err := f.IsDeleted(b); !gone || err != nil {
		t.Errorf("deleted after: %v, %v", gone, err)
	}
	_, err := f.tryRead(b, 2)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "deleted or donated")
	_, err = f.UnsafePointer(b)
	wantCode(t, err, InvalidArgument, "Buffer_UnsafePointer", "deleted or donated")
	e, err := f.Ready(b)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, f.AwaitAndDestroy(e), InvalidArgument, "Event_Await", "deleted or donated")
	_, err = f.CopyToMemory(b, f.AddressableMemories()[1])
	wantCode(t, err, InvalidArgument, "Buffer_CopyToMemory", "deleted or donated")
}

func TestDestroyClearsAndSkipsZeros(t *testing.T) {
	f := newFixture(t, nil)
	list := []Buffer{f.array(0, nil, 1), 0, f.array(0, nil, 2)}
	for range 2 { // the second time there is nothing left to destroy
		if err := f.Destroy(list...); err != nil || !slices.Equal(list, []Buffer{0, 0, 0}) {
			t.Fatalf("%v, %v", list, err)
		}
	}
	many := make([]Buffer, 2000) // more than fit on the C function's stack
	for i := range many {
		many[i] = f.array(0, nil, 1)
	}
	f.destroy(many...)
	if n := f.Live().Buffers; n != 0 {
		t.Errorf("%d buffers are left", n)
	}
}

func TestCopies(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2)})
	b := f.array(0, []int64{2}, 1, 2)
	there, err := f.CopyToDevice(b, f.AddressableDevices()[1])
	if err != nil {
		t.Fatal(err)
	}
	host := f.AddressableDevices()[0].Memories()[1]
	pinnedCopy, err := f.CopyToMemory(b, host)
	if err != nil {
		t.Fatal(err)
	}
	f.destroy(b)
	f.expect(there, 1, 2)
	f.expect(pinnedCopy, 1, 2)
	if d, err := f.DeviceOf(there); err != nil || d.ID() != 1 {
		t.Errorf("the copy is on %v, %v", d, err)
	}
	if m, err := f.MemoryOf(pinnedCopy); err != nil || m != host || m.Kind() != "pinned_host" {
		t.Errorf("the copy is in %v, %v", m, err)
	}
	raw := pinned[float32](t, 1)
	e, err := f.CopyRawToHost(there, unsafe.Pointer(&raw[0]), 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AwaitAndDestroy(e); err != nil || raw[0] != 2 {
		t.Errorf("raw copy: %v, %v", raw, err)
	}
	f.destroy(there, pinnedCopy)
}

func TestZeroCopy(t *testing.T) {
	f := newFixture(t, nil)
	x := pinned[float32](t, 2)
	copy(x, []float32{1, 2})
	memory := f.AddressableDevices()[0].DefaultMemory()
	b, e, err := f.FromHostToMemory(unsafe.Pointer(&x[0]), F32, []int64{2}, nil, memory, ZeroCopy)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := f.UnsafePointer(b); err != nil || at != uintptr(unsafe.Pointer(&x[0])) {
		t.Errorf("the data is at %x, %v", at, err)
	}
	if done, err := f.EventReady(e); err != nil || done {
		t.Errorf("the memory is said to be free: %v, %v", done, err)
	}
	wantCode(t, f.EventError(e), FailedPrecondition, "Event_Error", "not complete")
	f.destroy(b)
	if err := f.Await(e); err != nil {
		t.Error(err)
	}
	if err := f.EventError(e); err != nil {
		t.Error(err)
	}
	if err := f.DestroyEvents(e); err != nil {
		t.Error(err)
	}
}

func TestView(t *testing.T) {
	f := newFixture(t, nil)
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	x := pinned[float32](t, 2)
	copy(x, []float32{3, 4})
	memory := f.AddressableDevices()[0].DefaultMemory()
	b, err := f.View(uintptr(unsafe.Pointer(&x[0])), F32, []int64{2}, memory, q, 42)
	if err != nil {
		t.Fatal(err)
	}
	f.expect(b, 3, 4)
	done := make([]Completion, 2)
	if n, err := q.Poll(done); n != 0 || err != nil {
		t.Errorf("released while in use: %v, %v", done[:n], err)
	}
	f.destroy(b)
	if n, err := q.Wait(done); n != 1 || err != nil || done[0] != (Completion{Token: 42}) {
		t.Errorf("got %v, %v", done[:n], err)
	}
}

func TestUninitialized(t *testing.T) {
	f := newFixture(t, nil)
	b, err := f.Uninitialized(S32, []int64{4}, f.AddressableDevices()[0].DefaultMemory())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.OnDeviceSize(b); err != nil || n != 16 {
		t.Errorf("%d bytes, %v", n, err)
	}
	f.destroy(b)
}

func TestExternalReferences(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{1}, 5)
	if err := f.IncreaseExternalRef(b); err != nil {
		t.Fatal(err)
	}
	at, err := f.DevicePointer(b)
	if err != nil || at == 0 {
		t.Fatalf("at %x, %v", at, err)
	}
	k := f.prepare(f.compile(passThrough(1, "tensor<1xf32>", true), CompileOptions{}), 1)
	outs := make([]Buffer, 1)
	wantCode(t, k.Execute([]Buffer{b}, nil, outs, nil), FailedPrecondition, "LoadedExecutable_Execute", "external")
	if err := f.DecreaseExternalRef(b); err != nil {
		t.Error(err)
	}
	if err := k.Execute([]Buffer{b}, nil, outs, nil); err != nil {
		t.Error(err)
	}
	f.expect(outs[0], 5)
	f.destroy(b, outs[0])
}

// TestTransfersAreAsynchronous reads and writes host memory late, so that a
// caller that does not wait would notice.
func TestTransfersAreAsynchronous(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	f.control.Hold()
	x, out := pinned[float32](t, 2), pinned[float32](t, 2)
	copy(x, []float32{1, 2})
	b, sent, err := f.FromHost(unsafe.Pointer(&x[0]), F32, []int64{2}, nil, f.AddressableDevices()[0], UntilTransferCompletes)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := f.Ready(b)
	if err != nil {
		t.Fatal(err)
	}
	received, err := f.ToHost(b, unsafe.Pointer(&out[0]), 8)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]Event{"sent": sent, "ready": ready, "received": received} {
		if done, err := f.EventReady(e); err != nil || done {
			t.Errorf("%s at once: %v, %v", name, done, err)
		}
	}
	f.destroy(b) // does not end what uses it
	f.control.Release()
	for _, e := range []Event{sent, ready, received} {
		if err := f.AwaitAndDestroy(e); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(out, x) {
		t.Errorf("got %v", out)
	}
}
