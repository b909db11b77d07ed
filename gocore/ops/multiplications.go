package ops

import "github.com/torch-go-xla/torch-go-xla/gocore/ir"

// Row.Multiplications, by the sizes of a node's operands and of its first result.

// rowsOf counts a product whose every element is a sum over a row of an operand.
func rowsOf(operand int) func(g *ir.Graph, node ir.ID) int64 {
	return func(g *ir.Graph, node ir.ID) int64 {
		dims := g.Shape(g.In(node)[operand]).Dims
		return g.Shape(node).Numel() * dims[len(dims)-1]
	}
}

// sumOfProducts counts the products of a batch, which are added up.
func sumOfProducts(g *ir.Graph, node ir.ID) int64 {
	return rowsOf(1)(g, node) * g.Shape(g.In(node)[1]).Dims[0]
}

// channelOf is the elements of a kernel that make one element of the result.
func channelOf(g *ir.Graph, kernel ir.ID) int64 {
	s := g.Shape(kernel)
	return s.Numel() / max(s.Dims[0], 1)
}

func convolution(g *ir.Graph, node ir.ID) int64 {
	return g.Shape(node).Numel() * channelOf(g, g.In(node)[1])
}

// convolutionBackward counts the gradients by the input and by the kernel.
func convolutionBackward(g *ir.Graph, node ir.ID) int64 {
	in := g.In(node)
	return 2 * g.Shape(in[0]).Numel() * channelOf(g, in[2])
}

// attended counts products that each multiply as often as the queries, an operand that the keys follow, with the keys.
func attended(products int64, query int) func(g *ir.Graph, node ir.ID) int64 {
	return func(g *ir.Graph, node ir.ID) int64 {
		in := g.In(node)
		return products * g.Shape(in[query]).Numel() * g.Shape(in[query+1]).Dims[2]
	}
}
