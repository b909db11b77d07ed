package stablehlo_test

import (
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// goldenCase is one module of testdata/FAMILY.txt. build adds parameters and returns the results.
// devices counts the replicas that the module is meant for, 0 for one.
type goldenCase struct {
	family, name string
	devices      int
	build        func(b *hlo.Builder) []hlo.Value
}

func one(v hlo.Value) []hlo.Value { return []hlo.Value{v} }

func sh(text string) *shape.Shape {
	s, ok := shape.Parse(text)
	if !ok {
		panic("no shape: " + text)
	}
	return s
}

// in adds a parameter.
func in(b *hlo.Builder, text string) hlo.Value { return b.Param(sh(text)) }

type ints = []int64

func unaryCases() []goldenCase {
	var out []goldenCase
	add := func(name, typ string, f func(*hlo.Builder, hlo.Value) hlo.Value) {
		out = append(out, goldenCase{"unary", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b, in(b, typ))) }})
	}
	add("abs", "i32[4]", (*hlo.Builder).Abs)
	add("abs of complex", "complex<f32>[4]", (*hlo.Builder).Abs)
	add("cbrt", "f32[2,3]", (*hlo.Builder).Cbrt)
	add("ceil", "f32[2,3]", (*hlo.Builder).Ceil)
	add("cosine", "f64[2,3]", (*hlo.Builder).Cosine)
	add("count_leading_zeros", "ui8[4]", (*hlo.Builder).CountLeadingZeros)
	add("exponential", "bf16[2,3]", (*hlo.Builder).Exponential)
	add("exponential_minus_one", "f32[2,3]", (*hlo.Builder).ExponentialMinusOne)
	add("floor", "f16[2,3]", (*hlo.Builder).Floor)
	add("imag", "complex<f64>[4]", (*hlo.Builder).Imag)
	add("is_finite", "f32[4]", (*hlo.Builder).IsFinite)
	add("log", "complex<f32>[4]", (*hlo.Builder).Log)
	add("log_plus_one", "f32[4]", (*hlo.Builder).LogPlusOne)
	add("logistic", "f32[4]", (*hlo.Builder).Logistic)
	add("negate", "ui16[4]", (*hlo.Builder).Negate)
	add("not", "i1[4]", (*hlo.Builder).Not)
	add("popcnt", "i64[4]", (*hlo.Builder).Popcnt)
	add("real", "complex<f32>[]", (*hlo.Builder).Real)
	add("round_nearest_afz", "f32[4]", (*hlo.Builder).RoundNearestAfz)
	add("round_nearest_even", "f32[4]", (*hlo.Builder).RoundNearestEven)
	add("rsqrt", "f32[4]", (*hlo.Builder).Rsqrt)
	add("sign", "i8[4]", (*hlo.Builder).Sign)
	add("sine", "f32[]", (*hlo.Builder).Sine)
	add("sqrt", "complex<f64>[0,2]", (*hlo.Builder).Sqrt)
	add("tan", "f32[4]", (*hlo.Builder).Tan)
	add("tanh", "f32[4]", (*hlo.Builder).Tanh)
	return out
}

func binaryCases() []goldenCase {
	var out []goldenCase
	add := func(name, typ string, f func(*hlo.Builder, hlo.Value, hlo.Value) hlo.Value) {
		out = append(out, goldenCase{"binary", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b, in(b, typ), in(b, typ))) }})
	}
	add("add", "f32[2,3]", (*hlo.Builder).Add)
	add("add of i1", "i1[2]", (*hlo.Builder).Add)
	add("atan2", "f32[4]", (*hlo.Builder).Atan2)
	add("and", "i1[4]", (*hlo.Builder).And)
	add("complex", "f64[4]", (*hlo.Builder).Complex)
	add("divide", "i32[4]", (*hlo.Builder).Divide)
	add("maximum", "bf16[4]", (*hlo.Builder).Maximum)
	add("minimum", "ui64[4]", (*hlo.Builder).Minimum)
	add("multiply", "complex<f32>[4]", (*hlo.Builder).Multiply)
	add("or", "i16[4]", (*hlo.Builder).Or)
	add("power", "f64[4]", (*hlo.Builder).Power)
	add("remainder", "i64[4]", (*hlo.Builder).Remainder)
	add("shift_left", "i32[4]", (*hlo.Builder).ShiftLeft)
	add("shift_right_arithmetic", "i32[4]", (*hlo.Builder).ShiftRightArithmetic)
	add("shift_right_logical", "ui32[4]", (*hlo.Builder).ShiftRightLogical)
	add("subtract", "f16[4]", (*hlo.Builder).Subtract)
	add("xor", "ui8[4]", (*hlo.Builder).Xor)
	return out
}

func chloCases() []goldenCase {
	var out []goldenCase
	add := func(name, typ string, f func(*hlo.Builder, hlo.Value) hlo.Value) {
		out = append(out, goldenCase{"chlo", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b, in(b, typ))) }})
	}
	add2 := func(name, typ string, f func(*hlo.Builder, hlo.Value, hlo.Value) hlo.Value) {
		out = append(out, goldenCase{"chlo", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b, in(b, typ), in(b, typ))) }})
	}
	add("acos", "f32[4]", (*hlo.Builder).Acos)
	add("acosh", "f32[4]", (*hlo.Builder).Acosh)
	add("asin", "complex<f32>[4]", (*hlo.Builder).Asin)
	add("asinh", "f64[4]", (*hlo.Builder).Asinh)
	add("atan", "f32[4]", (*hlo.Builder).Atan)
	add("atanh", "bf16[4]", (*hlo.Builder).Atanh)
	add("bessel_i1e", "f32[4]", (*hlo.Builder).BesselI1e)
	add("conj", "complex<f32>[4]", (*hlo.Builder).Conj)
	add("cosh", "f32[4]", (*hlo.Builder).Cosh)
	add("digamma", "f32[4]", (*hlo.Builder).Digamma)
	add("erf", "f16[4]", (*hlo.Builder).Erf)
	add("erf of f64", "f64[4]", (*hlo.Builder).Erf)
	add("erfc", "f32[4]", (*hlo.Builder).Erfc)
	add("erf_inv", "f32[4]", (*hlo.Builder).ErfInv)
	add("is_inf", "f32[4]", (*hlo.Builder).IsInf)
	add("is_neg_inf", "f32[4]", (*hlo.Builder).IsNegInf)
	add("is_pos_inf", "bf16[4]", (*hlo.Builder).IsPosInf)
	add("is_nan", "f32[4]", (*hlo.Builder).IsNaN)
	add("lgamma", "f64[4]", (*hlo.Builder).Lgamma)
	add("sinh", "f32[4]", (*hlo.Builder).Sinh)
	add("square", "complex<f32>[4]", (*hlo.Builder).Square)
	add2("next_after", "f32[4]", (*hlo.Builder).NextAfter)
	add2("polygamma", "f32[4]", (*hlo.Builder).Polygamma)
	add2("zeta", "f32[4]", (*hlo.Builder).Zeta)
	return append(out, goldenCase{"chlo", "top_k", 0, func(b *hlo.Builder) []hlo.Value {
		v, i := b.TopK(in(b, "f32[4,8]"), 3)
		return []hlo.Value{v, i}
	}})
}

func constantCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) []hlo.Value) {
		out = append(out, goldenCase{"constant", name, 0, f})
	}
	special := []float64{0, math.Copysign(0, -1), 1, 0.1, -2.5, 1e10, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40}
	add("floats", func(b *hlo.Builder) (vs []hlo.Value) {
		for _, t := range []string{"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ"} {
			vs = append(vs, b.ConstantFloats(sh(t+"[10]"), special))
		}
		return vs
	})
	add("integers", func(b *hlo.Builder) (vs []hlo.Value) {
		for d := dtype.U8; d <= dtype.U64; d++ {
			vs = append(vs, b.Scalar(d, hlo.Int(-1)), b.MinValue(d), b.MaxValue(d), b.Scalar(d, hlo.Float(2.75)))
		}
		return vs
	})
	add("extremes", func(b *hlo.Builder) (vs []hlo.Value) {
		for d := dtype.F16; d < dtype.Count; d++ {
			if d.IsFloat() {
				vs = append(vs, b.MinValue(d), b.MaxValue(d))
			}
		}
		return append(vs, b.MinValue(dtype.Bool), b.MaxValue(dtype.Bool))
	})
	add("splats", func(b *hlo.Builder) []hlo.Value {
		x := in(b, "f32[2,3]")
		return []hlo.Value{b.ConstLike(x, 0.5), b.SplatLike(x, hlo.Bool(true)), b.Splat(sh("i1[2]"), hlo.Float(3)), b.Splat(sh("f32[0,3]"), hlo.Int(1)),
			b.Splat(sh("complex<f64>[2]"), hlo.Complex(complex(1.5, math.Inf(-1)))), b.Splat(sh("complex<f32>[]"), hlo.Int(2)), b.ConstLike(x, 0.5)}
	})
	add("dense", func(b *hlo.Builder) []hlo.Value {
		return []hlo.Value{b.Ints(3, 1, 2), b.Ints(), b.ConstantInts(sh("i32[2,3]"), ints{1, 2, 3, 4, 5, 6}), b.ConstantInts(sh("i1[2,1]"), ints{1, 0}),
			b.ConstantFloats(sh("bf16[]"), []float64{3}), b.ConstantComplex(sh("complex<f32>[2]"), []complex128{1i, 2})}
	})
	add("bytes", func(b *hlo.Builder) []hlo.Value {
		return []hlo.Value{b.ConstantBytes(sh("f32[2]"), []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}), b.ConstantBytes(sh("i1[3]"), []byte{1, 0, 1}),
			b.ConstantBytes(sh("i16[]"), []byte{1, 2}), b.ConstantBytes(sh("f64[0]"), nil), b.ConstantBytes(sh("complex<f32>[1]"), []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})}
	})
	add("iota", func(b *hlo.Builder) []hlo.Value {
		return []hlo.Value{b.Iota(sh("i32[2,3]"), 1), b.Iota(sh("f32[2,3]"), 0), b.Iota(sh("complex<f32>[3]"), 0), b.Arange(dtype.I64, 5)}
	})
	return out
}

func selectCases() []goldenCase {
	var out []goldenCase
	add := func(name string, f func(b *hlo.Builder) hlo.Value) {
		out = append(out, goldenCase{"select", name, 0, func(b *hlo.Builder) []hlo.Value { return one(f(b)) }})
	}
	add("compare floats", func(b *hlo.Builder) hlo.Value { return b.Compare(in(b, "f32[4]"), in(b, "f32[4]"), hlo.LT) })
	add("compare signed", func(b *hlo.Builder) hlo.Value { return b.Compare(in(b, "i8[4]"), in(b, "i8[4]"), hlo.GE) })
	add("compare unsigned", func(b *hlo.Builder) hlo.Value { return b.Compare(in(b, "ui8[4]"), in(b, "ui8[4]"), hlo.LE) })
	add("compare i1", func(b *hlo.Builder) hlo.Value { return b.Compare(in(b, "i1[4]"), in(b, "i1[4]"), hlo.GT) })
	add("compare complex", func(b *hlo.Builder) hlo.Value {
		return b.Compare(in(b, "complex<f32>[4]"), in(b, "complex<f32>[4]"), hlo.NE)
	})
	add("compare in total order", func(b *hlo.Builder) hlo.Value { return b.CompareTotal(in(b, "f32[4]"), in(b, "f32[4]"), hlo.EQ) })
	add("select", func(b *hlo.Builder) hlo.Value { return b.Select(in(b, "i1[4]"), in(b, "f32[4]"), in(b, "f32[4]")) })
	add("select by scalar", func(b *hlo.Builder) hlo.Value { return b.Select(in(b, "i1[]"), in(b, "f32[4]"), in(b, "f32[4]")) })
	add("clamp", func(b *hlo.Builder) hlo.Value { return b.Clamp(in(b, "f32[]"), in(b, "f32[4]"), in(b, "f32[]")) })
	add("clamp by tensors", func(b *hlo.Builder) hlo.Value { return b.Clamp(in(b, "i32[4]"), in(b, "i32[4]"), in(b, "i32[4]")) })
	add("reduce_precision", func(b *hlo.Builder) hlo.Value { return b.ReducePrecision(in(b, "f32[4]"), 5, 10) })
	add("bitcast_convert", func(b *hlo.Builder) hlo.Value { return b.BitcastConvert(in(b, "f32[4]"), dtype.I32) })
	add("bitcast_convert to smaller", func(b *hlo.Builder) hlo.Value { return b.BitcastConvert(in(b, "f32[4]"), dtype.U8) })
	add("bitcast_convert to larger", func(b *hlo.Builder) hlo.Value { return b.BitcastConvert(in(b, "ui8[4,8]"), dtype.F64) })
	for d := dtype.Bool; d < dtype.Count; d++ {
		if d != dtype.F32 {
			add("convert "+d.String(), func(b *hlo.Builder) hlo.Value { return b.Convert(b.Convert(in(b, "f32[4]"), d), dtype.F32) })
		}
	}
	return out
}
