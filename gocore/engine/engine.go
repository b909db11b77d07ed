// Package engine is the core as its callers see it: Trace records an op, Sync computes what was
// recorded, Fetch and Upload move data. It holds the process's only global state.
//
// One lock, Engine.mu, guards the storages and the graphs. It is held while an op is recorded and while
// a sync is planned, not while a program compiles or runs; so recording goes on meanwhile. With SPMD nothing is
// recorded while a program compiles: how its results lie, which the compiler chooses, is part of the graph that
// follows. See compiling.go.
//
// The package may import every other core package; bindings import no other core package but this one.
package engine

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/cache"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/torchcpu"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Engine is the state of a process. Use Default.
type Engine struct {
	mu               sync.Mutex
	compiling        chan struct{} // closed when the engine may be used again; nil: it may be. See compiling.go
	unreported       error         // of a flush that its caller did not wait for
	open             atomic.Bool   // set once the device is open
	client           *runtime.Client
	devices          atomic.Pointer[[]*runtime.Device] // as torch sees them
	store            *alias.Store
	ctx              ops.Ctx
	plan             lazy.Plan
	cache            *cache.Cache[programKey, *program]
	disk             *cache.Disk // programs shared with other processes; nil: none
	scratch          scratch
	generators       generators
	zeros            []zeros // by device
	where            locations
	snapshots        snapshots
	history          history
	tracing          []profile.Span // by device: since its graph has nodes
	watching         bool           // see Watch
	watched          []*program     // with a reference each
	replays          replays
	loans            loans
	functions        []string             // names of ctx.Functions, the latest last
	crowdedFunctions int                  // how many may be kept, if more than idleFunctions
	precision        stablehlo.Precision  // of matrix products and convolutions
	exchanges        map[string]*exchange // under way, by tag
	// Run identifies the process in dumps and profiles.
	Run uuid.UUID
	// TakeDead fills dst with handles of storages that died and returns their number; the kernels'
	// side sets it.
	TakeDead      func(dst []uint64) int
	torchKernels  bool        // programs may call them
	syncWaits     bool        // XLA_SYNC_WAIT
	shardy        bool        // CONVERT_SHLO_TO_SHARDY
	checksIndices atomic.Bool // XLA_CHECK_INDICES
	checks        []indexCheck
	joined        membership
}

// Handle names a storage; see alias.Handle.
type Handle = alias.Handle

// zeros are the buffers that the latest graph's new storages began with, by shape, with a reference each.
type zeros map[*shape.Shape]*runtime.Buffer

// scratch is memory that Trace uses again for every op; mu guards it.
type scratch struct {
	words     []int64
	in        []ir.ID
	generator int64        // the number of the generator argument, -1: none
	reads     []alias.View // the tensor operands that must not overlap with what is written
	dests     []dest
	ofCall    []ir.ID // leaves of numbers that the elements of a foreach call share; see number
	dead      [256]uint64
	slots     []uint32

	numbers []ir.Number
	handles []alias.Handle
}

// torchKernelsLost counts devices on which torch's kernels were wanted and could not be had.
var torchKernelsLost = metrics.C("TorchKernelsMissing")

// Default is the process's engine.
var Default = &Engine{Run: uuid.New()}

// Settings say which device to open.
type Settings struct {
	Library string         // absolute path of the plugin
	Preload []string       // libraries that the plugin needs loaded before it
	Options map[string]any // create options of the plugin's client
	Torch   string         // absolute path of the libtorch_cpu that the process has loaded; empty: none
}

// Open loads the plugin and creates the client, in the job that ReachJob has joined. Opening again does nothing.
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
	if dir := config.String("XLA_PERSISTENT_CACHE_PATH"); dir != "" {
		stamp := client.PJRT.PlatformName() + "\n" + client.PJRT.PlatformVersion() + "\n" + config.String("XLA_FLAGS")
		room := config.Number("TORCH_GO_XLA_PERSISTENT_CACHE_MB") << 20
		if e.disk, err = cache.OpenDisk(dir, stamp, room, config.On("XLA_PERSISTENT_CACHE_READ_ONLY")); err != nil {
			warn("XLA_PERSISTENT_CACHE_PATH is not used: %v", err)
		}
	}
	if s.Torch != "" && config.On("TORCH_GO_XLA_TORCH_KERNELS") && client.PJRT.PlatformName() == torchcpu.Platform {
		if err := torchcpu.Register(plugin, s.Torch); err == nil {
			e.torchKernels = true
		} else { // XLA's own serve, more slowly
			torchKernelsLost.Add(1)
		}
	}
	e.syncWaits = config.On("XLA_SYNC_WAIT")
	e.shardy = config.On("CONVERT_SHLO_TO_SHARDY")
	e.checksIndices.Store(config.On("XLA_CHECK_INDICES"))
	e.use(client)
	return nil
}

// use starts with an open client. The caller holds mu.
func (e *Engine) use(client *runtime.Client) {
	n := len(client.Devices)
	client.Recorder = func(o runtime.Origin) string { return ops.At(ir.Op(o.Op), e.Where(o.Loc)) }
	e.client, e.store = client, alias.NewStore(n)
	e.devices.Store(&client.Devices)
	e.generators = newGenerators(n)
	e.tracing = make([]profile.Span, n)
	e.zeros = make([]zeros, n)
	e.ctx.Replicas = 1
	if client.Job != nil {
		e.ctx.Replicas = client.Job.Count
	}
	e.cache = newCache()
	e.ctx.Functions = make(map[string]*stablehlo.Function)
	if e.ctx.DefaultFloat == dtype.Invalid {
		e.ctx.DefaultFloat = dtype.F32
	}
	e.open.Store(true)
}

func newCache() *cache.Cache[programKey, *program] {
	return cache.New[programKey](int(config.Number("XLA_COMPILATION_CACHE_SIZE")), config.Number("TORCH_GO_XLA_COMPILATION_CACHE_MB")<<20,
		func(p *program) { p.release() })
}

// check is the error of a call that needs an open device.
func (e *Engine) check() error {
	if !e.open.Load() {
		return errs.New(errs.Runtime, "no device is open")
	}
	return nil
}

// device is the device of an index.
func (e *Engine) device(dev int) (*runtime.Device, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	if n := e.DeviceCount(); dev < 0 || dev >= n {
		return nil, errs.New(errs.Runtime, "xla:%d: invalid device ordinal; this process has %d xla device(s), xla:0 to xla:%d", dev, n, n-1)
	}
	return e.at(int32(dev)), nil
}

// at is the device of a cell.
func (e *Engine) at(dev int32) *runtime.Device { return (*e.devices.Load())[dev] }

// SetDefaultFloat follows torch.set_default_dtype.
func (e *Engine) SetDefaultFloat(torchCode int) error {
	d := dtype.FromTorch(torchCode)
	if !d.IsFloat() {
		return errs.New(errs.Type, "the default dtype must be a floating type")
	}
	e.mu.Lock()
	e.ctx.DefaultFloat = d
	e.mu.Unlock()
	return nil
}

// Precision sets the operand precision of the matrix products and convolutions of programs that are lowered from
// now on, "default", "high" or "highest", unless name is empty; it returns the one that counts.
func (e *Engine) Precision(name string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name != "" {
		p, ok := stablehlo.ParsePrecision(name)
		if !ok {
			return "", errs.New(errs.Value, "precision %q: want default, high or highest", name)
		}
		e.precision = p
	}
	return strings.ToLower(e.precision.String()), nil
}

// Alloc makes a storage of a number of bytes, not yet written.
func (e *Engine) Alloc(bytes int64, dev int32) (alias.Handle, error) {
	if err := e.lock(); err != nil {
		return 0, err
	}
	defer e.mu.Unlock()
	if err := e.check(); err != nil {
		return 0, err
	}
	if _, err := e.device(int(dev)); err != nil {
		return 0, err
	}
	return e.store.New(bytes, dev)
}

// Release frees the cells of storages that have died.
func (e *Engine) Release(handles []uint64) {
	e.lockWhenIdle()
	defer e.mu.Unlock()
	if e.check() == nil {
		e.release(handles)
	}
}

// idleGraph is how many nodes that no storage needs any more a graph may hold, at least: a program that drops
// its results unread never syncs.
const idleGraph = 1 << 12

// crowded reports that a graph has grown enough to look for what nobody needs of it.
func crowded(t *alias.Trace) bool { return t.Graph.Len() > max(idleGraph, t.Crowded) }

func (e *Engine) release(handles []uint64) {
	for _, h := range handles {
		e.store.Release(alias.Handle(h))
	}
	for dev := range e.store.Devices() {
		switch t := e.store.Trace(int32(dev)); {
		case t.Graph.Len() <= idleGraph:
		case t.Idle():
			e.discard(t)
		case crowded(t):
			e.store.Compact(int32(dev))
			t.Crowded = idleGraph + 2*t.Graph.Len() + e.store.Live()
		}
	}
}

// drain frees the cells of the storages that the kernels' side knows to have died. What is dead must be
// known before a sync: it decides what is computed and what may be donated.
func (e *Engine) drain() {
	if e.TakeDead == nil {
		return
	}
	for {
		n := e.TakeDead(e.scratch.dead[:])
		e.release(e.scratch.dead[:n])
		if n < len(e.scratch.dead) {
			return
		}
	}
}

// LiveStorages is the number of storages in use.
func (e *Engine) LiveStorages() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.check() != nil {
		return 0
	}
	if e.compiling == nil {
		e.drain()
	}
	return e.store.Live()
}
