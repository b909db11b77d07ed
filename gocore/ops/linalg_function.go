package ops

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// matrixFunctionRows are functions of square matrices.
var matrixFunctionRows = []Row{
	{Name: "linalg_matrix_exp", Schema: "(Tensor self) -> Tensor", Torch: &Kernel{When: ofOrder(0, 192)},
		Infer: func(c *Ctx) error {
			if s := c.In(0); halves.has(s.DType) && len(s.Dims) >= 2 {
				if n, m := sides(s); n == m {
					return c.ReturnLike(s)
				}
			}
			return likeSquares("linalg.matrix_exp")(c)
		},
		Lower: func(l *Lowering) {
			if l.Out(0).Numel() == 0 {
				l.Return(l.omitted(0))
				return
			}
			l.Return(l.finish(0, matrixExp(l.B, stacked(l.B, l.As(0, l.Out(0).DType.Accumulate())))))
		}},
}

// matrixExp is the exponential of square matrices: e^a = (e^(a/2ˢ))^(2ˢ). There a/2ˢ has a norm of at most one and its
// exponential is a polynomial of degree 19, exact in f64.
func matrixExp(b *stablehlo.Builder, a value) value {
	batch := a.Dim(0)
	norm := b.ReduceMax(b.ReduceSum(b.Abs(a), []int64{1}), []int64{1})
	exponent := b.Ceil(b.Divide(b.Log(norm), b.ConstLike(norm, math.Ln2)))
	exponent = b.Clamp(zero(b, norm.DType()), exponent, b.Scalar(norm.DType(), stablehlo.Float(120)))
	halvings := b.Reshape(Convert(b, exponent, dtype.I32), []int64{batch, 1, 1})
	scale := inversePowerOfTwo(b, halvings, norm.DType())
	x := times(b, a.Dims(), a, Convert(b, scale, a.DType()))
	return b.While([]value{zero(b, dtype.I32), exponentialSeries(b, x)},
		func(b *stablehlo.Builder, v []value) value {
			return b.Compare(v[0], b.ReduceMax(halvings, []int64{0, 1, 2}), stablehlo.LT)
		},
		func(b *stablehlo.Builder, v []value) []value {
			more := compareTo(b, halvings, v[0], stablehlo.GT)
			squared := b.Select(b.Broadcast(more, a.Dims()), matmul(b, v[1], v[1]), v[1])
			return []value{b.Add(v[0], b.ConstLike(v[0], 1)), squared}
		})[1]
}

// inversePowerOfTwo is 2⁻ⁿ in f32 or f64, exact, where it is a normal number.
func inversePowerOfTwo(b *stablehlo.Builder, n value, d dtype.DType) value {
	bits, bias, mantissa := dtype.I32, 127, 23
	if d == dtype.F64 {
		bits, bias, mantissa = dtype.I64, 1023, 52
	}
	n = Convert(b, n, bits)
	exponent := b.Subtract(b.ConstLike(n, float64(bias)), n)
	return b.BitcastConvert(b.ShiftLeft(exponent, b.ConstLike(n, float64(mantissa))), d)
}

// exponentialSeries is the sum of xᵏ/k! for k < 20, by powers up to the fourth and a Horner scheme in it.
func exponentialSeries(b *stablehlo.Builder, x value) value {
	powers := []value{identity(b, x.DType(), x.Dims()...), x, matmul(b, x, x)}
	powers = append(powers, matmul(b, powers[2], x))
	fourth := matmul(b, powers[2], powers[2])
	var inverse [20]float64 // 1/k!
	inverse[0] = 1
	for k := 1; k < len(inverse); k++ {
		inverse[k] = inverse[k-1] / float64(k)
	}
	var sum value
	for block := len(inverse)/4 - 1; block >= 0; block-- {
		part := scaleBy(b, powers[0], inverse[4*block])
		for i := 1; i < 4; i++ {
			part = b.Add(part, scaleBy(b, powers[i], inverse[4*block+i]))
		}
		if block == len(inverse)/4-1 {
			sum = part
		} else {
			sum = b.Add(matmul(b, sum, fourth), part)
		}
	}
	return sum
}
