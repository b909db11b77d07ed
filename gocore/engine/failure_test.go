package engine

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// recorded records an op with one new result of the shape of x.
func recorded(t *testing.T, e *Engine, x tensor, name string, args ...[]int64) tensor {
	t.Helper()
	out := make([]int64, 64)
	if st, err := e.Trace(call(name, []int64{int64(wire.New)}, args...), out); st != wire.Done {
		t.Fatal(st, err)
	}
	return tensor{alias.Handle(out[1]), x.dims}
}

func fetch(e *Engine, x tensor) ([2]float32, error) {
	var out [2]float32
	err := e.Fetch(x.handle, unsafe.Pointer(&out), 8)
	return out, err
}

func wants(t *testing.T, e *Engine, what string, x tensor, want [2]float32) {
	t.Helper()
	if got, err := fetch(e, x); err != nil || got != want {
		t.Errorf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

func fails(t *testing.T, e *Engine, what string, x tensor, kind errs.Kind, text string) {
	t.Helper()
	if got, err := fetch(e, x); err == nil || errs.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v (%v), want an error with %q", what, got, err, text)
	}
}

// failing is a step with an op that cannot be lowered, or compiled: what depends on it and what does not.
func failing(t *testing.T, e *Engine, sync func(tensors ...tensor)) (good, bad []tensor) {
	t.Helper()
	x := upload(t, e, []float32{1, 2}, 2)
	plus := func(x tensor) tensor { return recorded(t, e, x, "add.Tensor", x.whole(), float(1), integer(1)) }
	before := plus(x)
	cos := recorded(t, e, x, "cos", before.whole())
	good = []tensor{before, plus(before), plus(x)}
	bad = []tensor{cos, plus(cos)}
	good = append(good, plus(good[1]))
	sync(append(good, bad...)...)
	return good, bad
}

func check(t *testing.T, e *Engine, good, bad []tensor, kind errs.Kind, text string) {
	t.Helper()
	for i, want := range [][2]float32{{2, 3}, {3, 4}, {2, 3}, {4, 5}} {
		wants(t, e, "what does not depend on it", good[i], want)
	}
	for _, x := range bad {
		fails(t, e, "what depends on it", x, kind, text)
	}
	next := recorded(t, e, good[0], "add.Tensor", good[0].whole(), float(1), integer(1))
	wants(t, e, "the next step", next, [2]float32{3, 4})
}

func TestAnOpThatCannotBeLoweredFailsWhatDependsOnIt(t *testing.T) {
	op, _ := ops.Lookup("cos")
	row := ops.Of(op)
	lower := row.Lower
	row.Lower = func(*ops.Lowering) { panic("no cosine today") }
	defer func() { row.Lower = lower }()
	for name, sync := range map[string]func(*Engine, []tensor) error{
		"sync":         func(e *Engine, _ []tensor) error { return syncAll(e) },
		"partial sync": func(e *Engine, all []tensor) error { return e.SyncSome(handles(all)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			good, bad := failing(t, e, func(all ...tensor) {
				if err := sync(e, all); err == nil || !strings.Contains(err.Error(), "no cosine today") {
					t.Errorf("the sync gives %v", err)
				}
			})
			check(t, e, good, bad, errs.Compile, "no cosine today")
		})
	}
	t.Run("reading what does not depend on it", func(t *testing.T) {
		e := open(t)
		good, bad := failing(t, e, func(...tensor) {})
		check(t, e, good, bad, errs.Compile, "no cosine today")
	})
	t.Run("a snapshot of what does not depend on it", func(t *testing.T) {
		e := open(t)
		good, bad := failing(t, e, func(...tensor) {})
		id, err := e.Snapshot(handles(good))
		if err != nil {
			t.Fatal(err)
		}
		e.DropSnapshot(id)
		if _, err := e.Snapshot(handles(bad)); err == nil || !strings.Contains(err.Error(), "no cosine today") {
			t.Errorf("a snapshot of what depends on it gives %v", err)
		}
	})
}

func handles(tensors []tensor) (out []int64) {
	for _, x := range tensors {
		out = append(out, int64(x.handle))
	}
	return out
}

// configured sets a variable until the test ends.
func configured(t *testing.T, name, value string) {
	t.Helper()
	before := config.String(name)
	if err := config.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = config.Set(name, before) })
}

// opByOp opens an engine whose graphs run op by op.
func opByOp(t *testing.T) *Engine {
	t.Helper()
	configured(t, "XLA_TIER", "eager")
	e := open(t)
	e.torchKernels = true
	return e
}

// planned is the program of what is recorded, which runs op by op.
func planned(t *testing.T, e *Engine) *program {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	trace := e.store.Trace(0)
	slots := slices.DeleteFunc(slices.Clone(trace.Dirty), func(s uint32) bool { return s == 0 })
	_, p, err := e.prepare(e.at(0), trace, slots)
	if err != nil || p.ops == nil {
		t.Fatalf("the graph does not run op by op: %v", err)
	}
	return p
}

// enqueueFailing queues what is recorded, as a graph that has failed to run op by op before: without torch none can.
func enqueueFailing(t *testing.T, e *Engine) {
	t.Helper()
	p := planned(t, e)
	p.ops.failed.Store(true)
	p.release()
	if err := e.planned(e.at(0)); err != nil {
		t.Error(err)
	}
}

// Such a graph is lowered when its run has failed.
func TestAnOpThatCanNeitherRunNorBeLoweredFailsWhatDependsOnIt(t *testing.T) {
	op, _ := ops.Lookup("cos")
	row := ops.Of(op)
	lower := row.Lower
	row.Lower = func(*ops.Lowering) { panic("no cosine today") }
	defer func() { row.Lower = lower }()
	e := opByOp(t)
	good, bad := failing(t, e, func(...tensor) {
		enqueueFailing(t, e)
		e.at(0).Drain()
	})
	e.torchKernels = false
	check(t, e, good, bad, errs.Compile, "no cosine today")
}

// The second step is recorded before the first, which will fail, has run. Its numbers are arguments of its program.
func TestWhatNeedsAFailedArgumentOpByOpFails(t *testing.T) {
	e := opByOp(t)
	good, bad := failing(t, e, func(...tensor) { enqueueFailing(t, e) })
	plus := func(x tensor) tensor { return recorded(t, e, x, "add.Tensor", x.whole(), float(1.5), integer(1)) }
	after := []tensor{plus(good[0]), plus(bad[0])}
	enqueueFailing(t, e)
	e.at(0).Drain()
	e.torchKernels = false
	wants(t, e, "what needs no failed value", after[0], [2]float32{3.5, 4.5})
	fails(t, e, "what needs a failed value", after[1], errs.Compile, "cos")
	check(t, e, good, bad, errs.Compile, "cos")
}

// The null plugin knows no cosine.
func TestAnOpThatCannotBeCompiledFailsWhatDependsOnIt(t *testing.T) {
	e := open(t)
	good, bad := failing(t, e, func(...tensor) {
		if err := syncAll(e); err != nil {
			t.Error(err)
		}
	})
	check(t, e, good, bad, errs.Compile, "cos")
}

// The second step is recorded while the first, which will fail, still compiles.
func TestWhatNeedsAFailedArgumentFails(t *testing.T) {
	e := open(t)
	good, bad := failing(t, e, func(...tensor) {})
	if err := syncAll(e); err != nil {
		t.Fatal(err)
	}
	out := make([]int64, 64)
	var after []tensor
	for _, x := range []tensor{good[0], bad[0], good[1]} {
		st, err := e.Trace(call("add.Tensor", []int64{int64(wire.New)}, x.whole(), float(1), integer(1)), out)
		if st != wire.Done && errs.KindOf(err) != errs.Compile { // it has failed by now
			t.Fatal(st, err)
		}
		if st == wire.Done {
			after = append(after, tensor{alias.Handle(out[1]), x.dims})
		}
	}
	if err := syncAll(e); err != nil {
		t.Fatal(err)
	}
	wants(t, e, "what needs no failed value", after[0], [2]float32{3, 4})
	wants(t, e, "what needs no failed value", after[len(after)-1], [2]float32{4, 5})
	if len(after) == 3 {
		fails(t, e, "what needs a failed value", after[1], errs.Compile, "cos")
	}
	check(t, e, good, bad, errs.Compile, "cos")
}

func TestAFaultThatPassesLosesNothing(t *testing.T) {
	for _, fault := range []string{"LoadedExecutable_Execute", "Client_Compile"} {
		e := open(t)
		control := nullplugin.Open(t, nullplugin.Build(t))
		x := upload(t, e, []float32{1, 2}, 2)
		a := recorded(t, e, x, "add.Tensor", x.whole(), float(1), integer(1))
		b := recorded(t, e, x, "mul.Tensor", x.whole(), x.whole())
		before := metrics.C("UnreportedPluginError").Value()
		control.Arm(fault + ":1:DATA_LOSS:once")
		if err := syncAll(e); err != nil {
			t.Fatal(err)
		}
		wants(t, e, fault, a, [2]float32{2, 3})
		wants(t, e, fault, b, [2]float32{1, 4})
		if metrics.C("UnreportedPluginError").Value() != before+1 {
			t.Errorf("%s: the fault is not counted", fault)
		}
		if _, err := e.Wait(0, submitted(t, e), time.Minute); err != nil {
			t.Error(err)
		}
	}
}
