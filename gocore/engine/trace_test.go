package engine

import (
	"math"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// open starts an engine on the null plugin.
func open(t testing.TB) *Engine {
	t.Helper()
	e := New()
	if err := e.Open(Settings{Library: nullplugin.Build(t)}); err != nil {
		t.Fatal(err)
	}
	return e
}

// syncAll computes what is recorded.
func syncAll(e *Engine) error {
	_, err := e.Step(0, false, false)
	return err
}

// tensor is a test's tensor on an engine.
type tensor struct {
	handle alias.Handle
	dims   []int64
}

func (x tensor) words(offset int64, size, stride []int64) []int64 {
	w := []int64{int64(wire.KTensor) | int64(len(size))<<8 | int64(dtype.F32.TorchCode())<<16, int64(x.handle), offset}
	w = append(w, size...)
	return append(w, stride...)
}

func (x tensor) whole() []int64 {
	return x.words(0, x.dims, shape.Contiguous(nil, x.dims))
}

func upload(t testing.TB, e *Engine, data []float32, dims ...int64) tensor {
	t.Helper()
	h, err := e.Alloc(int64(4*len(data)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Upload(h, unsafe.Pointer(&data[0]), dtype.F32, dims); err != nil {
		t.Fatal(err)
	}
	return tensor{h, dims}
}

// call is the record of a row with its arguments and the disposition of its one result.
func call(name string, disp []int64, args ...[]int64) []int64 {
	op, ok := ops.Lookup(name)
	if !ok {
		panic("no row " + name)
	}
	w := []int64{int64(op - ir.FirstRow), int64(len(args)), 1, -1, 0, 0}
	for _, a := range args {
		w = append(w, a...)
	}
	return append(w, disp...)
}

func float(x float64) []int64 { return []int64{int64(wire.KFloat), int64(math.Float64bits(x))} }
func integer(x int64) []int64 { return []int64{int64(wire.KInt), x} }

func TestTraceAllocatesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		record func(x tensor) []int64
	}{
		{"new tensor", func(x tensor) []int64 {
			return call("add.Tensor", []int64{int64(wire.New)}, x.whole(), float(1.5), integer(1))
		}},
		{"in place", func(x tensor) []int64 {
			return call("add.Tensor", append([]int64{int64(wire.Write)}, x.whole()...), x.whole(), float(1), integer(1))
		}},
		{"in place on a view", func(x tensor) []int64 {
			row := x.words(2, []int64{2}, []int64{1})
			return call("add.Tensor", append([]int64{int64(wire.Write)}, row...), row, float(1), integer(1))
		}},
		{"transposed", func(x tensor) []int64 {
			return call("mul.Tensor", []int64{int64(wire.New)}, x.words(0, []int64{2, 2}, []int64{1, 2}), x.whole())
		}},
	} {
		e := open(t)
		w := tc.record(upload(t, e, []float32{1, 2, 3, 4}, 2, 2))
		out := make([]int64, 64)
		run := func() {
			st, err := e.Trace(w, out)
			if st != wire.Done {
				t.Fatal(st, err)
			}
			if out[1] != 0 {
				e.Release([]uint64{uint64(out[1])})
			}
		}
		for range 5000 { // arenas and tables reach their size
			run()
		}
		if n := testing.AllocsPerRun(1000, run); n >= 1 {
			t.Errorf("%s: %v allocations an op", tc.name, n)
		}
	}
}

func TestAGraphThatNobodyNeedsIsDropped(t *testing.T) {
	e := open(t)
	x := upload(t, e, []float32{1, 2, 3, 4}, 2, 2)
	w := call("add.Tensor", []int64{int64(wire.New)}, x.whole(), float(1.5), integer(1))
	out, kept := make([]int64, 64), make([]int64, 64)
	if st, err := e.Trace(w, kept); st != wire.Done {
		t.Fatal(err)
	}
	longest := 0
	for i := range 10 * idleGraph {
		if st, err := e.Trace(w, out); st != wire.Done {
			t.Fatal(err)
		}
		e.Release([]uint64{uint64(out[1])})
		longest = max(longest, e.store.Trace(0).Graph.Len())
		if i == 5*idleGraph {
			var got [4]float32
			if err := e.Fetch(alias.Handle(kept[1]), unsafe.Pointer(&got), 16); err != nil || got[3] != 5.5 {
				t.Errorf("a value that is needed is %v, error %v", got, err)
			}
			if longest > idleGraph+16 {
				t.Errorf("beside a value that is needed, the graph grew to %d nodes of dead values", longest)
			}
			longest = 0
		}
	}
	if longest > idleGraph+16 {
		t.Errorf("the graph grew to %d nodes of dead values", longest)
	}
}

// A storage that dies alone is not reported at once; what was written to it may be long.
func TestChainsOfWritesAreDroppedWithTheirStorages(t *testing.T) {
	e := open(t)
	var dead []uint64
	e.TakeDead = func(dst []uint64) int {
		n := copy(dst, dead)
		dead = dead[n:]
		return n
	}
	x := upload(t, e, []float32{1, 2, 3, 4}, 2, 2)
	out := make([]int64, 64)
	longest := 0
	for range 40 {
		if st, err := e.Trace(call("add.Tensor", []int64{int64(wire.New)}, x.whole(), float(1.5), integer(1)), out); st != wire.Done {
			t.Fatal(err)
		}
		y := tensor{alias.Handle(out[1]), x.dims}
		w := call("add.Tensor", append([]int64{int64(wire.Write)}, y.whole()...), y.whole(), float(1), integer(1))
		for range 1000 {
			if st, err := e.Trace(w, out); st != wire.Done {
				t.Fatal(err)
			}
		}
		longest = max(longest, e.store.Trace(0).Graph.Len())
		dead = append(dead, uint64(y.handle))
	}
	if longest > 4*idleGraph {
		t.Errorf("the graph grew to %d nodes of dead values", longest)
	}
}

func BenchmarkTrace(b *testing.B) {
	e := open(b)
	x := upload(b, e, []float32{1, 2, 3, 4}, 2, 2)
	w := call("add.Tensor", []int64{int64(wire.New)}, x.whole(), float(1), integer(1))
	out := make([]int64, 64)
	b.ReportAllocs()
	for b.Loop() {
		if st, err := e.Trace(w, out); st != wire.Done {
			b.Fatal(st, err)
		}
		e.Release([]uint64{uint64(out[1])})
	}
}
