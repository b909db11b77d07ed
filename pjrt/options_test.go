package pjrt

import (
	wire "encoding/binary"
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
)

// decode renders a protocol buffer as text: numbers of fields with their values,
// nested messages in braces where the schema has them. It knows the wire format
// by its specification, not by the encoder.
func decode(t *testing.T, data []byte, schema string, path string) string {
	t.Helper()
	var parts []string
	for len(data) > 0 {
		tag, n := wire.Uvarint(data)
		if n <= 0 {
			t.Fatalf("%s: no tag in %x", path, data)
		}
		data = data[n:]
		here := fmt.Sprintf("%s.%d", path, tag>>3)
		switch tag & 7 {
		case 0:
			v, n := wire.Uvarint(data)
			if n <= 0 {
				t.Fatalf("%s: no varint in %x", here, data)
			}
			data = data[n:]
			parts = append(parts, fmt.Sprintf("%d:%d", tag>>3, int64(v)))
		case 1:
			parts = append(parts, fmt.Sprintf("%d:%g", tag>>3, math.Float64frombits(wire.LittleEndian.Uint64(data))))
			data = data[8:]
		case 2:
			size, n := wire.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				t.Fatalf("%s: %d bytes of %d", here, size, len(data)-n)
			}
			value := data[n : n+int(size)]
			data = data[n+int(size):]
			parts = append(parts, fmt.Sprintf("%d:%s", tag>>3, decodeBytes(t, value, schema, here)))
		default:
			t.Fatalf("%s: wire type %d", here, tag&7)
		}
	}
	return strings.Join(parts, " ")
}

// decodeBytes renders a field of bytes by what the schema says of its path:
// m a message, p packed varints, else a string.
func decodeBytes(t *testing.T, value []byte, schema, path string) string {
	t.Helper()
	switch {
	case strings.Contains(schema, " m"+path+" "):
		return "{" + decode(t, value, schema, path) + "}"
	case strings.Contains(schema, " p"+path+" "):
		var list []int64
		for len(value) > 0 {
			v, n := wire.Uvarint(value)
			if n <= 0 {
				t.Fatalf("%s: no varint in %x", path, value)
			}
			list = append(list, int64(v))
			value = value[n:]
		}
		return fmt.Sprint(list)
	}
	return fmt.Sprintf("%q", value)
}

// compileOptionsSchema says which fields of CompileOptionsProto are messages
// and which are packed, from XLA's compile_options.proto and xla_data.proto.
const compileOptionsSchema = " m.3 m.3.9 m.3.9.3 p.3.9.3.1 p.3.12 m.7 m.7.2 "

func TestCompileOptionsWire(t *testing.T) {
	for _, c := range []struct {
		opts CompileOptions
		want string
	}{
		{CompileOptions{}, "3:{1:-1 4:1 5:1}"},
		{CompileOptions{NumReplicas: 2, NumPartitions: 3, UseSPMD: true, UseShardy: true},
			"3:{1:-1 4:2 5:3 6:1 19:1}"},
		{CompileOptions{NumPartitions: 2, UseSPMD: true, PropagateToOutputs: []bool{true, false, true}},
			"3:{1:-1 4:1 5:2 6:1 12:[1 0 1]}"},
		{CompileOptions{Portable: true}, "3:{1:-1 4:1 5:1} 4:1"},
		// Devices go [replica][partition] in, and each partition's replicas out.
		{CompileOptions{NumReplicas: 2, NumPartitions: 3, DeviceAssignment: []int{0, 1, 2, 300, 4, 5}},
			"3:{1:-1 4:2 5:3 9:{1:2 2:3 3:{1:[0 300]} 3:{1:[1 4]} 3:{1:[2 5]}}}"},
		{CompileOptions{EnvOptionOverrides: map[string]any{
			"xla_s": "text", "xla_b": false, "xla_t": true, "xla_i": int64(-5), "xla_n": 1 << 40, "xla_d": 0.25,
		}}, `3:{1:-1 4:1 5:1} 7:{1:"xla_b" 2:{2:0}} 7:{1:"xla_d" 2:{4:0.25}} 7:{1:"xla_i" 2:{3:-5}} ` +
			`7:{1:"xla_n" 2:{3:1099511627776}} 7:{1:"xla_s" 2:{1:"text"}} 7:{1:"xla_t" 2:{2:1}}`},
	} {
		data, err := c.opts.marshal(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := decode(t, data, compileOptionsSchema, ""); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.opts, got, c.want)
		}
	}
}

// TestRealCompileOptions has XLA's own parser read the options and write what
// it understood.
func TestRealCompileOptions(t *testing.T) {
	client, err := realPlugin(t).NewClient(map[string]any{"cpu_device_count": int64(4)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	opts := CompileOptions{
		NumReplicas: 2, NumPartitions: 2, UseSPMD: true, UseShardy: true,
		DeviceAssignment:   []int{3, 2, 1, 0},
		PropagateToOutputs: []bool{true},
		EnvOptionOverrides: map[string]any{"xla_cpu_enable_fast_math": true, "xla_backend_optimization_level": 1},
	}
	x, err := client.Compile([]byte(binary("add", "tensor<2xf32>")), "mlir", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	data, err := x.CompileOptions()
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, data, compileOptionsSchema, "")
	for _, want := range []string{
		" 4:2", " 5:2", " 6:1", " 19:1", " 12:[1]", "9:{1:2 2:2 3:{1:[3 1]} 3:{1:[2 0]}}",
		`7:{1:"xla_cpu_enable_fast_math" 2:{2:1}}`, `7:{1:"xla_backend_optimization_level" 2:{3:1}}`,
	} {
		if !strings.Contains(" "+got, want) {
			t.Errorf("XLA understood %s, which lacks %q", got, want)
		}
	}
	ids := []int{}
	for _, d := range x.AddressableDevices() {
		ids = append(ids, d.ID())
	}
	sort.Ints(ids)
	if fmt.Sprint(ids) != "[0 1 2 3]" {
		t.Errorf("on devices %v", ids)
	}
	assignment, err := x.DeviceAssignment()
	if err != nil {
		t.Fatal(err)
	}
	if got := decode(t, assignment, " m.3 p.3.1 ", ""); got != "1:2 2:2 3:{1:[3 1]} 3:{1:[2 0]}" {
		t.Errorf("assigned %s", got)
	}
}
