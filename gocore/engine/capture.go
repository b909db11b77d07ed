package engine

import (
	"hash/maphash"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
)

// replays are the captured computations, by number.
type replays struct {
	*planner
	generators *generators
	held       map[int64]*replay // guarded by mu; Capture and LoadProgram add, DropReplay removes
	last       int64             // guarded by mu; counts up with what is added
	cells      []alias.Handle    // memory for the storages of a replay; guarded by mu
}

// loading is a program that LoadProgram has given to the compiler.
type loading struct {
	done chan struct{}
	err  error // set before done is closed
}

// replay is a computation that was recorded once and runs again without being recorded. It has a program, and knows
// where its parameters come from and where its results go. Storages are named by their place among the arguments:
// those of the call, then those that the computation reaches by itself, its state.
type replay struct {
	dev       *runtime.Device
	program   *program // in the cache, or with a reference if it is in none
	loading   *loading // nil: the program was captured
	arguments int
	state     []alias.Handle
	needs     []need           // by argument
	params    []source         // by parameter of the program
	given     []bool           // no one gave a buffer away
	writes    []write          // arguments that get a new value
	outs      []write          // new storages, those of checks last
	checks    []valueCheck     // of results
	checking  uint32           // state.checking when it was captured
	origins   []runtime.Origin // of the program's results
	numbers   []ir.Number
	flags     []ir.Flags // of the numbers: RandomKey, RandomDraw or neither
	drawn     []*stream  // where a number is from, nil: it stays the same
	streams   []*stream
	packs     []runtime.Pack // of the numbers, if none of them is random
}

// stream is what a computation draws from a generator.
type stream struct {
	from  *generator
	first uint64 // the generator's draws when the computation was captured
	draws uint64 // how many a run takes
}

// stream finds the stream of a generator; a new one has drawn nothing.
func (r *replay) stream(g *generator) *stream {
	for _, s := range r.streams {
		if s.from == g {
			return s
		}
	}
	s := &stream{from: g, first: g.draws}
	r.streams = append(r.streams, s)
	return s
}

// need is what an argument's storage must hold for the program to fit.
type need struct {
	shape    *shape.Shape // nil: the computation does not read it
	sharding *sharding.Sharding
}

// source is where a buffer comes from: an argument, or a value that belongs to the computation.
type source struct {
	argument int32 // -1: constant
	constant *runtime.Buffer
}

// write is a storage with its new value: a result of the program, or a buffer that is there already.
type write struct {
	argument int32
	result   int32 // -1: copy
	copy     source
	shape    *shape.Shape
}

var (
	captures   = metrics.C("Captures")
	replayed   = metrics.C("Replays")
	mismatches = metrics.C("ReplayMisses")
)

// Captured describes a capture.
type Captured struct {
	// ID names it for Replay; 0 if nothing was recorded that a program could compute.
	ID int64
	// Numbers is a digest of the program and of the numbers that every run will use. If two recordings of
	// one function have different ones, its numbers depend on something that a replay does not see.
	Numbers uint64
}

// Capture makes the recorded computation of the given storages repeatable. args are the storages that a
// later call may replace, outs those that the computation makes. With state, storages that the graph
// reads or writes besides belong to it too, by handle: they are read and written again by each replay.
// The graph stays recorded, to be synced.
func (rp *replays) Capture(args, outs []int64, state bool) (Captured, error) {
	if err := rp.lock(); err != nil {
		return Captured{}, err
	}
	defer rp.mu.Unlock()
	if err := rp.check(); err != nil {
		return Captured{}, err
	}
	rp.drain()
	all, err := rp.handles(args, outs)
	if err != nil || len(all) == 0 {
		return Captured{}, err
	}
	c, _ := rp.store.Cell(all[0])
	d := rp.at(c.Dev)
	t := rp.store.Trace(d.Index)
	r := &replay{dev: d, arguments: len(args), checking: rp.checking.Load()}
	arguments := slices.Clone(all[:len(args)])
	all = append(all, rp.captureChecks(r, t)...)
	if state {
		r.state = rp.store.Reached(d.Index, all)
		arguments = append(arguments, r.state...)
	}
	made := all[len(args):]
	for _, h := range made {
		if c, _ := rp.store.Cell(h); c.State != alias.Pending {
			return Captured{}, nil // made by other means than recording
		}
	}
	// in the order in which a sync takes them, so that the first call's sync compiles the same program
	var slots []uint32
	for _, slot := range t.Dirty {
		is := func(h alias.Handle) bool { return rp.store.Slot(h) == slot }
		if slot != 0 && (slices.ContainsFunc(made, is) || slices.ContainsFunc(arguments, is)) {
			slots = append(slots, slot)
		}
	}
	slots = rp.excludePlaceholders(t, slots)
	for _, h := range made {
		if c, _ := rp.store.Cell(h); c.State != alias.Pending {
			return Captured{}, nil // part of a function that is traced
		}
	}
	rp.materializeZeros(d, t, slots)
	rp.plan.Build(rp.store, t, slots, t.Effects)
	if len(rp.plan.Roots) == 0 || slices.Contains(rp.plan.Given, true) {
		return Captured{}, nil
	}
	if r.program, err = rp.program(d); err != nil {
		return Captured{}, err
	}
	defer r.program.release() // the cache has it
	if err := rp.whenCompiled(d, r.program, func() error { return nil }); err != nil {
		return Captured{}, err // the next call finds it compiled
	}
	rp.connect(r, t, arguments, made, slots)
	captures.Add(1)
	return Captured{rp.add(r), r.digest()}, nil
}

// add numbers a replay.
func (rp *replays) add(r *replay) int64 {
	if rp.held == nil {
		rp.held = make(map[int64]*replay)
	}
	rp.last++
	rp.held[rp.last] = r
	return rp.last
}

// captureChecks makes the pending checks of a device part of a captured computation and returns their storages. Those
// that depend on arguments of functions being traced have no value.
func (rp *replays) captureChecks(r *replay, t *alias.Trace) (made []alias.Handle) {
	slots := rp.excludePlaceholders(t, rp.withChecks(r.dev.Index, nil))
	for _, k := range rp.checks {
		if slices.Contains(slots, rp.store.Slot(k.storage)) {
			r.checks, made = append(r.checks, k.of(0)), append(made, k.storage)
		}
	}
	return made
}

// connect notes where the plan's parameters, numbers and results come from and go to.
func (rp *replays) connect(r *replay, t *alias.Trace, arguments, made []alias.Handle, slots []uint32) {
	places := make(map[uint32]int32)
	leaves := make(map[ir.ID]int32)
	r.needs = make([]need, len(arguments))
	for i, h := range arguments {
		places[rp.store.Slot(h)] = int32(i)
		if leaf := rp.store.LeafOf(h); leaf != ir.None {
			leaves[leaf] = int32(i)
		}
	}
	from := func(leaf ir.ID, buf alias.Buffer) source {
		b := buf.(*runtime.Buffer)
		if i, ok := leaves[leaf]; ok {
			r.needs[i] = need{b.Shape, b.Sharding()}
			return source{argument: i}
		}
		b.Retain()
		return source{argument: -1, constant: b}
	}
	for _, place := range rp.plan.Params {
		leaf := &t.Leaves[place]
		r.params = append(r.params, from(leaf.ID, leaf.Buf))
	}
	r.given = make([]bool, len(r.params))
	r.outs = make([]write, len(made))
	for k, slot := range slots {
		c := rp.store.At(slot)
		w := write{argument: -1, result: rp.plan.Results[k], shape: c.Shape}
		if w.result < 0 {
			leaf := &t.Leaves[t.Graph.Attr(c.Value)[0]]
			w.copy = from(leaf.ID, leaf.Buf)
		}
		if i, ok := places[slot]; ok {
			w.argument = i
			r.writes = append(r.writes, w)
		} else {
			r.outs[slices.IndexFunc(made, func(h alias.Handle) bool { return rp.store.Slot(h) == slot })] = w
		}
	}
	for _, root := range rp.plan.Roots {
		r.origins = append(r.origins, origin(&t.Graph, root.ID))
	}
	r.numbers = slices.Clone(rp.numbers(&t.Graph))
	for i, id := range rp.plan.Scalars {
		f := t.Graph.At(id).Flags & (ir.RandomKey | ir.RandomDraw)
		var s *stream
		if f != 0 {
			if g := rp.generators.held[t.Graph.Generator(id)]; g != nil {
				s = r.stream(g)
			} else { // the computation made it and seeded it, as every run would
				f = 0
			}
		}
		r.flags, r.drawn = append(r.flags, f), append(r.drawn, s)
		if f&ir.RandomDraw != 0 {
			s.first = min(s.first, uint64(r.numbers[i].I))
		}
	}
	for _, s := range r.streams {
		s.draws = s.from.draws - s.first
	}
}

var digestSeed = maphash.MakeSeed()

func (r *replay) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, r.program.key.graph)
	for i, n := range r.numbers {
		if r.flags[i] == 0 {
			maphash.WriteComparable(&h, n)
		}
	}
	return h.Sum64()
}
