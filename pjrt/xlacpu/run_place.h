// Where the runs of a program take place: in the thread that launches them, or
// in one of XLA's.
//
// Handing a run to another thread and being told of its end costs 10 to 50 µs,
// more than many programs take. XLA runs those at once that count few floating
// point operations, which is true of a large program of cheap instructions as
// little as it is false of a loop or of a handler's call, whose operations it
// does not see. So the time that runs take decides.
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

  // Learns from a run: when its launch began, and what tells of its end. Called
  // when the launch returns.
  void Learn(Clock::time_point start, xla::Future<>& done);

 private:
  // Of runs in the launching thread; more than a run may hold it up.
  static constexpr std::chrono::microseconds kShort{50};
  // Of runs elsewhere, with the way there and back: worth a run here.
  static constexpr std::chrono::microseconds kPromising{200};
  // So many in a row decide that runs are long: one may have been interrupted.
  static constexpr int kRepeated = 3;

  enum class Kind { kUnknown, kShort, kLong };

  void Count(bool is_short);

  std::atomic<Kind> kind_{Kind::kUnknown};
  std::atomic<int> long_runs_{0};  // in a row
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_RUN_PLACE_H_
