// Where the runs of a program take place: in the thread that launches them, or
// in one of XLA's.
//
// Handing a run to another thread and being told of its end costs 10 to 50 µs
// each, more than many programs take. XLA runs those at once that count few
// floating point operations. But a large program of cheap instructions may count
// few, and XLA does not see the operations of a loop or of a handler's call. So the time that runs take decides: the processor
// time of the launching thread, which other processes do not lengthen.
#ifndef PJRT_XLACPU_RUN_PLACE_H_
#define PJRT_XLACPU_RUN_PLACE_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "xla/future.h"
#include "xla/pjrt/pjrt_executable.h"

namespace xlacpu {

// Thread-safe. Shared, since runs outlive their program's object.
class RunPlace : public std::enable_shared_from_this<RunPlace> {
 public:
  using Clock = std::chrono::steady_clock;

  // What to ask of XLA for the next run. XLA runs nothing in the launching
  // thread that has to wait for its arguments.
  xla::ExecuteOptions::ExecutionMode mode() const;

  // A launch that has begun: in wall time, and by the thread's processor time.
  struct Start {
    Clock::time_point time = Clock::now();
    std::chrono::nanoseconds worked = Worked();
  };

  // Learns from a run: when its launch began, and what tells of its end. Called
  // when the launch returns, in the same thread.
  void Learn(const Start& start, xla::Future<>& done);

 private:
  // Of runs in the launching thread, which they hold up as long: what handing
  // over costs in all.
  static constexpr std::chrono::microseconds kShort{100};
  // The same in wall time, for runs that wait for other threads. It is longer, as
  // other processes lengthen it.
  static constexpr std::chrono::milliseconds kHeldUp{1};
  // Of runs elsewhere, with the way there and back: worth a run here.
  static constexpr std::chrono::microseconds kPromising{300};
  // So many in a row decide that runs are long: one may have been interrupted.
  static constexpr int kRepeated = 3;
  // So many of those elsewhere, whose way there and back is long on a busy
  // machine, and the first of which build what later ones use.
  static constexpr int kRepeatedElsewhere = 32;

  enum class Kind { kUnknown, kShort, kLong };

  // The processor time of this thread.
  static std::chrono::nanoseconds Worked();

  void Count(bool is_short, int repeated);

  std::atomic<Kind> kind_{Kind::kUnknown};
  std::atomic<int> long_runs_{0};  // in a row
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_RUN_PLACE_H_
