package ops

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// tap is one term of a weighted sum: weight · x[from].
type tap struct {
	from   int64
	weight float64
}

// taps is a sparse matrix that acts along one dimension: element o of the result is the sum over the
// taps of row o. Interpolation, adaptive pooling and their gradients are such maps, known while
// lowering.
type taps struct {
	in   int64 // size of the dimension that it acts on
	rows [][]tap
}

// transpose is the map of the gradient; taps of one source are joined.
func (t taps) transpose() taps {
	r := taps{in: int64(len(t.rows)), rows: make([][]tap, t.in)}
	for o, row := range t.rows {
		for _, p := range row {
			to := r.rows[p.from]
			if n := len(to); n > 0 && to[n-1].from == int64(o) {
				to[n-1].weight += p.weight
				continue
			}
			r.rows[p.from] = append(to, tap{int64(o), p.weight})
		}
	}
	return r
}

// width is the most taps of a row.
func (t taps) width() (n int) {
	for _, row := range t.rows {
		n = max(n, len(row))
	}
	return n
}

// resample applies t along dimension dim of x, in x's type. It is a copy, a repetition or a block sum where the map is
// one, and gathers terms otherwise. Sources outside of a row's taps take no part, not even as zero times infinity.
func (l *Lowering) resample(x value, dim int, t taps) value {
	if out, ok := l.pick(x, dim, t); ok {
		return out
	}
	if out, ok := l.blockSum(x, dim, t); ok {
		return out
	}
	width := t.width()
	if width > 8 {
		return l.gatherSum(x, dim, t, width)
	}
	var sum value
	for j := range width {
		term := l.term(x, dim, t, []int{j})
		if sum.IsZero() {
			sum = term
		} else {
			sum = l.B.Add(sum, term)
		}
	}
	return sum
}

// pick is resample where every row is one source with weight 1.
func (l *Lowering) pick(x value, dim int, t taps) (value, bool) {
	n := int64(len(t.rows))
	if n == 0 || t.in == 0 {
		dims := append([]int64(nil), x.Dims()...)
		dims[dim] = n
		return l.B.Broadcast(zero(l.B, x.DType()), dims), true
	}
	times := max(n/t.in, 1)
	step := int64(1)
	if n > 1 && len(t.rows[0]) == 1 && len(t.rows[1]) == 1 {
		step = t.rows[1][0].from - t.rows[0][0].from
	}
	repeated, strided := n == times*t.in, step > 0
	index := make([]int64, n)
	for o, row := range t.rows {
		if len(row) != 1 || row[0].weight != 1 {
			return value{}, false
		}
		index[o] = row[0].from
		repeated = repeated && index[o] == int64(o)/times
		strided = strided && index[o] == index[0]+int64(o)*step
	}
	switch {
	case repeated:
		return repeat(l.B, x, dim, times), true
	case strided:
		return l.B.SliceDim(x, int64(dim), index[0], index[n-1]+1, step), true
	}
	return take(l.B, x, dim, index), true
}

// blockSum is resample where the rows split the source into blocks of one size, with one weight.
func (l *Lowering) blockSum(x value, dim int, t taps) (value, bool) {
	n := int64(len(t.rows))
	if t.in%n != 0 || len(t.rows[0]) == 0 {
		return value{}, false
	}
	k, weight := t.in/n, t.rows[0][0].weight
	for o, row := range t.rows {
		if int64(len(row)) != k {
			return value{}, false
		}
		for j, p := range row {
			if p.from != int64(o)*k+int64(j) || p.weight != weight {
				return value{}, false
			}
		}
	}
	dims := x.Dims()
	split := append([]int64(nil), dims[:dim]...)
	split = append(append(split, n, k), dims[dim+1:]...)
	sum := l.B.ReduceSum(l.B.Reshape(x, split), []int64{int64(dim + 1)})
	if weight != 1 {
		sum = l.B.Multiply(sum, l.B.ConstLike(sum, weight))
	}
	return sum, true
}

// term is x at the taps of the given columns times their weights. Dimension dim of the result counts rows, and columns
// fastest if there is more than one. A row without such a tap gives zero.
func (l *Lowering) term(x value, dim int, t taps, columns []int) value {
	b := l.B
	n := len(t.rows) * len(columns)
	index, weight, present := make([]int64, 0, n), make([]float64, 0, n), make([]int64, 0, n)
	full, unit := true, true
	for _, row := range t.rows {
		for _, j := range columns {
			if j >= len(row) {
				index, weight, present = append(index, 0), append(weight, 1), append(present, 0)
				full = false
				continue
			}
			index, weight, present = append(index, row[j].from), append(weight, row[j].weight), append(present, 1)
			unit = unit && row[j].weight == 1
		}
	}
	v := take(b, x, dim, index)
	along := []int64{int64(dim)}
	if !unit {
		w := b.ConstantFloats(shape.Make(x.DType(), int64(n)), weight)
		v = b.Multiply(v, b.BroadcastInDim(w, v.Dims(), along))
	}
	if !full {
		mask := b.ConstantInts(shape.Make(dtype.Bool, int64(n)), present)
		v = b.Select(b.BroadcastInDim(mask, v.Dims(), along), v, b.ConstLike(v, 0))
	}
	return v
}

// gatherSum is resample with many taps a row: one gather and one reduction.
func (l *Lowering) gatherSum(x value, dim int, t taps, width int) value {
	columns := make([]int, width)
	for j := range columns {
		columns[j] = j
	}
	v := l.term(x, dim, t, columns)
	dims := v.Dims()
	split := append([]int64(nil), dims[:dim]...)
	split = append(append(split, int64(len(t.rows)), int64(width)), dims[dim+1:]...)
	return l.B.ReduceSum(l.B.Reshape(v, split), []int64{int64(dim + 1)})
}

// take is torch's index_select with indices known while lowering.
func take(b *stablehlo.Builder, x value, dim int, index []int64) value {
	n := int64(len(index))
	d := dtype.I32
	if x.Dim(dim) > 1<<31-1 {
		d = dtype.I64
	}
	g := stablehlo.GatherDims{
		CollapsedSliceDims: []int64{int64(dim)}, StartIndexMap: []int64{int64(dim)}, IndexVectorDim: 1,
		SliceSizes: append([]int64(nil), x.Dims()...),
	}
	g.SliceSizes[dim] = 1
	for i := range x.Rank() {
		if i != dim {
			g.OffsetDims = append(g.OffsetDims, int64(i))
		}
	}
	return b.Gather(x, b.ConstantInts(shape.Make(d, n, 1), index), g)
}
