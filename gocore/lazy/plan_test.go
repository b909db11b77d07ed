package lazy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// buffer is a device buffer that no one computes.
type buffer struct{}

func (buffer) Retain()        {}
func (buffer) Release()       {}
func (buffer) Err() error     { return nil }
func (buffer) Donating() bool { return false }

func (buffer) Sharding() *sharding.Sharding { return nil }

// step is a store with one storage of four floats, to which n ops are recorded, one upon the other: a step
// that updates its state.
type step struct {
	store *alias.Store
	state alias.Handle
	f4    *shape.Shape
	slots []uint32
	plan  Plan
}

func newStep(t testing.TB) *step {
	t.Helper()
	s := &step{store: alias.NewStore(1), f4: shape.Make(dtype.F32, 4)}
	h, err := s.store.New(s.f4.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.state = h
	s.slots = []uint32{s.store.Slot(h)}
	return s
}

// record starts a graph: the storage holds a buffer, and n ops with a number as operand follow.
func (s *step) record(t testing.TB, n int, number float64) {
	t.Helper()
	s.store.SetDevice(s.slots[0], s.f4, buffer{})
	s.store.Trace(0).EndGraph()
	view := alias.View{Handle: s.state, Type: dtype.F32}
	view.Size, view.Stride = []int64{4}, []int64{1}
	v, err := s.store.Read(&view)
	if err != nil {
		t.Fatal(err)
	}
	g := &s.store.Trace(0).Graph
	words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KFloat, 0)}
	for range n {
		x := g.AddNumber(ir.Number{Type: dtype.F64, F: number}, ir.Wrapped, false)
		v = g.Add(ir.FirstRow+100, []ir.ID{v, x}, words, s.f4, 0)
	}
	c, err := s.store.Cell(s.state)
	if err != nil {
		t.Fatal(err)
	}
	s.store.SetPending(s.state, c, v)
}

func (s *step) build() { s.plan.Build(s.store, s.store.Trace(0), s.slots, nil) }

func TestARepeatedStepHasTheSameKey(t *testing.T) {
	s := newStep(t)
	keys := map[Key]string{}
	for _, c := range []struct {
		ops    int
		number float64
	}{{10, 3}, {10, 3.5}, {11, 3}, {10, 2}} { // 2 is part of a program, 3 and 3.5 are arguments
		s.record(t, c.ops, c.number)
		s.build()
		first := s.plan.Key
		s.record(t, c.ops, c.number)
		s.build()
		if s.plan.Key != first {
			t.Errorf("%d ops with %v: recorded again, the key is another", c.ops, c.number)
		}
		keys[first] += fmt.Sprintf("%d ops with %v; ", c.ops, c.number)
	}
	if len(keys) != 3 {
		t.Errorf("want one key for both arguments, and three in all: %v", keys)
	}
	if s.plan.Roots[0].Donor != 0 || len(s.plan.Params) != 1 {
		t.Errorf("the step does not take over its state: %+v", s.plan.Roots)
	}
}

func TestCompactingARecordingDoesNotChangeItsPlan(t *testing.T) {
	s := newStep(t)
	other, err := s.store.New(s.f4.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(compact func()) (Key, int) {
		s.store.SetDevice(s.store.Slot(other), s.f4, buffer{})
		s.record(t, 3, 3)
		g := &s.store.Trace(0).Graph
		words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KTensor, 0)}
		read := func(h alias.Handle) ir.ID {
			v, err := s.store.Read(&alias.View{Handle: h, Type: dtype.F32, View: strided.View{Size: []int64{4}, Stride: []int64{1}}})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for range 4 { // values that no one needs, with a leaf that is needed later
			g.AddMulti(ir.FirstRow+101, []ir.ID{read(other), read(s.state)}, words, []*shape.Shape{s.f4, s.f4})
			compact()
		}
		first := g.AddMulti(ir.FirstRow+101, []ir.ID{read(s.state), read(other)}, words, []*shape.Shape{s.f4, s.f4})
		c, err := s.store.Cell(s.state)
		if err != nil {
			t.Fatal(err)
		}
		s.store.SetPending(s.state, c, first+1)
		compact()
		s.build()
		return s.plan.Key, g.Len()
	}
	want, all := plan(func() {})
	got, kept := plan(func() { s.store.Compact(0) })
	if got != want {
		t.Errorf("the key is %v, compacted %v", want, got)
	}
	if all != 19 || kept != 11 {
		t.Errorf("of %d nodes, %d are kept", all, kept)
	}
}

func TestPlanningAllocatesNothing(t *testing.T) {
	s := newStep(t)
	s.record(t, 1000, 3)
	s.build()
	if n := testing.AllocsPerRun(100, s.build); n != 0 {
		t.Errorf("planning a repeated step: %v allocations", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 1000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newStep(b)
			s.record(b, n, 3)
			b.ReportAllocs()
			for b.Loop() {
				s.build()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(s.plan.Nodes)), "ns/node")
		})
	}
}

func TestThePlanOfSomeOfTheRoots(t *testing.T) {
	s := newStep(t)
	s.record(t, 3, 3.5)
	h, err := s.store.New(s.f4.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	g := &s.store.Trace(0).Graph
	first, _ := s.store.Cell(s.state)
	second, _ := s.store.Cell(h)
	words := []int64{wire.Tag(wire.KTensor, 0)}
	own := g.Add(ir.FirstRow+101, []ir.ID{g.In(first.Value)[0]}, words, s.f4, 0) // of what the first is computed from
	s.store.SetPending(h, second, own)
	s.slots = append(s.slots, s.store.Slot(h))
	s.build()
	q := s.plan.Only(func(root int) bool { return root == 1 })
	var alone Plan
	alone.Build(s.store, s.store.Trace(0), s.slots[1:], nil)
	if !slices.Equal(q.Nodes, alone.Nodes) || len(q.Nodes) >= len(s.plan.Nodes) {
		t.Errorf("the nodes %v of all results are cut to %v; those that the second one needs are %v", s.plan.Nodes, q.Nodes, alone.Nodes)
	}
	if len(q.Roots) != 1 || q.Roots[0].ID != own || !slices.Equal(q.Scalars, s.plan.Scalars) || !slices.Equal(q.Params, s.plan.Params) {
		t.Errorf("the roots are %v, the numbers %v of %v, the parameters %v of %v", q.Roots, q.Scalars, s.plan.Scalars, q.Params, s.plan.Params)
	}
}
