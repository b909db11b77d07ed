package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// svdRows are singular values and the eigenvalues of Hermitian matrices, by one-sided Jacobi rotations.
var svdRows = []Row{
	{Name: "_linalg_svd", Schema: "(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "U", When: ofOrder(0, 24)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "linalg.svd")
			if err != nil {
				return err
			}
			if c.Has(3) {
				return errs.New(errs.Runtime, "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
			}
			m, n := sides(s)
			k := min(m, n)
			u, v := k, k
			if c.Bool(1) {
				u, v = m, n
			}
			if c.Bool(2) {
				err = c.returnStack(s, s.DType, m, u)
			} else {
				err = c.Return(s.DType, 0)
			}
			if err != nil {
				return err
			}
			if err = c.returnStack(s, s.DType.ToReal(), k); err != nil {
				return err
			}
			if c.Bool(2) {
				return c.returnStack(s, s.DType, v, n)
			}
			return c.Return(s.DType, 0)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				u, v := l.Out(0), l.Out(2)
				if l.Bool(2) {
					l.Return(identity(l.B, u.DType, u.Dims...), l.omitted(1), identity(l.B, v.DType, v.Dims...))
				} else {
					l.allOmitted(3)
				}
				return
			}
			a := l.stack(0)
			if !l.Bool(2) {
				_, s, _ := svd(l.B, a, false)
				l.Return(l.omitted(0), l.finish(1, s), l.omitted(2))
				return
			}
			u, s, vh := svd(l.B, a, l.Bool(1))
			l.Return(l.finish(0, u), l.finish(1, s), l.finish(2, vh))
		}},
	{Name: "_linalg_eigh", Schema: "(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "eigenvalues", When: ofOrder(0, 24)},
		Infer: func(c *Ctx) error {
			s, err := c.squares(0, "linalg.eigh")
			if err != nil {
				return err
			}
			switch c.Text(1) {
			case "L", "l", "U", "u":
			default:
				return errs.New(errs.Runtime, "Expected UPLO argument to be 'L' or 'U', but got %s", c.Text(1))
			}
			n, _ := sides(s)
			if err := c.returnStack(s, s.DType.ToReal(), n); err != nil {
				return err
			}
			if c.Bool(2) {
				return c.ReturnLike(s)
			}
			return c.Return(s.DType, 0)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(2)
				return
			}
			w, v := eigh(l.B, hermitian(l.B, l.stack(0), l.Text(1) == "U" || l.Text(1) == "u"))
			l.Return(l.finish(0, w))
			if l.Bool(2) {
				l.Return(l.finish(1, v))
			} else {
				l.Return(l.omitted(1))
			}
		}},
	{Name: "linalg_polar", Unsafe: true, Since: "2.14", Schema: "(Tensor A) -> (Tensor U, Tensor H)", ExactOut: true,
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "linalg.polar")
			if err != nil {
				return err
			}
			m, n := sides(s)
			if m < n {
				return errs.New(errs.Runtime, "linalg.polar: Expected A to have at least as many rows as columns, but got %d by %d matrices", m, n)
			}
			if err := c.ReturnLike(s); err != nil {
				return err
			}
			return c.returnStack(s, s.DType, n, n)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(2)
				return
			}
			b := l.B
			u, s, vh := svd(b, l.stack(0), false)
			l.Return(l.finish(0, matmul(b, u, vh)), l.finish(1, matmul(b, byColumn(b, adjoint(b, vh), s), vh)))
		}},
	{Name: "linalg_matrix_sqrth", Unsafe: true, Since: "2.14", Schema: "(Tensor self) -> Tensor",
		Infer: likeSquares("linalg.matrix_sqrth"),
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			b := l.B
			w, v := eigh(b, hermitian(b, l.stack(0), false))
			root := b.Sqrt(b.Maximum(w, b.ConstLike(w, 0)))
			l.Return(l.finish(0, matmul(b, byColumn(b, v, root), adjoint(b, v))))
		}},
}

// byColumn multiplies the columns of a stack with real numbers, [batch, n].
func byColumn(b *stablehlo.Builder, x, factors value) value {
	return timesReal(b, x, b.Reshape(factors, []int64{x.Dim(0), 1, x.Dim(2)}))
}

// hermitian completes the matrices of which one triangle is given.
func hermitian(b *stablehlo.Builder, a value, upper bool) value {
	keep, strict := stablehlo.LE, stablehlo.LT
	if upper {
		keep, strict = stablehlo.GE, stablehlo.GT
	}
	half := trianglePart(b, a, keep, 0)
	if a.DType().IsComplex() { // the imaginary part of the diagonal does not count
		re := b.Real(half)
		on := onDiagonal(b, a.Dims(), 1, 2, 0)
		half = b.Complex(re, b.Select(on, b.ConstLike(re, 0), b.Imag(half)))
	}
	return b.Add(half, adjoint(b, trianglePart(b, a, strict, 0)))
}

// eigh is the eigenvalues of Hermitian matrices, ascending, and their eigenvectors. The matrices are moved
// by twice their norm, which makes them positive definite and their singular values far from zero.
func eigh(b *stablehlo.Builder, a value) (w, v value) {
	batch := a.Dim(0)
	a, scale := inRange(b, a, 1, 2)
	norm := b.ReduceMax(b.ReduceSum(b.Abs(a), []int64{2}), []int64{1})
	shift := Convert(b, b.Multiply(norm, b.ConstLike(norm, 2)), a.DType())
	shift = b.Reshape(shift, []int64{batch, 1, 1})
	moved := b.Add(a, times(b, a.Dims(), identity(b, a.DType(), a.Dims()...), shift))
	_, v = orthogonalized(b, moved)
	w = realPart(b, b.ReduceSum(b.Multiply(conjugate(b, v), matmul(b, a, v)), []int64{1}))
	order := ranked(b, w, false)
	w = takeAlong(b, w, order, 1)
	return times(b, w.Dims(), w, b.Reshape(scale, []int64{batch, 1})), permuted(b, v, order, true)
}

// svd is U, the singular values in descending order, and Vᴴ; full completes U and Vᴴ to square matrices.
func svd(b *stablehlo.Builder, a value, full bool) (u, s, vh value) {
	if a.Dim(1) < a.Dim(2) {
		v, s, uh := svd(b, adjoint(b, a), full)
		return adjoint(b, uh), s, adjoint(b, v)
	}
	a, scale := inRange(b, a, 1, 2)
	w, v := orthogonalized(b, a)
	s = b.Sqrt(b.ReduceSum(squareAbs(b, w), []int64{1}))
	order := ranked(b, s, true)
	s, v, w = takeAlong(b, s, order, 1), permuted(b, v, order, true), permuted(b, w, order, true)
	// The columns of w are s · u, some of them perhaps zero: reflections complete them to a basis, up to
	// the signs of R.
	packed, tau := householder(b, w)
	n := w.Dim(2)
	k := n
	if full {
		k = w.Dim(1)
	}
	r := realPart(b, diagonal(b, packed))
	sign := b.Select(b.Compare(r, b.ConstLike(r, 0), stablehlo.LT), b.ConstLike(r, -1), b.ConstLike(r, 1))
	sign = b.Pad(sign, one(b, sign.DType()), []int64{0, 0}, []int64{0, k - n}, []int64{0, 0})
	s = times(b, s.Dims(), s, b.Reshape(scale, []int64{a.Dim(0), 1}))
	return byColumn(b, unitary(b, packed, tau, k), sign), s, adjoint(b, v)
}

// ranked is the places of the elements of each row of x [batch, n], in ascending or descending order.
func ranked(b *stablehlo.Builder, x value, descending bool) value {
	_, order := sorted(b, x, 1, descending)
	return Convert(b, order, dtype.I32)
}

// Each sweep rotates every pair of columns once; convergence is quadratic, and takes less than ten sweeps.
const mostSweeps = 30

// orthogonalized is a·v and a unitary v such that the columns of a·v are orthogonal. One round rotates n/2
// pairs of columns at once, and then moves the columns as in a round-robin tournament.
func orthogonalized(b *stablehlo.Builder, a value) (w, v value) {
	batch, m, n := a.Dim(0), a.Dim(1), a.Dim(2)
	if n == 1 {
		return a, b.Broadcast(one(b, a.DType()), []int64{batch, 1, 1})
	}
	even := n + n%2
	a = b.Pad(a, zero(b, a.DType()), []int64{0, 0, 0}, []int64{0, 0, even - n}, []int64{0, 0, 0})
	both := b.Concatenate(1, a, identity(b, a.DType(), batch, even, even)) // a·v above v
	square := squareAbs(b, a)
	norm := b.Sqrt(b.ReduceSum(square, []int64{1, 2}))
	eps := machineEpsilon(a.DType())
	tiny := b.Multiply(norm, b.ConstLike(norm, eps))
	rounds := even - 1
	x, y := b.SliceDim(both, 2, 0, even/2, 1), b.SliceDim(both, 2, even/2, even, 1)
	done := func(b *stablehlo.Builder, round, worst value) value {
		start := b.Compare(b.Remainder(round, b.ConstLike(round, float64(rounds))), b.ConstLike(round, 0), stablehlo.EQ)
		good := b.Compare(worst, b.ConstLike(worst, eps*float64(max(m, 8))), stablehlo.LE)
		first := b.Compare(round, b.ConstLike(round, 0), stablehlo.EQ)
		late := b.Compare(round, b.ConstLike(round, float64(mostSweeps*rounds)), stablehlo.GE)
		return b.Or(late, b.And(b.And(start, good), b.Not(first)))
	}
	got := b.While([]value{zero(b, dtype.I32), zero(b, norm.DType()), x, y},
		func(b *stablehlo.Builder, v []value) value { return b.Not(done(b, v[0], v[1])) },
		func(b *stablehlo.Builder, v []value) []value {
			round, worst, x, y := v[0], v[1], v[2], v[3]
			start := b.Compare(b.Remainder(round, b.ConstLike(round, float64(rounds))), b.ConstLike(round, 0), stablehlo.EQ)
			worst = b.Select(start, b.ConstLike(worst, 0), worst)
			x, y, cosine := rotated(b, x, y, m, tiny)
			worst = b.Maximum(worst, b.ReduceMax(cosine, []int64{0, 1}))
			x, y = nextRound(b, x, y)
			return []value{b.Add(round, b.ConstLike(round, 1)), worst, x, y}
		})
	both = b.Concatenate(2, got[2], got[3])
	w, v = b.SliceDim(both, 1, 0, m, 1), b.SliceDim(both, 1, m, m+even, 1)
	if even == n {
		return w, v
	}
	// The column of padding is the one whose last row of v is not zero: it goes to the end, and off.
	padding := b.Abs(b.Reshape(b.SliceDim(v, 1, n, even, 1), []int64{batch, even}))
	order := ranked(b, padding, false)
	w, v = permuted(b, w, order, true), permuted(b, v, order, true)
	return b.SliceDim(w, 2, 0, n, 1), b.SliceDim(b.SliceDim(v, 2, 0, n, 1), 1, 0, n, 1)
}

// rotated makes each column of x orthogonal to that of y, by the inner product of the first m rows. cosine
// is how far they were from it, zero for columns that are tiny.
func rotated(b *stablehlo.Builder, x, y value, m int64, tiny value) (p, q, cosine value) {
	top := func(v value) value { return b.SliceDim(v, 1, 0, m, 1) }
	alpha, beta := keepSum(b, squareAbs(b, top(x)), 1), keepSum(b, squareAbs(b, top(y)), 1)
	inner := keepSum(b, b.Multiply(conjugate(b, top(x)), top(y)), 1)
	gamma := b.Abs(inner)
	some := b.Compare(gamma, b.ConstLike(gamma, 0), stablehlo.GT)
	unit := b.ConstLike(gamma, 1)
	safe := b.Select(some, gamma, unit)
	zeta := b.Divide(b.Subtract(beta, alpha), b.Multiply(b.ConstLike(safe, 2), safe))
	tangent := b.Divide(unit, b.Add(b.Abs(zeta), b.Sqrt(b.Add(unit, b.Square(zeta)))))
	tangent = b.Select(b.Compare(zeta, b.ConstLike(zeta, 0), stablehlo.LT), b.Negate(tangent), tangent)
	tangent = b.Select(some, tangent, b.ConstLike(tangent, 0))
	c := b.Rsqrt(b.Add(unit, b.Square(tangent)))
	s := b.Multiply(c, tangent)
	d := x.DType()
	phase := b.Divide(inner, Convert(b, safe, d)) // of xᴴ y
	phase = b.Select(some, phase, b.ConstLike(phase, 1))
	c, s = Convert(b, c, d), Convert(b, s, d)
	turned := times(b, y.Dims(), conjugate(b, phase), y)
	p = b.Subtract(times(b, x.Dims(), c, x), times(b, x.Dims(), s, turned))
	q = b.Add(times(b, x.Dims(), s, x), times(b, x.Dims(), c, turned))
	lengthX, lengthY := b.Sqrt(alpha), b.Sqrt(beta)
	counts := compareTo(b, b.Minimum(lengthX, lengthY), b.Reshape(tiny, []int64{x.Dim(0), 1, 1}), stablehlo.GT)
	length := b.Select(counts, b.Multiply(lengthX, lengthY), unit)
	cosine = b.Select(counts, b.Divide(gamma, length), b.ConstLike(gamma, 0))
	return p, q, b.Reshape(cosine, []int64{x.Dim(0), x.Dim(2)})
}

// nextRound moves the columns of x and y one place on around the first column of x, which stays.
func nextRound(b *stablehlo.Builder, x, y value) (value, value) {
	h := x.Dim(2)
	if h == 1 {
		return x, y
	}
	cut := func(v value, from, to int64) value { return b.SliceDim(v, 2, from, to, 1) }
	p := b.Concatenate(2, cut(x, 0, 1), cut(y, 0, 1), cut(x, 1, h-1))
	return p, b.Concatenate(2, cut(y, 1, h), cut(x, h-1, h))
}

// machineEpsilon is the distance from 1 to the next number.
func machineEpsilon(d dtype.DType) float64 {
	if d.ToReal() == dtype.F64 {
		return 0x1p-52
	}
	return 0x1p-23
}
