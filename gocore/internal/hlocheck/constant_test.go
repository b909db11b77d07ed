package hlocheck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// specialValues and their bits in each floating type, rounded to nearest even.
var specialValues = []float64{0, math.Copysign(0, -1), 1, 0.1, -2.5, 1e10, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40}

var specialBits = map[dtype.DType][]uint64{
	dtype.F64: {0, 1 << 63, 0x3ff0000000000000, 0x3fb999999999999a, 0xc004000000000000, 0x4202a05f20000000,
		0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x37a16c262777579c},
	dtype.F32:        {0, 1 << 31, 0x3f800000, 0x3dcccccd, 0xc0200000, 0x501502f9, 0x7f800000, 0xff800000, 0x7fc00000, 0x000116c2},
	dtype.F16:        {0, 0x8000, 0x3c00, 0x2e66, 0xc100, 0x7c00, 0x7c00, 0xfc00, 0x7e00, 0},
	dtype.BF16:       {0, 0x8000, 0x3f80, 0x3dcd, 0xc020, 0x5015, 0x7f80, 0xff80, 0x7fc0, 1},
	dtype.F8E4M3FN:   {0, 0x80, 0x38, 0x1d, 0xc2, 0x7f, 0x7f, 0xff, 0x7f, 0},
	dtype.F8E5M2:     {0, 0x80, 0x3c, 0x2e, 0xc1, 0x7c, 0x7c, 0xfc, 0x7e, 0},
	dtype.F8E4M3FNUZ: {0, 0, 0x40, 0x25, 0xca, 0x80, 0x80, 0x80, 0x80, 0},
	dtype.F8E5M2FNUZ: {0, 0, 0x40, 0x32, 0xc5, 0x80, 0x80, 0x80, 0x80, 0},
}

func little(out []byte, d dtype.DType, bits uint64) []byte {
	return append(out, binary.LittleEndian.AppendUint64(nil, bits)[:d.Size()]...)
}

// constants collects constants of a module with the bytes that they must have.
type constants struct {
	b    *hlo.Builder
	outs []hlo.Value
	want [][]byte
	name []string
}

func (k *constants) add(name string, v hlo.Value, want []byte) {
	k.outs, k.want, k.name = append(k.outs, v), append(k.want, want), append(k.name, name)
}

func (k *constants) check(t *testing.T) {
	t.Helper()
	c := client(t)
	k.b.Return(k.outs...)
	module, err := k.b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	sizes := make([]int, len(k.want))
	for i, w := range k.want {
		sizes[i] = len(w)
	}
	for i, got := range run(t, c, module, nil, sizes) {
		if !bytes.Equal(got, k.want[i]) {
			t.Errorf("%s: got %x, want %x", k.name[i], got, k.want[i])
		}
	}
}

func TestFloatConstantsAreExact(t *testing.T) {
	k := &constants{b: hlo.NewModule("floats")}
	n := int64(len(specialValues))
	for d, bits := range specialBits {
		var want []byte
		for i, x := range specialValues {
			want = little(want, d, bits[i])
			k.add(fmt.Sprintf("%s splat of %v", d, x), k.b.Splat(shape.Make(d, 2), hlo.Float(x)), little(little(nil, d, bits[i]), d, bits[i]))
		}
		k.add(d.String()+" dense", k.b.ConstantFloats(shape.Make(d, n), specialValues), want)
		k.add(d.String()+" bytes", k.b.ConstantBytes(shape.Make(d, n), want), want)
	}
	k.check(t)
}

// TestRandomFloatsSurvive prints random bit patterns, denormal ones included, and reads them back.
func TestRandomFloatsSurvive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 500
	var f32, f64 []float64
	var want32, want64 []byte
	for len(f64) < n {
		a, b := math.Float32frombits(rng.Uint32()), math.Float64frombits(rng.Uint64())
		if len(f64)%5 == 0 {
			a, b = math.Float32frombits(rng.Uint32()&0x7fffff), math.Float64frombits(rng.Uint64()&(1<<52-1))
		}
		if a != a || b != b {
			continue
		}
		f32, f64 = append(f32, float64(a)), append(f64, b)
		want32 = little(want32, dtype.F32, uint64(math.Float32bits(a)))
		want64 = little(want64, dtype.F64, math.Float64bits(b))
	}
	k := &constants{b: hlo.NewModule("random")}
	k.add("f32", k.b.ConstantFloats(shape.Make(dtype.F32, n), f32), want32)
	k.add("f64", k.b.ConstantFloats(shape.Make(dtype.F64, n), f64), want64)
	c := make([]complex128, n/2)
	for i := range c {
		c[i] = complex(f64[2*i], f64[2*i+1])
	}
	k.add("complex<f64>", k.b.ConstantComplex(shape.Make(dtype.C128, n/2), c), want64)
	k.check(t)
}

func TestIntegerConstantsAreExact(t *testing.T) {
	k := &constants{b: hlo.NewModule("integers")}
	data := []int64{0, 1, -1, 127, -128, math.MaxInt64, math.MinInt64, 0x0123456789abcdef}
	for d := dtype.U8; d <= dtype.U64; d++ {
		var want []byte
		for _, x := range data {
			want = little(want, d, uint64(x))
		}
		k.add(d.String(), k.b.ConstantInts(shape.Make(d, 2, 4), data), want)
		k.add(d.String()+" bytes", k.b.ConstantBytes(shape.Make(d, 2, 4), want), want)
		k.add(d.String()+" of all bits", k.b.Scalar(d, hlo.Uint(math.MaxUint64)), little(nil, d, math.MaxUint64))
		k.add(d.String()+" of a float", k.b.Scalar(d, hlo.Float(-3.9)), little(nil, d, uint64(0xfffffffffffffffd)))
	}
	k.add("i1", k.b.ConstantBytes(shape.Make(dtype.Bool, 9), []byte{1, 0, 0, 1, 1, 1, 0, 0, 1}), []byte{1, 0, 0, 1, 1, 1, 0, 0, 1})
	k.check(t)
}
