package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// viewCopyRows are the forms of views that make new tensors: what torch's functionalization, and with it
// torch.export, turns views into. Those with a list of results are torch's own compositions.
var viewCopyRows = []Row{
	sameCopy("alias_copy", unarySchema).exactOut(), sameCopy("detach_copy", unarySchema), sameCopy("lift_fresh_copy", unarySchema),
	reshaped("view_copy", "(Tensor self, SymInt[] size) -> Tensor", viewSize).exactOut(),
	reshaped("_reshape_copy", "(Tensor self, SymInt[] size) -> Tensor", viewSize),
	reshaped("unsqueeze_copy", "(Tensor self, int dim) -> Tensor", func(c *Ctx) ([]int64, error) {
		s := c.In(0)
		d, err := WrapDim(c.Int(1), len(s.Dims)+1)
		if err != nil {
			return nil, err
		}
		return append(append(append(c.dims[:0], s.Dims[:d]...), 1), s.Dims[d:]...), nil
	}).exactOut(),
	reshaped("squeeze_copy", unarySchema, func(c *Ctx) ([]int64, error) { return c.squeezed(allDims(len(c.In(0).Dims))), nil }).exactOut(),
	reshaped("squeeze_copy.dim", "(Tensor self, int dim) -> Tensor", squeezeSize).exactOut(),
	reshaped("squeeze_copy.dims", "(Tensor self, int[] dim) -> Tensor", squeezeSize).exactOut(),
	{Name: "expand_copy", Schema: "(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor", ExactOut: true, Infer: inferExpand,
		Lower: func(l *Lowering) { l.Return(l.B.Broadcast(l.In(0), l.Out(0).Dims)) }},
	transposed("permute_copy", "(Tensor self, int[] dims) -> Tensor", permutation).exactOut(),
	transposed("transpose_copy.int", "(Tensor self, int dim0, int dim1) -> Tensor", func(dims []int64, args []int64) ([]int64, error) {
		i, err := WrapDim(args[0], len(dims))
		if err != nil {
			return nil, err
		}
		j, err := WrapDim(args[1], len(dims))
		if err != nil {
			return nil, err
		}
		return swapped(len(dims), i, j), nil
	}).exactOut(),
	transposed("t_copy", unarySchema, func(dims []int64, _ []int64) ([]int64, error) {
		if len(dims) > 2 {
			return nil, errs.New(errs.Runtime, "t() expects a tensor with <= 2 dimensions, but self is %dD", len(dims))
		}
		return swapped(len(dims), 0, len(dims)-1), nil
	}).exactOut(),
	{Name: "select_copy.int", Schema: "(Tensor self, int dim, SymInt index) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			dim, _, err := selected(s.Dims, c.Int(1), c.Int(2))
			if err != nil {
				return err
			}
			return c.Return(s.DType, append(append(c.dims[:0], s.Dims[:dim]...), s.Dims[dim+1:]...)...)
		},
		Lower: func(l *Lowering) {
			dim, at, err := selected(l.Shape(0).Dims, l.Int(1), l.Int(2))
			if err != nil {
				l.B.Failf("select_copy", nil, "%v", err)
			}
			l.Return(l.finish(0, l.B.SliceDim(l.In(0), int64(dim), at, at+1, 1)))
		}},
	{Name: "slice_copy.Tensor", Schema: "(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			p, err := sliced(s.Dims, c.Int(1), c.IntOr(2, 0), c.IntOr(3, math.MaxInt64), c.IntOr(4, 1))
			if err != nil {
				return err
			}
			dims := append(c.dims[:0], s.Dims...)
			dims[p.dim] = p.n
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) {
			p, err := sliced(l.Shape(0).Dims, l.Int(1), l.IntOr(2, 0), l.IntOr(3, math.MaxInt64), l.IntOr(4, 1))
			if err != nil {
				l.B.Failf("slice_copy", nil, "%v", err)
			}
			l.Return(l.part(p))
		}},
	{Name: "narrow_copy", Schema: "(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", ExactOut: true, Infer: inferNarrow,
		Lower: func(l *Lowering) {
			dim, start := acceptedDim(l.Int(1), len(l.Shape(0).Dims)), l.Int(2)
			if start < 0 {
				start += l.Shape(0).Dims[dim]
			}
			l.Return(l.part(slicing{dim: dim, start: start, step: 1, n: l.Int(3)}))
		}},
	{Name: "view_copy.dtype", Schema: "(Tensor self, ScalarType dtype) -> Tensor", ExactOut: true, Infer: inferViewType,
		Lower: func(l *Lowering) { l.Return(l.B.Reshape(bitcast(l.B, l.In(0), l.Type(1)), l.Out(0).Dims)) }},
	{Name: "view_as_real_copy", Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if !s.DType.IsComplex() {
				return errs.New(errs.Runtime, "view_as_real is only supported for complex tensors")
			}
			return c.Return(s.DType.ToReal(), append(append(c.dims[:0], s.Dims...), 2)...)
		},
		Lower: func(l *Lowering) {
			x, o := l.In(0), l.Out(0)
			half := append(slices.Clone(o.Dims[:len(o.Dims)-1]), 1)
			re, im := l.B.Reshape(l.B.Real(x), half), l.B.Reshape(l.B.Imag(x), half)
			l.Return(l.B.Concatenate(int64(len(half)-1), re, im))
		}},
	{Name: "view_as_complex_copy", Schema: unarySchema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			switch {
			case s.DType != dtype.F32 && s.DType != dtype.F64:
				return errs.New(errs.Runtime, "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: %s", s.DType.C10())
			case len(s.Dims) == 0:
				return errs.New(errs.Runtime, "Input tensor must have one or more dimensions")
			case s.Dims[len(s.Dims)-1] != 2:
				return errs.New(errs.Runtime, "Tensor must have a last dimension of size 2")
			}
			return c.Return(s.DType.ToComplex(), s.Dims[:len(s.Dims)-1]...)
		},
		Lower: func(l *Lowering) {
			x, dims := l.In(0), l.Out(0).Dims
			last := int64(len(dims))
			part := func(i int64) value { return l.B.Reshape(l.B.SliceDim(x, last, i, i+1, 1), dims) }
			l.Return(l.B.Complex(part(0), part(1)))
		}},
}

func sameCopy(name, schema string) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(0)) },
		Lower: func(l *Lowering) { l.Return(l.In(0)) }}
}

// reshaped keeps the elements and their order.
func reshaped(name, schema string, size func(c *Ctx) ([]int64, error)) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			dims, err := size(c)
			if err != nil {
				return err
			}
			return c.Return(c.In(0).DType, dims...)
		},
		Lower: func(l *Lowering) { l.Return(l.B.Reshape(l.In(0), l.Out(0).Dims)) }}
}

// viewSize is torch's infer_size: one size may be −1.
func viewSize(c *Ctx) ([]int64, error) {
	n, size := c.In(0).Numel(), c.Ints(1)
	dims := append(c.dims[:0], size...)
	open, known := -1, int64(1)
	for i, d := range dims {
		switch {
		case d == -1 && open >= 0:
			return nil, errs.New(errs.Runtime, "only one dimension can be inferred")
		case d == -1:
			open = i
		case d < 0:
			return nil, errs.New(errs.Runtime, "invalid shape dimension %d at index %d of shape %s", d, i, dimsText(size))
		default:
			known *= d
		}
	}
	switch {
	case open >= 0 && known == 0 && n == 0:
		return nil, errs.New(errs.Runtime, "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value and is ambiguous", dimsText(size))
	case open >= 0 && known > 0 && n%known == 0:
		dims[open] = n / known
	case open >= 0 || known != n:
		return nil, errs.New(errs.Runtime, "shape '%s' is invalid for input of size %d", dimsText(size), n)
	}
	return dims, nil
}

// squeezed is the dimensions of self without those of size 1 in the set.
func (c *Ctx) squeezed(set dimSet) []int64 {
	dims := c.dims[:0]
	for i, n := range c.In(0).Dims {
		if n != 1 || !set.has(i) {
			dims = append(dims, n)
		}
	}
	return dims
}

func squeezeSize(c *Ctx) ([]int64, error) {
	set, err := dimsOf(c.Ints(1), len(c.In(0).Dims))
	if err != nil {
		return nil, err
	}
	return c.squeezed(set), nil
}

func inferExpand(c *Ctx) error {
	s, size := c.In(0), c.Ints(1)
	missing := len(size) - len(s.Dims)
	if missing < 0 {
		return checkExpand(s, size...)
	}
	dims := append(c.dims[:0], size...)
	for i, n := range dims {
		if n != -1 {
			continue
		}
		if i < missing {
			return errs.New(errs.Runtime, "The expanded size of the tensor (%d) isn't allowed in a leading, non-existing dimension %d", n, i)
		}
		dims[i] = s.Dims[i-missing]
	}
	if err := checkExpand(s, dims...); err != nil {
		return err
	}
	return c.Return(s.DType, dims...)
}

// transposed permutes dimensions; order gets those of self and the list in argument 1 (or arguments 1 and 2).
func transposed(name, schema string, order func(dims, args []int64) ([]int64, error)) Row {
	given := func(list []int64, second int64, two bool) []int64 {
		if two {
			return []int64{list[0], second}
		}
		return list
	}
	two := name == "transpose_copy.int"
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			perm, err := order(s.Dims, given(c.Ints(1), c.Int(2), two))
			if err != nil {
				return err
			}
			dims := c.dims[:0]
			for _, p := range perm {
				dims = append(dims, s.Dims[p])
			}
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) {
			perm, err := order(l.Shape(0).Dims, given(l.Ints(1), l.Int(2), two))
			if err != nil {
				l.B.Failf(name, nil, "%v", err)
			}
			l.Return(l.B.Transpose(l.In(0), perm))
		}}
}

func permutation(dims, args []int64) ([]int64, error) {
	if len(args) != len(dims) {
		return nil, errs.New(errs.Runtime, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
			len(dims), len(args))
	}
	perm := make([]int64, len(args))
	var seen dimSet
	for i, d := range args {
		p, err := WrapDim(d, len(dims))
		if err != nil {
			return nil, err
		}
		if seen.has(p) {
			return nil, errs.New(errs.Runtime, "permute(): duplicate dims are not allowed.")
		}
		seen |= 1 << p
		perm[i] = int64(p)
	}
	return perm, nil
}

// swapped is the permutation of rank dimensions that exchanges two.
func swapped(rank, i, j int) []int64 {
	perm := allDims(rank).list()
	if rank > 1 {
		perm[i], perm[j] = perm[j], perm[i]
	}
	return perm
}

// part is a slice of argument 0.
func (l *Lowering) part(p slicing) value {
	if p.n == 0 {
		return l.omitted(0)
	}
	return l.B.SliceDim(l.In(0), int64(p.dim), p.start, p.start+(p.n-1)*p.step+1, p.step)
}

func inferNarrow(c *Ctx) error {
	s, start, length := c.In(0), c.Int(2), c.Int(3)
	if len(s.Dims) == 0 {
		return errs.New(errs.Runtime, "narrow() cannot be applied to a 0-dim tensor.")
	}
	dim, err := WrapDim(c.Int(1), len(s.Dims))
	if err != nil {
		return err
	}
	size := s.Dims[dim]
	if start < -size || start > size {
		return errs.New(errs.Index, "start out of range (expected to be in range of [%d, %d], but got %d)", -size, size, start)
	}
	if start < 0 {
		start += size
	}
	switch {
	case length < 0:
		return errs.New(errs.Runtime, "narrow(): length must be non-negative.")
	case start+length > size:
		return errs.New(errs.Runtime, "start (%d) + length (%d) exceeds dimension size (%d).", start, length, size)
	}
	dims := append(c.dims[:0], s.Dims...)
	dims[dim] = length
	return c.Return(s.DType, dims...)
}

// inferViewType is torch's rule for reading the bytes as another type: the last dimension scales.
func inferViewType(c *Ctx) error {
	s, d := c.In(0), c.Type(1)
	have, want := int64(s.DType.Size()), int64(d.Size())
	if have == want {
		return c.Return(d, s.Dims...)
	}
	if len(s.Dims) == 0 {
		return errs.New(errs.Runtime, "self.dim() cannot be 0 to view %s as %s (different element sizes)", s.DType.C10(), d.C10())
	}
	dims := append(c.dims[:0], s.Dims...)
	last := &dims[len(dims)-1]
	if *last*have%want != 0 {
		return errs.New(errs.Runtime, "self.size(-1) must be divisible by %d to view %s as %s (different element sizes), but got %d", want/have, s.DType.C10(), d.C10(), *last)
	}
	*last = *last * have / want
	return c.Return(d, dims...)
}
