package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// cachedStep is a step of n ops upon one storage, compiled before: record, plan, launch.
func cachedStep(t testing.TB, n int) func() {
	t.Helper()
	e := open(t)
	x := upload(t, e, []float32{1, 2, 3, 4}, 2, 2)
	w := call("add.Tensor", append([]int64{int64(wire.Write)}, x.whole()...), x.whole(), float(3), integer(1))
	out := make([]int64, 64)
	step := func() {
		for range n {
			if st, err := e.Trace(w, out); st != wire.Done {
				t.Fatal(st, err)
			}
		}
		if _, err := e.Step(0, true, false); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if _, err := e.Wait(0, submitted(t, e), time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 10 { // arenas reach their size
		step()
	}
	return step
}

// What a step allocates is its launch and the buffers of its results: nothing for an op.
func TestAllocationsOfACachedStepDoNotGrowWithItsOps(t *testing.T) {
	few, many := testing.AllocsPerRun(100, cachedStep(t, 2)), testing.AllocsPerRun(100, cachedStep(t, 500))
	if many > few+1 {
		t.Errorf("a step of 2 ops: %v allocations, a step of 500: %v", few, many)
	}
}

func BenchmarkCachedStep(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			step := cachedStep(b, n)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/traced-op")
		})
	}
}

// submitted is the number of programs that the first device was given.
func submitted(t testing.TB, e *Engine) int64 {
	t.Helper()
	n, err := e.Submitted(0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
