package ops

import (
	"fmt"
	"math"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// varianceRows are variance and standard deviation, by itself or with the mean.
var varianceRows = []Row{
	variance("var", false, false), variance("std", true, false),
	variance("var_mean", false, true), variance("std_mean", true, true),
}

func variance(name string, root, withMean bool) Row {
	schema, who := "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", "std and var"
	if withMean {
		schema, who = schema[:len(schema)-len("Tensor")]+"(Tensor, Tensor)", name
	}
	a := axes{dim: 1, keep: 3}
	return Row{Name: name + ".correction", Schema: schema,
		Infer: func(c *Ctx) error {
			d := c.In(0).DType
			if d.IsIntegral() {
				return errs.New(errs.NotImpl, "%s only support floating point and complex dtypes", who)
			}
			if err := a.infer(c, d.ToReal()); err != nil || !withMean {
				return err
			}
			return a.infer(c, d)
		},
		Lower: func(l *Lowering) {
			d := l.Shape(0).DType.Accumulate()
			x, dims := l.As(0, d), a.list(l)
			squares, mu := deviation(l.B, x, dims)
			n := l.B.ConstLike(squares, float64(count(x.Shape(), dims)))
			correction := l.B.ConstLike(squares, 1)
			if l.Has(2) {
				correction = l.Like(2, squares)
			}
			v := l.B.Divide(squares, l.B.Maximum(l.B.Subtract(n, correction), l.B.ConstLike(squares, 0)))
			if root {
				v = l.B.Sqrt(v)
			}
			l.Return(l.finish(0, v))
			if withMean {
				l.Return(l.finish(1, mu))
			}
		}}
}

// deviation is the sum of |x − mean|² over dims, and the mean. It goes over x twice: the one-pass
// formula cancels.
func deviation(b *stablehlo.Builder, x value, dims []int64) (squares, mu value) {
	mu = average(b, x, dims)
	squares = addUp(b, squareAbs(b, b.Subtract(x, unreduce(b, mu, x.Dims(), dims))), dims)
	return squares, mu
}

// squareAbs is |x|², real for a complex x.
func squareAbs(b *stablehlo.Builder, x value) value {
	if x.DType().IsComplex() {
		return b.Add(b.Square(b.Real(x)), b.Square(b.Imag(x)))
	}
	return b.Square(x)
}

// vectorNormRows are p-norms. The order shapes the program.
var vectorNormRows = []Row{
	vectorNorm("linalg_vector_norm", "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", axes{dim: 2, keep: 3, dtype: 4}).exactOut(),
	vectorNorm("norm.Scalar", "(Tensor self, Scalar p=2) -> Tensor", axes{}),
	vectorNorm("norm.ScalarOpt_dim", "(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", axes{dim: 2, keep: 3}),
	vectorNorm("norm.ScalarOpt_dim_dtype", "(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor", axes{dim: 2, keep: 3, dtype: 4}),
	vectorNorm("norm.ScalarOpt_dtype", "(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", axes{dtype: 2}),
}

func vectorNorm(name, schema string, a axes) Row {
	return Row{Name: name, Schema: schema, Static: []int{1},
		Infer: func(c *Ctx) error {
			s := c.In(0)
			d, err := normType(c, a)
			if err != nil {
				return err
			}
			p := 2.0
			if n, ok := c.Number(1); ok {
				if n.Type.IsComplex() {
					return errs.New(errs.Runtime, "linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
				}
				p = n.Float()
			}
			if s.Numel() == 0 && (p < 0 || math.IsInf(p, 1)) {
				if err := normOfNothing(c, a, p); err != nil {
					return err
				}
			}
			return a.infer(c, d.ToReal())
		},
		Lower: func(l *Lowering) {
			p := 2.0
			if n, ok := l.Number(1); ok {
				p = n.Float()
			}
			d := l.Shape(0).DType
			if a.dtype != 0 && l.Has(a.dtype) {
				d = l.Type(a.dtype)
			}
			l.Return(l.finish(0, pnorm(l.B, l.As(0, d.Accumulate()), p, a.list(l))))
		}}
}

// normType is the type in which a norm computes.
func normType(c *Ctx, a axes) (dtype.DType, error) {
	d := c.In(0).DType
	if d.IsIntegral() {
		return d, errs.New(errs.NotImpl, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", d.C10())
	}
	if a.dtype == 0 || !c.Has(a.dtype) {
		return d, nil
	}
	t := c.Type(a.dtype)
	switch {
	case t.IsIntegral():
		return t, errs.New(errs.Runtime, "linalg.vector_norm: dtype should be floating point or complex, but got %s", t.C10())
	case d.IsComplex() && !t.IsComplex():
		return t, errs.New(errs.Runtime, "linalg.vector_norm: dtype should be complex for complex inputs, but got %s", t.C10())
	case !d.IsComplex() && t.IsComplex():
		return t, errs.New(errs.Runtime, "linalg.vector_norm: dtype should be real for real inputs, but got %s", t.C10())
	case dtype.Promote(d, t) != t:
		return t, errs.New(errs.Runtime, "linalg.vector_norm: the dtype of the input (%s) should be convertible without narrowing to the specified dtype (%s)", d.C10(), t.C10())
	}
	return t, nil
}

// normOfNothing refuses the orders that have no value for an empty dimension.
func normOfNothing(c *Ctx, a axes, p float64) error {
	s := c.In(0)
	const reason = "the operation does not have an identity"
	name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%g", p), "+"))
	if a.dim == 0 || len(c.Ints(a.dim)) == 0 {
		return errs.New(errs.Runtime, "linalg.vector_norm cannot compute the %s norm on an empty tensor because %s", name, reason)
	}
	for _, d := range c.Ints(a.dim) {
		i, err := WrapDim(d, len(s.Dims))
		if err != nil {
			return err
		}
		if s.Dims[i] == 0 {
			return errs.New(errs.Runtime, "linalg.vector_norm cannot compute the %s norm on the dimension %dbecause this dimension is empty and %s", name, i, reason)
		}
	}
	return nil
}

// pnorm is (Σ|x|ᵖ)^(1/p) over dims, with the limits at 0 and ±∞; its type is real.
func pnorm(b *stablehlo.Builder, x value, p float64, dims []int64) value {
	if p == 2 {
		return b.Sqrt(addUp(b, squareAbs(b, x), dims))
	}
	if p == 0 {
		hit := b.Compare(x, b.ConstLike(x, 0), stablehlo.NE)
		return addUp(b, b.Convert(hit, x.DType().ToReal()), dims)
	}
	size := b.Abs(x)
	switch {
	case math.IsInf(p, 1):
		return greatest(b, size, dims)
	case math.IsInf(p, -1):
		return least(b, size, dims)
	case p == 1:
		return addUp(b, size, dims)
	}
	sum := addUp(b, b.Power(size, b.ConstLike(size, p)), dims)
	return b.Power(sum, b.ConstLike(sum, 1/p))
}
