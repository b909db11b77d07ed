package stablehlo_test

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// The program of the package documentation.
func Example() {
	b := stablehlo.NewModule("axpy")
	x := b.Param(shape.Make(dtype.F32, 2, 3))
	y := b.Param(shape.Make(dtype.F32, 3), stablehlo.Donate())
	b.Return(b.Add(x, b.Broadcast(y, x.Dims())))
	text, err := b.Bytes()
	fmt.Printf("%s%v", text, err)
	// Output:
	// module @axpy {
	//   func.func public @main(%0: tensor<2x3xf32>, %1: tensor<3xf32> {jax.buffer_donor = true}) -> (tensor<2x3xf32>) {
	//     %2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
	//     %3 = "stablehlo.add"(%0, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
	//     "func.return"(%3) : (tensor<2x3xf32>) -> ()
	//   }
	// }
	// <nil>
}

// A region that takes two tensors at once: the greatest element of each row and its index.
func ExampleBuilder_Reduce() {
	b := stablehlo.NewModule("max_with_index")
	x := b.Param(shape.Make(dtype.F32, 2, 3))
	i := b.Iota(shape.Make(dtype.I64, 2, 3), 1)
	inits := []stablehlo.Value{b.MinValue(dtype.F32), b.Scalar(dtype.I64, stablehlo.Int(0))}
	out := b.Reduce([]stablehlo.Value{x, i}, inits, []int64{1},
		func(b *stablehlo.Builder, l, r []stablehlo.Value) []stablehlo.Value {
			keep := b.Compare(l[0], r[0], stablehlo.GE)
			return []stablehlo.Value{b.Select(keep, l[0], r[0]), b.Select(keep, l[1], r[1])}
		})
	b.Return(out...)
	text, _ := b.Bytes()
	fmt.Printf("%s", text)
	// Output:
	// module @max_with_index {
	//   func.func public @main(%0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
	//     %1 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x3xi64>
	//     %2 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
	//     %3 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
	//     %11, %12 = "stablehlo.reduce"(%0, %1, %2, %3) ({
	//     ^bb0(%4: tensor<f32>, %5: tensor<i64>, %6: tensor<f32>, %7: tensor<i64>):
	//       %8 = "stablehlo.compare"(%4, %6) {comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
	//       %9 = "stablehlo.select"(%8, %4, %6) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
	//       %10 = "stablehlo.select"(%8, %5, %7) : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
	//       "stablehlo.return"(%9, %10) : (tensor<f32>, tensor<i64>) -> ()
	//     }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
	//     "func.return"(%11, %12) : (tensor<2xf32>, tensor<2xi64>) -> ()
	//   }
	// }
}

// The first error sticks; what follows it is harmless.
func ExampleBuilder_Bytes() {
	b := stablehlo.NewModule("wrong")
	b.Loc("aten::add.Tensor", "model.py:12")
	x := b.Param(shape.Make(dtype.F32, 2))
	y := b.Param(shape.Make(dtype.F64, 2))
	b.Return(b.Tanh(b.Add(x, y)))
	_, err := b.Bytes()
	fmt.Println(err)
	// Output:
	// stablehlo.add: operands differ in shape or element type (f32[2], f64[2]) at model.py:12 in aten::add.Tensor
}
