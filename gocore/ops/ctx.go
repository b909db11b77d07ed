package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// Ctx is what a shape rule sees: the arguments by their position in the schema (through ir.Args) and the shapes of the
// operands. It has the place for the results. One Ctx is reused for every op.
type Ctx struct {
	ir.Args
	Graph *ir.Graph
	Row   *Row
	// DefaultFloat is torch's default dtype.
	DefaultFloat dtype.DType
	// Partitions is the number of devices that SPMD spreads the graph over; 0 without SPMD.
	Partitions int
	// Functions are those that control flow calls, by name.
	Functions map[string]*stablehlo.Function
	// Replicas is the number of processes that run programs together; 1 if this is the only one.
	Replicas int
	outs     []*shape.Shape
	dims     [32]int64 // scratch of Dims
}

// Begin points c at an op about to be recorded.
func (c *Ctx) Begin(g *ir.Graph, row *Row, words []int64, in []ir.ID) {
	c.Graph, c.Row, c.outs = g, row, c.outs[:0]
	c.Decode(g, words, in)
}

// Outs is the shapes returned by the rule.
func (c *Ctx) Outs() []*shape.Shape { return c.outs }

// In is the shape of a Tensor argument (shape [] of its own type for a number in its place); nil if
// it is None.
func (c *Ctx) In(i int) *shape.Shape {
	if id := c.ID(i); id != ir.None {
		return c.Graph.Shape(id)
	}
	return nil
}

// Ins is the shapes of a Tensor[] argument, nil entries for None.
func (c *Ctx) Ins(i int) []*shape.Shape {
	ids := c.IDs(i)
	s := make([]*shape.Shape, len(ids))
	for k, id := range ids {
		if id != ir.None {
			s[k] = c.Graph.Shape(id)
		}
	}
	return s
}

// category is how a value counts in type promotion.
func category(g *ir.Graph, id ir.ID) dtype.Category {
	n := g.At(id)
	switch {
	case n.Flags&ir.Wrapped != 0:
		return dtype.Wrapped
	case len(n.Shape.Dims) == 0:
		return dtype.ZeroDim
	}
	return dtype.Dimensioned
}

// Promote is torch.result_type of the Tensor and Scalar arguments at these positions; None is skipped. Types that
// torch does not promote are torch's RuntimeError.
func (c *Ctx) Promote(args ...int) (dtype.DType, error) {
	return promote(&c.Args, c.Graph, c.DefaultFloat, args)
}

func promote(a *ir.Args, g *ir.Graph, def dtype.DType, args []int) (dtype.DType, error) {
	var p dtype.Promotion
	var first, last *shape.Shape
	for _, i := range args {
		id := a.ID(i)
		if id == ir.None {
			continue
		}
		n := g.At(id)
		if first == nil {
			first = n.Shape
		}
		last = n.Shape
		p.Add(n.Shape.DType, category(g, id))
	}
	d := p.Result(def)
	if d == dtype.Invalid {
		return d, errs.New(errs.Runtime, "Promotion for %s and %s is not supported", first.DType.Torch(), last.DType.Torch())
	}
	return d, nil
}

// Broadcast is the common dimensions of the Tensor arguments at these positions; None is skipped.
// Sizes that do not match are torch's RuntimeError. The result is scratch memory, good until the next call.
func (c *Ctx) Broadcast(args ...int) ([]int64, error) {
	dims := c.dims[:0]
	for _, i := range args {
		s := c.In(i)
		if s == nil {
			continue
		}
		if len(s.Dims) == 0 {
			continue
		}
		if len(dims) == 0 {
			dims = append(dims, s.Dims...)
			continue
		}
		var scratch [32]int64
		d, bad, ok := shape.Broadcast(scratch[:0], dims, s.Dims)
		if !ok {
			a, b := at(dims, bad, len(s.Dims)), at(s.Dims, bad, len(dims))
			return nil, errs.New(errs.Runtime, "The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton dimension %d", a, b, bad)
		}
		dims = append(dims[:0], d...)
	}
	return dims, nil
}

// at is the size at dimension i of a broadcast with a partner of rank other.
func at(dims []int64, i, other int) int64 {
	if k := i - max(other-len(dims), 0); k >= 0 {
		return dims[k]
	}
	return 1
}

// Return gives the next result its shape. Its error is always nil: an Infer function ends with it.
func (c *Ctx) Return(d dtype.DType, dims ...int64) error {
	c.outs = append(c.outs, shape.Of(d, dims))
	return nil
}

// ReturnLike gives the next result the shape s. Its error is nil, as that of Return.
func (c *Ctx) ReturnLike(s *shape.Shape) error {
	c.outs = append(c.outs, s)
	return nil
}

// Dim wraps a dimension number of a tensor of this rank: torch's maybe_wrap_dim, IndexError included.
func (c *Ctx) Dim(d int64, rank int) (int, error) { return WrapDim(d, rank) }

// WrapDim is torch's maybe_wrap_dim: −rank ≤ d < rank, or torch's IndexError; a 0-dim tensor counts as rank 1.
func WrapDim(d int64, rank int) (int, error) {
	n := int64(max(rank, 1))
	if d < -n || d >= n {
		return 0, errs.New(errs.Index, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -n, n-1, d)
	}
	if d < 0 {
		d += n
	}
	return int(d), nil
}

// WrapDims is a set of dimensions as a mask by dimension; an empty list means all of them. A dimension
// named twice is torch's RuntimeError.
func WrapDims(dims []int64, rank int) (mask []bool, err error) {
	mask = make([]bool, rank)
	if len(dims) == 0 {
		for i := range mask {
			mask[i] = true
		}
		return mask, nil
	}
	for _, d := range dims {
		i, err := WrapDim(d, rank)
		if err != nil {
			return nil, err
		}
		if rank == 0 {
			continue
		}
		if mask[i] {
			return nil, errs.New(errs.Runtime, "dim %d appears multiple times in the list of dims", i)
		}
		mask[i] = true
	}
	return mask, nil
}

// acceptedDim is WrapDim for a dimension that the shape rule has accepted.
func acceptedDim(d int64, rank int) int {
	i, err := WrapDim(d, rank)
	if err != nil {
		return 0
	}
	return i
}
