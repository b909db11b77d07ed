// Errors as the C API hands them out, and the checks that open every function.
#ifndef PJRT_XLACPU_ERROR_H_
#define PJRT_XLACPU_ERROR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "handles.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// What a PJRT_Error* points to; the caller owns it until PJRT_Error_Destroy.
// The message is kept apart from the status because the C API promises the
// text an address that lives as long as the error.
struct Error {
  absl::Status status;
  std::string message;
};

// The C form of a status: null when it is OK. PJRT's codes and abseil's have
// the same numbers.
PJRT_Error* ToError(absl::Status status);

PJRT_Error* InvalidArgument(std::string message);

// `what` names the function or the feature, `why` the reason it is absent.
PJRT_Error* Unimplemented(std::string_view what, std::string_view why);

// A status from the triple in which C callers give errors to this plugin.
absl::Status ToStatus(PJRT_Error_Code code, const char* message, size_t size);

// The error for an args struct that is null or too short for a function.
PJRT_Error* ShortArgs(const char* type, const size_t* actual, size_t needed);

// The error for a handle that must not be null.
PJRT_Error* NullHandle(const char* type, const char* field);

// The error for an exception that reached the C boundary; call it in a handler.
PJRT_Error* FromCurrentException() noexcept;

// Puts a function into a slot of PJRT_Api: no exception (std::bad_alloc, at
// most) crosses into C, where it would end the process.
template <auto kFunction>
struct Guard;
template <class Args, PJRT_Error* (*kFunction)(Args*)>
struct Guard<kFunction> {
  static PJRT_Error* Call(Args* args) noexcept {
    try {
      return kFunction(args);
    } catch (...) {
      return FromCurrentException();
    }
  }
};

void InstallError(PJRT_Api& api);

}  // namespace xlacpu

// Fills the slot PJRT_<name> with the function <name> of this file.
#define XLACPU_SLOT(api, name) (api).PJRT_##name = ::xlacpu::Guard<name>::Call

// Returns an error unless `args` is a `Type` that reaches as far as `last`, the
// last member that the function touches. Callers built against older headers
// pass shorter structs.
#define XLACPU_CHECK_ARGS(Type, last)                                       \
  if (args == nullptr || args->struct_size < PJRT_STRUCT_SIZE(Type, last)) \
  return ::xlacpu::ShortArgs(#Type, args ? &args->struct_size : nullptr,    \
                             PJRT_STRUCT_SIZE(Type, last))

// Whether the caller's struct has the optional member `field`.
#define XLACPU_HAS(Type, field) \
  (args->struct_size >= PJRT_STRUCT_SIZE(Type, field))

// Declares `name` as the object behind args->field, or returns an error.
#define XLACPU_OBJECT(name, Type, field)             \
  auto* name = ::xlacpu::Unwrap(args->field);        \
  if (name == nullptr) return ::xlacpu::NullHandle(#Type, #field)

#define XLACPU_CONCAT_(a, b) a##b
#define XLACPU_CONCAT(a, b) XLACPU_CONCAT_(a, b)
#define XLACPU_ASSIGN_(temporary, target, expression)                      \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) return ::xlacpu::ToError(temporary.status());       \
  target = std::move(temporary).value()

// target = the value of a StatusOr, or return its status as a PJRT_Error*.
#define XLACPU_ASSIGN(target, expression) \
  XLACPU_ASSIGN_(XLACPU_CONCAT(status_or_, __LINE__), target, expression)

#define XLACPU_RETURN_IF_ERROR(expression)                         \
  do {                                                             \
    absl::Status status_ = (expression);                           \
    if (!status_.ok()) return ::xlacpu::ToError(std::move(status_)); \
  } while (0)

#endif  // PJRT_XLACPU_ERROR_H_
