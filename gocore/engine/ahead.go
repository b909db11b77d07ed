package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
)

// lowerings turn what is recorded into programs for devices that need not be there; see ahead_compile.go. What runs
// such a program where the devices are is a replay.
type lowerings struct {
	*planner
	generators *generators
	replays    *replays
}

// Lowered is a recorded computation as a program that any backend compiles, with what a replay of it needs.
type Lowered struct {
	Text       string  `json:"text"`
	Partitions int     `json:"partitions"` // 0: without SPMD
	Shardy     bool    `json:"shardy"`
	Open       []bool  `json:"open"` // see lower.Program
	Arguments  int     `json:"arguments"`
	Parameters []int32 `json:"parameters"` // by parameter, which argument it is; -1: none
	// Arrays are the parameters' shapes, Layouts their shardings ("": none).
	Arrays  []string `json:"arrays"`
	Layouts []string `json:"layouts"`
	Donors  []int32  `json:"donors"`
	Packs   []string `json:"packs"`
	// Results are the shapes of the program's results, Shardings what they must have ("": the compiler chooses, or no
	// SPMD).
	Results   []string `json:"results"`
	Shardings []string `json:"shardings"`
	Outs      []target `json:"outs"`
	Writes    []target `json:"writes"`
	Numbers   []number `json:"numbers"`
	Draws     uint64   `json:"draws"` // how many the program takes from the device's generator
	// Reason says why the program cannot be loaded elsewhere, "" if it can.
	Reason string `json:"reason"`
}

// target is where a value of the program goes: to an argument, or to a new storage (-1).
type target struct {
	Argument int32  `json:"argument"`
	Result   int32  `json:"result"` // -1: it is argument Copy
	Copy     int32  `json:"copy"`
	Shape    string `json:"shape"`
}

// number is a number of the program, whose bits travel as integers: JSON has neither infinities nor NaN.
type number struct {
	Type  string   `json:"type"`
	I     int64    `json:"i"`
	F     int64    `json:"f"`
	Im    int64    `json:"im"`
	Flags ir.Flags `json:"flags"` // RandomKey or RandomDraw of the device's generator, or 0
}

// Lower gives what is recorded as a program for a platform, as the next sync there would compile it. args are
// the storages that a later call may replace, outs those that it makes. Other new storages, such as gradients, are not
// among its results. The computation stays recorded. The error is errs.Value if nothing is recorded that a program
// could compute, and errs.NotLower for one that processes run together.
func (lw *lowerings) Lower(dev int, platform string, args, outs []int64) (*Lowered, error) {
	d, err := lw.device(dev)
	if err != nil {
		return nil, err
	}
	if err := lw.lock(); err != nil {
		return nil, err
	}
	defer lw.mu.Unlock()
	lw.drain()
	all, err := lw.handles(args, outs)
	if err != nil {
		return nil, err
	}
	t := lw.store.Trace(d.Index)
	slots := lw.kept(t, all)
	lw.plan.Build(lw.store, t, slots, t.Effects)
	if len(lw.plan.Roots) == 0 {
		return nil, errs.New(errs.Value, "nothing is recorded that a program could compute")
	}
	if !config.On("XLA_ENABLE_PARAM_ALIASING") {
		for i := range lw.plan.Roots {
			lw.plan.Roots[i].Donor = -1
		}
	}
	opts := lw.options()
	opts.TorchKernels = false // it runs elsewhere
	opts.HostMemory = !strings.EqualFold(platform, torchcpu.Platform)
	lp, err := lower.Lower(&lw.plan, opts)
	if err != nil {
		return nil, err
	}
	if lp.Replicas {
		return nil, errs.New(errs.NotLower, "a program that several processes run together is not compiled ahead")
	}
	out := &Lowered{Text: string(lp.Module), Partitions: d.Partitions(), Shardy: lp.Shardy, Open: append([]bool{}, lp.Open...),
		Arguments: len(args), Donors: append([]int32{}, lp.Donors...), Packs: []string{}, Outs: make([]target, len(outs)), Writes: []target{}}
	for _, p := range lp.Packs {
		out.Packs = append(out.Packs, p.String())
	}
	for i, r := range lw.plan.Roots {
		out.Results, out.Shardings = append(out.Results, lp.Results[i].String()), append(out.Shardings, shardingText(r.Sharding))
	}
	lw.connect(out, d, t, all[:len(args)], all[len(args):], slots)
	return out, nil
}

// kept are the recorded storages that are results: those that are named, and those that had a buffer before.
func (lw *lowerings) kept(t *alias.Trace, named []alias.Handle) (slots []uint32) {
	for _, slot := range t.Dirty {
		is := func(h alias.Handle) bool { return lw.store.Slot(h) == slot }
		if slot != 0 && (slices.ContainsFunc(named, is) || t.Graph.At(lw.store.At(slot).Origin).Op == ir.OpData) {
			slots = append(slots, slot)
		}
	}
	return slots
}

func shardingText(sh *sharding.Sharding) string {
	if sh == nil {
		return ""
	}
	return sh.String()
}

// connect notes where the plan's parameters and numbers come from, and where its values go.
func (lw *lowerings) connect(out *Lowered, d *runtime.Device, t *alias.Trace, args, outs []alias.Handle, slots []uint32) {
	places, leaves := make(map[uint32]int32), make(map[ir.ID]int32)
	for i, h := range args {
		places[lw.store.Slot(h)] = int32(i)
		if leaf := lw.store.LeafOf(h); leaf != ir.None {
			leaves[leaf] = int32(i)
		}
	}
	from := func(leaf *alias.Leaf) int32 {
		if i, ok := leaves[leaf.ID]; ok {
			return i
		}
		out.Reason = "it reads a tensor " + t.Graph.Shape(leaf.ID).String() + " that is not among the arguments"
		return -1
	}
	for _, place := range lw.plan.Params {
		leaf := &t.Leaves[place]
		out.Parameters = append(out.Parameters, from(leaf))
		out.Arrays = append(out.Arrays, t.Graph.Shape(leaf.ID).String())
		out.Layouts = append(out.Layouts, shardingText(leaf.Buf.Sharding()))
	}
	for k, slot := range slots {
		c := lw.store.At(slot)
		w := target{Argument: -1, Result: lw.plan.Results[k], Copy: -1, Shape: c.Shape.String()}
		if w.Result < 0 {
			w.Copy = from(&t.Leaves[t.Graph.Attr(c.Value)[0]])
		}
		at := slices.IndexFunc(outs, func(h alias.Handle) bool { return lw.store.Slot(h) == slot })
		if i, ok := places[slot]; ok {
			w.Argument = i
			out.Writes = append(out.Writes, w)
		} else if at >= 0 {
			out.Outs[at] = w
		} else {
			out.Reason = "it writes a tensor " + c.Shape.String() + " that is neither an argument nor returned"
		}
	}
	for i, h := range outs {
		if c, _ := lw.store.Cell(h); c.State != alias.Pending || out.Outs[i].Shape == "" {
			out.Reason = "a result is an argument, or was not computed by the call"
		}
	}
	lw.connectNumbers(out, d, &t.Graph)
}

// connectNumbers notes the numbers. Those of a generator count from its first draw of the program.
func (lw *lowerings) connectNumbers(out *Lowered, d *runtime.Device, g *ir.Graph) {
	first, drawn := int64(math.MaxInt64), lw.generators.held[int64(d.Index)]
	out.Numbers = []number{}
	for i, n := range lw.numbers(g) {
		id := lw.plan.Scalars[i]
		flags := g.At(id).Flags & (ir.RandomKey | ir.RandomDraw)
		if flags != 0 && g.Generator(id) != int64(d.Index) {
			out.Reason = "it draws random numbers from a generator of its own"
		}
		if flags&ir.RandomDraw != 0 {
			first = min(first, n.I)
		}
		out.Numbers = append(out.Numbers, number{n.Type.String(), n.I, int64(math.Float64bits(n.F)), int64(math.Float64bits(n.Im)), flags})
	}
	for i := range out.Numbers {
		if out.Numbers[i].Flags&ir.RandomDraw != 0 {
			out.Numbers[i].I -= first
			out.Draws = drawn.draws - uint64(first)
		}
	}
}

// LoadLowered makes a lowered program that was compiled elsewhere, for this device, ready for Replay. serialized is
// what the plugin has made of it, which is code: it must come from someone who is trusted. The error is errs.Value if
// the program is for another device, or its description is damaged.
func (lw *lowerings) LoadLowered(dev int, in *Lowered, serialized []byte) (int64, error) {
	d, err := lw.device(dev)
	if err != nil {
		return 0, err
	}
	if in.Reason != "" {
		return 0, errs.New(errs.Value, "the program cannot be loaded: %s", in.Reason)
	}
	if d.Partitions() != in.Partitions {
		return 0, errs.New(errs.Value, "the program is for %d partitions, the device has %d (0: no SPMD)", in.Partitions, d.Partitions())
	}
	r, lp, roots, err := in.replay(d)
	if err != nil {
		return 0, err
	}
	p := newProgram(programKey{dev: d.Index}, d, lp, nil)
	if p.exe, err = d.Load(serialized, p.params(), false); err != nil {
		return 0, errs.Wrap(errs.KindOf(err), err, "the program is not one for %s: %v", lw.client.PJRT.PlatformName(), err)
	}
	p.once.Do(func() { p.compiled.Store(true) })
	if n := p.exe.PJRT().NumOutputs(); n != len(lp.Results) {
		p.release()
		return 0, errs.New(errs.Value, "the compiled program has %d results, its description %d", n, len(lp.Results))
	}
	if d.Partitions() > 0 {
		p.resolveShardings(roots)
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	r.program = p
	if drawn := lw.generators.held[int64(d.Index)]; in.Draws > 0 {
		r.streams[0].from = drawn
	}
	return lw.replays.add(r), nil
}

// replay is the replay of a description, without its program.
func (in *Lowered) replay(d *runtime.Device) (r *replay, lp *lower.Program, roots []lazy.Root, err error) {
	bad := func(what string) error {
		return errs.New(errs.Value, "the description of the program is damaged: %s", what)
	}
	fits := func(i int32, n int) bool { return i >= -1 && int(i) < n }
	lp = &lower.Program{Donors: in.Donors, Open: in.Open, Shardy: in.Shardy}
	r = &replay{dev: d, arguments: in.Arguments, needs: make([]need, max(in.Arguments, 0)), given: make([]bool, len(in.Parameters))}
	if in.Arguments < 0 || len(in.Arrays) != len(in.Parameters) || len(in.Layouts) != len(in.Parameters) || len(in.Donors) != len(in.Parameters) ||
		len(in.Results) != len(in.Shardings) {
		return nil, nil, nil, bad("counts differ")
	}
	for i, p := range in.Parameters {
		s, ok := shape.Parse(in.Arrays[i])
		if !ok || p < 0 || !fits(p, in.Arguments) || !fits(in.Donors[i], len(in.Results)) {
			return nil, nil, nil, bad("a parameter")
		}
		n := need{shape: s}
		if in.Layouts[i] != "" {
			if n.sharding, err = sharding.Parse(in.Layouts[i]); err != nil {
				return nil, nil, nil, err
			}
		}
		r.needs[p], r.params = n, append(r.params, source{argument: p})
	}
	for i, text := range in.Results {
		s, ok := shape.Parse(text)
		if !ok {
			return nil, nil, nil, bad("a result")
		}
		root := lazy.Root{}
		if in.Shardings[i] != "" {
			if root.Sharding, err = sharding.Parse(in.Shardings[i]); err != nil {
				return nil, nil, nil, err
			}
		}
		lp.Results, roots, r.origins = append(lp.Results, s), append(roots, root), append(r.origins, runtime.Origin{})
	}
	for _, list := range []struct {
		from []target
		to   *[]write
	}{{in.Outs, &r.outs}, {in.Writes, &r.writes}} {
		for _, w := range list.from {
			s, ok := shape.Parse(w.Shape)
			if !ok || !fits(w.Argument, in.Arguments) || !fits(w.Result, len(in.Results)) || !fits(w.Copy, in.Arguments) || w.Result < 0 && w.Copy < 0 {
				return nil, nil, nil, bad("a target")
			}
			*list.to = append(*list.to, write{argument: w.Argument, result: w.Result, copy: source{argument: w.Copy}, shape: s})
		}
	}
	return r, lp, roots, in.readNumbers(r, lp)
}

// readNumbers gives a replay its numbers.
func (in *Lowered) readNumbers(r *replay, lp *lower.Program) error {
	if in.Draws > 0 {
		r.streams = []*stream{{draws: in.Draws}}
	}
	for _, n := range in.Numbers {
		d := dtype.Parse(n.Type)
		if d == dtype.Invalid || n.Flags != 0 && in.Draws == 0 {
			return errs.New(errs.Value, "the description of the program is damaged: a number")
		}
		r.numbers = append(r.numbers, ir.Number{Type: d, I: n.I, F: math.Float64frombits(uint64(n.F)), Im: math.Float64frombits(uint64(n.Im))})
		r.flags = append(r.flags, n.Flags)
		var s *stream
		if n.Flags != 0 {
			s = r.streams[0]
		}
		r.drawn = append(r.drawn, s)
	}
	for _, name := range in.Packs {
		d := dtype.Parse(name)
		if d != dtype.F32 && d != dtype.F64 && d != dtype.I64 {
			return errs.New(errs.Value, "the description of the program is damaged: a pack")
		}
		lp.Packs = append(lp.Packs, d)
		if len(r.streams) == 0 {
			r.packs = append(r.packs, pack(r.numbers, d))
		}
	}
	return nil
}
