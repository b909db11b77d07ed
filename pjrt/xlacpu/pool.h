// Device memory for XLA:CPU: a counted, bounded pool of huge-page blocks.
//
// XLA:CPU asks for fresh memory for every output and temporary. Filling fresh
// 4 KiB pages costs more than most kernels that fill them. So large blocks come
// from 2 MiB-aligned mappings with transparent huge pages asked for. A
// freed block is kept for the next request of its size class. Small blocks are
// malloc's.
#ifndef PJRT_XLACPU_POOL_H_
#define PJRT_XLACPU_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_memory.h"

namespace xlacpu {

// All in bytes.
struct PoolOptions {
  // False: every block is malloc's, and nothing is kept.
  bool huge_pages = true;
  // Most that may be in use; 0 stands for the memory of the host (or of the
  // process's control group, where that is less).
  int64_t limit = 0;
  // Most that is kept while unused; -1 stands for a quarter of the limit.
  int64_t kept_limit = -1;
};

// A snapshot; the members are read one after another, not at one instant.
struct PoolFigures {
  int64_t in_use = 0;
  int64_t peak_in_use = 0;
  int64_t allocations = 0;         // since the pool was made
  int64_t largest_allocation = 0;  // ever
  int64_t limit = 0;
  int64_t kept = 0;                // unused, ready for the next request
  int64_t peak_held = 0;           // in use and kept
  int64_t largest_kept = 0;        // the largest single block of those
};

// Kept blocks by size class. Not thread-safe: MemoryPool's lock guards it.
//
// The kernel may take the pages of a kept block when memory runs short, without
// asking anyone; until it does, reuse costs nothing. To tell it so takes as
// long as to fill a few pages, so the newest blocks are its own: those that a
// loop has again at once.
class KeptBlocks {
 public:
  // `warm` is how many bytes the kernel may not take.
  explicit KeptBlocks(size_t warm) : warm_limit_(warm) {}
  ~KeptBlocks() { Shrink(0); }

  // The block of exactly this class that was freed last (it may still be in the
  // processor's caches), or null.
  void* Take(size_t size_class);
  void Give(void* block, size_t size_class);

  // Gives the oldest blocks back to the system until no more than `bytes` stay.
  void Shrink(size_t bytes);

  size_t bytes() const { return bytes_; }
  size_t largest() const;

 private:
  struct Block {
    void* address;
    uint64_t age;  // counts up with each Give
  };
  struct Span {
    void* address;
    size_t size;
  };

  void Forget(uint64_t age);

  std::map<size_t, std::deque<Block>> classes_;  // oldest in front
  std::map<uint64_t, Span> warm_;  // by age
  const size_t warm_limit_;
  size_t bytes_ = 0, warm_bytes_ = 0;
  uint64_t clock_ = 0;
};

// One pool per client: the devices of a client share the host's memory. Blocks
// keep their pool alive. Thread-safe.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(const PoolOptions& options);

  // `size` bytes aligned to `alignment`, a power of two of at most 4096.
  // RESOURCE_EXHAUSTED, with the pool's figures, when the block would exceed
  // the limit or the system has no memory for it.
  absl::StatusOr<std::unique_ptr<xla::CpuMemory>> Allocate(size_t size,
                                                           size_t alignment);

  PoolFigures Figures() const;

 private:
  class Block;

  bool Reserve(size_t bytes);
  void* TakeOrMap(size_t size_class);
  void Release(void* base, size_t bytes, bool mapped);
  absl::Status Exhausted(size_t size) const;

  const bool huge_pages_;
  const size_t limit_;
  const size_t kept_limit_;

  std::atomic<int64_t> in_use_{0}, peak_in_use_{0}, peak_held_{0};
  std::atomic<int64_t> allocations_{0}, largest_allocation_{0};
  mutable std::mutex mu_;
  KeptBlocks kept_;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_POOL_H_
