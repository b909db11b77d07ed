package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

var (
	executeTime    = metrics.M("ExecuteTime", "ns")
	replicatedTime = metrics.M("ExecuteReplicatedTime", "ns")
	executed       = metrics.C("ExecuteComputation")
	replicated     = metrics.C("ExecuteReplicated")
	planTime       = metrics.M("PlanTime", "ns")
	syncs          = metrics.C("SyncTensorsGraph")
	marks          = metrics.C("MarkStep")
)

// Sync computes the value of every storage of a device that has been written since the last sync. It
// returns when the program is on its way; reading a result waits for it.
//
// All storages are settled by one program, so that whoever reads after a sync reads one moment.
func (e *Engine) Sync(dev int) error {
	if err := e.sync(dev); err != nil {
		return err
	}
	return e.indexErrors()
}

// sync does the work of Sync, but for looking at the checks of indices.
func (e *Engine) sync(dev int) error {
	d, err := e.device(dev)
	if err != nil {
		return err
	}
	defer d.Kick() // without the lock
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	e.drain()
	return e.report(e.cut(d))
}

// Mark is Sync as the end of a step, which the metrics count.
func (e *Engine) Mark(dev int) error {
	err := e.Sync(dev)
	if errors.Is(err, errBusy) {
		return err // and is called again
	}
	marks.Add(1)
	profile.Mark(traced.Value(), runtime.LiveBytes())
	return err
}

// cut plans, lowers if need be, and launches the pending graph of a device. The caller holds mu, and
// calls Kick when it has let go of it. The error is that of an op which cannot be lowered; the storages
// that depend on it have it from now on, the others are computed all the same. It is errBusy if the program
// compiles: then the graph is flushed later, and nothing can be recorded before.
func (e *Engine) cut(d *runtime.Device) error {
	t := e.store.Trace(d.Index)
	e.tracing[d.Index].End(profile.Trace, int64(t.Graph.Len()))
	e.tracing[d.Index] = profile.Span{}
	slots := e.scratch.slots[:0]
	for _, s := range t.Dirty {
		if s != 0 {
			slots = append(slots, s)
		}
	}
	e.scratch.slots = slots
	slots = e.withhold(t, slots)
	if len(slots) == 0 && len(t.Effects) == 0 {
		e.ground(d, t, nil)
		e.discard(t)
		return nil
	}
	syncs.Add(1)
	slots, p, err := e.prepare(d, t, slots)
	return e.whenCompiled(d, p, func() error {
		var l *runtime.Launch
		if p != nil {
			l = e.launch(d, t, p)
		}
		e.settle(t, slots, l)
		e.discard(t)
		if l != nil {
			d.Enqueue(l)
		}
		return err
	})
}

// prepare plans the computation of storages and finds its program, nil if there is nothing to compute. Where
// an op cannot be lowered, which is the error, it does without the storages that depend on it, and returns
// the others.
func (e *Engine) prepare(d *runtime.Device, t *alias.Trace, slots []uint32) (rest []uint32, p *program, first error) {
	e.ground(d, t, slots)
	for {
		start, span := time.Now(), profile.Begin()
		e.plan.Build(e.store, t, slots, t.Effects)
		planTime.Since(start)
		span.End(profile.Plan, int64(len(e.plan.Nodes)))
		if len(e.plan.Roots) == 0 {
			return slots, nil, first
		}
		e.save(d, syncs.Value())
		p, err := e.program(d)
		if err == nil {
			return slots, p, first
		}
		slots = e.poison(t, slots, err)
		first = cmp.Or(first, err)
	}
}

// ground gives buffers to the zeros that new storages began with and that this graph has written since, as an
// optimizer does with its states in the first step: the graph is then the one of all later steps, which find
// the storages with a buffer. Where that fails the zeros stay part of the program.
func (e *Engine) ground(d *runtime.Device, t *alias.Trace, slots []uint32) {
	before := e.zeros[d.Index]
	e.zeros[d.Index] = nil
	for _, slot := range slots {
		c := e.store.At(slot)
		if c.Origin == ir.None || t.Graph.At(c.Origin).Op != ir.OpZeros || t.Graph.Shape(c.Origin) != c.Shape {
			continue
		}
		buf, err := e.zerosOf(d, c.Shape, before)
		if err != nil {
			break
		}
		t.Ground(c.Origin, buf)
	}
	for _, b := range before {
		b.Release()
	}
}

// zerosOf is a buffer of zeros that all storages of a shape share, as nothing is written to it: one that the graph
// before had already, or a new one. It stays until the next graph, which may be of the same loop.
func (e *Engine) zerosOf(d *runtime.Device, s *shape.Shape, before zeros) (*runtime.Buffer, error) {
	kept := e.zeros[d.Index]
	if buf := kept[s]; buf != nil {
		return buf, nil
	}
	buf := before[s]
	if delete(before, s); buf == nil {
		start := time.Now()
		var err error
		if buf, err = d.Zeros(s); err != nil {
			return nil, err
		}
		toDevice.Since(start)
		outboundBytes.Add(float64(s.Bytes()))
	}
	if kept == nil {
		kept = make(zeros)
		e.zeros[d.Index] = kept
	}
	kept[s] = buf
	return buf, nil
}

// program finds the compiled program of the plan, or lowers one.
func (e *Engine) program(d *runtime.Device) (*program, error) {
	opts := e.options()
	key := programKey{graph: e.plan.Key, dev: d.Index, precision: opts.Precision, locations: opts.Locations,
		donate: config.On("XLA_ENABLE_PARAM_ALIASING")}
	if p, ok := e.cache.Get(key); ok {
		cachedCompile.Add(1)
		return p, nil
	}
	start, span := time.Now(), profile.Begin()
	if !key.donate {
		for i := range e.plan.Roots {
			e.plan.Roots[i].Donor = -1
		}
	}
	lp, err := lower.Lower(&e.plan, opts)
	if err != nil {
		return nil, err
	}
	e.history.explain(&e.plan, d, syncs.Value(), e.Where)
	lowerTime.Since(start)
	span.End(profile.Lower, int64(len(e.plan.Nodes)))
	graphSize.Add(float64(len(e.plan.Nodes)))
	aliases := 0
	for i, to := range lp.Donors {
		if to >= 0 || e.plan.Given[i] {
			aliases++
		}
	}
	aliased.Add(float64(aliases))
	p := newProgram(key, d, lp, e.cache)
	p.disk = e.disk
	e.cache.Put(key, p)
	return p, nil
}

func (e *Engine) options() lower.Options {
	return lower.Options{Precision: e.precision, TorchKernels: e.torchKernels, Functions: e.ctx.Functions, Shardy: e.shardy,
		Locations: config.On("XLA_IR_DEBUG") || config.On("XLA_HLO_DEBUG"), Where: e.Where}
}

// launch makes the execution of a program with the plan's buffers and numbers. It takes over the
// references of the leaves that are parameters.
func (e *Engine) launch(d *runtime.Device, t *alias.Trace, p *program) *runtime.Launch {
	p.retain()
	e.watch(p)
	l := &runtime.Launch{Program: p, Donors: p.donors, Given: slices.Clone(e.plan.Given), Step: syncs.Value(), Recorded: profile.Number(),
		Args: make([]*runtime.Buffer, len(e.plan.Params))}
	for i, place := range e.plan.Params {
		l.Args[i] = t.Leaves[place].Buf.(*runtime.Buffer)
		t.Leaves[place].Buf = nil
	}
	if len(p.packs) > 0 {
		numbers := e.numbers(&t.Graph)
		for _, dt := range p.packs {
			l.Packs = append(l.Packs, pack(numbers, dt))
		}
	}
	l.NewOuts(d, p.results, p.shardings)
	for i, r := range e.plan.Roots {
		l.Outs[i].Origin = origin(&t.Graph, r.ID)
	}
	start, spmd := time.Now(), e.countRun()
	l.Done = func(error) {
		executeTime.Since(start)
		if spmd {
			replicatedTime.Since(start)
		}
		p.release()
	}
	return l
}

// origin is the recorded op that a value comes from.
func origin(g *ir.Graph, id ir.ID) runtime.Origin {
	n := g.At(g.Producer(id))
	return runtime.Origin{Op: uint16(n.Op), Loc: n.Loc}
}

// countRun counts the launch of a program, and reports that it runs on all devices of SPMD.
func (e *Engine) countRun() bool {
	if e.spmd() {
		replicated.Add(1)
		return true
	}
	executed.Add(1)
	return false
}

// numbers are the values of the plan's arguments that are numbers, good until the next call.
func (e *Engine) numbers(g *ir.Graph) []ir.Number {
	out := e.scratch.numbers[:0]
	for _, id := range e.plan.Scalars {
		n, _ := g.Number(id)
		out = append(out, n)
	}
	e.scratch.numbers = out
	return out
}

// pack is the vector of numbers in one type.
func pack(numbers []ir.Number, d dtype.DType) runtime.Pack {
	n := len(numbers)
	p := runtime.Pack{Type: d, N: n}
	if d == dtype.F32 {
		p.Data = make([]uint64, (n+1)/2)
	} else {
		p.Data = make([]uint64, n)
	}
	for i, num := range numbers {
		switch d {
		case dtype.F32:
			p.Data[i/2] |= uint64(math.Float32bits(float32(num.Float()))) << (32 * (i % 2))
		case dtype.F64:
			p.Data[i] = math.Float64bits(num.Float())
		default:
			p.Data[i] = uint64(num.Int())
		}
	}
	return p
}

// settle gives every pending storage its buffer: a result of the launch, or the buffer of a leaf that it
// is a copy of.
func (e *Engine) settle(t *alias.Trace, slots []uint32, l *runtime.Launch) {
	for k, slot := range slots {
		c := e.store.At(slot)
		id, sh := c.Value, c.Shape
		if i := e.plan.Results[k]; i >= 0 {
			out := l.Outs[i]
			out.Retain()
			e.store.SetDevice(slot, sh, out)
			continue
		}
		place := t.Graph.Attr(id)[0]
		buf := e.leafBuffer(t, l, place)
		buf.Retain()
		e.store.SetDevice(slot, sh, buf)
	}
	if l != nil {
		for _, o := range l.Outs {
			o.Release() // the reference that NewOuts made for us: the cells have their own
		}
	}
}

// leafBuffer is the buffer of a leaf, which the launch may have taken over.
func (e *Engine) leafBuffer(t *alias.Trace, l *runtime.Launch, place int64) *runtime.Buffer {
	if b := t.Leaves[place].Buf; b != nil {
		return b.(*runtime.Buffer)
	}
	for i, p := range e.plan.Params {
		if int64(p) == place {
			return l.Args[i]
		}
	}
	return nil
}

// discard releases what is left of a trace and starts a new one.
func (e *Engine) discard(t *alias.Trace) {
	for i := range t.Leaves {
		if b := t.Leaves[i].Buf; b != nil {
			b.Release()
		}
	}
	t.Cut()
}

// poison gives the storages that depend on an op which cannot be lowered its error, and returns the others.
func (e *Engine) poison(t *alias.Trace, slots []uint32, cause error) []uint32 {
	reached := func(ir.ID) bool { return true }
	var f *lower.Failure
	if errors.As(cause, &f) {
		reached = t.Graph.Dependents(f.Node)
	}
	t.Effects = slices.DeleteFunc(t.Effects, reached)
	return slices.DeleteFunc(slots, func(slot uint32) bool {
		if !reached(e.store.At(slot).Value) {
			return false
		}
		e.store.SetFailed(slot, alias.Poisoned, errs.Wrap(errs.KindOf(cause), cause, "%v", cause))
		return true
	})
}

// Wait waits until a device has done everything, or until the timeout; done is false if it expired.
func (e *Engine) Wait(dev int, timeout time.Duration) (done bool, err error) {
	d, err := e.device(dev)
	if err != nil {
		return false, err
	}
	span := profile.Begin()
	done, err = d.Wait(timeout)
	span.Waited()
	switch {
	case err != nil:
	case done:
		err = e.indexErrors()
	default:
		err = e.client.Job.Stuck()
	}
	return done, err
}

// Throttle waits until at most n programs wait for their turn, or until the timeout; it reports whether
// that is so. Callers that sync in a loop use it to stay within sight of the device.
func (e *Engine) Throttle(dev, n int, timeout time.Duration) (bool, error) {
	d, err := e.device(dev)
	if err != nil {
		return false, err
	}
	span := profile.Begin()
	done := d.WaitQueue(n, timeout)
	span.Waited()
	if done {
		return true, nil
	}
	return false, e.client.Job.Stuck()
}
