package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// randomIntRows fill a tensor with integers.
var randomIntRows = []Row{
	fill("random", "(Tensor self, *, Generator? generator=None) -> Tensor", "random_kernel_cpu", bools|ints|floats,
		func(*Ctx) error { return nil },
		drawIntegers),
	fill("random.to", "(Tensor self, int to, *, Generator? generator=None) -> Tensor", "random_update_from_to", ^f8s,
		func(c *Ctx) error { return checkRange(c.In(0).DType, 0, c.Int(1), "check_random_bounds") },
		drawIntegers),
	fill("random.from", "(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor", "random_from_to_range_calc", ^f8s,
		func(c *Ctx) error {
			d := c.In(0).DType
			if c.Has(2) {
				return checkRange(d, c.Int(1), c.Int(2), "random_from_to_impl")
			}
			if c.Int(1) == math.MinInt64 {
				return nil
			}
			return checkRange(d, c.Int(1), top(d), "random_from_to_impl")
		},
		drawIntegers),
}

func drawIntegers(l *Lowering, s *stream, d dtype.DType, dims []int64) value {
	from, n := RandomRange(&l.Args, d)
	return s.integers(d, dims, from, n)
}

// RandomRange is what a row that fills a tensor of a type with integers draws from: [from, from+n), where n = 0 stands
// for 2⁶⁴.
func RandomRange(a *ir.Args, d dtype.DType) (from int64, n uint64) {
	switch a.Len() - 3 { // the generator, its key and its draws follow
	case 1:
		return 0, span(d)
	case 2:
		return 0, uint64(a.Int(1))
	}
	from = a.Int(1)
	switch {
	case a.Has(2):
		return from, uint64(a.Int(2)) - uint64(from)
	case from == math.MinInt64:
		return from, 0
	}
	return from, uint64(top(d)) - uint64(from) + 1
}

// span is how many values random_() without bounds draws from: the non-negative ones of an integer
// type, the integers that a float type represents.
func span(d dtype.DType) uint64 {
	switch {
	case d == dtype.Bool:
		return 2
	case d.IsFloat():
		return 1<<Mantissa(d) + 1
	case d == dtype.U64:
		return math.MaxUint64
	case d.IsUnsigned():
		return 1 << (8 * d.Size())
	}
	return 1 << (8*d.Size() - 1)
}

// top is the highest value that random_(from, None) draws, as far as an int64 holds it.
func top(d dtype.DType) int64 { return int64(min(span(d)-1, math.MaxInt64)) }

// checkRange follows check_from_to_in_range: from < to, both in the type's range.
func checkRange(d dtype.DType, from, to int64, caller string) error {
	lo, hi := -math.MaxFloat64, math.MaxFloat64
	switch {
	case d.IsComplex():
		return errs.New(errs.Runtime, "%s handles only integral, floating-point and boolean types", caller)
	case d == dtype.U64:
		lo = 0
	case d.IsFloat():
		lo, hi = -highest(d), highest(d)
	default:
		low, high := d.Range()
		lo, hi = float64(low), float64(high)
	}
	switch {
	case from >= to:
		return errs.New(errs.Runtime, "random_ expects 'from' to be less than 'to', but got from=%d >= to=%d", from, to)
	case float64(from) < lo || float64(from) > hi:
		return errs.New(errs.Runtime, "from is out of bounds for %s", demangled(d))
	case float64(to-1) < lo || float64(to-1) > hi:
		return errs.New(errs.Runtime, "to - 1 is out of bounds for %s", demangled(d))
	}
	return nil
}

// integers are uniform in [from, from+n); n = 0 stands for 2⁶⁴. The bias of the multiplication (below
// 2³²) and of the remainder (above) is that of torch's own remainder or less.
func (s *stream) integers(d dtype.DType, dims []int64, from int64, n uint64) value {
	b := s.b
	var v value
	switch {
	case n == 0:
		v = s.bits(dtype.U64, dims)
	case n <= 1<<32:
		v = b.Convert(s.bits(dtype.U32, dims), dtype.U64)
		v = b.ShiftRightLogical(b.Multiply(v, b.SplatLike(v, stablehlo.Uint(n))), b.ConstLike(v, 32))
	default:
		v = s.bits(dtype.U64, dims)
		v = b.Remainder(v, b.SplatLike(v, stablehlo.Uint(n)))
	}
	v = b.BitcastConvert(v, dtype.I64)
	if from != 0 {
		v = b.Add(v, b.SplatLike(v, stablehlo.Int(from)))
	}
	return Convert(b, v, d)
}

// permutationRows order things at random.
var permutationRows = []Row{
	{Name: "randperm", Schema: "(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Quiet: true,
		Random: true, Infer: func(c *Ctx) error { return inferPermutation(c, 1) }, Lower: permute},
	{Name: "randperm.generator", Schema: "(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Quiet: true,
		Random: true, Infer: func(c *Ctx) error { return inferPermutation(c, 2) }, Lower: permute},
}

// permute sorts 0, 1, ... by random keys.
func permute(l *Lowering) {
	b, o := l.B, l.Out(0)
	if o.Dims[0] == 0 {
		l.Return(b.Splat(o, stablehlo.Int(0)))
		return
	}
	keys := l.stream().bits(dtype.U64, o.Dims)
	index := dtype.I32
	if o.Dims[0] > math.MaxInt32 {
		index = dtype.I64
	}
	sorted := b.Sort(0, true, []value{keys, b.Iota(shape.Of(index, o.Dims), 0)},
		func(b *stablehlo.Builder, lhs, rhs []value) value { return b.Compare(lhs[0], rhs[0], stablehlo.LT) })
	l.Return(l.Convert(sorted[1], o.DType))
}

// inferPermutation is the shape rule; the dtype argument stands at the place given.
func inferPermutation(c *Ctx, dtypeAt int) error {
	n, d := c.Int(0), dtype.I64
	if c.Has(dtypeAt) {
		d = c.Type(dtypeAt)
	}
	switch {
	case n < 0:
		return errs.New(errs.Runtime, "Trying to create tensor with negative dimension %d: [%d]", n, n)
	case !(ints | floats).has(d):
		return notFor("randperm", d)
	case d.IsFloat() && n > 1<<Mantissa(d)+1:
		return errs.New(errs.Runtime, "n cannot be greater than %d for %s type.", 1<<Mantissa(d)+1, d.C10())
	case d.IsInt() && n > 0 && uint64(n-1) >= span(d):
		return errs.New(errs.Runtime, "value cannot be converted to type %s without overflow", scalarTypeName(d))
	}
	return c.Return(d, n)
}

// demangled is the C++ name of the element type of a torch tensor.
func demangled(d dtype.DType) string {
	switch d {
	case dtype.I16:
		return "short int"
	case dtype.I64:
		return "long int"
	case dtype.U16:
		return "short unsigned int"
	case dtype.U32:
		return "unsigned int"
	case dtype.U64:
		return "long unsigned int"
	}
	return cppName(d)
}
