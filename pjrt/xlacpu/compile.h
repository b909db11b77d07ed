// Programs and compile options: from bytes to what XLA compiles.
#ifndef PJRT_XLACPU_COMPILE_H_
#define PJRT_XLACPU_COMPILE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "handles.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/service/computation_placer.h"

namespace xlacpu {

// Options from a serialized CompileOptionsProto; no bytes are the defaults.
absl::StatusOr<xla::CompileOptions> ParseCompileOptions(std::string_view bytes);

// Which devices a program of this many replicas and partitions runs on if no one
// says: those of this process if they suffice, else all of the job in order.
absl::StatusOr<xla::DeviceAssignment> DefaultAssignment(const Client& client,
                                                        int replicas,
                                                        int partitions);

void InstallCompile(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_COMPILE_H_
