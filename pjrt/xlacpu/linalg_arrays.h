// What the handlers of linear algebra share: arrays, batches and checks.
#ifndef PJRT_XLACPU_LINALG_ARRAYS_H_
#define PJRT_XLACPU_LINALG_ARRAYS_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lapack.h"
#include "xla/ffi/api/ffi.h"

namespace xlacpu::linalg {

namespace ffi = xla::ffi;

template <class T>
inline constexpr ffi::DataType kDataType = ffi::DataType::INVALID;
template <>
inline constexpr ffi::DataType kDataType<float> = ffi::DataType::F32;
template <>
inline constexpr ffi::DataType kDataType<double> = ffi::DataType::F64;
template <>
inline constexpr ffi::DataType kDataType<std::complex<float>> =
    ffi::DataType::C64;
template <>
inline constexpr ffi::DataType kDataType<std::complex<double>> =
    ffi::DataType::C128;
template <>
inline constexpr ffi::DataType kDataType<int32_t> = ffi::DataType::S32;

template <class T>
using Array = ffi::Buffer<kDataType<T>>;
template <class T>
using Output = ffi::Result<Array<T>>;
using Ints = Output<int32_t>;

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

// One target of a custom call.
struct Target {
  std::string name;
  XLA_FFI_Handler* handler;
};

// The targets of each file.
void AddSolvers(std::vector<Target>& targets);
void AddReflectors(std::vector<Target>& targets);
void AddEigen(std::vector<Target>& targets);
void AddSvd(std::vector<Target>& targets);

// "lapack_" + the type's letter + routine + "_ffi".
template <class T>
Target MakeTarget(std::string_view routine, XLA_FFI_Handler* handler) {
  std::string name = "lapack_";
  name += kLapackPrefix<T>;
  name += routine;
  name += "_ffi";
  return {std::move(name), handler};
}

// The routine for the element type, by its name without the type's letter.
template <class T>
void* Routine(std::string_view name) {
  std::string full(1, kLapackPrefix<T>);
  full += name;
  return FindLapack(full);
}

ffi::Error NoRoutine(std::string_view name);
ffi::Error IllegalArgument(std::string_view name, int info);

// A stack of matrices. The sizes are LAPACK's integers; `leading` is what
// LAPACK wants as the leading dimension of a matrix without rows, too.
struct Matrices {
  int64_t count = 0;
  int rows = 0, cols = 0, leading = 1;
  int64_t size() const { return int64_t{rows} * cols; }  // of one matrix
  int rank() const { return std::min(rows, cols); }
};

// The stack in the last two of `dims`; an error below two dimensions, and for
// sizes beyond LAPACK's integers.
ffi::ErrorOr<Matrices> MatricesOf(ffi::Span<const int64_t> dims);

// The last dimension of an array; -1 if it has none.
template <class A>
int64_t LastOf(const A& array) {
  const auto dims = array.dimensions();
  return dims.size() == 0 ? -1 : dims[dims.size() - 1];
}

// Compares a call with what LAPACK reads and writes: a program may come from
// anyone, and LAPACK trusts the sizes that it is told. The first difference is
// the error. A routine is called only after all of its call has been compared.
class Fit {
 public:
  // The batch is what precedes the last two of `dims`, which are two or more.
  explicit Fit(ffi::Span<const int64_t> dims)
      : batch_(dims.begin(), dims.size() - 2) {}

  // `array` has the dimensions of the batch, then these.
  template <class A>
  Fit& Has(std::string_view name, const A& array,
           std::initializer_list<int64_t> sizes) {
    std::vector<int64_t> want(batch_.begin(), batch_.end());
    want.insert(want.end(), sizes);
    const auto dims = array.dimensions();
    return Holds(std::equal(want.begin(), want.end(), dims.begin(), dims.end()),
                 name, "does not have the dimensions that LAPACK needs");
  }
  // An option of the routine is one of these letters.
  Fit& Letter(std::string_view name, uint8_t option, std::string_view letters) {
    return Holds(letters.find(static_cast<char>(option)) != letters.npos, name,
                 "is not an option that LAPACK has");
  }
  Fit& Holds(bool condition, std::string_view name, std::string_view else_what);

  bool failed() const { return error_.failure(); }
  const ffi::Error& error() const { return error_; }

 private:
  const ffi::Span<const int64_t> batch_;
  ffi::Error error_;
};

// Copies an operand into the result that LAPACK overwrites, unless XLA has
// given both the same memory.
template <class T>
void CopyIn(Array<T> from, Output<T> to) {
  if (from.untyped_data() == to->untyped_data()) return;
  std::memcpy(to->untyped_data(), from.untyped_data(), from.size_bytes());
}

// Some routines never return from, or crash on, NaNs and infinities.
template <class T>
bool AllFinite(const T* data, int64_t size) {
  return std::all_of(data, data + size, [](const T& x) {
    return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
  });
}

// What LAPACK reports for a fourth argument that it cannot take, the matrix.
inline constexpr int kNotFinite = -4;

// The size that a workspace query has stored in work[0].
template <class T>
int WorkSize(const T& query) {
  // Single precision rounds large sizes down; the next number is safe.
  const double size = std::nextafter(std::real(query),
                                     std::numeric_limits<Real<T>>::max());
  return std::max(1, static_cast<int>(
                         std::min<double>(size, std::numeric_limits<int>::max())));
}

}  // namespace xlacpu::linalg

#endif  // PJRT_XLACPU_LINALG_ARRAYS_H_
