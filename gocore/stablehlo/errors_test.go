package stablehlo_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

type val = hlo.Value

// TestErrors holds the text of one error per rule.
func TestErrors(t *testing.T) {
	same := func(_ *hlo.Builder, l, _ []val) []val { return l }
	less := func(b *hlo.Builder, l, r []val) val { return b.Compare(l[0], r[0], hlo.LT) }
	for _, tc := range []struct {
		want string
		f    func(b *hlo.Builder, x, y val) // x f32[2,3], y i32[2,3]
	}{
		{"stablehlo.add: operands differ in shape or element type (f32[2,3], i32[2,3])", func(b *hlo.Builder, x, y val) { b.Add(x, y) }},
		{"stablehlo.tanh: not defined for element type i32 (i32[2,3])", func(b *hlo.Builder, x, y val) { b.Tanh(y) }},
		{"stablehlo.and: not defined for element type f32 (f32[2,3])", func(b *hlo.Builder, x, y val) { b.And(x, x) }},
		{"stablehlo.tanh: not defined for element type invalid (?)", func(b *hlo.Builder, x, y val) { b.Tanh(val{}) }},
		{"stablehlo.compare: no such direction: == (f32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) { b.Compare(x, x, "==") }},
		{"stablehlo.compare: complex numbers have no order (complex<f32>[2,3], complex<f32>[2,3])", func(b *hlo.Builder, x, y val) {
			c := b.Complex(x, x)
			b.Compare(c, c, hlo.LT)
		}},
		{"stablehlo.select: the predicate does not fit (i32[2,3], f32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) { b.Select(y, x, x) }},
		{"stablehlo.clamp: a limit does not fit (i32[2,3], f32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) { b.Clamp(y, x, x) }},
		{"stablehlo.convert: no element type (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Convert(x, dtype.Invalid) }},
		{"stablehlo.bitcast_convert: the last dimension does not hold whole elements of f64 (f32[2,3])", func(b *hlo.Builder, x, y val) { b.BitcastConvert(x, dtype.F64) }},
		{"stablehlo.constant: the number NaN cannot be converted to i32", func(b *hlo.Builder, x, y val) { b.Scalar(dtype.I32, hlo.Float(nan)) }},
		{"stablehlo.constant: the number (0+1i) cannot be converted to f32", func(b *hlo.Builder, x, y val) { b.SplatLike(x, hlo.Complex(1i)) }},
		{"stablehlo.constant: element 1, 1e+300, cannot be converted to i8", func(b *hlo.Builder, x, y val) { b.ConstantFloats(sh("i8[2]"), []float64{0, 1e300}) }},
		{"stablehlo.constant: 1 elements for a constant of type i8[2]", func(b *hlo.Builder, x, y val) { b.ConstantInts(sh("i8[2]"), ints{0}) }},
		{"stablehlo.constant: 3 bytes for a constant of type f32[1]", func(b *hlo.Builder, x, y val) { b.ConstantBytes(sh("f32[1]"), make([]byte, 3)) }},
		{"stablehlo.constant: no least or greatest value of type complex<f32>", func(b *hlo.Builder, x, y val) { b.MinValue(dtype.C64) }},
		{"stablehlo.broadcast_in_dim: mapping [1 0] does not broadcast to [2 3] (f32[2,3])", func(b *hlo.Builder, x, y val) { b.BroadcastInDim(x, ints{2, 3}, ints{1, 0}) }},
		{"stablehlo.reshape: [5] has another number of elements (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Reshape(x, ints{5}) }},
		{"stablehlo.transpose: [0 0] is not a permutation (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Transpose(x, ints{0, 0}) }},
		{"stablehlo.slice: bounds [0 0]:[2 4]:[1 1] leave dimension 1 (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Slice(x, ints{0, 0}, ints{2, 4}, nil) }},
		{"stablehlo.dynamic_slice: sizes [3 3] do not fit (f32[2,3])", func(b *hlo.Builder, x, y val) { b.DynamicSlice(x, nil, ints{3, 3}) }},
		{"stablehlo.pad: padding [-3 0], [0 0], [0 0] leaves less than nothing (f32[2,3])", func(b *hlo.Builder, x, y val) {
			b.Pad(x, b.Scalar(dtype.F32, hlo.Int(0)), ints{-3, 0}, nil, nil)
		}},
		{"stablehlo.concatenate: operands do not fit along dimension 0 (f32[2,3], i32[2,3])", func(b *hlo.Builder, x, y val) { b.Concatenate(0, x, y) }},
		{"stablehlo.iota: no counting along dimension 2 of f32[2,3]", func(b *hlo.Builder, x, y val) { b.Iota(x.Shape(), 2) }},
		{"stablehlo.reduce: dimensions [2] are not different ones of the operand (f32[2,3])", func(b *hlo.Builder, x, y val) { b.ReduceSum(x, ints{2}) }},
		{"stablehlo.reduce: an initial value is not of rank 0 and its operand's type (f32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) { b.Reduce([]val{x}, []val{x}, nil, same) }},
		{"stablehlo.add: the body of stablehlo.reduce may not use a value from around it", func(b *hlo.Builder, x, y val) {
			z := b.MinValue(dtype.F32)
			b.Reduce([]val{x}, []val{z}, nil, func(b *hlo.Builder, l, _ []val) []val { return []val{b.Add(l[0], z)} })
		}},
		{"stablehlo.reduce: the body returns 0 values instead of 1", func(b *hlo.Builder, x, y val) {
			b.Reduce([]val{x}, []val{b.MinValue(dtype.F32)}, nil, func(*hlo.Builder, []val, []val) []val { return nil })
		}},
		{"stablehlo.sort: the body returns f32[] as value 0 instead of i1[] (f32[])", func(b *hlo.Builder, x, y val) {
			b.Sort(0, true, []val{x}, func(_ *hlo.Builder, l, _ []val) val { return l[0] })
		}},
		{"stablehlo.sort: operands differ in dimensions (f32[2,3], f32[3,2])", func(b *hlo.Builder, x, y val) {
			b.Sort(0, true, []val{x, b.Transpose(x, ints{1, 0})}, less)
		}},
		{"stablehlo.gather: start_index_map [3], index_vector_dim 2 do not fit (f32[2,3], i32[2,3])", func(b *hlo.Builder, x, y val) {
			b.Gather(x, y, hlo.GatherDims{StartIndexMap: ints{3}, IndexVectorDim: 2, SliceSizes: ints{1, 1}})
		}},
		{"stablehlo.scatter: the updates do not fit update_window_dims [1], inserted_window_dims [0] (f32[2,3], i32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) {
			b.Scatter([]val{x}, y, []val{x}, hlo.ScatterDims{UpdateWindowDims: ints{1}, InsertedWindowDims: ints{0}, ScatterDimsToOperandDims: ints{0}, IndexVectorDim: 2}, same)
		}},
		{"stablehlo.dot_general: batch [] x [], contracting [1] x [0] do not fit (f32[2,3], f32[2,3])", func(b *hlo.Builder, x, y val) { b.MatMul(x, x, 0) }},
		{"stablehlo.cholesky: no square matrices (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Cholesky(x, true) }},
		{"stablehlo.fft: FFT of length [3] is not possible (f32[2,3])", func(b *hlo.Builder, x, y val) { b.Fft(x, hlo.FFT, ints{3}) }},
		{"stablehlo.if: the selector is not i1[] (f32[2,3])", func(b *hlo.Builder, x, y val) { b.If(x, nil2, nil2) }},
		{"func.call: @f takes [f32[2,3]] (i32[2,3])", func(b *hlo.Builder, x, y val) {
			f := b.DefineFunc("f", []*shape.Shape{x.Shape()}, func(_ *hlo.Builder, a []val) []val { return a })
			b.Call(f, y)
		}},
		{"func.return: an operand comes from another function", func(b *hlo.Builder, x, y val) {
			b.DefineFunc("f", nil, func(*hlo.Builder, []val) []val { return []val{x} })
		}},
		{"stablehlo.negate: an operand comes from another function or from a region that has ended (f32[2,3])", func(b *hlo.Builder, x, y val) {
			var inner val
			b.If(b.Scalar(dtype.Bool, hlo.Bool(true)), func(b *hlo.Builder) []val { inner = b.Tanh(x); return nil }, nil2)
			b.Negate(inner)
		}},
		{"stablehlo.custom_call: BackendConfig is for API versions 1 to 3, Config for 4 (f32[2,3])", func(b *hlo.Builder, x, y val) {
			b.CustomCall("f", []val{x}, nil, hlo.CustomCallOptions{Config: []hlo.Attr{hlo.BoolAttr("a", true)}})
		}},
		{"stablehlo.all_gather: dimension 0 among 3 members does not fit (f32[2,3])", func(b *hlo.Builder, x, y val) {
			b.AllGather(x, 0, 3, hlo.Groups{Replica: []ints{{0, 1}}})
		}},
		{"func.func: parameter added inside a region or after Return", func(b *hlo.Builder, x, y val) {
			b.If(b.Scalar(dtype.Bool, hlo.Bool(true)), func(b *hlo.Builder) []val { b.Param(x.Shape()); return nil }, nil2)
		}},
		{"func.return: Return inside a region", func(b *hlo.Builder, x, y val) {
			b.If(b.Scalar(dtype.Bool, hlo.Bool(true)), func(b *hlo.Builder) []val { b.Return(x); return nil }, nil2)
		}},
		{"my.op: 3 is odd (i32[2,3])", func(b *hlo.Builder, x, y val) { b.Failf("my.op", []val{y}, "%d is odd", 3) }},
	} {
		b := hlo.NewModule("wrong")
		x, y := in(b, "f32[2,3]"), in(b, "i32[2,3]")
		tc.f(b, x, y)
		b.Return(x)
		_, err := b.Bytes()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got  %v\nwant %s", err, tc.want)
			continue
		}
		var e *hlo.Error
		if !errors.As(err, &e) || !strings.HasPrefix(tc.want, e.Op+":") && e.Op == "" {
			t.Errorf("%v is not an *Error with an op", err)
		}
	}
}

func nil2(*hlo.Builder) []val { return nil }

var nan = func() float64 { var z float64; return z / z }()

// TestErrorSticks builds every golden's program after an error: nothing may crash, values keep the
// shapes that they have without the error, and the error is the first one.
func TestErrorSticks(t *testing.T) {
	for _, c := range allCases() {
		good := hlo.NewModule(c.name)
		want := c.build(good)
		bad := hlo.NewModule(c.name)
		bad.Failf("first", nil, "came before")
		got := c.build(bad)
		bad.Return(got...)
		if text, err := bad.Bytes(); text != nil || err == nil || err.Error() != "first: came before" {
			t.Errorf("%s: %q, %v", c.name, text, err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d values instead of %d", c.name, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i].Shape() != want[i].Shape() {
				t.Errorf("%s: value %d is %s after an error, %s without", c.name, i, got[i].Shape(), want[i].Shape())
			}
		}
	}
}

func TestUnfinished(t *testing.T) {
	b := hlo.NewModule("m")
	if _, err := b.Bytes(); err == nil || err.Error() != "func.func: Bytes before Return" {
		t.Error(err)
	}
	b = hlo.NewModule("m")
	b.Return()
	b.Return()
	if err := b.Err(); err == nil || err.Error() != "func.return: Return called twice" {
		t.Error(err)
	}
	b = hlo.NewModule("m")
	b.ResultAttrs(0, hlo.BoolAttr("jax.a", true))
	b.Return()
	if _, err := b.Bytes(); err == nil {
		t.Error("attributes of a missing result must be an error")
	}
}

func TestValueIsSafe(t *testing.T) {
	var v val
	if !v.IsZero() || v.Shape() == nil || v.Dims() == nil && v.Rank() != 0 || v.Dim(-1) != 1 || v.DType() != dtype.Invalid {
		t.Error("the zero Value")
	}
	b := hlo.NewModule("m")
	x := in(b, "f32[2,3]")
	if x.Dim(-1) != 3 || x.Dim(0) != 2 || x.Dim(2) != 1 || x.Dim(-3) != 1 || x.IsZero() {
		t.Error("Dim")
	}
}

// TestConstantsAreShared: one constant per function or region, however often it is made.
func TestConstantsAreShared(t *testing.T) {
	b := hlo.NewModule("m")
	x := in(b, "f32[2]")
	first := b.ConstLike(x, 1)
	if first != b.ConstLike(x, 1) || b.ConstLike(x, 0) == b.SplatLike(x, hlo.Float(negZero)) || b.ConstLike(x, 1) == b.ConstLike(x, 2) {
		t.Error("equal constants are one value, different ones are not")
	}
	outer := b.Scalar(dtype.F32, hlo.Float(1))
	b.Reduce([]val{x}, []val{outer}, ints{0}, func(b *hlo.Builder, l, r []val) []val {
		return []val{b.Add(b.Add(l[0], r[0]), b.Scalar(dtype.F32, hlo.Float(1)))}
	})
	b.Return(outer)
	if _, err := b.Bytes(); err != nil {
		t.Error(err)
	}
}

var negZero = func() float64 { z := 0.0; return -z }()

// BenchmarkModule writes a module of a thousand operations.
func BenchmarkModule(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		m := hlo.NewModule("chain")
		x := in(m, "f32[32,128]")
		y := in(m, "f32[128]")
		for range 250 {
			x = m.Tanh(m.Add(m.Multiply(x, m.ConstLike(x, 0.5)), m.Broadcast(y, x.Dims())))
		}
		m.Return(x)
		if _, err := m.Bytes(); err != nil {
			b.Fatal(err)
		}
	}
}
