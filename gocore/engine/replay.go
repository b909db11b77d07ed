package engine

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// replays are the captured computations, by number.
type replays struct {
	held map[int64]*replay
	last int64
}

// replay is a computation that was recorded once and runs again without being recorded: a program, where
// its parameters come from, and where its results go. Storages are named by their place among the
// arguments: those of the call, then those that the computation reaches by itself, its state.
type replay struct {
	dev       *runtime.Device
	program   *program // in the cache, or with a reference if it is in none
	arguments int
	state     []alias.Handle
	needs     []need           // by argument
	params    []source         // by parameter of the program
	given     []bool           // nobody gave a buffer away
	writes    []write          // arguments that get a new value
	outs      []write          // new storages, those of checks last
	checks    []indexCheck     // of indices
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
// reads or writes besides belong to it too, by handle: they are read and written anew by each replay.
// The graph stays recorded, to be synced.
func (e *Engine) Capture(args, outs []int64, state bool) (Captured, error) {
	if err := e.lock(); err != nil {
		return Captured{}, err
	}
	defer e.mu.Unlock()
	if err := e.check(); err != nil {
		return Captured{}, err
	}
	e.drain()
	all, err := e.handles(args, outs)
	if err != nil || len(all) == 0 {
		return Captured{}, err
	}
	c, _ := e.store.Cell(all[0])
	d := e.at(c.Dev)
	t := e.store.Trace(d.Index)
	r := &replay{dev: d, arguments: len(args)}
	arguments := slices.Clone(all[:len(args)])
	all = append(all, e.captureChecks(r, t)...)
	if state {
		r.state = e.store.Reached(d.Index, all)
		arguments = append(arguments, r.state...)
	}
	made := all[len(args):]
	for _, h := range made {
		if c, _ := e.store.Cell(h); c.State != alias.Pending {
			return Captured{}, nil // made by other means than recording
		}
	}
	// in the order in which a sync takes them, so that the first call's sync compiles the same program
	var slots []uint32
	for _, slot := range t.Dirty {
		is := func(h alias.Handle) bool { return e.store.Slot(h) == slot }
		if slot != 0 && (slices.ContainsFunc(made, is) || slices.ContainsFunc(arguments, is)) {
			slots = append(slots, slot)
		}
	}
	slots = e.withhold(t, slots)
	for _, h := range made {
		if c, _ := e.store.Cell(h); c.State != alias.Pending {
			return Captured{}, nil // part of a function that is traced
		}
	}
	e.ground(d, t, slots)
	e.plan.Build(e.store, t, slots, t.Effects)
	if len(e.plan.Roots) == 0 || slices.Contains(e.plan.Given, true) {
		return Captured{}, nil
	}
	if r.program, err = e.program(d); err != nil {
		return Captured{}, err
	}
	if err := e.whenCompiled(d, r.program, func() error { return nil }); err != nil {
		return Captured{}, err // the next call finds it compiled
	}
	e.connect(r, t, arguments, made, slots)
	captures.Add(1)
	return Captured{e.replays.add(r), r.digest()}, nil
}

// add numbers a replay.
func (s *replays) add(r *replay) int64 {
	if s.held == nil {
		s.held = make(map[int64]*replay)
	}
	s.last++
	s.held[s.last] = r
	return s.last
}

// handles checks the handles of storages that a capture names.
func (e *Engine) handles(lists ...[]int64) (all []alias.Handle, err error) {
	for _, list := range lists {
		for _, h := range list {
			c, err := e.store.Cell(alias.Handle(h))
			if err != nil {
				return nil, err
			}
			if first, _ := e.store.Cell(append(all, alias.Handle(h))[0]); first.Dev != c.Dev {
				return nil, errs.New(errs.Runtime, "the tensors are on different devices: xla:%d and xla:%d", first.Dev, c.Dev)
			}
			all = append(all, alias.Handle(h))
		}
	}
	return all, nil
}

// connect notes where the plan's parameters, numbers and results come from and go to.
func (e *Engine) connect(r *replay, t *alias.Trace, arguments, made []alias.Handle, slots []uint32) {
	places := make(map[uint32]int32)
	leaves := make(map[ir.ID]int32)
	r.needs = make([]need, len(arguments))
	for i, h := range arguments {
		places[e.store.Slot(h)] = int32(i)
		if leaf := e.store.LeafOf(h); leaf != ir.None {
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
	for _, place := range e.plan.Params {
		leaf := &t.Leaves[place]
		r.params = append(r.params, from(leaf.ID, leaf.Buf))
	}
	r.given = make([]bool, len(r.params))
	r.outs = make([]write, len(made))
	for k, slot := range slots {
		c := e.store.At(slot)
		w := write{argument: -1, result: e.plan.Results[k], shape: c.Shape}
		if w.result < 0 {
			leaf := &t.Leaves[t.Graph.Attr(c.Value)[0]]
			w.copy = from(leaf.ID, leaf.Buf)
		}
		if i, ok := places[slot]; ok {
			w.argument = i
			r.writes = append(r.writes, w)
		} else {
			r.outs[slices.IndexFunc(made, func(h alias.Handle) bool { return e.store.Slot(h) == slot })] = w
		}
	}
	for _, root := range e.plan.Roots {
		r.origins = append(r.origins, origin(&t.Graph, root.ID))
	}
	r.numbers = slices.Clone(e.numbers(&t.Graph))
	for i, id := range e.plan.Scalars {
		f := t.Graph.At(id).Flags & (ir.RandomKey | ir.RandomDraw)
		var s *stream
		if f != 0 {
			if g := e.generators.held[t.Graph.Generator(id)]; g != nil {
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
	if len(r.streams) > 0 {
		return
	}
	for _, dt := range r.program.packs {
		r.packs = append(r.packs, pack(r.numbers, dt))
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

// Replay runs a captured computation on storages in place of its arguments. outs takes the handles of the
// storages that it makes, in the order of the capture's. A Replay that fails has done nothing.
func (e *Engine) Replay(id int64, args, outs []int64) (wire.Outcome, error) {
	r, ok, idle, err := e.replay(id, args, outs)
	if !ok && err == nil {
		mismatches.Add(1)
	}
	if r == nil {
		return wire.Missed, err
	}
	through := r.dev.Kick()
	switch {
	case !ok:
		return wire.Missed, err
	case idle && through:
		return wire.Settled, nil
	}
	return wire.Ran, nil
}

// idle reports that a sync would do nothing but wait. The caller holds mu.
func (e *Engine) idle(d *runtime.Device) bool {
	t := e.store.Trace(d.Index)
	return !e.syncWaits && len(e.checks) == 0 && t.Graph.Len() <= 1 && t.Idle() && len(e.zeros[d.Index]) == 0
}

// replay does the work of Replay, but for kicking the device; idle says that a sync would do nothing but wait.
func (e *Engine) replay(id int64, args, outs []int64) (r *replay, ok, idle bool, err error) {
	if err := e.lock(); err != nil {
		return nil, false, false, err
	}
	defer e.mu.Unlock()
	if err := e.check(); err != nil {
		return nil, false, false, err
	}
	r = e.replays.held[id]
	if r == nil || len(args) != r.arguments || len(outs)+len(r.checks) != len(r.outs) {
		return nil, false, false, errs.New(errs.Runtime, "capture %d: unknown, or called with %d arguments and %d results", id, len(args), len(outs))
	}
	e.drain()
	cells := e.scratch.handles[:0]
	for _, h := range args {
		cells = append(cells, alias.Handle(h))
	}
	cells = append(cells, r.state...)
	e.scratch.handles = cells
	if ok, err := e.fits(r, cells); !ok || err != nil {
		return r, false, false, err
	}
	if !e.acquire(r.program) {
		return r, false, false, nil
	}
	l := e.relaunch(r, cells)
	at := func(w *write) *runtime.Buffer {
		b := w.copy.constant
		switch {
		case w.result >= 0:
			b = l.Outs[w.result]
		case w.copy.argument >= 0:
			c, _ := e.store.Cell(cells[w.copy.argument])
			b = c.Buf.(*runtime.Buffer)
		}
		b.Retain()
		return b
	}
	// all values first: an argument that is copied may be written too
	values := make([]*runtime.Buffer, 0, len(r.outs)+len(r.writes))
	for i := range r.outs {
		values = append(values, at(&r.outs[i]))
	}
	for i := range r.writes {
		values = append(values, at(&r.writes[i]))
	}
	for i, w := range r.outs {
		h, err := e.store.New(w.shape.Bytes(), r.dev.Index)
		if err != nil {
			panic(err) // out of 2²⁸ storages
		}
		e.store.SetDevice(e.store.Slot(h), w.shape, values[i])
		if i < len(outs) {
			outs[i] = int64(h)
		} else {
			e.checks = append(e.checks, r.checks[i-len(outs)].of(h))
		}
	}
	for i, w := range r.writes {
		h, b := cells[w.argument], values[len(r.outs)+i]
		if _, err := e.store.Cell(h); err != nil {
			b.Release() // written only, and nobody is left to read it
			continue
		}
		e.store.SetDevice(e.store.Slot(h), w.shape, b)
	}
	for _, o := range l.Outs {
		o.Release()
	}
	r.dev.Enqueue(l)
	replayed.Add(1)
	return r, true, e.idle(r.dev), nil
}

// acquire takes a reference to the program of a computation. It is false if the program has left the cache.
func (e *Engine) acquire(p *program) bool {
	if p.cache != nil {
		if in, ok := e.cache.Get(p.key); !ok || in != p {
			return false
		}
	}
	for {
		switch n := p.refs.Load(); {
		case n == 0:
			return false
		case p.refs.CompareAndSwap(n, n+1):
			return true
		}
	}
}

// fits settles the arguments and reports whether they are what the computation was captured for.
func (e *Engine) fits(r *replay, cells []alias.Handle) (bool, error) {
	for i, h := range cells {
		c, err := e.store.Cell(h)
		if err != nil {
			if i < r.arguments {
				return false, err
			}
			if r.needs[i].shape != nil {
				return false, nil
			}
			continue
		}
		if c.State == alias.Pending {
			if err := e.cut(r.dev); errors.Is(err, errBusy) { // of another error the storages that it befalls have it
				return false, err
			}
			c, _ = e.store.Cell(h)
		}
		need := &r.needs[i]
		switch {
		case c.Dev != r.dev.Index:
			return false, nil
		case need.shape == nil:
		case c.Err != nil:
			return false, c.Err
		case c.State == alias.Device && c.Buf == placeholder{}:
			return false, nil // recorded as part of the function being traced
		case c.State != alias.Device || c.Shape != need.shape || c.Buf.Sharding() != need.sharding || c.Buf.Donating():
			return false, nil
		}
	}
	return true, nil
}

// relaunch makes the execution of a captured program, to which it takes over a reference.
func (e *Engine) relaunch(r *replay, cells []alias.Handle) *runtime.Launch {
	p := r.program
	syncs.Add(1)
	l := &runtime.Launch{Program: p, Donors: p.donors, Given: r.given, Step: syncs.Value(), Recorded: profile.Number(),
		Args: make([]*runtime.Buffer, len(r.params)), Packs: r.packs}
	for i, s := range r.params {
		b := s.constant
		if s.argument >= 0 {
			c, _ := e.store.Cell(cells[s.argument])
			b = c.Buf.(*runtime.Buffer)
		}
		b.Retain()
		l.Args[i] = b
	}
	if len(r.streams) > 0 {
		numbers := append(e.scratch.numbers[:0], r.numbers...)
		e.scratch.numbers = numbers
		for i, s := range r.drawn {
			switch {
			case r.flags[i]&ir.RandomKey != 0:
				numbers[i].I = int64(s.from.key)
			case r.flags[i]&ir.RandomDraw != 0:
				numbers[i].I += int64(s.from.draws - s.first)
			}
		}
		for _, s := range r.streams {
			s.from.draws += s.draws
		}
		for _, dt := range p.packs {
			l.Packs = append(l.Packs, pack(numbers, dt))
		}
	}
	l.NewOuts(r.dev, p.results, p.shardings)
	for i, o := range r.origins {
		l.Outs[i].Origin = o
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

// DropReplay forgets a captured computation.
func (e *Engine) DropReplay(id int64) {
	e.mu.Lock()
	r := e.replays.held[id]
	delete(e.replays.held, id)
	e.mu.Unlock()
	if r == nil {
		return
	}
	for _, s := range r.params {
		if s.constant != nil {
			s.constant.Release()
		}
	}
	for _, list := range [][]write{r.outs, r.writes} {
		for _, w := range list {
			if w.copy.constant != nil {
				w.copy.constant.Release()
			}
		}
	}
	if r.program.cache == nil {
		r.program.release()
	}
}
