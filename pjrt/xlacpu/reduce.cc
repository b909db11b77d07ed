#include "reduce.h"

#include <complex>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "xla/primitive_util.h"
#include "xla/types.h"

namespace xlacpu {
namespace {

template <class T>
struct IsComplex : std::false_type {};
template <class R>
struct IsComplex<std::complex<R>> : std::true_type {};

template <class T>
T Least(T a, T b) {
  return a != a || a < b ? a : b;
}
template <class T>
T Greatest(T a, T b) {
  return a != a || b < a ? a : b;
}

template <class T, class Operation>
void ForEach(T* total, const T* more, size_t count, Operation operation) {
  for (size_t i = 0; i < count; ++i) total[i] = operation(total[i], more[i]);
}

// Booleans are added by "or" and multiplied by "and", which is also what their
// maximum and minimum are.
absl::Status ReduceBooleans(xla::ReductionKind kind, bool* total,
                            const bool* more, size_t count) {
  if (kind == xla::ReductionKind::SUM || kind == xla::ReductionKind::MAX) {
    ForEach(total, more, count, [](bool a, bool b) { return a || b; });
  } else {
    ForEach(total, more, count, [](bool a, bool b) { return a && b; });
  }
  return absl::OkStatus();
}

template <class T>
absl::Status ReduceNumbers(xla::ReductionKind kind, T* total, const T* more,
                           size_t count) {
  switch (kind) {
    case xla::ReductionKind::SUM:
      ForEach(total, more, count,
              [](T a, T b) { return static_cast<T>(a + b); });
      return absl::OkStatus();
    case xla::ReductionKind::PRODUCT:
      ForEach(total, more, count,
              [](T a, T b) { return static_cast<T>(a * b); });
      return absl::OkStatus();
    case xla::ReductionKind::MIN:
      if constexpr (!IsComplex<T>::value) {
        ForEach(total, more, count, Least<T>);
        return absl::OkStatus();
      }
      break;
    case xla::ReductionKind::MAX:
      if constexpr (!IsComplex<T>::value) {
        ForEach(total, more, count, Greatest<T>);
        return absl::OkStatus();
      }
      break;
  }
  return absl::UnimplementedError("complex numbers have no order");
}

}  // namespace

absl::Status Reduce(xla::PrimitiveType type, xla::ReductionKind kind,
                    void* total, const void* more, size_t count) {
  namespace util = xla::primitive_util;
  if (!util::IsArrayType(type) || util::IsSubByteNonPredType(type)) {
    return absl::UnimplementedError(
        absl::StrCat("a collective reduction of ",
                     util::LowercasePrimitiveTypeName(type)));
  }
  return util::ArrayTypeSwitch(
      [&](auto constant) -> absl::Status {
        using T = util::NativeTypeOf<constant>;
        if constexpr (std::is_same_v<T, bool>) {
          return ReduceBooleans(kind, static_cast<T*>(total),
                                static_cast<const T*>(more), count);
        } else {
          return ReduceNumbers<T>(kind, static_cast<T*>(total),
                                  static_cast<const T*>(more), count);
        }
      },
      type);
}

}  // namespace xlacpu
