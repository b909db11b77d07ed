#include "process_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "reduce.h"
#include "xla/core/collectives/clique_key.h"
#include "xla/core/collectives/communicator.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"
#include "xla/primitive_util.h"

namespace xlacpu {
namespace {

using Address = stream_executor::DeviceAddressBase;
using xla::Future;
using xla::RankId;

// The process of each rank.
std::vector<int> ProcessesOf(const xla::CliqueKey& key) {
  std::vector<int> processes;
  for (xla::GlobalDeviceId device : key.devices()) {
    processes.push_back(xla::UnpackCpuProcessIndex(
        xla::PjRtGlobalDeviceId(device.value())));
  }
  return processes;
}

// The same number for the same devices on every process.
uint64_t IdentityOf(const xla::CliqueKey& key) {
  uint64_t hash = 14695981039346656037u;
  for (xla::GlobalDeviceId device : key.devices()) {
    hash = (hash ^ static_cast<uint64_t>(device.value())) * 1099511628211u;
  }
  return hash;
}

// One rank's end of a clique. XLA calls it from one thread at a time.
class RankCommunicator final : public xla::Communicator {
 public:
  RankCommunicator(const xla::CliqueKey& key, int rank, int process,
                   bool bounded, std::shared_ptr<Mailbox> mailbox,
                   std::shared_ptr<Peers> peers)
      : processes_(ProcessesOf(key)),
        clique_(IdentityOf(key)),
        rank_(rank),
        process_(process),
        bounded_(bounded),
        mailbox_(std::move(mailbox)),
        peers_(std::move(peers)) {}

  Future<> AllReduce(Address send, Address recv, xla::PrimitiveType type,
                     size_t count, xla::ReductionKind kind,
                     const Executor& executor) override {
    if (absl::Status can = Reduce(type, kind, nullptr, nullptr, 0); !can.ok()) {
      return Future<>(can);
    }
    return Run(executor, [&] {
      // Each rank reduces one part for all; short arrays are not worth a second
      // round of messages.
      constexpr size_t kShort = 4096;
      const size_t width = xla::primitive_util::ByteWidth(type);
      const char* from = static_cast<const char*>(send.opaque());
      char* to = static_cast<char*>(recv.opaque());
      if (count * width <= kShort) {
        return ReduceParts(from, to, type, kind, std::vector<size_t>(size(), 0),
                           std::vector<size_t>(size(), count));
      }
      return AllReduceInParts(from, to, type, kind, count);
    });
  }

  Future<> ReduceScatter(Address send, Address recv, xla::PrimitiveType type,
                         size_t count, xla::ReductionKind kind,
                         const Executor& executor) override {
    if (absl::Status can = Reduce(type, kind, nullptr, nullptr, 0); !can.ok()) {
      return Future<>(can);
    }
    return Run(executor, [&] {
      std::vector<size_t> begins(size());
      for (int r = 0; r < size(); ++r) begins[r] = r * count;
      return ReduceParts(static_cast<const char*>(send.opaque()),
                         static_cast<char*>(recv.opaque()), type, kind, begins,
                         std::vector<size_t>(size(), count));
    });
  }

  Future<> AllGather(Address send, Address recv, xla::PrimitiveType type,
                     size_t count, const Executor& executor) override {
    return Run(executor, [&] {
      const size_t bytes = count * xla::primitive_util::ByteWidth(type);
      char* to = static_cast<char*>(recv.opaque());
      absl::Status status = SendToOthers(0, [&](int) {
        return Part{static_cast<const char*>(send.opaque()), bytes};
      });
      std::memmove(to + rank_ * bytes, send.opaque(), bytes);
      for (int r = 0; r < size() && status.ok(); ++r) {
        if (r != rank_) status = Receive(r, 0, to + r * bytes, bytes);
      }
      return status;
    });
  }

  Future<> AllToAll(absl::InlinedVector<Address, 4> send,
                    absl::InlinedVector<Address, 4> recv,
                    xla::PrimitiveType type, size_t count,
                    const Executor& executor) override {
    return Run(executor, [&] {
      const size_t bytes = count * xla::primitive_util::ByteWidth(type);
      absl::Status status = SendToOthers(0, [&](int r) {
        return Part{static_cast<const char*>(send[r].opaque()), bytes};
      });
      std::memmove(recv[rank_].opaque(), send[rank_].opaque(), bytes);
      for (int r = 0; r < size() && status.ok(); ++r) {
        if (r == rank_) continue;
        status = Receive(r, 0, static_cast<char*>(recv[r].opaque()), bytes);
      }
      return status;
    });
  }

  Future<> CollectivePermute(Address send, Address recv,
                             xla::PrimitiveType type, size_t count,
                             std::optional<RankId> source,
                             absl::Span<const RankId> targets,
                             const Executor& executor) override {
    return RunUncounted(executor, [&] {
      const size_t bytes = count * xla::primitive_util::ByteWidth(type);
      for (RankId target : targets) {
        const int to = static_cast<int>(target.value());
        absl::Status status =
            Send(to, PermuteTag(rank_, to),
                 {static_cast<const char*>(send.opaque()), bytes});
        if (!status.ok()) return status;
      }
      if (!source.has_value()) {  // by the operation's definition
        std::memset(recv.opaque(), 0, bytes);
        return absl::OkStatus();
      }
      const int from = static_cast<int>(source->value());
      return Receive(from, PermuteTag(from, rank_),
                     static_cast<char*>(recv.opaque()), bytes);
    });
  }

  Future<> Broadcast(Address send, Address recv, xla::PrimitiveType type,
                     size_t count, RankId root,
                     const Executor& executor) override {
    return Run(executor, [&] {
      const size_t bytes = count * xla::primitive_util::ByteWidth(type);
      if (rank_ != root.value()) {
        return Receive(static_cast<int>(root.value()), 0,
                       static_cast<char*>(recv.opaque()), bytes);
      }
      absl::Status status = SendToOthers(0, [&](int) {
        return Part{static_cast<const char*>(send.opaque()), bytes};
      });
      std::memmove(recv.opaque(), send.opaque(), bytes);
      return status;
    });
  }

  Future<> Send(Address, xla::PrimitiveType, size_t, RankId,
                const Executor&) override {
    return absl::UnimplementedError("XLA:CPU runs no send on its own");
  }

  Future<> Recv(Address, xla::PrimitiveType, size_t, RankId,
                const Executor&) override {
    return absl::UnimplementedError("XLA:CPU runs no receive on its own");
  }

  absl::StatusOr<size_t> NumRanks() const override { return size(); }

  std::string ToString() const override {
    return absl::StrCat("rank ", rank_, " of ", size(), " across processes");
  }

 private:
  struct Part {
    const char* data;
    size_t size;
  };

  int size() const { return static_cast<int>(processes_.size()); }

  // Runs one collective: counts it, and keeps its deadline. Done on return. After
  // one that failed, ranks may be at different collectives: none is run again,
  // so that no message is taken for that of another.
  template <class Body>
  Future<> Run(const Executor& executor, Body body) {
    return RunUncounted(executor, [&] {
      ++sequence_;
      return body();
    });
  }

  template <class Body>
  Future<> RunUncounted(const Executor& executor, Body body) {
    auto cpu = xla::cpu::CpuCollectives::TryCast(&executor);
    if (!cpu.ok()) return Future<>(cpu.status());
    if (absl::Status failure = mailbox_->failure(); !failure.ok()) {
      return Future<>(failure);
    }
    deadline_ = bounded_ ? absl::Now() + (*cpu)->timeout()
                         : absl::InfiniteFuture();
    absl::Status status = body();
    if (!status.ok()) peers_->Abandon(status);
    return Future<>(status);
  }

  MessageTag Tag(uint32_t step, int from, int to) const {
    MessageTag tag;
    tag.clique = clique_;
    tag.sequence = sequence_;
    tag.step = step;
    tag.from = from;
    tag.to = to;
    return tag;
  }

  // Permutes are counted for each pair of ranks: those that are in no pair need
  // not run one.
  MessageTag PermuteTag(int from, int to) {
    constexpr uint32_t kPermute = 2;  // no other collective has this step
    MessageTag tag = Tag(kPermute, from, to);
    tag.sequence = ++permutes_[{from, to}];
    return tag;
  }

  absl::Status SendTo(int to, uint32_t step, Part part) {
    return Send(to, Tag(step, rank_, to), part);
  }

  absl::Status Send(int to, const MessageTag& tag, Part part) {
    if (processes_[to] == process_) {
      mailbox_->Post(tag,
                     std::vector<char>(part.data, part.data + part.size));
      return absl::OkStatus();
    }
    return peers_->Send(processes_[to], tag, part.data, part.size);
  }

  // Starts with the next rank, so that not all send to the same one at once.
  template <class PartFor>
  absl::Status SendToOthers(uint32_t step, PartFor part_for) {
    for (int k = 1; k < size(); ++k) {
      const int to = (rank_ + k) % size();
      absl::Status status = SendTo(to, step, part_for(to));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<char>> Take(int from, const MessageTag& tag,
                                         size_t expected) {
    auto bytes = mailbox_->Take(tag, processes_[from], deadline_);
    if (!bytes.ok()) return bytes;
    if (bytes->size() != expected) {
      return absl::InternalError(absl::StrCat(
          "rank ", from, " has sent ", bytes->size(), " bytes where rank ",
          rank_, " expects ", expected,
          ": do all processes run the same programs?"));
    }
    return bytes;
  }

  absl::Status Receive(int from, uint32_t step, char* to, size_t expected) {
    return Receive(from, Tag(step, from, rank_), to, expected);
  }

  absl::Status Receive(int from, const MessageTag& tag, char* to,
                       size_t expected) {
    auto bytes = Take(from, tag, expected);
    if (!bytes.ok()) return bytes.status();
    std::memcpy(to, bytes->data(), expected);
    return absl::OkStatus();
  }

  // Sends to every rank r its part of `from` (elements begins[r] and on,
  // counts[r] of them), and reduces what the others send of the own part to `to`.
  absl::Status ReduceParts(const char* from, char* to, xla::PrimitiveType type,
                           xla::ReductionKind kind,
                           const std::vector<size_t>& begins,
                           const std::vector<size_t>& counts) {
    const size_t width = xla::primitive_util::ByteWidth(type);
    absl::Status status = SendToOthers(0, [&](int r) {
      return Part{from + begins[r] * width, counts[r] * width};
    });
    if (!status.ok()) return status;
    const size_t bytes = counts[rank_] * width;
    const char* own = from + begins[rank_] * width;
    std::vector<char> total;
    for (int r = 0; r < size(); ++r) {
      absl::StatusOr<std::vector<char>> part;
      if (r == rank_) {
        part = std::vector<char>(own, own + bytes);
      } else {
        part = Take(r, Tag(0, r, rank_), bytes);
      }
      if (!part.ok()) return part.status();
      if (r == 0) {
        total = *std::move(part);
        continue;
      }
      status = Reduce(type, kind, total.data(), part->data(), counts[rank_]);
      if (!status.ok()) return status;
    }
    std::memcpy(to, total.data(), bytes);
    return absl::OkStatus();
  }

  absl::Status AllReduceInParts(const char* from, char* to,
                                xla::PrimitiveType type,
                                xla::ReductionKind kind, size_t count) {
    const size_t width = xla::primitive_util::ByteWidth(type);
    std::vector<size_t> begins(size()), counts(size());
    for (int r = 0; r < size(); ++r) {
      begins[r] = count * r / size();
      counts[r] = count * (r + 1) / size() - begins[r];
    }
    char* own = to + begins[rank_] * width;
    absl::Status status = ReduceParts(from, own, type, kind, begins, counts);
    if (!status.ok()) return status;
    status = SendToOthers(1, [&](int) {
      return Part{own, counts[rank_] * width};
    });
    for (int r = 0; r < size() && status.ok(); ++r) {
      if (r == rank_) continue;
      status = Receive(r, 1, to + begins[r] * width, counts[r] * width);
    }
    return status;
  }

  const std::vector<int> processes_;
  const uint64_t clique_;
  const int rank_;
  const int process_;
  const bool bounded_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<Peers> peers_;
  uint64_t sequence_ = 0;
  std::map<std::pair<int, int>, uint64_t> permutes_;
  absl::Time deadline_;
};

}  // namespace

ProcessCollectives::ProcessCollectives(int process, bool bounded,
                                       std::shared_ptr<Mailbox> mailbox,
                                       std::unique_ptr<Peers> peers)
    : process_(process),
      bounded_(bounded),
      mailbox_(std::move(mailbox)),
      peers_(std::move(peers)) {}

absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>>
ProcessCollectives::CreateCommunicators(const xla::CliqueKey& clique_key,
                                        const std::optional<xla::CliqueIds>&,
                                        absl::Span<const DeviceRank> ranks,
                                        const Config&) {
  std::vector<std::unique_ptr<xla::Communicator>> communicators;
  for (const DeviceRank& rank : ranks) {
    communicators.push_back(std::make_unique<RankCommunicator>(
        clique_key, static_cast<int>(rank.rank.value()), process_, bounded_,
        mailbox_, peers_));
  }
  return communicators;
}

}  // namespace xlacpu
