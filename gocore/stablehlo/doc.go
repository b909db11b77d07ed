// Package stablehlo writes StableHLO modules as text, in the generic form of MLIR.
//
// It knows the operations of the StableHLO specification and of CHLO, nothing of ATen, and imports only dtype and
// shape. A Builder appends one line per operation. It infers the result shapes and checks the operands as it does so.
// A wrong program is thus an *Error that names the operation and its operands, long before a compiler sees it:
//
//	b := stablehlo.NewModule("axpy")
//	x := b.Param(shape.Make(dtype.F32, 2, 3))
//	y := b.Param(shape.Make(dtype.F32, 3), stablehlo.Donate())
//	b.Return(b.Add(x, b.Broadcast(y, x.Dims())))
//	text, err := b.Bytes()
//
// gives
//
//	module @axpy {
//	  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<3xf32> {jax.buffer_donor = true}) -> (tensor<2x3xf32>) {
//	    %2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
//	    %3 = "stablehlo.add"(%0, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
//	    "func.return"(%3) : (tensor<2x3xf32>) -> ()
//	  }
//	}
//
// # Errors
//
// The first error sticks. Bytes returns it, and nothing more is written. Every later call still returns Values (shaped
// as asked for, or like the first operand), so that lowering code needs no check after each call. Value.Dim is safe on
// any value; Dims of a zero Value is nil.
//
// # Regions
//
// Operations with a body take Go functions that get the Builder and the block arguments. The bodies
// of If, Case and While may use values from around them. Those of Reduce, ReduceWindow, Scatter,
// SelectAndScatter, Sort, Map, AllReduce and ReduceScatter may not (XLA cannot translate that); a
// use of one is an error here. Constants made in a region are always local to it.
//
// # Names
//
// Methods carry the specification's names in Go's case. Attributes whose value is nearly always the
// default are fields of option structs whose zero value is that default.
package stablehlo
