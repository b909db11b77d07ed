package pjrt

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// realPlugin loads the XLA:CPU plugin that TGX_XLA_CPU_PLUGIN names.
func realPlugin(t testing.TB) *Plugin {
	t.Helper()
	path := os.Getenv("TGX_XLA_CPU_PLUGIN")
	if path == "" {
		t.Skip("TGX_XLA_CPU_PLUGIN does not name a CPU plugin to test with")
	}
	plugin, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return plugin
}

// realFixture is a client of the real plugin with the fixture's conveniences.
func realFixture(t testing.TB, devices int) *fixture {
	t.Helper()
	client, err := realPlugin(t).NewClient(map[string]any{"cpu_device_count": int64(devices)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if live := client.Live(); live != (LiveObjects{}) {
			t.Errorf("the client still counts %+v", live)
		}
	})
	return &fixture{Client: client, t: t}
}

func TestRealFacts(t *testing.T) {
	f := realFixture(t, 2)
	major, minor := f.Plugin().APIVersion()
	t.Logf("API %d.%d, attributes %v, extensions %v", major, minor, f.Plugin().Attributes(), f.Plugin().Extensions())
	if v, ok := f.Plugin().StableHLOVersion(); !ok || v[0] != 1 {
		t.Errorf("StableHLO %v, %v", v, ok)
	}
	if len(f.AddressableDevices()) != 2 || len(f.Devices()) != 2 || len(f.AddressableMemories()) == 0 {
		t.Fatalf("devices %v, memories %v", f.Devices(), f.AddressableMemories())
	}
	for i, d := range f.AddressableDevices() {
		if d.ID() != i || d.Kind() == "" || d.DefaultMemory() == nil || len(d.Memories()) == 0 {
			t.Errorf("device %v: id %d, kind %q, memories %v", d, d.ID(), d.Kind(), d.Memories())
		}
	}
	if s, err := f.Topology().Serialize(); err != nil || len(s) == 0 {
		t.Errorf("topology %x, %v", s, err)
	}
}

// TestRealDescriptions asks the plugin for what it says of its objects.
func TestRealDescriptions(t *testing.T) {
	f := realFixture(t, 2)
	d := f.AddressableDevices()[1]
	if a, err := d.Attributes(); err != nil {
		t.Errorf("attributes of the device: %v, %v", a, err)
	}
	if d.String() == "" || d.DebugString() == "" || strings.HasPrefix(d.DebugString(), "(PJRT_") || d.ProcessIndex() != 0 {
		t.Errorf("device %v, %q of process %d", d, d.DebugString(), d.ProcessIndex())
	}
	seen := make(map[int]bool)
	for _, m := range f.AddressableMemories() {
		if _, err := m.KindID(); err != nil || seen[m.ID()] || m.String() == "" || strings.HasPrefix(m.DebugString(), "(PJRT_") {
			t.Errorf("memory %d %v, %q, %v", m.ID(), m, m.DebugString(), err)
		}
		seen[m.ID()] = true
	}
	if v, err := f.Topology().PlatformVersion(); err != nil || v == "" {
		t.Errorf("topology of version %q, %v", v, err)
	}
	if a, err := f.Topology().Attributes(); err != nil {
		t.Errorf("attributes of the topology: %v, %v", a, err)
	}

	b := f.array(1, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	if dims, err := f.UnpaddedDims(b); err != nil || !slices.Equal(dims, []int64{2, 3}) {
		t.Errorf("unpadded dims %v, %v", dims, err)
	}
	if dims, err := f.DynamicDims(b); err != nil || len(dims) != 0 {
		t.Errorf("dynamic dims %v, %v", dims, err)
	}
	if cpu, err := f.OnCPU(b); err != nil || !cpu {
		t.Errorf("on CPU: %v, %v", cpu, err)
	}
	f.destroy(b)

	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	if n, err := x.NumPartitions(); n != 1 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	if s, err := x.Fingerprint(); s == "" || err != nil {
		t.Errorf("fingerprint %q, %v", s, err)
	}
	if n, err := x.CodeSize(); err != nil {
		t.Errorf("code of %d bytes, %v", n, err)
	}
	if gone, err := x.IsDeleted(); gone || err != nil {
		t.Errorf("deleted before: %v, %v", gone, err)
	}
	if err := x.Delete(); err != nil {
		t.Fatal(err)
	}
	if gone, err := x.IsDeleted(); !gone || err != nil {
		t.Errorf("deleted after: %v, %v", gone, err)
	}
}

func TestRealProgram(t *testing.T) {
	f := realFixture(t, 1)
	x := f.compile(binary("add", "tensor<2x3xf32>"), CompileOptions{})
	a := f.array(0, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	outs, events := make([]Buffer, 1), make([]Event, 1)
	k := f.prepare(x, 2)
	if err := k.Execute([]Buffer{a, a}, nil, outs, events); err != nil {
		t.Fatal(err)
	}
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Watch(events[0], 3); err != nil {
		t.Fatal(err)
	}
	if err := f.DestroyEvents(events...); err != nil {
		t.Error(err)
	}
	done := make([]Completion, 1)
	if n, err := q.Wait(done); n != 1 || err != nil || done[0] != (Completion{Token: 3}) {
		t.Errorf("%d completions %v, %v", n, done, err)
	}
	f.expect(outs[0], 2, 4, 6, 8, 10, 12)
	if l, err := f.LayoutOf(outs[0]); err != nil || !l.RowMajor() {
		t.Errorf("layout %+v, %v", l, err)
	}
	if types, err := x.OutputTypes(); err != nil || !slices.Equal(types, []Type{F32}) {
		t.Errorf("output types %v, %v", types, err)
	}
	if dims, err := x.OutputDims(); err != nil || len(dims) != 1 || !slices.Equal(dims[0], []int64{2, 3}) {
		t.Errorf("output dims %v, %v", dims, err)
	}
	if code, format, err := x.OptimizedProgram(); err != nil || len(code) == 0 || !strings.HasPrefix(format, "hlo") {
		t.Errorf("optimized program: %d bytes of %q, %v", len(code), format, err)
	}
	if cost, err := x.CostAnalysis(); err != nil || len(cost) == 0 {
		t.Errorf("cost %v, %v", cost, err)
	}
	if m, err := x.MemoryStats(); err != nil || m.Argument != 48 || m.Output < 24 {
		t.Errorf("memory %+v, %v", m, err)
	}
	f.destroy(a, outs[0])
}

func TestRealStrides(t *testing.T) {
	f := realFixture(t, 1)
	x := []float32{1, 2, 3, 4, 5, 6}
	b, e, err := f.FromHost(unsafe.Pointer(&x[0]), F32, []int64{3, 2}, []int64{4, 12},
		f.AddressableDevices()[0], OnlyDuringCall)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AwaitAndDestroy(e); err != nil {
		t.Error(err)
	}
	f.expect(b, 1, 4, 2, 5, 3, 6)
	f.destroy(b)
}

func TestRealDonation(t *testing.T) {
	f := realFixture(t, 1)
	w, x := f.array(0, []int64{2}, 1, 2), f.array(0, []int64{2}, 1, 1)
	k := f.prepare(f.compile(stepModule, CompileOptions{}), 2)
	outs := make([]Buffer, 2)
	for i, keep := range [][]int32{{0}, nil} {
		if err := k.Execute([]Buffer{w, x}, keep, outs, nil); err != nil {
			t.Fatal(err)
		}
		f.expect(outs[0], 0.5, 1)
		f.destroy(outs...)
		if gone, err := f.IsDeleted(w); err != nil || gone != (i == 1) {
			t.Errorf("keeping %v: deleted %v, %v", keep, gone, err)
		}
	}
	var e *Error
	err := k.Execute([]Buffer{w, x}, nil, outs, nil)
	if !asError(err, &e) || e.Func != "PJRT_LoadedExecutable_Execute" || e.Msg == "" {
		t.Errorf("executing with a donated argument: %v", err)
	}
	if _, err := f.tryRead(w, 2); !asError(err, &e) {
		t.Errorf("reading a donated argument: %v", err)
	}
	f.destroy(w, x)
}

func TestRealDevices(t *testing.T) {
	f := realFixture(t, 2)
	x := f.compile(binary("multiply", "tensor<1xf32>"), CompileOptions{NumReplicas: 2, DeviceAssignment: []int{0, 1}})
	a, b := f.array(0, []int64{1}, 3), f.array(1, []int64{1}, 5)
	outs, events := make([]Buffer, 2), make([]Event, 2)
	if err := f.prepare(x, 2).Execute([]Buffer{a, a, b, b}, nil, outs, events); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := f.AwaitAndDestroy(e); err != nil {
			t.Error(err)
		}
	}
	f.expect(outs[0], 9)
	f.expect(outs[1], 25)
	moved, err := f.CopyToDevice(a, f.AddressableDevices()[1])
	if err != nil {
		t.Fatal(err)
	}
	f.expect(moved, 3)
	f.destroy(a, b, moved, outs[0], outs[1])
}

func TestRealSerialization(t *testing.T) {
	f := realFixture(t, 1)
	x := f.compile(binary("add", "tensor<1xf32>"), CompileOptions{})
	saved, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.DeserializeAndLoad(saved, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, outs := f.array(0, []int64{1}, 21), make([]Buffer, 1)
	if err := f.prepare(again, 2).Execute([]Buffer{a, a}, nil, outs, nil); err != nil {
		t.Fatal(err)
	}
	f.expect(outs[0], 42)
	f.destroy(a, outs[0])
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	var e *Error
	if _, err := f.DeserializeAndLoad([]byte("rubbish"), nil); !asError(err, &e) {
		t.Errorf("loading rubbish: %v", err)
	}
	if _, err := f.Compile([]byte("rubbish"), "mlir", CompileOptions{}); !asError(err, &e) || e.Func != "PJRT_Client_Compile" {
		t.Errorf("compiling rubbish: %v", err)
	}
}

// A launch on several devices that is refused starts on none of them, and the next one runs: XLA:CPU left to
// itself waits for ever for the devices that it has refused.
func TestRealRefusedLaunch(t *testing.T) {
	f := realFixture(t, 2)
	x := f.compile(`module @sum attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 1 : i32}, %b: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
      -> (tensor<f32> {mhlo.sharding = "{replicated}"}, tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c = stablehlo.add %a, %b : tensor<4xf32>
    %s = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %s, %c : tensor<f32>, tensor<4xf32>
  }
}`, CompileOptions{NumPartitions: 2, UseSPMD: true, DeviceAssignment: []int{0, 1}})
	k := f.prepare(x, 2)
	outs, events := make([]Buffer, 4), make([]Event, 2)
	left, right := f.array(0, []int64{2}, 1, 2), f.array(1, []int64{2}, 3, 4)
	long0, long1 := f.array(0, []int64{3}, 1, 2, 3), f.array(1, []int64{3}, 4, 5, 6)
	gone := f.array(1, []int64{2}, 3, 4)
	if err := f.Delete(gone); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []Buffer
		want string
	}{
		{"wrong sizes on all devices", []Buffer{long0, left, long1, right}, "12 bytes, the parameter has 8"},
		{"a wrong size on one device", []Buffer{left, left, right, long1}, "12 bytes, the parameter has 8"},
		{"a deleted argument", []Buffer{left, left, gone, right}, "is deleted or was donated"},
		{"an argument of another device", []Buffer{left, left, right, left}, "is on "},
		{"a donated argument passed twice", []Buffer{left, left, right, right}, "passed twice"},
	} {
		keep := []int32{0}
		if strings.HasPrefix(tc.name, "a donated") {
			keep = nil
		}
		var e *Error
		if err := k.Execute(tc.args, keep, outs, events); !asError(err, &e) || e.Code != InvalidArgument || !strings.Contains(e.Msg, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err := k.Execute([]Buffer{left, left, right, right}, []int32{0}, outs, events); err != nil {
			t.Fatalf("after %s: %v", tc.name, err)
		}
		for _, e := range events {
			if err := f.AwaitAndDestroy(e); err != nil {
				t.Error(err)
			}
		}
		f.expect(outs[2], 20)
		f.destroy(outs...)
	}
	f.destroy(left, right, long0, long1, gone)
}

// TestRealPartitioners runs one program, split over two devices, by the shardings of both of XLA's partitioners.
func TestRealPartitioners(t *testing.T) {
	f := realFixture(t, 2)
	for name, c := range map[string]struct {
		head, split, whole string
		opts               CompileOptions
	}{
		"GSPMD": {"", `mhlo.sharding = "{devices=[2]<=[2]}"`, `mhlo.sharding = "{replicated}"`, CompileOptions{}},
		"Shardy": {`sdy.mesh @mesh = <["x"=2]>`, `sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>`,
			`sdy.sharding = #sdy.sharding<@mesh, []>`, CompileOptions{UseShardy: true}},
	} {
		c.opts.NumPartitions, c.opts.UseSPMD, c.opts.DeviceAssignment = 2, true, []int{0, 1}
		x := f.compile(`module @sum attributes {mhlo.num_partitions = 2 : i32} {
  `+c.head+`
  func.func @main(%a: tensor<4xf32> {`+c.split+`}) -> (tensor<f32> {`+c.whole+`}, tensor<4xf32> {`+c.split+`}) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c = stablehlo.add %a, %a : tensor<4xf32>
    %s = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %s, %c : tensor<f32>, tensor<4xf32>
  }
}`, c.opts)
		left, right := f.array(0, []int64{2}, 1, 2), f.array(1, []int64{2}, 3, 4)
		outs, events := make([]Buffer, 4), make([]Event, 2)
		if err := f.prepare(x, 1).Execute([]Buffer{left, right}, nil, outs, events); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, e := range events {
			if err := f.AwaitAndDestroy(e); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i, want := range [][]float32{{20}, {2, 4}, {20}, {6, 8}} {
			f.expect(outs[i], want...)
		}
		f.destroy(append(outs, left, right)...)
	}
}
