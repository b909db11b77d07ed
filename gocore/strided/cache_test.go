package strided

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// hits are keys of the kinds that tracing asks for most.
var hits = []struct {
	name string
	base []int64
	view View
}{
	{"whole", []int64{32, 128}, dense([]int64{32, 128})},
	{"transpose", []int64{32, 128}, View{[]int64{128, 32}, []int64{1, 128}, 0}},
	{"select", []int64{32, 128}, View{[]int64{128}, []int64{1}, 1280}},
	{"heads", []int64{2, 5, 72}, View{[]int64{2, 4, 5, 6}, []int64{360, 6, 72, 1}, 24}},
}

func TestCacheHitsDoNotAllocate(t *testing.T) {
	c := NewCache(64)
	for _, h := range hits {
		calls := func() {
			if _, err := c.Read(h.base, h.view); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(h.base, h.view); err != nil {
				t.Fatal(err)
			}
		}
		calls()
		if n := testing.AllocsPerRun(100, calls); n != 0 {
			t.Errorf("%s: %v allocations", h.name, n)
		}
	}
}

// A cache far too small for its keys, asked for them in random order, answers as the functions do, and
// keeps nothing of its caller's slices.
func TestCacheAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	type key struct {
		base []int64
		view View
	}
	var keys []key
	for range 100 {
		base := randomDims(r, 4, 300, true)
		c := &chain{Rand: r, v: dense(base)}
		c.grow(4, plain)
		keys = append(keys, key{base, c.v})
	}
	cache := NewCache(16)
	scratch := make([]int64, 0, 64)
	for range 5000 {
		k := keys[r.IntN(len(keys))]
		scratch = append(append(append(scratch[:0], k.base...), k.view.Size...), k.view.Stride...)
		a, b := len(k.base), len(k.base)+len(k.view.Size)
		base, view := scratch[:a], View{scratch[a:b], scratch[b:], k.view.Offset}
		p, err := cache.Read(base, view)
		want, wantErr := Read(k.base, k.view)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if p.String() != want.String() {
			t.Fatalf("read of %v, %v: %v, not %v", k.base, k.view, p, want)
		}
		w, err := cache.Write(base, view)
		wantWrite, wantErr := Write(k.base, k.view)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("write of %v, %v: %v, not %v", k.base, k.view, err, wantErr)
		}
		if err == nil && w.String() != wantWrite.String() {
			t.Fatalf("write of %v, %v: %v, not %v", k.base, k.view, w, wantWrite)
		}
	}
}

func TestCacheSharesPrograms(t *testing.T) {
	c := NewCache(1)
	base, view := []int64{6, 4}, View{[]int64{2, 4}, []int64{4, 1}, 4}
	first, err := c.Read(base, view)
	if err != nil {
		t.Fatal(err)
	}
	other := view
	for other.Offset = 5; other.Offset < 5+ways-1; other.Offset++ {
		if _, err := c.Read(base, other); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if again, _ := c.Read(base, view); again != first {
			t.Errorf("the program of a key among %d was forgotten", ways)
		}
	}
	for off := range int64(ways - 1) {
		if _, err := c.Read([]int64{50}, View{nil, nil, off}); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := c.Read(base, view); again != first {
		t.Errorf("the program of the key asked for last was forgotten before others")
	}
	if _, err := c.Write(base, View{[]int64{2, 4}, []int64{0, 1}, 0}); !errors.Is(err, ErrOverlap) {
		t.Errorf("write of an expanded view: %v", err)
	}
}

// A hash that two keys share, or a list that is the start of another, doesn't make keys the same.
func TestKeysCompareWhole(t *testing.T) {
	base, v := []int64{6, 4}, View{[]int64{2, 4}, []int64{8, 1}, 4}
	e := newEntry(1, base, v)
	if !e.is(base, v) {
		t.Error("an entry is not its own key")
	}
	for _, other := range []struct {
		base []int64
		view View
	}{
		{[]int64{6, 5}, v},
		{[]int64{6}, v},
		{base, View{[]int64{2, 3}, v.Stride, 4}},
		{base, View{v.Size, []int64{4, 1}, 4}},
		{base, View{v.Size, []int64{8, 1, 1}, 4}},
		{base, View{v.Size, v.Stride, 5}},
	} {
		if e.is(other.base, other.view) {
			t.Errorf("%v is taken for %v, %v", other, base, v)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache(32)
	for off := range int64(1000) {
		if _, err := c.Read([]int64{2000}, View{[]int64{5}, []int64{1}, off}); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for _, s := range c.slots {
		for _, e := range s {
			if e != nil {
				held++
			}
		}
	}
	if held > 32 || held < 16 {
		t.Errorf("a cache for 32 holds %d", held)
	}
}

func BenchmarkCacheHit(b *testing.B) {
	c := NewCache(1024)
	for _, h := range hits {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Read(h.base, h.view); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMiss(b *testing.B) {
	for _, h := range hits {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(h.base, h.view); err != nil {
					b.Fatal(err)
				}
				if _, err := Write(h.base, h.view); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
