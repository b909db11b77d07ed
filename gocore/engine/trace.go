package engine

import (
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// maxShared is how many numbers of a foreach call later elements are compared with.
const maxShared = 8

// recorder adds ops to the graphs.
type recorder struct {
	*state
	generators *generators
	scratch    scratch
}

// scratch is memory that Trace uses again for every op; guarded by mu.
type scratch struct {
	words     []int64
	in        []ir.ID
	generator int64        // the number of the generator argument, -1: none
	reads     []alias.View // the tensor operands that must not overlap with what is written
	dests     []dest
	layouts   layouts
	last      wire.Kind // of the last argument
	ofCall    []ir.ID   // leaves of numbers that the elements of a foreach call share; see number
	stored    []ir.ID   // the results as they are stored, for checks
}

// dest is what becomes of a result.
type dest struct {
	kind wire.Disposition
	out  bool
	once bool // where the view has an element several times, all its values are equal
	flat bool // it has another shape than the result, of as many elements
	view alias.View
}

var (
	opCopy, _  = ops.Lookup("copy")
	opZero, _  = ops.Lookup("zero")
	opZeros, _ = ops.Lookup("zeros")
)

// Trace records one op, given its record; what it makes is written to out. See package wire for both. In steady state
// it allocates nothing. Errors are torch's for the op; errs.NotLower says that the core has no lowering for this use
// of it.
func (rec *recorder) Trace(w, out []int64) (wire.Status, error) {
	if rec.Closed() || !rec.mu.TryLock() {
		return wire.Busy, nil
	}
	defer rec.mu.Unlock()
	if rec.compiling != nil {
		return wire.Busy, nil
	}
	if err := rec.check(); err != nil {
		return wire.Failed, err
	}
	return rec.trace(w, out)
}

func (rec *recorder) trace(w, out []int64) (wire.Status, error) {
	r, err := wire.Read(w)
	if err != nil {
		return wire.Failed, err
	}
	number, args := r.Head(wire.HeadRow), int(r.Head(wire.HeadArgs))
	if number < 0 || number >= int64(len(ops.Table)) {
		return wire.Failed, wire.ErrMalformed
	}
	row := &ops.Table[number]
	sc := &rec.scratch
	sc.words, sc.in, sc.reads, sc.generator = sc.words[:0], sc.in[:0], sc.reads[:0], -1
	sc.layouts.other, sc.layouts.known = false, false
	dev, err := rec.deviceOf(r, args)
	if err != nil {
		return wire.Failed, err
	}
	t := rec.store.Trace(dev)
	if sweepDue(t) { // the kernels' side tells of the dead when there are many; a few may have been written to often
		rec.drain()
	}
	t.Graph.Loc = int32(r.Head(wire.HeadLocation))
	if r.Head(wire.HeadElement) == 0 {
		sc.ofCall = sc.ofCall[:0]
	}
	for i := range args {
		sc.last = r.Kind()
		if err := rec.argument(&r, t, row, i); err != nil {
			return wire.Failed, err
		}
	}
	if row.Random {
		if err := rec.key(t, dev, sc.generator); err != nil {
			return wire.Failed, err
		}
	}
	if err := rec.dests(&r, int(r.Head(wire.HeadDispositions))); err != nil {
		return wire.Failed, err
	}
	sc.typeByOut(row)
	c := &rec.ctx
	c.Begin(&t.Graph, row, sc.words, sc.in)
	if err := row.Infer(c); err != nil {
		return wire.Failed, err
	}
	outs := c.Outs()
	for _, o := range outs {
		if o.Bytes() == math.MaxInt64 {
			return wire.Failed, errs.New(errs.Runtime, "Storage size calculation overflowed with sizes=%s", shape.TorchDims(o.Dims))
		}
	}
	if len(sc.dests) == 0 { // the op returns a list
		for range outs {
			sc.dests = append(sc.dests, dest{kind: wire.New})
		}
	}
	if len(outs) != len(sc.dests) {
		return wire.Failed, errs.New(errs.Runtime, "aten::%s: the shape rule gives %d results, the kernel expects %d", row.Name, len(outs), len(sc.dests))
	}
	for k := range sc.dests {
		if st, err := rec.checkDest(w, row, &sc.dests[k], outs[k], k, out); st != wire.Done {
			return st, err
		}
	}
	op := ir.FirstRow + ir.Op(number)
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
		return wire.Done, nil
	}
	traced.Add(1)
	if rec.tracing[dev] == (profile.Span{}) {
		rec.tracing[dev] = profile.Begin()
	}
	if row.Exchanges && !t.Graph.Local {
		t.Effects = append(t.Effects, id)
	}
	sc.stored = sc.stored[:0]
	st, err := rec.results(w, t, row, dev, id, outs, out)
	if rec.checking.Load() != 0 && err == nil {
		err = rec.checkValues(t, dev, op, id, sc.stored)
	}
	if op == opClone && err == nil && rec.spmd() {
		rec.inherit(w, alias.Handle(out[1]))
	}
	return st, err
}

// deviceOf finds the device of the arguments of a record, before anything is recorded, and checks that they are whole.
func (rec *recorder) deviceOf(r wire.Record, args int) (int32, error) {
	dev := int32(-1)
	for ; args > 0; args-- {
		k, n, word, ok := r.Pass()
		if !ok {
			return 0, wire.ErrMalformed
		}
		switch k {
		case wire.KTensor:
			c, err := rec.store.Cell(alias.Handle(word))
			if err != nil {
				return 0, err
			}
			if dev >= 0 && c.Dev != dev {
				return 0, errs.New(errs.Runtime, "Expected all tensors to be on the same device, but found at least two devices, xla:%d and xla:%d!", dev, c.Dev)
			}
			dev = c.Dev
		case wire.KTensors, wire.KScalars:
			args += n
		case wire.KDevice:
			if dev < 0 {
				dev = int32(word)
			}
		}
	}
	if dev < 0 {
		dev = int32(max(r.Head(wire.HeadDevice), 0))
	}
	_, err := rec.device(int(dev))
	return dev, err
}

// argument moves one argument from the record to the words and operands of the node.
func (rec *recorder) argument(r *wire.Record, t *alias.Trace, row *ops.Row, i int) error {
	sc := &rec.scratch
	switch k := r.Kind(); k {
	case wire.KTensor:
		v := view(r)
		id, err := rec.operand(t, &v, listed(row.ShapeOnly, i))
		if err != nil {
			return err
		}
		if row.Checks(i) && !listed(row.ShapeOnly, i) {
			sc.reads = append(sc.reads, v)
		}
		sc.layouts.other = sc.layouts.other || !rowMajor(v.Size, v.Stride)
		sc.words, sc.in = append(sc.words, wire.Tag(wire.KTensor, 0)), append(sc.in, id)
	case wire.KInt, wire.KFloat, wire.KBool, wire.KComplex, wire.KHostZero:
		id, err := rec.number(r, t, listed(row.Static, i))
		if err != nil {
			return err
		}
		sc.words, sc.in = append(sc.words, wire.Tag(k, 0)), append(sc.in, id)
	case wire.KTensors, wire.KScalars:
		tag := r.Take()[0]
		sc.words = append(sc.words, tag)
		_, n := wire.Untag(tag)
		for range n {
			id, err := rec.element(r, t, row, i)
			if err != nil {
				return err
			}
			sc.in = append(sc.in, id)
		}
	case wire.KGenerator:
		sc.words, sc.generator = append(sc.words, wire.Tag(wire.KNull, 0)), r.Take()[1]
	case wire.KDevice:
		r.Take()
		sc.words = append(sc.words, wire.Tag(wire.KNull, 0))
	case wire.KConst, wire.KInts:
		if listed(row.Offsets, i) {
			offsets(r.Take(), t, sc)
			break
		}
		fallthrough
	default:
		sc.words = append(sc.words, r.Take()...)
	}
	return nil
}

// element is one member of a list argument.
func (rec *recorder) element(r *wire.Record, t *alias.Trace, row *ops.Row, i int) (ir.ID, error) {
	switch r.Kind() {
	case wire.KNull:
		r.Take()
		return ir.None, nil
	case wire.KTensor:
		v := view(r)
		sc := &rec.scratch
		if row.Checks(i) {
			sc.reads = append(sc.reads, v)
		}
		sc.layouts.other = sc.layouts.other || !rowMajor(v.Size, v.Stride)
		return rec.store.Read(&v)
	}
	return rec.number(r, t, listed(row.Static, i))
}

// operand is the value of a tensor; zeros in its place where only the shape counts.
func (rec *recorder) operand(t *alias.Trace, v *alias.View, shapeOnly bool) (ir.ID, error) {
	if shapeOnly {
		return t.Zeros(v.Type, v.Size), nil
	}
	return rec.store.Read(v)
}

func listed(list []int, arg int) bool {
	for _, x := range list {
		if x == arg {
			return true
		}
	}
	return false
}

// number reads an encoded number and records it. Elements of a foreach call share the leaves of their first few
// arguments where these are equal. The compiler then makes one kernel of an optimizer's update, for all parameters of
// a shape. Leaves are compared, not trusted: what is recorded may have been flushed or compacted since.
func (rec *recorder) number(r *wire.Record, t *alias.Trace, bake bool) (ir.ID, error) {
	sc := &rec.scratch
	typ, i, f, im, host, ok := r.Number()
	if !ok {
		return ir.None, wire.ErrMalformed
	}
	n, flags := ir.Number{Type: typ, I: i, F: f, Im: im}, ir.Wrapped
	if host {
		flags = ir.ZeroDimCPU
	}
	for _, id := range sc.ofCall {
		if !bake && t.Graph.IsArgument(id, n, flags) {
			return id, nil
		}
	}
	id := t.Graph.AddNumber(n, flags, bake)
	if len(sc.ofCall) < maxShared {
		sc.ofCall = append(sc.ofCall, id)
	}
	return id, nil
}

// offsets takes an int or a list of them, an encoded argument, as numbers that are arguments of the program.
func offsets(argument []int64, t *alias.Trace, sc *scratch) {
	k, n := wire.Untag(argument[0])
	tag := wire.Tag(wire.KScalars, n)
	if k == wire.KConst {
		tag = wire.Tag(wire.KInt, 0)
	}
	sc.words = append(sc.words, tag)
	for _, at := range argument[1:] {
		sc.in = append(sc.in, t.Graph.AddArgument(ir.Number{Type: dtype.I64, I: at}, 0))
	}
}

// key appends the random key of an op: two numbers that are always arguments of the program. number is that
// of the generator, -1 for the device's own.
func (rec *recorder) key(t *alias.Trace, dev int32, number int64) error {
	if number < 0 {
		number = int64(dev)
	}
	g, err := rec.generators.find(number)
	if err != nil {
		return err
	}
	if g.dev != dev {
		return errs.New(errs.Runtime, "Expected a 'xla:%d' device type for generator but found 'xla:%d'", dev, g.dev)
	}
	for i, x := range [2]uint64{g.key, g.draws} {
		rec.scratch.words = append(rec.scratch.words, wire.Tag(wire.KInt, 0))
		rec.scratch.in = append(rec.scratch.in, t.Graph.AddRandom(x, [2]ir.Flags{ir.RandomKey, ir.RandomDraw}[i], number))
	}
	g.draws++
	return nil
}

// dests reads the dispositions.
func (rec *recorder) dests(r *wire.Record, n int) error {
	sc := &rec.scratch
	sc.dests = sc.dests[:0]
	for range n {
		d, ok := r.Disposition()
		if !ok {
			return wire.ErrMalformed
		}
		x := dest{kind: d & wire.DispositionMask, out: d&wire.Resizable != 0}
		if x.kind == wire.Write {
			x.view = view(r)
		}
		sc.dests = append(sc.dests, x)
	}
	return nil
}

// typeByOut gives an op TypedByOut the type of its out= argument.
func (sc *scratch) typeByOut(row *ops.Row) {
	if row.TypedByOut && sc.last == wire.KNull && len(sc.dests) > 0 && sc.dests[0].out {
		sc.words = append(sc.words[:len(sc.words)-1], wire.Tag(wire.KType, 0), int64(sc.dests[0].view.Type.TorchCode()))
	}
}

// checkDest is torch's checks of an in-place or out= result, in its order: overlap, dimensions, type.
func (rec *recorder) checkDest(w []int64, row *ops.Row, d *dest, s *shape.Shape, k int, out []int64) (wire.Status, error) {
	if d.kind != wire.Write {
		return wire.Done, nil
	}
	reads := rec.scratch.reads
	d.once = row.Uniform || row.Overlap == ops.Moved && len(reads) == 1 && d.view.Same(&reads[0])
	if !d.once {
		if err := rec.store.CheckWrite(&d.view); err != nil {
			if row.Expanded && !d.out {
				err = errs.New(errs.NotLower, "aten::%s writes to an expanded tensor", row.Name)
			}
			return wire.Failed, err
		}
	}
	for i := range reads {
		if err := d.view.CheckOperand(&reads[i], row.Overlap == ops.Apart || row.Overlap == ops.ApartButSelf); err != nil {
			return wire.Failed, err
		}
	}
	if d.out && row.OutType != nil {
		if err := row.OutType(d.view.Type, s.DType); err != nil {
			return wire.Failed, err
		}
	}
	if d.out && row.ExactOut && s.DType != d.view.Type {
		return wire.Failed, errs.New(errs.Runtime, "Expected out tensor to have dtype %s, but got %s instead", s.DType.C10(), d.view.Type.C10())
	}
	same := len(d.view.Size) == len(s.Dims)
	for i := 0; same && i < len(s.Dims); i++ {
		same = d.view.Size[i] == s.Dims[i]
	}
	if !same && d.out && row.Flat && d.view.Numel() == s.Numel() {
		d.flat, same = true, true
	}
	if !same {
		if !d.out {
			return wire.Failed, errs.New(errs.Runtime, "output with shape %s doesn't match the broadcast shape %s", shape.TorchDims(d.view.Size), shape.TorchDims(s.Dims))
		}
		stride, err := rec.strides(w, row, s)
		if err != nil {
			return wire.Failed, err
		}
		wire.PutResize(out, k, row.Quiet, s.Dims, stride)
		return wire.Resize, nil
	}
	if !canCast(s.DType, d.view.Type) {
		return wire.Failed, errs.New(errs.Runtime, "result type %s can't be cast to the desired output type %s", s.DType.C10(), d.view.Type.C10())
	}
	return wire.Done, nil
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
func (rec *recorder) results(w []int64, t *alias.Trace, row *ops.Row, dev int32, id ir.ID, outs []*shape.Shape, out []int64) (wire.Status, error) {
	out[0] = int64(len(outs))
	p := 1
	for k, s := range outs {
		d := &rec.scratch.dests[k]
		v := id + ir.ID(k)
		if d.kind == wire.Write {
			write := rec.store.Write
			if d.once {
				write = rec.store.WriteUniform
			}
			if d.flat {
				v = t.Reshape(v, d.view.Size)
			}
			v = t.Cast(v, d.view.Type)
			if err := write(&d.view, v); err != nil {
				return wire.Failed, err
			}
		}
		if rec.checking.Load() != 0 {
			rec.scratch.stored = append(rec.scratch.stored, v)
		}
		if d.kind != wire.New {
			out[p] = 0
			p++
			continue
		}
		var stride []int64
		if rec.scratch.layouts.matter(row) {
			var err error
			if stride, err = rec.strides(w, row, s); err != nil {
				return wire.Failed, err
			}
			if len(stride) > 0 {
				v = rec.scratch.layouts.arranged(t, v, stride)
			}
		}
		h, err := rec.store.New(s.Bytes(), dev)
		if err != nil {
			return wire.Failed, err
		}
		c, _ := rec.store.Cell(h)
		rec.store.SetPending(h, c, v)
		if p = wire.PutResult(out, p, int64(h), s.DType, dev, s.Dims, stride); p < 0 {
			return wire.Failed, errs.New(errs.Runtime, "the kernel's result record is too short")
		}
	}
	return wire.Done, nil
}

// strides are those of a new tensor of a call; none if it lies row by row, as all do with SPMD: a sharding is about the
// dimensions of the tensor.
func (rec *recorder) strides(w []int64, row *ops.Row, s *shape.Shape) ([]int64, error) {
	if !rec.scratch.layouts.matter(row) || rec.spmd() {
		return nil, nil
	}
	rec.scratch.layouts.read(w, row)
	return rec.scratch.layouts.of(row, s.Dims, &rec.ctx.Args)
}

var opClone, _ = ops.Lookup("clone")

// inherit lets a copy lie on the devices as the whole storage that it is a copy of does, given the record
// of the call.
func (rec *recorder) inherit(w []int64, copied alias.Handle) {
	r, err := wire.Read(w)
	if err != nil || r.Kind() != wire.KTensor {
		return
	}
	v := view(&r)
	c, err := rec.store.Cell(v.Handle)
	if err != nil || c.Shape == nil || c.Shape != shape.Of(v.Type, v.Size) || !slices.Equal(v.Stride, shape.Contiguous(nil, v.Size)) {
		return
	}
	sh := rec.shardingOf(c)
	if sh == nil || sh.Markable() != nil {
		return
	}
	if c, err := rec.store.Cell(copied); err == nil {
		c.Sharding = sh
	}
}
