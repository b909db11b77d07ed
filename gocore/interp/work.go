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

// Multiplications are those of a product of matrices or a convolution, on which compiled programs and torch's kernels
// spend the same time; 0 for another node.
func Multiplications(g *ir.Graph, id ir.ID) int64 {
	in, out := g.In(id), g.Shape(id).Numel()
	rowLength := func(matrix int) int64 {
		dims := g.Shape(in[matrix]).Dims
		return dims[len(dims)-1]
	}
	channel := func(kernel int) int64 {
		s := g.Shape(in[kernel])
		return s.Numel() / max(s.Dims[0], 1)
	}
	scores := func(query int) int64 { // the multiplications of queries by keys
		return g.Shape(in[query]).Numel() * g.Shape(in[query+1]).Dims[2]
	}
	switch ops.Of(g.At(id).Op).Name {
	case "mm", "bmm", "mv", "dot", "vdot":
		return out * rowLength(0)
	case "addmm", "baddbmm", "addmv":
		return out * rowLength(1)
	case "addbmm":
		return out * rowLength(1) * g.Shape(in[1]).Dims[0]
	case "convolution":
		return out * channel(1)
	case "convolution_backward":
		return 2 * g.Shape(in[0]).Numel() * channel(2)
	case "_scaled_dot_product_flash_attention_for_cpu":
		return 2 * scores(0)
	case "_scaled_dot_product_flash_attention_for_cpu_backward":
		return 5 * scores(1)
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
