// Element types, shapes and layouts between the C API and XLA.
#ifndef PJRT_XLACPU_SHAPES_H_
#define PJRT_XLACPU_SHAPES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "xla/layout.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace xlacpu {

// The XLA element type, or INVALID_ARGUMENT naming the number.
absl::StatusOr<xla::PrimitiveType> ToPrimitiveType(PJRT_Buffer_Type type);

// PJRT_Buffer_Type_INVALID for types that the C API cannot name (tuples).
PJRT_Buffer_Type ToBufferType(xla::PrimitiveType type);

// The span over a C array of dimensions; null with zero dimensions is a scalar.
inline absl::Span<const int64_t> Dims(const int64_t* dims, size_t rank) {
  return absl::Span<const int64_t>(dims, rank);
}

// The layout that a caller describes by minor-to-major order or by strides in
// bytes. Tiles and strides that leave gaps do not exist on the CPU and are
// UNIMPLEMENTED; a rank that differs from `dims` is INVALID_ARGUMENT.
absl::StatusOr<xla::Layout> ToLayout(const PJRT_Buffer_MemoryLayout& layout,
                                     xla::PrimitiveType type,
                                     absl::Span<const int64_t> dims);

// An array shape; `layout` may be null, for the row-major default.
absl::StatusOr<xla::Shape> ToShape(PJRT_Buffer_Type type,
                                   absl::Span<const int64_t> dims,
                                   const PJRT_Buffer_MemoryLayout* layout);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_SHAPES_H_
