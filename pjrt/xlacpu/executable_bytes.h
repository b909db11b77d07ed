// The serialized form of executables.
//
// XLA's own bytes are machine code in a protocol buffer: damaged, or from another
// build or machine, they end the process when they are loaded or run. This
// plugin hands them out in an envelope, and takes nothing without one:
//
//   8 bytes   "XLACPU2\n"
//   8 bytes   identity of the XLA build, little-endian
//   8 bytes   FNV-1a of all that follows, little-endian
//   8 bytes   length of the next, little-endian
//   features  of the processor that the code needs, "+avx2,+fma"
//   the rest  XLA's bytes, without their list of features
#ifndef PJRT_XLACPU_EXECUTABLE_BYTES_H_
#define PJRT_XLACPU_EXECUTABLE_BYTES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace xlacpu {

// Puts XLA's bytes into an envelope. INTERNAL for bytes that are not XLA's.
absl::StatusOr<std::string> SealExecutable(std::string_view xla_bytes);

// XLA's bytes in an envelope, not copied. INVALID_ARGUMENT for bytes that are damaged or
// foreign, FAILED_PRECONDITION for a program that needs features that are not
// among `host_features` ("+avx2").
absl::StatusOr<std::string_view> OpenExecutable(
    std::string_view bytes, absl::Span<const std::string> host_features);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_EXECUTABLE_BYTES_H_
