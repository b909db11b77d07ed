// How much memory this process may use.
#ifndef PJRT_XLACPU_HOST_MEMORY_H_
#define PJRT_XLACPU_HOST_MEMORY_H_

#include <cstddef>

namespace xlacpu {

// The host's physical memory in bytes, or the limit of the process's control
// group (version 1 or 2) or of one of its parents where that is less.
size_t HostMemoryBytes();

}  // namespace xlacpu

#endif  // PJRT_XLACPU_HOST_MEMORY_H_
