#include "error.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"

namespace xlacpu {

PJRT_Error* ToError(absl::Status status) {
  if (status.ok()) return nullptr;
  std::string message(status.message());
  return Wrap(new Error{std::move(status), std::move(message)});
}

PJRT_Error* InvalidArgument(std::string message) {
  return ToError(absl::InvalidArgumentError(message));
}

PJRT_Error* Unimplemented(std::string_view what, std::string_view why) {
  return ToError(absl::UnimplementedError(
      absl::StrCat(what, " is not implemented by the XLA:CPU plugin: ", why)));
}

absl::Status ToStatus(PJRT_Error_Code code, const char* message, size_t size) {
  return absl::Status(static_cast<absl::StatusCode>(code),
                      message ? std::string_view(message, size) : "");
}

PJRT_Error* ShortArgs(const char* type, const size_t* actual, size_t needed) {
  if (actual == nullptr) return InvalidArgument(absl::StrCat(type, " is null"));
  return InvalidArgument(absl::StrCat(type, ": struct_size is ", *actual,
                                      ", at least ", needed, " is needed"));
}

PJRT_Error* NullHandle(const char* type, const char* field) {
  return InvalidArgument(absl::StrCat(type, ": ", field, " is null"));
}

PJRT_Error* FromCurrentException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ToError(absl::ResourceExhaustedError("out of host memory"));
  } catch (const std::exception& e) {
    return ToError(absl::InternalError(absl::StrCat("C++ exception: ", e.what())));
  } catch (...) {
    return ToError(absl::InternalError("unknown C++ exception"));
  }
}

namespace {

void Error_Destroy(PJRT_Error_Destroy_Args* args) {
  if (args != nullptr) delete Unwrap(args->error);
}

void Error_Message(PJRT_Error_Message_Args* args) {
  const Error* error = Unwrap(args->error);
  args->message = error ? error->message.data() : "";
  args->message_size = error ? error->message.size() : 0;
}

PJRT_Error* Error_GetCode(PJRT_Error_GetCode_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Error_GetCode_Args, code);
  XLACPU_OBJECT(error, PJRT_Error_GetCode_Args, error);
  args->code = static_cast<PJRT_Error_Code>(error->status.code());
  return nullptr;
}

}  // namespace

void InstallError(PJRT_Api& api) {
  api.PJRT_Error_Destroy = Error_Destroy;
  api.PJRT_Error_Message = Error_Message;
  XLACPU_SLOT(api, Error_GetCode);
}

}  // namespace xlacpu
