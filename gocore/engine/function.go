package engine

import (
	"encoding/json"
	"math"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/sharding"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
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
	e.mu.Lock()
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
// control flow to call, and returns its name. Functions are kept for good; equal ones are one.
func (e *Engine) Function(args, outs []int64) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.function(args, outs)
	if err != nil {
		return "", err
	}
	f, err := b.Function()
	if err != nil {
		return "", errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	e.ctx.Functions[f.Name] = f
	return f.Name, nil
}

// Export returns what is recorded of the storages outs, as a function of the storages args, as a StableHLO
// module.
func (e *Engine) Export(args, outs []int64) (string, error) {
	e.mu.Lock()
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

// LoadProgram compiles a StableHLO module for Replay. signature is JSON: {"arguments": […], "results": […]},
// each an array as [number of its c10::ScalarType, sizes…].
func (e *Engine) LoadProgram(dev int, module, signature string) (int64, error) {
	var in struct{ Arguments, Results [][]int64 }
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
	d, err := e.device(dev)
	if err != nil {
		return 0, err
	}
	r := &replay{dev: d, arguments: len(args), needs: make([]need, len(args)), given: make([]bool, len(args))}
	donors := make([]int32, len(args))
	for i, s := range args {
		r.needs[i].shape, donors[i] = s, -1
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
	if n := exe.PJRT().NumOutputs(); n != len(results) {
		r.program.release()
		return 0, errs.New(errs.Value, "the program has %d results, its signature %d", n, len(results))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replays.add(r), nil
}

func shapesOf(lists [][]int64) ([]*shape.Shape, error) {
	out := make([]*shape.Shape, len(lists))
	for i, list := range lists {
		if len(list) == 0 || list[0] < 0 || list[0] > math.MaxInt8 || dtype.FromTorch(int(list[0])) == dtype.Invalid {
			return nil, errs.New(errs.Value, "signature: %d is no array: want [type, sizes…]", list)
		}
		out[i] = shape.Of(dtype.FromTorch(int(list[0])), list[1:])
	}
	return out, nil
}
