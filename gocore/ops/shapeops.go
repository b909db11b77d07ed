package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// shapeRows are ops that move elements without computing with them.
var shapeRows = join(joinRows, moveRows, partRows, viewCopyRows)

// joinRows put tensors side by side.
var joinRows = []Row{
	{Name: "cat", Schema: "(Tensor[] tensors, int dim=0) -> Tensor", Strides: FormatOfAll, Overlap: Apart, Infer: inferCat, Lower: lowerCat},
	{Name: "stack", Schema: "(Tensor[] tensors, int dim=0) -> Tensor", Strides: Stacked, Overlap: Apart, Infer: inferStack, Lower: lowerStack},
}

// promoteAll is torch.result_type of a list of tensors.
func (c *Ctx) promoteAll(ids []ir.ID) (dtype.DType, error) {
	var p dtype.Promotion
	for _, id := range ids {
		p.Add(c.Graph.Shape(id).DType, category(c.Graph, id))
	}
	d := p.Result(c.DefaultFloat)
	if d == dtype.Invalid {
		return d, errs.New(errs.Runtime, "torch.cat(): input types can't be cast to one type")
	}
	return d, nil
}

// skippedInCat reports a tensor that cat ignores for the sake of old programs: a vector of nothing.
func skippedInCat(s *shape.Shape) bool { return len(s.Dims) == 1 && s.Dims[0] == 0 }

func inferCat(c *Ctx) error {
	ids := c.IDs(0)
	if len(ids) == 0 {
		return errs.New(errs.Value, "torch.cat(): expected a non-empty list of Tensors")
	}
	var first *shape.Shape
	dim := 0
	dims := c.dims[:0]
	for i, id := range ids {
		s := c.Graph.Shape(id)
		if len(s.Dims) == 0 {
			return errs.New(errs.Runtime, "zero-dimensional tensor (at position %d) cannot be concatenated", i)
		}
		if skippedInCat(s) {
			continue
		}
		if first == nil {
			var err error
			if dim, err = WrapDim(c.Int(1), len(s.Dims)); err != nil {
				return err
			}
			first, dims = s, append(dims, s.Dims...)
			continue
		}
		if err := fitsCat(first, s, dim, i); err != nil {
			return err
		}
		dims[dim] += s.Dims[dim]
	}
	if first == nil { // nothing but vectors of nothing: torch does not look at dim
		dims = append(dims, 0)
	}
	d, err := c.promoteAll(ids)
	if err != nil {
		return err
	}
	return c.Return(d, dims...)
}

func fitsCat(first, s *shape.Shape, dim, position int) error {
	if len(s.Dims) != len(first.Dims) {
		return errs.New(errs.Runtime, "Tensors must have same number of dimensions: got %d and %d", len(first.Dims), len(s.Dims))
	}
	for k, n := range s.Dims {
		if k != dim && n != first.Dims[k] {
			return errs.New(errs.Runtime, "Sizes of tensors must match except in dimension %d. Expected size %d but got size %d for tensor number %d in the list.",
				dim, first.Dims[k], n, position)
		}
	}
	return nil
}

func lowerCat(l *Lowering) {
	o := l.Out(0)
	var parts []value
	for _, id := range l.IDs(0) {
		if s := l.Graph.Shape(id); !skippedInCat(s) && s.Numel() > 0 {
			parts = append(parts, l.value(id, o.DType))
		}
	}
	if len(parts) == 0 {
		l.Return(l.omitted(0))
		return
	}
	l.Return(l.B.Concatenate(int64(acceptedDim(l.Int(1), len(o.Dims))), parts...))
}

func inferStack(c *Ctx) error {
	ids := c.IDs(0)
	if len(ids) == 0 {
		return errs.New(errs.Runtime, "stack expects a non-empty TensorList")
	}
	first := c.Graph.Shape(ids[0])
	dim, err := WrapDim(c.Int(1), len(first.Dims)+1)
	if err != nil {
		return err
	}
	for i, id := range ids[1:] {
		if s := c.Graph.Shape(id); !slices.Equal(s.Dims, first.Dims) {
			return errs.New(errs.Runtime, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
				dimsText(first.Dims), dimsText(s.Dims), i+1)
		}
	}
	d, err := c.promoteAll(ids)
	if err != nil {
		return err
	}
	return c.Return(d, append(append(append(c.dims[:0], first.Dims[:dim]...), int64(len(ids))), first.Dims[dim:]...)...)
}

func lowerStack(l *Lowering) {
	o, ids := l.Out(0), l.IDs(0)
	dim := acceptedDim(l.Int(1), len(o.Dims))
	slice := append([]int64(nil), o.Dims...)
	slice[dim] = 1
	parts := make([]value, len(ids))
	for i, id := range ids {
		parts[i] = l.B.Reshape(l.value(id, o.DType), slice)
	}
	l.Return(l.B.Concatenate(int64(dim), parts...))
}

// axisOnly is a list of rank zeros with n at dim.
func axisOnly(rank, dim int, n int64) []int64 {
	list := make([]int64, rank)
	list[dim] = n
	return list
}

// reversed is x with these dimensions turned round.
func reversed(b *stablehlo.Builder, x value, dims []int64) value {
	if len(dims) == 0 || x.Shape().Numel() == 0 {
		return x
	}
	return b.Reverse(x, dims)
}
