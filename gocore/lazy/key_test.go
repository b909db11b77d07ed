package lazy

import (
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// storedBuffer is a device buffer without data.
type storedBuffer struct{ given bool }

func (b *storedBuffer) Retain()                      {}
func (b *storedBuffer) Release()                     {}
func (b *storedBuffer) Err() error                   { return nil }
func (b *storedBuffer) Donating() bool               { return b.given }
func (b *storedBuffer) Sharding() *sharding.Sharding { return nil }

// The ops of the tests; what they are does not matter here.
const (
	opA ir.Op = 500 + iota
	opB
)

// recording is a store with a graph in the making.
type recording struct {
	t *testing.T
	s *alias.Store
}

func newRecording(t *testing.T) *recording { return &recording{t, alias.NewStore(1)} }

// stored makes a storage of n f32 that holds a buffer.
func (r *recording) stored(n int64, given bool) alias.Handle {
	h, err := r.s.New(4*n, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s.SetDevice(r.s.Slot(h), shape.Make(dtype.F32, n), &storedBuffer{given})
	return h
}

func (r *recording) view(h alias.Handle) alias.View {
	c, err := r.s.Cell(h)
	if err != nil {
		r.t.Fatal(err)
	}
	return alias.View{Handle: h, Type: dtype.F32, View: strided.View{Size: []int64{c.Bytes / 4}, Stride: []int64{1}}}
}

func (r *recording) read(h alias.Handle) ir.ID {
	v := r.view(h)
	id, err := r.s.Read(&v)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// op records an op on storages' values, with a result like the first.
func (r *recording) op(op ir.Op, in ...ir.ID) ir.ID {
	g := &r.s.Trace(0).Graph
	return g.Add(op, in, nil, g.Shape(in[0]), 0)
}

func (r *recording) write(h alias.Handle, id ir.ID) {
	v := r.view(h)
	if err := r.s.Write(&v, id); err != nil {
		r.t.Fatal(err)
	}
}

// fresh makes a storage with a recorded value.
func (r *recording) fresh(id ir.ID) alias.Handle {
	h, err := r.s.New(r.s.Trace(0).Graph.Shape(id).Bytes(), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(h, id)
	return h
}

func (r *recording) plan() *Plan {
	var slots []uint32
	for _, slot := range r.s.Trace(0).Dirty {
		if slot != 0 {
			slots = append(slots, slot)
		}
	}
	p := new(Plan)
	p.Build(r.s, r.s.Trace(0), slots, nil)
	return p
}

// variation is a small program in variations: where it does not matter to the program, and where it does.
func variation(t *testing.T, vary string) *Plan {
	r := newRecording(t)
	n := int64(4)
	if vary == "shape" {
		n = 5
	}
	x, y := r.stored(n, vary == "given"), r.stored(n, false)
	if vary == "what is not needed" {
		h := r.fresh(r.op(opB, r.read(x)))
		r.s.Release(h)
	}
	if vary == "when it was read" {
		r.read(y)
	}
	a, b := r.read(x), r.read(y)
	if vary == "which storage" {
		a, b = b, a
	}
	op := opA
	if vary == "op" {
		op = opB
	}
	sum := r.op(op, a, b)
	if vary == "order of operands" {
		sum = r.op(opA, b, sum)
	} else {
		sum = r.op(opA, sum, b)
	}
	number := ir.Number{Type: dtype.F64, F: 0.1}
	if vary == "value of a number" {
		number.F = 0.2
	}
	if vary == "number that is part of the program" {
		number.F = 2
	}
	out := r.op(opB, sum, r.s.Trace(0).Graph.AddNumber(number, 0, false))
	if vary == "result in place" {
		r.write(x, out)
	} else {
		r.fresh(out)
	}
	if vary == "one result more" {
		r.fresh(sum)
	}
	if vary == "the same result twice" {
		r.fresh(out)
	}
	return r.plan()
}

func TestKeys(t *testing.T) {
	key := variation(t, "").Key
	for _, same := range []string{"", "value of a number", "what is not needed", "when it was read", "which storage", "the same result twice"} {
		if got := variation(t, same).Key; got != key {
			t.Errorf("%q changes the key", same)
		}
	}
	seen := map[Key]string{key: "the plain program"}
	for _, vary := range []string{"shape", "given", "order of operands", "op", "number that is part of the program", "result in place", "one result more"} {
		got := variation(t, vary).Key
		if other, dup := seen[got]; dup {
			t.Errorf("%q has the key of %q", vary, other)
		}
		seen[got] = vary
	}
}

func TestAPlanHasWhatItNeedsInOrder(t *testing.T) {
	p := variation(t, "what is not needed")
	g := &p.Trace.Graph
	if len(p.Params) != 2 || len(p.Scalars) != 1 || len(p.Roots) != 1 {
		t.Fatalf("%d parameters, %d numbers, %d results", len(p.Params), len(p.Scalars), len(p.Roots))
	}
	place := make(map[ir.ID]int)
	for i, id := range p.Nodes {
		for _, in := range g.In(id) {
			if at, ok := place[in]; !ok || at >= i {
				t.Errorf("node %d comes before its operand %d", id, in)
			}
		}
		place[id] = i
	}
}

func TestDonors(t *testing.T) {
	r := newRecording(t)
	x, y, z := r.stored(4, false), r.stored(4, false), r.stored(4, false)
	r.write(x, r.op(opA, r.read(x)))            // a plain update: x's buffer
	r.write(y, r.op(opA, r.read(x)))            // y's old value is not read: no parameter to write into
	r.write(z, r.op(opB, r.read(z)))            // and once more: the last value counts
	r.write(z, r.op(opB, r.read(z), r.read(x))) //
	same := r.fresh(r.read(z))                  // a copy of the result
	p := r.plan()
	if len(p.Roots) != 3 {
		t.Fatalf("%d results for 4 storages, two of them equal", len(p.Roots))
	}
	leafOf := func(donor int32) int32 { return p.Params[donor] }
	for h, want := range map[alias.Handle]int32{x: 0, y: -1, z: 1} {
		c, _ := r.s.Cell(h)
		i, ok := p.RootIndex(c.Value)
		if !ok {
			t.Fatalf("storage %#x has no result", h)
		}
		got := p.Roots[i].Donor
		if got >= 0 {
			got = leafOf(got)
		}
		if got != want {
			t.Errorf("storage %#x is written into the buffer of leaf %d, want %d", h, got, want)
		}
	}
	c, _ := r.s.Cell(same)
	if _, ok := p.RootIndex(c.Value); !ok {
		t.Error("a copy of a result has none")
	}
}

func TestTwoStoragesNeverTakeOneBuffer(t *testing.T) {
	r := newRecording(t)
	x := r.stored(4, false)
	a := r.read(x)
	y := r.fresh(a) // shares x's buffer, lazily
	r.write(x, r.op(opA, a))
	r.write(y, r.op(opB, a))
	taken := make(map[int32]bool)
	for _, root := range r.plan().Roots {
		if root.Donor >= 0 && taken[root.Donor] {
			t.Error("two results are written into one buffer")
		}
		taken[root.Donor] = true
	}
}

func TestALeafIsItsOwnValue(t *testing.T) {
	r := newRecording(t)
	x := r.stored(4, false)
	r.fresh(r.read(x))
	if p := r.plan(); len(p.Roots) != 0 || len(p.Nodes) != 0 {
		t.Errorf("a copy of a buffer takes %d results and %d nodes", len(p.Roots), len(p.Nodes))
	}
}
