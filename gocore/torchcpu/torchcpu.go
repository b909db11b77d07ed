// Package torchcpu lets compiled programs call torch's own CPU kernels.
//
// XLA:CPU is behind torch's oneDNN kernels on convolutions and on the gradient of max pooling (see
// docs/performance.md). On the CPU device the lowering of these ops is a custom call, whose handler is a
// function of this package: it wraps the operands in tensors without a copy and calls the kernel of the
// libtorch_cpu that the process has loaded. The rest of the program stays XLA's.
//
// The package imports pjrt.
package torchcpu

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "torch.h"

static const struct torch_target *target(int i) { return &torch_targets[i]; }
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Platform is the platform whose programs can call the kernels.
const Platform = "cpu"

// Register makes the kernels of the loaded library at path (libtorch_cpu.so) known to a plugin's
// compiler. It is an error if the library is not loaded or lacks a function, or if the plugin takes no
// handlers.
func Register(plugin *pjrt.Plugin, path string) error {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if missing := C.torch_load(text); missing != nil {
		return fmt.Errorf("torchcpu: %s is not loaded, or has no such function", C.GoString(missing))
	}
	for i := 0; ; i++ {
		t := C.target(C.int(i))
		if t.name == nil {
			return nil
		}
		if err := plugin.RegisterHandler(C.GoString(t.name), Platform, unsafe.Pointer(t.handler)); err != nil {
			return err
		}
	}
}
