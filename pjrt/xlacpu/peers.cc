#include "peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace xlacpu {
namespace {

constexpr size_t kSecretSize = 16;

// What a process says first on a connection that it opens.
struct Greeting {
  char magic[8] = {'X', 'L', 'A', 'C', 'P', 'U', 'T', '1'};
  char secret[kSecretSize] = {};
  int32_t process = 0;
  int32_t unused = 0;
};

struct Header {
  MessageTag tag;
  uint64_t size = 0;
  uint64_t farewell = 0;  // 1: the bytes say why the sender has given up
};

absl::Status SystemError(std::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Closes a socket unless it was given away.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Bounds what a blocking call may take: SO_RCVTIMEO, or SO_SNDTIMEO, which also
// counts for connecting. Zero is no bound.
void SetTimeout(int fd, int option, absl::Duration timeout) {
  const timeval value = absl::ToTimeval(timeout);
  setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

// Waits until a connection can be accepted, or the deadline passes.
absl::Status WaitForCaller(int fd, absl::Time deadline) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, std::clamp<int64_t>(left, 0, 1 << 30));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SystemError("poll");
    if (ready == 0 && left <= 0) {
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

absl::StatusOr<Socket> Listen(const std::string& host, int backlog, int& port) {
  absl::StatusOr<sockaddr_in> address = ToAddress(host, 0);
  if (!address.ok()) return address.status();
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
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

absl::StatusOr<Socket> Dial(const std::string& place, absl::Time deadline) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(place, ':');
  int port = 0;
  if (!absl::SimpleAtoi(parts.second, &port)) {
    return absl::InternalError(absl::StrCat("\"", place, "\" is no address"));
  }
  absl::StatusOr<sockaddr_in> address = ToAddress(parts.first, port);
  if (!address.ok()) return address.status();
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SetTimeout(socket.get(), SO_SNDTIMEO,
             std::max(deadline - absl::Now(), absl::Milliseconds(1)));
  if (socket.get() < 0 ||
      connect(socket.get(), reinterpret_cast<sockaddr*>(&*address),
              sizeof *address) != 0) {
    return SystemError(absl::StrCat("connecting to ", place));
  }
  SetTimeout(socket.get(), SO_SNDTIMEO, absl::ZeroDuration());
  return socket;
}

absl::Status Gone(int process, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("process ", process, " has gone: ", why.message()));
}

// Process 0 draws the secret of the job.
absl::StatusOr<std::string> SharedSecret(const PeersOptions& options,
                                         const KeyValueStore& store) {
  constexpr std::string_view kKey = "xlacpu/secret";
  if (options.process == 0) {
    char bytes[kSecretSize];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
      return SystemError("getrandom");
    }
    std::string secret(bytes, sizeof bytes);
    absl::Status status = store.Put(kKey, absl::BytesToHexString(secret));
    if (!status.ok()) return status;
    return secret;
  }
  absl::StatusOr<std::string> hex = store.Get(kKey, options.timeout);
  if (!hex.ok()) return hex.status();
  std::string secret;
  if (!absl::HexStringToBytes(*hex, &secret) || secret.size() != kSecretSize) {
    return absl::InternalError("the shared store's xlacpu/secret is malformed");
  }
  return secret;
}

// Accepts connections until one comes from a process of the job.
absl::StatusOr<std::pair<int, Socket>> Accept(int listener,
                                              std::string_view secret,
                                              absl::Time deadline) {
  while (true) {
    absl::Status status = WaitForCaller(listener, deadline);
    if (!status.ok()) return status;
    Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) continue;  // the other side has gone again
    Greeting expected, got;
    // A stranger that says nothing is waited for no longer than this.
    SetTimeout(socket.get(), SO_RCVTIMEO, absl::Seconds(5));
    if (!ReadAll(socket.get(), &got, sizeof got).ok() ||
        std::memcmp(got.magic, expected.magic, sizeof got.magic) != 0 ||
        std::memcmp(got.secret, secret.data(), kSecretSize) != 0) {
      continue;
    }
    SetTimeout(socket.get(), SO_RCVTIMEO, absl::ZeroDuration());
    return std::make_pair(static_cast<int>(got.process), std::move(socket));
  }
}

// Small messages wait for no others, and a host that has vanished without a word
// is found out within 30 s.
void Tune(int fd) {
  auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);  // ms
}

}  // namespace

Peers::Peers(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}

absl::StatusOr<std::unique_ptr<Peers>> Peers::Connect(
    const PeersOptions& options, const KeyValueStore& store,
    std::shared_ptr<Mailbox> mailbox) {
  std::unique_ptr<Peers> peers(new Peers(std::move(mailbox)));
  absl::Status status = peers->ConnectAll(options, store);
  if (!status.ok()) return status;
  return peers;
}

// Of two processes, the one with the higher number opens the connection.
absl::Status Peers::ConnectAll(const PeersOptions& options,
                               const KeyValueStore& store) {
  const absl::Time deadline = absl::Now() + options.timeout;
  connections_.resize(options.num_processes);
  absl::StatusOr<std::string> secret = SharedSecret(options, store);
  if (!secret.ok()) return secret.status();
  int port = 0;
  absl::StatusOr<Socket> listener =
      Listen(options.address, options.num_processes, port);
  if (!listener.ok()) return listener.status();
  absl::Status status =
      store.Put(absl::StrCat("xlacpu/address/", options.process),
                absl::StrCat(options.address, ":", port));
  if (!status.ok()) return status;

  auto keep = [&](int process, Socket socket) {
    Tune(socket.get());
    auto connection = std::make_unique<Connection>();
    connection->socket = socket.Release();
    connection->reader = std::thread(&Peers::Read, this, process,
                                     connection->socket);
    connections_[process] = std::move(connection);
  };
  for (int lower = 0; lower < options.process; ++lower) {
    absl::StatusOr<std::string> place = store.Get(
        absl::StrCat("xlacpu/address/", lower), deadline - absl::Now());
    if (!place.ok()) return place.status();
    absl::StatusOr<Socket> socket = Dial(*place, deadline);
    if (!socket.ok()) return socket.status();
    Greeting greeting;
    std::memcpy(greeting.secret, secret->data(), kSecretSize);
    greeting.process = options.process;
    status = WriteAll(socket->get(), &greeting, sizeof greeting);
    if (!status.ok()) return status;
    keep(lower, *std::move(socket));
  }
  for (int left = options.num_processes - options.process - 1; left > 0;) {
    auto accepted = Accept(listener->get(), *secret, deadline);
    if (!accepted.ok()) return accepted.status();
    const int process = accepted->first;
    if (process <= options.process || process >= options.num_processes ||
        connections_[process] != nullptr) {
      return absl::InternalError(
          absl::StrCat("process ", process, " has connected out of turn"));
    }
    keep(process, std::move(accepted->second));
    --left;
  }
  return absl::OkStatus();
}

Peers::~Peers() {
  for (auto& connection : connections_) {
    if (connection == nullptr) continue;
    shutdown(connection->socket, SHUT_RDWR);  // ends the reader
    connection->reader.join();
    close(connection->socket);
  }
}

void Peers::Read(int process, int socket) {
  absl::Status status;
  while (status.ok()) {
    Header header;
    status = ReadAll(socket, &header, sizeof header);
    if (!status.ok()) break;
    std::vector<char> bytes(header.size);
    status = ReadAll(socket, bytes.data(), bytes.size());
    if (!status.ok()) break;
    if (header.farewell != 0) {
      mailbox_->Leave(process, absl::UnavailableError(absl::StrCat(
                                   "process ", process, " has given up: ",
                                   std::string_view(bytes.data(), bytes.size()))));
      continue;
    }
    mailbox_->Post(header.tag, std::move(bytes));
  }
  mailbox_->Leave(process, Gone(process, status));
}

absl::Status Peers::Send(int process, const MessageTag& tag, const char* data,
                         size_t size) {
  Connection& connection = *connections_[process];
  Header header{tag, size};
  std::lock_guard<std::mutex> lock(connection.write);
  absl::Status status = WriteAll(connection.socket, &header, sizeof header);
  if (status.ok()) status = WriteAll(connection.socket, data, size);
  return status.ok() ? status : Gone(process, status);
}

void Peers::Abandon(const absl::Status& why) {
  mailbox_->Fail(why);
  Header header;
  header.farewell = 1;
  header.size = why.message().size();
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame.append(why.message());
  for (auto& connection : connections_) {
    if (connection == nullptr) continue;
    // Who is in the midst of sending to a process that does not read is freed by
    // the shutdown; the farewell must not wait behind it.
    std::unique_lock<std::mutex> lock(connection->write, std::try_to_lock);
    if (lock.owns_lock()) {
      send(connection->socket, frame.data(), frame.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    shutdown(connection->socket, SHUT_WR);
  }
}

}  // namespace xlacpu
