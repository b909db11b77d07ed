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

  // Waits for the message. DEADLINE_EXCEEDED after the deadline; once Fail was
  // called, its status.
  absl::StatusOr<std::vector<char>> Take(const MessageTag& tag,
                                         absl::Time deadline);

  // Nothing more will arrive from one of the peers: all who wait are told.
  void Fail(absl::Status status);

 private:
  absl::Mutex mu_;
  std::map<MessageTag, std::vector<char>> messages_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_MAILBOX_H_
