package pjrt

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDevice(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2), "memory_limit": int64(1000)})
	d := f.AddressableDevices()[1]
	if d.Client() != f.Client || d.ID() != 1 || d.ProcessIndex() != 0 || d.LocalHardwareID() != 1 ||
		!d.Addressable() || d.Kind() != "null" {
		t.Errorf("id %d, process %d, local %d, addressable %v, kind %q",
			d.ID(), d.ProcessIndex(), d.LocalHardwareID(), d.Addressable(), d.Kind())
	}
	if d.String() != "NullDevice(id=1)" || !strings.Contains(d.DebugString(), "null device 1") {
		t.Errorf("%v, %q", d, d.DebugString())
	}
	if a, err := d.Attributes(); err != nil || a["id"] != int64(1) || a["model"] != "null" {
		t.Errorf("attributes %v, %v", a, err)
	}
	for number, lookup := range map[int]func(int) (*Device, error){0: f.LookupDevice, 1: f.LookupAddressableDevice} {
		if found, err := lookup(number); err != nil || found != f.Devices()[number] {
			t.Errorf("look-up of %d: %v, %v", number, found, err)
		}
	}
	_, err := f.LookupDevice(2)
	wantCode(t, err, InvalidArgument, "Client_LookupDevice", "no device 2")
	_, err = f.LookupAddressableDevice(1 << 40)
	wantCode(t, err, InvalidArgument, "Client_LookupAddressableDevice", "no device has")
}

func TestMemory(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2)})
	d := f.AddressableDevices()[1]
	if len(d.Memories()) != 2 || d.DefaultMemory() != d.Memories()[0] {
		t.Fatalf("memories %v, default %v", d.Memories(), d.DefaultMemory())
	}
	m := d.Memories()[1]
	if id, err := m.KindID(); err != nil || id != 1 || m.ID() != 3 || m.Kind() != "pinned_host" {
		t.Errorf("kind %d %q, id %d, %v", id, m.Kind(), m.ID(), err)
	}
	if m.String() != "NullMemory(id=3, pinned_host)" || m.DebugString() == "" {
		t.Errorf("%v, %q", m, m.DebugString())
	}
	if devices, err := m.Devices(); err != nil || !slices.Equal(devices, []*Device{d}) {
		t.Errorf("used by %v, %v", devices, err)
	}
}

func TestMemoryStats(t *testing.T) {
	f := newFixture(t, map[string]any{"memory_limit": int64(100)})
	d := f.AddressableDevices()[0]
	a, b := f.array(0, []int64{10}, make([]float32, 10)...), f.array(0, []int64{5}, make([]float32, 5)...)
	f.destroy(a)
	s, err := d.MemoryStats()
	if err != nil || s.BytesInUse != 20 || s.PeakBytesInUse != 60 || s.NumAllocs != 2 ||
		s.LargestAllocSize != 40 || s.BytesLimit != 100 || s.PoolBytes != -1 {
		t.Errorf("%+v, %v", s, err)
	}
	_, _, err = f.FromHost(pinnedPointer(t, 84), F32, []int64{21}, nil, d, OnlyDuringCall)
	wantCode(t, err, ResourceExhausted, "Client_BufferFromHostBuffer", "84 bytes wanted, 20 of 100 in use")
	var e *Error
	if !errors.As(err, &e) || len(e.Memory) != 1 || e.Memory[0].BytesInUse != 20 || e.Memory[0].BytesLimit != 100 ||
		!strings.Contains(e.Error(), "device 0: 20 bytes in use of 100, peak 60") {
		t.Errorf("the error does not say how much memory is in use: %v", err)
	}
	k := f.prepare(f.compile(function("tensor<5xf32>", "tensor<40xf32>",
		`    %0 = "stablehlo.constant"() {value = dense<1.0> : tensor<40xf32>} : () -> tensor<40xf32>
    "func.return"(%0) : (tensor<40xf32>) -> ()`, ""), CompileOptions{}), 1)
	outs := make([]Buffer, 1)
	wantCode(t, k.Execute([]Buffer{b}, nil, outs, nil), ResourceExhausted, "LoadedExecutable_Execute", "out of memory")
	if outs[0] != 0 {
		t.Error("a failed execution left an output")
	}
	f.destroy(b)
}

func TestTopology(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(3)})
	top := f.Topology()
	if s, err := top.PlatformName(); err != nil || s != "null" {
		t.Errorf("platform %q, %v", s, err)
	}
	if s, err := top.PlatformVersion(); err != nil || s != "null 1" {
		t.Errorf("version %q, %v", s, err)
	}
	if all, err := top.Devices(); err != nil || len(all) != 3 || all[1].ID != f.Devices()[1].ID() || all[1].Kind != f.Devices()[1].Kind() {
		t.Errorf("devices %+v, %v", all, err)
	}
	if b, err := top.Serialize(); err != nil || string(b) != "null*3" {
		t.Errorf("%q, %v", b, err)
	}
	if a, err := top.Attributes(); err != nil || !slices.Equal(a["bounds"].([]int64), []int64{1, 1}) {
		t.Errorf("attributes %v, %v", a, err)
	}
}
