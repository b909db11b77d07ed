package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/google/uuid"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
)

// planner computes what is recorded: it plans, finds or lowers a program, and launches it.
type planner struct {
	*state
	where *locations
	run   uuid.UUID // of the process, in dumps; set once

	// Settings. Open sets them, Precision one of them later; guarded by mu.
	precision    stablehlo.Precision // of matrix products and convolutions
	torchKernels bool                // programs may call them
	hostMemory   bool                // values can be placed in the host's memory
	syncWaits    bool                // XLA_SYNC_WAIT
	shardy       bool                // CONVERT_SHLO_TO_SHARDY

	cache *cache.Cache[programKey, *program] // replaced by UseSPMD under mu; it has a lock of its own
	disk  *cache.Disk                        // programs shared with other processes; nil: none. Set by Open

	// Guarded by mu; each sync changes them.
	plan    lazy.Plan
	zeros   []zeros // by device
	history history
	slots   []uint32    // memory for the storages of a sync
	scalars []ir.Number // memory for the numbers of a launch

	// See Watch; guarded by mu. Each launch adds to them.
	watching bool
	watched  []*program // with a reference each
}

// zeros are the buffers that the latest graph's new storages began with, by shape, with a reference each.
type zeros map[*shape.Shape]*runtime.Buffer

var (
	executeTime    = metrics.M("ExecuteTime", "ns")
	replicatedTime = metrics.M("ExecuteReplicatedTime", "ns")
	executed       = metrics.C("ExecuteComputation")
	replicated     = metrics.C("ExecuteReplicated")
	planTime       = metrics.M("PlanTime", "ns")
	syncs          = metrics.C("SyncTensorsGraph")
	marks          = metrics.C("MarkStep")
)

// Compiled programs may take this part of the device's memory, or so many bytes where that is not known.
const (
	programsPart  = 8
	programsBytes = 2 << 30
)

// newCache makes the cache of the compiled programs of devices like this one.
func newCache(d *runtime.Device) *cache.Cache[programKey, *program] {
	room := config.Number("TORCH_GO_XLA_COMPILATION_CACHE_MB") << 20
	if room < 0 {
		room = programsBytes
		if limit := d.MemoryLimit(); limit > 0 {
			room = limit / programsPart
		}
	}
	return cache.New[programKey](int(config.Number("XLA_COMPILATION_CACHE_SIZE")), room, func(p *program) { p.release() })
}

// Precision sets the operand precision of matrix products and convolutions, "default", "high" or "highest", for
// programs that are lowered from now on. An empty name sets nothing. It returns the one that counts. Another name is
// an errs.Value.
func (pl *planner) Precision(name string) (string, error) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if name != "" {
		p, ok := stablehlo.ParsePrecision(name)
		if !ok {
			return "", errs.New(errs.Value, "precision %q: want default, high or highest", name)
		}
		pl.precision = p
	}
	return strings.ToLower(pl.precision.String()), nil
}

// TorchKernels reports that programs may call torch's own CPU kernels.
func (pl *planner) TorchKernels() bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.torchKernels && !pl.spmd()
}

// prepare plans the computation of storages and finds its program, nil if there is nothing to compute. Where
// an op cannot be lowered, which is the error, it does without the storages that depend on it, and returns
// the others.
func (pl *planner) prepare(d *runtime.Device, t *alias.Trace, slots []uint32) (rest []uint32, p *program, first error) {
	pl.materializeZeros(d, t, slots)
	for {
		start, span := time.Now(), profile.Begin()
		pl.plan.Build(pl.store, t, slots, t.Effects)
		planTime.Since(start)
		span.End(profile.Plan, int64(len(pl.plan.Nodes)))
		if len(pl.plan.Roots) == 0 {
			return slots, nil, first
		}
		pl.save(d, syncs.Value())
		p, err := pl.program(d)
		if err == nil {
			return slots, p, first
		}
		slots = pl.poison(t, slots, err)
		first = cmp.Or(first, err)
	}
}

// materializeZeros gives buffers to the zeros that new storages began with and that this graph has written since. An
// optimizer does so with its states in the first step. The graph is then the one of all later steps, which find the
// storages with a buffer. Where that fails the zeros stay part of the program.
func (pl *planner) materializeZeros(d *runtime.Device, t *alias.Trace, slots []uint32) {
	before := pl.zeros[d.Index]
	pl.zeros[d.Index] = nil
	for _, slot := range slots {
		c := pl.store.At(slot)
		if c.Origin == ir.None || t.Graph.At(c.Origin).Op != ir.OpZeros || t.Graph.Shape(c.Origin) != c.Shape {
			continue
		}
		buf, err := pl.zerosOf(d, c.Shape, before)
		if err != nil {
			break
		}
		t.MakeLeaf(c.Origin, buf)
	}
	for _, b := range before {
		b.Release()
	}
}

// zerosOf is a buffer of zeros that all storages of a shape share, as nothing is written to it. The graph before may
// have had it already. It stays until the next graph, which may be of the same loop.
func (pl *planner) zerosOf(d *runtime.Device, s *shape.Shape, before zeros) (*runtime.Buffer, error) {
	kept := pl.zeros[d.Index]
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
		pl.zeros[d.Index] = kept
	}
	kept[s] = buf
	return buf, nil
}

// program finds the compiled program of the plan, or lowers one, with a reference for the caller.
func (pl *planner) program(d *runtime.Device) (*program, error) {
	opts := pl.options()
	key := programKey{graph: pl.plan.Key, dev: d.Index, precision: opts.Precision, locations: opts.Locations,
		donate: config.On("XLA_ENABLE_PARAM_ALIASING")}
	if p, ok := pl.cache.Get(key); ok && p.acquire() {
		cachedCompile.Add(1)
		pl.consider(p)
		return p, nil
	}
	if !key.donate {
		for i := range pl.plan.Roots {
			pl.plan.Roots[i].Donor = -1
		}
	}
	p := newProgram(key, d, &lower.Program{Donors: pl.plan.Donors(), Results: pl.plan.Shapes()}, pl.cache)
	p.disk, p.title = pl.disk, title(&pl.plan, pl.where.Where)
	kept := pl.plan.Copy()
	if pl.consider(p); p.startsOpByOp() {
		p.lower = func() (*lower.Program, []error) { return partLowering(kept, opts) }
	} else {
		text, err := lowering(&pl.plan, opts)
		if err != nil {
			p.release()
			return nil, err
		}
		p.text, p.joint = text, p.joint || text.Replicas && d.Replicas() != nil
	}
	graphSize.Add(float64(len(pl.plan.Nodes)))
	aliases := 0
	for i, to := range p.donors {
		if to >= 0 || pl.plan.Given[i] {
			aliases++
		}
	}
	aliased.Add(float64(aliases))
	pl.history.explain(&pl.plan, kept, d, syncs.Value(), pl.where.Where, p.ops)
	p.retain()
	pl.cache.Put(key, p)
	if p.lower != nil {
		pl.cache.Weigh(key, kept.Bytes()+p.ops.steps.Bytes())
	}
	return p, nil
}

// textOf gives a program as it is compiled, nil if it is gone.
func textOf(of weak.Pointer[program]) func() (*lower.Program, error) {
	return func() (*lower.Program, error) {
		if p := of.Value(); p != nil {
			return p.lowered()
		}
		return nil, nil
	}
}

// lowering is the program of a plan.
func lowering(p *lazy.Plan, opts lower.Options) (*lower.Program, error) {
	start, span := time.Now(), profile.Begin()
	lp, err := lower.Lower(p, opts)
	if err == nil {
		lowerTime.Since(start)
		span.End(profile.Lower, int64(len(p.Nodes)))
	}
	return lp, err
}

// partLowering is the program of a plan without the results that depend on an op which cannot be lowered. lost has the
// error of each of these, and is nil if there is none. The program is nil if it has no results.
func partLowering(p *lazy.Plan, opts lower.Options) (lp *lower.Program, lost []error) {
	for rest := p; ; {
		lp, err := lowering(rest, opts)
		if err == nil {
			return lp, lost
		}
		if lost == nil {
			lost = make([]error, len(p.Roots))
		}
		reached := dependents(&p.Trace.Graph, err)
		for i, r := range p.Roots {
			if lost[i] == nil && reached(r.ID) {
				lost[i] = err
			}
		}
		if !slices.Contains(lost, nil) {
			return nil, lost
		}
		rest = p.Only(func(root int) bool { return lost[root] == nil })
	}
}

// dependents tells which values depend on the op whose lowering has failed; all do if the error is not that of an op.
func dependents(g *ir.Graph, cause error) func(ir.ID) bool {
	var f *lower.Failure
	if errors.As(cause, &f) {
		return g.Dependents(f.Node)
	}
	return func(ir.ID) bool { return true }
}

// consider finds out how the program's graph, which is planned, runs op by op, the first time that it may.
func (pl *planner) consider(p *program) {
	if p.considered || p.compileOnly && mode() == compileTier {
		return
	}
	alone, place := lone(&pl.plan)
	if p.compileOnly = !alone; alone || mode() != compileTier {
		p.considered, p.ops = true, pl.interpretation()
	}
	if p.ops != nil {
		p.ops.lone, p.ops.place, p.ops.text = alone, place, textOf(weak.Make(p))
	}
}

// interpretation is how the plan runs op by op; nil if it cannot.
func (pl *planner) interpretation() *interpretable {
	if !pl.torchKernels || len(pl.plan.Trace.Effects) > 0 {
		return nil
	}
	p, err := interp.Write(&pl.plan)
	var r *interp.Refusal
	if errors.As(err, &r) {
		graphsCompiled.Add(1)
		metrics.C("NotInterpretable:" + r.Op).Add(1)
	}
	if err != nil {
		return nil
	}
	params := make([]*shape.Shape, len(pl.plan.Params))
	for i, place := range pl.plan.Params {
		params[i] = pl.plan.Trace.Leaves[place].Buf.(*runtime.Buffer).Shape
	}
	work := workOf(nil, p.Work)
	return &interpretable{steps: torchcpu.Prepare(p, params, len(pl.plan.Scalars)), does: p.Work, work: work, cost: work.predict()}
}

func (pl *planner) options() lower.Options {
	return lower.Options{Precision: pl.precision, TorchKernels: pl.torchKernels, HostMemory: pl.hostMemory, Functions: pl.ctx.Functions, Shardy: pl.shardy,
		Locations: config.On("XLA_IR_DEBUG") || config.On("XLA_HLO_DEBUG"), Where: pl.where.Where}
}

// poison gives the storages that depend on an op which cannot be lowered its error, and returns the others.
func (pl *planner) poison(t *alias.Trace, slots []uint32, cause error) []uint32 {
	reached := dependents(&t.Graph, cause)
	t.Effects = slices.DeleteFunc(t.Effects, reached)
	return slices.DeleteFunc(slots, func(slot uint32) bool {
		if !reached(pl.store.At(slot).Value) {
			return false
		}
		pl.store.SetFailed(slot, alias.Poisoned, errs.Wrap(errs.KindOf(cause), cause, "%v", cause))
		return true
	})
}

// excludePlaceholders gives the pending storages that depend on arguments of functions being traced an error, and
// returns the others: a sync computes those.
func (pl *planner) excludePlaceholders(t *alias.Trace, slots []uint32) []uint32 {
	for i := range t.Leaves {
		if leaf := t.Leaves[i]; leaf.Buf == (placeholder{}) {
			slots = pl.poison(t, slots, &lower.Failure{Node: leaf.ID, Err: errPlaceholder})
		}
	}
	return slots
}

// Dump is the pending graph of some storages as text; see bindings.Dump. The error is errs.Value for another format,
// and for storages of several devices.
func (pl *planner) Dump(handles []int64, format string) (string, error) {
	if err := pl.check(); err != nil {
		return "", err
	}
	if err := pl.lock(); err != nil {
		return "", err
	}
	defer pl.mu.Unlock()
	var slots []uint32
	dev := int32(-1)
	for _, h := range handles {
		c, err := pl.store.Cell(alias.Handle(h))
		if err != nil {
			return "", err
		}
		if dev >= 0 && c.Dev != dev {
			return "", errs.New(errs.Value, "the tensors are on different devices: xla:%d and xla:%d", dev, c.Dev)
		}
		dev = c.Dev
		if c.State == alias.Pending {
			slots = append(slots, pl.store.Slot(alias.Handle(h)))
		}
	}
	if len(slots) == 0 {
		return "", nil
	}
	t := pl.store.Trace(dev)
	pl.plan.Build(pl.store, t, slots, nil)
	return pl.graph(format)
}

// graph is the plan as text: ir, nodes, dot, stablehlo, or program for just what is compiled.
func (pl *planner) graph(format string) (string, error) {
	switch format {
	case "ir":
		return printPlan(&pl.plan), nil
	case "nodes":
		return nodesOf(&pl.plan, pl.where.Where)
	case "dot":
		byTorch, _ := lone(&pl.plan)
		return dotPlan(&pl.plan, byTorch && pl.torchKernels), nil
	}
	opts := pl.options()
	switch format {
	case "program":
	case "stablehlo":
		opts.TorchKernels = false // it may run elsewhere
	default:
		return "", errs.New(errs.Value, "unknown format %q: want ir, nodes, dot, stablehlo or program", format)
	}
	lp, err := lower.Lower(&pl.plan, opts)
	if err != nil {
		return "", err
	}
	return string(lp.Module), nil
}

// savedForms are the forms of graphs by the names that XLA_SAVE_TENSORS_FMT has for them.
var savedForms = map[string]string{"text": "ir", "dot": "dot", "hlo": "stablehlo"}

// save appends the graph of a sync to the file that XLA_SAVE_TENSORS_FILE names. A file that cannot be
// written costs only that.
func (pl *planner) save(d *runtime.Device, step int64) {
	path := config.String("XLA_SAVE_TENSORS_FILE")
	if path == "" {
		return
	}
	text, err := pl.graph(savedForms[config.String("XLA_SAVE_TENSORS_FMT")])
	if err == nil {
		head := fmt.Sprintf("# run %s, step %d, %s, %s, program %s", pl.run, step, d, time.Now().Format(time.RFC3339), pl.plan.Key)
		err = appendTo(path, head+"\n"+text+"\n")
	}
	if err != nil {
		graphsUnsaved.Add(1)
	}
}
