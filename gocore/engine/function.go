package engine

import (
	"slices"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/gocore/wire"
)

// functions are the functions that ops of control flow may call.
type functions struct {
	*planner
	names []string       // of ctx.Functions, the latest last; guarded by mu, changes when one is kept
	most  int            // how many may be kept, if more than idleFunctions; guarded by mu, changes when old ones are dropped
	held  map[string]int // how many callers hold a function, by name; guarded by mu, Function and Define add, DropFunction removes

	// Guarded by mu; they change when a function is defined, and when one is dropped.
	defined map[string]*Signature // by the text
	texts   map[string]string     // of Define, by name
}

// Signature is the name of a function, and the arrays that it takes and returns.
type Signature struct {
	Name      string        `json:"name"`
	Arguments []description `json:"arguments"`
	Results   []description `json:"results"`
}

// Placeholder makes a storage stand for an argument of a function, a dense array. The error is errs.NotLower with
// SPMD, and errs.Type for a type that devices do not have.
func (fs *functions) Placeholder(handle int64, torchType int, dims []int64) error {
	if err := fs.lock(); err != nil {
		return err
	}
	defer fs.mu.Unlock()
	h := alias.Handle(handle)
	if _, err := fs.cell(h); err != nil {
		return err
	}
	if fs.spmd() {
		return errs.New(errs.NotLower, "a function cannot be traced with SPMD")
	}
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	fs.store.SetDevice(fs.store.Slot(h), shape.Of(d, dims), placeholder{})
	return nil
}

// Function keeps what is recorded of the storages outs, as a function of the storages args, for ops of
// control flow to call. Equal ones are one. It is kept until DropFunction, and longer while recorded ops call it.
//
// A result that is not recorded, or an argument without a value, is an errs.Runtime; no results are an errs.Value; an
// op without a lowering is an errs.NotLower, and what cannot be lowered otherwise an errs.Compile.
func (fs *functions) Function(args, outs []int64) (*Signature, error) {
	if err := fs.lock(); err != nil {
		return nil, err
	}
	defer fs.mu.Unlock()
	b, err := fs.function(args, outs)
	if err != nil {
		return nil, err
	}
	f, err := b.Function()
	if err != nil {
		return nil, errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	fs.keep(f)
	fs.held[f.Name]++
	return signature(f), nil
}

// Define keeps what @main of a StableHLO module computes, as a function for the op call (see stablehlo.Written). Equal
// texts are one function. It is kept as one of Function is. A text that is not such a module is an errs.Value.
func (fs *functions) Define(module string) (*Signature, error) {
	if err := fs.lock(); err != nil {
		return nil, err
	}
	defer fs.mu.Unlock()
	if d := fs.defined[module]; d != nil {
		fs.held[d.Name]++
		return d, nil
	}
	f, err := stablehlo.Written([]byte(module))
	if err != nil {
		return nil, errs.Wrap(errs.Value, err, "%v", err)
	}
	d := signature(f)
	fs.keep(f)
	fs.held[d.Name]++
	fs.defined[module], fs.texts[d.Name] = d, module
	return d, nil
}

func signature(f *stablehlo.Function) *Signature {
	return &Signature{Name: f.Name, Arguments: describe(f.Params), Results: describe(f.Results)}
}

// DropFunction says that a caller of Function or Define needs the function no more. It must be called once for each of
// their calls.
func (fs *functions) DropFunction(name string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.held[name]--; fs.held[name] <= 0 {
		delete(fs.held, name)
	}
}

// RegisterTarget makes a C function (XLA_FFI_Handler) what custom calls to a target run, in programs that are compiled
// from now on. It must stay for the life of the process. The error is errs.Value without a name or a handler, or for
// the package's own name.
func (fs *functions) RegisterTarget(target string, handler unsafe.Pointer) error {
	if target == "" || handler == nil {
		return errs.New(errs.Value, "a custom call needs the name of a target and a function")
	}
	if target == ops.TorchTarget {
		return errs.New(errs.Value, "the target %q is the package's own", target)
	}
	if err := fs.client.PJRT.RegisterHandler(target, handler); err != nil {
		return errs.Wrap(errs.Runtime, err, "custom call %q: %v", target, err)
	}
	return nil
}

// idleFunctions is how many functions are kept at least: equal ones are often made again, such as a branch at each
// step.
const idleFunctions = 256

// keep adds a function as the latest. It drops the older half of too many, without those that a caller holds or
// something recorded calls.
func (fs *functions) keep(f *stablehlo.Function) {
	if i := slices.Index(fs.names, f.Name); i >= 0 {
		fs.names = slices.Delete(fs.names, i, i+1)
	}
	if len(fs.names) >= max(idleFunctions, fs.most) {
		called := fs.called()
		n := len(fs.names) / 2
		old := slices.DeleteFunc(fs.names[:n:n], func(name string) bool {
			if called[name] || fs.held[name] > 0 {
				return false
			}
			delete(fs.defined, fs.texts[name])
			delete(fs.texts, name)
			delete(fs.ctx.Functions, name)
			return true
		})
		fs.names = append(old, fs.names[n:]...)
		fs.most = 2 * len(old)
	}
	fs.names = append(fs.names, f.Name)
	fs.ctx.Functions[f.Name] = f
}

// calling are the ops that call functions.
var calling = []ir.Op{control("cond"), control("while_loop"), control("scan"), control("call")}

func control(name string) ir.Op {
	op, ok := ops.Lookup("torch_go_xla::" + name)
	if !ok {
		panic("there is no row " + name)
	}
	return op
}

// called are the functions that recorded ops call.
func (fs *functions) called() map[string]bool {
	found := make(map[string]bool)
	for dev := range fs.store.Devices() {
		g := &fs.store.Trace(int32(dev)).Graph
		for id := ir.ID(1); int(id) < g.Len(); id++ {
			if !slices.Contains(calling, g.At(id).Op) {
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

// Export returns what is recorded of the storages outs, as a function of the storages args, as a StableHLO module.
// Errors are those of Function.
func (fs *functions) Export(args, outs []int64) (string, error) {
	if err := fs.lock(); err != nil {
		return "", err
	}
	defer fs.mu.Unlock()
	b, err := fs.function(args, outs)
	if err != nil {
		return "", err
	}
	text, err := b.Bytes()
	if err != nil {
		return "", errs.Wrap(errs.Compile, err, "lowering to StableHLO: %v", err)
	}
	return string(text), nil
}

func (fs *functions) function(args, outs []int64) (*stablehlo.Builder, error) {
	if err := fs.check(); err != nil {
		return nil, err
	}
	fs.drain()
	all, err := fs.handles(args, outs)
	if err != nil {
		return nil, err
	}
	if len(outs) == 0 {
		return nil, errs.New(errs.Value, "a function has to return something")
	}
	var slots []uint32
	for _, h := range all[len(args):] {
		if c, _ := fs.store.Cell(h); c.State != alias.Pending {
			return nil, errs.New(errs.Runtime, "a result of the function is not recorded, but %s", c.State)
		}
		slots = append(slots, fs.store.Slot(h))
	}
	c, _ := fs.store.Cell(all[0])
	t := fs.store.Trace(c.Dev)
	fs.plan.Build(fs.store, t, slots, nil)
	params := make([]lower.Parameter, len(args))
	for i, h := range all[:len(args)] {
		c, _ := fs.store.Cell(h)
		params[i] = lower.Parameter{Shape: c.Shape, Leaf: fs.store.LeafOf(h)}
		if params[i].Shape == nil {
			return nil, errs.New(errs.Runtime, "argument %d of the function was never written", i)
		}
	}
	results := make([]ir.ID, len(slots))
	for i, slot := range slots {
		results[i] = fs.store.At(slot).Value
	}
	return lower.Function(&fs.plan, params, results, fs.options())
}
