package ops

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// attentionRows are torch's attention of the CPU and its gradient, which other devices compute here by the same ops.
// The queries are [batch, heads, L, E]; keys and values [batch, heads of keys, S, E], each of which serves several of
// the queries' heads.
var attentionRows = []Row{
	{Name: "_scaled_dot_product_flash_attention_for_cpu",
		Schema: "(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)", Strides: Preserved,
		Torch: &Kernel{Check: "attention", Orders: attentionOrders,
			When: func(l *Lowering) bool { return scores(l, 0) >= minScores }},
		Multiplications: attended(2, 0),
		Infer: func(c *Ctx) error {
			if err := inferAttention(c, attentionArgs{query: 0, dropout: 3, mask: 5}); err != nil {
				return err
			}
			q := c.In(0)
			if err := c.ReturnLike(q); err != nil {
				return err
			}
			return c.Return(q.DType.Accumulate(), q.Dims[:3]...)
		},
		Lower: lowerAttention},
	{Name: "_scaled_dot_product_flash_attention_for_cpu_backward",
		Schema: "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
		Torch: &Kernel{Check: "attention_gradient", Orders: attentionBackOrders,
			When: func(l *Lowering) bool { return scores(l, 1) >= minScores }},
		Multiplications: attended(5, 1),
		Infer: func(c *Ctx) error {
			if err := inferAttention(c, attentionArgs{query: 1, dropout: 6, mask: 8}); err != nil {
				return err
			}
			q, lse := c.In(1), c.In(5)
			for _, i := range []int{0, 4} {
				if c.In(i) != q {
					return errs.New(errs.Runtime, "%s: expected %s of the query, but got %s", attentionName, q, c.In(i))
				}
			}
			if want := shape.Make(q.DType.Accumulate(), q.Dims[:3]...); lse != want {
				return errs.New(errs.Runtime, "%s: expected a logsumexp of %s, but got %s", attentionName, want, lse)
			}
			for i := 1; i <= 3; i++ {
				if err := c.ReturnLike(c.In(i)); err != nil {
					return err
				}
			}
			return nil
		},
		Lower: lowerAttentionBackward},
}

// attentionName is how torch's messages name the op.
const attentionName = "scaled_dot_product_attention_flash_attention"

// attentionArgs are positions in the schema; key and value follow the query, is_causal follows dropout_p, scale the
// mask.
type attentionArgs struct{ query, dropout, mask int }

// inferAttention checks the operands. Torch's kernel takes on trust how their sizes fit together.
func inferAttention(c *Ctx, a attentionArgs) error {
	q, k, v := c.In(a.query), c.In(a.query+1), c.In(a.query+2)
	d := q.DType
	switch {
	case !convolved(d):
		return errs.New(errs.Runtime, "%s: Expected data type in FP32, FP64, BF16, FP16, but got %s instead.", attentionName, d.C10())
	case q.Rank() != 4 || k.Rank() != 4 || v.Rank() != 4:
		return errs.New(errs.Runtime, "%s: Accept only 4 dims inputs shape of {B, H, T, K}", attentionName)
	case c.Float(a.dropout) != 0:
		return errs.New(errs.Runtime, "%s: Currently do not support dropout > 0", attentionName)
	case q.Dims[3] != k.Dims[3] || q.Dims[3] != v.Dims[3]:
		return errs.New(errs.Runtime, "%s: Q/K/V should have the same head size", attentionName)
	}
	for _, s := range []*shape.Shape{k, v} {
		if s.DType != d {
			return errs.New(errs.Runtime, "expected scalar type %s but found %s", d.C10(), s.DType.C10())
		}
	}
	if !slices.Equal(k.Dims, v.Dims) || k.Dims[0] != q.Dims[0] || k.Dims[1] == 0 || k.Dims[2] == 0 || q.Dims[1]%k.Dims[1] != 0 {
		return errs.New(errs.Runtime, "%s: query %s, key %s and value %s do not fit together", attentionName, q, k, v)
	}
	m := c.In(a.mask)
	switch {
	case m == nil:
	case m.DType != d && m.DType != dtype.F32:
		return errs.New(errs.Runtime, "%s: Attention mask is the same data type as query", attentionName)
	case m.Rank() != 2 && m.Rank() != 4:
		return errs.New(errs.Runtime, "%s: Attention mask dim in {2, 4}", attentionName)
	case q.Dims[0]*q.Dims[1]*q.Dims[2] > 0 && !expandable(m.Dims, []int64{q.Dims[0], q.Dims[1], q.Dims[2], k.Dims[2]}):
		return errs.New(errs.Runtime, "%s: attention mask %s does not fit query %s and key %s", attentionName, m, q, k)
	}
	return nil
}

// attention holds what the forward and the backward pass share. Heads of queries that share a head of keys are one
// longer sequence. Its sizes are [batch, heads of keys, heads of queries per head of keys · L, E].
type attention struct {
	l             *Lowering
	d             dtype.DType
	q, k, v       value
	joined, apart []int64 // dimensions of the scores, with the heads joined and apart
	scale         float64
}

func (l *Lowering) attention(query, mask int) *attention {
	qs, ks := l.Shape(query), l.Shape(query+1)
	a := &attention{l: l, d: qs.DType.Accumulate(), scale: l.FloatOr(mask+1, 1/math.Sqrt(float64(qs.Dims[3])))}
	b, h, n, s := qs.Dims[0], qs.Dims[1], qs.Dims[2], ks.Dims[2]
	a.apart, a.joined = []int64{b, h, n, s}, []int64{b, ks.Dims[1], h / ks.Dims[1] * n, s}
	a.q, a.k, a.v = a.join(query), l.As(query+1, a.d), l.As(query+2, a.d)
	return a
}

// join is an argument of the query's shape with its heads joined.
func (a *attention) join(i int) value {
	x := a.l.As(i, a.d)
	return a.l.B.Reshape(x, []int64{a.joined[0], a.joined[1], a.joined[2], x.Dim(3)})
}

// product multiplies two values batch by batch and head by head.
func (a *attention) product(x, y value, xContract, yContract int64) value {
	batch := []int64{0, 1}
	return a.l.dot(x, y, stablehlo.DotDims{LhsBatch: batch, RhsBatch: batch, LhsContract: []int64{xContract}, RhsContract: []int64{yContract}})
}

// scores are the scaled products of queries and keys, with what the mask adds and −∞ for keys that a query must not
// see.
func (a *attention) scores(causal, mask int) value {
	b := a.l.B
	s := b.Reshape(a.product(a.q, a.k, 3, 3), a.apart)
	s = b.Multiply(s, b.ConstLike(s, a.scale))
	if a.l.Has(mask) {
		s = b.Add(s, a.l.Full(mask, a.d, a.apart))
	}
	if a.l.Bool(causal) {
		at := shape.Make(dtype.I32, a.apart[2:]...)
		seen := b.Compare(b.Iota(at, 0), b.Iota(at, 1), stablehlo.GE)
		s = b.Select(b.Broadcast(seen, a.apart), s, b.Broadcast(b.MinValue(a.d), a.apart))
	}
	return s
}

// scores is the number of scores of queries at argument i.
func scores(l *Lowering, i int) int64 {
	q := l.Shape(i)
	return q.Dims[0] * q.Dims[1] * q.Dims[2] * l.Shape(i + 1).Dims[2]
}

// headsLast is how torch's attention has its results: the sequence before the heads, as models have them.
var headsLast = []int64{0, 2, 1, 3}

// attentionOrders gives operands as they lie; torch's result lies like the query.
func attentionOrders(l *Lowering) (in, out map[int][]int64) {
	q := l.orderOf(0)
	return map[int][]int64{0: q, 1: l.orderOf(1), 2: l.orderOf(2)}, map[int][]int64{0: q, 1: headsLast[:3]}
}

func attentionBackOrders(l *Lowering) (in, out map[int][]int64) {
	in = map[int][]int64{4: l.orderOf(1), 5: headsLast[:3]}
	for i := range 4 {
		in[i] = l.orderOf(i)
	}
	return in, map[int][]int64{0: headsLast, 1: headsLast, 2: headsLast}
}

// zeros returns zeros for each result.
func (l *Lowering) zeros() {
	for i := range l.outCount() {
		l.Return(l.B.Splat(l.Out(i), stablehlo.Float(0)))
	}
}

// lowerAttention divides by the sums after the product with the values. A query that sees no key gives 0, and 0 as
// logarithm.
func lowerAttention(l *Lowering) {
	const query, causal, mask = 0, 4, 5
	if scores(l, query) == 0 {
		l.zeros()
		return
	}
	a, b := l.attention(query, mask), l.B
	s := a.scores(causal, mask)
	top := b.ReduceMax(s, []int64{3})
	if l.Has(mask) {
		top = b.Select(b.IsNegInf(top), b.ConstLike(top, 0), top)
	}
	e := b.Exponential(b.Subtract(s, unreduce(b, top, a.apart, []int64{3})))
	sum := b.ReduceSum(e, []int64{3})
	if l.Has(mask) {
		sum = b.Select(b.Compare(sum, b.ConstLike(sum, 0), stablehlo.EQ), b.ConstLike(sum, 1), sum)
	}
	out := b.Reshape(a.product(b.Reshape(e, a.joined), a.v, 3, 2), l.Out(0).Dims)
	out = b.Divide(out, unreduce(b, sum, out.Dims(), []int64{3}))
	l.Return(l.Convert(out, l.Out(0).DType), l.Convert(b.Add(top, b.Log(sum)), l.Out(1).DType))
}

// lowerAttentionBackward computes the weights from the scores again.
func lowerAttentionBackward(l *Lowering) {
	const grad, query, out, lse, causal, mask = 0, 1, 4, 5, 7, 8
	if scores(l, query) == 0 {
		l.zeros()
		return
	}
	a, b, rows := l.attention(query, mask), l.B, []int64{3}
	weights := b.Exponential(b.Subtract(a.scores(causal, mask), unreduce(b, l.As(lse, a.d), a.apart, rows)))
	dy := a.join(grad)
	delta := b.ReduceSum(b.Multiply(dy, a.join(out)), rows)
	p := b.Reshape(weights, a.joined)
	ds := b.Multiply(p, b.Subtract(a.product(dy, a.v, 3, 3), unreduce(b, delta, a.joined, rows)))
	ds = b.Multiply(ds, b.ConstLike(ds, a.scale))
	dq := b.Reshape(a.product(ds, a.k, 3, 2), l.Out(0).Dims)
	dk, dv := a.product(ds, a.q, 2, 2), a.product(p, dy, 2, 2)
	for i, g := range []value{dq, dk, dv} {
		l.Return(l.Convert(g, l.Out(i).DType))
	}
}
