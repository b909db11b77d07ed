package interp

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
)

// Work is what a program does, to predict its time by.
type Work struct {
	// Calls is how many kernels it calls.
	Calls int
	// Bytes are those of the values that it writes to memory, without the roots. Neither views count nor the results
	// of products, which a compiled program writes too.
	Bytes int64
	// Results are the bytes of the roots.
	Results int64
	// Products are the multiplications in products of matrices and convolutions.
	Products int64
	// Functions are the elements of functions that a compiled program computes more slowly.
	Functions int64
	// Peak is how many bytes of the values that it makes are there at one time, temporary ones too.
	Peak int64
	// Kept are those of them that are there at its end, with the copies that the roots are.
	Kept int64
}

// Multiplications are those of a product of matrices or a convolution; 0 for another node. See ops.Row.
func Multiplications(g *ir.Graph, id ir.ID) int64 {
	if row := ops.Of(g.At(id).Op); row != nil && row.Multiplications != nil {
		return row.Multiplications(g, id)
	}
	return 0
}

// free are the nodes that compute nothing: the compiler makes them part of what reads them.
var free = []ir.Op{ir.OpReshape, ir.OpSlice, ir.OpTranspose, ir.OpBroadcast, ir.OpGather, ir.OpBitcast, ir.OpZeros, ir.OpDynamicSlice, ir.OpAnnotate}

// Operations are those of a node, estimated: 2 for each multiplication of a product, which has a sum, else 1 for each
// element of the largest of its operands and results.
func Operations(g *ir.Graph, id ir.ID) int64 {
	n := g.At(id)
	row := ops.Of(n.Op)
	if row == nil || row.Uniform || slices.Contains(free, n.Op) {
		return 0
	}
	if products := Multiplications(g, id); products > 0 {
		return 2 * products
	}
	most := int64(0)
	for k := range ir.ID(n.Results) {
		most = max(most, g.Shape(id+k).Numel())
	}
	for _, in := range g.In(id) {
		if in != ir.None {
			most = max(most, g.Shape(in).Numel())
		}
	}
	return most
}

// scalarFunctions are the rows that XLA computes element by element, where torch's kernels compute several elements at
// a time.
var scalarFunctions = []string{"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "log1p", "lgamma", "pow.Tensor_Scalar", "pow.Tensor_Tensor"}

// weigh counts what the node that was written does.
func (w *writer) weigh() {
	n := w.g.At(w.node)
	if n.Op == ir.OpData || n.Op == ir.OpScalar {
		return
	}
	view, product := w.p.Calls == w.before, Multiplications(w.g, w.node)
	w.p.Products += product
	if slices.Contains(scalarFunctions, ops.Of(n.Op).Name) {
		w.p.Functions += w.out(0).Numel()
	}
	if view || product > 0 {
		return
	}
	for i := range int(n.Results) {
		w.p.Bytes += w.out(i).Bytes()
	}
}
