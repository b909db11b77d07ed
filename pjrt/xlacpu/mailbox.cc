#include "mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace xlacpu {

void Mailbox::Post(const MessageTag& tag, std::vector<char> bytes) {
  absl::MutexLock lock(&mu_);
  messages_[tag] = std::move(bytes);
}

absl::StatusOr<std::vector<char>> Mailbox::Take(const MessageTag& tag,
                                                absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  auto arrived = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failure_.ok() || messages_.count(tag) != 0;
  };
  mu_.AwaitWithDeadline(absl::Condition(&arrived), deadline);
  // A message that arrived before its sender went away still counts.
  auto it = messages_.find(tag);
  if (it != messages_.end()) {
    std::vector<char> bytes = std::move(it->second);
    messages_.erase(it);
    return bytes;
  }
  if (!failure_.ok()) return failure_;
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", tag.to, " has waited in vain for rank ", tag.from,
                   " in collective ", tag.sequence,
                   ": do all processes run the same programs?"));
}

void Mailbox::Fail(absl::Status status) {
  absl::MutexLock lock(&mu_);
  failure_.Update(std::move(status));
}

}  // namespace xlacpu
