package engine

import (
	"errors"
	"sync"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// compilers are topologies, whose devices need not be there, and the programs that were compiled for them. They need
// no open device and do not touch the engine's lock.
type compilers struct {
	held       sync.Mutex
	topologies map[int64]*runtime.Topology // guarded by held
	programs   map[int64]*aheadProgram     // guarded by held
	numbers    int64                       // guarded by held; counts up with what is added
}

// aheadProgram is a program that is compiled for a topology.
type aheadProgram struct {
	done chan struct{}
	exe  *pjrt.Compiled // set before done is closed, nil after a failure
	err  error          // set before done is closed
}

// TopologyInfo describes a topology.
type TopologyInfo struct {
	ID         int64          `json:"id"`
	Platform   string         `json:"platform"`
	Version    string         `json:"version"`
	Devices    []AbsentDevice `json:"devices"`
	Attributes map[string]any `json:"attributes"`
}

// AbsentDevice describes a device of a topology.
type AbsentDevice struct {
	ID         int            `json:"id"`
	Process    int            `json:"process"`
	Kind       string         `json:"kind"`
	Text       string         `json:"text"`
	Attributes map[string]any `json:"attributes"`
}

// OpenTopology describes devices that need not be there, by the name and the options that their plugin has for them.
// The error is errs.Runtime if a library cannot be loaded, else the plugin's.
func (c *compilers) OpenTopology(library string, preload []string, name string, opts map[string]any) (*TopologyInfo, error) {
	for _, lib := range preload {
		if err := pjrt.Preload(lib); err != nil {
			return nil, errs.Wrap(errs.Runtime, err, "")
		}
	}
	plugin, err := pjrt.Load(library)
	if err != nil {
		return nil, errs.Wrap(errs.Runtime, err, "")
	}
	t, err := runtime.DescribeDevices(plugin, name, opts)
	if err != nil {
		return nil, errs.Wrap(errs.KindOf(err), err, "%s describes no devices %q: %v", library, name, err)
	}
	info := &TopologyInfo{Platform: t.Platform, Version: t.Version, Devices: []AbsentDevice{}}
	if info.Attributes, err = t.PJRT.Attributes(); err != nil {
		info.Attributes = nil
	}
	for _, d := range t.Devices {
		info.Devices = append(info.Devices, AbsentDevice(d))
	}
	c.held.Lock()
	defer c.held.Unlock()
	if c.topologies == nil {
		c.topologies, c.programs = make(map[int64]*runtime.Topology), make(map[int64]*aheadProgram)
	}
	c.numbers++
	info.ID = c.numbers
	c.topologies[info.ID] = t
	return info, nil
}

// CloseTopology forgets a topology. Programs that were compiled for it stay.
func (c *compilers) CloseTopology(id int64) error {
	c.held.Lock()
	t := c.topologies[id]
	delete(c.topologies, id)
	c.held.Unlock()
	if t == nil {
		return nil
	}
	return runtime.Translate(t.PJRT.Close())
}

// CompileAhead starts to compile a program for the first devices of a topology, and returns its number. CompiledAhead
// waits for the compiler. flags are options of XLA. The error is errs.Value if there is no such topology.
func (c *compilers) CompileAhead(topology int64, in *Lowered, flags map[string]any) (int64, error) {
	c.held.Lock()
	defer c.held.Unlock()
	t := c.topologies[topology]
	if t == nil {
		return 0, errs.New(errs.Value, "%d is not the number of a topology", topology)
	}
	p := &aheadProgram{done: make(chan struct{})}
	go p.compile(t, in, flags)
	c.numbers++
	c.programs[c.numbers] = p
	return c.numbers, nil
}

func (p *aheadProgram) compile(t *runtime.Topology, in *Lowered, flags map[string]any) {
	defer close(p.done)
	defer func() {
		if r := recover(); r != nil {
			p.err = errs.New(errs.Compile, "internal error while compiling: %v", r)
		}
	}()
	p.exe, p.err = t.Compile([]byte(in.Text), in.Partitions, runtime.Division{Open: in.Open, Shardy: in.Shardy}, flags)
}

func (c *compilers) ahead(id int64) (*aheadProgram, error) {
	c.held.Lock()
	defer c.held.Unlock()
	if p := c.programs[id]; p != nil {
		return p, nil
	}
	return nil, errs.New(errs.Value, "%d is not the number of a program that was compiled ahead", id)
}

// CompiledAhead waits until a program is compiled, or until the timeout; done is false if it expired. The error is
// errs.Value for an unknown number; else it says why the program cannot be compiled, here and in the calls below.
func (c *compilers) CompiledAhead(id int64, timeout time.Duration) (done bool, err error) {
	p, err := c.ahead(id)
	if err != nil {
		return false, err
	}
	select {
	case <-p.done:
		return true, p.err
	case <-time.After(timeout):
		return false, nil
	}
}

// executable is a program that is compiled.
func (c *compilers) executable(id int64) (*pjrt.Compiled, error) {
	p, err := c.ahead(id)
	if err != nil {
		return nil, err
	}
	if <-p.done; p.err != nil {
		return nil, p.err
	}
	return p.exe, nil
}

// AheadMemory is what a program needs on each device, in bytes.
func (c *compilers) AheadMemory(id int64) (pjrt.CompiledMemory, error) {
	x, err := c.executable(id)
	if err != nil {
		return pjrt.CompiledMemory{}, err
	}
	m, err := x.MemoryStats()
	return m, runtime.Translate(err)
}

// AheadCost is the compiler's estimate of one run of a program, empty if the plugin has none.
func (c *compilers) AheadCost(id int64) (map[string]any, error) {
	x, err := c.executable(id)
	if err != nil {
		return nil, err
	}
	cost, err := x.CostAnalysis()
	var e *pjrt.Error
	if errors.As(err, &e) && e.Code == pjrt.Unimplemented {
		return map[string]any{}, nil
	}
	return cost, runtime.Translate(err)
}

// AheadModule is a program as the compiler left it; see package hlo.
func (c *compilers) AheadModule(id int64) ([]byte, error) {
	x, err := c.executable(id)
	if err != nil {
		return nil, err
	}
	return runtime.Optimized(x)
}

// AheadProgram is what an optimized program holds.
func (c *compilers) AheadProgram(id int64) (*hlo.Program, error) {
	module, err := c.AheadModule(id)
	if err != nil {
		return nil, err
	}
	return hlo.Read(module), nil
}

// AheadText is an optimized program as text.
func (c *compilers) AheadText(id int64) (string, error) {
	module, err := c.AheadModule(id)
	if err != nil {
		return "", err
	}
	return hlo.Text(module), nil
}

// AheadExecutable is a compiled program as LoadLowered takes it, for a plugin of the same version. The error is what
// the compiler or the plugin refuses.
func (c *compilers) AheadExecutable(id int64) ([]byte, error) {
	x, err := c.executable(id)
	if err != nil {
		return nil, err
	}
	data, err := x.Serialize()
	return data, runtime.Translate(err)
}

// DropAhead forgets a program.
func (c *compilers) DropAhead(id int64) {
	c.held.Lock()
	p := c.programs[id]
	delete(c.programs, id)
	c.held.Unlock()
	if p == nil {
		return
	}
	go func() { // it may be compiling
		defer func() { _ = recover() }()
		if <-p.done; p.exe != nil {
			_ = p.exe.Close()
		}
	}()
}
