package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
)

// A graph of one op, or of a few, has little to fuse. XLA's program of it then runs on one thread, or in threads that
// have to be woken, where torch's kernel of the op takes less. Such a graph runs by torch's kernels in every mode.
// Which ops and sizes those are was measured (benchmarks/op_speed.py); the choice is a function of the graph.

// kernel is what torch's kernel of a row is predicted to take.
type kernel struct {
	nanoseconds float64 // for each element of work
	// work is the elements of a node; nil: those of its largest operand or result.
	work func(g *ir.Graph, id ir.ID) int64
	from float64 // the least work of which it is faster; 0: leastWork
	upTo float64 // the most; 0: any
	// fuses says that XLA computes the op together with its neighbours, so that no intermediate value is written.
	fuses bool
	// types are the element types of the first operand; nil: all.
	types []dtype.DType
	// rank is the fewest dimensions of the first operand.
	rank int
}

const (
	// leastWork is what a graph computes at least. Below it a kernel of torch's takes half of what the plugin takes to
	// start a program, too; but programs that people look at are of such sizes.
	leastWork = 1 << 8
	// mostUnfused is the bytes beyond which a compiled program pays. They are of intermediate values, which it fuses,
	// and of results that it writes into the memory of an argument. Torch's kernels make new ones, which pointwise ops
	// would pay for.
	mostUnfused = 8 << 20
	// mostKernels is how many of them run for a graph: the layers of a small model on a row or a few, for one.
	mostKernels = 8
	// mostFusing is how many of these a compiled program would fuse.
	mostFusing = 4
	// mostHere is how long a launch may hold up its thread, in nanoseconds: a person does not notice it. Threads that
	// compute for this thread then need not be woken. They would be if those of the thread of torch's kernels were
	// awake too.
	mostHere = 5e7
	// mostSerial is what one thread computes, in nanoseconds, before another one is awake.
	mostSerial = 1e4
)

var kernels = measuredKernels()

// free are the rows that cost nothing: views, and what kernels begin with.
var free = rowSet("xla::reshape xla::transpose xla::slice xla::dynamic_slice xla::broadcast xla::zeros fill.Scalar")

func rowSet(names string) map[ir.Op]bool {
	m := make(map[ir.Op]bool)
	for _, name := range strings.Fields(names) {
		op, ok := ops.Lookup(name)
		if !ok {
			panic("engine: no row is named " + name)
		}
		m[op] = true
	}
	return m
}

func measuredKernels() map[ir.Op][]kernel {
	m := make(map[ir.Op][]kernel)
	add := func(k kernel, names string) {
		for op := range rowSet(names) {
			m[op] = append(m[op], k)
		}
	}
	add(kernel{nanoseconds: 0.1, fuses: true}, "abs neg isnan floor ceil round trunc reciprocal sign relu maximum minimum add.Tensor sub.Tensor mul.Tensor div.Tensor clamp "+
		"eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar")
	add(kernel{nanoseconds: 2, fuses: true}, "sin cos exp exp2 expm1 log1p sigmoid gelu silu erfinv pow.Tensor_Scalar pow.Tensor_Tensor")
	add(kernel{nanoseconds: 2, fuses: true, types: []dtype.DType{dtype.BF16, dtype.F16}}, "log sqrt") // in f32 a NaN costs torch 60 times as much
	add(kernel{nanoseconds: 0.1, fuses: true}, "sum sum.dim_IntList mean mean.dim max min prod amax amin aminmax any all count_nonzero linalg_vector_norm")
	add(kernel{nanoseconds: 1}, "cumsum cumprod")
	add(kernel{nanoseconds: 1}, "_softmax _log_softmax native_layer_norm nll_loss_forward")
	add(kernel{nanoseconds: 0.3, fuses: true}, "cat flip roll repeat index.Tensor index_select gather stack xla::cast copy")
	add(kernel{nanoseconds: 0.3, fuses: true, rank: 3}, "clone") // XLA transposes matrices faster
	add(kernel{nanoseconds: 5, from: 1 << 15}, "_fft_r2c")
	add(kernel{nanoseconds: 5}, "scatter_add nonzero_static max_pool2d_with_indices max_pool2d_with_indices_backward upsample_bilinear2d grid_sampler_2d")
	add(kernel{nanoseconds: 100}, "sort sort.stable topk kthvalue mode median")
	add(kernel{nanoseconds: 100, from: 1 << 10}, "linalg_cholesky_ex _linalg_det _linalg_solve_ex linalg_inv_ex linalg_qr _linalg_svd _linalg_eigh")
	add(kernel{nanoseconds: 0.03, work: interp.Multiplications, from: 1 << 12, upTo: 1 << 25, types: []dtype.DType{dtype.F32}}, "mm bmm mv addmm")
	add(kernel{nanoseconds: 0.06, work: interp.Multiplications, from: 1 << 12, upTo: 1 << 28, types: []dtype.DType{dtype.F64}}, "mm bmm mv")
	add(kernel{nanoseconds: 0.05, work: interp.Multiplications, from: 1 << 20}, "convolution")
	add(kernel{nanoseconds: 40, from: 1 << 12}, "_scaled_dot_product_flash_attention_for_cpu")
	return m
}

// elements are those of the largest operand or result.
func elements(g *ir.Graph, id ir.ID) int64 {
	most := int64(0)
	for i := range int(g.At(id).Results) {
		most = max(most, g.Shape(id+ir.ID(i)).Numel())
	}
	for _, in := range g.In(id) {
		if in != ir.None {
			most = max(most, g.Shape(in).Numel())
		}
	}
	return most
}

// lone tells whether a plan runs by torch's kernels in every mode, and where.
func lone(p *lazy.Plan) (yes bool, place torchcpu.Place) {
	g := &p.Trace.Graph
	if slices.Contains(p.Given, true) {
		return false, torchcpu.Apart
	}
	unfused, taken := int64(0), int64(0)
	root := make(map[ir.ID]bool, len(p.Roots))
	for _, r := range p.Roots {
		if g.Shape(r.ID).Numel() == 0 {
			return false, torchcpu.Apart
		}
		root[r.ID] = true
		if r.Donor >= 0 {
			taken += g.Shape(r.ID).Bytes()
		}
	}
	took, calls, fusing, large := 0.0, 0, 0, false
	for _, id := range p.Nodes {
		op := g.At(id).Op
		if op == ir.OpData || op == ir.OpScalar || free[op] {
			continue
		}
		k := kernelOf(g, id)
		if k == nil {
			return false, torchcpu.Apart
		}
		work := k.workOf(g, id)
		large = large || work >= cmp.Or(k.from, leastWork)
		took += work * k.nanoseconds
		calls++
		if k.fuses {
			fusing++
		}
		if k.fuses && !root[id] {
			unfused += g.Shape(id).Bytes()
		}
	}
	yes = large && calls <= mostKernels && fusing <= mostFusing && unfused+taken <= mostUnfused && (taken == 0 || fusing < calls)
	switch {
	case !yes || took > mostHere:
		place = torchcpu.Apart
	case took > mostSerial:
		place = torchcpu.Here
	default:
		place = torchcpu.Serial
	}
	return yes, place
}

func (k *kernel) workOf(g *ir.Graph, id ir.ID) float64 {
	if k.work != nil {
		return float64(k.work(g, id))
	}
	return float64(elements(g, id))
}

// kernelOf is the row of the table for a node; nil if torch's kernel of it was not measured to be faster.
func kernelOf(g *ir.Graph, id ir.ID) *kernel {
	rows := kernels[g.At(id).Op]
	for i := range rows {
		if k := &rows[i]; k.suits(g, id) && (k.upTo == 0 || k.workOf(g, id) <= k.upTo) {
			return k
		}
	}
	return nil
}

// suits reports that the first operand is one that the kernel was measured for.
func (k *kernel) suits(g *ir.Graph, id ir.ID) bool {
	if len(k.types) == 0 && k.rank == 0 {
		return true
	}
	in := g.In(id)
	if len(in) == 0 || in[0] == ir.None {
		return false
	}
	s := g.Shape(in[0])
	return s.Rank() >= k.rank && (len(k.types) == 0 || slices.Contains(k.types, s.DType))
}
