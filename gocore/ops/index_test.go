package ops

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// tensors is a Tensor[] argument: shapes, "" for None.
type tensors []string

// text is a str argument.
type text string

// runList is call.run for calls with arguments of the types tensors and text too.
func runList(t *testing.T, name string, args ...any) (got, module string) {
	t.Helper()
	op, ok := Lookup(name)
	if !ok {
		t.Fatalf("no row %s", name)
	}
	g := &ir.Graph{}
	var words []int64
	var in []ir.ID
	for _, a := range args {
		switch a := a.(type) {
		case tensors:
			words = append(words, wire.Tag(wire.KTensors, len(a)))
			for _, s := range a {
				id := ir.None
				if s != "" {
					sh, _ := shape.Parse(s)
					id = g.Add(ir.OpData, nil, nil, sh, 0)
				}
				in = append(in, id)
			}
		case text:
			words = append(words, wire.Tag(wire.KText, len(a)), 0)
			for i := range a {
				words[len(words)-1] |= int64(a[i]) << (8 * i)
			}
		default:
			w, ids := of(name, a).encode(t, g)
			words, in = append(words, w...), append(in, ids...)
		}
	}
	c := Ctx{DefaultFloat: dtype.F32}
	c.Begin(g, Of(op), words, in)
	if err := Of(op).Infer(&c); err != nil {
		return errs.Tagged(err), ""
	}
	b := stablehlo.NewModule("test")
	l := Lowering{B: b, Graph: g, Src: &params{b, g, map[ir.ID]value{}}}
	l.Begin(g.AddMulti(op, in, words, c.Outs()))
	Of(op).Lower(&l)
	for i, v := range l.Outs() {
		if v.Shape() != c.Outs()[i] {
			t.Errorf("%s%v: lowered to %s, the shape rule says %s", name, args, v.Shape(), c.Outs()[i])
		}
	}
	b.Return(l.Outs()...)
	out, err := b.Bytes()
	if err != nil {
		t.Fatalf("%s%v: %v", name, args, err)
	}
	return c.Outs()[0].String(), string(out)
}

func TestIndexing(t *testing.T) {
	for _, k := range []struct {
		name string
		args []any
		want string
	}{
		{"index.Tensor", []any{"f32[4,5,6]", tensors{"i64[3]"}}, "f32[3,5,6]"},
		{"index.Tensor", []any{"f32[4,5,6]", tensors{"", "i64[3]", "i64[2,1]"}}, "f32[4,2,3]"},
		{"index.Tensor", []any{"f32[4,5,6]", tensors{"i32[3]", "", "i64[]"}}, "f32[3,5]"},
		{"index.Tensor", []any{"f32[4,5,6]", tensors{"", "i64[2]", "", ""}}, "[IndexError] too many indices for tensor of dimension 3"},
		{"index.Tensor", []any{"f32[4,5]", tensors{"", ""}}, "f32[4,5]"},
		{"index.Tensor", []any{"f32[4,0]", tensors{"", "i64[2]"}}, "[IndexError] index is out of bounds for dimension with size 0"},
		{"index.Tensor", []any{"f32[4,0]", tensors{"", "i64[0]"}}, "f32[4,0]"},
		{"index.Tensor", []any{"f32[4]", tensors{"f32[2]"}}, "[IndexError] tensors used as indices must be long, int, byte or bool tensors"},
		{"index.Tensor", []any{"f32[4,5]", tensors{"i64[2]", "i64[3]"}}, "[IndexError] shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]"},
		{"index.Tensor", []any{"f32[4]", tensors{"i1[4]"}}, "[NotLoweredError] aten::index.Tensor: the size of the result depends on the values of a mask"},
		{"index_put", []any{"bf16[4,5]", tensors{"i64[3]"}, "bf16[5]", true}, "bf16[4,5]"},
		{"index_put", []any{"f32[4,5]", tensors{"i64[3]"}, "f32[4]", false}, "[RuntimeError] shape mismatch: value tensor of shape [4] cannot be broadcast to indexing result of shape [3, 5]"},
		{"index_put", []any{"f32[4,5]", tensors{"i64[3]"}, "f64[5]", false}, "[RuntimeError] Index put requires the source and destination dtypes match, got Float for the destination and Double for the source."},
		{"index_put", []any{"f32[4,5,6]", tensors{"", "i1[5,6]"}, "f64[]", false}, "f32[4,5,6]"},
		{"index_put", []any{"f32[4,5,6]", tensors{"i1[4,5]"}, "f32[6]", true}, "f32[4,5,6]"},
		{"index_put", []any{"f32[4,5,6]", tensors{"i1[4]"}, "f32[2,1,1]", false}, "[NotLoweredError] aten::index_put: where the values go depends on the values of a mask"},
		{"index_put", []any{"f32[4,5]", tensors{"i1[5]"}, "f32[]", false}, "[IndexError] The shape of the mask [5] at index 0 does not match the shape of the indexed tensor [4, 5] at index 0"},
		{"index_reduce", []any{"f32[4,5]", 0, "i64[2]", "f32[2,5]", text("mean"), false}, "f32[4,5]"},
		{"index_reduce", []any{"f32[4,5]", 0, "i64[2]", "f32[2,5]", text("sum"), true}, "[RuntimeError] index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum."},
		{"scatter_reduce.two", []any{"i64[4,5]", 1, "i64[2,9]", "i64[3,9]", text("amin"), false}, "i64[4,5]"},
		{"scatter_reduce.two", []any{"i1[4]", 0, "i64[2]", "i1[2]", text("mean"), true}, `[NotImplementedError] "scatter_gather_tensor_cpu_reduce_mean" not implemented for 'Bool'`},
		{"scatter.value_reduce", []any{"f32[4]", 0, "i64[2]", number(2), text("add")}, "f32[4]"},
		{"cat", []any{tensors{"f32[2,3]", "f32[0]", "i64[2,1]"}, -1}, "f32[2,4]"},
		{"cat", []any{tensors{"f32[2,3]", "f32[2]"}, 0}, "[RuntimeError] Tensors must have same number of dimensions: got 2 and 1"},
		{"cat", []any{tensors{"f32[2,3]", "f32[4,4]"}, 0}, "[RuntimeError] Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list."},
		{"cat", []any{tensors{}, 0}, "[ValueError] torch.cat(): expected a non-empty list of Tensors"},
		{"stack", []any{tensors{"f32[2]", "i1[2]"}, -1}, "f32[2,2]"},
		{"stack", []any{tensors{"f32[2]", "f32[3]"}, 0}, "[RuntimeError] stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"},
	} {
		if got, _ := runList(t, k.name, k.args...); got != k.want {
			t.Errorf("%s%v\n got %s\nwant %s", k.name, k.args, got, k.want)
		}
	}
}

func TestAlong(t *testing.T) {
	checkCalls(t, []inferCase{
		{of("embedding", "bf16[9,3]", "i64[2,4]", -1, false, false), "bf16[2,4,3]"},
		{of("embedding", "f32[9]", "i64[2]", -1, false, false), "[RuntimeError] 'weight' must be 2-D"},
		{of("embedding_dense_backward", "f16[2,4,3]", "i32[2,4]", 9, 1, true), "f16[9,3]"},
		{of("embedding_renorm", "f32[9,3]", "i64[2]", 1.0, 2.0), "f32[9,3]"},
		{of("index_select", "f32[4,5]", -1, "i32[2]"), "f32[4,2]"},
		{of("index_select", "f32[]", 0, "i64[1]"), "f32[]"},
		{of("index_select", "f32[4]", 0, "i64[2,2]"), "[IndexError] index_select(): Index is supposed to be a vector"},
		{of("index_add", "bf16[4,5]", 1, "i64[2]", "bf16[4,2]", number(2)), "bf16[4,5]"},
		{of("index_add", "f32[4,5]", 1, "i64[2]", "f32[3,2]", number(1)), "[RuntimeError] source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = [4, 5] source.shape = [3, 2]"},
		{of("index_copy", "f32[4,5]", 0, "i64[2]", "f32[2,4]"), "[RuntimeError] index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: 5 at dimension 0 and source slice shape: 4 at dimension 0."},
		{of("index_copy", "f32[4]", 0, "i64[]", "f32[]"), "f32[4]"},
		{of("index_fill.int_Scalar", "i64[4,5]", 0, "i64[2]", number(3)), "i64[4,5]"},
		{of("take", "f32[4,5]", "i64[2,2]"), "f32[2,2]"},
		{of("put", "f32[4,5]", "i64[2]", "f32[3]", false), "[IndexError] put_(): Expected source and index to have the same number of elements, but got source.numel() = 3, index.numel() = 2"},
		{of("gather", "f32[4,5]", 1, "i64[3,9]", false), "f32[3,9]"},
		{of("gather", "f32[4,5]", 1, "i64[5,2]", false), "[RuntimeError] Size does not match at dimension 0 expected index [5, 2] to be no larger than self [4, 5] apart from dimension 1"},
		{of("scatter.src", "f32[4,5]", 0, "i64[9,2]", "f32[9,3]"), "f32[4,5]"},
		{of("scatter.value", "i64[4,5]", 0, "i64[9,2]", ir.Number{Type: dtype.C128, Im: 1}), "[RuntimeError] value cannot be converted to type int64_t without overflow"},
		{of("masked_fill.Scalar", "i32[4,1]", "i1[5]", number(1)), "i32[4,5]"},
		{of("masked_fill.Scalar", "ui8[4]", "i1[4]", number(256)), "[RuntimeError] value cannot be converted to type uint8_t without overflow"},
		{of("masked_scatter", "f32[4]", "i1[4]", "f32[9]"), "f32[4]"},
		{of("nonzero_static", "f32[4,5]", 3, -1), "i64[3,2]"},
		{of("_embedding_bag", "f32[9,3]", "i64[5]", "i64[2]", false, 2, false, nil, false, -1), "f32[2,3] i64[5] i64[2] i64[2,3]"},
		{of("_embedding_bag", "f32[9,3]", "i32[5]", "i32[3]", false, 0, false, "f32[5]", true, -1), "f32[2,3] i32[5] i32[2] i32[2]"},
	})
}

// TestIndexTexts holds what the lowerings are made of: whole rows by one gather or scatter with narrow
// indices, masks by a select alone.
func TestIndexTexts(t *testing.T) {
	for _, k := range []struct {
		name   string
		args   []any
		has    []string
		hasNot []string
	}{
		{"embedding", []any{"f32[9,3]", "i64[4]", 1, false, false},
			[]string{"slice_sizes = array<i64: 1, 3>", "tensor<4xi32>"}, []string{"select"}},
		{"embedding_dense_backward", []any{"bf16[4,3]", "i64[4]", 9, -1, false},
			[]string{"update_window_dims = [1]", "tensor<4xi32>", "tensor<9x3xf32>"}, []string{"gather", "select"}},
		{"index.Tensor", []any{"f32[4,5,6]", tensors{"i64[3]"}}, []string{"slice_sizes = array<i64: 1, 5, 6>"}, []string{"concatenate"}},
		{"index_put", []any{"f32[4,5]", tensors{"i1[4,5]"}, "f32[]", false}, []string{"stablehlo.select"}, []string{"scatter", "gather"}},
		{"index_fill.int_Scalar", []any{"f32[4,5]", 0, "i64[2]", number(1)}, []string{"tensor<4xi1>"}, []string{"tensor<4x5xf32>, tensor<2xi32>"}},
		{"gather", []any{"f32[4,5]", 1, "i64[4,2]", false}, []string{"operand_batching_dims = [0]"}, []string{"iota", "concatenate"}},
	} {
		_, module := runList(t, k.name, k.args...)
		for _, s := range k.has {
			if !strings.Contains(module, s) {
				t.Errorf("%s lacks %q:\n%s", k.name, s, module)
			}
		}
		for _, s := range k.hasNot {
			if strings.Contains(module, s) {
				t.Errorf("%s has %q:\n%s", k.name, s, module)
			}
		}
	}
}
