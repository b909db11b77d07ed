// Options of PJRT_Client_Create.
#ifndef PJRT_XLACPU_OPTIONS_H_
#define PJRT_XLACPU_OPTIONS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pool.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_client_options.h"

namespace xlacpu {

struct CreateOptions {
  xla::CpuClientOptions xla;
  PoolOptions pool;
  int num_nodes = 1;  // processes of the job; xla.process_id is this one
  // Under which the others reach this process, and on which it listens.
  std::string collectives_address = "127.0.0.1";
  absl::Duration connect_timeout = absl::Seconds(120);
  // The caller watches the processes, and ends what waits for them: it puts why
  // the job has failed under the key xlacpu/failure/PROCESS of the store, whose
  // callbacks stay valid until the client is destroyed. Collectives then have no
  // deadline of their own.
  bool watched = false;
  std::string lapack_library;  // empty: none
};

// What a caller asks for, completed from the environment: an option that is
// given wins over its variable. INVALID_ARGUMENT names an option that is
// unknown, of the wrong type or out of range. README.md lists them.
absl::StatusOr<CreateOptions> ParseCreateOptions(const PJRT_NamedValue* options,
                                                 size_t count);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_OPTIONS_H_
