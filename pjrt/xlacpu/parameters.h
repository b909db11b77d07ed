// What a program takes on each of its devices.
//
// XLA:CPU checks the arguments of one device after the other while the others
// already run. A launch that it refuses leaves a count behind which every later
// launch on several devices waits for, and the devices that did start wait for
// the others in their collectives. So launches on several devices are checked
// here, before XLA sees them.
#ifndef PJRT_XLACPU_PARAMETERS_H_
#define PJRT_XLACPU_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"

namespace xlacpu {

class Parameters {
 public:
  // Knows nothing, and lets everything pass, if the program is not known.
  explicit Parameters(const xla::PjRtLoadedExecutable& executable);

  // Refuses what cannot run on `device`: a wrong number of arguments; one of
  // another size, on another device or already donated; one that the program
  // takes over and that is passed twice. `kept` are the arguments that it does
  // not take over.
  absl::Status Check(absl::Span<xla::PjRtBuffer* const> arguments,
                     const xla::PjRtDevice* device,
                     const absl::flat_hash_set<int>& kept) const;

 private:
  struct Parameter {
    int64_t bytes;
    bool donated;
  };
  bool known_ = false;
  std::vector<Parameter> parameters_;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_PARAMETERS_H_
