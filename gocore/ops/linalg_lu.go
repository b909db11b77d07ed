package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// luRows factor matrices as P L U with row interchanges, and take the factors apart. Pivots count from
// one: step k has exchanged rows k and pivots[k] − 1.
var luRows = []Row{
	{Name: "linalg_lu_factor_ex", Schema: "(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 64)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "torch.lu_factor")
			if err != nil {
				return err
			}
			if !c.Bool(1) {
				return errs.New(errs.Runtime, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
			}
			if err := c.returnLU(s); err != nil {
				return err
			}
			return c.returnStack(s, dtype.I32)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(3)
				return
			}
			lu, pivots, info := luFactor(l.B, l.stack(0))
			l.Return(l.finish(0, lu), l.finish(1, pivots), l.finish(2, info))
		}},
	{Name: "linalg_lu", Schema: "(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 64)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "linalg.lu")
			if err != nil {
				return err
			}
			if !c.Bool(1) {
				return errs.New(errs.Runtime, "linalg.lu: LU without pivoting is not implemented on the CPU")
			}
			return c.returnPLU(s, true, true)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.Return(identity(l.B, l.Out(0).DType, l.Out(0).Dims...), l.omitted(1), l.omitted(2))
				return
			}
			lu, pivots, _ := luFactor(l.B, l.stack(0))
			lower, upper := luParts(l.B, lu)
			l.Return(l.finish(0, permutationMatrix(l.B, rowOrder(l.B, pivots, lu.Dim(1)), lu.DType())))
			l.Return(l.finish(1, lower), l.finish(2, upper))
		}},
	{Name: "lu_unpack", Unsafe: true, Schema: "(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)", ExactOut: true,
		Bounds: func(c *Ctx) []Bounds {
			if !c.Bool(3) {
				return nil
			}
			return pivotBounds("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?")(c)
		},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if len(s.Dims) < 2 {
				return errs.New(errs.Runtime, "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: %s instead", dimsText(s.Dims))
			}
			if c.Bool(3) && c.In(1).DType != dtype.I32 {
				return errs.New(errs.Runtime, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to be used with the output produced by torch.linalg.lu_factor")
			}
			m, n := sides(s)
			if want := append(slices.Clone(s.Dims[:len(s.Dims)-2]), min(m, n)); c.Bool(3) && !slices.Equal(c.In(1).Dims, want) {
				return errs.New(errs.Value, "Expected LU_pivots to have shape %s but got %s instead.", dimsText(want), dimsText(c.In(1).Dims))
			}
			return c.returnPLU(s, c.Bool(2), c.Bool(3))
		},
		Lower: lowerUnpack},
	{Name: "_linalg_det", Schema: "(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", Strides: ByColumns, ExactOut: true,
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.det")
			if err != nil {
				return err
			}
			if err := c.returnStack(s, s.DType); err != nil {
				return err
			}
			return c.returnLU(s)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.Return(l.B.Broadcast(one(l.B, l.Out(0).DType), l.Out(0).Dims), l.omitted(1), l.omitted(2))
				return
			}
			lu, pivots := l.luFactors()
			factors := l.B.Concatenate(1, interchangeSigns(l.B, pivots, lu.DType()), diagonal(l.B, lu))
			l.Return(l.finish(0, l.B.ReduceProd(factors, []int64{1})), l.finish(1, lu), l.finish(2, pivots))
		}},
	{Name: "_linalg_slogdet", Schema: "(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", Strides: ByColumns, ExactOut: true,
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.slogdet")
			if err != nil {
				return err
			}
			if err := c.returnStack(s, s.DType); err != nil {
				return err
			}
			if err := c.returnStack(s, s.DType.ToReal()); err != nil {
				return err
			}
			return c.returnLU(s)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.Return(l.B.Broadcast(one(l.B, l.Out(0).DType), l.Out(0).Dims), l.omitted(1), l.omitted(2), l.omitted(3))
				return
			}
			b := l.B
			lu, pivots := l.luFactors()
			pivot := diagonal(b, lu)
			signs := b.Concatenate(1, interchangeSigns(b, pivots, lu.DType()), b.Sign(pivot))
			l.Return(l.finish(0, b.ReduceProd(signs, []int64{1})))
			l.Return(l.finish(1, b.ReduceSum(b.Log(b.Abs(pivot)), []int64{1})), l.finish(2, lu), l.finish(3, pivots))
		}},
}

// returnLU gives the next two results the shapes of the packed factors of s and of their pivots.
func (c *Ctx) returnLU(s *shape.Shape) error {
	m, n := sides(s)
	if err := c.ReturnLike(s); err != nil {
		return err
	}
	return c.returnStack(s, dtype.I32, min(m, n))
}

// returnPLU gives the next three results the shapes of the factors of s; those not asked for are empty.
func (c *Ctx) returnPLU(s *shape.Shape, factors, pivots bool) error {
	m, n := sides(s)
	k := min(m, n)
	for i, dims := range [][2]int64{{m, m}, {m, k}, {k, n}} {
		var err error
		if i == 0 && !pivots || i > 0 && !factors {
			err = c.Return(s.DType, 0)
		} else {
			err = c.returnStack(s, s.DType, dims[0], dims[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// luFactor is the packed factors [batch, m, n] of a, the pivots and LAPACK's info: 0, or one more than
// the place of the first pivot that is zero.
func luFactor(b *stablehlo.Builder, a value) (lu, pivots, info value) {
	batch, m, n := a.Dim(0), a.Dim(1), a.Dim(2)
	rows, whole := places(b, 1, batch, m, 1), places(b, 1, a.Dims()...)
	cols := places(b, 2, a.Dims()...)
	init := []value{a,
		b.Broadcast(zero(b, dtype.I32), []int64{batch, min(m, n), 1}),
		b.Broadcast(zero(b, dtype.I32), []int64{batch, 1, 1})}
	got := steps(b, min(m, n), init, func(k value, v []value) []value {
		a, pivots, info := v[0], v[1], v[2]
		next := b.Add(k, one(b, dtype.I32))
		place := pivotPlace(b, sliceAt(b, a, k, 2), rows, k)
		pivots = putAt(b, pivots, b.Add(place, b.ConstLike(place, 1)), k, 1)
		// exchange the rows
		isPlace, isK := compareTo(b, whole, place, stablehlo.EQ), compareTo(b, whole, k, stablehlo.EQ)
		rowK := b.Broadcast(sliceAt(b, a, k, 1), a.Dims())
		pivotRow := b.Broadcast(keepSum(b, b.Select(isPlace, a, b.ConstLike(a, 0)), 1), a.Dims())
		a = b.Select(isK, pivotRow, b.Select(isPlace, rowK, a))
		// eliminate; a column without a pivot has nothing below it
		column := sliceAt(b, a, k, 2)
		pivot := sliceAt(b, column, k, 1)
		isZero := b.Compare(pivot, b.ConstLike(pivot, 0), stablehlo.EQ)
		pivot = b.Select(isZero, b.ConstLike(pivot, 1), pivot)
		first := b.And(isZero, b.Compare(info, b.ConstLike(info, 0), stablehlo.EQ))
		info = b.Select(first, b.Broadcast(next, info.Dims()), info)
		factor := b.Broadcast(b.Divide(column, b.Broadcast(pivot, column.Dims())), a.Dims())
		below := compareTo(b, whole, k, stablehlo.GT)
		rest := b.Subtract(a, b.Multiply(factor, pivotRow))
		a = b.Select(b.And(below, compareTo(b, cols, k, stablehlo.GT)), rest, a)
		a = b.Select(b.And(below, compareTo(b, cols, k, stablehlo.EQ)), factor, a)
		return []value{a, pivots, info}
	})
	return got[0], b.Reshape(got[1], []int64{batch, min(m, n)}), b.Reshape(got[2], []int64{batch})
}

// pivotPlace is the row of the largest element of a column from row k on, the first of equal ones. The
// size of a complex number is that of LAPACK, the sum of its parts.
func pivotPlace(b *stablehlo.Builder, column, rows, k value) value {
	size := b.Abs(realPart(b, column))
	if column.DType().IsComplex() {
		size = b.Add(size, b.Abs(b.Imag(column)))
	}
	size = b.Select(compareTo(b, rows, k, stablehlo.GE), size, b.ConstLike(size, -1))
	most := b.Reshape(b.ReduceMax(size, []int64{1}), []int64{column.Dim(0), 1, 1})
	none := b.SplatLike(rows, stablehlo.Int(column.Dim(1)))
	place := b.ReduceMin(b.Select(compareTo(b, size, most, stablehlo.EQ), rows, none), []int64{1})
	place = b.Reshape(place, most.Dims())
	missing := b.Compare(place, b.SplatLike(place, stablehlo.Int(column.Dim(1))), stablehlo.EQ) // all is NaN
	return b.Select(missing, b.Broadcast(k, place.Dims()), place)
}

// rowOrder is the order of rows [batch, m] that the pivots make: row i comes from row rowOrder[i].
func rowOrder(b *stablehlo.Builder, pivots value, m int64) value {
	batch := pivots.Dim(0)
	order := places(b, 1, batch, m)
	return steps(b, pivots.Dim(1), []value{order}, func(k value, v []value) []value {
		order := v[0]
		at := places(b, 1, order.Dims()...)
		pivot := sliceAt(b, pivots, k, 1)
		pivot = b.Subtract(pivot, b.ConstLike(pivot, 1))
		isPivot := compareTo(b, at, pivot, stablehlo.EQ)
		first := b.Broadcast(sliceAt(b, order, k, 1), order.Dims())
		second := b.Broadcast(keepSum(b, b.Select(isPivot, order, b.ConstLike(order, 0)), 1), order.Dims())
		return []value{b.Select(compareTo(b, at, k, stablehlo.EQ), second, b.Select(isPivot, first, order))}
	})[0]
}

// permutationMatrix is P of P L U.
func permutationMatrix(b *stablehlo.Builder, order value, d dtype.DType) value {
	batch, m := order.Dim(0), order.Dim(1)
	row := places(b, 1, batch, m, m)
	return Convert(b, compareTo(b, row, b.Reshape(order, []int64{batch, 1, m}), stablehlo.EQ), d)
}

// luParts is L with its unit diagonal, and U.
func luParts(b *stablehlo.Builder, lu value) (lower, upper value) {
	batch, m, n := lu.Dim(0), lu.Dim(1), lu.Dim(2)
	k := min(m, n)
	lower = trianglePart(b, b.SliceDim(lu, 2, 0, k, 1), stablehlo.LT, 0)
	lower = b.Add(lower, identity(b, lu.DType(), batch, m, k))
	return lower, trianglePart(b, b.SliceDim(lu, 1, 0, k, 1), stablehlo.GE, 0)
}

func lowerUnpack(l *Lowering) {
	b := l.B
	p, lower, upper := l.omitted(0), l.omitted(1), l.omitted(2)
	empty := l.Shape(0).Numel() == 0
	if l.Bool(2) && !empty {
		lower, upper = luParts(b, l.stack(0))
	}
	if l.Bool(3) {
		p = identity(b, l.Out(0).DType, l.Out(0).Dims...)
		if !empty {
			m, n := sides(l.Shape(0))
			pivots := b.Reshape(l.In(1), []int64{l.Shape(1).Numel() / min(m, n), min(m, n)})
			p = permutationMatrix(b, rowOrder(b, pivots, m), l.Out(0).DType)
		}
	}
	l.Return(l.finish(0, p), l.finish(1, lower), l.finish(2, upper))
}

// luFactors are the factors and pivots of argument 0, by torch's kernel where it may be called. The kernel of a
// determinant factors the transpose of some matrices, for its derivative; here the caller has done that
// (_backend/composed/linalg.py).
func (l *Lowering) luFactors() (lu, pivots value) {
	a := l.stack(0)
	if l.TorchKernels && a.Dim(1) >= 64 {
		words := []int64{wire.Tag(wire.KTensor, 0), wire.Tag(wire.KConst, 0), 1, wire.Tag(wire.KConst, 0), 0}
		n := a.Dim(1)
		got := l.torchOp("linalg_lu_factor_ex", words, []value{a},
			[]*shape.Shape{a.Shape(), shape.Make(dtype.I32, a.Dim(0), n), shape.Make(dtype.I32, a.Dim(0))}, nil, nil)
		return got[0], got[1]
	}
	lu, pivots, _ = luFactor(l.B, a)
	return lu, pivots
}

// interchangeSigns is −1 for each step that has exchanged rows, else 1, in type d.
func interchangeSigns(b *stablehlo.Builder, pivots value, d dtype.DType) value {
	step := places(b, 1, pivots.Dims()...)
	stays := b.Compare(pivots, b.Add(step, b.ConstLike(step, 1)), stablehlo.EQ)
	sign := b.Select(stays, b.ConstLike(step, 1), b.ConstLike(step, -1))
	return Convert(b, sign, d)
}

// luSolve solves a x = y, or aᴴ x = y, given the factors of a; right solves x a = y, or x aᴴ = y.
func luSolve(b *stablehlo.Builder, lu, pivots, y value, right, adjoint bool) value {
	order := rowOrder(b, pivots, lu.Dim(1))
	lower := stablehlo.Triangular{Lower: true, UnitDiagonal: true, Right: right, Adjoint: adjoint}
	upper := stablehlo.Triangular{Right: right, Adjoint: adjoint}
	if right == adjoint { // P comes first: Pᵀ y from the left, y P from the right
		y = permuted(b, y, order, right)
		y = b.TriangularSolve(lu, y, lower)
		return b.TriangularSolve(lu, y, upper)
	}
	y = b.TriangularSolve(lu, y, upper)
	y = b.TriangularSolve(lu, y, lower)
	return permuted(b, y, inverseOrder(b, order), right)
}

// permuted takes the rows of x in an order, or the columns.
func permuted(b *stablehlo.Builder, x, order value, columns bool) value {
	dim := 1
	at := []int64{order.Dim(0), order.Dim(1), 1}
	if columns {
		dim = 2
		at[1], at[2] = 1, order.Dim(1)
	}
	return takeAlong(b, x, b.Broadcast(b.Reshape(order, at), x.Dims()), dim)
}

// inverseOrder undoes an order.
func inverseOrder(b *stablehlo.Builder, order value) value {
	batch, m := order.Dim(0), order.Dim(1)
	to, from := places(b, 1, batch, m, m), places(b, 2, batch, m, m)
	here := compareTo(b, to, b.Reshape(order, []int64{batch, 1, m}), stablehlo.EQ)
	return b.ReduceSum(b.Select(here, from, b.ConstLike(from, 0)), []int64{2})
}
