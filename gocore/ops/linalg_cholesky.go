package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// choleskyRows factor positive definite matrices, and solve with the factors.
var choleskyRows = []Row{
	{Name: "linalg_cholesky_ex", Schema: "(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "L", When: func(l *Lowering) bool { return l.Shape(0).Numel() >= 64*order(l.Shape(0)) }},
		Infer: likeSquaresWithInfo("linalg.cholesky"),
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(2)
				return
			}
			b, a, keep := l.B, l.stack(0), stablehlo.LE
			if l.Bool(1) {
				keep = stablehlo.GE
			}
			f := trianglePart(b, b.Cholesky(a, !l.Bool(1)), keep, 0)
			l.Return(l.finish(0, f), l.finish(1, firstIndefinite(b, a, f, l.Bool(1))))
		}},
	{Name: "cholesky_inverse", Schema: "(Tensor self, bool upper=False) -> Tensor", Strides: ByColumns, Torch: &Kernel{Out: "out", When: ofOrder(0, 64)},
		Infer: likeSquares("cholesky_inverse"),
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			f := l.stack(0)
			l.Return(l.finish(0, choleskySolve(l.B, f, identity(l.B, f.DType(), f.Dims()...), l.Bool(1))))
		}},
	{Name: "_cholesky_solve_helper", Schema: "(Tensor self, Tensor A, bool upper) -> Tensor", Strides: ByColumns, Torch: &Kernel{Check: "cholesky_factor", When: ofOrder(1, 64)},
		Infer: func(c *Ctx) error {
			if c.In(0).DType != c.In(1).DType {
				return errs.New(errs.Runtime, "cholesky_solve: expected tensors of one type, got %s and %s", c.In(0).DType.C10(), c.In(1).DType.C10())
			}
			return c.ReturnLike(c.In(0))
		},
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			l.Return(l.finish(0, choleskySolve(l.B, l.stack(1), l.stack(0), l.Bool(2))))
		}},
}

// choleskySolve solves a x = y, given the lower factor f of a = f fᴴ, or the upper one of a = fᴴ f.
func choleskySolve(b *stablehlo.Builder, f, y value, upper bool) value {
	y = b.TriangularSolve(f, y, stablehlo.Triangular{Lower: !upper, Adjoint: upper})
	return b.TriangularSolve(f, y, stablehlo.Triangular{Lower: !upper, Adjoint: !upper})
}

// firstIndefinite is LAPACK's info: 0, or for a matrix without a factor (one of NaN) the order of the
// first leading minor that is not positive, found by elimination.
func firstIndefinite(b *stablehlo.Builder, a, f value, upper bool) value {
	batch, n := a.Dim(0), a.Dim(1)
	none := b.Broadcast(zero(b, dtype.I32), []int64{batch, 1, 1})
	failed := b.ReduceOr(b.IsNaN(realPart(b, diagonal(b, f))), []int64{0, 1})
	info := b.If(failed,
		func(b *stablehlo.Builder) []value {
			if upper {
				a = adjoint(b, a)
			}
			return steps(b, n, []value{none, a}, func(k value, v []value) []value {
				info, a := v[0], v[1]
				column := sliceAt(b, a, k, 2)
				pivot := realPart(b, sliceAt(b, column, k, 1))
				bad := b.Not(b.Compare(pivot, b.ConstLike(pivot, 0), stablehlo.GT))
				first := b.And(bad, b.Compare(info, b.ConstLike(info, 0), stablehlo.EQ))
				order := b.Add(k, one(b, dtype.I32))
				info = b.Select(first, b.Broadcast(order, info.Dims()), info)
				scaled := b.Divide(column, b.Broadcast(Convert(b, pivot, a.DType()), column.Dims()))
				return []value{info, b.Subtract(a, times(b, a.Dims(), scaled, adjoint(b, column)))}
			})[:1]
		},
		func(*stablehlo.Builder) []value { return []value{none} })[0]
	return info
}
