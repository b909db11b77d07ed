#include "named_values.h"

#include <algorithm>
#include <cstdint>
#include <variant>

namespace xlacpu {
namespace {

// Sets the value members of a view; overloads follow xla::PjRtValueType.
struct ViewSetter {
  PJRT_NamedValue& view;

  void operator()(const std::string& v) const {
    view.type = PJRT_NamedValue_kString;
    view.string_value = v.data();
    view.value_size = v.size();
  }
  void operator()(bool v) const {
    view.type = PJRT_NamedValue_kBool;
    view.bool_value = v;
  }
  void operator()(int64_t v) const {
    view.type = PJRT_NamedValue_kInt64;
    view.int64_value = v;
  }
  void operator()(const std::vector<int64_t>& v) const {
    view.type = PJRT_NamedValue_kInt64List;
    view.int64_array_value = v.data();
    view.value_size = v.size();
  }
  void operator()(float v) const {
    view.type = PJRT_NamedValue_kFloat;
    view.float_value = v;
  }
};

}  // namespace

NamedValues::NamedValues(
    std::vector<std::pair<std::string, xla::PjRtValueType>> values)
    : values_(std::move(values)) {
  std::sort(values_.begin(), values_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  views_.reserve(values_.size());
  for (const auto& [name, value] : values_) {
    PJRT_NamedValue view{};
    view.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    view.name = name.data();
    view.name_size = name.size();
    view.value_size = 1;
    std::visit(ViewSetter{view}, value);
    views_.push_back(view);
  }
}

NamedValues::NamedValues(
    const absl::flat_hash_map<std::string, xla::PjRtValueType>& values)
    : NamedValues(std::vector<std::pair<std::string, xla::PjRtValueType>>(
          values.begin(), values.end())) {}

}  // namespace xlacpu
