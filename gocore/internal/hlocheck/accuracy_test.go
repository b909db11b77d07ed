package hlocheck

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// TestSpecialFunctions compares the compiler's functions and its decompositions of CHLO with Go's in
// double precision. The bounds say what lowerings can rely on; where torch is closer than that
// (erfc and lgamma in f32, log1p and atanh in f64), the difference stays within torch's tolerances.
func TestSpecialFunctions(t *testing.T) {
	const n = 4001
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	for _, f := range []struct {
		name     string
		op       func(*hlo.Builder, hlo.Value) hlo.Value
		want     func(float64) float64
		lo, hi   float64
		f32, f64 float64 // greatest error allowed, in units in the last place
	}{
		{"erf", (*hlo.Builder).Erf, math.Erf, -6, 6, 6, 2},
		{"erfc", (*hlo.Builder).Erfc, math.Erfc, -6, 6, 40, 10},
		{"erf_inv", (*hlo.Builder).ErfInv, math.Erfinv, -0.9999, 0.9999, 50, 30},
		{"lgamma", (*hlo.Builder).Lgamma, lgamma, 2.5, 40, 90, 60},
		{"asin", (*hlo.Builder).Asin, math.Asin, -1, 1, 3, 3},
		{"acos", (*hlo.Builder).Acos, math.Acos, -1, 1, 3, 20},
		{"atan", (*hlo.Builder).Atan, math.Atan, -9, 9, 2, 2},
		{"asinh", (*hlo.Builder).Asinh, math.Asinh, -50, 50, 3, 3},
		{"acosh", (*hlo.Builder).Acosh, math.Acosh, 1, 50, 3, 3},
		{"atanh", (*hlo.Builder).Atanh, math.Atanh, -0.999, 0.999, 3, 200},
		{"sinh", (*hlo.Builder).Sinh, math.Sinh, -9, 9, 12, 6},
		{"cosh", (*hlo.Builder).Cosh, math.Cosh, -9, 9, 12, 3},
		{"tan", (*hlo.Builder).Tan, math.Tan, -1.5, 1.5, 2, 3},
		{"tanh", (*hlo.Builder).Tanh, math.Tanh, -9, 9, 6, 6},
		{"logistic", (*hlo.Builder).Logistic, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -20, 20, 4, 3},
		{"exponential", (*hlo.Builder).Exponential, math.Exp, -20, 20, 2, 2},
		{"log", (*hlo.Builder).Log, math.Log, 1e-3, 90, 2, 2},
		{"expm1", (*hlo.Builder).ExponentialMinusOne, math.Expm1, -2, 2, 6, 5},
		{"log1p", (*hlo.Builder).LogPlusOne, math.Log1p, -0.9, 2, 4, 200},
		{"cbrt", (*hlo.Builder).Cbrt, math.Cbrt, -9, 9, 2, 2},
		{"sine", (*hlo.Builder).Sine, math.Sin, -90, 90, 2, 2},
	} {
		b := hlo.NewModule(f.name)
		x, y := b.Param(shape.Make(dtype.F32, n)), b.Param(shape.Make(dtype.F64, n))
		b.Return(f.op(b, x), f.op(b, y))
		text, err := b.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var in32, in64 []byte
		for i := range n {
			v := float64(float32(f.lo + (f.hi-f.lo)*float64(i)/(n-1)))
			in32 = binary.LittleEndian.AppendUint32(in32, math.Float32bits(float32(v)))
			in64 = binary.LittleEndian.AppendUint64(in64, math.Float64bits(v))
		}
		out := run(t, client(t), text, []argument{{pjrt.F32, []int64{n}, in32}, {pjrt.F64, []int64{n}, in64}}, []int{4 * n, 8 * n})
		var worst32, worst64, at32, at64 float64
		for i := range n {
			v := math.Float64frombits(binary.LittleEndian.Uint64(in64[8*i:]))
			want := f.want(v)
			got32 := float64(math.Float32frombits(binary.LittleEndian.Uint32(out[0][4*i:])))
			got64 := math.Float64frombits(binary.LittleEndian.Uint64(out[1][8*i:]))
			if e := math.Abs(got32-want) / ulp32(want); !(e <= worst32) {
				worst32, at32 = e, v
			}
			if e := math.Abs(got64-want) / ulp64(want); !(e <= worst64) {
				worst64, at64 = e, v
			}
		}
		t.Logf("%s: f32 %.2f at %v, f64 %.2f at %v", f.name, worst32, at32, worst64, at64)
		if !(worst32 <= f.f32 && worst64 <= f.f64) {
			t.Errorf("%s: more than %v and %v units in the last place", f.name, f.f32, f.f64)
		}
	}
}

// ulp32 and ulp64 are the distance from |x| to the next number of the type.
func ulp32(x float64) float64 {
	f := float32(math.Abs(x))
	return float64(math.Nextafter32(f, float32(math.Inf(1))) - f)
}

func ulp64(x float64) float64 {
	x = math.Abs(x)
	return math.Nextafter(x, math.Inf(1)) - x
}
