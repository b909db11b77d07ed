// Linear algebra: the custom calls that JAX lowers matrix factorizations to on
// a CPU, as XLA FFI handlers on LAPACK.
//
// A client that calls itself "cpu" gets programs with these calls, whose
// handlers only JAX's own library has; without them they do not compile here.
// Targets are named lapack_<type><routine>_ffi, and are called with matrices
// in column-major layout, batched over all leading dimensions.
#ifndef PJRT_XLACPU_LINALG_H_
#define PJRT_XLACPU_LINALG_H_

#include "absl/status/status.h"

namespace xlacpu {

// Registers all handlers with XLA, once for the process. They are there whether
// or not there is a LAPACK (see lapack.h): without one a program compiles, and
// fails when it runs, with an error that says what to set.
absl::Status RegisterLinalg();

}  // namespace xlacpu

#endif  // PJRT_XLACPU_LINALG_H_
