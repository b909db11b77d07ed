#include "key_value.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "error.h"

namespace xlacpu {
namespace {

// What a callback makes its errors with.
PJRT_Error* MakeError(PJRT_Error_Code code, const char* message, size_t size) {
  return ToError(ToStatus(code, message, size));
}

PJRT_CallbackError make_error = MakeError;

// The status in an error that a callback returns; frees the error.
absl::Status Take(PJRT_Error* error, std::string_view what,
                  std::string_view key) {
  if (error == nullptr) return absl::OkStatus();
  std::unique_ptr<Error> owned(Unwrap(error));
  return absl::Status(owned->status.code(),
                      absl::StrCat(what, " of the key ", key,
                                   " in the shared store: ", owned->message));
}

}  // namespace

absl::StatusOr<KeyValueStore> KeyValueStore::From(
    const PJRT_Client_Create_Args& args) {
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr) {
    return absl::InvalidArgumentError(
        "more than one process (num_nodes) needs the key-value callbacks");
  }
  KeyValueStore store;
  store.get_ = args.kv_get_callback;
  store.get_arg_ = args.kv_get_user_arg;
  store.put_ = args.kv_put_callback;
  store.put_arg_ = args.kv_put_user_arg;
  return store;
}

absl::Status KeyValueStore::Put(std::string_view key,
                                std::string_view value) const {
  PJRT_KeyValuePutCallback_Args args{};
  args.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.callback_error = &make_error;
  args.user_arg = put_arg_;
  return Take(put_(&args), "put", key);
}

absl::StatusOr<std::string> KeyValueStore::Get(std::string_view key,
                                               absl::Duration timeout) const {
  PJRT_KeyValueGetCallback_Args args{};
  args.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_in_ms = static_cast<int>(
      std::max<int64_t>(0, absl::ToInt64Milliseconds(timeout)));
  args.callback_error = &make_error;
  args.user_arg = get_arg_;
  absl::Status status = Take(get_(&args), "get", key);
  if (!status.ok()) return status;
  std::string value(args.value, args.value_size);
  if (args.value_deleter_callback != nullptr) {
    args.value_deleter_callback(args.value);
  }
  return value;
}

}  // namespace xlacpu
