package engine

import (
	"math"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/strided"
)

// Status is the outcome of a call from a C kernel.
type Status int64

// The outcomes.
const (
	Done   Status = iota
	Failed        // the error is returned beside it
	Resize        // out[0] is the disposition, out[1] the rank, out[2…] the sizes that its tensor must take
	Busy          // another thread holds the core, or no device is open: see WaitIdle
)

// The words of a record before its arguments.
const (
	recRow = iota
	recArgs
	recDisps
	recDevice
	recLoc
	recElement // of a foreach call; 0 for its first, and for all other calls
	recHeader
)

// maxShared is how many numbers of a foreach call later elements are compared with.
const maxShared = 8

// The dispositions of a result; outForm is or-ed to dispWrite for out= arguments, which may be resized.
const (
	dispNew = iota
	dispWrite
	dispDrop
	outForm = 256
)

// dest is what becomes of a result.
type dest struct {
	kind int
	out  bool
	once bool // where the view has an element several times, all its values are equal
	view alias.View
}

var (
	traced   = metrics.C("TracedOps")
	lockWait = metrics.M("LockWait", "ns")
)

// record reads the words of a kernel call.
type record struct {
	w   []int64
	pos int
	dev int32 // of the tensors seen so far, -1 for none
}

var (
	opCopy, _  = ops.Lookup("copy")
	opZero, _  = ops.Lookup("zero")
	opZeros, _ = ops.Lookup("zeros")
)

// Trace records one op: words as described in the wire format of the kernels (see ir.Kind), results in
// out. In steady state it allocates nothing.
func (e *Engine) Trace(w, out []int64) (Status, error) {
	if e.Closed() || !e.mu.TryLock() {
		return Busy, nil
	}
	defer e.mu.Unlock()
	if err := e.check(); err != nil {
		return Failed, err
	}
	return e.trace(w, out)
}

// WaitIdle waits until the core was free once. It is false if no device is open: the caller opens one.
func (e *Engine) WaitIdle() bool {
	start := time.Now()
	e.mu.Lock()
	lockWait.Since(start)
	e.mu.Unlock()
	return !e.Closed()
}

// Idle reports that a device is open and nobody holds the core: calls that wait for it otherwise, with the GIL, do not.
func (e *Engine) Idle() bool {
	if e.Closed() || !e.mu.TryLock() {
		return false
	}
	e.mu.Unlock()
	return true
}

// Closed reports that no device is open, and that opening one may help.
func (e *Engine) Closed() bool { return !e.open.Load() && e.lost == nil }

func (e *Engine) trace(w, out []int64) (Status, error) {
	if len(w) < recHeader || w[recRow] < 0 || int(w[recRow]) >= len(ops.Table) {
		return Failed, errs.New(errs.Runtime, "malformed op record")
	}
	row := &ops.Table[w[recRow]]
	r := record{w: w, pos: recHeader, dev: -1}
	sc := &e.scratch
	sc.words, sc.in, sc.reads, sc.generator = sc.words[:0], sc.in[:0], sc.reads[:0], -1
	dev, err := e.deviceOf(r, int(w[recArgs]))
	if err != nil {
		return Failed, err
	}
	t := e.store.Trace(dev)
	if crowded(t) { // the kernels' side tells of the dead when there are many; a few may have been written to often
		e.drain()
	}
	t.Graph.Loc = int32(w[recLoc])
	if w[recElement] == 0 {
		sc.ofCall = sc.ofCall[:0]
	}
	for i := range int(w[recArgs]) {
		if err := e.argument(&r, t, row, i); err != nil {
			return Failed, err
		}
	}
	if row.Random {
		if err := e.key(t, dev, sc.generator); err != nil {
			return Failed, err
		}
	}
	if err := e.dests(&r, int(w[recDisps])); err != nil {
		return Failed, err
	}
	c := &e.ctx
	c.Begin(&t.Graph, row, sc.words, sc.in)
	if err := row.Infer(c); err != nil {
		return Failed, err
	}
	outs := c.Outs()
	for _, o := range outs {
		if o.Bytes() == math.MaxInt64 {
			return Failed, errs.New(errs.Runtime, "Storage size calculation overflowed with sizes=%s", shape.TorchDims(o.Dims))
		}
	}
	if len(sc.dests) == 0 { // the op returns a list
		for range outs {
			sc.dests = append(sc.dests, dest{kind: dispNew})
		}
	}
	if len(outs) != len(sc.dests) {
		return Failed, errs.New(errs.Runtime, "aten::%s: the shape rule gives %d results, the kernel expects %d", row.Name, len(outs), len(sc.dests))
	}
	for k := range sc.dests {
		if st, err := e.checkDest(row, &sc.dests[k], outs[k], k, out); st != Done {
			return st, err
		}
	}
	op := ir.FirstRow + ir.Op(w[recRow])
	var id ir.ID
	if op == opZero || op == opZeros || op == opCopy && t.Graph.IsZero(sc.in[1]) { // the same as what a storage holds that was never written
		id = t.Zeros(outs[0].DType, outs[0].Dims)
	} else if len(outs) == 1 {
		id = t.Graph.Add(op, sc.in, sc.words, outs[0], 0)
	} else if len(outs) > 1 {
		id = t.Graph.AddMulti(op, sc.in, sc.words, outs)
	}
	if id == 0 {
		out[0] = 0
		return Done, nil
	}
	traced.Add(1)
	if e.tracing[dev] == (profile.Span{}) {
		e.tracing[dev] = profile.Begin()
	}
	if op.Exchanges() && !t.Graph.Local {
		t.Effects = append(t.Effects, id)
	}
	st, err := e.results(t, row, dev, id, outs, out)
	if op == opClone && err == nil && e.spmd() {
		e.inherit(w, alias.Handle(out[1]))
	}
	return st, err
}

// device finds the device of the arguments of a record, before anything is recorded.
func (e *Engine) deviceOf(r record, nargs int) (int32, error) {
	if err := e.scan(&r, nargs); err != nil {
		return 0, err
	}
	dev := r.dev
	if dev < 0 {
		dev = int32(max(r.w[recDevice], 0))
	}
	_, err := e.device(int(dev))
	return dev, err
}

// scan passes over n arguments and notes the device of their tensors in r.dev.
func (e *Engine) scan(r *record, n int) error {
	for range n {
		tag := r.w[r.pos]
		k, size := ir.Untag(tag)
		r.pos++
		switch k {
		case ir.KTensor:
			c, err := e.store.Cell(alias.Handle(r.w[r.pos]))
			if err != nil {
				return err
			}
			if r.dev >= 0 && c.Dev != r.dev {
				return errs.New(errs.Runtime, "Expected all tensors to be on the same device, but found at least two devices, xla:%d and xla:%d!", r.dev, c.Dev)
			}
			r.dev = c.Dev
			r.pos += 2 + 2*int(tag>>8&0xff)
		case ir.KTensors, ir.KScalars:
			if err := e.scan(r, size); err != nil {
				return err
			}
		case ir.KDevice:
			if r.dev < 0 {
				r.dev = int32(r.w[r.pos])
			}
			r.pos++
		default:
			r.pos += payload(k, size)
		}
	}
	return nil
}

// payload is the words behind the tag of an argument without tensors.
func payload(k ir.Kind, n int) int {
	switch k {
	case ir.KInt, ir.KFloat, ir.KBool, ir.KConst, ir.KConstF, ir.KType, ir.KDevice, ir.KGenerator:
		return 1
	case ir.KComplex, ir.KHostZero:
		return 2
	case ir.KInts, ir.KFloats:
		return n
	case ir.KText:
		return (n + 7) / 8
	}
	return 0
}

// argument moves one argument from the record to the words and operands of the node.
func (e *Engine) argument(r *record, t *alias.Trace, row *ops.Row, i int) error {
	sc := &e.scratch
	tag := r.w[r.pos]
	k, n := ir.Untag(tag)
	switch k {
	case ir.KTensor:
		v := r.view()
		id, err := e.operand(t, &v, listed(row.ShapeOnly, i))
		if err != nil {
			return err
		}
		if row.Checks(i) && !listed(row.ShapeOnly, i) {
			sc.reads = append(sc.reads, v)
		}
		sc.words, sc.in = append(sc.words, ir.Tag(ir.KTensor, 0)), append(sc.in, id)
	case ir.KInt, ir.KFloat, ir.KBool, ir.KComplex, ir.KHostZero:
		sc.words = append(sc.words, ir.Tag(k, 0))
		sc.in = append(sc.in, e.number(r, t, listed(row.Static, i)))
	case ir.KTensors, ir.KScalars:
		sc.words = append(sc.words, tag)
		r.pos++
		for range n {
			id, err := e.element(r, t, row, i)
			if err != nil {
				return err
			}
			sc.in = append(sc.in, id)
		}
	case ir.KGenerator:
		sc.words, sc.generator = append(sc.words, ir.Tag(ir.KNull, 0)), r.w[r.pos+1]
		r.pos += 2
	case ir.KDevice:
		sc.words = append(sc.words, ir.Tag(ir.KNull, 0))
		r.pos += 1 + payload(k, n)
	case ir.KConst, ir.KInts:
		if listed(row.Offsets, i) {
			r.offsets(t, sc)
			break
		}
		fallthrough
	default:
		end := r.pos + 1 + payload(k, n)
		sc.words = append(sc.words, r.w[r.pos:end]...)
		r.pos = end
	}
	return nil
}

// element is one member of a list argument.
func (e *Engine) element(r *record, t *alias.Trace, row *ops.Row, i int) (ir.ID, error) {
	switch k, _ := ir.Untag(r.w[r.pos]); k {
	case ir.KNull:
		r.pos++
		return ir.None, nil
	case ir.KTensor:
		v := r.view()
		if row.Checks(i) {
			e.scratch.reads = append(e.scratch.reads, v)
		}
		return e.store.Read(&v)
	}
	return e.number(r, t, listed(row.Static, i)), nil
}

// operand is the value of a tensor; zeros in its place where only the shape counts.
func (e *Engine) operand(t *alias.Trace, v *alias.View, shapeOnly bool) (ir.ID, error) {
	if shapeOnly {
		return t.Zeros(v.Type, v.Size), nil
	}
	return e.store.Read(v)
}

func listed(list []int, arg int) bool {
	for _, x := range list {
		if x == arg {
			return true
		}
	}
	return false
}

// view reads an encoded tensor. Its sizes and strides alias the record.
func (r *record) view() alias.View {
	tag := r.w[r.pos]
	nd := int(tag >> 8 & 0xff)
	p := r.pos + 3
	v := alias.View{
		Handle: alias.Handle(r.w[r.pos+1]), Type: dtype.FromTorch(int(tag >> 16)),
		View: strided.View{Offset: r.w[r.pos+2], Size: r.w[p : p+nd : p+nd], Stride: r.w[p+nd : p+2*nd : p+2*nd]},
	}
	r.pos = p + 2*nd
	return v
}

// number reads an encoded number and records it. Elements of a foreach call share the leaves of their first few
// arguments where these are equal: what the compiler makes of an optimizer's update is then one kernel for all
// parameters of a shape. Leaves are compared, not trusted: what is recorded may have been cut or compacted since.
func (e *Engine) number(r *record, t *alias.Trace, bake bool) ir.ID {
	sc := &e.scratch
	n, flags := r.number()
	for _, id := range sc.ofCall {
		if !bake && t.Graph.IsArgument(id, n, flags) {
			return id
		}
	}
	id := t.Graph.AddNumber(n, flags, bake)
	if len(sc.ofCall) < maxShared {
		sc.ofCall = append(sc.ofCall, id)
	}
	return id
}

// number reads an encoded number, and the flags that say how it came.
func (r *record) number() (ir.Number, ir.Flags) {
	tag := r.w[r.pos]
	k, _ := ir.Untag(tag)
	v := r.w[r.pos+1]
	n := ir.Number{}
	flags := ir.Wrapped
	switch k {
	case ir.KBool:
		n.Type, n.I = dtype.Bool, v
	case ir.KInt:
		n.Type, n.I = dtype.I64, v
	case ir.KFloat:
		n.Type, n.F = dtype.F64, math.Float64frombits(uint64(v))
	case ir.KComplex:
		n.Type, n.F, n.Im = dtype.C128, math.Float64frombits(uint64(v)), math.Float64frombits(uint64(r.w[r.pos+2]))
	default: // KHostZero
		n.Type, flags = dtype.FromTorch(int(tag>>16)), ir.ZeroDimCPU
		if n.Type.IsIntegral() {
			n.I = v
		} else {
			n.F, n.Im = math.Float64frombits(uint64(v)), math.Float64frombits(uint64(r.w[r.pos+2]))
		}
	}
	r.pos += 1 + payload(k, 0)
	return n, flags
}

// offsets reads an int or a list of them as numbers that are arguments of the program.
func (r *record) offsets(t *alias.Trace, sc *scratch) {
	k, n := ir.Untag(r.w[r.pos])
	tag := ir.Tag(ir.KScalars, n)
	if k == ir.KConst {
		tag, n = ir.Tag(ir.KInt, 0), 1
	}
	sc.words = append(sc.words, tag)
	for _, at := range r.w[r.pos+1 : r.pos+1+n] {
		sc.in = append(sc.in, t.Graph.AddArgument(ir.Number{Type: dtype.I64, I: at}, 0))
	}
	r.pos += 1 + n
}

// dests reads the dispositions.
func (e *Engine) dests(r *record, n int) error {
	sc := &e.scratch
	sc.dests = sc.dests[:0]
	for range n {
		d := r.w[r.pos]
		r.pos++
		x := dest{kind: int(d & 0xff), out: d&outForm != 0}
		if x.kind == dispWrite {
			x.view = r.view()
		}
		sc.dests = append(sc.dests, x)
	}
	return nil
}

// checkDest is torch's checks of an in-place or out= result, in its order: overlap, dimensions, type.
func (e *Engine) checkDest(row *ops.Row, d *dest, s *shape.Shape, k int, out []int64) (Status, error) {
	if d.kind != dispWrite {
		return Done, nil
	}
	reads := e.scratch.reads
	d.once = row.Uniform || row.Overlap == ops.Moved && len(reads) == 1 && d.view.Same(&reads[0])
	if !d.once {
		if err := e.store.CheckWrite(&d.view); err != nil {
			return Failed, err
		}
	}
	for i := range reads {
		if err := d.view.CheckOperand(&reads[i], row.Overlap == ops.Apart || row.Overlap == ops.ApartButSelf); err != nil {
			return Failed, err
		}
	}
	if d.out && row.ExactOut && s.DType != d.view.Type {
		return Failed, errs.New(errs.Runtime, "Expected out tensor to have dtype %s, but got %s instead", s.DType.C10(), d.view.Type.C10())
	}
	same := len(d.view.Size) == len(s.Dims)
	for i := 0; same && i < len(s.Dims); i++ {
		same = d.view.Size[i] == s.Dims[i]
	}
	if !same {
		if !d.out {
			return Failed, errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", shape.TorchDims(d.view.Size), shape.TorchDims(s.Dims))
		}
		out[0], out[1] = int64(k), int64(len(s.Dims))
		copy(out[2:], s.Dims)
		return Resize, nil
	}
	if !canCast(s.DType, d.view.Type) {
		return Failed, errs.New(errs.Runtime, "result type %s can't be cast to the desired output type %s", s.DType.C10(), d.view.Type.C10())
	}
	return Done, nil
}

// canCast is c10::canCast: no complex to real, no float to integer, nothing but bool to bool.
func canCast(from, to dtype.DType) bool {
	switch {
	case from.IsComplex() && !to.IsComplex():
		return false
	case from.IsFloat() && to.IsIntegral():
		return false
	case from != dtype.Bool && to == dtype.Bool:
		return false
	}
	return true
}

// results stores the values of a recorded node and describes the new tensors.
func (e *Engine) results(t *alias.Trace, row *ops.Row, dev int32, id ir.ID, outs []*shape.Shape, out []int64) (Status, error) {
	out[0] = int64(len(outs))
	p := 1
	for k, s := range outs {
		d := &e.scratch.dests[k]
		v := id + ir.ID(k)
		if d.kind == dispWrite {
			write := e.store.Write
			if d.once {
				write = e.store.WriteUniform
			}
			if err := write(&d.view, t.Cast(v, d.view.Type)); err != nil {
				return Failed, err
			}
		}
		if d.kind != dispNew {
			out[p] = 0
			p++
			continue
		}
		h, err := e.store.New(s.Bytes(), dev)
		if err != nil {
			return Failed, err
		}
		c, _ := e.store.Cell(h)
		e.store.SetPending(h, c, v)
		if p+5+len(s.Dims) > len(out) {
			return Failed, errs.New(errs.Runtime, "the kernel's result record is too short")
		}
		out[p], out[p+1], out[p+2], out[p+3] = int64(h), int64(s.DType.TorchCode()), int64(dev), int64(len(s.Dims))
		p += 4 + copy(out[p+4:], s.Dims)
		out[p] = 0 // contiguous
		p++
	}
	return Done, nil
}
