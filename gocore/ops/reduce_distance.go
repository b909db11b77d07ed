package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// distanceRows are p-norms of differences.
var distanceRows = []Row{
	{Name: "dist", Schema: "(Tensor self, Tensor other, Scalar p=2) -> Tensor", Static: []int{2},
		Infer: func(c *Ctx) error {
			d, err := c.Promote(0, 1)
			if err != nil {
				return err
			}
			if d.IsIntegral() {
				return errs.New(errs.NotImpl, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", d.C10())
			}
			if _, err := c.Broadcast(0, 1); err != nil {
				return err
			}
			return c.Return(d.ToReal())
		},
		Lower: func(l *Lowering) {
			d, _ := promote(&l.Args, l.Graph, dtype.F32, []int{0, 1})
			x, y := l.pair(0, 1, d.Accumulate())
			p, _ := l.Number(2)
			l.Return(l.finish(0, pnorm(l.B, l.B.Subtract(x, y), p.Float(), allDims(x.Rank()).list())))
		}},
	{Name: "renorm", Schema: "(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", Overlap: Aligned, ExactOut: true, Static: []int{1},
		Infer: inferRenorm,
		Lower: func(l *Lowering) {
			b, s := l.B, l.Shape(0)
			x := l.As(0, s.DType.Accumulate())
			p, _ := l.Number(1)
			dims := l.otherDims(2)
			norm := pnorm(b, x, p.Float(), dims)
			limit := l.Like(3, norm)
			shrunk := b.Divide(limit, b.Add(norm, b.ConstLike(norm, 1e-7)))
			scale := b.Select(b.Compare(norm, limit, stablehlo.GT), shrunk, b.ConstLike(norm, 1))
			scale = Convert(b, scale, x.DType())
			l.Return(l.finish(0, b.Multiply(x, unreduce(b, scale, x.Dims(), dims))))
		}},
	{Name: "_cdist_forward", Schema: "(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
		Infer: func(c *Ctx) error {
			if p := c.Float(2); p < 0 {
				return errs.New(errs.Runtime, "cdist only supports non-negative p values")
			}
			if m := c.Int(3); m < 0 || m > 2 {
				return errs.New(errs.Runtime, "possible modes: 0, 1, 2, but was: %d", m)
			}
			return inferCdist(c, 0, 1)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType.Accumulate()
			x, y := l.As(0, d), l.As(1, d)
			p, mode := l.Float(2), l.Int(3)
			big := x.Dim(x.Rank()-2) > 25 || y.Dim(y.Rank()-2) > 25
			if p == 2 && (mode == 1 || mode == 0 && big) {
				l.Return(l.finish(0, euclidean(l.B, x, y)))
				return
			}
			diff := crossDifference(l.B, x, y)
			l.Return(l.finish(0, pnorm(l.B, diff, p, []int64{int64(diff.Rank() - 1)})))
		}},
	{Name: "_euclidean_dist", Schema: "(Tensor x1, Tensor x2) -> Tensor",
		Infer: func(c *Ctx) error { return inferCdist(c, 0, 1) },
		Lower: func(l *Lowering) {
			d := l.Out(0).DType.Accumulate()
			l.Return(l.finish(0, euclidean(l.B, l.As(0, d), l.As(1, d))))
		}},
	{Name: "_cdist_backward", Since: "2.14", Schema: "(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
		Infer: func(c *Ctx) error {
			if err := inferCdist(c, 1, 2); err != nil {
				return err
			}
			s, all := c.In(1), c.outs[0]
			c.outs = c.outs[:0]
			if all.Numel() == 0 || s.Numel() == 0 {
				return c.ReturnLike(s)
			}
			dims := append(c.dims[:0], all.Dims...)
			dims[len(dims)-1] = s.Dims[len(s.Dims)-1]
			return c.Return(s.DType, dims...)
		},
		Lower: func(l *Lowering) {
			if l.Shape(0).Numel() == 0 || l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			d := l.Out(0).DType.Accumulate()
			diff := crossDifference(l.B, l.As(1, d), l.As(2, d))
			l.Return(l.finish(0, distanceGrad(l.B, diff, l.As(0, d), l.As(4, d), l.Float(3))))
		}},
	{Name: "_pdist_forward", Schema: "(Tensor self, float p=2.) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if len(s.Dims) != 2 {
				return errs.New(errs.Runtime, "pdist only supports 2D tensors, got: %dD", len(s.Dims))
			}
			if !s.DType.IsFloat() {
				return errs.New(errs.Runtime, "pdist only supports floating-point dtypes")
			}
			return c.Return(s.DType, s.Dims[0]*max(s.Dims[0]-1, 0)/2)
		},
		Lower: func(l *Lowering) {
			b := l.B
			x := l.As(0, l.Out(0).DType.Accumulate())
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			all := pnorm(b, crossDifference(b, x, x), l.Float(1), []int64{2})
			l.Return(l.finish(0, takeFlat(b, all, pairPlaces(b, x.Dim(0)))))
		}},
	{Name: "_pdist_backward", Since: "2.14", Schema: "(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor",
		Infer: func(c *Ctx) error { return c.ReturnLike(c.In(1)) },
		Lower: func(l *Lowering) {
			b, d := l.B, l.Out(0).DType.Accumulate()
			if l.Shape(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			x := l.As(1, d)
			n := x.Dim(0)
			diff := crossDifference(b, x, x)
			l.Return(l.finish(0, distanceGrad(b, diff, symmetric(b, l.As(0, d), n), symmetric(b, l.As(3, d), n), l.Float(2))))
		}},
}

func inferRenorm(c *Ctx) error {
	s := c.In(0)
	p, _ := c.Number(1)
	limit, ok := c.Number(3)
	switch {
	case p.Type.IsComplex():
		return errs.New(errs.Runtime, "renorm: p must be real-valued")
	case p.Float() <= 0:
		return errs.New(errs.Runtime, "renorm: non-positive-norm not supported")
	case ok && limit.Type.IsComplex():
		return errs.New(errs.Runtime, "renorm: maxnorm must be real-valued")
	case ok && limit.Float() < 0:
		return errs.New(errs.Runtime, "renorm: expected maxnorm to be >= 0 but got %g", limit.Float())
	case len(s.Dims) < 2:
		return errs.New(errs.Runtime, "renorm: input needs at least 2 dimensions, got %d dimensions", len(s.Dims))
	case s.DType.IsIntegral():
		return errs.New(errs.NotImpl, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", s.DType.C10())
	}
	if _, err := WrapDim(c.Int(2), len(s.Dims)); err != nil {
		return err
	}
	return c.ReturnLike(s)
}

// inferCdist returns [batch…, P, R] for x1 [batch…, P, M] and x2 [batch…, R, M].
func inferCdist(c *Ctx, i, j int) error {
	x, y := c.In(i), c.In(j)
	nx, ny := len(x.Dims), len(y.Dims)
	switch {
	case nx < 2:
		return errs.New(errs.Runtime, "cdist only supports at least 2D tensors, X1 got: %dD", nx)
	case ny < 2:
		return errs.New(errs.Runtime, "cdist only supports at least 2D tensors, X2 got: %dD", ny)
	case x.Dims[nx-1] != y.Dims[ny-1]:
		return errs.New(errs.Runtime, "X1 and X2 must have the same number of columns. X1: %d X2: %d", x.Dims[nx-1], y.Dims[ny-1])
	case !x.DType.IsFloat():
		return errs.New(errs.Runtime, "cdist only supports floating-point dtypes, X1 got: %s", x.DType.C10())
	case !y.DType.IsFloat():
		return errs.New(errs.Runtime, "cdist only supports floating-point dtypes, X2 got: %s", y.DType.C10())
	}
	dims, bad, ok := shape.Broadcast(c.dims[:0], x.Dims[:nx-2], y.Dims[:ny-2])
	if !ok {
		return errs.New(errs.Runtime, "The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton dimension %d",
			at(x.Dims[:nx-2], bad, ny-2), at(y.Dims[:ny-2], bad, nx-2), bad)
	}
	dims = append(dims, x.Dims[nx-2], y.Dims[ny-2])
	return c.Return(x.DType, dims...)
}

// crossDifference is x1[…, i, :] − x2[…, j, :] as [batch…, P, R, M]; reductions over it fuse.
func crossDifference(b *stablehlo.Builder, x, y value) value {
	nx, ny := x.Rank(), y.Rank()
	dims := broadcastDims(x.Dims()[:nx-2], y.Dims()[:ny-2])
	batch := len(dims)
	dims = append(dims, x.Dim(nx-2), y.Dim(ny-2), x.Dim(nx-1))
	spread := func(v value, row int) value {
		mapping := make([]int64, v.Rank())
		for i := range v.Rank() - 2 {
			mapping[i] = int64(batch - (v.Rank() - 2) + i)
		}
		mapping[v.Rank()-2], mapping[v.Rank()-1] = int64(row), int64(batch+2)
		return b.BroadcastInDim(v, dims, mapping)
	}
	return b.Subtract(spread(x, batch), spread(y, batch+1))
}

// euclidean is the distance by |x|² + |y|² − 2x·y, which needs only a matrix product.
func euclidean(b *stablehlo.Builder, x, y value) value {
	nx, ny := x.Rank(), y.Rank()
	batch := broadcastDims(x.Dims()[:nx-2], y.Dims()[:ny-2])
	full := func(v value) value {
		return b.Broadcast(v, append(batch[:len(batch):len(batch)], v.Dims()[v.Rank()-2:]...))
	}
	x, y = full(x), full(y)
	lead, last := allDims(len(batch)).list(), int64(len(batch)+1)
	dot := b.DotGeneral(x, y, stablehlo.DotDims{LhsBatch: lead, RhsBatch: lead,
		LhsContract: []int64{last}, RhsContract: []int64{last}, Precision: stablehlo.PrecisionHighest})
	xx, yy := b.ReduceSum(b.Square(x), []int64{last}), b.ReduceSum(b.Square(y), []int64{last})
	sum := b.Add(unreduce(b, xx, dot.Dims(), []int64{last}), unreduce(b, yy, dot.Dims(), []int64{last - 1}))
	return b.Sqrt(b.Maximum(b.Subtract(sum, b.Add(dot, dot)), b.ConstLike(dot, 0)))
}

// distanceGrad is the gradient of distances [batch…, P, R] by the first operand of their differences
// [batch…, P, R, M], as [batch…, P, M]. It is 0 where the norm has no slope.
func distanceGrad(b *stablehlo.Builder, diff, grad, dist value, p float64) value {
	inner := []int64{int64(diff.Rank() - 1)}
	full := func(v value) value {
		return unreduce(b, b.Broadcast(v, diff.Dims()[:diff.Rank()-1]), diff.Dims(), inner)
	}
	g, d := full(grad), full(dist)
	none := b.ConstLike(diff, 0)
	size := b.Abs(diff)
	var v value
	switch {
	case p == 0:
		v = none
	case p == 1:
		v = b.Multiply(g, b.Sign(diff))
	case p == 2:
		v = b.Divide(b.Multiply(g, diff), d)
	case math.IsInf(p, 1):
		v = b.Select(b.Compare(size, d, stablehlo.EQ), b.Multiply(g, b.Sign(diff)), none)
	default:
		ratio := b.Divide(b.Power(size, b.ConstLike(size, p-1)), b.Power(d, b.ConstLike(d, p-1)))
		v = b.Multiply(b.Multiply(g, b.Sign(diff)), ratio)
		if p < 1 {
			v = b.Select(b.Compare(diff, none, stablehlo.EQ), none, v)
		}
	}
	v = b.Select(b.Compare(d, none, stablehlo.EQ), none, v)
	return b.ReduceSum(v, []int64{int64(diff.Rank() - 2)})
}

// pairPlaces is where the pairs (0,1), (0,2) … (n−2,n−1) are in a flat n×n matrix. Row i holds the pairs
// from i·(2n−i−1)/2 on; its number is the root of that, set right by one comparison on each side.
func pairPlaces(b *stablehlo.Builder, n int64) value {
	k := b.Arange(dtype.I64, n*(n-1)/2)
	whole := func(v int64) value { return b.SplatLike(k, stablehlo.Int(v)) }
	start := func(i value) value {
		return b.Divide(b.Multiply(i, b.Subtract(whole(2*n-1), i)), whole(2))
	}
	m := float64(2*n - 1)
	f := b.Convert(k, dtype.F64)
	root := b.Sqrt(b.Subtract(b.ConstLike(f, m*m), b.Multiply(f, b.ConstLike(f, 8))))
	i := b.Convert(b.Divide(b.Subtract(b.ConstLike(f, m), root), b.ConstLike(f, 2)), dtype.I64)
	i = b.Subtract(i, b.Convert(b.Compare(start(i), k, stablehlo.GT), dtype.I64))
	i = b.Add(i, b.Convert(b.Compare(start(b.Add(i, whole(1))), k, stablehlo.LE), dtype.I64))
	j := b.Add(b.Subtract(k, start(i)), b.Add(i, whole(1)))
	return b.Add(b.Multiply(i, whole(n)), j)
}

// symmetric is the n×n matrix of values given for each pair, 0 on the diagonal.
func symmetric(b *stablehlo.Builder, pairs value, n int64) value {
	s := shape.Make(dtype.I64, n, n)
	i, j := b.Iota(s, 0), b.Iota(s, 1)
	low, high := b.Minimum(i, j), b.Maximum(i, j)
	start := b.Divide(b.Multiply(low, b.Subtract(b.ConstLike(low, float64(2*n-1)), low)), b.ConstLike(low, 2))
	place := b.Add(start, b.Subtract(b.Subtract(high, low), b.ConstLike(low, 1)))
	v := takeFlat(b, pairs, place)
	return b.Select(b.Compare(i, j, stablehlo.EQ), b.ConstLike(v, 0), v)
}
