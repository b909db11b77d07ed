package pjrt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// fixture is the null plugin, a client on it, and what existed before.
type fixture struct {
	*Client
	t       testing.TB
	control *nullplugin.Control
	before  nullplugin.Live
}

// newFixture opens a client and checks at the end of the test that everything is
// gone and nothing was misused.
func newFixture(t testing.TB, opts map[string]any) *fixture {
	t.Helper()
	return fixtureAt(t, nullplugin.Build(t), opts)
}

func fixtureAt(t testing.TB, path string, opts map[string]any) *fixture {
	t.Helper()
	plugin, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, control: nullplugin.Open(t, path)}
	f.before = f.control.Live()
	if f.Client, err = plugin.NewClient(opts, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.finish)
	return f
}

func (f *fixture) finish() {
	f.control.Disarm()
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	if live := f.Live(); live != (LiveObjects{}) {
		f.t.Errorf("the client still counts %+v", live)
	}
	// A worker thread releases its client a moment later; that of an earlier test may have done so
	// meanwhile.
	if after, ok := eventually(func() (nullplugin.Live, bool) {
		now := f.control.Live()
		return now, !now.Exceeds(f.before)
	}); !ok {
		f.t.Errorf("the plugin had %+v before the test and %+v after", f.before, after)
	}
}

// array puts float32 data on a device.
func (f *fixture) array(device int, dims []int64, data ...float32) Buffer {
	f.t.Helper()
	b, e, err := f.FromHost(unsafe.Pointer(unsafe.SliceData(data)), F32, dims, nil,
		f.AddressableDevices()[device], OnlyDuringCall)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.AwaitAndDestroy(e); err != nil {
		f.t.Fatal(err)
	}
	return b
}

// read gets float32 data from a device.
func (f *fixture) read(b Buffer, n int) []float32 {
	f.t.Helper()
	out, err := f.tryRead(b, n)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) tryRead(b Buffer, n int) ([]float32, error) {
	out := pinned[float32](f.t, n)
	e, err := f.ToHost(b, unsafe.Pointer(unsafe.SliceData(out)), 4*n)
	if err != nil {
		return nil, err
	}
	return out, f.AwaitAndDestroy(e)
}

func (f *fixture) compile(module string, opts CompileOptions) *Executable {
	f.t.Helper()
	x, err := f.Compile([]byte(module), "mlir", opts)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := x.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return x
}

func (f *fixture) prepare(x *Executable, numArgs int) *Call {
	f.t.Helper()
	k, err := x.Prepare(numArgs)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := k.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return k
}

// run compiles a module, runs it on one device and returns the outputs.
func (f *fixture) run(module string, args ...Buffer) []Buffer {
	f.t.Helper()
	x := f.compile(module, CompileOptions{})
	outs := make([]Buffer, x.NumOutputs())
	if err := f.prepare(x, len(args)).Execute(args, nil, outs, nil); err != nil {
		f.t.Fatal(err)
	}
	return outs
}

func (f *fixture) destroy(buffers ...Buffer) {
	f.t.Helper()
	if err := f.Destroy(buffers...); err != nil {
		f.t.Error(err)
	}
}

func (f *fixture) expect(b Buffer, want ...float32) {
	f.t.Helper()
	if got := f.read(b, len(want)); !slices.Equal(got, want) {
		f.t.Errorf("got %v, want %v", got, want)
	}
}

// wantCode checks that err is an *Error of this code and function whose message
// contains words.
func wantCode(t testing.TB, err error, code Code, fn, words string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want an error of PJRT_%s", err, fn)
		return
	}
	if e.Code != code || e.Func != "PJRT_"+fn || !strings.Contains(e.Msg, words) {
		t.Errorf("got %v, want %v of PJRT_%s with %q", err, code, fn, words)
	}
}

// function is a module in generic form with one function.
func function(args, results, body, attributes string) string {
	names := make([]string, 0, 8)
	for i, a := range splitTypes(args) {
		names = append(names, fmt.Sprintf("%%a%d: %s", i, a))
	}
	return fmt.Sprintf(`"builtin.module"() ({
  "func.func"() ({
  ^bb0(%s):
%s
  }) {%sfunction_type = (%s) -> (%s), sym_name = "main"} : () -> ()
}) {sym_name = "test"} : () -> ()
`, strings.Join(names, ", "), body, attributes, args, results)
}

func splitTypes(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// binary is a function of two arguments of one type.
func binary(op, typ string) string {
	return function(typ+", "+typ, typ, fmt.Sprintf(
		`    %%0 = "stablehlo.%s"(%%a0, %%a1) : (%s, %s) -> %s
    "func.return"(%%0) : (%s) -> ()`, op, typ, typ, typ, typ), "")
}

// passThrough hands n arrays through, each into its own memory if donate is set.
func passThrough(n int, typ string, donate bool) string {
	types := strings.TrimSuffix(strings.Repeat(typ+", ", n), ", ")
	names, attributes := make([]string, n), make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("%%a%d", i)
		attributes[i] = fmt.Sprintf("{tf.aliasing_output = %d : i32}", i)
	}
	donation := ""
	if donate {
		donation = "arg_attrs = [" + strings.Join(attributes, ", ") + "], "
	}
	return function(types, types,
		fmt.Sprintf(`    "func.return"(%s) : (%s) -> ()`, strings.Join(names, ", "), types), donation)
}

// asError finds the *Error in err.
func asError(err error, e **Error) bool { return errors.As(err, e) }
