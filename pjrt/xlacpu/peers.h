// TCP connections between the processes of a job.
#ifndef PJRT_XLACPU_PEERS_H_
#define PJRT_XLACPU_PEERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "key_value.h"
#include "mailbox.h"

namespace xlacpu {

struct PeersOptions {
  int process = 0, num_processes = 1;
  // The IPv4 address under which the other processes reach this one, and on
  // which it listens.
  std::string address = "127.0.0.1";
  absl::Duration timeout = absl::Seconds(120);  // to find each other
  // The caller says by the store when the job has failed; see options.h.
  bool watched = false;
};

// One connection to every other process. Processes find each other through the
// key-value store, which also carries the tokens by which they know that who
// connects is one of them. What arrives goes to the mailbox.
class Peers {
 public:
  static absl::StatusOr<std::unique_ptr<Peers>> Connect(
      const PeersOptions& options, const KeyValueStore& store,
      std::shared_ptr<Mailbox> mailbox);
  ~Peers();

  // Sends to another process; returns once the system has the bytes. UNAVAILABLE
  // if it has gone.
  absl::Status Send(int process, const MessageTag& tag, const char* data,
                    size_t size);

  // Gives up: fails the mailbox, and tells the other processes why, since they
  // may wait for messages that will not come.
  void Abandon(const absl::Status& why);

 private:
  struct Connection {
    int socket = -1;
    std::mutex write;  // one message at a time
    std::thread reader;
  };

  explicit Peers(std::shared_ptr<Mailbox> mailbox);
  absl::Status ConnectAll(const PeersOptions& options,
                          const KeyValueStore& store);
  void Read(int process, int socket);
  void Watch(KeyValueStore store, int process);

  const std::shared_ptr<Mailbox> mailbox_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by process
  std::function<absl::Status()> leave_;  // ends the watcher
  std::thread watcher_;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_PEERS_H_
