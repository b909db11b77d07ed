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

// Program is a program of package interp, ready to run. It must be closed.
type Program struct {
	c       *C.struct_torch_program
	memory  block
	params  []*shape.Shape
	results int
	placed  []bool
	own     []ir.Number // numbers of the program itself
	once    sync.Once
}

// called are the ops of torch that programs call, with C's strings, which are kept.
var called struct {
	sync.Mutex
	ops map[ops.TorchOp]C.struct_torch_op
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

// Prepare makes a program ready; params are the shapes of its parameters.
func Prepare(p *interp.Program, params []*shape.Shape) *Program {
	const word = unsafe.Sizeof(int64(0))
	b := newBlock(uintptr(len(p.Words)+len(p.Roots))*word + uintptr(len(p.Ops))*unsafe.Sizeof(C.struct_torch_op{}) + unsafe.Sizeof(C.struct_torch_program{}))
	c := &room[C.struct_torch_program](&b, 1)[0]
	words, roots, table := room[int64](&b, len(p.Words)), room[int64](&b, len(p.Roots)), room[C.struct_torch_op](&b, len(p.Ops))
	copy(words, p.Words)
	copy(roots, p.Roots)
	for i, op := range p.Ops {
		table[i] = calledOp(op)
	}
	c.words, c.word_count = (*C.int64_t)(unsafe.SliceData(words)), C.int64_t(len(words))
	c.roots, c.root_count = (*C.int64_t)(unsafe.SliceData(roots)), C.int64_t(len(roots))
	c.ops, c.op_count, c.values = unsafe.SliceData(table), C.int64_t(len(table)), C.int64_t(p.Values)
	return &Program{c: c, memory: b, params: params, results: len(p.Roots), placed: p.Placed, own: p.Numbers}
}

// Places reports that a result is computed in the memory that Run is given for it.
func (p *Program) Places(result int) bool { return p.placed[result] }

// Close frees the program. It may be called again.
func (p *Program) Close() { p.once.Do(func() { C.free(p.memory.at) }) }

// Results are what a program has computed: dense arrays in memory of torch's, but for those that were wanted elsewhere.
type Results struct {
	tensors []C.torch_tensor
}

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
		C.torch_free(t)
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

// Run computes the program's results. args is the memory of the parameters, which
// is only read; numbers are the plan's scalars. into is the memory that a result is to be in, nil for memory of torch's. The
// error is that of the first op that fails.
func (p *Program) Run(args, into []unsafe.Pointer, numbers []ir.Number, place Place) (*Results, error) {
	dims := 0
	for _, s := range p.params {
		dims += s.Rank()
	}
	all := len(numbers) + len(p.own)
	b := newBlock(uintptr(dims)*unsafe.Sizeof(int64(0)) + uintptr(len(args))*unsafe.Sizeof(C.struct_torch_array{}) + uintptr(all)*unsafe.Sizeof(C.struct_torch_number{}) +
		2*uintptr(p.results)*unsafe.Sizeof(uintptr(0)) + unsafe.Sizeof(C.struct_torch_execution{}))
	defer C.free(b.at)
	x := &room[C.struct_torch_execution](&b, 1)[0]
	places := room[unsafe.Pointer](&b, p.results)
	copy(places, into)
	arrays, values, roots := room[C.struct_torch_array](&b, len(args)), room[C.struct_torch_number](&b, all), room[C.torch_tensor](&b, p.results)
	for i, s := range p.params {
		d := room[int64](&b, s.Rank())
		copy(d, s.Dims)
		arrays[i] = C.struct_torch_array{data: args[i], dims: (*C.int64_t)(unsafe.SliceData(d)), rank: C.int32_t(s.Rank()), _type: C.int32_t(s.DType.TorchCode())}
	}
	for i := range values {
		n := number(i, numbers, p.own)
		values[i] = C.struct_torch_number{_type: C.int64_t(n.Type.TorchCode()), i: C.int64_t(n.I), f: C.double(n.F), im: C.double(n.Im)}
	}
	x.program, x.params, x.param_count = p.c, unsafe.SliceData(arrays), C.int64_t(len(arrays))
	x.numbers, x.roots = unsafe.SliceData(values), unsafe.SliceData(roots)
	x.into, x.place = unsafe.SliceData(places), uint32(place)
	if !C.torch_interpret(x) {
		return nil, errs.New(errs.Xla, "%s", C.GoString(&x.message[0]))
	}
	return &Results{slices.Clone(roots)}, nil
}

func number(i int, given, own []ir.Number) ir.Number {
	if i < len(given) {
		return given[i]
	}
	return own[i-len(given)]
}
