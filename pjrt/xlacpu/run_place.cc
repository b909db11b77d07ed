#include "run_place.h"

#include <time.h>

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

std::chrono::nanoseconds RunPlace::Worked() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

void RunPlace::Learn(const Start& start, xla::Future<>& done) {
  if (done.IsReady()) {
    Count(Worked() - start.worked <= kShort &&
          Clock::now() - start.time <= kHeldUp,
          kRepeated);
  } else if (kind_.load(std::memory_order_relaxed) == Kind::kUnknown) {
    done.OnReady([self = shared_from_this(),
                  begun = start.time](const absl::Status&) {
      self->Count(Clock::now() - begun <= kPromising, kRepeatedElsewhere);
    });
  }
}

void RunPlace::Count(bool is_short, int repeated) {
  if (kind_.load(std::memory_order_relaxed) == Kind::kLong) return;
  if (is_short) {
    long_runs_.store(0, std::memory_order_relaxed);
    kind_.store(Kind::kShort, std::memory_order_relaxed);
  } else if (long_runs_.fetch_add(1, std::memory_order_relaxed) + 1 >=
             repeated) {
    kind_.store(Kind::kLong, std::memory_order_relaxed);
  }
}

}  // namespace xlacpu
