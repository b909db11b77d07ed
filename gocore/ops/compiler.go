package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// compilerRows are ops of torch's namespace torch_go_xla that tell the compiler what torch's cannot say.
var compilerRows = []Row{
	// Nothing is moved or fused across: every result needs all operands.
	{Name: "torch_go_xla::optimization_barrier", Schema: "(Tensor[] tensors) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error { return c.returnAll(c.Ins(0)) },
		Lower: func(l *Lowering) { l.Return(l.B.OptimizationBarrier(l.Ins(0)...)...) }},
	// The operands, without first, or the results of what becomes one operation by name; see lower/composite.go. first
	// is the first operand as it was returned; attributes is JSON, "" for none.
	{Name: "torch_go_xla::mark", Schema: "(Tensor[] tensors, Tensor? first, str name, str attributes) -> Tensor[]", Internal: true,
		Infer: func(c *Ctx) error { return c.returnAll(c.Ins(0)) },
		Lower: func(l *Lowering) { l.Return(l.Ins(0)...) }},
	// self in a memory of the device: its own, "device", or one of the host's that it reads, "pinned_host".
	{Name: "torch_go_xla::place_in", Schema: "(Tensor self, str memory) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(c.In(0).DType, c.In(0).Dims...) }, Lower: lowerPlaceIn},
	// The first value of self outside of low ≤ value < high that is not but; see Ctx.Check.
	{Name: "torch_go_xla::first_outside", Schema: "(Tensor self, int low, int high, int? but=None) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(dtype.I64, 2) }, Lower: lowerFirstOutside},
	// The first NaN or infinity of self, unless an operand has one too; see Ctx.Check.
	{Name: "torch_go_xla::first_not_finite", Schema: "(Tensor self, Tensor[] operands, int which) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error { return c.Return(dtype.I64, 2) }, Lower: lowerFirstNotFinite},
	// torch.tensordot as one product of the dimensions as they are. To reshape them to matrices would join dimensions
	// that are sharded over different axes of a mesh.
	{Name: "torch_go_xla::tensordot", Schema: "(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			x, y := c.In(0), c.In(1)
			dx, dy, err := contracted(x, y, c.Ints(2), c.Ints(3))
			if err != nil {
				return err
			}
			return c.Return(x.DType, append(without(x.Dims, dx), without(y.Dims, dy)...)...)
		},
		Lower: func(l *Lowering) {
			dx, dy, _ := contracted(l.Shape(0), l.Shape(1), l.Ints(2), l.Ints(3))
			p := l.dot(l.In(0), l.In(1), stablehlo.DotDims{LhsContract: dx, RhsContract: dy})
			l.Return(l.Convert(p, l.Out(0).DType))
		}},
}

// lowerPlaceIn annotates a value for XLA, as JAX does. The CPU's compiler has one memory and no such annotation.
func lowerPlaceIn(l *Lowering) {
	x := l.In(0)
	if !l.HostMemory {
		l.Return(x)
		return
	}
	memory := stablehlo.StringAttr("_xla_buffer_placement", l.Text(1))
	o := stablehlo.CustomCallOptions{HasSideEffect: true, Attrs: []stablehlo.Attr{stablehlo.FrontendAttrs(memory)}}
	l.Return(l.B.CustomCall("annotate_device_placement", []value{x}, []*shape.Shape{x.Shape()}, o)...)
}

// contracted is the dimensions that tensordot sums over, counted from the front.
func contracted(x, y *shape.Shape, dimsX, dimsY []int64) (dx, dy []int64, err error) {
	if x.DType != y.DType {
		return nil, nil, errs.New(errs.Runtime, "tensordot: expected operands of one type, got %s and %s", x.DType, y.DType)
	}
	if len(dimsX) != len(dimsY) {
		return nil, nil, errs.New(errs.Runtime, "tensordot: both dimension lists should have same length")
	}
	for i := range dimsX {
		k, err := WrapDim(dimsX[i], len(x.Dims))
		if err != nil {
			return nil, nil, err
		}
		m, err := WrapDim(dimsY[i], len(y.Dims))
		if err != nil {
			return nil, nil, err
		}
		if x.Dims[k] != y.Dims[m] {
			return nil, nil, errs.New(errs.Runtime, "tensordot: contracted dimensions need to match, but first has size %d in dim %d and second has size %d in dim %d", x.Dims[k], k, y.Dims[m], m)
		}
		dx, dy = append(dx, int64(k)), append(dy, int64(m))
	}
	return dx, dy, nil
}

// without is dims less those at some places.
func without(dims, places []int64) (rest []int64) {
	for i, n := range dims {
		if !slices.Contains(places, int64(i)) {
			rest = append(rest, n)
		}
	}
	return rest
}
