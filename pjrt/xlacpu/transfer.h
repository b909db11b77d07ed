// Making buffers from host data, copying them, and reading them back.
#ifndef PJRT_XLACPU_TRANSFER_H_
#define PJRT_XLACPU_TRANSFER_H_

#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

void InstallTransfer(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_TRANSFER_H_
