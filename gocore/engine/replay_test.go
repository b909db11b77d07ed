package engine

import (
	"testing"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// replayedStep is a replay of a program from two storages to a new one.
func replayedStep(t testing.TB) func() {
	t.Helper()
	e := open(t)
	x, y := upload(t, e, []float32{1, 2}, 2), upload(t, e, []float32{1, 2}, 2)
	out := make([]int64, 64)
	if st, err := e.Trace(call("add.Tensor", []int64{int64(wire.New)}, x.whole(), y.whole(), integer(1)), out); st != wire.Done {
		t.Fatal(st, err)
	}
	given, made := []int64{int64(x.handle), int64(y.handle)}, []int64{out[1]}
	c, err := e.Capture(given, made, true)
	if err != nil || c.ID == 0 {
		t.Fatal(c, err)
	}
	if err := syncAll(e); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(0, submitted(t, e), time.Minute); err != nil {
		t.Fatal(err)
	}
	return func() {
		if o, err := e.Replay(c.ID, given, made); o != wire.Synced {
			t.Fatal(o, err)
		}
		e.Release([]uint64{uint64(made[0])})
	}
}

// What a replay allocates is its launch and the buffers of its results.
func TestAllocationsOfAReplay(t *testing.T) {
	if n := testing.AllocsPerRun(100, replayedStep(t)); n > 6 {
		t.Error(n, "allocations")
	}
}

func BenchmarkReplay(b *testing.B) {
	step := replayedStep(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

// TestReplay captures y = 2x, x += y on the null plugin's real arithmetic, and runs it again.
func TestReplay(t *testing.T) {
	e := open(t)
	x := upload(t, e, []float32{1, 2}, 2)
	out := make([]int64, 64)
	record := func(w []int64) alias.Handle {
		t.Helper()
		if st, err := e.Trace(w, out); st != wire.Done {
			t.Fatal(st, err)
		}
		return alias.Handle(out[1])
	}
	y := record(call("mul.Tensor", []int64{int64(wire.New)}, x.whole(), float(2)))
	record(call("add.Tensor", append([]int64{int64(wire.Write)}, x.whole()...), x.whole(), tensor{y, x.dims}.whole(), integer(1)))
	c, err := e.Capture([]int64{int64(x.handle)}, []int64{int64(y)}, false)
	if err != nil || c.ID == 0 {
		t.Fatal(c, err)
	}
	if err := syncAll(e); err != nil {
		t.Fatal(err)
	}
	value := func(h alias.Handle) (v [2]float32) {
		t.Helper()
		if err := e.Fetch(h, unsafe.Pointer(&v), 8); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := value(x.handle); got != [2]float32{3, 6} {
		t.Error("the recorded call gives", got)
	}
	if _, err := e.Wait(0, submitted(t, e), time.Minute); err != nil {
		t.Fatal(err)
	}
	programs := e.CachedPrograms()
	outs := make([]int64, 1)
	if o, err := e.Replay(c.ID, []int64{int64(x.handle)}, outs); o != wire.Synced || err != nil {
		t.Fatal(o, err)
	}
	if got := value(x.handle); got != [2]float32{9, 18} {
		t.Error("x after the replay is", got)
	}
	if got := value(alias.Handle(outs[0])); got != [2]float32{6, 12} {
		t.Error("the replay's result is", got)
	}
	if got := value(y); got != [2]float32{2, 4} {
		t.Error("the first result is now", got)
	}
	if n := e.CachedPrograms(); n != programs {
		t.Error("the replay lowered another program")
	}
	longer := upload(t, e, []float32{1, 2, 3}, 3)
	if o, err := e.Replay(c.ID, []int64{int64(longer.handle)}, outs); o != wire.Missed || err != nil {
		t.Error("a storage of another shape must be a miss, not", o, err)
	}
	record(call("mul.Tensor", []int64{int64(wire.New)}, longer.whole(), float(2)))
	if o, err := e.Replay(c.ID, []int64{int64(x.handle)}, outs); o != wire.Ran || err != nil {
		t.Error("with something else recorded a replay is not all that there is to do, but", o, err)
	}
	if err := syncAll(e); err != nil {
		t.Fatal(err)
	}
	e.DropReplay(c.ID)
	if _, err := e.Replay(c.ID, []int64{int64(x.handle)}, outs); err == nil {
		t.Error("a dropped capture must be an error")
	}
	if listed := e.store.Reached(0, nil); len(listed) != 0 {
		t.Error("nothing is recorded, but", listed, "are reached; leaf", ir.None)
	}
}
