// Package torchcpu lets compiled programs call torch's own CPU kernels.
//
// For many ops XLA:CPU is behind torch's kernels (see docs/performance.md). On the CPU device their lowering is a
// custom call, whose handler is this package's. It wraps operands and results in tensors without a copy, and calls the
// op of the libtorch_cpu that the process has loaded. The rest of the program stays XLA's. Which ops may be called,
// and with which arguments, the table of rows says (package ops).
//
// In C, call.c runs an op on arrays in memory, and checks.c looks at what torch takes on trust. thread.c is the thread
// in which ops run. handler.c is XLA's way to them; no other file knows of XLA. interpret.c runs programs of many
// calls, which package interp writes. machine.h is what their instructions share; those that are not calls are in
// numbers.c, views.c and kernels.c.
//
// The package imports interp, ops, ir, shape, errs and pjrt.
package torchcpu

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl -lpthread -lm
#include <stdlib.h>
#include "torch.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Platform is the platform whose programs can call the kernels.
const Platform = "cpu"

// Register makes the kernels of the loaded library at path (libtorch_cpu.so) known to a plugin's
// compiler. It is an error if the library is not loaded or lacks a function, or if the plugin takes no
// handlers. gradientKeys are the dispatch keys, as torch has them in a word, by which torch looks after gradients.
func Register(plugin *pjrt.Plugin, path string, gradientKeys uint64) error {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if missing := C.torch_load(text); missing != nil {
		return fmt.Errorf("torchcpu: %s is not loaded, or has no such function", C.GoString(missing))
	}
	C.torch_set_gradient_keys(C.uint64_t(gradientKeys))
	for _, op := range ops.TorchOps() {
		entry := C.struct_torch_op{row: C.CString(op.Row), name: C.CString(op.Name), overload: C.CString(op.Overload), out: C.CString(op.Out),
			args: C.CString(op.Args), check: C.CString(op.Check), results: C.int(op.Results)}
		if refused := C.torch_register(entry); refused != nil {
			return fmt.Errorf("torchcpu: %s cannot be called", C.GoString(refused))
		}
	}
	return plugin.RegisterHandler(ops.TorchTarget, Platform, unsafe.Pointer(C.torch_handler))
}
