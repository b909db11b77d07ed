#include "shapes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "types.h"
#include "xla/layout_util.h"
#include "xla/shape_util.h"

namespace xlacpu {
namespace {

constexpr std::pair<PJRT_Buffer_Type, xla::PrimitiveType> kTypes[] = {
#define PAIR(name) {PJRT_Buffer_Type_##name, xla::name},
    XLACPU_TYPES(PAIR)
#undef PAIR
};

absl::StatusOr<xla::Layout> FromMinorToMajor(
    const PJRT_Buffer_MemoryLayout_Tiled& tiled, size_t rank) {
  if (tiled.minor_to_major_size != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layout orders ", tiled.minor_to_major_size,
                     " dimensions, the shape has ", rank));
  }
  if (tiled.num_tiles != 0) {
    return absl::UnimplementedError("tiled layouts do not exist on the CPU");
  }
  auto order = Dims(tiled.minor_to_major, rank);
  std::vector<bool> seen(rank, false);
  for (int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(rank) || seen[d]) {
      return absl::InvalidArgumentError(
          "minor_to_major is not a permutation of the dimensions");
    }
    seen[d] = true;
  }
  return xla::LayoutUtil::MakeLayout(order);
}

// Dimensions of size one may have any stride, so that only the order of the
// others is read from the strides.
absl::StatusOr<xla::Layout> FromStrides(
    const PJRT_Buffer_MemoryLayout_Strides& strides, xla::PrimitiveType type,
    absl::Span<const int64_t> dims) {
  if (strides.num_byte_strides != dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layout has ", strides.num_byte_strides,
                     " strides, the shape has ", dims.size(), " dimensions"));
  }
  std::vector<int64_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides.byte_strides[a] < strides.byte_strides[b];
  });
  int64_t dense = xla::ShapeUtil::ByteSizeOfPrimitiveType(type);
  for (int64_t d : order) {
    if (dims[d] > 1 && strides.byte_strides[d] != dense) {
      return absl::UnimplementedError(absl::StrCat(
          "dimension ", d, " has a stride of ", strides.byte_strides[d],
          " bytes where a dense layout has ", dense));
    }
    dense *= dims[d];
  }
  return xla::LayoutUtil::MakeLayout(order);
}

}  // namespace

absl::StatusOr<xla::PrimitiveType> ToPrimitiveType(PJRT_Buffer_Type type) {
  for (const auto& [c, xla_type] : kTypes) {
    if (c == type) return xla_type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown element type (PJRT_Buffer_Type ", static_cast<int>(type), ")"));
}

PJRT_Buffer_Type ToBufferType(xla::PrimitiveType type) {
  for (const auto& [c, xla_type] : kTypes) {
    if (xla_type == type) return c;
  }
  return PJRT_Buffer_Type_INVALID;
}

absl::StatusOr<xla::Layout> ToLayout(const PJRT_Buffer_MemoryLayout& layout,
                                     xla::PrimitiveType type,
                                     absl::Span<const int64_t> dims) {
  switch (layout.type) {
    case PJRT_Buffer_MemoryLayout_Type_Tiled:
      return FromMinorToMajor(layout.tiled, dims.size());
    case PJRT_Buffer_MemoryLayout_Type_Strides:
      return FromStrides(layout.strides, type, dims);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kind of layout (", static_cast<int>(layout.type), ")"));
}

absl::StatusOr<xla::Shape> ToShape(PJRT_Buffer_Type type,
                                   absl::Span<const int64_t> dims,
                                   const PJRT_Buffer_MemoryLayout* layout) {
  absl::StatusOr<xla::PrimitiveType> element = ToPrimitiveType(type);
  if (!element.ok()) return element.status();
  absl::StatusOr<xla::Shape> shape =
      xla::ShapeUtil::MakeValidatedShape(*element, dims);
  if (!shape.ok() || layout == nullptr) return shape;
  absl::StatusOr<xla::Layout> asked = ToLayout(*layout, *element, dims);
  if (!asked.ok()) return asked.status();
  *shape->mutable_layout() = *std::move(asked);
  return shape;
}

}  // namespace xlacpu
