package pjrt

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

// TestOperations checks what the null plugin computes, in every type that it
// computes with; other tests stand on it.
func TestOperations(t *testing.T) {
	f := newFixture(t, nil)
	arithmetic(t, f, F32, "f32", []float32{6, -8}, []float32{2, 3})
	arithmetic(t, f, F64, "f64", []float64{6, -8}, []float64{2, 3})
	arithmetic(t, f, S32, "i32", []int32{6, -8}, []int32{2, 3})
	arithmetic(t, f, S64, "i64", []int64{6, -8}, []int64{2, 3})
}

func arithmetic[T int32 | int64 | float32 | float64](t *testing.T, f *fixture, typ Type, name string, x, y []T) {
	t.Helper()
	put := func(data []T) Buffer {
		b, e, err := f.FromHost(unsafe.Pointer(&data[0]), typ, []int64{int64(len(data))}, nil,
			f.AddressableDevices()[0], OnlyDuringCall)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitAndDestroy(e); err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := put(x), put(y)
	for op, want := range map[string]func(x, y T) T{
		"add":      func(x, y T) T { return x + y },
		"subtract": func(x, y T) T { return x - y },
		"multiply": func(x, y T) T { return x * y },
		"divide":   func(x, y T) T { return x / y },
		"maximum":  func(x, y T) T { return max(x, y) },
	} {
		outs := f.run(binary(op, "tensor<2x"+name+">"), a, b)
		got := pinned[T](t, 2)
		e, err := f.ToHost(outs[0], unsafe.Pointer(&got[0]), 2*typ.Size())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.AwaitAndDestroy(e); err != nil || got[0] != want(x[0], y[0]) || got[1] != want(x[1], y[1]) {
			t.Errorf("%s of %v and %v is %v, %v", op, x, y, got, err)
		}
		f.destroy(outs...)
	}
	f.destroy(a, b)
}

// TestModules runs modules in the forms that programs are written in.
func TestModules(t *testing.T) {
	f := newFixture(t, nil)
	x := f.array(0, []int64{2}, 1, 2)
	defer f.destroy(x)
	for _, c := range []struct {
		name, typ, body string
		want            []float32
	}{
		{"splat", "tensor<2xf32>", `%0 = "stablehlo.constant"() {value = dense<1.5> : tensor<2xf32>} : () -> tensor<2xf32>`, []float32{1.5, 1.5}},
		{"list", "tensor<2x2xf32>", `%0 = "stablehlo.constant"() <{value = dense<[[1.0, -2.0], [3.0e0, 0x40800000]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>`, []float32{1, -2, 3, 4}},
		{"bytes", "tensor<2xf32>", `%0 = "stablehlo.constant"() <{value = dense<"0x0000803F00000040"> : tensor<2xf32>}> : () -> tensor<2xf32>`, []float32{1, 2}},
		{"empty", "tensor<0xf32>", `%0 = "stablehlo.constant"() {value = dense<> : tensor<0xf32>} : () -> tensor<0xf32>`, []float32{}},
		{"rows", "tensor<2x2xf32>", `%0 = "stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<2x2xf32>`, []float32{1, 2, 1, 2}},
		{"columns", "tensor<2x2xf32>", `%0 = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = dense<0> : tensor<1xi64>}> : (tensor<2xf32>) -> tensor<2x2xf32>`, []float32{1, 1, 2, 2}},
		{"reshape", "tensor<1x2xf32>", `%0 = "stablehlo.reshape"(%a0) : (tensor<2xf32>) -> tensor<1x2xf32>`, []float32{1, 2}},
		{"slice", "tensor<1xf32>", `%0 = "stablehlo.slice"(%a0) {start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<1xf32>`, []float32{2}},
		{"strided slice", "tensor<2x1xf32>", `%b = "stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x3xf32>
    %0 = "stablehlo.slice"(%b) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 3>, strides = array<i64: 1, 2>}> : (tensor<2x3xf32>) -> tensor<2x1xf32>`, []float32{1, 2}},
		{"negate", "tensor<2xf32>", `%0 = "stablehlo.negate"(%a0) : (tensor<2xf32>) -> tensor<2xf32> loc("x.py":1:2)`, []float32{-1, -2}},
		{"comment", "tensor<2xf32>", "// nothing\n" + `%0 = "stablehlo.add"(%a0, %a0) {a.b = "}", c = [1, {d}]} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>`, []float32{2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := function("tensor<2xf32>", c.typ, c.body+fmt.Sprintf("\n\"func.return\"(%%0) : (%s) -> () loc(#l)", c.typ), "")
			outs := f.run(module, x)
			if got := f.read(outs[0], len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			f.destroy(outs...)
		})
	}
}

// TestModuleRefusals gives the null plugin modules that are wrong.
func TestModuleRefusals(t *testing.T) {
	f := newFixture(t, nil)
	returns := "\n\"func.return\"(%0) : (tensor<2xf32>) -> ()"
	for _, c := range []struct {
		body, words string
		code        Code
	}{
		{`%0 = "stablehlo.add"(%a0, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>`, "%b is not defined", InvalidArgument},
		{`%0 = "stablehlo.add"(%a0) : (tensor<2xf32>) -> tensor<2xf32>`, "1 operands, not 2", InvalidArgument},
		{`%0 = "stablehlo.add"(%a0, %a0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>`, "do not fit", InvalidArgument},
		{`%0 = "stablehlo.reshape"(%a0) : (tensor<2xf32>) -> tensor<3xf32>`, "do not fit", InvalidArgument},
		{`%0 = "stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<3xf32>`, "does not fit", InvalidArgument},
		{`%0 = "stablehlo.broadcast_in_dim"(%a0) : (tensor<2xf32>) -> tensor<2xf32>`, "broadcast_dimensions expected", InvalidArgument},
		{`%0 = "stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64>} : (tensor<2xf32>) -> tensor<2xf32>`, "0 numbers for 1 dimensions", InvalidArgument},
		{`%0 = "stablehlo.slice"(%a0) {start_indices = array<i64: 1>, limit_indices = array<i64: 3>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xf32>`, "does not fit", InvalidArgument},
		{`%0 = "stablehlo.constant"() : () -> tensor<2xf32>`, "a value expected", InvalidArgument},
		{`%0 = "stablehlo.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<2xf32>`, "> expected", InvalidArgument},
		{`%0 = "stablehlo.constant"() {value = dense<"0x00"> : tensor<2xf32>} : () -> tensor<2xf32>`, "bytes for each element", InvalidArgument},
		{`%a0 = "stablehlo.negate"(%a0) : (tensor<2xf32>) -> tensor<2xf32>`, "a new name expected", InvalidArgument},
		{`%0 = "stablehlo.negate"(%a0) : (tensor<2xf32>) -> tensor<2xq7>`, "an element type expected", InvalidArgument},
		{`%0 = "stablehlo.negate"(%a0) : (tensor<2xf32>) -> tensor<1x1x1x1x1x1x1x1x1xf32>`, "more than 8 dimensions", Unimplemented},
	} {
		_, err := f.Compile([]byte(function("tensor<2xf32>", "tensor<2xf32>", c.body+returns, "")), "mlir", CompileOptions{})
		wantCode(t, err, c.code, "Client_Compile", c.words)
	}
	_, err := f.Compile([]byte(binary("add", "tensor<2xbf16>")), "mlir", CompileOptions{})
	wantCode(t, err, Unimplemented, "Client_Compile", "computes f32, f64, i32 and i64 only")
	_, err = f.Compile([]byte(function("tensor<2xf32>", "tensor<2xf32>", `"func.return"(%a0) : (tensor<2xf32>) -> ()`,
		"arg_attrs = [{tf.aliasing_output = 3 : i32}], ")), "mlir", CompileOptions{})
	wantCode(t, err, InvalidArgument, "Client_Compile", "cannot be aliased")
}
