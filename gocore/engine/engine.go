// Package engine is the core as its callers see it: Trace records an op, Step computes what was
// recorded, Fetch and Upload move data. It holds the process's only global state.
//
// One lock, gate.mu, guards the storages and the graphs. It is held while an op is recorded and while
// a sync is planned, not while a program compiles or runs; so recording goes on meanwhile. With SPMD nothing is
// recorded while a program compiles: how its results lie, which the compiler chooses, is part of the graph that
// follows. See compiling.go.
//
// The engine is divided into parts; see docs/adr/0018-the-engine-is-divided.md.
//
// # Errors
//
// Errors are those of package errs. Every call may give errs.Runtime: no device is open, or there is no device or
// storage of a number. A call that takes the lock gives errs.Busy while a program is compiled that has to come first:
// the caller repeats it. A call that reads a value, or waits, gives the error of the program that computes it. That is
// errs.NotLower or errs.Compile before it runs, then errs.Xla, errs.OOM, errs.LinAlg or errs.Donated. The comment of a
// method names others.
//
// The package may import every other core package; bindings import no other core package but this one.
package engine

import (
	"github.com/google/uuid"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Engine is the state of a process: the lock and the parts that share it. Each part owns its fields, and has what it is
// built on as an embedded field; see docs/adr/0018-the-engine-is-divided.md. Use Default.
type Engine struct {
	*state
	*generators
	*recorder
	*planner
	*layouter
	*checker
	*steps
	*transfers
	*snapshots
	*partitioner
	*replays
	*functions
	*inspector
	*lowerings
	compilers
	jobs
	where locations // has a lock of its own
}

// New is an engine whose device is not open.
func New() *Engine {
	e := &Engine{state: &state{}}
	e.generators = &generators{state: e.state}
	e.recorder = &recorder{state: e.state, generators: e.generators}
	e.planner = &planner{state: e.state, where: &e.where, run: uuid.New()}
	e.layouter = &layouter{e.planner}
	e.checker = &checker{e.layouter}
	e.steps = &steps{e.checker}
	e.transfers = &transfers{checker: e.checker}
	e.snapshots = &snapshots{transfers: e.transfers}
	e.partitioner = &partitioner{e.transfers, e.generators}
	e.replays = &replays{planner: e.planner, generators: e.generators}
	e.functions = &functions{planner: e.planner, held: make(map[string]int), defined: make(map[string]*Signature), texts: make(map[string]string)}
	e.inspector = &inspector{e.planner}
	e.lowerings = &lowerings{e.planner, e.generators, e.replays}
	return e
}

// Location is the number of a source line, from 1.
func (e *Engine) Location(file string, line int) int32 { return e.where.number(file, line) }

// torchKernelsLost counts devices on which torch's kernels were wanted and could not be had.
var torchKernelsLost = metrics.C("TorchKernelsMissing")

// Default is the process's engine.
var Default = New()

// Settings say which device to open.
type Settings struct {
	Library string         // absolute path of the plugin
	Preload []string       // libraries that the plugin needs loaded before it
	Options map[string]any // create options of the plugin's client
	Flags   map[string]any // options of XLA that every program is compiled with
	Torch   string         // absolute path of the libtorch_cpu that the process has loaded; empty: none
	// GradientKeys are the dispatch keys by which that library looks after gradients; see torchcpu.Register.
	GradientKeys uint64
}

// Open loads the plugin and creates the client, in the job that ReachJob has joined. Opening again does nothing. A
// library that cannot be loaded, a plugin that opens no device, and a job that does not come together are
// RuntimeErrors.
func (e *Engine) Open(s Settings) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open.Load() {
		return nil
	}
	for _, lib := range s.Preload {
		if err := pjrt.Preload(lib); err != nil {
			return errs.Wrap(errs.Runtime, err, "")
		}
	}
	plugin, err := pjrt.Load(s.Library)
	if err != nil {
		return errs.Wrap(errs.Runtime, err, "")
	}
	job, err := e.meet()
	if err != nil {
		return err
	}
	client, err := runtime.Open(plugin, s.Options, job)
	if err != nil {
		return errs.Wrap(errs.KindOf(err), err, "%s opens no device: %v", s.Library, err)
	}
	client.Flags = s.Flags
	if dir := config.String("XLA_PERSISTENT_CACHE_PATH"); dir != "" {
		stamp := client.PJRT.PlatformName() + "\n" + client.PJRT.PlatformVersion() + "\n" + config.String("XLA_FLAGS")
		room := config.Number("TORCH_GO_XLA_PERSISTENT_CACHE_MB") << 20
		if e.disk, err = cache.OpenDisk(dir, stamp, room, config.On("XLA_PERSISTENT_CACHE_READ_ONLY")); err != nil {
			warn("XLA_PERSISTENT_CACHE_PATH is not used: %v", err)
		}
	}
	if s.Torch != "" && config.On("TORCH_GO_XLA_TORCH_KERNELS") && client.PJRT.PlatformName() == torchcpu.Platform {
		if err := torchcpu.Register(plugin, s.Torch, s.GradientKeys); err == nil {
			e.torchKernels = true
		} else { // XLA's own serve, more slowly
			torchKernelsLost.Add(1)
		}
	}
	e.hostMemory = client.PJRT.PlatformName() != torchcpu.Platform
	e.syncWaits = config.On("XLA_SYNC_WAIT")
	e.shardy = config.On("CONVERT_SHLO_TO_SHARDY")
	which, _ := checksOf(config.String("TORCH_GO_XLA_CHECK")) // Configure has refused what it cannot read
	e.checking.Store(uint32(which))
	e.use(client)
	return nil
}

// use starts with an open client. The caller holds mu.
func (e *Engine) use(client *runtime.Client) {
	n := len(client.Devices)
	client.Recorder = func(o runtime.Origin) string { return ops.At(ir.Op(o.Op), e.where.Where(o.Loc)) }
	e.client, e.store = client, alias.NewStore(n)
	e.devices.Store(&client.Devices)
	e.generators.start(n)
	e.tracing = make([]profile.Span, n)
	e.zeros = make([]zeros, n)
	e.ctx.Replicas = 1
	if client.Job != nil {
		e.ctx.Replicas = client.Job.Count
	}
	e.cache = newCache(client.Devices[0])
	e.ctx.Functions = make(map[string]*stablehlo.Function)
	if e.ctx.DefaultFloat == dtype.Invalid {
		e.ctx.DefaultFloat = dtype.F32
	}
	e.open.Store(true)
	e.opened()
}
