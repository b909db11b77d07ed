package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// scanRows are running reductions along one dimension.
var scanRows = []Row{
	runningTotal("cumsum", 0, stablehlo.CombineAdd).overlapping(Aligned).byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
	runningTotal("cumprod", 1, stablehlo.CombineMul).overlapping(Aligned).byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
	runningExtremum("cummax", stablehlo.GE).exactOut().byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
	runningExtremum("cummin", stablehlo.LE).exactOut().byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
	logCumSumExpRow("logcumsumexp").overlapping(Aligned).byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
	logCumSumExpRow("_logcumsumexp").byTorch(&Kernel{Out: "out", When: many(1 << 14)}),
}

// runningTotal is cumsum or cumprod, whose combiner leaves init as it is.
func runningTotal(name string, init int64, f stablehlo.Combiner) Row {
	a := axes{dtype: 2}
	return Row{Name: name, Schema: "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", TypedByOut: true,
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if _, err := WrapDim(c.Int(1), len(s.Dims)); err != nil {
				return err
			}
			d := a.sumType(&c.Args, s.DType)
			if d == dtype.Bool && len(s.Dims) > 0 && s.Numel() > 0 {
				return notFor(name+"_out_cpu", d)
			}
			return c.ReturnLike(s.With(d))
		},
		Lower: func(l *Lowering) {
			x := l.Convert(l.summand(), l.Out(0).DType.Accumulate())
			if x.Rank() > 0 {
				x = scan(l.B, x, l.B.Scalar(x.DType(), stablehlo.Int(init)), l.scanDim(), f)
			}
			l.Return(l.finish(0, x))
		}}
}

// scanDim is the dimension that argument 1 names, for an operand that has dimensions.
func (l *Lowering) scanDim() int64 { return int64(acceptedDim(l.Int(1), len(l.Shape(0).Dims))) }

// cumulative scans each of xs along dim by an f whose identity is zero, such as a sum.
func cumulative(b *stablehlo.Builder, xs []value, dim int64, f stablehlo.Combiner) []value {
	out := make([]value, len(xs))
	for i, x := range xs {
		out[i] = scan(b, x, zero(b, x.DType()), dim, f)
	}
	return out
}

// scan is the inclusive scan of x along dim by an associative f with identity init. XLA knows this form
// of a window and makes a scan in blocks of it.
func scan(b *stablehlo.Builder, x, init value, dim int64, f stablehlo.Combiner) value {
	n := x.Dim(int(dim))
	if n < 2 || x.Shape().Numel() == 0 {
		return x
	}
	w := stablehlo.Window{Dims: make([]int64, x.Rank()), Padding: make([][2]int64, x.Rank())}
	for i := range w.Dims {
		w.Dims[i] = 1
	}
	w.Dims[dim], w.Padding[dim] = n, [2]int64{n - 1, 0}
	return b.ReduceWindow([]value{x}, []value{init}, w, f)[0]
}

// runningExtremum is cummax or cummin: of equal elements the last counts, and after a NaN the last NaN.
func runningExtremum(name string, prefer stablehlo.Direction) Row {
	return Row{Name: name, Schema: "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if _, err := WrapDim(c.Int(1), len(s.Dims)); err != nil {
				return err
			}
			if s.DType.IsComplex() {
				return notFor(name+"_cpu", s.DType)
			}
			c.outs = append(c.outs, s, s.With(dtype.I64))
			return nil
		},
		Lower: func(l *Lowering) {
			b, x := l.B, l.In(0)
			if x.DType() == dtype.Bool {
				x = l.Convert(x, dtype.U8)
			}
			if x.Rank() == 0 {
				l.Return(l.finish(0, x), zero(b, dtype.I64))
				return
			}
			dim, worst := l.scanDim(), b.MinValue(x.DType())
			if prefer == stablehlo.LE {
				worst = b.MaxValue(x.DType())
			}
			best := scan(b, x, worst, dim, preferring(prefer))
			// the place is the last one so far where the element was the best
			hit := b.Compare(x, best, stablehlo.EQ)
			if x.DType().IsFloat() {
				hit = b.Or(hit, b.IsNaN(x))
			}
			places := b.Iota(shape.Of(placeType(x.Dim(int(dim))), x.Dims()), dim)
			places = b.Select(hit, places, b.ConstLike(places, 0))
			places = cumulative(b, []value{places}, dim, stablehlo.CombineMax)[0]
			l.Return(l.finish(0, best), l.finish(1, places))
		}}
}

func logCumSumExpRow(name string) Row {
	return Row{Name: name, Schema: "(Tensor self, int dim) -> Tensor",
		OutType: func(given, computed dtype.DType) error {
			if given == computed {
				return nil
			}
			return errs.New(errs.Runtime, "expected scalar_type %s but found %s", computed.C10(), given.C10())
		},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			if _, err := WrapDim(c.Int(1), len(s.Dims)); err != nil {
				return err
			}
			if s.DType.IsIntegral() {
				return notFor("logcumsumexp_out_cpu", s.DType)
			}
			return c.ReturnLike(s)
		},
		Lower: func(l *Lowering) {
			x := l.As(0, l.Out(0).DType.Accumulate())
			switch {
			case x.Rank() == 0:
			case x.DType().IsComplex():
				// one by one, as torch does: the sheet of the logarithm depends on the order
				x = scan(l.B, x, l.B.Scalar(x.DType(), stablehlo.Float(math.Inf(-1))), l.scanDim(), func(b *stablehlo.Builder, lhs, rhs []value) []value {
					return []value{logAddExp(b, lhs[0], rhs[0])}
				})
			default:
				x = logCumSumExp(l.B, x, l.scanDim())
			}
			l.Return(l.finish(0, x))
		}}
}

// logCumSumExp scans in blocks of 16. Each element sums over its block's head directly, scaled by the maximum there,
// and the totals of the blocks are scanned in turn.
func logCumSumExp(b *stablehlo.Builder, x value, dim int64) value {
	const block = 16
	n := x.Dim(int(dim))
	if n < 2 || x.Shape().Numel() == 0 {
		return x
	}
	if n <= block {
		return logSumExpHeads(b, x, dim)
	}
	blocks := (n + block - 1) / block
	nothing := b.Scalar(x.DType(), stablehlo.Float(math.Inf(-1)))
	pad := func(v value, low, high int64) value {
		lows, highs := make([]int64, v.Rank()), make([]int64, v.Rank())
		lows[dim], highs[dim] = low, high
		return b.Pad(v, nothing, lows, highs, nil)
	}
	padded := pad(x, 0, blocks*block-n)
	dims := splitDim(padded.Dims(), dim, blocks, block)
	heads := logSumExpHeads(b, b.Reshape(padded, dims), dim+1)
	totals := b.ReduceSum(b.SliceDim(heads, dim+1, block-1, block, 1), []int64{dim + 1})
	before := pad(b.SliceDim(logCumSumExp(b, totals, dim), dim, 0, blocks-1, 1), 1, 0)
	sums := logAddExp(b, unreduce(b, before, dims, []int64{dim + 1}), heads)
	return b.SliceDim(b.Reshape(sums, padded.Dims()), dim, 0, n, 1)
}

// splitDim is dims with dimension dim replaced by outer, inner.
func splitDim(dims []int64, dim, outer, inner int64) []int64 {
	out := append([]int64(nil), dims[:dim]...)
	out = append(out, outer, inner)
	return append(out, dims[dim+1:]...)
}

// logSumExpHeads is log Σ exp over x[…0…i…] at each place i of dim, in quadratic work.
func logSumExpHeads(b *stablehlo.Builder, x value, dim int64) value {
	n := x.Dim(int(dim))
	dims := splitDim(x.Dims(), dim, n, n)
	s := shape.Of(dtype.I32, dims)
	before := b.Compare(b.Iota(s, dim+1), b.Iota(s, dim), stablehlo.LE)
	full := unreduce(b, x, dims, []int64{dim})
	nothing := b.Broadcast(b.Scalar(x.DType(), stablehlo.Float(math.Inf(-1))), dims)
	return logSumExp(b, b.Select(before, full, nothing), []int64{dim + 1})
}

// logAddExp is log(eˣ + eʸ); equal infinities give that infinity. Complex operands are ordered by their
// real parts.
func logAddExp(b *stablehlo.Builder, x, y value) value {
	swap := b.Compare(b.Real(y), b.Real(x), stablehlo.GT)
	top, low := b.Select(swap, y, x), b.Select(swap, x, y)
	sum := b.Add(top, b.LogPlusOne(b.Exponential(b.Subtract(low, top))))
	same := b.And(b.Compare(x, y, stablehlo.EQ), b.IsInf(b.Real(x)))
	return b.Select(b.Or(same, b.IsNegInf(b.Real(low))), top, sum)
}
