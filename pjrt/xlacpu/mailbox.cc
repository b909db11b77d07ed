#include "mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace xlacpu {

void Mailbox::Post(const MessageTag& tag, std::vector<char> bytes) {
  absl::MutexLock lock(&mu_);
  messages_[tag] = std::move(bytes);
}

absl::StatusOr<std::vector<char>> Mailbox::Take(const MessageTag& tag,
                                                int sender,
                                                absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failure_.ok() || messages_.count(tag) != 0 ||
           gone_.count(sender) != 0;
  };
  mu_.AwaitWithDeadline(absl::Condition(&decided), deadline);
  if (!failure_.ok()) return failure_;
  // A message that arrived before its sender went away still counts.
  auto it = messages_.find(tag);
  if (it != messages_.end()) {
    std::vector<char> bytes = std::move(it->second);
    messages_.erase(it);
    return bytes;
  }
  if (auto gone = gone_.find(sender); gone != gone_.end()) return gone->second;
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", tag.to, " has waited in vain for rank ", tag.from,
                   " in collective ", tag.sequence,
                   ": do all processes run the same programs?"));
}

void Mailbox::Leave(int process, absl::Status why) {
  absl::MutexLock lock(&mu_);
  gone_.emplace(process, std::move(why));
}

void Mailbox::Fail(absl::Status status) {
  absl::MutexLock lock(&mu_);
  failure_.Update(std::move(status));
}

absl::Status Mailbox::failure() {
  absl::MutexLock lock(&mu_);
  return failure_;
}

}  // namespace xlacpu
