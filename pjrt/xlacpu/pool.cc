#include "pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "host_memory.h"

namespace xlacpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = 4096;
// Below this, malloc's own caches do as well.
constexpr size_t kMappedFrom = size_t{256} << 10;
constexpr size_t kMinAlignment = 64;  // a cache line, and XLA's own wish
constexpr size_t kWarmPart = 64;      // of the limit; see KeptBlocks

// Rounds up to an eighth of the power of two below: at most 12.5 % waste, and
// at most eight classes for each doubling.
size_t SizeClass(size_t n) {
  const size_t step = (size_t{1} << (63 - __builtin_clzll(n))) / 8;
  const size_t unit = std::max(step, kSmallPage);
  return (n + unit - 1) / unit * unit;
}

// Fresh zeroed pages; null if the system has none.
void* Map(size_t size) {
  const size_t alignment = size >= kHugePage ? kHugePage : kSmallPage;
  const size_t span = size + alignment;
  void* mapping = mmap(nullptr, span, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapping);
  const size_t skip = -reinterpret_cast<uintptr_t>(begin) & (alignment - 1);
  if (skip != 0) munmap(begin, skip);
  if (skip != alignment) munmap(begin + skip + size, alignment - skip);
  // Refused where the system has no huge pages; small ones serve as well.
  if (alignment == kHugePage) madvise(begin + skip, size, MADV_HUGEPAGE);
  return begin + skip;
}

size_t LimitOf(const PoolOptions& options) {
  return options.limit > 0 ? options.limit : HostMemoryBytes();
}

size_t KeptLimitOf(const PoolOptions& options) {
  if (!options.huge_pages) return 0;
  return options.kept_limit >= 0 ? options.kept_limit : LimitOf(options) / 4;
}

void RaiseTo(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value &&
         !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

// ----- kept blocks

void* KeptBlocks::Take(size_t size_class) {
  auto it = classes_.find(size_class);
  if (it == classes_.end()) return nullptr;
  const Block block = it->second.back();
  it->second.pop_back();
  if (it->second.empty()) classes_.erase(it);
  bytes_ -= size_class;
  Forget(block.age);
  return block.address;
}

void KeptBlocks::Give(void* block, size_t size_class) {
  const uint64_t age = clock_++;
  classes_[size_class].push_back({block, age});
  bytes_ += size_class;
  // On small pages the kernel's leave to take them would triple the cost of the
  // next use, so those are only bounded.
  if (size_class < kHugePage) return;
  warm_[age] = {block, size_class};
  warm_bytes_ += size_class;
  while (warm_bytes_ > warm_limit_) {
    const auto [oldest, span] = *warm_.begin();
    madvise(span.address, span.size, MADV_FREE);
    Forget(oldest);
  }
}

void KeptBlocks::Forget(uint64_t age) {
  auto it = warm_.find(age);
  if (it == warm_.end()) return;
  warm_bytes_ -= it->second.size;
  warm_.erase(it);
}

void KeptBlocks::Shrink(size_t bytes) {
  while (bytes_ > bytes) {
    auto oldest = std::min_element(
        classes_.begin(), classes_.end(), [](const auto& a, const auto& b) {
          return a.second.front().age < b.second.front().age;
        });
    munmap(oldest->second.front().address, oldest->first);
    Forget(oldest->second.front().age);
    bytes_ -= oldest->first;
    oldest->second.pop_front();
    if (oldest->second.empty()) classes_.erase(oldest);
  }
}

size_t KeptBlocks::largest() const {
  return classes_.empty() ? 0 : classes_.rbegin()->first;
}

// ----- the pool

// The pool's reference keeps the counters for as long as there is a block.
class MemoryPool::Block final : public xla::CpuMemory {
 public:
  Block(std::shared_ptr<MemoryPool> pool, void* base, size_t size, size_t taken,
        bool mapped)
      : pool_(std::move(pool)),
        base_(base),
        size_(size),
        taken_(taken),
        mapped_(mapped) {}
  ~Block() override { pool_->Release(base_, taken_, mapped_); }

  void* base() const override { return base_; }
  size_t size_bytes() const override { return size_; }

 private:
  const std::shared_ptr<MemoryPool> pool_;
  void* const base_;
  const size_t size_;   // asked for
  const size_t taken_;  // counted
  const bool mapped_;
};

MemoryPool::MemoryPool(const PoolOptions& options)
    : huge_pages_(options.huge_pages),
      limit_(LimitOf(options)),
      kept_limit_(KeptLimitOf(options)),
      kept_(limit_ / kWarmPart) {}

absl::StatusOr<std::unique_ptr<xla::CpuMemory>> MemoryPool::Allocate(
    size_t size, size_t alignment) {
  const bool mapped = huge_pages_ && size >= kMappedFrom;
  alignment = std::max(alignment, kMinAlignment);
  // A block of no bytes still needs an address of its own.
  const size_t rounded =
      (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  if (size > limit_) return Exhausted(size);
  const size_t taken = mapped ? SizeClass(size) : rounded;
  if (!Reserve(taken)) return Exhausted(size);
  void* base = mapped ? TakeOrMap(taken) : std::aligned_alloc(alignment, taken);
  if (base == nullptr) {
    in_use_.fetch_sub(taken, std::memory_order_relaxed);
    return Exhausted(size);
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  RaiseTo(largest_allocation_, size);
  return std::make_unique<Block>(shared_from_this(), base, size, taken, mapped);
}

// Counts `bytes` as used, unless that would exceed the limit.
bool MemoryPool::Reserve(size_t bytes) {
  const int64_t now =
      in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (now > static_cast<int64_t>(limit_)) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  RaiseTo(peak_in_use_, now);
  return true;
}

void* MemoryPool::TakeOrMap(size_t size_class) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (void* block = kept_.Take(size_class)) return block;
    // Kept blocks of other classes must not push what is held over the limit.
    const size_t used = in_use_.load(std::memory_order_relaxed);
    if (used + kept_.bytes() > limit_) {
      kept_.Shrink(used < limit_ ? limit_ - used : 0);
    }
    RaiseTo(peak_held_, used + kept_.bytes());
  }
  if (void* block = Map(size_class)) return block;
  std::lock_guard<std::mutex> lock(mu_);
  kept_.Shrink(0);
  return Map(size_class);
}

void MemoryPool::Release(void* base, size_t bytes, bool mapped) {
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  if (!mapped) {
    std::free(base);
    return;
  }
  if (bytes > kept_limit_) {
    munmap(base, bytes);
    return;
  }
  std::lock_guard<std::mutex> lock(mu_);
  kept_.Give(base, bytes);
  if (kept_.bytes() > kept_limit_) kept_.Shrink(kept_limit_);
}

absl::Status MemoryPool::Exhausted(size_t size) const {
  const PoolFigures figures = Figures();
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of memory: ", size, " bytes asked for, ", figures.in_use,
      " in use of ", figures.limit, " (peak ", figures.peak_in_use, ", kept ",
      figures.kept, ")"));
}

PoolFigures MemoryPool::Figures() const {
  PoolFigures figures;
  figures.in_use = in_use_.load(std::memory_order_relaxed);
  figures.peak_in_use = peak_in_use_.load(std::memory_order_relaxed);
  figures.allocations = allocations_.load(std::memory_order_relaxed);
  figures.largest_allocation =
      largest_allocation_.load(std::memory_order_relaxed);
  figures.limit = limit_;
  std::lock_guard<std::mutex> lock(mu_);
  figures.kept = kept_.bytes();
  figures.largest_kept = kept_.largest();
  figures.peak_held =
      std::max({peak_held_.load(std::memory_order_relaxed), figures.peak_in_use,
                figures.in_use + figures.kept});
  return figures;
}

}  // namespace xlacpu
