#include "linalg.h"

#include <mutex>
#include <string>
#include <vector>

#include "linalg_arrays.h"

// Declared here: their header (xla/ffi/ffi_api.h) is the inside of XLA's FFI and
// cannot be included together with the outside that handlers are written in.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
absl::Status TakeStatus(XLA_FFI_Error* error);
}  // namespace xla::ffi

namespace xlacpu {
namespace linalg {

ffi::Error NoRoutine(std::string_view name) {
  return ffi::Error(
      ffi::ErrorCode::kFailedPrecondition,
      "linear algebra needs a LAPACK library with " + std::string(name) +
          ": give its path as the create option cpu_lapack_library or in "
          "PJRT_XLA_CPU_LAPACK_LIBRARY");
}

ffi::Error IllegalArgument(std::string_view name, int info) {
  return ffi::Error::Internal("LAPACK's " + std::string(name) +
                              " refuses its argument " + std::to_string(-info));
}

ffi::ErrorOr<Matrices> MatricesOf(ffi::Span<const int64_t> dims) {
  if (dims.size() < 2) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("a matrix has two dimensions or more"));
  }
  Matrices out;
  out.count = 1;
  for (size_t i = 0; i + 2 < dims.size(); ++i) {
    if (__builtin_mul_overflow(out.count, dims[i], &out.count)) {
      return ffi::Unexpected(
          ffi::Error::InvalidArgument("a batch of more than 2^63 matrices"));
    }
  }
  const int64_t rows = dims[dims.size() - 2], cols = dims[dims.size() - 1];
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  if (rows > kMax || cols > kMax) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "a matrix of " + std::to_string(rows) + " by " + std::to_string(cols) +
        " exceeds LAPACK's 32-bit sizes"));
  }
  out.rows = static_cast<int>(rows);
  out.cols = static_cast<int>(cols);
  out.leading = std::max(1, out.rows);
  return out;
}

Fit& Fit::Holds(bool condition, std::string_view name,
                std::string_view else_what) {
  if (!condition && error_.success()) {
    error_ = ffi::Error::InvalidArgument("linear algebra: " + std::string(name) +
                                         " " + std::string(else_what));
  }
  return *this;
}

}  // namespace linalg

absl::Status RegisterLinalg() {
  static const absl::Status* status = [] {
    std::vector<linalg::Target> targets;
    linalg::AddSolvers(targets);
    linalg::AddReflectors(targets);
    linalg::AddEigen(targets);
    linalg::AddSvd(targets);
    absl::Status first;
    for (const linalg::Target& target : targets) {
      // "Host" is XLA's own name for the CPU.
      first.Update(xla::ffi::TakeStatus(xla::ffi::Ffi::RegisterStaticHandler(
          xla::ffi::GetXlaFfiApi(), target.name, "Host", target.handler)));
    }
    return new absl::Status(first);
  }();
  return *status;
}

}  // namespace xlacpu
