package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// solveRows solve linear equations by factors P L U.
var solveRows = []Row{
	{Name: "linalg_lu_solve", Unsafe: true, Schema: "(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor", Strides: ByColumns, Bounds: pivotBounds("Pivots given to lu_solve must all be smaller or equal to LU.size(-2)"), ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 64)},
		Infer: func(c *Ctx) error {
			if p := c.In(1).DType; p != dtype.I32 {
				return errs.New(errs.Runtime, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32. Got %s", p.C10())
			}
			dims, err := c.inferSolve("torch.linalg.lu_solve", 0, 2, c.Bool(3))
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
			b := l.B
			lu, y := l.together(0, 2)
			o := l.Out(0).Dims
			pivots := b.Broadcast(l.In(1), append(append([]int64(nil), o[:len(o)-2]...), lu.Dim(1)))
			pivots = b.Reshape(pivots, []int64{lu.Dim(0), lu.Dim(1)})
			l.Return(l.finish(0, luSolve(b, lu, pivots, y, !l.Bool(3), l.Bool(4))))
		}},
	{Name: "_linalg_solve_ex", Schema: "(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "result", When: ofOrder(0, 64)},
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.solve")
			if err != nil {
				return err
			}
			dims, err := solutionDims(c, s)
			if err != nil {
				return err
			}
			if err := c.Return(s.DType, dims...); err != nil {
				return err
			}
			if err := c.returnLU(s); err != nil {
				return err
			}
			return c.returnStack(s, dtype.I32)
		},
		Lower: lowerSolve},
	{Name: "linalg_inv_ex", Schema: "(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "inverse", When: ofOrder(0, 64)},
		Infer: likeSquaresWithInfo("linalg.inv"),
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(2)
				return
			}
			a := l.stack(0)
			lu, pivots, info := luFactor(l.B, a)
			l.Return(l.finish(0, luSolve(l.B, lu, pivots, identity(l.B, a.DType(), a.Dims()...), false, false)))
			l.Return(l.finish(1, info))
		}},
}

// isVectorCase reports that b holds a vector for each matrix of a, as torch.linalg.solve decides it.
func isVectorCase(a, b *shape.Shape) bool {
	return len(b.Dims) == 1 || len(a.Dims)-1 == len(b.Dims) && slices.Equal(b.Dims, a.Dims[:len(a.Dims)-1])
}

// solutionDims is the dimensions of the solution of s x = B, or x s = B, B being argument 1.
func solutionDims(c *Ctx, s *shape.Shape) ([]int64, error) {
	t := c.In(1)
	if s.DType != t.DType {
		return nil, errs.New(errs.Runtime, "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead", s.DType.C10(), t.DType.C10())
	}
	if !isVectorCase(s, t) {
		return c.inferSolve("linalg.solve", 0, 1, c.Bool(2))
	}
	n, _ := sides(s)
	if !c.Bool(2) {
		return nil, errs.New(errs.Runtime, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)")
	}
	if t.Dims[len(t.Dims)-1] != n {
		return nil, errs.New(errs.Runtime, "linalg.solve: Incompatible shapes of A and B for the equation AX = B (%dx%d and %dx%d)", n, n, t.Dims[len(t.Dims)-1], 1)
	}
	return append(append([]int64(nil), s.Dims[:len(s.Dims)-2]...), n), nil
}

func lowerSolve(l *Lowering) {
	b, s, t := l.B, l.Shape(0), l.Shape(1)
	if s.Numel() == 0 {
		l.allOmitted(4)
		return
	}
	lu, pivots, info := luFactor(b, l.stack(0))
	solution := l.omitted(0)
	if o := l.Out(0).Dims; l.Out(0).Numel() > 0 {
		y, n := l.In(1), lu.Dim(1)
		if isVectorCase(s, t) {
			o = append(append([]int64(nil), o...), 1)
			y = b.Reshape(b.Broadcast(y, o[:len(o)-1]), o)
		}
		batch := o[:len(o)-2]
		with := func(v value, tail ...int64) value { // v for each matrix of the solution
			own := b.Reshape(v, append(append([]int64(nil), s.Dims[:len(s.Dims)-2]...), tail...))
			all := b.Broadcast(own, append(append([]int64(nil), batch...), tail...))
			return b.Reshape(all, append([]int64{product(batch)}, tail...))
		}
		solution = luSolve(b, with(lu, n, n), with(pivots, n), stacked(b, b.Broadcast(y, o)), !l.Bool(2), false)
	}
	l.Return(l.finish(0, solution), l.finish(1, lu), l.finish(2, pivots), l.finish(3, info))
}
