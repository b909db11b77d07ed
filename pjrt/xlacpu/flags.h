// XLA_FLAGS, looked at before XLA does.
#ifndef PJRT_XLACPU_FLAGS_H_
#define PJRT_XLACPU_FLAGS_H_

#include <string_view>

#include "absl/status/status.h"

namespace xlacpu {

// XLA reads the variable when the first client is made, and ends the process
// when it finds an unknown flag, a malformed value or a file that is not there.
// INVALID_ARGUMENT names what XLA would choke on in `text`, a value of the
// variable.
absl::Status CheckFlags(std::string_view text);

// The same for the environment's own value, if it has one.
absl::Status CheckEnvironmentFlags();

}  // namespace xlacpu

#endif  // PJRT_XLACPU_FLAGS_H_
