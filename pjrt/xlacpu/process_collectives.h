// Collectives between devices of several processes.
#ifndef PJRT_XLACPU_PROCESS_COLLECTIVES_H_
#define PJRT_XLACPU_PROCESS_COLLECTIVES_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mailbox.h"
#include "peers.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"

namespace xlacpu {

// Ranks of this process hand each other messages through the mailbox, others
// get them by TCP. Reductions add in the order of ranks: every rank gets the
// same bits, run after run.
class ProcessCollectives final : public xla::cpu::CpuCollectives {
 public:
  // bounded: a collective fails after the time that XLA gives it.
  ProcessCollectives(int process, bool bounded,
                     std::shared_ptr<Mailbox> mailbox,
                     std::unique_ptr<Peers> peers);
  // XLA keeps communicators of cliques that it has seen; it drops them here.
  ~ProcessCollectives() override { NotifyOnDestroyCallbacks(); }

  absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>>
  CreateCommunicators(const xla::CliqueKey& clique_key,
                      const std::optional<xla::CliqueIds>& clique_ids,
                      absl::Span<const DeviceRank> ranks,
                      const Config& config) override;

 private:
  const int process_;
  const bool bounded_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<Peers> peers_;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_PROCESS_COLLECTIVES_H_
