package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// integerRows are the bitwise ops, the shifts and the divisors.
var integerRows = join(
	bitwise("bitwise_and", (*stablehlo.Builder).And),
	bitwise("bitwise_or", (*stablehlo.Builder).Or),
	bitwise("bitwise_xor", (*stablehlo.Builder).Xor),
	shift("bitwise_left_shift", "__lshift__", "lshift_cpu", (*stablehlo.Builder).ShiftLeft),
	shift("bitwise_right_shift", "__rshift__", "rshift_cpu", shiftRight),
	[]Row{
		binary("gcd", binarySchema, implemented("gcd_cpu", ints, promoted(2)), gcd).unsafe(),
		binary("lcm", binarySchema, implemented("lcm_cpu", ints, promoted(2)), lcm).unsafe(),
	},
)

// bitwise is the overloads of a bitwise op.
func bitwise(name string, f fun2) []Row {
	infer := implemented(name+"_cpu", bools|ints|unsigned, promoted(2))
	return append(binaryPair(name, infer, f), binary(name+".Scalar_Tensor", baseSchema, infer, f))
}

// shift is the overloads of a shift, under the name of the function and of the operator.
func shift(name, operator, kernel string, f fun2) []Row {
	infer := implemented(kernel, ints, promoted(2))
	return append(binaryPair(operator, infer, f),
		binary(name+".Tensor", binarySchema, infer, f),
		binary(name+".Tensor_Scalar", scalarSchema, infer, f),
		binary(name+".Scalar_Tensor", baseSchema, infer, f))
}

// shiftRight keeps the sign. A count that is negative or too large counts as the width, as in torch and
// in StableHLO.
func shiftRight(b *stablehlo.Builder, x, y value) value {
	if x.DType().IsUnsigned() {
		return b.ShiftRightLogical(x, y)
	}
	return b.ShiftRightArithmetic(x, y)
}

// size is |x| of integers.
func size(b *stablehlo.Builder, x value) value {
	if x.DType().IsUnsigned() {
		return x
	}
	return b.Abs(x)
}

// lcm computes in 32 bits at least, as C does: the sign of a product that overflows a narrower type goes
// before the overflow.
func lcm(b *stablehlo.Builder, x, y value) value {
	d := x.DType()
	if d.Size() < 4 {
		return Convert(b, lcm(b, b.Convert(x, dtype.I32), b.Convert(y, dtype.I32)), d)
	}
	g := gcd(b, x, y)
	multiple := b.Multiply(b.Divide(x, b.Maximum(g, b.ConstLike(g, 1))), y)
	none := b.ConstLike(g, 0)
	return b.Select(b.Compare(g, none, stablehlo.EQ), none, size(b, multiple))
}

// gcd is Euclid's algorithm on all elements together, until no remainder is left.
func gcd(b *stablehlo.Builder, x, y value) value {
	out := b.While([]value{size(b, x), size(b, y)},
		func(b *stablehlo.Builder, v []value) value {
			open := b.Compare(v[1], b.ConstLike(v[1], 0), stablehlo.NE)
			return anyOf(b, open)
		},
		func(b *stablehlo.Builder, v []value) []value {
			done := b.Compare(v[1], b.ConstLike(v[1], 0), stablehlo.EQ)
			return []value{b.Select(done, v[0], v[1]), size(b, fmod(b, v[0], v[1]))}
		})
	return out[0]
}
