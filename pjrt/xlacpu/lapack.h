// The LAPACK that linear algebra runs on: a library of the caller's choice.
#ifndef PJRT_XLACPU_LAPACK_H_
#define PJRT_XLACPU_LAPACK_H_

#include <complex>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xlacpu {

// Loads the shared library at the absolute path `path`: one with LAPACK's
// routines under their Fortran names (spotrf_, 32-bit integers), as they are or
// after "scipy_" (the package scipy-openblas32). INVALID_ARGUMENT if it cannot
// be loaded or is not such a library. A process has one: loading it again does
// nothing, loading another is FAILED_PRECONDITION.
absl::Status LoadLapack(const std::string& path);

// The routine of this name, without the underscore; null if the library lacks
// it or none is loaded.
void* FindLapack(std::string_view routine);

// The letter that LAPACK's names begin with, by element type.
template <class T>
inline constexpr char kLapackPrefix = '?';
template <>
inline constexpr char kLapackPrefix<float> = 's';
template <>
inline constexpr char kLapackPrefix<double> = 'd';
template <>
inline constexpr char kLapackPrefix<std::complex<float>> = 'c';
template <>
inline constexpr char kLapackPrefix<std::complex<double>> = 'z';

// A text argument of a Fortran routine has its length passed by value after all
// other arguments; one of these stands for each.
inline constexpr size_t kLength = 1;

// Calls a Fortran routine: `args` are pointers, then the lengths.
template <class... Args>
void CallLapack(void* routine, Args... args) {
  reinterpret_cast<void (*)(Args...)>(routine)(args...);
}

}  // namespace xlacpu

#endif  // PJRT_XLACPU_LAPACK_H_
