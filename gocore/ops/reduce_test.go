package ops

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// call is one op with arguments: the text of a shape for a tensor, ir.Number for a Scalar, int, bool,
// float64, []int64, dtype.DType, nil.
type call struct {
	op   string
	args []any
}

// of makes a call.
func of(op string, args ...any) call { return call{op, args} }

// params makes the tensors of a call parameters of a module.
type params struct {
	b     *stablehlo.Builder
	g     *ir.Graph
	given map[ir.ID]value
}

func (p *params) Value(id ir.ID) value {
	if v, ok := p.given[id]; ok {
		return v
	}
	p.given[id] = p.b.Param(p.g.Shape(id))
	return p.given[id]
}

func (p *params) Channel() int64 { return 1 }

func (p *params) Exchanged(_ ir.ID, x value) value { return x }

func (p *params) Argument(id ir.ID, d dtype.DType) value {
	n, _ := p.g.Number(id)
	return Constant(p.b, n, d)
}

// encode appends the arguments of a call to a graph.
func (k call) encode(t *testing.T, g *ir.Graph) (words []int64, in []ir.ID) {
	t.Helper()
	op, ok := Lookup(k.op)
	if !ok {
		t.Fatalf("no row %s", k.op)
	}
	for i, a := range k.args {
		if slices.Contains(Of(op).Offsets, i) {
			words, in = offset(g, a, words, in)
			continue
		}
		switch a := a.(type) {
		case nil:
			words = append(words, wire.Tag(wire.KNull, 0))
		case string:
			s, ok := shape.Parse(a)
			if !ok {
				t.Fatalf("%s: no shape %q", k.op, a)
			}
			in = append(in, g.Add(ir.OpData, nil, nil, s, 0))
			words = append(words, wire.Tag(wire.KTensor, 0))
		case ir.Number:
			in = append(in, g.AddNumber(a, ir.Wrapped, false))
			words = append(words, wire.Tag(wire.KFloat, 0))
		case int:
			words = append(words, wire.Tag(wire.KConst, 0), int64(a))
		case bool:
			w := int64(0)
			if a {
				w = 1
			}
			words = append(words, wire.Tag(wire.KConst, 0), w)
		case float64:
			words = append(words, wire.Tag(wire.KConstF, 0), int64(math.Float64bits(a)))
		case []int64:
			words = append(append(words, wire.Tag(wire.KInts, len(a))), a...)
		case dtype.DType:
			words = append(words, wire.Tag(wire.KType, 0), int64(a.TorchCode()))
		default:
			t.Fatalf("%s: an argument of type %T", k.op, a)
		}
	}
	return words, in
}

// offset appends an argument of Row.Offsets.
func offset(g *ir.Graph, a any, words []int64, in []ir.ID) ([]int64, []ir.ID) {
	tag, list := wire.Tag(wire.KInt, 0), []int64(nil)
	switch a := a.(type) {
	case nil:
		tag = wire.Tag(wire.KNull, 0)
	case int:
		list = []int64{int64(a)}
	case []int64:
		tag, list = wire.Tag(wire.KScalars, len(a)), a
	}
	for _, n := range list {
		in = append(in, g.AddArgument(ir.Number{Type: dtype.I64, I: n}, 0))
	}
	return append(words, tag), in
}

// run gives the shapes of the results, or "[Class] message". Where the shape rule accepts the call, it
// checks that the lowering gives values of just these shapes; module is its text.
func (k call) run(t *testing.T) (got, module string) {
	t.Helper()
	op, ok := Lookup(k.op)
	if !ok {
		t.Fatalf("no row %s", k.op)
	}
	row, g := Of(op), &ir.Graph{}
	words, in := k.encode(t, g)
	c := Ctx{DefaultFloat: dtype.F32}
	c.Begin(g, row, words, in)
	if err := row.Infer(&c); err != nil {
		return errs.Tagged(err), ""
	}
	shapes := make([]string, len(c.Outs()))
	for i, s := range c.Outs() {
		shapes[i] = s.String()
	}
	b := stablehlo.NewModule("test")
	l := Lowering{B: b, Graph: g, Src: &params{b, g, map[ir.ID]value{}}}
	l.Begin(g.AddMulti(op, in, words, c.Outs()))
	row.Lower(&l)
	if err := b.Err(); err != nil {
		t.Fatalf("%s%v: %v", k.op, k.args, err)
	}
	lowered := make([]string, len(l.Outs()))
	for i, v := range l.Outs() {
		lowered[i] = v.Shape().String()
	}
	if want := fmt.Sprint(shapes); fmt.Sprint(lowered) != want {
		t.Errorf("%s%v: lowered to %v, the shape rule says %s", k.op, k.args, lowered, want)
	}
	b.Return(l.Outs()...)
	text, err := b.Bytes()
	if err != nil {
		t.Fatalf("%s%v: %v", k.op, k.args, err)
	}
	return strings.Join(shapes, " "), string(text)
}

func number(f float64) ir.Number { return ir.Number{Type: dtype.F64, F: f} }

type inferCase struct {
	call
	want string
}

func checkCalls(t *testing.T, cases []inferCase) {
	t.Helper()
	for _, k := range cases {
		if got, _ := k.run(t); got != k.want {
			t.Errorf("%s%v\n got %s\nwant %s", k.op, k.args, got, k.want)
		}
	}
}

func TestReductions(t *testing.T) {
	none := []int64{}
	checkCalls(t, []inferCase{
		{of("sum", "f32[2,3]", nil), "f32[]"},
		{of("sum", "i1[2,3]", nil), "i64[]"},
		{of("sum", "f16[2,3]", dtype.F64), "f64[]"},
		{of("sum.dim_IntList", "f32[2,3]", []int64{-1}, true, nil), "f32[2,1]"},
		{of("sum.dim_IntList", "f32[2,3]", none, false, nil), "f32[]"},
		{of("sum.dim_IntList", "f32[]", []int64{0}, true, nil), "f32[]"},
		{of("sum.dim_IntList", "f32[2,3]", []int64{0, -2}, false, nil), "[RuntimeError] dim 0 appears multiple times in the list of dims"},
		{of("sum.dim_IntList", "f32[2]", []int64{1}, false, nil), "[IndexError] Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
		{of("mean", "i64[3]", nil), "[NotImplementedError] mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long"},
		{of("any.dims", "ui8[2,3]", none, false), "ui8[2,3]"},
		{of("all.dims", "f32[2,3]", nil, true), "i1[1,1]"},
		{of("amax", "bf16[2,3,4]", []int64{0, 2}, false), "bf16[3]"},
		{of("amax", "f32[0,3]", none, false), "[RuntimeError] amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."},
		{of("max.dim", "f32[2,3]", 1, false), "f32[2] i64[2]"},
		{of("max.dim", "f32[0,3]", 0, false), "[IndexError] max(): Expected reduction dim 0 to have non-zero size."},
		{of("argmax", "f32[2,3]", nil, true), "i64[1,1]"},
		{of("argmin", "i1[2,3]", nil, false), "[NotImplementedError] argmin(): does not support bool input"},
		{of("aminmax", "f32[2,3]", 0, true), "f32[1,3] f32[1,3]"},
		{of("var_mean.correction", "complex<f32>[2,3]", []int64{1}, number(1), false), "f32[2] complex<f32>[2]"},
		{of("std.correction", "i64[2]", nil, nil, false), "[NotImplementedError] std and var only support floating point and complex dtypes"},
		{of("linalg_vector_norm", "f32[2,3]", number(math.Inf(1)), []int64{0}, false, nil), "f32[3]"},
		{of("linalg_vector_norm", "f32[0]", number(math.Inf(-1)), nil, false, nil), "[RuntimeError] linalg.vector_norm cannot compute the -inf norm on an empty tensor because the operation does not have an identity"},
		{of("logsumexp", "i64[2,3]", []int64{1}, true), "f32[2,1]"},
		{of("cumsum", "i1[2,3]", 1, nil), "i64[2,3]"},
		{of("cummax", "i1[2,3]", 0), "i1[2,3] i64[2,3]"},
		{of("logcumsumexp", "f32[40,3]", 0), "f32[40,3]"},
		{of("logcumsumexp", "complex<f32>[40]", 0), "complex<f32>[40]"},
		{of("median", "f32[0]"), "f32[]"},
		{of("nanmedian.dim", "f32[4,3]", 0, true), "f32[1,3] i64[1,3]"},
		{of("mode", "i1[4,3]", 0, false), "i1[3] i64[3]"},
		{of("kthvalue", "f32[4,3]", 4, -1, false), "[RuntimeError] kthvalue(): selected number k out of range for dimension 1"},
		{of("renorm", "f32[4]", number(2), 0, number(1)), "[RuntimeError] renorm: input needs at least 2 dimensions, got 1 dimensions"},
		{of("_cdist_forward", "f32[5,1,3,2]", "f32[4,6,2]", 1.0, nil), "f32[5,4,3,6]"},
		{of("_cdist_backward", "f32[5,4,3,6]", "f32[5,1,3,2]", "f32[4,6,2]", 3.0, "f32[5,4,3,6]"), "f32[5,4,3,2]"},
		{of("_pdist_forward", "f32[4,3]", 2.0), "f32[6]"},
		{of("_pdist_backward", "f32[6]", "f32[4,3]", 2.0, "f32[6]"), "f32[4,3]"},
	})
}

// A sum in half precision adds in float32, and keepdim is a reshape.
func TestSumText(t *testing.T) {
	_, got := of("sum.dim_IntList", "bf16[2,3]", []int64{1}, true, nil).run(t)
	for _, line := range []string{
		`"stablehlo.convert"(%0) : (tensor<2x3xbf16>) -> tensor<2x3xf32>`,
		`{dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>`,
		`"stablehlo.reshape"(%7) : (tensor<2xbf16>) -> tensor<2x1xbf16>`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
}

func TestDimSet(t *testing.T) {
	s, err := dimsOf([]int64{-1, 0}, 3)
	if err != nil || fmt.Sprint(s.list()) != "[0 2]" {
		t.Errorf("%v, %v", s.list(), err)
	}
	if got := allDims(64).list(); len(got) != 64 {
		t.Errorf("%d of 64 dimensions", len(got))
	}
}

func TestReductionsAllocateNothing(t *testing.T) {
	k := of("sum.dim_IntList", "f32[2,3]", []int64{1}, false, nil)
	op, _ := Lookup(k.op)
	g, row := &ir.Graph{}, Of(op)
	words, in := k.encode(t, g)
	c := Ctx{DefaultFloat: dtype.F32}
	if n := testing.AllocsPerRun(100, func() {
		c.Begin(g, row, words, in)
		if err := row.Infer(&c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
