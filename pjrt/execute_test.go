package pjrt

import (
	"slices"
	"sync"
	"testing"
)

func TestExecutableFacts(t *testing.T) {
	f := newFixture(t, nil)
	module := function("tensor<2xf32>, tensor<2xf32>", "tensor<2xf32>, tensor<1x2xf32>",
		`    %0 = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = "stablehlo.reshape"(%0) : (tensor<2xf32>) -> tensor<1x2xf32>
    "func.return"(%0, %1) : (tensor<2xf32>, tensor<1x2xf32>) -> ()`,
		"arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], ")
	x := f.compile(module, CompileOptions{})
	if x.NumOutputs() != 2 || len(x.AddressableDevices()) != 1 || x.Client() != f.Client {
		t.Errorf("%d outputs on %v", x.NumOutputs(), x.AddressableDevices())
	}
	if s := x.String(); s != "executable of 2 outputs on devices [0]" {
		t.Error(s)
	}
	if name, err := x.Name(); err != nil || name != "test" {
		t.Errorf("name %q, %v", name, err)
	}
	for what, ask := range map[string]func() (int, error){"replicas": x.NumReplicas, "partitions": x.NumPartitions} {
		if n, err := ask(); err != nil || n != 1 {
			t.Errorf("%d %s, %v", n, what, err)
		}
	}
	if n, err := x.CodeSize(); err != nil || n <= 0 {
		t.Errorf("code size %d, %v", n, err)
	}
	if types, err := x.OutputTypes(); err != nil || !slices.Equal(types, []Type{F32, F32}) {
		t.Errorf("types %v, %v", types, err)
	}
	dims, err := x.OutputDims()
	if err != nil || len(dims) != 2 || !slices.Equal(dims[0], []int64{2}) || !slices.Equal(dims[1], []int64{1, 2}) {
		t.Errorf("dims %v, %v", dims, err)
	}
	if kinds, err := x.OutputMemoryKinds(); err != nil || !slices.Equal(kinds, []string{"device", "device"}) {
		t.Errorf("kinds %v, %v", kinds, err)
	}
	if code, format, err := x.OptimizedProgram(); err != nil || format != "mlir" || string(code) != module {
		t.Errorf("program of format %q, %v: %s", format, err, code)
	}
	if cost, err := x.CostAnalysis(); err != nil || cost["flops"] != float32(2) || cost["bytes accessed"] != float32(32) {
		t.Errorf("cost %v, %v", cost, err)
	}
	if m, err := x.MemoryStats(); err != nil || m.Argument != 16 || m.Output != 16 || m.Alias != 8 || m.Peak == 0 {
		t.Errorf("memory %+v, %v", m, err)
	}
}

func TestFingerprintAndOptions(t *testing.T) {
	f := newFixture(t, nil)
	prints := make(map[string]bool)
	for _, c := range []struct {
		op   string
		opts CompileOptions
	}{
		{"add", CompileOptions{}}, {"add", CompileOptions{}}, {"multiply", CompileOptions{}},
		{"add", CompileOptions{EnvOptionOverrides: map[string]any{"xla_x": true}}},
	} {
		x := f.compile(binary(c.op, "tensor<f32>"), c.opts)
		s, err := x.Fingerprint()
		if err != nil || s == "" {
			t.Errorf("fingerprint %q, %v", s, err)
		}
		prints[s] = true
		want, err := c.opts.marshal(0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.CompileOptions(); err != nil || !slices.Equal(got, want) {
			t.Errorf("options %x, want %x, %v", got, want, err)
		}
	}
	if len(prints) != 3 {
		t.Errorf("the fingerprints are %v", prints)
	}
}

func TestCompileRefusals(t *testing.T) {
	f := newFixture(t, nil)
	good := binary("add", "tensor<2xf32>")
	for _, c := range []struct {
		module, format string
		opts           CompileOptions
		code           Code
		words          string
	}{
		{"", "mlir", CompileOptions{}, InvalidArgument, "empty"},
		{good, "", CompileOptions{}, InvalidArgument, "format"},
		{good, "hlo", CompileOptions{}, Unimplemented, "hlo"},
		{"rubbish", "mlir", CompileOptions{}, InvalidArgument, "line 1"},
		{binary("frobnicate", "tensor<2xf32>"), "mlir", CompileOptions{}, Unimplemented, "stablehlo.frobnicate"},
		{good[:len(good)/2], "mlir", CompileOptions{}, InvalidArgument, "expected"},
		{good, "mlir", CompileOptions{NumReplicas: 2}, InvalidArgument, "no device 1"},
		{good, "mlir", CompileOptions{NumReplicas: -1}, InvalidArgument, "-1 replicas"},
		{good, "mlir", CompileOptions{NumReplicas: 2, DeviceAssignment: []int{0}}, InvalidArgument, "1 assigned"},
		{good, "mlir", CompileOptions{NumReplicas: 2, Portable: true}, InvalidArgument, "portable"},
		{good, "mlir", CompileOptions{EnvOptionOverrides: map[string]any{"x": uint8(1)}}, InvalidArgument, `override "x"`},
	} {
		_, err := f.Compile([]byte(c.module), c.format, c.opts)
		wantCode(t, err, c.code, "Client_Compile", c.words)
	}
}

func TestSerialize(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2)})
	x := f.compile(binary("multiply", "tensor<2xf32>"), CompileOptions{DeviceAssignment: []int{1}})
	saved, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for device, opts := range map[int]*CompileOptions{1: nil, 0: {DeviceAssignment: []int{0}}} {
		again, err := f.DeserializeAndLoad(saved, opts)
		if err != nil {
			t.Fatal(err)
		}
		if d := again.AddressableDevices(); len(d) != 1 || d[0].ID() != device {
			t.Errorf("on devices %v, want %d", d, device)
		}
		a, outs := f.array(device, []int64{2}, 3, 4), make([]Buffer, 1)
		k, err := again.Prepare(2)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Execute([]Buffer{a, a}, nil, outs, nil); err != nil {
			t.Fatal(err)
		}
		f.expect(outs[0], 9, 16)
		f.destroy(a, outs[0])
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	damaged := slices.Clone(saved)
	damaged[len(damaged)-1] ^= 1
	for words, bytes := range map[string][]byte{
		"empty": nil, "not a serialized": []byte("foreign"), "is damaged": damaged, "damaged": saved[:len(saved)-1],
	} {
		_, err := f.DeserializeAndLoad(bytes, nil)
		code := InvalidArgument
		if words == "damaged" || words == "is damaged" {
			code = DataLoss
		}
		wantCode(t, err, code, "Executable_DeserializeAndLoad", words)
	}
	_, err = f.DeserializeAndLoad(saved, &CompileOptions{NumPartitions: -1})
	wantCode(t, err, InvalidArgument, "Executable_DeserializeAndLoad", "partitions")
}

// TestSeveralDevices runs one program on two devices and checks the order of
// arguments, outputs and events.
func TestSeveralDevices(t *testing.T) {
	for _, opts := range []CompileOptions{
		{NumReplicas: 2, DeviceAssignment: []int{2, 1}},
		{NumPartitions: 2, UseSPMD: true, UseShardy: true, DeviceAssignment: []int{2, 1}},
	} {
		f := newFixture(t, map[string]any{"devices": int64(3)})
		x := f.compile(binary("add", "tensor<2xf32>"), opts)
		ids := []int{}
		for _, d := range x.AddressableDevices() {
			ids = append(ids, d.ID())
		}
		if !slices.Equal(ids, []int{2, 1}) {
			t.Fatalf("on devices %v", ids)
		}
		args := []Buffer{
			f.array(2, []int64{2}, 1, 2), f.array(2, []int64{2}, 10, 20),
			f.array(1, []int64{2}, 5, 6), f.array(1, []int64{2}, 50, 60),
		}
		outs, events := make([]Buffer, 2), make([]Event, 2)
		k := f.prepare(x, 2)
		if err := k.Execute(args, nil, outs, events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := f.AwaitAndDestroy(e); err != nil {
				t.Error(err)
			}
		}
		f.expect(outs[0], 11, 22)
		f.expect(outs[1], 55, 66)
		f.destroy(outs...)
		args[0], args[2] = args[2], args[0]
		wantCode(t, k.Execute(args, nil, outs, events), InvalidArgument, "LoadedExecutable_Execute", "argument 0 is on device 1")
		f.destroy(args...)
	}
}

func TestDonation(t *testing.T) {
	f := newFixture(t, nil)
	in := []Buffer{f.array(0, []int64{2}, 1, 2), f.array(0, []int64{2}, 3, 4)}
	k := f.prepare(f.compile(passThrough(2, "tensor<2xf32>", true), CompileOptions{}), 2)
	before := make([]uintptr, 2)
	for i := range before {
		before[i], _ = f.UnsafePointer(in[i])
	}
	outs := make([]Buffer, 2)
	if err := k.Execute(in, []int32{1}, outs, nil); err != nil {
		t.Fatal(err)
	}
	for i, wantGone := range []bool{true, false} {
		if gone, err := f.IsDeleted(in[i]); err != nil || gone != wantGone {
			t.Errorf("argument %d deleted: %v, %v", i, gone, err)
		}
		if at, err := f.UnsafePointer(outs[i]); err != nil || (at == before[i]) != wantGone {
			t.Errorf("output %d at %x, its argument was at %x, %v", i, at, before[i], err)
		}
	}
	f.expect(outs[0], 1, 2)
	f.expect(outs[1], 3, 4)
	f.expect(in[1], 3, 4)
	next := make([]Buffer, 2)
	wantCode(t, k.Execute(in, nil, next, nil), InvalidArgument, "LoadedExecutable_Execute", "argument 0 has been deleted or donated")
	wantCode(t, k.Execute([]Buffer{in[1], in[1]}, nil, next, nil), InvalidArgument, "LoadedExecutable_Execute", "donated twice")
	wantCode(t, k.Execute([]Buffer{in[1], in[1]}, []int32{0}, next, nil), InvalidArgument, "LoadedExecutable_Execute", "as another argument")
	if gone, err := f.IsDeleted(in[1]); gone || err != nil {
		t.Errorf("a refused execution took its argument: %v, %v", gone, err)
	}
	f.destroy(append(in, outs...)...)
}

// TestSwap has outputs that lie on each other's arguments.
func TestSwap(t *testing.T) {
	f := newFixture(t, nil)
	args := []Buffer{f.array(0, []int64{2}, 1, 2), f.array(0, []int64{2}, 3, 4)}
	outs := f.run(function("tensor<2xf32>, tensor<2xf32>", "tensor<2xf32>, tensor<2xf32>",
		`    "func.return"(%a1, %a0) : (tensor<2xf32>, tensor<2xf32>) -> ()`,
		"arg_attrs = [{tf.aliasing_output = 0 : i32}, {tf.aliasing_output = 1 : i32}], "), args...)
	f.expect(outs[0], 3, 4)
	f.expect(outs[1], 1, 2)
	f.destroy(append(args, outs...)...)
}

func TestBufferDonor(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{2}, 1, 2)
	outs := f.run(function("tensor<2xf32>", "tensor<2xf32>", `    "func.return"(%a0) : (tensor<2xf32>) -> ()`,
		"arg_attrs = [{jax.buffer_donor = true}], "), b)
	if gone, err := f.IsDeleted(b); !gone || err != nil {
		t.Errorf("deleted: %v, %v", gone, err)
	}
	f.expect(outs[0], 1, 2)
	f.destroy(b, outs[0])
}

func TestExecuteRefusals(t *testing.T) {
	f := newFixture(t, nil)
	b, wide := f.array(0, []int64{2}, 1, 2), f.array(0, []int64{3}, 1, 2, 3)
	defer f.destroy(b, wide)
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	k := f.prepare(x, 2)
	two, outs := []Buffer{b, b}, make([]Buffer, 1)
	for _, c := range []struct {
		words  string
		args   []Buffer
		keep   []int32
		outs   []Buffer
		events []Event
	}{
		{"1 arguments for 1 devices that take 2", two[:1], nil, outs, nil},
		{"room for 0 outputs", two, nil, nil, nil},
		{"room for 2 events", two, nil, outs, make([]Event, 2)},
		{"3 arguments not to donate", two, []int32{0, 1, 1}, outs, nil},
		{"argument 2 not to donate", two, []int32{2}, outs, nil},
		{"argument -1 not to donate", two, []int32{-1}, outs, nil},
		{"argument 1 is zero", []Buffer{b, 0}, nil, outs, nil},
		{"argument 1 does not have", []Buffer{b, wide}, nil, outs, nil},
	} {
		wantCode(t, k.Execute(c.args, c.keep, c.outs, c.events), InvalidArgument, "LoadedExecutable_Execute", c.words)
	}
	three := f.prepare(x, 3)
	wantCode(t, three.Execute([]Buffer{b, b, b}, nil, outs, nil), InvalidArgument, "LoadedExecutable_Execute", "2 on 1 are needed")
	_, err := x.Prepare(-1)
	wantCode(t, err, InvalidArgument, "LoadedExecutable_Execute", "-1 arguments")
	if err := x.Delete(); err != nil {
		t.Fatal(err)
	}
	if gone, err := x.IsDeleted(); !gone || err != nil {
		t.Errorf("deleted: %v, %v", gone, err)
	}
	wantCode(t, k.Execute(two, nil, outs, nil), FailedPrecondition, "LoadedExecutable_Execute", "deleted")
}

func TestCallOptions(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{2}, 1, 2)
	k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
	before := MemoryCounters()[0].Bytes
	for _, place := range []string{"train.py:12", "other.py:1", ""} {
		if err := k.SetLocation(place); err != nil {
			t.Fatal(err)
		}
		if err := k.SetLaunchID(7); err != nil {
			t.Fatal(err)
		}
		outs := make([]Buffer, 1)
		if err := k.Execute([]Buffer{b, b}, nil, outs, nil); err != nil {
			t.Fatal(err)
		}
		f.destroy(outs...)
	}
	if after := MemoryCounters()[0].Bytes; after != before {
		t.Errorf("%d bytes for calls before, %d after", before, after)
	}
	f.destroy(b)
}

// TestConcurrentCalls runs several Calls of one executable at once.
func TestConcurrentCalls(t *testing.T) {
	f := newFixture(t, map[string]any{"delay_us": int64(1)})
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	var wait sync.WaitGroup
	for n := range 4 {
		k, a := f.prepare(x, 2), f.array(0, []int64{2}, float32(n), 1)
		wait.Add(1)
		go func() {
			defer wait.Done()
			outs, events := make([]Buffer, 1), make([]Event, 1)
			for range 20 {
				if err := k.Execute([]Buffer{a, a}, nil, outs, events); err != nil {
					t.Error(err)
					return
				}
				if err := f.AwaitAndDestroy(events[0]); err != nil {
					t.Error(err)
				}
				f.destroy(outs...)
			}
			f.destroy(a)
		}()
	}
	wait.Wait()
}

func TestOneCallServesOneExecution(t *testing.T) {
	f := newFixture(t, nil)
	b := f.array(0, []int64{2}, 1, 2)
	defer f.destroy(b)
	k := f.prepare(f.compile(binary("add", "tensor<2xf32>"), CompileOptions{}), 2)
	if err := k.begin(); err != nil {
		t.Fatal(err)
	}
	outs := make([]Buffer, 1)
	wantCode(t, k.Execute([]Buffer{b, b}, nil, outs, nil), FailedPrecondition, "LoadedExecutable_Execute", "is executing")
	wantCode(t, k.Close(), FailedPrecondition, "LoadedExecutable_Execute", "is executing")
	k.state.Store(callIdle)
	if err := k.Execute([]Buffer{b, b}, nil, outs, nil); err != nil {
		t.Error(err)
	}
	f.destroy(outs...)
}

// TestPortable runs an executable without a device of its own on each device.
func TestPortable(t *testing.T) {
	f := newFixture(t, map[string]any{"devices": int64(2)})
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{Portable: true})
	_, err := x.Prepare(2)
	wantCode(t, err, InvalidArgument, "LoadedExecutable_Execute", "PrepareOn")
	_, err = x.PrepareOn(nil, 2)
	wantCode(t, err, InvalidArgument, "LoadedExecutable_Execute", "none of this client")
	for i, device := range f.AddressableDevices() {
		k, err := x.PrepareOn(device, 2)
		if err != nil {
			t.Fatal(err)
		}
		a, outs, events := f.array(i, []int64{2}, 1, 2), make([]Buffer, 1), make([]Event, 1)
		if err := k.Execute([]Buffer{a, a}, nil, outs, events); err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitAndDestroy(events[0]); err != nil {
			t.Error(err)
		}
		f.expect(outs[0], 2, 4)
		if on, err := f.DeviceOf(outs[0]); err != nil || on != device {
			t.Errorf("the output is on %v, %v", on, err)
		}
		f.destroy(a, outs[0])
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}
