package engine

import (
	"slices"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
)

// launch makes the execution of a program with the plan's buffers and numbers. It takes over the
// references of the leaves that are parameters, and one of the program.
func (pl *planner) launch(d *runtime.Device, t *alias.Trace, p *program) *runtime.Launch {
	pl.watch(p)
	l := runtime.NewLaunch(len(pl.plan.Params), len(p.results))
	l.Program, l.Donors, l.Step, l.Recorded = p, p.donors, syncs.Value(), profile.Number()
	copy(l.Given, pl.plan.Given)
	for i, place := range pl.plan.Params {
		l.Args[i] = t.Leaves[place].Buf.(*runtime.Buffer)
		t.Leaves[place].Buf = nil
	}
	if numbers := pl.numbers(&t.Graph); p.runsOpByOp() {
		l.Interpret = &interpretation{p, slices.Clone(numbers)}
	} else {
		l.Packs = p.packs(numbers)
	}
	l.NewOuts(d, p.results, p.shardings)
	for i, r := range pl.plan.Roots {
		l.Outs[i].Origin = origin(&t.Graph, r.ID)
	}
	l.Done = pl.measured(p)
	return l
}

// origin is the recorded op that a value comes from.
func origin(g *ir.Graph, id ir.ID) runtime.Origin {
	n := g.At(g.Producer(id))
	return runtime.Origin{Op: uint16(n.Op), Loc: n.Loc}
}

// measured counts the launch of a program that is about to be made. What it returns is called when that is over: it
// notes the time and gives up the launch's reference.
func (pl *planner) measured(p *program) func(error) {
	start, spmd := time.Now(), pl.countRun()
	return func(error) {
		executeTime.Since(start)
		if spmd {
			replicatedTime.Since(start)
		}
		p.release()
	}
}

// countRun counts the launch of a program, and reports that it runs on all devices of SPMD.
func (pl *planner) countRun() bool {
	if pl.spmd() {
		replicated.Add(1)
		return true
	}
	executed.Add(1)
	return false
}

// numbers are the values of the plan's arguments that are numbers, good until the next call.
func (pl *planner) numbers(g *ir.Graph) []ir.Number {
	out := pl.scalars[:0]
	for _, id := range pl.plan.Scalars {
		n, _ := g.Number(id)
		out = append(out, n)
	}
	pl.scalars = out
	return out
}

// bind gives every pending storage its buffer: a result of the launch, or the buffer of a leaf that it
// is a copy of.
func (pl *planner) bind(t *alias.Trace, slots []uint32, l *runtime.Launch) {
	for k, slot := range slots {
		c := pl.store.At(slot)
		id, sh := c.Value, c.Shape
		if i := pl.plan.Results[k]; i >= 0 {
			out := l.Outs[i]
			out.Retain()
			pl.store.SetDevice(slot, sh, out)
			continue
		}
		place := t.Graph.Attr(id)[0]
		buf := pl.leafBuffer(t, l, place)
		buf.Retain()
		pl.store.SetDevice(slot, sh, buf)
	}
	if l != nil {
		for _, o := range l.Outs {
			o.Release() // the reference that NewOuts made for us: the cells have their own
		}
	}
}

// leafBuffer is the buffer of a leaf, which may be donated to the launch.
func (pl *planner) leafBuffer(t *alias.Trace, l *runtime.Launch, place int64) *runtime.Buffer {
	if b := t.Leaves[place].Buf; b != nil {
		return b.(*runtime.Buffer)
	}
	for i, p := range pl.plan.Params {
		if int64(p) == place {
			return l.Args[i]
		}
	}
	return nil
}

// idle reports that a sync would do nothing but wait. The caller holds mu.
func (pl *planner) idle(d *runtime.Device) bool {
	t := pl.store.Trace(d.Index)
	return !pl.syncWaits && len(pl.checks) == 0 && t.Graph.Len() <= 1 && t.Idle() && len(pl.zeros[d.Index]) == 0
}

// runsOpByOp decides how the launch that is about to be made of the program runs, and counts it. The caller holds mu.
func (p *program) runsOpByOp() bool {
	if p.ops == nil {
		return false
	}
	p.ops.seen++
	if p.runsAlone() {
		return true
	}
	t := mode()
	if p.ops.seen == 1 && (t == autoTier || t == backgroundTier) {
		p.ops.kept = p.disk != nil && p.disk.Has(p.diskKey())
	}
	switch {
	case t == eagerTier:
		return true
	case t == autoTier && p.ops.pays():
		p.ops.kept = true
		return false
	case t == compileTier, p.ops.kept, t == backgroundTier && p.compiled.Load():
		return false
	case t == backgroundTier && p.ops.seen == 1:
		p.retain()
		go p.compileBehind()
	}
	return true
}

// runsAlone reports that the program's graph runs by torch's kernels in every mode; see lone.go.
func (p *program) runsAlone() bool { return p.ops != nil && p.ops.lone && !p.ops.failed.Load() }

// compileBehind compiles the program and gives up the caller's reference. What fails, running the program says.
func (p *program) compileBehind() {
	defer p.release()
	defer func() { _ = recover() }() // compile has noted it
	_, _ = p.Executable()
}

// interpretation is one launch that runs op by op; the launch has a reference to the program.
type interpretation struct {
	program *program
	numbers []ir.Number
}

// Short implements runtime.Interpretation.
func (i *interpretation) Short() bool {
	return i.program.ops.place != torchcpu.Apart && !i.program.ops.failed.Load()
}

// Peak implements runtime.Interpretation.
func (i *interpretation) Peak() (peak, kept int64) {
	return i.program.ops.does.Peak, i.program.ops.does.Kept
}

// Packs implements runtime.Interpretation.
func (i *interpretation) Packs() []runtime.Pack { return i.program.packs(i.numbers) }

// TakesOver implements runtime.Interpretation.
func (i *interpretation) TakesOver() bool { return !i.program.ops.lone }

// Places implements runtime.Interpretation.
func (i *interpretation) Places(result int) bool { return i.program.ops.steps.Places(result) }

// errFailedBefore is that of a graph which has failed to run op by op: its program is there.
var errFailedBefore = errs.New(errs.Xla, "the graph failed to run op by op before")

// Run implements runtime.Interpretation. Launches run in order, so that what is known of the ones before does not
// depend on the time.
func (i *interpretation) Run(args, into []unsafe.Pointer, here bool) (runtime.Interpreted, error) {
	ops := i.program.ops
	if ops.failed.Load() {
		return nil, errFailedBefore
	}
	place := ops.place
	if !here {
		place = torchcpu.Apart
	}
	r, err := ops.steps.Run(args, into, i.numbers, place)
	if err != nil {
		ops.failed.Store(true)
		if config.Number("PT_XLA_DEBUG_LEVEL") >= 1 {
			warn("a graph that was run op by op is compiled: %v", err)
		}
		return nil, err
	}
	return r, nil
}
