// Messages between the ranks of a collective, by whichever way they arrive.
#ifndef PJRT_XLACPU_MAILBOX_H_
#define PJRT_XLACPU_MAILBOX_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace xlacpu {

// Names one message. The ranks of a clique run the same collectives in the same
// order, so that counting them names each; a collective has a few steps.
struct MessageTag {
  uint64_t clique = 0;
  uint64_t sequence = 0;
  uint32_t step = 0;
  int32_t from = 0, to = 0;  // ranks

  bool operator<(const MessageTag& o) const {
    return std::tie(clique, sequence, step, from, to) <
           std::tie(o.clique, o.sequence, o.step, o.from, o.to);
  }
};

// What has arrived for this process and was not taken yet. Thread-safe.
class Mailbox {
 public:
  void Post(const MessageTag& tag, std::vector<char> bytes);

  // Waits for the message, which the process `sender` posts. DEADLINE_EXCEEDED
  // after the deadline; the status given to Leave or Fail once nothing can come.
  absl::StatusOr<std::vector<char>> Take(const MessageTag& tag, int sender,
                                         absl::Time deadline);

  // A process sends nothing more: who waits for it is told why. The first reason
  // stays.
  void Leave(int process, absl::Status why);

  // Nothing that arrives counts any more. The first failure stays.
  void Fail(absl::Status status);
  absl::Status failure();

 private:
  absl::Mutex mu_;
  std::map<MessageTag, std::vector<char>> messages_ ABSL_GUARDED_BY(mu_);
  std::map<int, absl::Status> gone_ ABSL_GUARDED_BY(mu_);  // by process
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_MAILBOX_H_
