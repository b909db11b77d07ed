package alias

import (
	"bytes"
	"errors"
	"math/rand"
	"slices"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// The model: a storage is an array of bytes. Random programs of views, writes, syncs, partial syncs,
// resizes and failures are run on a Store and on the model, and every read must agree.

// memory is a device buffer: its bytes.
type memory struct {
	data []byte
	refs int
	live *int
}

func newMemory(live *int, data []byte) *memory {
	*live++
	return &memory{data, 1, live}
}

func (m *memory) Retain() { m.refs++ }
func (m *memory) Release() {
	if m.refs--; m.refs == 0 {
		*m.live--
	}
	if m.refs < 0 {
		panic("released once too often")
	}
}
func (m *memory) Err() error                   { return nil }
func (m *memory) Donating() bool               { return false }
func (m *memory) Sharding() *sharding.Sharding { return nil }

// evaluator computes values of a trace by the definition of the steps.
type evaluator struct {
	t    *Trace
	done map[ir.ID][]byte
}

func (e *evaluator) value(id ir.ID) []byte {
	if v, ok := e.done[id]; ok {
		return v
	}
	v := e.compute(id)
	if want := e.t.Graph.Shape(id).Bytes(); int64(len(v)) != want {
		panic("a value of the wrong size")
	}
	e.done[id] = v
	return v
}

func (e *evaluator) compute(id ir.ID) []byte {
	g := &e.t.Graph
	n := g.At(id)
	if n.Op == ir.OpData {
		return e.t.Leaves[g.Attr(id)[0]].Buf.(*memory).data
	}
	var a ir.Args
	a.Node(g, id)
	out, item := make([]byte, n.Shape.Bytes()), n.Shape.DType.Size()
	if n.Op == ir.OpZeros {
		return out
	}
	x, dims := e.value(g.In(id)[0]), g.Shape(g.In(id)[0]).Dims
	dense := shape.Contiguous(nil, dims)
	// take fills the result: the element at an index comes from the place, in elements, that from gives.
	take := func(from func(index []int64) int64) []byte {
		each(n.Shape.Dims, func(i int, index []int64) {
			if p := from(index); p >= 0 {
				copy(out[i*item:(i+1)*item], x[p*int64(item):])
			}
		})
		return out
	}
	// put stores the second operand in the base: the element at an index goes to the place that to gives.
	put := func(to func(index []int64) int64) []byte {
		copy(out, x)
		block := e.value(g.In(id)[1])
		each(g.Shape(g.In(id)[1]).Dims, func(i int, index []int64) {
			copy(out[int(to(index))*item:], block[i*item:(i+1)*item])
		})
		return out
	}
	switch n.Op {
	case ir.OpReshape, ir.OpBitcast:
		return x
	case ir.OpSlice:
		starts, strides := a.Ints(1), a.Ints(3)
		return take(func(index []int64) int64 { return dot(index, mul(strides, dense)) + dot(starts, dense) })
	case ir.OpDynamicSlice:
		starts := e.numbers(a.IDs(1))
		return take(func(index []int64) int64 { return dot(index, dense) + dot(starts, dense) })
	case ir.OpTranspose:
		perm := a.Ints(1)
		return take(func(index []int64) (p int64) {
			for d, from := range perm {
				p += index[d] * dense[from]
			}
			return p
		})
	case ir.OpBroadcast:
		mapping := a.Ints(2)
		return take(func(index []int64) (p int64) {
			for d, to := range mapping {
				p += min(index[to], dims[d]-1) * dense[d]
			}
			return p
		})
	case ir.OpPad:
		low := a.Ints(1)
		return take(func(index []int64) (p int64) {
			for d := range dims {
				i := index[d] - low[d]
				if i < 0 || i >= dims[d] {
					return -1
				}
				p += i * dense[d]
			}
			return p
		})
	case ir.OpGather:
		return take(func(index []int64) int64 { return dot(index, a.Ints(2)) + a.Int(3) })
	case ir.OpUpdate:
		return put(func(index []int64) int64 { return dot(index, dense) + dot(a.Ints(2), dense) })
	case ir.OpDynamicUpdate:
		starts := e.numbers(a.IDs(2))
		return put(func(index []int64) int64 { return dot(index, dense) + dot(starts, dense) })
	case ir.OpUpdateStrided:
		return put(func(index []int64) int64 { return dot(index, mul(a.Ints(3), dense)) + dot(a.Ints(2), dense) })
	case ir.OpScatter:
		return put(func(index []int64) int64 { return dot(index, a.Ints(3)) + a.Int(4) })
	}
	panic("an op that views do not record")
}

func (e *evaluator) numbers(ids []ir.ID) (v []int64) {
	for _, id := range ids {
		n, _ := e.t.Graph.Number(id)
		v = append(v, n.Int())
	}
	return v
}

// each calls f with the place and the index of every element in row-major order.
func each(dims []int64, f func(i int, index []int64)) {
	index := make([]int64, len(dims))
	n := int(strided.View{Size: dims}.Numel())
	for i := range n {
		f(i, index)
		for d := len(dims) - 1; d >= 0; d-- {
			if index[d]++; index[d] < dims[d] {
				break
			}
			index[d] = 0
		}
	}
}

func dot(a, b []int64) (sum int64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func mul(a, b []int64) []int64 {
	out := slices.Clone(a)
	for i := range out {
		out[i] *= b[i]
	}
	return out
}

// storage is a storage in the Store and in the model.
type storage struct {
	handle Handle
	data   []byte
	lost   bool // its value could not be computed
}

// trial is one random program.
type trial struct {
	t        *testing.T
	s        *Store
	storages []*storage
	live     int
	rest     []byte // the choices
	fill     byte
}

var errLost = errors.New("lost")

// choose takes a number below n from the input.
func (r *trial) choose(n int) int {
	if len(r.rest) == 0 || n <= 1 {
		return 0
	}
	c := int(r.rest[0]) % n
	r.rest = r.rest[1:]
	return c
}

func (r *trial) run() {
	r.create()
	for len(r.rest) > 0 {
		switch r.choose(13) {
		case 0:
			r.create()
		case 1, 2, 3:
			r.write()
		case 4, 5:
			r.read()
		case 6:
			r.copy()
		case 7:
			r.sync()
		case 8, 9:
			r.syncSome()
		case 10:
			r.resize()
		case 11:
			if r.choose(2) == 0 {
				r.lose()
			} else {
				r.release()
			}
		case 12:
			r.s.Compact(0)
		}
	}
	for _, x := range r.storages {
		r.check(x, View{x.handle, dtype.U8, strided.View{Size: []int64{int64(len(x.data))}, Stride: []int64{1}}})
	}
	for len(r.storages) > 0 {
		r.release()
	}
	r.sync()
	if r.live != 0 || r.s.Live() != 0 {
		r.t.Errorf("%d buffers and %d cells are left", r.live, r.s.Live())
	}
}

func (r *trial) create() {
	if len(r.storages) == 4 {
		return
	}
	n := []int64{24, 0, 4, 8, 12, 48, 96, 36}[r.choose(8)]
	h, err := r.s.New(n, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.storages = append(r.storages, &storage{handle: h, data: make([]byte, n)})
}

func (r *trial) pick() *storage {
	if len(r.storages) == 0 {
		r.create()
	}
	return r.storages[r.choose(len(r.storages))]
}

// view is a random window on a storage.
func (r *trial) view(x *storage) View {
	d := []dtype.DType{dtype.F32, dtype.U8, dtype.I32, dtype.I16}[r.choose(4)]
	n := int64(len(x.data) / d.Size())
	v := strided.View{Size: []int64{n}, Stride: []int64{1}}
	for range r.choose(6) {
		k := len(v.Size)
		if k == 0 {
			break
		}
		i := r.choose(k)
		switch r.choose(7) {
		case 0: // split a dimension
			f := int64(2 + r.choose(2))
			if v.Size[i]%f == 0 && k < 5 {
				v.Size = slices.Insert(v.Size, i+1, f)
				v.Stride = slices.Insert(v.Stride, i+1, v.Stride[i])
				v.Size[i] /= f
				v.Stride[i] *= f
			}
		case 1: // a part
			from := int64(r.choose(int(v.Size[i]) + 1))
			v.Offset += from * v.Stride[i]
			v.Size[i] = int64(r.choose(int(v.Size[i]-from) + 1))
		case 2: // with steps
			step := int64(1 + r.choose(3))
			v.Size[i] = (v.Size[i] + step - 1) / step
			v.Stride[i] *= step
		case 3:
			j := r.choose(k)
			v.Size[i], v.Size[j] = v.Size[j], v.Size[i]
			v.Stride[i], v.Stride[j] = v.Stride[j], v.Stride[i]
		case 4: // one element
			if v.Size[i] > 0 {
				v.Offset += int64(r.choose(int(v.Size[i]))) * v.Stride[i]
				v.Size, v.Stride = slices.Delete(v.Size, i, i+1), slices.Delete(v.Stride, i, i+1)
			}
		case 5: // expand
			if k < 5 {
				v.Size, v.Stride = slices.Insert(v.Size, i, int64(1+r.choose(3))), slices.Insert(v.Stride, i, 0)
			}
		case 6: // a diagonal, or a window that moves
			if j := r.choose(k); j != i && v.Size[i] == v.Size[j] {
				v.Stride[i] += v.Stride[j]
				v.Size, v.Stride = slices.Delete(v.Size, j, j+1), slices.Delete(v.Stride, j, j+1)
			} else if v.Size[i] > 2 && k < 5 {
				v.Size[i]--
				v.Size, v.Stride = append(v.Size, 2), append(v.Stride, v.Stride[i])
			}
		}
	}
	return View{x.handle, d, v}
}

// places are the elements' places in the storage, in bytes.
func places(v View) (p []int64) {
	each(v.Size, func(_ int, index []int64) {
		p = append(p, (v.Offset+dot(index, v.Stride))*int64(v.Type.Size()))
	})
	return p
}

func (r *trial) leaf(v View) (ir.ID, []byte) {
	sh := shape.Of(v.Type, v.Size)
	data := make([]byte, sh.Bytes())
	for i := range data {
		r.fill++
		data[i] = r.fill
	}
	m := newMemory(&r.live, data)
	defer m.Release()
	return r.s.Trace(0).AddLeaf(sh, m), data
}

func (r *trial) write() {
	x := r.pick()
	v := r.view(x)
	id, data := r.leaf(v)
	r.store(x, v, id, data)
}

// store writes to the Store and to the model.
func (r *trial) store(x *storage, v View, id ir.ID, data []byte) {
	whole, _ := r.s.Cell(x.handle)
	full := v.full(whole)
	err := r.s.Write(&v, id)
	switch {
	case x.lost && !full:
		// What is written is lost with the rest: the value is a part of one that is not there.
		if v.Numel() > 0 && !errors.Is(err, errLost) && r.s.CheckWrite(&v) == nil {
			r.t.Fatalf("a write to a part of a lost value: %v", err)
		}
		return
	case r.s.CheckWrite(&v) != nil:
		if err == nil {
			r.t.Fatalf("a write to %v did not fail", v)
		}
		return
	case err != nil:
		r.t.Fatalf("a write to %v: %v", v, err)
	}
	x.lost = false
	item := int64(v.Type.Size())
	for i, p := range places(v) {
		copy(x.data[p:p+item], data[int64(i)*item:])
	}
}

func (r *trial) model(x *storage, v View) (data []byte) {
	for _, p := range places(v) {
		data = append(data, x.data[p:p+int64(v.Type.Size())]...)
	}
	return data
}

func (r *trial) check(x *storage, v View) (ir.ID, bool) {
	id, err := r.s.Read(&v)
	if x.lost {
		if !errors.Is(err, errLost) {
			r.t.Fatalf("reading %v of a lost value: %v", v, err)
		}
		return 0, false
	}
	if err != nil {
		r.t.Fatalf("reading %v: %v", v, err)
	}
	e := evaluator{r.s.Trace(0), make(map[ir.ID][]byte)}
	if got, want := e.value(id), r.model(x, v); !bytes.Equal(got, want) {
		r.t.Fatalf("reading %v %v: %v, the model has %v", v.Type, v.View, got, want)
	}
	if got := r.s.Trace(0).Graph.Shape(id); got != shape.Of(v.Type, v.Size) {
		r.t.Fatalf("reading %v %v gives %s", v.Type, v.View, got)
	}
	return id, true
}

func (r *trial) read() {
	x := r.pick()
	r.check(x, r.view(x))
}

// copy writes what is read of one storage to another, as torch's copy_ of views of one size does.
func (r *trial) copy() {
	from, to := r.pick(), r.pick()
	v := r.view(from)
	id, ok := r.check(from, v)
	if !ok || v.Numel()*int64(v.Type.Size()) > int64(len(to.data)) {
		return
	}
	data := r.model(from, v)
	r.store(to, View{to.handle, v.Type, strided.View{Size: v.Size, Stride: shape.Contiguous(nil, v.Size)}}, id, data)
}

// compute gives pending cells their buffers, one for each value.
func (r *trial) compute(slots []uint32) map[ir.ID]Buffer {
	t := r.s.Trace(0)
	e := evaluator{t, make(map[ir.ID][]byte)}
	bufs := make(map[ir.ID]Buffer)
	for _, slot := range slots {
		c := r.s.At(slot)
		id, sh := c.Value, c.Shape
		if bufs[id] == nil {
			if t.Graph.At(id).Op == ir.OpData {
				bufs[id] = t.Leaves[t.Graph.Attr(id)[0]].Buf
				bufs[id].Retain()
			} else {
				bufs[id] = newMemory(&r.live, slices.Clone(e.value(id)))
			}
		}
		bufs[id].Retain()
		r.s.SetDevice(slot, sh, bufs[id])
	}
	return bufs
}

func (r *trial) pending() (slots []uint32) {
	for _, slot := range r.s.Trace(0).Dirty {
		if slot != 0 {
			slots = append(slots, slot)
		}
	}
	return slots
}

func (r *trial) sync() {
	bufs := r.compute(r.pending())
	t := r.s.Trace(0)
	for _, leaf := range t.Leaves {
		leaf.Buf.Release()
	}
	t.EndGraph()
	for _, b := range bufs {
		b.Release()
	}
}

func (r *trial) syncSome() {
	slots := r.pending()
	if len(slots) == 0 {
		return
	}
	at := r.choose(len(slots))
	slots = slots[at : at+1+r.choose(len(slots)-at)]
	bufs := r.compute(slots)
	old := r.s.Split(0, func(id ir.ID) Buffer { return bufs[id] })
	for _, leaf := range old {
		leaf.Buf.Release()
	}
	for _, b := range bufs {
		b.Release()
	}
}

func (r *trial) resize() {
	x := r.pick()
	n := []int{12, 0, 4, 24, 48, 7}[r.choose(6)]
	err := r.s.Resize(x.handle, int64(n))
	if x.lost && n > 0 && n != len(x.data) {
		if !errors.Is(err, errLost) {
			r.t.Fatalf("resizing a lost value: %v", err)
		}
		return
	}
	if err != nil {
		r.t.Fatalf("resizing to %d: %v", n, err)
	}
	if n != len(x.data) {
		x.lost = false
	}
	data := make([]byte, n)
	copy(data, x.data)
	x.data = data
}

// lose fails the computation of a pending value.
func (r *trial) lose() {
	slots := r.pending()
	if len(slots) == 0 {
		return
	}
	slot := slots[r.choose(len(slots))]
	r.s.SetFailed(slot, Poisoned, errLost)
	for _, x := range r.storages {
		if r.s.Slot(x.handle) == slot {
			x.lost = true
		}
	}
}

func (r *trial) release() {
	i := r.choose(len(r.storages))
	if len(r.storages) == 0 {
		return
	}
	h := r.storages[i].handle
	r.s.Release(h)
	r.s.Release(h) // a second time does nothing
	if _, err := r.s.Cell(h); err == nil {
		r.t.Fatal("the handle of a dead storage is good")
	}
	r.storages = slices.Delete(r.storages, i, i+1)
}

func trialOf(t *testing.T, choices []byte) {
	r := &trial{t: t, s: NewStore(1), rest: choices}
	r.run()
}

func TestRandomPrograms(t *testing.T) {
	programs := int64(3000)
	if testing.Short() {
		programs /= 10
	}
	for seed := range programs {
		chance := rand.New(rand.NewSource(seed))
		choices := make([]byte, 20+chance.Intn(300))
		chance.Read(choices)
		trialOf(t, choices)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzStore(f *testing.F) {
	f.Add([]byte{1, 0, 0, 4, 1, 7, 4, 9, 10, 3, 2, 2, 2, 8, 0, 0, 4})
	f.Fuzz(func(t *testing.T, choices []byte) { trialOf(t, choices) })
}
