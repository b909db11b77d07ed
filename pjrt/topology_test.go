package pjrt

import (
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// TestPluginWithoutTopologies names the function that a plugin lacks.
func TestPluginWithoutTopologies(t *testing.T) {
	f := newFixture(t, nil)
	_, err := f.Plugin().NewTopology("v5e:2x4", nil)
	wantCode(t, err, Unimplemented, "TopologyDescription_Create", "does not have this function")
	_, err = f.Plugin().ReadTopology([]byte("bytes"))
	wantCode(t, err, Unimplemented, "TopologyDescription_Deserialize", "does not have this function")
	_, err = f.Plugin().ReadTopology(nil)
	wantCode(t, err, InvalidArgument, "TopologyDescription_Deserialize", "is empty")
	_, err = f.Topology().Compile([]byte("module"), "mlir", CompileOptions{})
	wantCode(t, err, Unimplemented, "Compile", "does not have this function")
	_, err = f.Plugin().NewTopology("", map[string]any{"x": uint8(1)})
	wantCode(t, err, InvalidArgument, "TopologyDescription_Create", `option "x" has type uint8`)
	if now := nullplugin.Open(t, f.Plugin().Path()).Live(); now.Violations != f.before.Violations {
		t.Errorf("violations %+v, before %+v", now, f.before)
	}
}

// sum adds up an array that lies on two devices.
const sum = `module @sum attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 0 : i32})
      -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}, tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %c = stablehlo.add %a, %a : tensor<4xf32>
    return %c, %s : tensor<4xf32>, tensor<f32>
  }
}`

// absentTopology is one of the CPU plugin, for which there is no client.
func absentTopology(t *testing.T, devices int) *Topology {
	t.Helper()
	top, err := realPlugin(t).NewTopology("", map[string]any{"cpu_device_count": int64(devices)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := top.Close(); err != nil {
			t.Error(err)
		}
	})
	return top
}

func TestTopologyWithoutClient(t *testing.T) {
	top := absentTopology(t, 4)
	if name, err := top.PlatformName(); err != nil || name != "cpu" {
		t.Errorf("platform %q, %v", name, err)
	}
	bytes, err := top.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	again, err := realPlugin(t).ReadTopology(bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []*Topology{top, again} {
		all, err := each.Devices()
		if err != nil || len(all) != 4 {
			t.Fatalf("devices %+v, %v", all, err)
		}
		for i, d := range all {
			if d.ID != i || d.Kind == "" || d.Text == "" {
				t.Errorf("device %d: %+v", i, d)
			}
		}
	}
	for range 2 {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = again.Devices()
	wantCode(t, err, FailedPrecondition, "TopologyDescription_GetDeviceDescriptions", "the topology is closed")
	_, err = again.Compile([]byte(sum), "mlir", CompileOptions{})
	wantCode(t, err, FailedPrecondition, "Compile", "the topology is closed")
}

// TestCompileForTopology compiles where no client is, and runs the result on one.
func TestCompileForTopology(t *testing.T) {
	top := absentTopology(t, 2)
	x, err := top.Compile([]byte(sum), "mlir", CompileOptions{NumPartitions: 2, UseSPMD: true, DeviceAssignment: []int{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := top.Close(); err != nil { // the program goes on without it
		t.Fatal(err)
	}
	memory, err := x.MemoryStats()
	if err != nil || memory.Alias != 8 || memory.Argument != 8 {
		t.Errorf("memory %+v, %v", memory, err)
	}
	dims, err := x.OutputDims()
	if n := x.NumOutputs(); err != nil || n != 2 || !slices.Equal(dims[0], []int64{2}) {
		t.Errorf("%d outputs, %v, %v", n, dims, err)
	}
	if code, format, err := x.OptimizedProgram(); err != nil || len(code) == 0 {
		t.Errorf("program of %d bytes as %q, %v", len(code), format, err)
	}
	saved, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = x.Serialize()
	wantCode(t, err, FailedPrecondition, "Executable_Serialize", "is closed")

	f := realFixture(t, 2)
	loaded, err := f.DeserializeAndLoad(saved, nil)
	if err != nil {
		t.Fatal(err)
	}
	left, right := f.array(0, []int64{2}, 1, 2), f.array(1, []int64{2}, 3, 4)
	outs := make([]Buffer, 4)
	if err := f.prepare(loaded, 1).Execute([]Buffer{left, right}, nil, outs, nil); err != nil {
		t.Fatal(err)
	}
	f.expect(outs[0], 2, 4)
	f.expect(outs[1], 10)
	f.expect(outs[2], 6, 8)
	f.destroy(append(outs, left, right)...)
	if err := loaded.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefusedForTopology(t *testing.T) {
	top := absentTopology(t, 1)
	for _, tc := range []struct {
		module string
		opts   CompileOptions
		code   Code
		words  string
	}{
		{"", CompileOptions{}, InvalidArgument, "the module is empty"},
		{sum, CompileOptions{NumReplicas: -1}, InvalidArgument, "-1 replicas"},
	} {
		_, err := top.Compile([]byte(tc.module), "mlir", tc.opts)
		wantCode(t, err, tc.code, "Compile", tc.words)
	}
	var e *Error
	if _, err := top.Compile([]byte("rubbish"), "mlir", CompileOptions{}); !asError(err, &e) || e.Func != "PJRT_Compile" {
		t.Errorf("compiling rubbish: %v", err)
	}
	if _, err := realPlugin(t).NewTopology("", map[string]any{"cpu_device_count": int64(-1)}); !asError(err, &e) ||
		e.Func != "PJRT_TopologyDescription_Create" {
		t.Errorf("-1 devices: %v", err)
	}
	if _, err := realPlugin(t).ReadTopology([]byte("rubbish")); !asError(err, &e) {
		t.Errorf("reading rubbish: %v", err)
	}
}
