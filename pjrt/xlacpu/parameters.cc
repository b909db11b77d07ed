#include "parameters.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/shape.h"
#include "xla/shape_util.h"

namespace xlacpu {
namespace {

// The bytes of an array as transfers count them: an element is a byte or more.
int64_t Bytes(const xla::Shape& shape) {
  if (!shape.IsArray()) return 0;
  return xla::ShapeUtil::ElementsIn(shape) *
         xla::ShapeUtil::ByteSizeOfPrimitiveType(shape.element_type());
}

}  // namespace

Parameters::Parameters(const xla::PjRtLoadedExecutable& executable) {
  auto modules = executable.GetHloModules();
  if (!modules.ok() || modules->size() != 1) return;
  const xla::HloModule& module = *(*modules)[0];
  const auto& layout = module.entry_computation_layout();
  const bool tuple =
      layout.parameter_count() == 1 && layout.parameter_shape(0).IsTuple();
  const int count = tuple ? layout.parameter_shape(0).tuple_shapes().size()
                          : layout.parameter_count();
  for (int i = 0; i < count; ++i) {
    const xla::Shape& shape = tuple ? layout.parameter_shape(0).tuple_shapes(i)
                                    : layout.parameter_shape(i);
    const int number = tuple ? 0 : i;
    const xla::ShapeIndex index = tuple ? xla::ShapeIndex{i} : xla::ShapeIndex{};
    const bool donated =
        module.input_output_alias_config().ParameterHasAlias(number, index) ||
        module.buffer_donor_config().ParameterIsBufferDonor(number, index);
    parameters_.push_back({Bytes(shape), donated});
  }
  known_ = true;
}

absl::Status Parameters::Check(absl::Span<xla::PjRtBuffer* const> arguments,
                               const xla::PjRtDevice* device,
                               const absl::flat_hash_set<int>& kept) const {
  if (!known_) return absl::OkStatus();
  if (arguments.size() != parameters_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", arguments.size(), " arguments, the program has ",
                     parameters_.size(), " parameters"));
  }
  absl::flat_hash_map<const xla::PjRtBuffer*, int> uses;
  for (const xla::PjRtBuffer* buffer : arguments) ++uses[buffer];
  for (size_t i = 0; i < arguments.size(); ++i) {
    const xla::PjRtBuffer* buffer = arguments[i];
    const auto refuse = [&](auto... why) {
      return absl::InvalidArgumentError(
          absl::StrCat("argument ", i, " of ", device->DebugString(), " ", why...));
    };
    if (buffer->IsDeleted()) return refuse("is deleted or was donated");
    if (buffer->device() != device) {
      return refuse("is on ", buffer->device()->DebugString());
    }
    const Parameter& parameter = parameters_[i];
    if (const int64_t given = Bytes(buffer->on_device_shape());
        given != parameter.bytes) {
      return refuse("has ", given, " bytes, the parameter has ", parameter.bytes);
    }
    if (parameter.donated && !kept.contains(static_cast<int>(i)) &&
        uses[buffer] > 1) {
      return refuse("is taken over by the program and passed twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace xlacpu
