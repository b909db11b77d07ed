// The headers of the tensorflow package that take long to parse; precompiled
// once (see Makefile). Sources still include what they use.
#ifndef PJRT_XLACPU_XLA_HEADERS_H_
#define PJRT_XLACPU_XLA_HEADERS_H_

#include "xla/ffi/ffi_api.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_compiler.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"

#endif  // PJRT_XLACPU_XLA_HEADERS_H_
