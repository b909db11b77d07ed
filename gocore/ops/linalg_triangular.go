package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// triangularRows solve with triangular matrices.
var triangularRows = []Row{
	{Name: "linalg_solve_triangular", Schema: "(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 96)},
		Infer: func(c *Ctx) error {
			dims, err := c.inferSolve("linalg.solve_triangular", 0, 1, c.Bool(3))
			if err != nil {
				return err
			}
			return c.Return(c.In(0).DType, dims...)
		},
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			a, y := l.together(0, 1)
			l.Return(l.finish(0, l.B.TriangularSolve(a, y, stablehlo.Triangular{Lower: !l.Bool(2), Right: !l.Bool(3), UnitDiagonal: l.Bool(4)})))
		}},
	{Name: "triangular_solve", Schema: "(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "X", When: ofOrder(1, 96)},
		Infer: func(c *Ctx) error {
			for i, name := range []string{"b", "A"} {
				if n := len(c.In(i).Dims); n < 2 {
					return errs.New(errs.Runtime, "torch.triangular_solve: Expected %s to have at least 2 dimensions, but it has %d dimensions instead", name, n)
				}
			}
			dims, err := c.inferSolve("triangular_solve", 1, 0, true)
			if err != nil {
				return err
			}
			n, _ := sides(c.In(0))
			if err := c.Return(c.In(0).DType, dims...); err != nil {
				return err
			}
			return c.Return(c.In(1).DType, append(append(make([]int64, 0, 8), dims[:len(dims)-2]...), n, n)...)
		},
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0), l.B.Broadcast(l.In(1), l.Out(1).Dims))
				return
			}
			a, y := l.together(1, 0)
			l.Return(l.finish(0, l.B.TriangularSolve(a, y, stablehlo.Triangular{Lower: !l.Bool(2), Transpose: l.Bool(3), UnitDiagonal: l.Bool(4)})))
			l.Return(l.finish(1, a))
		}},
}

// inferSolve checks the matrix a and the right-hand sides y of a linear equation. It returns the dimensions of the
// solution, with the batch dimensions broadcast.
func (c *Ctx) inferSolve(name string, a, y int, left bool) ([]int64, error) {
	s, err := c.squares(a, name)
	if err != nil {
		return nil, err
	}
	t := c.In(y)
	if s.DType != t.DType {
		return nil, errs.New(errs.Runtime, "%s: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead", name, s.DType.C10(), t.DType.C10())
	}
	if len(t.Dims) < 2 {
		return nil, errs.New(errs.Runtime, "%s: The input tensor B must have at least 2 dimensions.", name)
	}
	n, _ := sides(s)
	rows, cols := sides(t)
	if m := map[bool]int64{true: rows, false: cols}[left]; m != n {
		product := map[bool]string{true: "AX = B", false: "XA = B"}[left]
		return nil, errs.New(errs.Runtime, "%s: Incompatible shapes of A and B for the equation %s (%dx%d and %dx%d)", name, product, n, n, rows, cols)
	}
	batch, err := commonBatch(s, t)
	if err != nil {
		return nil, err
	}
	return append(batch, rows, cols), nil
}

// commonBatch is the common batch dimensions of two batches of matrices.
func commonBatch(s, t *shape.Shape) ([]int64, error) {
	batch, bad, ok := shape.Broadcast(nil, s.Dims[:len(s.Dims)-2], t.Dims[:len(t.Dims)-2])
	if !ok {
		return nil, errs.New(errs.Runtime, "The size of tensor a must match the size of tensor b at non-singleton dimension %d: batches of %s and %s", bad, dimsText(s.Dims), dimsText(t.Dims))
	}
	return batch, nil
}

// together is two batches of matrices with their batch dimensions broadcast, as stacks.
func (l *Lowering) together(i, k int) (x, y value) {
	s, t := l.Shape(i), l.Shape(k)
	batch, err := commonBatch(s, t)
	if err != nil {
		l.B.Failf("linalg", nil, "%v", err)
		return l.In(i), l.In(k)
	}
	widened := func(v value) value {
		return stacked(l.B, l.B.Broadcast(v, append(append([]int64(nil), batch...), v.Dim(-2), v.Dim(-1))))
	}
	return widened(l.In(i)), widened(l.In(k))
}
