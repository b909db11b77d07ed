// The plugin itself: setup, attributes, and the vetting of the process.
#ifndef PJRT_XLACPU_PLUGIN_H_
#define PJRT_XLACPU_PLUGIN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// Whether this process can use the plugin: the libraries are the right ones,
// and XLA will survive XLA_FLAGS.
absl::Status CheckProcess();

void InstallPlugin(PJRT_Api& api);

}  // namespace xlacpu

// The one export beside GetPjrtApi: a loader asks with it, before it makes a
// client, whether the process can use the plugin, and gets the words for its own
// error. `xla_flags` is a value of XLA_FLAGS to look at, null for the
// environment's. Returns 0, or the PJRT_Error_Code; then `message` holds the
// reason, cut to `size` bytes and ended by a zero.
extern "C" int XlaCpuPlugin_Vet(const char* xla_flags, char* message,
                                size_t size);

#endif  // PJRT_XLACPU_PLUGIN_H_
