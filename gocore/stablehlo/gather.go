package stablehlo

import (
	"fmt"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// GatherDims are the dimension numbers of Gather, named as in the specification.
type GatherDims struct {
	OffsetDims               []int64 // dimensions of the result that come from the slice
	CollapsedSliceDims       []int64 // dimensions of the operand whose slices of size 1 disappear
	OperandBatchingDims      []int64
	StartIndicesBatchingDims []int64
	StartIndexMap            []int64 // dimensions of the operand that the index vector addresses
	IndexVectorDim           int64   // dimension of the indices that holds a vector; their rank: scalars
	SliceSizes               []int64
	Sorted                   bool // the indices are sorted
}

// Gather collects slices of x at the given start indices, which are moved so that the slices lie
// inside x.
func (b *Builder) Gather(x, indices Value, g GatherDims) Value {
	const op = "stablehlo.gather"
	if !indices.DType().IsInt() {
		return b.fail(op, "the indices are no integers", x, indices)
	}
	dims, msg := g.output(x.Dims(), indices.Dims())
	if msg != "" {
		return b.fail(op, msg, x, indices)
	}
	b.attrName("dimension_numbers")
	b.attrs = append(b.attrs, "#stablehlo.gather<"...)
	first := true
	b.field(&first, "offset_dims", g.OffsetDims)
	b.field(&first, "collapsed_slice_dims", g.CollapsedSliceDims)
	b.field(&first, "operand_batching_dims", g.OperandBatchingDims)
	b.field(&first, "start_indices_batching_dims", g.StartIndicesBatchingDims)
	b.field(&first, "start_index_map", g.StartIndexMap)
	b.fieldInt(&first, "index_vector_dim", g.IndexVectorDim)
	b.attrs = append(b.attrs, '>')
	b.attrDims("slice_sizes", g.SliceSizes)
	b.attrBool("indices_are_sorted", g.Sorted)
	return b.op1(op, shape.Of(x.DType(), dims), x, indices)
}

// output checks the numbers and infers the result's dimensions; msg says what is wrong.
func (g *GatherDims) output(x, idx []int64) (dims []int64, msg string) {
	r := int64(len(x))
	batch, depth, ok := indexBatch(idx, g.IndexVectorDim)
	if !ok || depth != int64(len(g.StartIndexMap)) || !distinct(g.StartIndexMap, r) {
		return nil, fmt.Sprintf("start_index_map %v, index_vector_dim %d do not fit", g.StartIndexMap, g.IndexVectorDim)
	}
	if len(g.SliceSizes) != len(x) {
		return nil, fmt.Sprintf("slice_sizes %v for rank %d", g.SliceSizes, r)
	}
	var offsets []int64
	for i, n := range g.SliceSizes {
		gone := contains(g.CollapsedSliceDims, int64(i)) || contains(g.OperandBatchingDims, int64(i))
		if n < 0 || n > x[i] || gone && n > 1 {
			return nil, fmt.Sprintf("slice_sizes %v do not fit", g.SliceSizes)
		}
		if !gone {
			offsets = append(offsets, n)
		}
	}
	if !distinct(g.CollapsedSliceDims, r) || !distinct(g.OperandBatchingDims, r) || len(offsets) != len(g.OffsetDims) {
		return nil, fmt.Sprintf("offset_dims %v, collapsed_slice_dims %v, operand_batching_dims %v do not fit",
			g.OffsetDims, g.CollapsedSliceDims, g.OperandBatchingDims)
	}
	if !batchesFit(x, idx, g.OperandBatchingDims, g.StartIndicesBatchingDims) {
		return nil, fmt.Sprintf("batching dimensions %v and %v do not fit", g.OperandBatchingDims, g.StartIndicesBatchingDims)
	}
	return weave(g.OffsetDims, offsets, batch)
}

// indexBatch splits the dimensions of start indices into those of the batch and the vector's length.
func indexBatch(idx []int64, vectorDim int64) (batch []int64, depth int64, ok bool) {
	if vectorDim < 0 || vectorDim > int64(len(idx)) {
		return nil, 0, false
	}
	depth = 1
	for i, d := range idx {
		if int64(i) == vectorDim {
			depth = d
			continue
		}
		batch = append(batch, d)
	}
	return batch, depth, true
}

func batchesFit(x, idx, xb, ib []int64) bool {
	if len(xb) != len(ib) || !distinct(ib, int64(len(idx))) {
		return false
	}
	for i := range xb {
		if x[xb[i]] != idx[ib[i]] {
			return false
		}
	}
	return true
}

// weave puts the window's sizes at the positions named and the batch's at the others.
func weave(at, window, batch []int64) (dims []int64, msg string) {
	n := int64(len(window) + len(batch))
	if !distinct(at, n) {
		return nil, fmt.Sprintf("dimensions %v of a result of rank %d", at, n)
	}
	dims = make([]int64, 0, n)
	w, k := 0, 0
	for i := int64(0); i < n; i++ {
		if contains(at, i) {
			dims = append(dims, window[w])
			w++
		} else {
			dims = append(dims, batch[k])
			k++
		}
	}
	return dims, ""
}

// distinct reports whether xs are different numbers in [0, n).
func distinct(xs []int64, n int64) bool {
	for i, x := range xs {
		if x < 0 || x >= n || contains(xs[:i], x) {
			return false
		}
	}
	return true
}

// ScatterDims are the dimension numbers of Scatter, named as in the specification.
type ScatterDims struct {
	UpdateWindowDims           []int64 // dimensions of the updates that make up the window
	InsertedWindowDims         []int64 // dimensions of the operand where the window has size 1
	InputBatchingDims          []int64
	ScatterIndicesBatchingDims []int64
	ScatterDimsToOperandDims   []int64 // dimensions of the operand that the index vector addresses
	IndexVectorDim             int64   // dimension of the indices that holds a vector; their rank: scalars
	Sorted                     bool    // the indices are sorted
	Unique                     bool    // no two updates fall on one element
}

// Scatter combines updates into xs at the given indices: body gets the present elements (lhs) and
// the updates (rhs). Updates that would fall outside are dropped. All xs have one shape, and so do
// all updates.
func (b *Builder) Scatter(xs []Value, indices Value, updates []Value, d ScatterDims, body Combiner) []Value {
	const op = "stablehlo.scatter"
	all := append(append(xs[:len(xs):len(xs)], indices), updates...)
	if len(xs) == 0 || len(xs) != len(updates) || !indices.DType().IsInt() {
		b.failAll(op, "needs as many updates as operands and integer indices", all)
		return b.failAll(op, "", xs)
	}
	for i, x := range xs {
		if !equal(x.Dims(), xs[0].Dims()) || !equal(updates[i].Dims(), updates[0].Dims()) || updates[i].DType() != x.DType() {
			b.failAll(op, "operands or updates differ", all)
			return b.failAll(op, "", xs)
		}
	}
	if msg := d.check(xs[0].Dims(), indices.Dims(), updates[0].Dims()); msg != "" {
		b.failAll(op, msg, all)
		return b.failAll(op, "", xs)
	}
	if !b.checkAll(op, all) {
		return b.failAll(op, "", xs)
	}
	regions, ok := b.combiner(op, xs, body)
	if !ok {
		return b.failAll(op, "", xs)
	}
	b.attrName("scatter_dimension_numbers")
	b.attrs = append(b.attrs, "#stablehlo.scatter<"...)
	first := true
	b.field(&first, "update_window_dims", d.UpdateWindowDims)
	b.field(&first, "inserted_window_dims", d.InsertedWindowDims)
	b.field(&first, "input_batching_dims", d.InputBatchingDims)
	b.field(&first, "scatter_indices_batching_dims", d.ScatterIndicesBatchingDims)
	b.field(&first, "scatter_dims_to_operand_dims", d.ScatterDimsToOperandDims)
	b.fieldInt(&first, "index_vector_dim", d.IndexVectorDim)
	b.attrs = append(b.attrs, '>')
	b.attrBool("indices_are_sorted", d.Sorted)
	b.attrBool("unique_indices", d.Unique)
	return b.opN(op, all, regions, shapesOf(xs))
}

// check says what does not fit, "" if all does.
func (d *ScatterDims) check(x, idx, upd []int64) string {
	r := int64(len(x))
	batch, depth, ok := indexBatch(idx, d.IndexVectorDim)
	if !ok || depth != int64(len(d.ScatterDimsToOperandDims)) || !distinct(d.ScatterDimsToOperandDims, r) {
		return fmt.Sprintf("scatter_dims_to_operand_dims %v, index_vector_dim %d do not fit", d.ScatterDimsToOperandDims, d.IndexVectorDim)
	}
	if !distinct(d.InsertedWindowDims, r) || !distinct(d.InputBatchingDims, r) ||
		!batchesFit(x, idx, d.InputBatchingDims, d.ScatterIndicesBatchingDims) {
		return fmt.Sprintf("inserted_window_dims %v, input_batching_dims %v, scatter_indices_batching_dims %v do not fit",
			d.InsertedWindowDims, d.InputBatchingDims, d.ScatterIndicesBatchingDims)
	}
	bad := fmt.Sprintf("the updates do not fit update_window_dims %v, inserted_window_dims %v", d.UpdateWindowDims, d.InsertedWindowDims)
	if !distinct(d.UpdateWindowDims, int64(len(upd))) || len(d.UpdateWindowDims)+len(batch) != len(upd) ||
		len(d.UpdateWindowDims)+len(d.InsertedWindowDims)+len(d.InputBatchingDims) != len(x) {
		return bad
	}
	window := make([]int64, 0, len(x))
	for i, n := range x {
		if !contains(d.InsertedWindowDims, int64(i)) && !contains(d.InputBatchingDims, int64(i)) {
			window = append(window, n)
		}
	}
	w, k := 0, 0
	for i, n := range upd {
		if contains(d.UpdateWindowDims, int64(i)) {
			if n > window[w] {
				return bad
			}
			w++
		} else {
			if n != batch[k] {
				return bad
			}
			k++
		}
	}
	return ""
}
