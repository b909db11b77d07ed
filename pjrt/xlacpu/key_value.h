// The key-value store that the processes of a job share, as the caller of
// PJRT_Client_Create provides it.
#ifndef PJRT_XLACPU_KEY_VALUE_H_
#define PJRT_XLACPU_KEY_VALUE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// Borrows the callbacks. It is used while the client is created, and if the
// caller watches the job (options.h), until it is destroyed. The caller sees to it
// that keys of different plugins do not collide.
class KeyValueStore {
 public:
  // INVALID_ARGUMENT if a callback is missing.
  static absl::StatusOr<KeyValueStore> From(const PJRT_Client_Create_Args& args);

  absl::Status Put(std::string_view key, std::string_view value) const;

  // Waits for another process to put the key.
  absl::StatusOr<std::string> Get(std::string_view key,
                                  absl::Duration timeout) const;

 private:
  PJRT_KeyValueGetCallback get_ = nullptr;
  void* get_arg_ = nullptr;
  PJRT_KeyValuePutCallback put_ = nullptr;
  void* put_arg_ = nullptr;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_KEY_VALUE_H_
