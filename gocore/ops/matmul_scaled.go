package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// scaledProductRows are the products of quantized matrices and the product of three tensors.
var scaledProductRows = []Row{
	{Name: "_int_mm", Unsafe: true, Schema: "(Tensor self, Tensor mat2) -> Tensor",
		Infer: func(c *Ctx) error {
			a, b := c.In(0), c.In(1)
			if a.DType != dtype.I8 && a.DType != dtype.U8 {
				return errs.New(errs.Runtime, "int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got %s", cppName(a.DType))
			}
			if b.DType != dtype.I8 {
				return errs.New(errs.Runtime, "int_mm_out_cpu: Expected mat2 dtype to be int8 but got %s", cppName(b.DType))
			}
			if err := checkMatrices(c.Row.Name, a, b); err != nil {
				return err
			}
			return c.Return(dtype.I32, a.Dims[0], b.Dims[1])
		},
		Lower: func(l *Lowering) {
			x, y := l.In(0), l.In(1)
			if x.DType() != y.DType() {
				x, y = l.Convert(x, dtype.I32), l.Convert(y, dtype.I32)
			}
			l.Return(l.B.DotGeneral(x, y, stablehlo.DotDims{LhsContract: []int64{1}, RhsContract: []int64{0}, Result: dtype.I32}))
		}},
	{Name: "_scaled_mm", Unsafe: true, Schema: "(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
		Infer: inferScaledMM, Lower: lowerScaledMM},
	{Name: "_trilinear", Schema: "(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor",
		Infer: inferTrilinear, Lower: lowerTrilinear},
}

func inferScaledMM(c *Ctx) error {
	a, b := c.In(0), c.In(1)
	if err := checkMatrices(c.Row.Name, a, b); err != nil {
		return err
	}
	if !a.DType.IsF8() || !b.DType.IsF8() {
		return errs.New(errs.Runtime, "Expected both operands to be of an fp8 type, but got %s and %s", a.DType.C10(), b.DType.C10())
	}
	sa, sb := c.In(2), c.In(3)
	perTensor := sa.Numel() == 1 && sb.Numel() == 1
	perRow := sa.Rank() == 2 && sb.Rank() == 2 && sa.Dims[0] == a.Dims[0] && sa.Dims[1] == 1 && sb.Dims[0] == 1 && sb.Dims[1] == b.Dims[1]
	if !perTensor && !perRow {
		return errs.New(errs.Runtime, "Invalid scaling configuration: scale_a %s and scale_b %s for a product of %s and %s",
			dimsText(sa.Dims), dimsText(sb.Dims), dimsText(a.Dims), dimsText(b.Dims))
	}
	if bias := c.In(4); bias != nil && bias.Numel() != b.Dims[1] {
		return errs.New(errs.Runtime, "Bias must be size %d but got %d", b.Dims[1], bias.Numel())
	}
	d := c.Type(6)
	if d == dtype.Invalid {
		d = a.DType
	}
	return c.Return(d, a.Dims[0], b.Dims[1])
}

// lowerScaledMM scales the f32 product; a result scale applies only to fp8 results, as in torch.
func lowerScaledMM(l *Lowering) {
	b, o := l.B, l.Out(0)
	p := l.product(l.In(0), l.In(1))
	for _, i := range []int{2, 3} {
		s := l.As(i, dtype.F32)
		if s.Shape().Numel() == 1 {
			s = b.Reshape(s, nil)
		}
		p = b.Multiply(p, b.Broadcast(s, p.Dims()))
	}
	if l.Has(4) {
		bias := b.Reshape(l.As(4, dtype.F32), []int64{o.Dims[1]})
		p = b.Add(p, b.Broadcast(bias, p.Dims()))
	}
	if l.Has(5) && o.DType.IsF8() {
		p = b.Multiply(p, b.Broadcast(b.Reshape(l.As(5, dtype.F32), nil), p.Dims()))
	}
	l.Return(l.Convert(p, o.DType))
}

// inferTrilinear unsqueezes each operand at its expand list, and drops the summed dimensions of their
// common shape.
func inferTrilinear(c *Ctx) error {
	dims, err := trilinearDims(c.In(0).Dims, c.Ints(3))
	for i := 1; i < 3 && err == nil; i++ {
		var other []int64
		if other, err = trilinearDims(c.In(i).Dims, c.Ints(3+i)); err != nil {
			break
		}
		if len(other) != len(dims) {
			return errs.New(errs.Runtime, "_trilinear: operands of different rank after expansion: %s, %s", dimsText(dims), dimsText(other))
		}
		for k, n := range other {
			if dims[k] == 1 {
				dims[k] = n
			} else if n != 1 && n != dims[k] {
				return errs.New(errs.Runtime, "The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton dimension %d", dims[k], n, k)
			}
		}
	}
	if err != nil {
		return err
	}
	if len(c.Ints(6)) == 0 {
		return c.Return(c.In(0).DType, dims...)
	}
	sum, err := WrapDims(c.Ints(6), len(dims))
	if err != nil {
		return err
	}
	kept := dims[:0]
	for i, n := range dims {
		if !sum[i] {
			kept = append(kept, n)
		}
	}
	return c.Return(c.In(0).DType, kept...)
}

func trilinearDims(dims, expand []int64) ([]int64, error) {
	rank := len(dims) + len(expand)
	out := make([]int64, rank)
	for _, d := range expand {
		i, err := WrapDim(d, rank)
		if err != nil {
			return nil, err
		}
		out[i] = 1
	}
	k := 0
	for i := range out {
		if out[i] == 0 && k < len(dims) {
			out[i] = dims[k]
			k++
		}
	}
	return out, nil
}

// lowerTrilinear is one fused loop of products with a sum.
func lowerTrilinear(l *Lowering) {
	b, o := l.B, l.Out(0)
	d := o.DType.Accumulate()
	var xs [3]value
	var dims []int64
	for i := range xs {
		own, _ := trilinearDims(l.Shape(i).Dims, l.Ints(3+i))
		xs[i] = b.Reshape(l.As(i, d), own)
		if dims == nil {
			dims = make([]int64, len(own))
		}
		for k, n := range own {
			if i == 0 || dims[k] == 1 {
				dims[k] = n
			}
		}
	}
	for i := range xs {
		xs[i] = b.Broadcast(xs[i], dims)
	}
	p := b.Multiply(b.Multiply(xs[0], xs[1]), xs[2])
	var sum []int64
	for _, s := range l.Ints(6) {
		k, _ := WrapDim(s, len(dims))
		sum = append(sum, int64(k))
	}
	l.Return(l.Convert(b.ReduceSum(p, sum), o.DType))
}
