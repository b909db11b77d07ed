// The FFI extension: custom calls whose handlers the caller registers.
#ifndef PJRT_XLACPU_FFI_EXTENSION_H_
#define PJRT_XLACPU_FFI_EXTENSION_H_

#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// The extension, linked in front of `next`; static storage.
PJRT_Extension_Base* FfiExtension(PJRT_Extension_Base* next);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_FFI_EXTENSION_H_
