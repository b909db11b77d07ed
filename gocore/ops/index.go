package ops

import (
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// indexRows are gathers, scatters and indexing.
//
// Torch on the CPU refuses an index outside its dimension. Here the values of a tensor are not known when an op is
// recorded. Reads move such an index to the nearest element, writes leave it out. TORCH_GO_XLA_CHECK finds it
// (value_check.go).
var indexRows = join(advancedRows, embeddingRows, bagRows, alongRows, scatterRows, maskedRows)

// advancedRows are indexing with lists of tensors. A mask among the indices makes the size of the result depend on
// values. Reading by one is refused, and so is writing unless each value goes to all places.
var advancedRows = []Row{
	{Name: "index.Tensor", Schema: "(Tensor self, Tensor?[] indices) -> Tensor", Bounds: func(c *Ctx) []Bounds { return listBounds(c, 1) }, Infer: inferIndex, Lower: lowerIndex},
	{Name: "_unsafe_index.Tensor", Schema: "(Tensor self, Tensor?[] indices) -> Tensor", Infer: inferIndex, Lower: lowerIndex},
	{Name: "index_put", Schema: "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", Expanded: true, Strides: Preserved, Bounds: func(c *Ctx) []Bounds { return listBounds(c, 1) }, Overlap: ApartButSelf,
		Infer: inferIndexPut, Lower: lowerIndexPut},
	{Name: "_unsafe_index_put", Schema: "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", Strides: Preserved, Overlap: ApartButSelf,
		Infer: inferIndexPut, Lower: lowerIndexPut},
	{Name: "_index_put_impl", Schema: "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor", Strides: Preserved, Bounds: func(c *Ctx) []Bounds { return listBounds(c, 1) }, Overlap: ApartButSelf,
		Infer: inferIndexPut, Lower: lowerIndexPut},
}

// indexing is what a list of index tensors selects of a tensor. Of the dimensions in dims it is one element for each
// index, of the others everything.
type indexing struct {
	ids   []ir.ID   // the list
	space [16]int64 // the dimensions that the indices broadcast to, rank of them
	rank  int
	at    int // the dimension of the selection at which the space begins; the others keep their order
	count int // how many dimensions are indexed
}

// isMask reports an element type that selects by truth.
func isMask(d dtype.DType) bool { return d == dtype.Bool || d == dtype.U8 }

// indexingOf reads a list of index tensors without masks for a tensor of shape s.
func indexingOf(g *ir.Graph, s *shape.Shape, ids []ir.ID) (x indexing, err error) {
	if len(ids) > len(s.Dims) {
		return x, errs.New(errs.Index, "too many indices for tensor of dimension %d", len(s.Dims))
	}
	x.ids = ids
	last, adjacent := -1, true
	for i, id := range ids {
		if id == ir.None {
			continue
		}
		if !x.widen(g.Shape(id).Dims) {
			return x, indexMismatch(g, ids)
		}
		if x.count == 0 {
			x.at = i
		} else if last != i-1 {
			adjacent = false
		}
		last = i
		x.count++
	}
	if !adjacent {
		x.at = 0
	}
	for i, id := range ids {
		if id != ir.None && s.Dims[i] == 0 && product(x.space[:x.rank]) != 0 {
			return x, errs.New(errs.Index, "index is out of bounds for dimension with size 0")
		}
	}
	return x, nil
}

// widen broadcasts the space with the dimensions of one more index.
func (x *indexing) widen(dims []int64) bool {
	if len(dims) > len(x.space) {
		return false
	}
	if k := len(dims) - x.rank; k > 0 {
		copy(x.space[k:], x.space[:x.rank])
		for i := range k {
			x.space[i] = 1
		}
		x.rank = len(dims)
	}
	space := x.space[x.rank-len(dims) : x.rank]
	for i, n := range dims {
		switch {
		case space[i] == 1:
			space[i] = n
		case n != 1 && n != space[i]:
			return false
		}
	}
	return true
}

func indexMismatch(g *ir.Graph, ids []ir.ID) error {
	text := ""
	for _, id := range ids {
		if id == ir.None {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += dimsText(g.Shape(id).Dims)
	}
	return errs.New(errs.Index, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text)
}

// selection appends the dimensions of what is selected of a tensor of shape s.
func (x *indexing) selection(dst []int64, s *shape.Shape) []int64 {
	kept := 0
	for i, n := range s.Dims {
		if i < len(x.ids) && x.ids[i] != ir.None {
			continue
		}
		if kept == x.at && x.count > 0 {
			dst = append(dst, x.space[:x.rank]...)
		}
		dst = append(dst, n)
		kept++
	}
	if kept <= x.at && x.count > 0 {
		dst = append(dst, x.space[:x.rank]...)
	}
	return dst
}

// window is the dimensions of the selection that are not of the space.
func (x *indexing) window(rank int) []int64 {
	dims := make([]int64, 0, rank)
	for i := range rank - x.count + x.rank {
		if i < x.at || i >= x.at+x.rank {
			dims = append(dims, int64(i))
		}
	}
	return dims
}

// places is the indices as vectors in a last dimension, negative ones counted from the end, and the dimensions of v
// that they address. If there is one index, the vectors are scalars, without that dimension.
func (x *indexing) places(l *Lowering, v value) (index value, dims []int64) {
	b, t := l.B, dtype.I32
	for i, id := range x.ids {
		if id != ir.None {
			dims = append(dims, int64(i))
			t = max(t, placeType(v.Dim(i))) // I64 follows I32
		}
	}
	space := x.space[:x.rank]
	column := append(append([]int64(nil), space...), 1)
	parts := make([]value, len(dims))
	for k, d := range dims {
		p := b.Broadcast(fromEnd(b, l.value(x.ids[d], dtype.Invalid), v.Dim(int(d)), t), space)
		if len(dims) == 1 {
			return p, dims
		}
		parts[k] = b.Reshape(p, column)
	}
	return b.Concatenate(int64(x.rank), parts...), dims
}

// within is an index into n elements in type t, which may be narrower. One that is out of range stays so: converting
// only would make row 0 of 1 << 32.
func within(b *stablehlo.Builder, index value, n int64, t dtype.DType) value {
	if index.DType().Size() > t.Size() {
		index = b.Clamp(b.SplatLike(index, stablehlo.Int(-n-1)), index, b.SplatLike(index, stablehlo.Int(n)))
	}
	return Convert(b, index, t)
}

// fromEnd is an index into n elements in type t, a negative one counted from the end.
func fromEnd(b *stablehlo.Builder, index value, n int64, t dtype.DType) value {
	signed := !index.DType().IsUnsigned()
	index = within(b, index, n, t)
	if !signed {
		return index
	}
	size := b.SplatLike(index, stablehlo.Int(n))
	return b.Select(b.Compare(index, b.ConstLike(index, 0), stablehlo.LT), b.Add(index, size), index)
}

// checkIndexTypes refuses indices that are neither integers nor masks; masks reports one among them.
func checkIndexTypes(g *ir.Graph, ids []ir.ID) (masks bool, err error) {
	for _, id := range ids {
		if id == ir.None {
			continue
		}
		switch d := g.Shape(id).DType; {
		case isMask(d):
			masks = true
		case d != dtype.I64 && d != dtype.I32:
			return false, errs.New(errs.Index, "tensors used as indices must be long, int, byte or bool tensors")
		}
	}
	return masks, nil
}

func inferIndex(c *Ctx) error {
	s, ids := c.In(0), c.IDs(1)
	masks, err := checkIndexTypes(c.Graph, ids)
	if err != nil {
		return err
	}
	if masks {
		return errs.New(errs.NotLower, "aten::%s: the size of the result depends on the values of a mask", c.Row.Name)
	}
	x, err := indexingOf(c.Graph, s, ids)
	if err != nil {
		return err
	}
	return c.Return(s.DType, x.selection(c.dims[:0], s)...)
}

func lowerIndex(l *Lowering) {
	v, o := l.In(0), l.Out(0)
	x, err := indexingOf(l.Graph, v.Shape(), l.IDs(1))
	if err != nil {
		l.B.Failf("index", nil, "%v", err)
		return
	}
	if x.count == 0 {
		l.Return(v)
		return
	}
	if o.Numel() == 0 {
		l.Return(l.omitted(0))
		return
	}
	index, dims := x.places(l, v)
	sizes := append([]int64(nil), v.Dims()...)
	for _, d := range dims {
		sizes[d] = 1
	}
	l.Return(l.B.Gather(v, index, stablehlo.GatherDims{
		OffsetDims: x.window(v.Rank()), CollapsedSliceDims: dims, StartIndexMap: dims,
		IndexVectorDim: int64(x.rank), SliceSizes: sizes,
	}))
}

func inferIndexPut(c *Ctx) error {
	s, ids, v := c.In(0), c.IDs(1), c.In(2)
	masks, err := checkIndexTypes(c.Graph, ids)
	if err != nil {
		return err
	}
	if masks {
		if slices.ContainsFunc(ids, func(id ir.ID) bool { return id != ir.None && c.Graph.Shape(id).DType == dtype.U8 }) {
			return errs.New(errs.NotLower, "aten::index_put: torch warns of masks of bytes")
		}
		return inferMaskedPut(c)
	}
	x, err := indexingOf(c.Graph, s, ids)
	if err != nil {
		return err
	}
	if dims := x.selection(c.dims[:0], s); !expandable(v.Dims, dims) {
		return errs.New(errs.Runtime, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
			dimsText(v.Dims), dimsText(dims))
	}
	if err := samePutType(s, v); err != nil {
		return err
	}
	return c.ReturnLike(s)
}

func samePutType(s, v *shape.Shape) error {
	if s.DType != v.DType {
		return errs.New(errs.Runtime, "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
			s.DType.C10(), v.DType.C10())
	}
	return nil
}

func lowerIndexPut(l *Lowering) {
	if masks, _ := checkIndexTypes(l.Graph, l.IDs(1)); masks {
		lowerMaskedPut(l)
		return
	}
	s, accumulate := l.Shape(0), l.Bool(3)
	x, err := indexingOf(l.Graph, s, l.IDs(1))
	if err != nil {
		l.B.Failf("index_put", nil, "%v", err)
		return
	}
	d, combine := s.DType, stablehlo.CombineReplace
	if accumulate {
		d, combine = s.DType.Accumulate(), stablehlo.CombineAdd
	}
	v, selection := l.As(0, d), x.selection(nil, s)
	update := l.Full(2, d, selection)
	switch {
	case product(selection) == 0:
	case x.count > 0:
		index, dims := x.places(l, v)
		v = l.B.Scatter([]value{v}, index, []value{update}, stablehlo.ScatterDims{
			UpdateWindowDims: x.window(v.Rank()), InsertedWindowDims: dims, ScatterDimsToOperandDims: dims,
			IndexVectorDim: int64(x.rank),
		}, combine)[0]
	case accumulate:
		v = add(l.B, v, update)
	default:
		v = update
	}
	l.Return(l.Convert(v, s.DType))
}

// maskedPut finds the mask of an index_put that writes by one mask values that do not tell its places apart, and the
// mask's first dimension. Such a write is a select, whatever the number of places.
func maskedPut(g *ir.Graph, s, v *shape.Shape, ids []ir.ID) (mask ir.ID, first int, err error) {
	for i, id := range ids {
		if id == ir.None {
			continue
		}
		if mask != ir.None || !isMask(g.Shape(id).DType) {
			return ir.None, 0, notMasked()
		}
		mask, first = id, i
	}
	dims := g.Shape(mask).Dims
	if first+len(dims) > len(s.Dims) {
		return ir.None, 0, errs.New(errs.Index, "too many indices for tensor of dimension %d", len(s.Dims))
	}
	for i, n := range dims {
		if n != s.Dims[first+i] {
			return ir.None, 0, errs.New(errs.Index, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
				dimsText(dims), i, dimsText(s.Dims), first+i)
		}
	}
	after := len(s.Dims) - first - len(dims)
	if k := len(v.Dims) - 1 - after; k >= 0 && v.Dims[k] != 1 {
		return ir.None, 0, notMasked()
	}
	selection := append(append(append([]int64(nil), s.Dims[:first]...), 1), s.Dims[first+len(dims):]...)
	if !expandable(v.Dims, selection) {
		return ir.None, 0, errs.New(errs.Runtime, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of a mask of shape %s in a tensor of shape %s",
			dimsText(v.Dims), dimsText(dims), dimsText(s.Dims))
	}
	return mask, first, nil
}

func notMasked() error {
	return errs.New(errs.NotLower, "aten::index_put: where the values go depends on the values of a mask")
}

func inferMaskedPut(c *Ctx) error {
	s, v := c.In(0), c.In(2)
	if _, _, err := maskedPut(c.Graph, s, v, c.IDs(1)); err != nil {
		return err
	}
	// a value of one element is filled in, which converts it
	if v.Numel() != 1 || c.Bool(3) {
		if err := samePutType(s, v); err != nil {
			return err
		}
	}
	return c.ReturnLike(s)
}

func lowerMaskedPut(l *Lowering) {
	b, s := l.B, l.Shape(0)
	id, first, err := maskedPut(l.Graph, s, l.Shape(2), l.IDs(1))
	if err != nil {
		b.Failf("index_put", nil, "%v", err)
		return
	}
	mask := l.value(id, dtype.Bool)
	rank := mask.Rank()
	spread := append([]int64(nil), s.Dims...)
	for i := range rank {
		spread[first+i] = 1
	}
	selection := append(append(append([]int64(nil), s.Dims[:first]...), 1), s.Dims[first+rank:]...)
	v := b.Broadcast(b.Reshape(l.Full(2, s.DType, selection), spread), s.Dims)
	mapping := make([]int64, rank)
	for i := range mapping {
		mapping[i] = int64(first + i)
	}
	x := l.In(0)
	if l.Bool(3) {
		v = add(b, x, v)
	}
	l.Return(b.Select(b.BroadcastInDim(mask, s.Dims, mapping), v, x))
}

// product is the number of elements of dimensions.
func product(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}
