package pjrt

/*
#include <stdlib.h>

#include "bridge.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

// Calls the extension's function, which the table of functions does not have.
static pj_error ffi_register(const PJRT_FFI_Extension *e, PJRT_FFI_Register_Handler_Args *block) { return (pj_error)e->register_handler(block); }
*/
import "C"

import (
	"unsafe"
)

// RegisterHandler gives the plugin's compiler the handler of typed custom calls (XLA_FFI_Handler, a C
// function) to a target, on a platform such as "cpu". The handler must stay for the life of the process.
// A plugin without the FFI extension answers Unimplemented.
func (p *Plugin) RegisterHandler(target, platform string, handler unsafe.Pointer) error {
	const function = "PJRT_FFI_Register_Handler"
	e, ok := p.Extension(ExtFFI)
	if !ok || e.Size < C.sizeof_PJRT_FFI_Extension || (*C.PJRT_FFI_Extension)(e.Pointer).register_handler == nil {
		return &Error{Code: Unimplemented, Func: function, Msg: "the plugin has no FFI extension"}
	}
	names := C.CString(target + platform)
	defer C.free(unsafe.Pointer(names))
	block := (*C.PJRT_FFI_Register_Handler_Args)(C.pjc_alloc(C.PJC_MEM_CALL, C.sizeof_PJRT_FFI_Register_Handler_Args))
	if block == nil {
		return &Error{Code: ResourceExhausted, Func: function, Msg: "no host memory for the call's arguments"}
	}
	defer C.pjc_free(C.PJC_MEM_CALL, unsafe.Pointer(block), C.sizeof_PJRT_FFI_Register_Handler_Args)
	*block = C.PJRT_FFI_Register_Handler_Args{struct_size: C.sizeof_PJRT_FFI_Register_Handler_Args,
		target_name: names, target_name_size: C.size_t(len(target)), handler: handler,
		platform_name: (*C.char)(unsafe.Add(unsafe.Pointer(names), len(target))), platform_name_size: C.size_t(len(platform))}
	if err := C.ffi_register((*C.PJRT_FFI_Extension)(e.Pointer), block); err != 0 {
		return p.take(function, err)
	}
	return nil
}

// RegisterHandler is Plugin.RegisterHandler for the client's platform.
func (c *Client) RegisterHandler(target string, handler unsafe.Pointer) error {
	return c.plugin.RegisterHandler(target, c.platform, handler)
}
