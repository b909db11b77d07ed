// Jobs of several processes: who is in it, and with which devices.
#ifndef PJRT_XLACPU_JOB_H_
#define PJRT_XLACPU_JOB_H_

#include <memory>

#include "absl/status/statusor.h"
#include "key_value.h"
#include "options.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"

namespace xlacpu {

// Joins the job of options.num_nodes processes as number options.xla.process_id:
// learns every process's number of devices, connects to all, and completes
// options.xla with the collectives and the topology. The topology that it points
// to is returned, and must live until the client is made. All processes must
// call this at the same time; DEADLINE_EXCEEDED if one does not.
absl::StatusOr<std::unique_ptr<xla::CpuTopologyDescription>> JoinJob(
    const KeyValueStore& store, CreateOptions& options);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_JOB_H_
