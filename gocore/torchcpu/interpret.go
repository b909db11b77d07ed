package torchcpu

/*
#include <stdlib.h>
#include <string.h>
#include "torch.h"
*/
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/interp"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Program is a program of package interp, ready to run, with the memory of a run. It must be closed.
type Program struct {
	placed []bool // see Places; it does not change
	memory block  // of all slices below; Close frees it
	once   sync.Once

	running sync.Mutex // held while it runs; guards what the fields below refer to
	x       *C.struct_torch_execution
	params  []C.struct_torch_array
	numbers []C.struct_torch_number // the plan's scalars, then those of the program itself
	into    []unsafe.Pointer
	roots   []C.torch_tensor
}

// called are the ops of torch that programs call, with C's strings, which are kept.
var called struct {
	sync.Mutex
	ops map[ops.TorchOp]C.struct_torch_op // guarded by the mutex; it grows only
}

func calledOp(op ops.TorchOp) C.struct_torch_op {
	called.Lock()
	defer called.Unlock()
	c, ok := called.ops[op]
	if !ok {
		c = C.struct_torch_op{row: C.CString(op.Row), name: C.CString(op.Name), overload: C.CString(op.Overload), out: C.CString(op.Out),
			args: C.CString(op.Args), check: C.CString(""), results: C.int(op.Results)}
		if called.ops == nil {
			called.ops = make(map[ops.TorchOp]C.struct_torch_op)
		}
		called.ops[op] = c
	}
	return c
}

// block is C memory that is given out from its start.
type block struct {
	at   unsafe.Pointer
	used uintptr
}

func newBlock(bytes uintptr) block { return block{at: C.calloc(1, C.size_t(bytes+1))} }

// room is memory for n elements of T, of at most 8 bytes' alignment.
func room[T any](b *block, n int) []T {
	var t T
	p := unsafe.Add(b.at, b.used)
	b.used += (uintptr(n)*unsafe.Sizeof(t) + 7) &^ 7
	return unsafe.Slice((*T)(p), n)
}

// Prepare makes a program ready; params are the shapes of its parameters, and scalars is how many numbers the plan has.
func Prepare(p *interp.Program, params []*shape.Shape, scalars int) *Program {
	const word = unsafe.Sizeof(int64(0))
	rank, numbers := 0, scalars+len(p.Numbers)
	for _, s := range params {
		rank += s.Rank()
	}
	b := newBlock(uintptr(len(p.Words)+3*len(p.Roots)+rank+int(p.Values))*word + uintptr(len(p.Ops))*unsafe.Sizeof(C.struct_torch_op{}) +
		uintptr(len(params))*unsafe.Sizeof(C.struct_torch_array{}) + uintptr(numbers)*unsafe.Sizeof(C.struct_torch_number{}) +
		unsafe.Sizeof(C.struct_torch_program{}) + unsafe.Sizeof(C.struct_torch_execution{}) +
		uintptr(len(params)+len(p.Roots))*unsafe.Sizeof(C.struct_torch_kept{}))
	c, x := &room[C.struct_torch_program](&b, 1)[0], &room[C.struct_torch_execution](&b, 1)[0]
	words, roots, table := room[int64](&b, len(p.Words)), room[int64](&b, len(p.Roots)), room[C.struct_torch_op](&b, len(p.Ops))
	copy(words, p.Words)
	copy(roots, p.Roots)
	for i, op := range p.Ops {
		table[i] = calledOp(op)
	}
	c.words, c.word_count = (*C.int64_t)(unsafe.SliceData(words)), C.int64_t(len(words))
	c.roots, c.root_count = (*C.int64_t)(unsafe.SliceData(roots)), C.int64_t(len(roots))
	c.ops, c.op_count, c.values = unsafe.SliceData(table), C.int64_t(len(table)), C.int64_t(p.Values)
	r := &Program{x: x, params: room[C.struct_torch_array](&b, len(params)), numbers: room[C.struct_torch_number](&b, numbers),
		into: room[unsafe.Pointer](&b, len(p.Roots)), roots: room[C.torch_tensor](&b, len(p.Roots)), placed: p.Placed}
	for i, s := range params {
		dims := room[int64](&b, s.Rank())
		copy(dims, s.Dims)
		r.params[i] = C.struct_torch_array{dims: (*C.int64_t)(unsafe.SliceData(dims)), rank: C.int32_t(s.Rank()), _type: C.int32_t(s.DType.TorchCode())}
	}
	for i, n := range p.Numbers {
		r.numbers[scalars+i] = numberOf(n)
	}
	x.program, x.params, x.param_count = c, unsafe.SliceData(r.params), C.int64_t(len(params))
	x.numbers, x.values = unsafe.SliceData(r.numbers), unsafe.SliceData(room[C.torch_tensor](&b, int(p.Values)))
	x.kept = unsafe.SliceData(room[C.struct_torch_kept](&b, len(params)+len(p.Roots)))
	x.roots, x.into = unsafe.SliceData(r.roots), unsafe.SliceData(r.into)
	r.memory = b
	return r
}

func numberOf(n ir.Number) C.struct_torch_number {
	return C.struct_torch_number{_type: C.int64_t(n.Type.TorchCode()), i: C.int64_t(n.I), f: C.double(n.F), im: C.double(n.Im)}
}

// Places reports that a result is computed in the memory that Run is given for it.
func (p *Program) Places(result int) bool { return p.placed[result] }

// Bytes is what the program takes in memory.
func (p *Program) Bytes() int64 { return int64(p.memory.used) }

// Close frees the program. It may be called again.
func (p *Program) Close() {
	p.once.Do(func() {
		C.torch_forget(p.x)
		C.free(p.memory.at)
	})
}

// Results are what a program has computed: dense arrays in memory of torch's, but for those that were wanted elsewhere.
type Results struct {
	tensors []C.torch_tensor
}

// elsewhere are the results of a run that were all wanted elsewhere.
var elsewhere Results

// Data is the memory of a result, good until Free.
func (r *Results) Data(i int) unsafe.Pointer { return C.torch_data(r.tensors[i]) }

// Copy copies a result.
func (r *Results) Copy(i int, to unsafe.Pointer, bytes int64) {
	if bytes > 0 {
		C.memcpy(to, r.Data(i), C.size_t(bytes))
	}
}

// Take gives a result to the caller.
func (r *Results) Take(i int) pjrt.Owned {
	t := r.tensors[i]
	at := r.Data(i)
	r.tensors[i] = nil
	return pjrt.Owned{Address: at, Free: unsafe.Pointer(C.torch_release), Owner: unsafe.Pointer(t)}
}

// Return undoes one Take.
func (r *Results) Return(i int, owned pjrt.Owned) { r.tensors[i] = C.torch_tensor(owned.Owner) }

// Free frees the results. It may be called again.
func (r *Results) Free() {
	for _, t := range r.tensors {
		if t != nil {
			C.torch_free(t)
		}
	}
	r.tensors = nil
}

// Place is where a program runs.
type Place uint8

// The places. A team of threads computes what runs in one of the first two.
const (
	Apart  Place = C.TORCH_APART  // in the thread of torch's kernels
	Here   Place = C.TORCH_HERE   // in the calling thread
	Serial Place = C.TORCH_SERIAL // in the calling thread, and in no other one
)

// Run computes the program's results. args is the memory of the parameters, which is only read; numbers are the plan's
// scalars. into is the memory that a result is to be in, nil for memory of torch's. The error is that of the first op
// that fails.
func (p *Program) Run(args, into []unsafe.Pointer, numbers []ir.Number, place Place) (*Results, error) {
	p.running.Lock()
	defer p.running.Unlock()
	for i, at := range args {
		p.params[i].data = at
	}
	for i, n := range numbers {
		p.numbers[i] = numberOf(n)
	}
	copy(p.into, into)
	clear(p.roots)
	p.x.place = uint32(place)
	if !C.torch_interpret(p.x) {
		return nil, errs.New(errs.Xla, "%s", C.GoString(&p.x.message[0]))
	}
	if !slices.ContainsFunc(p.roots, func(t C.torch_tensor) bool { return t != nil }) {
		return &elsewhere, nil
	}
	return &Results{slices.Clone(p.roots)}, nil
}
