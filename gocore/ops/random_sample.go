package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// sampleRows draw from distributions whose parameters are tensors.
var sampleRows = []Row{
	{Name: "bernoulli", Schema: "(Tensor self, *, Generator? generator=None) -> Tensor", Random: true, Quiet: true,
		Infer: func(c *Ctx) error { return inferBernoulli(c, 0) },
		Lower: func(l *Lowering) { lowerBernoulli(l, 0) }},
	{Name: "bernoulli.Tensor", Schema: "(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", Random: true, ShapeOnly: []int{0},
		Infer: func(c *Ctx) error { return inferBernoulli(c, 1) },
		Lower: func(l *Lowering) { lowerBernoulli(l, 1) }},
	{Name: "normal.Tensor_float", Schema: "(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor", Random: true,
		Infer: func(c *Ctx) error {
			if err := checkStd(1, false, "normal")(c); err != nil {
				return err
			}
			return inferNormal(c, 0, 0)
		},
		Lower: func(l *Lowering) {
			d := l.Out(0).DType
			l.lowerNormal(l.As(0, d.Accumulate()), l.B.ConstLike(l.As(0, d.Accumulate()), StdOf(l.FloatOr(1, 1), d)))
		}},
	{Name: "normal.float_Tensor", Schema: "(float mean, Tensor std, *, Generator? generator=None) -> Tensor", Random: true,
		Infer: func(c *Ctx) error { return inferNormal(c, 1, 1) },
		Lower: func(l *Lowering) {
			std := l.As(1, l.Out(0).DType.Accumulate())
			l.lowerNormal(l.B.ConstLike(std, l.Float(0)), std)
		}},
	{Name: "normal.Tensor_Tensor", Schema: "(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", Random: true,
		Infer: func(c *Ctx) error { return inferNormal(c, 0, 1) },
		Lower: func(l *Lowering) {
			o := l.Out(0)
			d := o.DType.Accumulate()
			std := l.Full(1, d, o.Dims)
			if d.IsComplex() {
				std = l.B.Multiply(std, l.B.ConstLike(std, StdOf(1, d)))
			}
			l.lowerNormal(l.Full(0, d, o.Dims), std)
		}},
	{Name: "multinomial", Schema: "(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", ExactOut: true, Random: true,
		Infer: inferMultinomial, Lower: lowerMultinomial},
}

func inferBernoulli(c *Ctx, p int) error {
	self, prob := c.In(0), c.In(p)
	switch {
	case !(bools | ints | floats).has(self.DType):
		return notFor("bernoulli_tensor_cpu_self_", self.DType)
	case !floats.has(prob.DType):
		return notFor("bernoulli_tensor_cpu_p_", prob.DType)
	case !expandable(prob.Dims, self.Dims):
		return checkExpand(prob, self.Dims...)
	}
	return c.ReturnLike(self)
}

func lowerBernoulli(l *Lowering, p int) {
	o := l.Out(0)
	prob := l.Full(p, l.Shape(p).DType.Accumulate(), o.Dims)
	u := l.stream().uniform(prob.DType(), o.Dims)
	l.Return(l.Convert(l.B.Compare(u, prob, stablehlo.LT), o.DType))
}

// inferNormal has the type of the mean (or of what stands in its place) and the common dimensions.
func inferNormal(c *Ctx, mean, std int) error {
	d := c.In(mean).DType
	switch {
	case c.In(std) != nil && c.In(std).DType.IsComplex() && std == 1:
		return errs.New(errs.Runtime, "normal expects standard deviation to be non-complex")
	case !(floats | complexes).has(d):
		return notFor("normal_kernel_cpu", d)
	}
	dims, err := c.Broadcast(mean, std)
	if err != nil {
		return err
	}
	return c.Return(d, dims...)
}

// lowerNormal is mean + std·normal; the parts of a complex number are drawn apart.
func (l *Lowering) lowerNormal(mean, std value) {
	o, s := l.Out(0), l.stream()
	if o.DType.IsComplex() {
		re := s.normal(o.DType.ToReal(), o.Dims)
		draw := l.B.Complex(re, s.normal(o.DType.ToReal(), o.Dims))
		l.Return(l.B.Add(mean, l.B.Multiply(std, draw)))
		return
	}
	l.Return(l.Convert(l.B.Add(mean, l.B.Multiply(std, s.normal(mean.DType(), o.Dims))), o.DType))
}

func inferMultinomial(c *Ctx) error {
	s, n := c.In(0), c.Int(1)
	rank := len(s.Dims)
	switch {
	case rank != 1 && rank != 2:
		return errs.New(errs.Runtime, "prob_dist must be 1 or 2 dim")
	case !floats.has(s.DType):
		return errs.New(errs.Runtime, "multinomial only supports floating-point dtypes for input, got: %s", s.DType.C10())
	case n <= 0:
		return errs.New(errs.Runtime, "cannot sample n_sample <= 0 samples")
	case !c.Bool(2) && n > s.Dims[rank-1]:
		return errs.New(errs.Runtime, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
	case s.Dims[rank-1] > 1<<24:
		return errs.New(errs.Runtime, "number of categories cannot exceed 2^24")
	}
	dims := append(c.dims[:0], s.Dims...)
	dims[rank-1] = n
	return c.Return(dtype.I64, dims...)
}

// lowerMultinomial draws without replacement (and single samples) by the race of exponential clocks:
// the categories whose weight divided by their clock is highest. With replacement it inverts the
// cumulative weights.
func lowerMultinomial(l *Lowering) {
	b, o, n := l.B, l.Out(0), l.Int(1)
	w := l.As(0, l.Shape(0).DType.Accumulate())
	dims := w.Dims()
	last := int64(len(dims) - 1)
	k := dims[last]
	if o.Numel() == 0 || k == 0 {
		l.Return(b.Splat(o, stablehlo.Int(0)))
		return
	}
	s := l.stream()
	if !l.Bool(2) || n == 1 {
		race := b.Divide(w, s.exponential(w.DType(), dims))
		_, index := b.TopK(race, n)
		l.Return(b.Convert(index, dtype.I64))
		return
	}
	sums := cumulative(b, []value{w}, last, stablehlo.CombineAdd)[0]
	total := b.SliceDim(sums, last, k-1, k, 1)
	at := b.Multiply(s.uniform(w.DType(), o.Dims), b.Broadcast(total, o.Dims))
	l.Return(b.Convert(countAtMost(b, sums, at), dtype.I64))
}

// countAtMost is, for each element of at, how many elements of the ascending rows of sums are at most it. It is never
// the number of columns, for at is below the last one. Both have the same leading dimensions.
func countAtMost(b *stablehlo.Builder, sums, at value) value {
	rank := at.Rank()
	all := append(append([]int64{}, at.Dims()...), sums.Dim(rank-1))
	lead, column := make([]int64, rank), make([]int64, rank)
	for i := range rank {
		lead[i], column[i] = int64(i), int64(i)
	}
	column[rank-1] = int64(rank)
	below := b.Compare(b.BroadcastInDim(sums, all, column), b.BroadcastInDim(at, all, lead), stablehlo.LE)
	count := b.ReduceSum(b.Convert(below, dtype.I32), []int64{int64(rank)})
	return b.Minimum(count, b.ConstLike(count, float64(sums.Dim(rank-1)-1)))
}
