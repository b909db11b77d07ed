#include "socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace xlacpu {
namespace {

absl::StatusOr<sockaddr_in> ToAddress(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", host, "\" is not an IPv4 address"));
  }
  return address;
}

}  // namespace

absl::Status SystemError(std::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status Poll(std::vector<pollfd>& sockets, absl::Time deadline,
                  const Interrupt& interrupt) {
  constexpr int64_t kSlice = 100;  // ms
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    const int ready = poll(sockets.data(), sockets.size(),
                           std::clamp<int64_t>(left, 0, kSlice));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError("poll");
    absl::Status status = interrupt();
    if (!status.ok()) return status;
    if (left <= 0) {
      return absl::DeadlineExceededError("another process does not answer");
    }
  }
}

absl::Status WriteAll(int fd, const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size != 0) {
    const ssize_t n = send(fd, next, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError("send");
    next += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, void* data, size_t size) {
  char* next = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t n = recv(fd, next, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("recv");
    if (n == 0) return absl::UnavailableError("the connection was closed");
    next += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> Listen(const std::string& host, int backlog, int& port) {
  absl::StatusOr<sockaddr_in> address = ToAddress(host, 0);
  if (!address.ok()) return address.status();
  Socket socket(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t size = sizeof *address;
  auto* generic = reinterpret_cast<sockaddr*>(&*address);
  if (socket.get() < 0 || bind(socket.get(), generic, size) != 0 ||
      listen(socket.get(), backlog) != 0 ||
      getsockname(socket.get(), generic, &size) != 0) {
    return SystemError(absl::StrCat("listening on ", host));
  }
  port = ntohs(address->sin_port);
  return socket;
}

absl::StatusOr<Socket> Dial(std::string_view host, int port,
                            absl::Time deadline, const Interrupt& interrupt) {
  absl::StatusOr<sockaddr_in> address = ToAddress(std::string(host), port);
  if (!address.ok()) return address.status();
  const std::string doing = absl::StrCat("connecting to ", host, ":", port);
  Socket socket(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return SystemError(doing);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&*address),
              sizeof *address) != 0) {
    if (errno != EINPROGRESS) return SystemError(doing);
    std::vector<pollfd> wait = {{socket.get(), POLLOUT, 0}};
    absl::Status status = Poll(wait, deadline, interrupt);
    if (!status.ok()) return status;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      errno = error;
      return SystemError(doing);
    }
  }
  fcntl(socket.get(), F_SETFL, 0);  // blocking from now on
  return socket;
}

}  // namespace xlacpu
