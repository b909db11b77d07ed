package shape

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

func TestInterned(t *testing.T) {
	a := Make(dtype.F32, 2, 3)
	if b := Of(dtype.F32, []int64{2, 3}); a != b {
		t.Error("equal shapes must be one pointer")
	}
	if a == Make(dtype.F32, 3, 2) || a == Make(dtype.F64, 2, 3) || a == Make(dtype.F32, 2, 3, 1) {
		t.Error("different shapes must differ")
	}
	dims := [...]int64{2, 3}
	if n := testing.AllocsPerRun(100, func() { Of(dtype.F32, dims[:]) }); n != 0 {
		t.Errorf("a known shape costs %v allocations", n)
	}
	var wg sync.WaitGroup
	got := make([]*Shape, 8)
	for i := range got {
		wg.Add(1)
		go func() { defer wg.Done(); got[i] = Make(dtype.I8, 7, 11, 13) }()
	}
	wg.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatal("two pointers for one shape")
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	for _, s := range []string{"f32[2,3]", "i64[]", "complex<f32>[0,1]", "i1[5]"} {
		x, ok := Parse(s)
		if !ok || x.String() != s {
			t.Errorf("Parse(%q) = %v, %v", s, x, ok)
		}
	}
	for _, s := range []string{"", "f32", "f31[2]", "f32[-1]", "f32[a]", "f32[2"} {
		if _, ok := Parse(s); ok {
			t.Errorf("Parse(%q) must fail", s)
		}
	}
}

func TestArithmetic(t *testing.T) {
	if got := Contiguous(nil, []int64{2, 0, 3}); !slices.Equal(got, []int64{3, 3, 1}) {
		t.Errorf("strides %v", got)
	}
	if got, _, ok := Broadcast(nil, []int64{4, 1, 3}, []int64{5, 1}); !ok || !slices.Equal(got, []int64{4, 5, 3}) {
		t.Errorf("broadcast %v %v", got, ok)
	}
	if _, bad, ok := Broadcast(nil, []int64{2, 3}, []int64{4}); ok || bad != 1 {
		t.Errorf("bad dimension %d %v", bad, ok)
	}
	if s := Make(dtype.BF16, 3, 0); s.Numel() != 0 || s.Bytes() != 0 || Make(dtype.C64, 3).Bytes() != 24 {
		t.Error("sizes")
	}
}

func TestShapesThatNothingUsesAreFreed(t *testing.T) {
	kept := Make(dtype.F32, 1<<40, 1)
	before := Interned()
	for i := range int64(2000) {
		Make(dtype.F32, 1<<40, i)
	}
	for range 100 {
		runtime.GC()
		if Interned() < before+100 {
			break
		}
		time.Sleep(10 * time.Millisecond) // sweeps run in a goroutine
	}
	if n := Interned() - before; n >= 100 {
		t.Errorf("%d of 2000 shapes are kept", n)
	}
	if Make(dtype.F32, 1<<40, 1) != kept {
		t.Error("a shape in use has lost its entry")
	}
}
