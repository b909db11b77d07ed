#include "plugin.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "flags.h"
#include "library.h"
#include "named_values.h"

namespace xlacpu {

absl::Status CheckProcess() {
  absl::Status status = CheckLibraries();
  return status.ok() ? CheckEnvironmentFlags() : status;
}

namespace {

PJRT_Error* Plugin_Initialize(PJRT_Plugin_Initialize_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Plugin_Initialize_Args, extension_start);
  return ToError(CheckProcess());
}

PJRT_Error* Plugin_Attributes(PJRT_Plugin_Attributes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Plugin_Attributes_Args, num_attributes);
  // The StableHLO of tensorflow-cpu 2.21.0; the library itself does not tell.
  using Values = std::vector<std::pair<std::string, xla::PjRtValueType>>;
  static const NamedValues* attributes = new NamedValues(Values{
      {"xla_version", int64_t{2}},
      {"stablehlo_current_version", std::vector<int64_t>{1, 13, 7}},
      {"stablehlo_minimum_version", std::vector<int64_t>{0, 9, 0}},
  });
  args->attributes = attributes->data();
  args->num_attributes = attributes->size();
  return nullptr;
}

}  // namespace

void InstallPlugin(PJRT_Api& api) {
  XLACPU_SLOT(api, Plugin_Initialize);
  XLACPU_SLOT(api, Plugin_Attributes);
}

}  // namespace xlacpu

extern "C" __attribute__((visibility("default"))) int XlaCpuPlugin_Vet(
    const char* xla_flags, char* message, size_t size) {
  absl::Status status = xlacpu::CheckLibraries();
  if (status.ok()) {
    status = xla_flags == nullptr ? xlacpu::CheckEnvironmentFlags()
                                  : xlacpu::CheckFlags(xla_flags);
  }
  if (!status.ok() && message != nullptr && size != 0) {
    std::snprintf(message, size, "%s", std::string(status.message()).c_str());
  }
  return static_cast<int>(status.code());
}
