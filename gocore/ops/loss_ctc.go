package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// ctcRows are the loop of connectionist temporal classification; what goes around it is in _backend/composed/ctc.py.
var ctcRows = []Row{
	// log_probs is [time, batch, state]. The result is the logarithm of the probability of all paths to a state
	// at a time. A path begins in one of the first two states, and goes on to the same or to the next. Where
	// skips [batch, state] is true, a state is also reached from two before it.
	{Name: "torch_go_xla::ctc_paths", Schema: "(Tensor log_probs, Tensor skips) -> Tensor", Internal: true,
		Infer: func(c *Ctx) error {
			x, skips := c.In(0), c.In(1)
			if x.Rank() != 3 || !slices.Equal(skips.Dims, x.Dims[1:]) || skips.DType != dtype.Bool || !wide.has(x.DType) {
				return errs.New(errs.Runtime, "ctc_paths: expected [time, batch, state] of torch.float32 or torch.float64 and a mask [batch, state], got %s and %s", x, skips)
			}
			return c.ReturnLike(x)
		},
		Lower: func(l *Lowering) {
			x := l.In(0)
			if x.Shape().Numel() == 0 {
				l.Return(x)
				return
			}
			l.Return(ctcPaths(l.B, x, l.In(1)))
		}},
}

func ctcPaths(b *stablehlo.Builder, x, skips value) value {
	time, row := x.Dim(0), x.Dims()[1:]
	never := b.Scalar(x.DType(), stablehlo.Float(math.Inf(-1)))
	nowhere := b.Broadcast(never, row)
	at := func(k value) value { return b.Reshape(sliceAt(b, x, k, 0), row) }
	frame := append([]int64{1}, row...)
	begins := b.Compare(places(b, 1, row...), b.Broadcast(b.Scalar(dtype.I32, stablehlo.Int(2)), row), stablehlo.LT)
	first := b.Select(begins, at(zero(b, dtype.I32)), nowhere)
	all := putAt(b, x, b.Reshape(first, frame), zero(b, dtype.I32), 0)
	before := func(v value, n int64) value { // the probabilities n states back
		n = min(n, row[1])
		return b.Pad(b.SliceDim(v, 1, 0, row[1]-n, 1), never, []int64{0, n}, []int64{0, 0}, []int64{0, 0})
	}
	return steps(b, time-1, []value{first, all}, func(k value, v []value) []value {
		k = b.Add(k, one(b, dtype.I32))
		stay, next := v[0], before(v[0], 1)
		skip := b.Select(skips, before(v[0], 2), nowhere)
		top := b.Maximum(b.Maximum(stay, next), skip)
		top = b.Select(b.Compare(top, nowhere, stablehlo.EQ), b.ConstLike(top, 0), top)
		sum := b.ConstLike(top, 0)
		for _, part := range []value{stay, next, skip} {
			sum = b.Add(sum, b.Exponential(b.Subtract(part, top)))
		}
		now := b.Add(b.Add(b.Log(sum), top), at(k))
		return []value{now, putAt(b, v[1], b.Reshape(now, frame), k, 0)}
	})[1]
}
