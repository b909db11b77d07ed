package ops

import (
	"math/bits"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// reduceRows are reductions and scans.
var reduceRows = join(sumRows, extremumRows, truthRows, varianceRows, vectorNormRows, scanRows, orderRows, distanceRows, hashRows)

// dimSet is a set of dimensions, bit i for dimension i; torch too allows no more than 64.
type dimSet uint64

func (s dimSet) has(i int) bool { return s>>i&1 != 0 }

// list is the members in ascending order.
func (s dimSet) list() []int64 {
	dims := make([]int64, 0, bits.OnesCount64(uint64(s)))
	for ; s != 0; s &= s - 1 {
		dims = append(dims, int64(bits.TrailingZeros64(uint64(s))))
	}
	return dims
}

// allDims is every dimension of a tensor of this rank.
func allDims(rank int) dimSet { return 1<<rank - 1 }

// dimsOf is the set of the dimensions that a list names; a dimension named twice is torch's error.
// mostReduced is how many dimensions a dimSet, in torch too, holds.
const mostReduced = 64

func dimsOf(list []int64, rank int) (dimSet, error) {
	var s dimSet
	if rank > mostReduced {
		return 0, errs.New(errs.Runtime, "only tensors with up to %d dims are supported", mostReduced)
	}
	for _, d := range list {
		i, err := WrapDim(d, rank)
		if err != nil {
			return 0, err
		}
		if s.has(i) {
			return 0, errs.New(errs.Runtime, "dim %d appears multiple times in the list of dims", i)
		}
		s |= 1 << i
	}
	return s & allDims(rank), nil
}

// axes says where in a reduction's schema its dimensions, keepdim and dtype are; 0 for nowhere.
type axes struct {
	dim, keep, dtype int
	// emptyIsNone: an empty list reduces nothing, where it mostly stands for all dimensions.
	emptyIsNone bool
}

// The places of the usual schemas.
var (
	overAll  = axes{}
	overDim  = axes{dim: 1, keep: 2}
	overType = axes{dtype: 1}
	overBoth = axes{dim: 1, keep: 2, dtype: 3}
)

// set is the dimensions to reduce.
func (a axes) set(args *ir.Args, rank int) (dimSet, error) {
	if a.dim == 0 || !args.Has(a.dim) {
		return allDims(rank), nil
	}
	list := args.Ints(a.dim)
	if len(list) == 0 && !a.emptyIsNone {
		return allDims(rank), nil
	}
	return dimsOf(list, rank)
}

// infer returns argument 0 reduced, with element type d.
func (a axes) infer(c *Ctx, d dtype.DType) error {
	set, err := a.set(&c.Args, len(c.In(0).Dims))
	if err != nil {
		return err
	}
	return c.reduced(d, set, a.keeps(&c.Args))
}

func (a axes) keeps(args *ir.Args) bool { return a.keep != 0 && args.Bool(a.keep) }

// reduced returns argument 0 without the dimensions of the set, or with size 1 there.
func (c *Ctx) reduced(d dtype.DType, set dimSet, keep bool) error {
	dims := c.dims[:0]
	for i, n := range c.In(0).Dims {
		switch {
		case !set.has(i):
			dims = append(dims, n)
		case keep:
			dims = append(dims, 1)
		}
	}
	return c.Return(d, dims...)
}

// list is the dimensions to reduce, once the shape rule has accepted them.
func (a axes) list(l *Lowering) []int64 {
	set, err := a.set(&l.Args, len(l.Shape(0).Dims))
	if err != nil {
		l.B.Failf("reduction", nil, "%v", err)
	}
	return set.list()
}

// finish gives v the type and, after keepdim, the dimensions of result k.
func (l *Lowering) finish(k int, v value) value {
	o := l.Out(k)
	return l.B.Reshape(l.Convert(v, o.DType), o.Dims)
}

// count is how many elements the dimensions of s hold together.
func count(s *shape.Shape, dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= s.Dims[d]
	}
	return n
}

// unreduce broadcasts a reduction over dims back to the dimensions full.
func unreduce(b *stablehlo.Builder, v value, full, dims []int64) value {
	mapping := make([]int64, 0, len(full))
	k := 0
	for i := range full {
		if k < len(dims) && dims[k] == int64(i) {
			k++
			continue
		}
		mapping = append(mapping, int64(i))
	}
	return b.BroadcastInDim(v, full, mapping)
}

// nonEmpty refuses a reduction without identity over nothing, as torch's zero_numel_check_dims does.
// without is the kind of the error when no dimension is given.
func (a axes) nonEmpty(c *Ctx, name string, without errs.Kind) error {
	s := c.In(0)
	if s.Numel() != 0 {
		return nil
	}
	if a.dim == 0 || !c.Has(a.dim) || len(c.Ints(a.dim)) == 0 {
		return errs.New(without, "%s: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", name)
	}
	for _, d := range c.Ints(a.dim) {
		i, err := WrapDim(d, len(s.Dims))
		if err != nil {
			return err
		}
		if s.Dims[i] == 0 {
			return errs.New(errs.Index, "%s: Expected reduction dim %d to have non-zero size.", name, i)
		}
	}
	return nil
}

var sumRows = []Row{
	total("sum", allTypeSchema, overType, addUp).shortcut("sum"),
	total("sum.dim_IntList", dimsTypeSchema, overBoth, addUp),
	total("prod", allTypeSchema, overType, (*stablehlo.Builder).ReduceProd).shortcut("prod"),
	total("prod.dim_int", "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", overBoth, (*stablehlo.Builder).ReduceProd),
	mean("mean", allTypeSchema, overType).shortcut("mean"),
	mean("mean.dim", dimsTypeSchema, overBoth),
	nansum,
	nonzeros("count_nonzero", "(Tensor self, int? dim=None) -> Tensor"),
	nonzeros("count_nonzero.dim_IntList", "(Tensor self, int[] dim) -> Tensor"),
}

const (
	allTypeSchema  = "(Tensor self, *, ScalarType? dtype=None) -> Tensor"
	dimsTypeSchema = "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)

// sumType is the result type of sums and products: integers count in int64.
func (a axes) sumType(args *ir.Args, d dtype.DType) dtype.DType {
	if t := args.Type(a.dtype); a.dtype != 0 && t != dtype.Invalid {
		return t
	}
	if d.IsIntegral() {
		return dtype.I64
	}
	return d
}

// total is a sum or product.
func total(name, schema string, a axes, f reducer) Row {
	return Row{Name: name, Schema: schema, TypedByOut: true,
		Infer: func(c *Ctx) error {
			d := a.sumType(&c.Args, c.In(0).DType)
			switch {
			case d.IsF8() && strings.HasPrefix(name, "prod"):
				return notFor("prod_out_cpu", d)
			case d.IsF8():
				return notFor("sum_cpu", d)
			}
			return a.infer(c, d)
		},
		Lower: func(l *Lowering) {
			x := l.Convert(l.summand(), l.Out(0).DType.Accumulate())
			l.Return(l.finish(0, f(l.B, x, a.list(l))))
		}}
}

// summand is argument 0 in the type of the result. Half types that grow to float keep their bits; any
// other change of type happens before the arithmetic, rounding included.
func (l *Lowering) summand() value { return l.As(0, l.Out(0).DType) }

func mean(name, schema string, a axes) Row {
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error {
			d, which := c.In(0).DType, "Input"
			if t := c.Type(a.dtype); t != dtype.Invalid {
				d, which = t, "Optional"
			}
			if d.IsIntegral() {
				return errs.New(errs.NotImpl, "mean(): could not infer output dtype. %s dtype must be either a floating point or complex dtype. Got: %s", which, d.C10())
			}
			return a.infer(c, d)
		},
		Lower: func(l *Lowering) {
			dims := a.list(l)
			x := l.Convert(l.summand(), l.Out(0).DType.Accumulate())
			l.Return(l.finish(0, average(l.B, x, dims)))
		}}
}

// addUp is the sum over dims.
func addUp(b *stablehlo.Builder, x value, dims []int64) value {
	return inTwo(b, x, dims, (*stablehlo.Builder).ReduceSum)
}

// inTwo reduces a float x over the first of several dimensions, then over the others. XLA:CPU computes a fused
// reduction over outer and inner dimensions at once one element at a time. One over only an outer dimension it
// computes in vectors. The barrier keeps XLA from joining the two again.
func inTwo(b *stablehlo.Builder, x value, dims []int64, f reducer) value {
	if len(dims) < 2 || x.DType().IsIntegral() || x.Dim(int(dims[0])) < 8 {
		return f(b, x, dims)
	}
	rest := make([]int64, len(dims)-1)
	for i, d := range dims[1:] {
		rest[i] = d - 1
	}
	return f(b, b.OptimizationBarrier(f(b, x, dims[:1]))[0], rest)
}

// average is the mean of x over dims, NaN for nothing.
func average(b *stablehlo.Builder, x value, dims []int64) value {
	sum := addUp(b, x, dims)
	return b.Divide(sum, b.ConstLike(sum, float64(count(x.Shape(), dims))))
}

var nansum = Row{Name: "nansum", Schema: "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
	Infer: func(c *Ctx) error {
		if c.In(0).DType.IsComplex() {
			return errs.New(errs.NotImpl, "nansum on CPU does not support complex inputs")
		}
		return overBoth.infer(c, overBoth.sumType(&c.Args, c.In(0).DType))
	},
	Lower: func(l *Lowering) {
		x := l.In(0)
		if x.DType().IsFloat() {
			x = l.B.Select(l.B.IsNaN(x), l.B.ConstLike(x, 0), x)
		}
		d := l.Out(0).DType
		x = l.Convert(l.Convert(x, d), d.Accumulate())
		l.Return(l.finish(0, addUp(l.B, x, overBoth.list(l))))
	}}

func nonzeros(name, schema string) Row {
	a := axes{dim: 1}
	return Row{Name: name, Schema: schema,
		Infer: func(c *Ctx) error { return a.infer(c, dtype.I64) },
		Lower: func(l *Lowering) {
			x := l.Convert(l.As(0, dtype.Bool), dtype.I64)
			l.Return(l.B.ReduceSum(x, a.list(l)))
		}}
}

// truthRows are any and all: bool, except that uint8 stays uint8.
var truthRows = join(
	truth("any", (*stablehlo.Builder).ReduceOr),
	truth("all", (*stablehlo.Builder).ReduceAnd),
)

func truth(name string, f reducer) []Row {
	row := func(overload, schema string, a axes) Row {
		return Row{Name: name + overload, Schema: schema,
			OutType: func(d, _ dtype.DType) error {
				if d == dtype.Bool || d == dtype.U8 {
					return nil
				}
				return errs.New(errs.Runtime, "%s only supports bool tensor for result, got: %s", name, d.C10())
			},
			Infer: func(c *Ctx) error {
				d := dtype.Bool
				if c.In(0).DType == dtype.U8 {
					d = dtype.U8
				}
				return a.infer(c, d)
			},
			Lower: func(l *Lowering) { l.Return(l.finish(0, f(l.B, l.As(0, dtype.Bool), a.list(l)))) }}
	}
	return []Row{
		row("", "(Tensor self) -> Tensor", overAll),
		row(".dim", "(Tensor self, int dim, bool keepdim=False) -> Tensor", overDim),
		row(".dims", "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", axes{dim: 1, keep: 2, emptyIsNone: true}),
	}
}

// hashRows combine the bits of all elements, as 64-bit numbers, by exclusive or.
var hashRows = []Row{
	{Name: "hash_tensor", Unsafe: true, Schema: "(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
		Infer: func(c *Ctx) error {
			s := c.In(0)
			switch {
			case c.Int(3) != 0:
				return errs.New(errs.Runtime, "hash_tensor: unknown mode %d", c.Int(3))
			case s.DType.IsComplex():
				return notFor("hash_tensor_cpu", s.DType)
			case s.Numel() == 0 && len(c.Ints(1)) == 0:
				return errs.New(errs.Runtime, "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
			}
			return overDim.infer(c, dtype.U64)
		},
		Lower: func(l *Lowering) {
			b, d := l.B, l.Shape(0).DType
			wide := dtype.I64
			if d.IsFloat() {
				wide = dtype.F64
			}
			x := b.BitcastConvert(l.As(0, wide), dtype.U64)
			l.Return(l.finish(0, b.Reduce([]value{x}, []value{zero(b, dtype.U64)}, overDim.list(l), stablehlo.CombineXor)[0]))
		}},
}
