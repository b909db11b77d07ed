#include "run_place.h"

namespace xlacpu {

using Mode = xla::ExecuteOptions::ExecutionMode;

Mode RunPlace::mode() const {
  switch (kind_.load(std::memory_order_relaxed)) {
    case Kind::kShort:
      return Mode::kSynchronous;
    case Kind::kLong:
      return Mode::kAsynchronous;
    default:
      return Mode::kDefault;
  }
}

void RunPlace::Learn(Clock::time_point start, xla::Future<>& done) {
  if (done.IsReady()) {
    Count(Clock::now() - start <= kShort);
  } else if (kind_.load(std::memory_order_relaxed) == Kind::kUnknown) {
    done.OnReady([self = shared_from_this(), start](const absl::Status&) {
      self->Count(Clock::now() - start <= kPromising);
    });
  }
}

void RunPlace::Count(bool is_short) {
  if (kind_.load(std::memory_order_relaxed) == Kind::kLong) return;
  if (is_short) {
    long_runs_.store(0, std::memory_order_relaxed);
    kind_.store(Kind::kShort, std::memory_order_relaxed);
  } else if (long_runs_.fetch_add(1, std::memory_order_relaxed) + 1 >=
             kRepeated) {
    kind_.store(Kind::kLong, std::memory_order_relaxed);
  }
}

}  // namespace xlacpu
