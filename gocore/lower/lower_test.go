package lower

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// buffer is a device buffer without data.
type buffer struct{ given bool }

func (b *buffer) Retain()                      {}
func (b *buffer) Release()                     {}
func (b *buffer) Err() error                   { return nil }
func (b *buffer) Donating() bool               { return b.given }
func (b *buffer) Sharding() *sharding.Sharding { return nil }

// update is the plan of x += 0.1, x of four f32 in a buffer, and the result of an op more if it is not 0.
func update(t *testing.T, given bool, more ir.Op) *lazy.Plan {
	t.Helper()
	s := alias.NewStore(1)
	h, err := s.New(16, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.SetDevice(s.Slot(h), shape.Make(dtype.F32, 4), &buffer{given})
	v := alias.View{Handle: h, Type: dtype.F32, View: strided.View{Size: []int64{4}, Stride: []int64{1}}}
	x, err := s.Read(&v)
	if err != nil {
		t.Fatal(err)
	}
	g := &s.Trace(0).Graph
	n := g.AddNumber(ir.Number{Type: dtype.F64, F: 0.1}, ir.Wrapped, false)
	add, ok := ops.Lookup("add.Tensor")
	if !ok {
		t.Fatal("no row add.Tensor")
	}
	words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KFloat, 0), wire.Tag(wire.KInt, 0)}
	one := g.AddNumber(ir.Number{Type: dtype.I64, I: 1}, 0, true)
	sum := g.Add(add, []ir.ID{x, n, one}, words, shape.Make(dtype.F32, 4), 0)
	if more != 0 {
		sum = g.Add(more, []ir.ID{sum}, []int64{wire.Tag(wire.KTensor, 0)}, shape.Make(dtype.F32, 4), 0)
	}
	if err := s.Write(&v, sum); err != nil {
		t.Fatal(err)
	}
	p := new(lazy.Plan)
	p.Build(s, s.Trace(0), []uint32{s.Slot(h)}, nil)
	return p
}

func TestNumbersAndDonors(t *testing.T) {
	p, err := Lower(update(t, false, 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Donors) != 1 || p.Donors[0] != 0 || len(p.Packs) != 1 || p.Packs[0] != dtype.F32 {
		t.Errorf("donors %v, packs %v", p.Donors, p.Packs)
	}
	for _, want := range []string{"tf.aliasing_output = 0", "%1: tensor<1xf32>", "stablehlo.add"} {
		if !strings.Contains(string(p.Module), want) {
			t.Errorf("no %q in\n%s", want, p.Module)
		}
	}
}

func TestAGivenBufferIsADonor(t *testing.T) {
	plan := update(t, true, 0)
	for i := range plan.Roots {
		plan.Roots[i].Donor = -1
	}
	p, err := Lower(plan, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(p.Module), "jax.buffer_donor") {
		t.Errorf("the buffer is not given away in\n%s", p.Module)
	}
}

// A row whose lowering does not give the shape that its rule promised is found here, not by the compiler.
func TestALoweringOfAnotherShapeIsAnError(t *testing.T) {
	plan := update(t, false, 0)
	g := &plan.Trace.Graph
	g.At(plan.Roots[0].ID).Shape = shape.Make(dtype.F32, 5)
	if _, err := Lower(plan, Options{}); err == nil || !strings.Contains(err.Error(), "add") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnOpThatTheTableLacks(t *testing.T) {
	last := ir.FirstRow + ir.Op(len(ops.Table))
	_, err := Lower(update(t, false, last), Options{})
	if err == nil || errs.KindOf(err) == errs.Xla {
		t.Errorf("the error is %v", err)
	}
}
