package hlocheck

import (
	"os"
	"sync"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

var open = sync.OnceValues(func() (*pjrt.Client, error) {
	plugin, err := pjrt.Load(os.Getenv("TGX_XLA_CPU_PLUGIN"))
	if err != nil {
		return nil, err
	}
	return plugin.NewClient(map[string]any{"cpu_device_count": int64(2)}, nil)
})

// client is a CPU client with two devices, which lives as long as the test process. Every test that
// asks for it compiles tens or hundreds of programs.
func client(t *testing.T) *pjrt.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	if os.Getenv("TGX_XLA_CPU_PLUGIN") == "" {
		t.Skip("TGX_XLA_CPU_PLUGIN does not name a CPU plugin")
	}
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// argument is a parameter of a program, dense and row-major.
type argument struct {
	typ  pjrt.Type
	dims []int64
	data []byte
}

// run compiles a module, executes it once on one device and returns the bytes of its results, whose
// sizes the caller knows.
func run(t *testing.T, c *pjrt.Client, module []byte, args []argument, sizes []int) [][]byte {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, module)
		}
	}
	exe, err := c.Compile(module, "mlir", pjrt.CompileOptions{})
	check(err)
	defer exe.Close()
	in := make([]pjrt.Buffer, len(args))
	for i, a := range args {
		buf, ev, err := c.FromHost(unsafe.Pointer(unsafe.SliceData(a.data)), a.typ, a.dims, nil, exe.AddressableDevices()[0], pjrt.OnlyDuringCall)
		check(err)
		check(c.AwaitAndDestroy(ev))
		in[i] = buf
	}
	call, err := exe.Prepare(len(args))
	check(err)
	defer call.Close()
	outs := make([]pjrt.Buffer, len(sizes))
	check(call.Execute(in, nil, outs, nil))
	results := make([][]byte, len(sizes))
	for i, n := range sizes {
		results[i] = make([]byte, n)
		ev, err := c.ToHost(outs[i], unsafe.Pointer(unsafe.SliceData(results[i])), n)
		check(err)
		check(c.AwaitAndDestroy(ev))
	}
	check(c.Destroy(append(in, outs...)...))
	return results
}
