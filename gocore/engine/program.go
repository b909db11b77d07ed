package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

// programKey is everything that a compiled program depends on. That is the graph (lazy.Key), the device that it is
// assigned to, and the options of the lowering and of the compiler.
type programKey struct {
	graph     lazy.Key
	dev       int32
	precision stablehlo.Precision
	locations bool
	donate    bool
}

// program is a lowered graph, compiled at first use. It is counted: the cache holds a reference, and so
// does each launch.
type program struct {
	key     programKey
	dev     *runtime.Device
	results []*shape.Shape
	donors  []int32 // see lower.Program
	text    *lower.Program
	lower   func() (*lower.Program, []error) // makes text and lost; see lowered
	lost    []error                          // for each result, why text does not compute it; nil: it computes all
	// joint says that the processes of a job run the program together: as replicas, see lower.Program, or as
	// partitions.
	joint    bool
	recorded int64       // see profile.Number
	title    string      // see title; "" for what is not a graph of the user's
	disk     *cache.Disk // nil: none
	// shardings are those of the results; nil without SPMD.
	shardings []*sharding.Sharding

	ops         *interpretable // nil: its graph cannot run op by op, or need not; see tier.go
	considered  bool           // ops says which
	compileOnly bool           // where XLA_TIER is compile, it is compiled

	refs     atomic.Int32
	lowering sync.Once
	once     sync.Once
	compiled atomic.Bool
	exe      *runtime.Executable
	err      error
	cache    *cache.Cache[programKey, *program] // that it is in; nil: none
}

var (
	compileTime   = metrics.M("CompileTime", "ns")
	lowerTime     = metrics.M("LowerTime", "ns")
	uncached      = metrics.C("UncachedCompile")
	cachedCompile = metrics.C("CachedCompile")
	graphSize     = metrics.M("TensorsGraphSize", "")
	aliased       = metrics.M("InputOutputAliasCount", "") // parameters that a program may take over
	diskHits      = metrics.C("PersistentCacheHit")
	diskMisses    = metrics.C("PersistentCacheMiss")
	diskDamaged   = metrics.C("PersistentCacheDeserializeFailure")
	diskUnsaved   = metrics.C("PersistentCacheSaveFailure")
	graphsUnsaved = metrics.C("SaveTensorsFileFailure")
)

func newProgram(key programKey, dev *runtime.Device, lp *lower.Program, in *cache.Cache[programKey, *program]) *program {
	p := &program{key: key, dev: dev, text: lp, results: lp.Results, donors: lp.Donors,
		joint: lp.Replicas && dev.Replicas() != nil || dev.Spans(), recorded: profile.Number(), cache: in}
	p.refs.Store(1)
	return p
}

// lowered is the program as it is compiled. That of a graph which runs op by op is made when it is needed first. With
// an error it computes only the results that can be lowered.
func (p *program) lowered() (*lower.Program, error) {
	p.lowering.Do(func() {
		if p.lower == nil {
			return
		}
		text, lost := p.lower()
		if p.lower, p.lost = nil, lost; text != nil {
			p.text = text
		}
	})
	return p.text, cmp.Or(p.lost...)
}

// packs are the numbers of a launch as the compiled program takes them.
func (p *program) packs(numbers []ir.Number) (packs []runtime.Pack) {
	text, _ := p.lowered()
	for _, dt := range text.Packs {
		packs = append(packs, pack(numbers, dt))
	}
	return packs
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

// startsOpByOp reports that the program's graph runs op by op first, whatever its module is.
func (p *program) startsOpByOp() bool {
	t := mode()
	return p.ops != nil && (p.ops.lone || t == eagerTier || t == autoTier && p.disk == nil)
}

// Executable compiles the program, once, and returns the result. It implements runtime.Program.
func (p *program) Executable() (*runtime.Executable, error) {
	p.once.Do(p.compile)
	return p.exe, p.err
}

// Prompt reports that running the program waits for nothing. It implements runtime.Program.
func (p *program) Prompt() bool { return p.compiled.Load() && !p.joint }

func (p *program) compile() {
	defer p.compiled.Store(true)
	defer func() {
		if r := recover(); r != nil {
			p.err = errs.New(errs.Compile, "internal error while compiling: %v", r)
		}
	}()
	text, err := p.lowered()
	if err != nil {
		p.err = err
		return
	}
	var key string
	if p.disk != nil {
		key = p.diskKey()
		if p.exe = p.load(key); p.exe != nil {
			p.weigh()
			return
		}
	}
	start, span := time.Now(), profile.Begin().Of(p.recorded)
	uncached.Add(1)
	announced(p.title, func() {
		p.exe, p.err = p.dev.Compile(text.Module, p.params(), runtime.Division{Open: text.Open, Shardy: text.Shardy, Replicas: p.joint})
	})
	compileTime.Since(start)
	span.End(profile.Compile, int64(len(text.Module)))
	if p.err != nil {
		p.forget()
		return
	}
	p.weigh()
	if p.disk != nil {
		p.store(key)
	}
}

// diskKey names the compiled program in the disk cache.
func (p *program) diskKey() string {
	text, _ := p.lowered()
	return cache.Key(text.Module, fmt.Append(nil, p.dev.IDs(), text.Open, p.assignment()))
}

// forget takes the program out of the cache, so that the next sync tries again.
func (p *program) forget() {
	if p.cache != nil {
		p.cache.Remove(p.key)
	}
}

// What XLA keeps of a compiled program in the process's memory beside its code. That is the HLO, the buffer
// assignment, object files and thunks, and what the heap loses between them. Plugins do not say, and XLA:CPU does not
// know its code's size. It was measured: 12 to 18 MB for steps of transformers of 0.16 to 0.24 MB of text.
const (
	keptOfAny  = 1 << 19
	keptOfByte = 70 // of the program's text
)

// weigh tells the cache what the program takes.
func (p *program) weigh() {
	if p.cache == nil {
		return
	}
	p.cache.Weigh(p.key, p.exe.CodeBytes()+keptOfAny+keptOfByte*int64(len(p.text.Module)))
}

// Bisect implements runtime.Program.
func (p *program) Bisect() runtime.Bisection {
	if p.joint {
		return nil // the other processes do not run it again
	}
	text, _ := p.lowered()
	c, ok := stablehlo.Bisect(text.Module)
	if !ok {
		return nil
	}
	if params, results := c.Size(); params != p.params() || results != len(text.Results) {
		return nil
	}
	b := &bisection{module: c, of: p, place: make([]int, len(p.results))}
	next := 0
	for r := range b.place {
		if b.place[r] = next; b.Lost(r) == nil {
			next++
		}
	}
	return b
}

// bisection is a program in parts.
type bisection struct {
	module *stablehlo.Bisection
	of     *program
	place  []int // of each result among those that the module computes
}

// Lost implements runtime.Bisection.
func (c *bisection) Lost(result int) error {
	if c.of.lost == nil {
		return nil
	}
	return c.of.lost[result]
}

func (c *bisection) places(results []int) (places []int) {
	for _, r := range results {
		places = append(places, c.place[r])
	}
	return places
}

// Need implements runtime.Bisection.
func (c *bisection) Need(results []int) (args []int, ops int) {
	return c.module.Need(c.places(results))
}

// Compile implements runtime.Bisection.
func (c *bisection) Compile(results []int) (x *runtime.Executable, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.New(errs.Compile, "internal error while compiling: %v", r)
		}
	}()
	args, _ := c.Need(results)
	uncached.Add(1)
	return c.of.dev.Compile(c.module.Module(c.places(results)), len(args), runtime.Division{})
}

// resolveShardings finds out how the results of the compiled program are sharded. That is part of the key of the
// programs which read them. If the program cannot be compiled, running it says so.
func (p *program) resolveShardings(roots []lazy.Root) {
	p.shardings = make([]*sharding.Sharding, len(roots))
	for i, r := range roots {
		if p.shardings[i] = r.Sharding; r.Sharding == nil {
			p.shardings[i] = sharding.Everywhere
		}
	}
	exe, err := p.Executable()
	if err != nil || !slices.Contains(p.text.Open, true) {
		return
	}
	got, err := exe.Results()
	if err == nil && len(got) != len(roots) {
		err = errs.New(errs.Compile, "the compiler gives the shardings of %d results, there are %d", len(got), len(roots))
	}
	if err != nil {
		p.err = err
		p.forget()
		return
	}
	for i, open := range p.text.Open {
		if open {
			p.shardings[i] = got[i]
		}
	}
}

// assignment is the devices of the replicas, nil if there is one.
func (p *program) assignment() []int {
	if p.joint {
		return p.dev.Replicas()
	}
	return nil
}

// params is the number of the module's parameters, once it is lowered.
func (p *program) params() int { return len(p.donors) + len(p.text.Packs) }

// load takes the program from the disk, nil if it is not there or not usable: then it is compiled.
func (p *program) load(key string) *runtime.Executable {
	span := profile.Begin().Of(p.recorded)
	data, err := p.disk.Get(key)
	if err == nil {
		var exe *runtime.Executable
		if exe, err = p.dev.Load(data, p.params(), p.joint); err == nil {
			span.End(profile.Load, int64(len(data)))
			diskHits.Add(1)
			return exe
		}
	}
	diskMisses.Add(1)
	if !errors.Is(err, fs.ErrNotExist) {
		diskDamaged.Add(1)
		warn("a program of the persistent cache is not usable and is compiled again: %v", err)
	}
	return nil
}

// warn tells the user of something that costs only time.
func warn(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "torch_go_xla: warning: "+format+"\n", args...)
}

// store keeps the program for later processes. A device that cannot serialize, or a full disk, costs only that.
func (p *program) store(key string) {
	data, err := p.exe.PJRT().Serialize()
	if err == nil {
		err = p.disk.Put(key, data)
	}
	if err != nil {
		diskUnsaved.Add(1)
	}
}

func (p *program) retain() { p.refs.Add(1) }

// acquire takes a reference, unless the last one has gone. Between a look-up and the use of what was found, a program
// that compiles in its goroutine may push others out of the cache.
func (p *program) acquire() bool {
	for {
		switch n := p.refs.Load(); {
		case n == 0:
			return false
		case p.refs.CompareAndSwap(n, n+1):
			return true
		}
	}
}

func (p *program) release() {
	if p.refs.Add(-1) != 0 {
		return
	}
	if p.ops != nil {
		p.ops.steps.Close()
	}
	if p.exe != nil {
		p.exe.Release()
	}
}

func (p *program) collectives() ([]hlo.Collective, error) {
	exe, err := p.Executable()
	if err != nil {
		return nil, err
	}
	module, err := exe.Module()
	if err != nil {
		return nil, err
	}
	return append([]hlo.Collective{}, hlo.Collectives(module)...), nil
}
