// The memory descriptions extension: memories of devices that are described by
// a topology and may not exist.
#ifndef PJRT_XLACPU_MEMORY_EXTENSION_H_
#define PJRT_XLACPU_MEMORY_EXTENSION_H_

#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// The extension, linked in front of `next`; static storage.
PJRT_Extension_Base* MemoryExtension(PJRT_Extension_Base* next);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_MEMORY_EXTENSION_H_
