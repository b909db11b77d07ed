#include "peers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "callers.h"
#include "socket.h"

namespace xlacpu {
namespace {

struct Header {
  MessageTag tag;
  uint64_t size = 0;
  uint64_t farewell = 0;  // 1: the bytes say why the sender has given up
};

constexpr uint64_t kLongestFarewell = 1 << 16;

absl::Status Gone(int process, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("process ", process, " has gone: ", why.message()));
}

// What a process tells the others of itself, through the store.
struct Place {
  std::string host;
  int port = 0;
  std::string token;  // see Greeting
};

std::string AddressKey(int process) {
  return absl::StrCat("xlacpu/address/", process);
}

std::string FailureKey(int process) {
  return absl::StrCat("xlacpu/failure/", process);
}

absl::StatusOr<std::string> RandomToken() {
  char bytes[kTokenSize];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    return SystemError("getrandom");
  }
  return std::string(bytes, sizeof bytes);
}

std::string ToText(const Place& place) {
  return absl::StrCat(place.host, ":", place.port, ":",
                      absl::BytesToHexString(place.token));
}

absl::StatusOr<Place> FromText(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Place place;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &place.port) ||
      !absl::HexStringToBytes(parts[2], &place.token) ||
      place.token.size() != kTokenSize) {
    return absl::InternalError("the shared store has a malformed address");
  }
  place.host = parts[0];
  return place;
}

// Reads what is sent in steps: the memory that it takes is bounded by what has
// arrived, whatever size the header claims.
absl::Status ReadBytes(int fd, uint64_t size, std::vector<char>& bytes) {
  constexpr uint64_t kStep = 64 << 20;
  static const uint64_t kMost = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                sysconf(_SC_PAGE_SIZE);
  if (size > kMost) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "it announces ", size, " bytes, more than this machine's memory"));
  }
  while (bytes.size() < size) {
    const size_t have = bytes.size();
    bytes.resize(have + std::min(kStep, size - have));
    absl::Status status = ReadAll(fd, bytes.data() + have, bytes.size() - have);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Small messages wait for no others, and a host that has vanished without a word
// is found out within 30 s, unless the caller watches the processes.
void Tune(int fd, bool watched) {
  auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  // It would also end the sending to a process that is stopped.
  if (!watched) set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);  // ms
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
  Place own{options.address};
  absl::StatusOr<std::string> token = RandomToken();
  if (!token.ok()) return token.status();
  own.token = *token;
  absl::StatusOr<Socket> listener =
      Listen(options.address, options.num_processes, own.port);
  if (!listener.ok()) return listener.status();
  absl::Status status = store.Put(AddressKey(options.process), ToText(own));
  if (!status.ok()) return status;

  // No one puts this key: asking for it tells whether a process has gone, or the
  // caller has given up.
  const Interrupt interrupt = [&] {
    absl::Status s = store.Get("xlacpu/abort", absl::Milliseconds(1)).status();
    return absl::IsDeadlineExceeded(s) ? absl::OkStatus() : s;
  };
  auto keep = [&](int process, Socket socket) {
    Tune(socket.get(), options.watched);
    auto connection = std::make_unique<Connection>();
    connection->socket = socket.Release();
    connection->reader = std::thread(&Peers::Read, this, process,
                                     connection->socket);
    connections_[process] = std::move(connection);
  };
  for (int lower = 0; lower < options.process; ++lower) {
    absl::StatusOr<std::string> text =
        store.Get(AddressKey(lower), deadline - absl::Now());
    if (!text.ok()) return text.status();
    absl::StatusOr<Place> place = FromText(*text);
    if (!place.ok()) return place.status();
    absl::StatusOr<Socket> socket =
        Dial(place->host, place->port, deadline, interrupt);
    if (!socket.ok()) return socket.status();
    Greeting greeting;
    std::memcpy(greeting.token, place->token.data(), kTokenSize);
    greeting.process = options.process;
    status = WriteAll(socket->get(), &greeting, sizeof greeting);
    if (!status.ok()) return status;
    keep(lower, *std::move(socket));
  }
  Callers callers(listener->get(), own.token);
  for (int left = options.num_processes - options.process - 1; left > 0;) {
    auto accepted = callers.Next(deadline, interrupt);
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
  if (options.watched) {
    leave_ = [store, key = FailureKey(options.process)] {
      return store.Put(key, "");
    };
    watcher_ = std::thread(&Peers::Watch, this, store, options.process);
  }
  return absl::OkStatus();
}

// Waits for the word of the caller that the job has failed: what waits for other
// processes then ends. An empty word ends the watch.
void Peers::Watch(KeyValueStore store, int process) {
  while (true) {
    absl::StatusOr<std::string> why =
        store.Get(FailureKey(process), absl::Hours(24));
    if (why.ok() && !why->empty()) Abandon(absl::UnavailableError(*why));
    if (absl::IsUnavailable(why.status())) Abandon(why.status());
    if (!absl::IsDeadlineExceeded(why.status())) return;
  }
}

Peers::~Peers() {
  if (watcher_.joinable()) {
    if (leave_().ok()) {
      watcher_.join();
    } else {
      watcher_.detach();  // the store has gone, and the watcher with it
    }
  }
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
    if (header.farewell != 0) header.size = std::min(header.size, kLongestFarewell);
    std::vector<char> bytes;
    status = ReadBytes(socket, header.size, bytes);
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
  const std::string_view text = why.message().substr(0, kLongestFarewell);
  header.size = text.size();
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame.append(text);
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
