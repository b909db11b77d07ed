package engine

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// placeholder is the buffer of a storage that stands for an argument of a function being traced. It has no
// value: what is computed of it becomes a function, and is an error if it is read before.
type placeholder struct{}

func (placeholder) Retain()                      {}
func (placeholder) Release()                     {}
func (placeholder) Err() error                   { return nil }
func (placeholder) Donating() bool               { return false }
func (placeholder) Sharding() *sharding.Sharding { return nil }

var errPlaceholder = errs.New(errs.Runtime, "this tensor depends on an argument of a function that is being traced: it has no value")

// Placeholder makes a storage stand for an argument of a function, a dense array.
func (e *Engine) Placeholder(handle int64, torchType int, dims []int64) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.mu.Unlock()
	h := alias.Handle(handle)
	if _, err := e.cell(h); err != nil {
		return err
	}
	if e.spmd() {
		return errs.New(errs.NotLower, "a function cannot be traced with SPMD")
	}
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	e.store.SetDevice(e.store.Slot(h), shape.Of(d, dims), placeholder{})
	return nil
}

// Function keeps what is recorded of the storages outs, as a function of the storages args, for ops of
// control flow to call, and returns its name. Equal ones are one. It is kept while recorded ops call it, and until
// many others have been made.
func (e *Engine) Function(args, outs []int64) (string, error) {
	if err := e.lock(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	b, err := e.function(args, outs)
	if err != nil {
		return "", err
	}
	f, err := b.Function()
	if err != nil {
		return "", errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	e.keep(f)
	return f.Name, nil
}

// idleFunctions is how many functions are kept at least.
const idleFunctions = 256

// keep adds a function as the latest, and drops the older half of too many as far as nothing recorded calls them.
func (e *Engine) keep(f *stablehlo.Function) {
	if i := slices.Index(e.functions, f.Name); i >= 0 {
		e.functions = slices.Delete(e.functions, i, i+1)
	}
	if len(e.functions) >= max(idleFunctions, e.crowdedFunctions) {
		called := e.called()
		n := len(e.functions) / 2
		old := slices.DeleteFunc(e.functions[:n:n], func(name string) bool {
			if called[name] {
				return false
			}
			delete(e.ctx.Functions, name)
			return true
		})
		e.functions = append(old, e.functions[n:]...)
		e.crowdedFunctions = 2 * len(old)
	}
	e.functions = append(e.functions, f.Name)
	e.ctx.Functions[f.Name] = f
}

var opCond, opWhile, opScan = control("cond"), control("while_loop"), control("scan")

func control(name string) ir.Op {
	op, ok := ops.Lookup("torch_go_xla::" + name)
	if !ok {
		panic("there is no row " + name)
	}
	return op
}

// called are the functions that recorded ops call.
func (e *Engine) called() map[string]bool {
	found := make(map[string]bool)
	for dev := range e.store.Devices() {
		g := &e.store.Trace(int32(dev)).Graph
		for id := ir.ID(1); int(id) < g.Len(); id++ {
			if op := g.At(id).Op; op != opCond && op != opWhile && op != opScan {
				continue
			}
			var a ir.Args
			a.Node(g, id)
			for i := range a.Len() {
				if a.Kind(i) == wire.KText {
					found[a.Text(i)] = true
				}
			}
		}
	}
	return found
}

// Export returns what is recorded of the storages outs, as a function of the storages args, as a StableHLO
// module.
func (e *Engine) Export(args, outs []int64) (string, error) {
	if err := e.lock(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	b, err := e.function(args, outs)
	if err != nil {
		return "", err
	}
	text, err := b.Bytes()
	if err != nil {
		return "", errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	return string(text), nil
}

func (e *Engine) function(args, outs []int64) (*stablehlo.Builder, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	e.drain()
	all, err := e.handles(args, outs)
	if err != nil {
		return nil, err
	}
	if len(outs) == 0 {
		return nil, errs.New(errs.Value, "a function has to return something")
	}
	var slots []uint32
	for _, h := range all[len(args):] {
		if c, _ := e.store.Cell(h); c.State != alias.Pending {
			return nil, errs.New(errs.Runtime, "a result of the function is not recorded, but %s", c.State)
		}
		slots = append(slots, e.store.Slot(h))
	}
	c, _ := e.store.Cell(all[0])
	t := e.store.Trace(c.Dev)
	e.plan.Build(e.store, t, slots, nil)
	params := make([]lower.Parameter, len(args))
	for i, h := range all[:len(args)] {
		c, _ := e.store.Cell(h)
		params[i] = lower.Parameter{Shape: c.Shape, Leaf: e.store.LeafOf(h)}
		if params[i].Shape == nil {
			return nil, errs.New(errs.Runtime, "argument %d of the function was never written", i)
		}
	}
	results := make([]ir.ID, len(slots))
	for i, slot := range slots {
		results[i] = e.store.At(slot).Value
	}
	return lower.Function(&e.plan, params, results, e.options())
}

// withhold gives the pending storages that depend on arguments of functions being traced an error, and returns
// the others: a sync computes those.
func (e *Engine) withhold(t *alias.Trace, slots []uint32) []uint32 {
	for i := range t.Leaves {
		if leaf := t.Leaves[i]; leaf.Buf == (placeholder{}) {
			slots = e.poison(t, slots, &lower.Failure{Node: leaf.ID, Err: errPlaceholder})
		}
	}
	return slots
}

// LoadProgram compiles a StableHLO module for Replay, which may come from elsewhere (see stablehlo.Foreign). signature is
// what the caller takes it for, as JSON: {"arguments": […], "results": […]}, each an array {"type": number of its
// c10::ScalarType, "dtype": its name in torch, "shape": sizes}. It must be what the program says of itself.
func (e *Engine) LoadProgram(dev int, module, signature string) (int64, error) {
	var in struct{ Arguments, Results []description }
	if err := json.Unmarshal([]byte(signature), &in); err != nil {
		return 0, errs.Wrap(errs.Value, err, "signature: %v", err)
	}
	args, err := shapesOf(in.Arguments)
	if err != nil {
		return 0, err
	}
	results, err := shapesOf(in.Results)
	if err != nil {
		return 0, err
	}
	own, err := stablehlo.Foreign([]byte(module))
	if err != nil {
		return 0, errs.Wrap(errs.Value, err, "%v", err)
	}
	if err := same("arguments", args, own.Params); err != nil {
		return 0, err
	}
	if err := same("results", results, own.Results); err != nil {
		return 0, err
	}
	d, err := e.device(dev)
	if err != nil {
		return 0, err
	}
	r := &replay{dev: d, arguments: len(args), needs: make([]need, len(args)), given: make([]bool, len(args))}
	donors := slices.Repeat([]int32{-1}, len(args))
	for i, s := range args {
		r.needs[i].shape = s
		r.params = append(r.params, source{argument: int32(i)})
	}
	for i, s := range results {
		r.outs = append(r.outs, write{argument: -1, result: int32(i), shape: s})
	}
	r.program = newProgram(programKey{dev: d.Index}, d, &lower.Program{Module: []byte(module), Results: results, Donors: donors}, nil)
	r.program.disk = e.disk
	exe, err := r.program.Executable()
	if err != nil {
		return 0, err
	}
	if err := gives(exe.PJRT(), results); err != nil {
		r.program.release()
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replays.add(r), nil
}

// description is an array of a signature.
type description struct {
	Type  int
	DType string
	Shape []int64
}

func shapesOf(list []description) ([]*shape.Shape, error) {
	out := make([]*shape.Shape, len(list))
	for i, a := range list {
		d := dtype.FromTorch(a.Type)
		if d == dtype.Invalid || d.Torch() != a.DType {
			return nil, errs.New(errs.Value, "signature: type %d is not %.40q", a.Type, a.DType)
		}
		if len(a.Shape) > shape.MaxRank || slices.ContainsFunc(a.Shape, func(n int64) bool { return n < 0 }) {
			return nil, errs.New(errs.Value, "signature: %.100v is not the shape of an array", a.Shape)
		}
		if out[i] = shape.Of(d, a.Shape); out[i].Bytes() == math.MaxInt64 {
			return nil, errs.New(errs.Value, "signature: %s is too large", out[i])
		}
	}
	return out, nil
}

// same compares what a signature says of arguments or results with what the program says.
func same(what string, said, own []*shape.Shape) error {
	if len(said) != len(own) {
		return errs.New(errs.Value, "the program has %d %s, its signature %d", len(own), what, len(said))
	}
	for i := range said {
		if said[i] != own[i] {
			return errs.New(errs.Value, "%s: number %d of the program is %s, of its signature %s", what, i, own[i], said[i])
		}
	}
	return nil
}

// gives compares the results of a compiled program with what its text has promised.
func gives(exe *pjrt.Executable, results []*shape.Shape) error {
	types, err := exe.OutputTypes()
	if err != nil {
		return errs.Wrap(errs.Xla, err, "%v", err)
	}
	dims, err := exe.OutputDims()
	if err != nil {
		return errs.Wrap(errs.Xla, err, "%v", err)
	}
	if len(types) != len(results) || len(dims) != len(results) {
		return errs.New(errs.Value, "the compiled program has %d results, its text %d", len(types), len(results))
	}
	for i, r := range results {
		if int(types[i]) != r.DType.PJRT() || !slices.Equal(dims[i], r.Dims) {
			return errs.New(errs.Value, "result %d of the compiled program is not %s, as its text says", i, r)
		}
	}
	return nil
}
