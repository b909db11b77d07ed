#include "callers.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xlacpu {
namespace {

constexpr size_t kMaxCallers = 64;
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

// In constant time, so that its duration tells nothing of the token.
bool Callers::Knows(const Greeting& said) const {
  const Greeting expected;
  unsigned char differs = 0;
  for (size_t i = 0; i < kTokenSize; ++i) differs |= said.token[i] ^ token_[i];
  return differs == 0 &&
         std::memcmp(said.magic, expected.magic, sizeof said.magic) == 0;
}

void Callers::Accept() {
  while (true) {
    Socket socket(accept4(listener_, nullptr, nullptr,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) return;
    if (callers_.size() == kMaxCallers) callers_.erase(callers_.begin());
    callers_.push_back({std::move(socket), absl::Now() + kPatience, {}, 0});
  }
}

bool Callers::Read(Caller& caller) {
  char* to = reinterpret_cast<char*>(&caller.said) + caller.size;
  const ssize_t n = recv(caller.socket.get(), to,
                         sizeof(Greeting) - caller.size, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  caller.size += n;
  return caller.size < sizeof(Greeting) || Knows(caller.said);
}

absl::StatusOr<std::pair<int, Socket>> Callers::Next(
    absl::Time deadline, const Interrupt& interrupt) {
  while (true) {
    std::vector<pollfd> wait = {{listener_, POLLIN, 0}};
    absl::Time until = deadline;
    for (const Caller& caller : callers_) {
      wait.push_back({caller.socket.get(), POLLIN, 0});
      until = std::min(until, caller.until);
    }
    absl::Status status = Poll(wait, until, interrupt);
    const absl::Time now = absl::Now();
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
    if (!status.ok() && now >= deadline) return status;
    for (size_t i = callers_.size(); i-- > 0;) {
      Caller& caller = callers_[i];
      const bool keep =
          wait[i + 1].revents == 0 ? now < caller.until : Read(caller);
      if (!keep) {
        callers_.erase(callers_.begin() + i);
      } else if (caller.size == sizeof(Greeting)) {
        std::pair<int, Socket> found(caller.said.process,
                                     std::move(caller.socket));
        callers_.erase(callers_.begin() + i);
        fcntl(found.second.get(), F_SETFL, 0);  // blocking from now on
        return found;
      }
    }
    if (wait[0].revents != 0) Accept();
  }
}

}  // namespace xlacpu
