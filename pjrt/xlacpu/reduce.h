// Elementwise reduction of arrays, for collectives.
#ifndef PJRT_XLACPU_REDUCE_H_
#define PJRT_XLACPU_REDUCE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "xla/core/collectives/reduction_kind.h"
#include "xla/xla_data.pb.h"

namespace xlacpu {

// total[i] = total[i] (op) more[i]. NaN wins over numbers in minima and maxima.
// UNIMPLEMENTED for types without the operation (an order on complex numbers,
// types below one byte).
absl::Status Reduce(xla::PrimitiveType type, xla::ReductionKind kind,
                    void* total, const void* more, size_t count);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_REDUCE_H_
