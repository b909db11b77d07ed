// Blocking TCP sockets, and waits for them that end when a job does.
#ifndef PJRT_XLACPU_SOCKET_H_
#define PJRT_XLACPU_SOCKET_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace xlacpu {

// Closes a socket unless it was given away.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Says why waiting is pointless; OK while it is not.
using Interrupt = std::function<absl::Status()>;

// UNAVAILABLE with errno's text.
absl::Status SystemError(std::string_view what);

// Waits for events of sockets. DEADLINE_EXCEEDED after the deadline; the
// interrupt, which is asked every 100 ms, ends the wait too.
absl::Status Poll(std::vector<pollfd>& sockets, absl::Time deadline,
                  const Interrupt& interrupt);

// Reads and writes all bytes; UNAVAILABLE if the connection ends before.
absl::Status WriteAll(int fd, const void* data, size_t size);
absl::Status ReadAll(int fd, void* data, size_t size);

// A socket that listens on an IPv4 address, on a port that the system chooses.
absl::StatusOr<Socket> Listen(const std::string& host, int backlog, int& port);

// Connects to "address:port".
absl::StatusOr<Socket> Dial(std::string_view host, int port,
                            absl::Time deadline, const Interrupt& interrupt);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_SOCKET_H_
