// Programs and compile options: from bytes to what XLA compiles.
#ifndef PJRT_XLACPU_COMPILE_H_
#define PJRT_XLACPU_COMPILE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_executable.h"

namespace xlacpu {

// Options from a serialized CompileOptionsProto; no bytes are the defaults.
absl::StatusOr<xla::CompileOptions> ParseCompileOptions(std::string_view bytes);

void InstallCompile(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_COMPILE_H_
