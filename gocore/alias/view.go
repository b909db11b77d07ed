package alias

import (
	"errors"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// View is a tensor: a strided window on the storage of a handle, in elements of Type.
type View struct {
	Handle Handle
	Type   dtype.DType
	strided.View
}

// dense reports that v is the value of c as it stands.
func (v *View) dense(c *Cell) bool {
	if v.Offset != 0 || c.Shape.DType != v.Type || len(v.Size) != len(c.Shape.Dims) {
		return false
	}
	for i, n := range c.Shape.Dims {
		if v.Size[i] != n {
			return false
		}
	}
	return strided.Contiguous(v.Size, v.Stride)
}

// full reports that v is contiguous and covers all bytes of the storage.
func (v *View) full(c *Cell) bool {
	return v.Offset == 0 && v.Numel()*int64(v.Type.Size()) == c.Bytes && strided.Contiguous(v.Size, v.Stride)
}

// ragged reports that the storage is not a whole number of elements of v's type, as after a set_ or a resize.
func (v *View) ragged(c *Cell) bool { return c.Bytes%int64(v.Type.Size()) != 0 }

// bytes is v with its elements as bytes, along a dimension more.
func (v *View) bytes() View {
	k := int64(v.Type.Size())
	b := View{v.Handle, dtype.U8, strided.View{Offset: v.Offset * k}}
	b.Size = append(slices.Clone(v.Size), k)
	for _, st := range v.Stride {
		b.Stride = append(b.Stride, st*k)
	}
	b.Stride = append(b.Stride, 1)
	return b
}

// Read records the value of a view as a dense array of its size. A view that is the storage's value as
// it stands records nothing and allocates nothing.
//
// A stale handle, or a view that does not fit its storage, is an errs.Runtime. A cell without a value gives its own
// error.
func (s *Store) Read(v *View) (ir.ID, error) {
	c, err := s.Cell(v.Handle)
	if err != nil {
		return ir.None, err
	}
	base, err := s.value(c)
	if err != nil {
		return ir.None, err
	}
	if base == ir.None { // Empty
		return s.zeros(c, v.Type, v.Size), nil
	}
	if v.dense(c) {
		return base, nil
	}
	t := &s.traces[c.Dev]
	if v.ragged(c) {
		b := v.bytes()
		id, err := s.Read(&b)
		if err != nil {
			return ir.None, err
		}
		return t.bitcast(id, v.Type, v.Size), nil
	}
	base = t.retype(base, v.Type, c.Bytes)
	prog, err := s.views.Read(t.Graph.Shape(base).Dims, v.View)
	if err != nil {
		return ir.None, wrap(err)
	}
	return t.steps(base, prog.Steps), nil
}

// value is the node of the cell's value, None for Empty.
func (s *Store) value(c *Cell) (ir.ID, error) {
	switch c.State {
	case Empty:
		return ir.None, nil
	case Pending:
		return c.Value, nil
	case Device:
		if err := c.Buf.Err(); err != nil {
			return ir.None, err
		}
		return s.leaf(c), nil
	}
	return ir.None, c.Err
}

// zeros is what reading memory that was never written gives: torch leaves it open, we make it repeat.
func (s *Store) zeros(c *Cell, d dtype.DType, dims []int64) ir.ID {
	t := &s.traces[c.Dev]
	return t.Zeros(d, dims)
}

// Zeros records an array of zeros.
func (t *Trace) Zeros(d dtype.DType, dims []int64) ir.ID {
	w := t.begin()
	w.typ(d)
	w.ints(dims)
	return t.Graph.Add(ir.OpZeros, nil, *w, shape.Of(d, dims), 0)
}

// Write records that the dense array val, of the view's size and type, is stored in the view. Errors are those of Read;
// a view that has an element several times is an errs.Runtime, with torch's text.
func (s *Store) Write(v *View, val ir.ID) error {
	c, err := s.Cell(v.Handle)
	if err != nil {
		return err
	}
	t := &s.traces[c.Dev]
	if v.full(c) {
		if c.Sharding != nil && c.Shape.DType == v.Type { // a flat view of a sharded value leaves it as it is
			val = t.Reshape(val, c.Shape.Dims)
		}
		s.SetPending(v.Handle, c, val)
		return nil
	}
	if v.ragged(c) {
		b := v.bytes()
		return s.Write(&b, t.bitcast(val, dtype.U8, b.Size))
	}
	base, err := s.value(c)
	if err != nil {
		return err
	}
	if base == ir.None {
		n := c.Bytes / int64(v.Type.Size())
		dims := []int64{n}
		if c.Sharding != nil && c.Shape.DType == v.Type {
			dims = c.Shape.Dims
		} else if v.Numel() == n { // a permuted view that covers all: no old value is needed
			if prog, err := strided.Write([]int64{n}, v.View); err == nil && prog.Method == strided.Replace {
				s.SetPending(v.Handle, c, t.steps(val, prog.Val))
				return nil
			}
		}
		base = t.Zeros(v.Type, dims)
	}
	base = t.retype(base, v.Type, c.Bytes)
	prog, err := s.views.Write(t.Graph.Shape(base).Dims, v.View)
	if err != nil {
		return wrap(err)
	}
	s.SetPending(v.Handle, c, t.store(base, val, prog))
	return nil
}

// WriteUniform is Write for a value whose elements are all equal: a view that has an element several times
// gets it once. Errors are those of Read.
func (s *Store) WriteUniform(v *View, val ir.ID) error {
	if s.CheckWrite(v) == nil {
		return s.Write(v, val)
	}
	c, err := s.Cell(v.Handle)
	if err != nil {
		return err
	}
	once := View{v.Handle, v.Type, strided.Unexpanded(v.View)}
	n := len(v.Size)
	cut := strided.Step{Kind: strided.Slice, Dims: once.Size, Starts: make([]int64, n), Limits: once.Size, Strides: slices.Repeat([]int64{1}, n)}
	return s.Write(&once, s.traces[c.Dev].steps(val, []strided.Step{cut}))
}

// CheckWrite is the error that Write would give for the view itself, without recording.
func (s *Store) CheckWrite(v *View) error {
	for d, st := range v.Stride {
		if st == 0 && v.Size[d] > 1 && v.Numel() > 0 {
			return errs.New(errs.Runtime, "%v", strided.ErrOverlap)
		}
	}
	return nil
}

// CheckOperand is torch's error for an op that writes to v and reads w, of class Runtime. They must not be parts of
// each other, nor have the same elements in another order; if apart, they must not be the same either. Like torch, it
// only looks at views without gaps.
func (v *View) CheckOperand(w *View, apart bool) error {
	if v.Handle != w.Handle || !apart && v.Same(w) || v.Numel() == 0 || w.Numel() == 0 {
		return nil
	}
	from, to, ok := v.block()
	first, last, fine := w.block()
	switch {
	case !ok || !fine || first >= to || from >= last:
		return nil
	case !apart && from == first && to == last && slices.Equal(v.Stride, w.Stride):
		return nil
	}
	return errs.New(errs.Runtime, "%v", strided.ErrShared)
}

// Same reports that two views are the same elements in the same order.
func (v *View) Same(w *View) bool {
	return v.Handle == w.Handle && v.Offset == w.Offset && v.Type == w.Type && slices.Equal(v.Size, w.Size) && slices.Equal(v.Stride, w.Stride)
}

// block is the bytes of the storage that a view without gaps fills.
func (v *View) block() (from, to int64, ok bool) {
	_, ok = strided.NonOverlappingDense(v.Size, v.Stride)
	from = v.Offset * int64(v.Type.Size())
	return from, from + v.Numel()*int64(v.Type.Size()), ok
}

func wrap(err error) error {
	if errors.Is(err, strided.ErrOverlap) {
		return errs.New(errs.Runtime, "%v", strided.ErrOverlap)
	}
	return errs.Wrap(errs.Runtime, err, "")
}

// store records a write program and returns the new base.
func (t *Trace) store(base, val ir.ID, prog *strided.WriteProgram) ir.ID {
	g := &t.Graph
	val = t.steps(val, prog.Val)
	switch prog.Method {
	case strided.Nothing:
		return base
	case strided.Replace:
		return val
	}
	old := t.steps(base, prog.Old)
	in := [2]ir.ID{old, val}
	w := t.begin()
	w.tensor()
	w.tensor()
	var op ir.Op
	switch prog.Method {
	case strided.Block:
		if g.Stored(old) {
			v := t.dynamic(ir.OpDynamicUpdate, in[:], prog.Starts, prog.ValDims, g.Shape(old))
			return t.steps(v, prog.Back)
		}
		op = ir.OpUpdate
		w.ints(prog.Starts)
	case strided.Strided:
		op = ir.OpUpdateStrided
		w.ints(prog.Starts)
		w.ints(prog.Strides)
	default:
		op = ir.OpScatter
		w.ints(prog.ValDims)
		w.ints(prog.Strides)
		w.int(prog.Offset)
	}
	return t.steps(g.Add(op, in[:], *w, g.Shape(old), 0), prog.Back)
}

// steps records a program of dense array operations on x.
func (t *Trace) steps(x ir.ID, steps []strided.Step) ir.ID {
	for i := range steps {
		x = t.step(x, &steps[i])
	}
	return x
}

func (t *Trace) step(x ir.ID, st *strided.Step) ir.ID {
	g := &t.Graph
	d := g.Shape(x).DType
	if st.Kind == strided.Empty || g.At(x).Op == ir.OpZeros {
		return t.Zeros(d, st.Dims)
	}
	if st.Kind == strided.Slice && g.Stored(x) {
		return t.dynamicSlice(x, st)
	}
	perm := st.Perm
	if st.Kind == strided.Transpose {
		if x, perm = t.untransposed(x, perm); inOrder(perm) {
			return x
		}
	}
	w := t.begin()
	w.tensor()
	var op ir.Op
	switch st.Kind {
	case strided.Reshape:
		op = ir.OpReshape
		w.ints(st.Dims)
	case strided.Slice:
		op = ir.OpSlice
		w.ints(st.Starts)
		w.ints(st.Limits)
		w.ints(st.Strides)
	case strided.Transpose:
		op = ir.OpTranspose
		w.ints(perm)
	case strided.Broadcast:
		op = ir.OpBroadcast
		w.ints(st.Dims)
		w.ints(st.Mapping)
	case strided.Pad:
		op = ir.OpPad
		w.ints(st.Low)
		w.ints(st.High)
	default:
		op = ir.OpGather
		w.ints(st.Dims)
		w.ints(st.Strides)
		w.int(st.Offset)
	}
	in := [1]ir.ID{x}
	return g.Add(op, in[:], *w, shape.Of(d, st.Dims), 0)
}

func unit(strides []int64) bool {
	for _, s := range strides {
		if s != 1 {
			return false
		}
	}
	return true
}

// dynamicSlice is a slice of a stored value, at starts that are arguments. It slices what lies between the first
// element and the last, and of that each element that the strides reach.
func (t *Trace) dynamicSlice(x ir.ID, st *strided.Step) ir.ID {
	g := &t.Graph
	d := g.Shape(x).DType
	in := [1]ir.ID{x}
	if unit(st.Strides) {
		return t.dynamic(ir.OpDynamicSlice, in[:], st.Starts, st.Dims, shape.Of(d, st.Dims))
	}
	var scratch [2][16]int64
	window, none := scratch[0][:0], scratch[1][:0]
	for i, n := range st.Dims {
		window, none = append(window, (n-1)*st.Strides[i]+1), append(none, 0)
	}
	in[0] = t.dynamic(ir.OpDynamicSlice, in[:], st.Starts, window, shape.Of(d, window))
	w := t.begin()
	w.tensor()
	w.ints(none)
	w.ints(window)
	w.ints(st.Strides)
	return g.Add(ir.OpSlice, in[:], *w, shape.Of(d, st.Dims), 0)
}

// dynamic records a slice or an update whose starts are numbers. They are arguments along the dimensions that the
// window does not fill, and 0 along the others.
func (t *Trace) dynamic(op ir.Op, in []ir.ID, starts, window []int64, out *shape.Shape) ir.ID {
	g := &t.Graph
	base := g.Shape(in[0]).Dims
	operands := append(t.operands[:0], in...)
	for i, at := range starts {
		n := ir.Number{Type: dtype.I64, I: at}
		if window[i] == base[i] {
			operands = append(operands, g.AddNumber(n, 0, true))
		} else {
			operands = append(operands, g.AddArgument(n, 0))
		}
	}
	t.operands = operands
	w := t.begin()
	for range in {
		w.tensor()
	}
	*w = append(*w, wire.Tag(wire.KScalars, len(starts)))
	if op == ir.OpDynamicSlice {
		w.ints(window)
	}
	return g.Add(op, operands, *w, out, 0)
}

// retype reads the bytes of a storage's value as elements of type d; x itself if it has that type. Elements
// of one size keep the dimensions.
func (t *Trace) retype(x ir.ID, d dtype.DType, bytes int64) ir.ID {
	g := &t.Graph
	if g.Shape(x).DType == d {
		return x
	}
	n := [1]int64{bytes / int64(d.Size())}
	dims := n[:]
	if s := g.Shape(x); s.DType.Size() == d.Size() {
		dims = s.Dims
	}
	return t.bitcast(x, d, dims)
}

// bitcast reads the bytes of x as elements of type d, of dimensions that take as many.
func (t *Trace) bitcast(x ir.ID, d dtype.DType, dims []int64) ir.ID {
	w := t.begin()
	w.tensor()
	w.typ(d)
	w.ints(dims)
	in := [1]ir.ID{x}
	return t.Graph.Add(ir.OpBitcast, in[:], *w, shape.Of(d, dims), 0)
}

// Broadcast records x, of any dimensions that expand to dims, as an array of dims.
func (t *Trace) Broadcast(x ir.ID, dims []int64) ir.ID {
	g := &t.Graph
	s := g.Shape(x)
	if to := shape.Of(s.DType, dims); to != s {
		var m [32]int64
		mapping := m[:0]
		for i := range s.Dims {
			mapping = append(mapping, int64(len(dims)-len(s.Dims)+i))
		}
		w := t.begin()
		w.tensor()
		w.ints(dims)
		w.ints(mapping)
		in := [1]ir.ID{x}
		return g.Add(ir.OpBroadcast, in[:], *w, to, 0)
	}
	return x
}

// Reshape records x with other dimensions of as many elements.
func (t *Trace) Reshape(x ir.ID, dims []int64) ir.ID {
	if slices.Equal(t.Graph.Shape(x).Dims, dims) {
		return x
	}
	step := strided.Step{Kind: strided.Reshape, Dims: dims}
	return t.step(x, &step)
}

// Local is the manual sharding of a local value: the devices that it is local to.
func (t *Trace) Local(id ir.ID) *sharding.Sharding {
	g := &t.Graph
	switch entry := g.Entry(id); g.At(entry).Op {
	case ir.OpData:
		return t.Leaves[g.Attr(entry)[0]].Buf.Sharding()
	case ir.OpFullToShard:
		return t.argument(entry, 2)
	}
	return sharding.PerDevice
}

// Left is the manual sharding of the values that an OpShardToFull makes one of; nil for other nodes.
func (t *Trace) Left(id ir.ID) *sharding.Sharding {
	if t.Graph.At(id).Op != ir.OpShardToFull {
		return nil
	}
	return t.argument(id, 3)
}

// Annotation is the sharding that a node gives its operand, nil for other nodes, and whether the partitioner may
// divide the value further.
func (t *Trace) Annotation(id ir.ID) (sh *sharding.Sharding, open bool) {
	if t.Graph.At(id).Op != ir.OpAnnotate {
		return nil, false
	}
	var a ir.Args
	a.Node(&t.Graph, id)
	return t.argument(id, 1), a.Bool(2)
}

// Annotated is the sharding that a node gives its operand; nil for other nodes, and where the partitioner may divide
// the value further.
func (t *Trace) Annotated(id ir.ID) *sharding.Sharding {
	if sh, open := t.Annotation(id); !open {
		return sh
	}
	return nil
}

// argument is a sharding among the attributes of a node; nil if it is none, which the node's shape rule refuses.
func (t *Trace) argument(id ir.ID, i int) *sharding.Sharding {
	var a ir.Args
	a.Node(&t.Graph, id)
	sh, err := sharding.Parse(a.Text(i))
	if err != nil {
		return nil
	}
	return sh
}

// Annotate records x with a sharding that the partitioner must give it.
func (t *Trace) Annotate(x ir.ID, sh *sharding.Sharding) ir.ID {
	w := t.begin()
	w.tensor()
	w.text(sh.String())
	w.int(0)
	in := [1]ir.ID{x}
	return t.Graph.Add(ir.OpAnnotate, in[:], *w, t.Graph.Shape(x), 0)
}

// Transpose records x with its dimensions in another order. The transpose of a transpose is one, or none.
func (t *Trace) Transpose(x ir.ID, perm []int64) ir.ID {
	dims := t.dims[:0]
	for _, p := range perm {
		dims = append(dims, t.Graph.Shape(x).Dims[p])
	}
	t.dims = dims
	step := strided.Step{Kind: strided.Transpose, Dims: dims, Perm: perm}
	return t.step(x, &step)
}

// untransposed follows a transpose that is to be transposed again by perm: what it transposes, and by which
// permutation that is transposed in all.
func (t *Trace) untransposed(x ir.ID, perm []int64) (ir.ID, []int64) {
	g := &t.Graph
	if g.At(x).Op != ir.OpTranspose {
		return x, perm
	}
	var a ir.Args
	a.Node(g, x)
	first := a.Ints(1)
	whole := t.perm[:0]
	for _, p := range perm {
		whole = append(whole, first[p])
	}
	t.perm = whole
	return g.In(x)[0], whole
}

// inOrder reports a permutation that changes nothing.
func inOrder(perm []int64) bool {
	for i, p := range perm {
		if p != int64(i) {
			return false
		}
	}
	return true
}

// Cast records torch's conversion of x to type d.
func (t *Trace) Cast(x ir.ID, d dtype.DType) ir.ID {
	g := &t.Graph
	s := g.Shape(x)
	if s.DType == d {
		return x
	}
	w := t.begin()
	w.tensor()
	w.typ(d)
	in := [1]ir.ID{x}
	return g.Add(ir.OpCast, in[:], *w, s.With(d), 0)
}

// words builds attribute words; see wire.Kind.
type words []int64

// begin empties the trace's words, which serve one node at a time.
func (t *Trace) begin() *words {
	t.words = t.words[:0]
	return &t.words
}

func (w *words) tensor()           { *w = append(*w, wire.Tag(wire.KTensor, 0)) }
func (w *words) int(x int64)       { *w = append(*w, wire.Tag(wire.KConst, 0), x) }
func (w *words) typ(d dtype.DType) { *w = append(*w, wire.Tag(wire.KType, 0), int64(d.TorchCode())) }
func (w *words) text(x string)     { *w = ir.AppendText(*w, x) }
func (w *words) ints(x []int64) {
	*w = append(*w, wire.Tag(wire.KInts, len(x)))
	*w = append(*w, x...)
}

// Resize changes the bytes of a storage. What fits of its value stays; new bytes are zero.
// A stale handle is an errs.Runtime. A cell without a value gives its own error.
func (s *Store) Resize(h Handle, bytes int64) error {
	c, err := s.Cell(h)
	if err != nil {
		return err
	}
	if bytes == c.Bytes {
		return nil
	}
	base, err := s.value(c)
	if err != nil && bytes > 0 {
		return err
	}
	if base == ir.None || bytes == 0 || c.Bytes == 0 {
		s.set(c, h.slot(), Empty)
		c.Shape, c.Sharding, c.Bytes = nil, nil, bytes
		return nil
	}
	t := &s.traces[c.Dev]
	d := c.Shape.DType
	if bytes%int64(d.Size()) != 0 {
		d = dtype.U8
	}
	flat := t.retype(base, d, c.Bytes)
	have, want := c.Bytes/int64(d.Size()), bytes/int64(d.Size())
	flat = t.steps(flat, []strided.Step{{Kind: strided.Reshape, Dims: []int64{have}}})
	step := strided.Step{Kind: strided.Pad, Dims: []int64{want}, Low: []int64{0}, High: []int64{want - have}}
	if want < have {
		step = strided.Step{Kind: strided.Slice, Dims: []int64{want}, Starts: []int64{0}, Limits: []int64{want}, Strides: []int64{1}}
	}
	v := t.steps(flat, []strided.Step{step})
	c.Bytes = bytes
	s.SetPending(h, c, v)
	c.Origin = ir.None
	return nil
}
