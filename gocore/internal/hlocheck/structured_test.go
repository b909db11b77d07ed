package hlocheck

import (
	"math/rand/v2"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// dice makes up operands and dimension numbers that mostly fit, for operations that random arguments
// hardly ever suit.
type dice struct {
	*rand.Rand
	b *hlo.Builder
}

func (r dice) list(n, lo, hi int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(lo + r.IntN(hi-lo+1))
	}
	return out
}

func (r dice) param(d dtype.DType, dims []int64) hlo.Value { return r.b.Param(shape.Of(d, dims)) }

func (r dice) perm(n int) []int64 {
	out := make([]int64, n)
	for i, p := range r.Perm(n) {
		out[i] = int64(p)
	}
	return out
}

func (r dice) pads(n int) [][2]int64 {
	out := make([][2]int64, n)
	for i := range out {
		out[i] = [2]int64{int64(r.IntN(3)), int64(r.IntN(3))}
	}
	return out
}

func (r dice) window(n int) hlo.Window {
	return hlo.Window{Dims: r.list(n, 1, 3), Strides: r.list(n, 1, 2), BaseDilation: r.list(n, 1, 2), Dilation: r.list(n, 1, 2), Padding: r.pads(n)}
}

func (r dice) reduceWindow() {
	n := r.IntN(4)
	x := r.param(dtype.F32, r.list(n, 0, 6))
	r.b.ReduceWindow([]hlo.Value{x}, []hlo.Value{r.b.MinValue(dtype.F32)}, r.window(n), hlo.CombineMax)
}

func (r dice) selectAndScatter() {
	n := 1 + r.IntN(3)
	w := hlo.Window{Dims: r.list(n, 1, 2), Strides: r.list(n, 1, 2)}
	x := r.list(n, 2, 6)
	src := make([]int64, n)
	for i := range src {
		src[i] = (x[i]-w.Dims[i])/w.Strides[i] + 1
	}
	ge := func(b *hlo.Builder, p, q hlo.Value) hlo.Value { return b.Compare(p, q, hlo.GE) }
	r.b.SelectAndScatter(r.param(dtype.F32, x), r.param(dtype.F32, src), r.b.Scalar(dtype.F32, hlo.Int(0)), w, ge, hlo.CombineAdd)
}

func (r dice) convolution() {
	n := r.IntN(4)
	in, out, ker := r.perm(n+2), r.perm(n+2), r.perm(n+2)
	d := hlo.ConvDims{InputBatch: in[0], InputFeature: in[1], InputSpatial: in[2:], KernelInput: ker[0], KernelOutput: ker[1], KernelSpatial: ker[2:],
		OutputBatch: out[0], OutputFeature: out[1], OutputSpatial: out[2:], Strides: r.list(n, 1, 2), LhsDilation: r.list(n, 1, 2),
		RhsDilation: r.list(n, 1, 2), Padding: r.pads(n), FeatureGroups: 1, BatchGroups: 1}
	if r.IntN(2) == 0 {
		d.FeatureGroups = 2
	} else if r.IntN(2) == 0 {
		d.BatchGroups = 2
	}
	x, k := r.list(n+2, 1, 6), r.list(n+2, 1, 3)
	x[d.InputBatch] = d.BatchGroups * int64(1+r.IntN(2))
	k[d.KernelOutput] = 2 * int64(1+r.IntN(2))
	x[d.InputFeature] = k[d.KernelInput] * d.FeatureGroups
	r.b.Convolution(r.param(dtype.F32, x), r.param(dtype.F32, k), d)
}

func (r dice) dot() {
	nb, nc, nl, nr := r.IntN(3), r.IntN(3), r.IntN(3), r.IntN(3)
	lp, rp := r.perm(nb+nc+nl), r.perm(nb+nc+nr)
	x, y := r.list(len(lp), 0, 4), r.list(len(rp), 0, 4)
	for i := range nb + nc {
		y[rp[i]] = x[lp[i]]
	}
	r.b.DotGeneral(r.param(dtype.F32, x), r.param(dtype.F32, y), hlo.DotDims{LhsBatch: lp[:nb], RhsBatch: rp[:nb], LhsContract: lp[nb : nb+nc], RhsContract: rp[nb : nb+nc]})
}

// indexed is what gather and scatter have in common: an operand of rank n with dimensions taken
// whole, addressed (collapsed or not) and batched.
type indexed struct {
	x, sizes, collapsed, batch, idxBatch, start, idx []int64
	vector                                           int64
	window                                           []int64
	ranks                                            int // of the indices without their vector
}

func (r dice) indexed() (g indexed) {
	n := 1 + r.IntN(3)
	g.x = r.list(n, 1, 5)
	g.idx = r.list(r.IntN(3), 1, 4)
	free := r.perm(len(g.idx))
	for i := range n {
		size := int64(1 + r.IntN(int(g.x[i])))
		switch k := r.IntN(4); {
		case k == 0 && len(free) > 0:
			g.batch, g.idxBatch = append(g.batch, int64(i)), append(g.idxBatch, free[0])
			g.x[i] = g.idx[free[0]]
			free = free[1:]
			g.sizes = append(g.sizes, 1)
			continue
		case k == 1:
			g.collapsed = append(g.collapsed, int64(i))
			size = 1
		default:
			g.window = append(g.window, size)
		}
		g.sizes = append(g.sizes, size)
		if r.IntN(2) == 0 {
			g.start = append(g.start, int64(i))
		}
	}
	g.ranks = len(g.idx)
	g.vector = int64(len(g.idx))
	if len(g.start) != 1 || r.IntN(2) == 0 {
		g.idx = append(g.idx, int64(len(g.start)))
	}
	return g
}

// offsets are the places of the window's dimensions in a result or update.
func (r dice) offsets(g indexed) []int64 {
	var out []int64
	n := g.ranks + len(g.window)
	for i := range n {
		if rest := n - i; len(out) < len(g.window) && (r.IntN(2) == 0 || rest == len(g.window)-len(out)) {
			out = append(out, int64(i))
		}
	}
	return out
}

func (r dice) gather() {
	g := r.indexed()
	r.b.Gather(r.param(dtype.F32, g.x), r.param(dtype.I32, g.idx), hlo.GatherDims{OffsetDims: r.offsets(g), CollapsedSliceDims: g.collapsed,
		OperandBatchingDims: g.batch, StartIndicesBatchingDims: g.idxBatch, StartIndexMap: g.start, IndexVectorDim: g.vector, SliceSizes: g.sizes})
}

func (r dice) scatter() {
	g := r.indexed()
	at := r.offsets(g)
	var upd []int64
	w, k := 0, 0
	for i := range g.ranks + len(g.window) {
		if w < len(at) && at[w] == int64(i) {
			upd = append(upd, g.window[w])
			w++
		} else {
			upd = append(upd, g.idx[k])
			k++
		}
	}
	r.b.Scatter([]hlo.Value{r.param(dtype.F32, g.x)}, r.param(dtype.I64, g.idx), []hlo.Value{r.param(dtype.F32, upd)}, hlo.ScatterDims{UpdateWindowDims: at,
		InsertedWindowDims: g.collapsed, InputBatchingDims: g.batch, ScatterIndicesBatchingDims: g.idxBatch, ScatterDimsToOperandDims: g.start,
		IndexVectorDim: g.vector}, hlo.CombineAdd)
}

func (r dice) pad() {
	n := r.IntN(4)
	r.b.Pad(r.param(dtype.F32, r.list(n, 0, 5)), r.b.Scalar(dtype.F32, hlo.Int(0)), r.list(n, -2, 3), r.list(n, -2, 3), r.list(n, 0, 2))
}

func (r dice) slices() {
	n := r.IntN(4)
	dims := r.list(n, 0, 6)
	x := r.param(dtype.F32, dims)
	starts, limits := make([]int64, n), make([]int64, n)
	at := make([]hlo.Value, n)
	for i, d := range dims {
		starts[i] = int64(r.IntN(int(d) + 1))
		limits[i] = starts[i] + int64(r.IntN(int(d-starts[i])+1))
		at[i] = r.param(dtype.I64, nil)
	}
	part := r.b.Slice(x, starts, limits, r.list(n, 1, 3))
	r.b.DynamicSlice(x, at, limits)
	r.b.DynamicUpdateSlice(x, part, at)
}

func (r dice) reductions() {
	n := 1 + r.IntN(3)
	x := r.param(dtype.F32, r.list(n, 0, 4))
	dims := r.perm(n)[:r.IntN(n+1)]
	two := r.b.Reduce([]hlo.Value{x, x}, []hlo.Value{r.b.MinValue(dtype.F32), r.b.Scalar(dtype.F32, hlo.Int(1))}, dims, hlo.CombineMul)
	r.b.Reshape(two[1], append([]int64{1}, two[0].Dims()...))
	r.b.Transpose(x, r.perm(n))
	r.b.Reverse(x, dims)
	r.b.Iota(x.Shape(), int64(r.IntN(n)))
	other := append([]int64(nil), x.Dims()...)
	k := r.IntN(n)
	other[k] = int64(r.IntN(3))
	r.b.Concatenate(int64(k), x, r.param(dtype.F32, other), x)
	wide := append(r.list(r.IntN(2), 1, 3), x.Dims()...)
	r.b.Broadcast(x, wide)
	r.b.Sort(int64(k), true, []hlo.Value{x}, func(b *hlo.Builder, l, q []hlo.Value) hlo.Value { return b.Compare(l[0], q[0], hlo.LT) })
	r.b.BitcastConvert(x, dtype.BF16)
}

func (r dice) solvers() {
	lead := r.list(r.IntN(2), 1, 3)
	n, m := int64(1+r.IntN(3)), int64(1+r.IntN(3))
	a := r.param(dtype.F32, append(lead[:len(lead):len(lead)], n, n))
	r.b.Cholesky(a, r.IntN(2) == 0)
	right := r.IntN(2) == 0
	rhs := []int64{n, m}
	if right {
		rhs = []int64{m, n}
	}
	r.b.TriangularSolve(a, r.param(dtype.F32, append(lead[:len(lead):len(lead)], rhs...)), hlo.Triangular{Right: right, Lower: r.IntN(2) == 0, Transpose: r.IntN(2) == 0})
	x := r.param(dtype.F64, []int64{2, 1 + int64(r.IntN(6))})
	half := r.b.Fft(x, hlo.RFFT, x.Dims()[1:])
	r.b.Fft(half, hlo.IRFFT, x.Dims()[1:])
	r.b.Fft(half, hlo.FFT, half.Dims())
}

// TestRandomStructures compares the shapes and rules of the operations with many dimension numbers
// with the compiler's own. Of each, most tries must be accepted by the Builder, and everything that
// is must be by the compiler, in one module per operation.
func TestRandomStructures(t *testing.T) {
	for name, f := range map[string]func(dice){"reduce_window": dice.reduceWindow, "select_and_scatter": dice.selectAndScatter, "convolution": dice.convolution,
		"dot_general": dice.dot, "gather": dice.gather, "scatter": dice.scatter, "pad": dice.pad, "slice": dice.slices, "reduce": dice.reductions, "solvers": dice.solvers} {
		t.Run(name, func(t *testing.T) {
			const tries = 150
			write := func(seeds ...uint64) ([]byte, error) {
				b := hlo.NewModule(name)
				for _, seed := range seeds {
					f(dice{rand.New(rand.NewPCG(seed, 7)), b})
				}
				b.Return()
				return b.Bytes()
			}
			var good []uint64
			for seed := range uint64(tries) {
				if _, err := write(seed); err == nil {
					good = append(good, seed)
				}
			}
			t.Logf("%d of %d tries accepted", len(good), tries)
			if len(good) < tries/2 {
				t.Error("too few")
			}
			compile := func(seeds ...uint64) error {
				text, err := write(seeds...)
				if err != nil {
					return err
				}
				exe, err := client(t).Compile(text, "mlir", pjrt.CompileOptions{})
				if err != nil {
					return err
				}
				return exe.Close()
			}
			if compile(good...) == nil {
				return
			}
			for _, seed := range good {
				if err := compile(seed); err != nil {
					text, _ := write(seed)
					t.Errorf("seed %d: %v\n%s", seed, err, text)
				}
			}
		})
	}
}
