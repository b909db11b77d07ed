package pjrt

import (
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// pinned makes a slice that C may write to until the test ends.
func pinned[T any](t testing.TB, n int) []T {
	s := make([]T, max(n, 1))
	var pins runtime.Pinner
	pins.Pin(&s[0])
	t.Cleanup(pins.Unpin)
	return s[:n]
}

// eventually asks until the answer is good, and gives up after seconds.
func eventually[T any](ask func() (T, bool)) (T, bool) {
	for wait := time.Microsecond; ; wait *= 2 {
		answer, ok := ask()
		if ok || wait > 4*time.Second {
			return answer, ok
		}
		time.Sleep(wait)
	}
}

func TestClient(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(3), "ignored_list": []int64{1, 2}, "ignored_float": float32(1)})
	if f.PlatformName() != "null" || f.PlatformVersion() != "null 1" || f.ProcessIndex() != 0 {
		t.Errorf("got %q, %q, process %d", f.PlatformName(), f.PlatformVersion(), f.ProcessIndex())
	}
	if len(f.Devices()) != 3 || len(f.AddressableDevices()) != 3 || len(f.AddressableMemories()) != 6 {
		t.Fatalf("got %d devices, %d addressable, %d memories",
			len(f.Devices()), len(f.AddressableDevices()), len(f.AddressableMemories()))
	}
	ids, err := f.DefaultDeviceAssignment(3, 1)
	if err != nil || !slices.Equal(ids, []int{0, 1, 2}) {
		t.Errorf("assignment %v, %v", ids, err)
	}
	_, err = f.DefaultDeviceAssignment(2, 2)
	wantCode(t, err, InvalidArgument, "Client_DefaultDeviceAssignment", "4 devices")
	_, err = f.DefaultDeviceAssignment(0, 1)
	wantCode(t, err, InvalidArgument, "Client_DefaultDeviceAssignment", "0 replicas")
}

func TestExecute(t *testing.T) {
	f := newFixture(t, nil)
	x := f.array(0, []int64{2, 2}, 1, 2, 3, 4)
	y := f.array(0, []int64{2, 2}, 10, 20, 30, 40)
	for op, want := range map[string][]float32{
		"add": {11, 22, 33, 44}, "multiply": {10, 40, 90, 160},
		"subtract": {-9, -18, -27, -36}, "maximum": {10, 20, 30, 40},
	} {
		outs := f.run(binary(op, "tensor<2x2xf32>"), x, y)
		f.expect(outs[0], want...)
		f.destroy(outs...)
	}
	f.destroy(x, y)
}

// pinnedPointer is the address of n bytes that C may write to until the test ends.
func pinnedPointer(t testing.TB, n int) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(pinned[byte](t, n)))
}
