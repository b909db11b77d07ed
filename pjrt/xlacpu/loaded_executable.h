// Loaded executables: programs on their devices, ready to run.
#ifndef PJRT_XLACPU_LOADED_EXECUTABLE_H_
#define PJRT_XLACPU_LOADED_EXECUTABLE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client.h"
#include "handles.h"
#include "parameters.h"
#include "run_place.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"

namespace xlacpu {

struct LoadedExecutable {
  LoadedExecutable(ClientRef c, std::unique_ptr<xla::PjRtLoadedExecutable> e);

  // The client comes first, so that it is destroyed last.
  const ClientRef client;
  const std::shared_ptr<xla::PjRtLoadedExecutable> xla;
  std::vector<Device*> addressable_devices;
  const Parameters parameters;
  // Null where others have a part in how long a run takes, and where a launch
  // shall return when the program has run.
  const std::shared_ptr<RunPlace> place;
  std::string fingerprint;  // empty if unknown
  // The bytes that it was loaded from; null if it was compiled. XLA's second
  // serialization of a loaded program lacks its code.
  std::shared_ptr<const std::string> origin;
  // XLA:CPU's own Delete does nothing; the memory goes with the object.
  std::atomic<bool> deleted{false};
};

// What a PJRT_ExecuteContext* points to.
struct ExecuteContext {
  xla::ExecuteContext xla;
};

// The error for executables that were loaded and not compiled here: the
// serialized form does not carry the program they came from.
PJRT_Error* NoFingerprint();

void InstallLoadedExecutable(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_LOADED_EXECUTABLE_H_
