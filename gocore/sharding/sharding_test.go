package sharding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

func parsed(t *testing.T, text string) *Sharding {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEqualPlacementsAreOnePointer(t *testing.T) {
	for _, same := range [][]string{
		{"{replicated}", "{devices=[1,1,4]<=[4] last_tile_dim_replicate}", "{devices=[1]0}"},
		{"{manual}", "{ manual }"},
		{"{maximal device=2}"},
		{"{devices=[2,2]<=[4]}", "{devices=[2,2]0,1,2,3}", "{devices=[2,2]<=[2,2]T(0,1)}"},
		{"{devices=[2,4]<=[4,2]T(1,0)}", "{devices=[2,4]0,2,4,6,1,3,5,7}", "{devices=[2,4]<=[2,2,2]T(2,0,1)}"},
		{"{devices=[2,4]7,6,5,4,3,2,1,0}"}, {"{devices=[8]0,2,4,6,1,3,7,5}"}, {"{devices=[6]<=[3,2]T(1,0)}", "{devices=[6]0,2,4,1,3,5}"},
		{"{devices=[2,2]<=[4] last_tile_dim_replicate}", "{devices=[2,2]1,0,3,2 last_tile_dim_replicate}",
			"{devices=[2,2]<=[4] last_tile_dims={replicated}}"},
	} {
		first := parsed(t, same[0])
		if first.String() != same[0] {
			t.Errorf("%s prints as %s", same[0], first)
		}
		for _, text := range same {
			if s := parsed(t, text); s != first || s.Hash != first.Hash {
				t.Errorf("%s is %s, not %s", text, s, first)
			}
		}
	}
	if parsed(t, "{devices=[2,2]<=[4]}") == parsed(t, "{devices=[2,2]0,2,1,3}") {
		t.Error("the order of the devices does not count")
	}
}

// A sharding of any number of devices that are in the order of a mesh has a short text, which is read as the same one.
func TestTheTextDoesNotGrowWithTheDevices(t *testing.T) {
	for _, tc := range []struct{ tiles, dims, perm []int64 }{
		{[]int64{2, 4096}, []int64{8192}, []int64{0}},
		{[]int64{32, 256}, []int64{256, 32}, []int64{1, 0}},
		{[]int64{2, 4, 8, 16}, []int64{16, 2, 8, 4}, []int64{1, 3, 2, 0}},
		{[]int64{4, 1, 2}, []int64{2, 2, 2}, []int64{2, 0, 1}},
		{[]int64{6, 5, 7}, []int64{7, 5, 6}, []int64{2, 1, 0}},
	} {
		for _, kind := range []string{"{devices=[%s]%s}", "{devices=[%s]%s last_tile_dim_replicate}"} {
			s := parsed(t, fmt.Sprintf(kind, list(tc.tiles), list(Iota(tc.dims, tc.perm))))
			if text := s.String(); len(text) > 80 || !strings.Contains(text, "<=[") {
				t.Errorf("the text is %s", text)
			}
			table.Lock()
			delete(table.byText, s.text)
			table.Unlock()
			if again := parsed(t, s.text); !slices.Equal(again.Devices, s.Devices) || again.text != s.text {
				t.Errorf("%s is read as %s", s, again)
			}
		}
	}
}

func TestTextThatIsNoSharding(t *testing.T) {
	for _, text := range []string{"{manual devices=[4]<=[4]}", "{manual devices=[2,2]<=[4] last}", "{manual 0}", "", "{}", "{replicated", "replicated", "{devices=}", "{devices=[]<=[1]}", "{devices=[2]0}",
		"{devices=[2]0,0}", "{devices=[2]0,2}", "{devices=[0]<=[0]}", "{devices=[-1]0}", "{devices=[2]<=[2]T}",
		"{devices=[4]<=[2,2]T(0,0)}", "{devices=[4]<=[2,2]T(0)}", "{devices=[2]<=}", "{devices=[2]<=[2] last}", "{devices=[2}",
		"{maximal device=x}", "{maximal device=-1}"} {
		_, err := Parse(text)
		var e *errs.Error
		if !errors.As(err, &e) || e.Kind != errs.Value {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRegionsCover writes every element from each device that holds it: all are covered, as often as there
// are copies.
func TestRegionsCover(t *testing.T) {
	for _, tc := range []struct {
		text string
		dims []int64
	}{
		{"{devices=[2,4]<=[8]}", []int64{4, 8}}, {"{devices=[4,2]<=[8]}", []int64{5, 3}}, {"{devices=[8,1]<=[8]}", []int64{3, 2}},
		{"{devices=[2,1,4]<=[8] last_tile_dim_replicate}", []int64{7, 2}}, {"{devices=[2,4]<=[4,2]T(1,0)}", []int64{3, 9}},
		{"{devices=[2,2,2]7,6,5,4,3,2,1,0}", []int64{3, 3, 1}}, {"{replicated}", []int64{2, 2}}, {"{replicated}", nil},
		{"{devices=[8]<=[8]}", []int64{0}},
	} {
		s := parsed(t, tc.text)
		local := s.Local(tc.dims)
		count := make(map[string]int)
		replicas := make(map[string][]int)
		for d := range 8 {
			start, size := s.Region(d, tc.dims)
			for i, n := range size {
				if n < 0 || n > local[i] || start[i]+n > tc.dims[i] {
					t.Fatalf("%s of %v: device %d holds %v from %v, of local size %v", s, tc.dims, d, size, start, local)
				}
			}
			each(size, func(index []int64) {
				for i := range index {
					index[i] += start[i]
				}
				count[fmt.Sprint(index)]++
				replicas[fmt.Sprint(index)] = append(replicas[fmt.Sprint(index)], s.Replica(d))
			})
		}
		copies := max(int(s.Copies), 1)
		if s.Kind == Replicated {
			copies = 8
		}
		each(tc.dims, func(index []int64) {
			at := fmt.Sprint(index)
			if count[at] != copies {
				t.Errorf("%s of %v: element %s is held %d times", s, tc.dims, at, count[at])
			}
			slices.Sort(replicas[at])
			for i, r := range replicas[at] {
				if r != i {
					t.Errorf("%s of %v: element %s is held by replicas %v", s, tc.dims, at, replicas[at])
				}
			}
		})
	}
}

// each visits the indices of an array.
func each(dims []int64, f func(index []int64)) {
	n := product(dims)
	for k := range n {
		index := make([]int64, len(dims))
		for i := len(dims) - 1; i >= 0; i-- {
			index[i], k = k%dims[i], k/dims[i]
		}
		f(index)
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		text    string
		devices int
		dims    []int64
		ok      bool
	}{
		{"{devices=[2,4]<=[8]}", 8, []int64{3, 5}, true}, {"{replicated}", 8, nil, true}, {"{maximal device=7}", 8, nil, true},
		{"{devices=[2,4]<=[8]}", 4, []int64{3, 5}, false}, {"{devices=[2,2]<=[4]}", 8, []int64{3, 5}, false},
		{"{devices=[2,4]<=[8]}", 8, []int64{3}, false}, {"{maximal device=8}", 8, nil, false},
	} {
		if err := parsed(t, tc.text).Check(tc.devices, tc.dims); (err == nil) != tc.ok {
			t.Errorf("%s of %v on %d devices: %v", tc.text, tc.dims, tc.devices, err)
		}
	}
}

func TestManual(t *testing.T) {
	if l := PerDevice.Local(nil); !slices.Equal(l, []int64{1}) {
		t.Errorf("a 0-dim local value is held as %v", l)
	}
	if l := PerDevice.Local([]int64{2, 3}); !slices.Equal(l, []int64{2, 3}) {
		t.Errorf("held as %v", l)
	}
	if rows := PerDevice.Rows(2, 4); rows != parsed(t, "{devices=[4,1]<=[4]}") || PerDevice.Rows(1, 1) != Everywhere {
		t.Error(rows, PerDevice.Rows(1, 1))
	}
}

// TestManualGroups is about local values that two devices share.
func TestManualGroups(t *testing.T) {
	m := parsed(t, "{manual devices=[2,2]0,2,1,3}")
	if m.Kind != Manual || m == PerDevice || m != parsed(t, "{manual devices=[2,2]3,1,2,0}") || m == parsed(t, "{manual devices=[2,2]<=[4]}") {
		t.Error(m)
	}
	if parsed(t, "{manual devices=[4,1]3,2,1,0}") != PerDevice {
		t.Error("single devices are groups")
	}
	if l := m.Local(nil); !slices.Equal(l, []int64{1}) {
		t.Errorf("a 0-dim local value is held as %v", l)
	}
	if rows := m.Rows(2, 4); rows != parsed(t, "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}") {
		t.Error(rows)
	}
	if text := m.HLO(1); text != "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}" {
		t.Error(text)
	}
	for text, within := range map[string]bool{
		"{replicated}": true, "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}": true, "{devices=[2,1,2]1,3,2,0 last_tile_dim_replicate}": true,
		"{devices=[2,2]<=[4] last_tile_dim_replicate}": false, "{devices=[4]<=[4]}": false,
	} {
		if s := parsed(t, text); s.Within(m) != within || !s.Within(PerDevice) {
			t.Errorf("%s within %s: %v", s, m, s.Within(m))
		}
	}
	if err := m.Check(4, nil); err != nil {
		t.Error(err)
	}
	if m.Check(8, nil) == nil || m.Check(2, nil) == nil {
		t.Error("a manual sharding of 4 devices is one of 8, or of 2")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Errorf("%q is %s, which is %v, %v", text, s, again, err)
		}
	})
}
