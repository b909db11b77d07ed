package engine

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/lower"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// LoadProgram starts to compile a StableHLO module for Replay, which may come from elsewhere (see stablehlo.Foreign).
// signature is what the caller takes it for, as JSON: {"arguments": […], "results": […]}. Each is an array {"type":
// number of its c10::ScalarType, "dtype": its name in torch, "shape": sizes}. It must be what the program says of
// itself. Loaded waits for the compiler: the caller may be interrupted meanwhile, and drops the program then. The
// error is errs.Value if the module is not as the signature says, or reaches out of itself.
func (rp *replays) LoadProgram(dev int, module, signature string) (int64, error) {
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
	d, err := rp.device(dev)
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
	r.program.disk = rp.disk
	r.loading = &loading{done: make(chan struct{})}
	r.program.retain()
	go r.loading.compileForeign(r.program, results)
	rp.mu.Lock()
	defer rp.mu.Unlock()
	return rp.add(r), nil
}

// compileForeign compiles the program and compares what it gives with its text. It takes over a reference to the
// program.
func (l *loading) compileForeign(p *program, results []*shape.Shape) {
	defer close(l.done)
	defer p.release()
	defer func() {
		if r := recover(); r != nil {
			l.err = errs.New(errs.Compile, "internal error while loading: %v", r)
		}
	}()
	exe, err := p.Executable()
	if err == nil {
		err = gives(exe.PJRT(), results)
	}
	l.err = err
}

// Loaded waits until a program of LoadProgram is compiled, or until the timeout; done is false if it expired. The error
// says why the program cannot be compiled, or that it is not what it says.
func (rp *replays) Loaded(id int64, timeout time.Duration) (done bool, err error) {
	rp.mu.Lock()
	r := rp.held[id]
	rp.mu.Unlock()
	if r == nil || r.loading == nil {
		return false, errs.New(errs.Value, "%d is not the number of a loaded program", id)
	}
	select {
	case <-r.loading.done:
		return true, r.loading.err
	case <-time.After(timeout):
		return false, nil
	}
}

// description is an array of a signature.
type description struct {
	Type  int     `json:"type"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
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

func describe(shapes []*shape.Shape) []description {
	out := make([]description, len(shapes))
	for i, s := range shapes {
		out[i] = description{Type: s.DType.TorchCode(), DType: s.DType.Torch(), Shape: s.Dims}
	}
	return out
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
