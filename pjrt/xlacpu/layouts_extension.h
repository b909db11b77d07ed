// The layouts extension: layouts of buffers, of outputs, and by default.
#ifndef PJRT_XLACPU_LAYOUTS_EXTENSION_H_
#define PJRT_XLACPU_LAYOUTS_EXTENSION_H_

#include <memory>

#include "handles.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_layout.h"

namespace xlacpu {

// What a PJRT_Layouts_MemoryLayout* points to.
struct MemoryLayout {
  std::shared_ptr<const xla::PjRtLayout> xla;
};

// The extension, linked in front of `next`; static storage.
PJRT_Extension_Base* LayoutsExtension(PJRT_Extension_Base* next);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_LAYOUTS_EXTENSION_H_
