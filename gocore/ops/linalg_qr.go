package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// qrRows factor matrices by Householder reflections, H = 1 − τ v vᴴ, and multiply with them. As in LAPACK
// the packed form holds R in the upper triangle and below it the vectors v, whose first element is one.
var qrRows = []Row{
	{Name: "geqrf", Schema: "(Tensor self) -> (Tensor a, Tensor tau)", Strides: ByColumns, Torch: &Kernel{Out: "a", When: ofOrder(0, 96)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "torch.geqrf")
			if err != nil {
				return err
			}
			m, n := sides(s)
			if err := c.ReturnLike(s); err != nil {
				return err
			}
			return c.returnStack(s, s.DType, min(m, n))
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 {
				l.allOmitted(2)
				return
			}
			packed, tau := householder(l.B, l.stack(0))
			l.Return(l.finish(0, packed), l.finish(1, tau))
		}},
	{Name: "linalg_qr", Schema: "(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 96)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "linalg.qr")
			if err != nil {
				return err
			}
			m, n := sides(s)
			k := min(m, n)
			switch mode := c.Text(1); mode {
			case "reduced":
				err = c.returnStack(s, s.DType, m, k)
			case "complete":
				k = m
				err = c.returnStack(s, s.DType, m, m)
			case "r":
				err = c.Return(s.DType, 0)
			default:
				return errs.New(errs.Runtime, "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode)
			}
			if err != nil {
				return err
			}
			return c.returnStack(s, s.DType, k, n)
		},
		Lower: func(l *Lowering) {
			b := l.B
			if l.Shape(0).Numel() == 0 {
				q := l.omitted(0)
				if l.Text(1) == "complete" {
					q = identity(b, l.Out(0).DType, l.Out(0).Dims...)
				}
				l.Return(q, l.omitted(1))
				return
			}
			packed, tau := householder(b, l.stack(0))
			q := l.omitted(0)
			if l.Text(1) != "r" {
				_, k := sides(l.Out(0))
				q = unitary(b, packed, tau, k)
			}
			r, _ := sides(l.Out(1))
			l.Return(l.finish(0, q), l.finish(1, trianglePart(b, b.SliceDim(packed, 1, 0, r, 1), stablehlo.GE, 0)))
		}},
	{Name: "linalg_householder_product", Unsafe: true, Schema: "(Tensor input, Tensor tau) -> Tensor", Strides: ByColumns, Torch: &Kernel{Out: "out", When: ofOrder(0, 96)},
		Infer: func(c *Ctx) error {
			s, err := c.matrices(0, "torch.linalg.householder_product")
			if err != nil {
				return err
			}
			tau := c.In(1)
			m, n := sides(s)
			switch {
			case m < n:
				return errs.New(errs.Runtime, "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]")
			case len(tau.Dims) != len(s.Dims)-1:
				return errs.New(errs.Runtime, "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim equal to %d and input.ndim is equal to %d", len(tau.Dims), len(s.Dims))
			case tau.Dims[len(tau.Dims)-1] > n:
				return errs.New(errs.Runtime, "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]")
			case !slices.Equal(tau.Dims[:len(tau.Dims)-1], s.Dims[:len(s.Dims)-2]):
				return errs.New(errs.Runtime, "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s", dimsText(tau.Dims[:len(tau.Dims)-1]))
			case tau.DType != s.DType:
				return errs.New(errs.Runtime, "torch.linalg.householder_product: tau dtype %s does not match input dtype %s", tau.DType.C10(), s.DType.C10())
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 || l.Shape(1).Numel() == 0 {
				l.Return(identity(l.B, l.Out(0).DType, l.Out(0).Dims...))
				return
			}
			packed := l.stack(0)
			l.Return(l.finish(0, unitary(l.B, packed, l.taus(1, packed), packed.Dim(2))))
		}},
	{Name: "ormqr", Unsafe: true, Schema: "(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", Strides: ByColumns, ExactOut: true, Torch: &Kernel{Out: "out", When: ofOrder(0, 96)},
		Infer: inferOrmqr,
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 || l.Shape(1).Numel() == 0 {
				l.Return(l.In(2))
				return
			}
			packed := l.stack(0)
			l.Return(l.finish(0, reflect(l.B, packed, l.taus(1, packed), l.stack(2), l.Bool(3), l.Bool(4))))
		}},
}

func inferOrmqr(c *Ctx) error {
	for i, name := range []string{"input", "tau", "other"} {
		if want := []int{2, 1, 2}[i]; len(c.In(i).Dims) < want {
			return errs.New(errs.Runtime, "torch.ormqr: %s must have at least %d dimensions.", name, want)
		}
	}
	s, err := c.matrices(0, "torch.ormqr")
	if err != nil {
		return err
	}
	tau, other := c.In(1), c.In(2)
	m, n := sides(s)
	k := tau.Dims[len(tau.Dims)-1]
	rows, cols := sides(other)
	side := cols
	if c.Bool(3) {
		side = rows
	}
	switch {
	case side < k:
		return errs.New(errs.Runtime, "torch.ormqr: other.shape must be greater than or equal to tau.shape[-1]")
	case side != m:
		return errs.New(errs.Runtime, "torch.ormqr: other.shape must be equal to input.shape[-2]")
	case k > min(m, n):
		return errs.New(errs.Runtime, "torch.ormqr: tau.shape[-1] must be less than or equal to min(input.shape[-2], input.shape[-1])")
	case len(tau.Dims) != len(s.Dims)-1 || len(other.Dims) != len(s.Dims):
		return errs.New(errs.Runtime, "torch.ormqr: Expected tau to have one dimension less than input, and other to have as many, but got tau.ndim equal to %d, input.ndim is equal to %d and other.ndim is equal to %d", len(tau.Dims), len(s.Dims), len(other.Dims))
	case !slices.Equal(tau.Dims[:len(tau.Dims)-1], s.Dims[:len(s.Dims)-2]), !slices.Equal(other.Dims[:len(s.Dims)-2], s.Dims[:len(s.Dims)-2]):
		return errs.New(errs.Runtime, "torch.ormqr: batch dimensions of tau and other must be equal to input.shape[:-2], but got %s and %s", dimsText(tau.Dims), dimsText(other.Dims))
	case tau.DType != s.DType || other.DType != s.DType:
		return errs.New(errs.Runtime, "torch.ormqr: Expected input, tau and other to have the same dtype, but got %s, %s and %s", s.DType.C10(), tau.DType.C10(), other.DType.C10())
	}
	return c.ReturnLike(other)
}

// taus is argument i as [batch, k] beside a stack.
func (l *Lowering) taus(i int, beside value) value {
	tau := l.In(i)
	return l.B.Reshape(tau, []int64{beside.Dim(0), tau.Dim(-1)})
}

// householder is the packed factors of a and τ, [batch, min(m, n)]. Each column has a scale of its own: Q does not
// depend on it.
func householder(b *stablehlo.Builder, a value) (packed, tau value) {
	a, scale := inRange(b, a, 1)
	batch, k := a.Dim(0), min(a.Dim(1), a.Dim(2))
	rows, cols := places(b, 1, a.Dims()...), places(b, 2, a.Dims()...)
	at := places(b, 1, batch, a.Dim(1), 1)
	got := steps(b, k, []value{a, b.Broadcast(zero(b, a.DType()), []int64{batch, k, 1})}, func(k value, v []value) []value {
		a, taus := v[0], v[1]
		column := sliceAt(b, a, k, 2)
		below := compareTo(b, at, k, stablehlo.GT)
		beta, tau, scale := reflection(b, sliceAt(b, column, k, 1), b.Select(below, column, b.ConstLike(column, 0)))
		tail := b.Multiply(column, b.Broadcast(scale, column.Dims()))
		vector := reflector(b, tail, at, k)
		// Hᴴ on the columns to the right
		w := keepSum(b, b.Multiply(b.Broadcast(conjugate(b, vector), a.Dims()), a), 1)
		rest := b.Subtract(a, times(b, a.Dims(), b.Multiply(b.Broadcast(conjugate(b, tau), vector.Dims()), vector), w))
		right := compareTo(b, cols, k, stablehlo.GT)
		here := compareTo(b, cols, k, stablehlo.EQ)
		a = b.Select(right, rest, a)
		a = b.Select(b.And(here, compareTo(b, rows, k, stablehlo.GT)), b.Broadcast(tail, a.Dims()), a)
		a = b.Select(b.And(here, compareTo(b, rows, k, stablehlo.EQ)), b.Broadcast(beta, a.Dims()), a)
		return []value{a, putAt(b, taus, tau, k, 1)}
	})
	r := b.Compare(rows, cols, stablehlo.LE)
	return b.Select(r, timesReal(b, got[0], scale), got[0]), b.Reshape(got[1], []int64{batch, k})
}

// reflection is LAPACK's larfg: of the column (alpha, tail) it makes (beta, 0). The vector of the reflection
// is (1, scale · tail). All but tail are [batch, 1, 1].
func reflection(b *stablehlo.Builder, alpha, tail value) (beta, tau, scale value) {
	d := alpha.DType()
	rest := keepSum(b, squareAbs(b, tail), 1)
	re := realPart(b, alpha)
	norm := b.Sqrt(b.Add(squareAbs(b, alpha), rest))
	sized := b.Select(b.Compare(re, b.ConstLike(re, 0), stablehlo.LT), norm, b.Negate(norm))
	none := b.Compare(rest, b.ConstLike(rest, 0), stablehlo.EQ)
	if d.IsComplex() {
		none = b.And(none, b.Compare(b.Imag(alpha), b.ConstLike(rest, 0), stablehlo.EQ))
	}
	divisor := b.Select(none, b.ConstLike(sized, 1), sized)
	beta = Convert(b, sized, d)
	difference := b.Subtract(alpha, beta)
	if d.IsComplex() {
		tau = b.Complex(b.Divide(b.Subtract(sized, re), divisor), b.Divide(b.Negate(b.Imag(alpha)), divisor))
	} else {
		tau = b.Divide(b.Subtract(sized, re), divisor)
	}
	tau = b.Select(none, b.ConstLike(tau, 0), tau)
	scale = b.Divide(b.ConstLike(alpha, 1), b.Select(none, b.ConstLike(alpha, 1), difference))
	scale = b.Select(none, b.ConstLike(scale, 0), scale)
	return b.Select(none, alpha, beta), tau, scale
}

// reflector is the vector of step k in a packed column: one at place k, the column below, zero above.
func reflector(b *stablehlo.Builder, column, at, k value) value {
	v := b.Select(compareTo(b, at, k, stablehlo.GT), column, b.ConstLike(column, 0))
	return b.Select(compareTo(b, at, k, stablehlo.EQ), b.ConstLike(column, 1), v)
}

// unitary is the first n columns of Q = H₁ H₂ ….
func unitary(b *stablehlo.Builder, packed, tau value, n int64) value {
	return reflect(b, packed, tau, identity(b, packed.DType(), packed.Dim(0), packed.Dim(1), n), true, false)
}

// reflect is Q c, or Qᴴ c, or from the right c Q, or c Qᴴ.
func reflect(b *stablehlo.Builder, packed, tau, c value, left, inverse bool) value {
	count := tau.Dim(1)
	backward := left != inverse // the last reflection comes first
	if inverse {
		tau = conjugate(b, tau)
	}
	tau = b.Reshape(tau, []int64{tau.Dim(0), count, 1})
	at := places(b, 1, packed.Dim(0), packed.Dim(1), 1)
	return steps(b, count, []value{c}, func(k value, v []value) []value {
		c := v[0]
		if backward {
			k = b.Subtract(b.Scalar(dtype.I32, stablehlo.Int(count-1)), k)
		}
		vector := reflector(b, sliceAt(b, packed, k, 2), at, k)
		scaled := b.Multiply(b.Broadcast(sliceAt(b, tau, k, 1), vector.Dims()), vector)
		if left {
			w := keepSum(b, b.Multiply(b.Broadcast(conjugate(b, vector), c.Dims()), c), 1)
			return []value{b.Subtract(c, times(b, c.Dims(), scaled, w))}
		}
		across := b.Transpose(scaled, []int64{0, 2, 1})
		w := keepSum(b, b.Multiply(c, b.Broadcast(across, c.Dims())), 2)
		return []value{b.Subtract(c, times(b, c.Dims(), w, adjoint(b, vector)))}
	})[0]
}
