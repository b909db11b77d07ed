// Attributes and options: names with a value of one of five types.
#ifndef PJRT_XLACPU_NAMED_VALUES_H_
#define PJRT_XLACPU_NAMED_VALUES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_common.h"

namespace xlacpu {

// A list of PJRT_NamedValue together with the strings and arrays that it
// points into. Immutable once built, sorted by name, so that two processes list
// the same attributes in the same order.
class NamedValues {
 public:
  NamedValues() = default;
  explicit NamedValues(
      std::vector<std::pair<std::string, xla::PjRtValueType>> values);
  explicit NamedValues(
      const absl::flat_hash_map<std::string, xla::PjRtValueType>& values);

  // The views hold addresses of this object's own strings.
  NamedValues(const NamedValues&) = delete;
  NamedValues& operator=(const NamedValues&) = delete;

  const PJRT_NamedValue* data() const { return views_.data(); }
  size_t size() const { return views_.size(); }

 private:
  std::vector<std::pair<std::string, xla::PjRtValueType>> values_;
  std::vector<PJRT_NamedValue> views_;
};

}  // namespace xlacpu

#endif  // PJRT_XLACPU_NAMED_VALUES_H_
