package strided

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func usesGather(p Program) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind == Gather })
}

// nested reports whether every dimension of v steps over all that the narrower ones reach: what the
// chains of plain operations give, and what never needs a gather or a scatter.
func nested(v View) bool {
	dims := thickDims(v)
	for i, d := range dims {
		if reach(runsOf(v, dims[i+1:])) >= v.Stride[d] {
			return false
		}
	}
	return true
}

// check checks one view in both directions and says which programs are of the last resort.
func check(t *testing.T, base []int64, v View, from ...any) (gather, scatter bool) {
	t.Helper()
	p, err := checkRead(base, v)
	if err != nil {
		t.Fatalf("read of %v, %v: %v: %v", base, from, v, err)
	}
	w, err := checkWrite(base, v)
	if err != nil {
		t.Fatalf("write of %v, %v: %v: %v", base, from, v, err)
	}
	if gather, scatter = usesGather(p), w.Method == Scatter; (gather || scatter) && nested(v) {
		t.Fatalf("base %v, %v: %v is nested; %v, %v", base, from, v, p, w)
	}
	return gather, scatter
}

// runChains checks random chains of ops and counts the programs of the last resort.
func runChains(t *testing.T, seed uint64, ops []op) (gathers, scatters int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	for range 30000 {
		base := randomDims(r, 5, 300, true)
		c := &chain{Rand: r, v: dense(base)}
		c.grow(1+r.IntN(6), ops)
		gather, scatter := check(t, base, c.v, c.ops)
		if gather {
			gathers++
		}
		if scatter {
			scatters++
		}
	}
	return gathers, scatters
}

// Chains of select, narrow, step slices, chunk, permute, expand, view, squeeze and unsqueeze on a
// contiguous base never gather or scatter.
func TestPlainChains(t *testing.T) {
	if gathers, scatters := runChains(t, 1, plain); gathers+scatters > 0 {
		t.Errorf("%d gathers, %d scatters", gathers, scatters)
	}
}

// With diagonals and windows among them, reads gather once in a thousand; a write scatters where
// windows overlap or diagonals interleave.
func TestWildChains(t *testing.T) {
	gathers, scatters := runChains(t, 2, slices.Concat(plain, wild, wild))
	t.Logf("of 30000: %d gathers, %d scatters", gathers, scatters)
	if gathers > 60 {
		t.Errorf("%d gathers", gathers)
	}
}

func TestAsStrided(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	gathers := 0
	for range 30000 {
		base := randomDims(r, 4, 300, false)
		c := &chain{Rand: r}
		c.asStrided(product(base))
		if gather, _ := check(t, base, c.v); gather {
			gathers++
		}
	}
	if gathers == 0 {
		t.Error("no view was gathered: the last resort is untested")
	}
	t.Logf("of 30000: %d gathers", gathers)
}

// TestAllSmall checks every view of two dimensions over every base of some small sizes.
func TestAllSmall(t *testing.T) {
	for _, base := range [][]int64{{}, {1}, {5}, {2, 3}, {3, 2}, {1, 4}, {2, 2, 2}, {8}, {3, 1, 3}} {
		n := product(base)
		each([]int64{4, 5, 5, 5, n}, func(i []int64) {
			v := View{Size: []int64{i[0], i[1]}, Stride: []int64{i[2], i[3]}, Offset: i[4]}
			if v.check(n) == nil {
				check(t, base, v)
			}
		})
	}
}

// TestWholeWrites: a view that takes every element once replaces the base, whatever its order.
func TestWholeWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	for range 2000 {
		base := randomDims(r, 5, 300, false)
		c := &chain{Rand: r, v: dense(base)}
		c.grow(4, []op{(*chain).view, (*chain).permute, (*chain).squeeze, (*chain).unsqueeze})
		w, err := checkWrite(base, c.v)
		if err != nil || w.Method != Replace || len(w.Val) > 1 {
			t.Fatalf("%v of %v: %v, %v", c.ops, base, w, err)
		}
	}
}

func TestErrors(t *testing.T) {
	huge := int64(math.MaxInt64)
	for _, c := range []struct {
		name string
		base []int64
		view View
		kind error
	}{
		{"beyond the end", []int64{2, 3}, View{[]int64{2, 2}, []int64{3, 1}, 2}, ErrBounds},
		{"offset beyond the end", []int64{2, 3}, View{nil, nil, 6}, ErrBounds},
		{"of an empty base", []int64{0, 3}, View{[]int64{1}, []int64{1}, 0}, ErrBounds},
		{"overflow of a step", []int64{2, 3}, View{[]int64{3}, []int64{huge}, 0}, ErrBounds},
		{"overflow of the sum", []int64{2, 3}, View{[]int64{2, 2, 2}, []int64{huge / 2, huge / 2, huge / 2}, huge}, ErrBounds},
		{"overflow of the count", []int64{2, 3}, View{[]int64{huge, huge}, []int64{0, 0}, 0}, ErrBounds},
		{"negative size", []int64{2, 3}, View{[]int64{-1}, []int64{1}, 0}, ErrView},
		{"negative stride", []int64{2, 3}, View{[]int64{2}, []int64{-1}, 3}, ErrView},
		{"negative offset", []int64{2, 3}, View{[]int64{2}, []int64{1}, -1}, ErrView},
		{"ranks differ", []int64{2, 3}, View{[]int64{2, 3}, []int64{1}, 0}, ErrView},
		{"negative base", []int64{-2, -3}, View{[]int64{2}, []int64{1}, 0}, ErrView},
		{"base too large", []int64{huge, huge}, View{[]int64{2}, []int64{1}, 0}, ErrView},
	} {
		cache := NewCache(4)
		_, readErr := Read(c.base, c.view)
		_, writeErr := Write(c.base, c.view)
		_, cachedRead := cache.Read(c.base, c.view)
		_, cachedWrite := cache.Write(c.base, c.view)
		for _, err := range []error{readErr, writeErr, cachedRead, cachedWrite} {
			var typed *Error
			if !errors.Is(err, c.kind) || !errors.As(err, &typed) || !slices.Equal(typed.Base, c.base) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := Write([]int64{2, 3}, View{[]int64{2, 2}, []int64{3, 1}, 2})
	want := "strided: view out of bounds of its storage: write of size [2 2], stride [3 1], offset 2 over dimensions [2 3]"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestOverlap: torch refuses writes to expanded tensors alone, in these words; its fill_ writes to
// the distinct elements.
func TestOverlap(t *testing.T) {
	base := []int64{6}
	v := View{[]int64{2, 3}, []int64{0, 2}, 1}
	_, err := Write(base, v)
	want := "unsupported operation: more than one element of the written-to tensor refers to a single memory " +
		"location. Please clone() the tensor before performing the operation."
	if !errors.Is(err, ErrOverlap) || err.Error() != want {
		t.Errorf("expanded: %v", err)
	}
	if w, err := checkWrite(base, Unexpanded(v)); err != nil || w.Method == Scatter {
		t.Errorf("unexpanded: %v, %v", w, err)
	}
	if w, err := checkWrite(base, View{[]int64{3, 2}, []int64{1, 1}, 0}); err != nil || w.Method != Scatter {
		t.Errorf("overlapping strides: %v, %v", w, err)
	}
	if w, err := checkWrite([]int64{0}, View{[]int64{0, 3}, []int64{1, 0}, 0}); err != nil || w.Method != Nothing {
		t.Errorf("empty: %v, %v", w, err)
	}
}

// TestLayouts compares the predicates with their definition, on all small strides.
func TestLayouts(t *testing.T) {
	for _, size := range [][]int64{{2, 3, 2}, {1, 3, 2}, {3, 1, 1}, {2, 0, 3}, {1, 1, 1}} {
		each([]int64{9, 9, 9}, func(stride []int64) {
			next, rowMajor := int64(0), true
			seen := map[int64]bool{}
			each(size, func(i []int64) {
				a := address(i, stride, 0)
				rowMajor = rowMajor && a == next
				seen[a], next = true, next+1
			})
			if got := Contiguous(size, stride); got != rowMajor {
				t.Fatalf("Contiguous(%v, %v) = %v", size, stride, got)
			}
			fills := int64(len(seen)) == next
			for a := range seen {
				fills = fills && a < next
			}
			perm, ok := NonOverlappingDense(size, stride)
			if ok != fills {
				t.Fatalf("NonOverlappingDense(%v, %v) = %v", size, stride, ok)
			}
			if ok && next > 0 && !Contiguous(pick64(size, perm), pick64(stride, perm)) {
				t.Fatalf("NonOverlappingDense(%v, %v) in order %v", size, stride, perm)
			}
		})
	}
	if Contiguous([]int64{2, 3}, []int64{1}) {
		t.Error("Contiguous of different lengths")
	}
	if _, ok := NonOverlappingDense([]int64{1 << 40, 1 << 40}, []int64{0, 0}); ok {
		t.Error("NonOverlappingDense of an expanded tensor of more elements than 63 bits count")
	}
	if _, ok := NonOverlappingDense([]int64{2}, nil); ok {
		t.Error("NonOverlappingDense of different lengths")
	}
}

// FuzzView takes bytes for a base and a view over it: rank and dimensions of the base, then pairs of
// size and stride, then the offset.
func FuzzView(f *testing.F) {
	f.Add([]byte{2, 6, 4, 2, 4, 2, 1, 4})
	f.Add([]byte{4, 1, 2, 5, 5, 25, 3, 6, 0})
	f.Add([]byte{1, 20, 2, 3, 3, 2, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		take := func() int64 {
			if len(data) == 0 {
				return 0
			}
			x := data[0]
			data = data[1:]
			return int64(x)
		}
		base := make([]int64, take()%5)
		for d := range base {
			base[d] = take() % 16
		}
		v := View{Size: make([]int64, take()%6)}
		v.Stride = make([]int64, len(v.Size))
		for d := range v.Size {
			v.Size[d], v.Stride[d] = take()%16, take()
		}
		v.Offset = take()
		if product(base) > 5000 || v.Numel() > 20000 {
			return
		}
		if err := v.check(product(base)); err != nil {
			if _, got := Read(base, v); !errors.Is(got, err) {
				t.Fatalf("%v, %v: %v", base, v, got)
			}
			return
		}
		check(t, base, v)
	})
}
