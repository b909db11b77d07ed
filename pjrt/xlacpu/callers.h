// Who connects to a process of a job, and whether it is of the job.
#ifndef PJRT_XLACPU_CALLERS_H_
#define PJRT_XLACPU_CALLERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "socket.h"

namespace xlacpu {

constexpr size_t kTokenSize = 16;

// What a process says first on a connection that it opens: the token is the
// listener's, which the store gives only to processes of the job. Each listener
// has its own, so that who answers in its place learns nothing of use.
struct Greeting {
  char magic[8] = {'X', 'L', 'A', 'C', 'P', 'U', 'T', '2'};
  char token[kTokenSize] = {};
  int32_t process = 0;
  int32_t unused = 0;
};

// The connections that have been accepted and have not greeted yet. A stranger
// that says nothing delays no one: it has 5 s, and when there are too many the
// oldest one goes.
class Callers {
 public:
  Callers(int listener, std::string token)
      : listener_(listener), token_(std::move(token)) {}

  // Waits for a connection of a process of the job: its number, as it says, and
  // the connection.
  absl::StatusOr<std::pair<int, Socket>> Next(absl::Time deadline,
                                              const Interrupt& interrupt);

 private:
  struct Caller {
    Socket socket;
    absl::Time until;
    Greeting said;
    size_t size = 0;  // of what has arrived of the greeting
  };

  void Accept();
  // Reads what has arrived; false if the connection is of no use.
  bool Read(Caller& caller);
  bool Knows(const Greeting& said) const;

  const int listener_;
  const std::string token_;
  std::vector<Caller> callers_;  // oldest first
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_CALLERS_H_
