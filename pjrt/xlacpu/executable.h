// Executables: compiled programs, asked for what they are.
#ifndef PJRT_XLACPU_EXECUTABLE_H_
#define PJRT_XLACPU_EXECUTABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client.h"
#include "handles.h"
#include "named_values.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"

namespace xlacpu {

// What the C API hands out as arrays that live as long as the executable.
struct OutputInfo {
  std::vector<PJRT_Buffer_Type> types;
  std::vector<int64_t> dims;       // of all outputs, one after another
  std::vector<size_t> dim_counts;  // one per output
  std::vector<std::string> memory_kinds;
  std::vector<const char*> memory_kind_data;
  std::vector<size_t> memory_kind_sizes;
};

// Two kinds: the executable inside a loaded one, which it keeps alive, or one
// that was compiled for a topology and is loaded nowhere.
struct Executable {
  Executable(ClientRef c, std::shared_ptr<xla::PjRtLoadedExecutable> l);
  explicit Executable(std::unique_ptr<xla::PjRtExecutable> o);
  ~Executable();

  const ClientRef client;
  const std::shared_ptr<xla::PjRtLoadedExecutable> loaded;
  // Where one was made for this compilation only (see PJRT_Compile).
  std::unique_ptr<xla::PjRtClient> compiler;
  const std::unique_ptr<xla::PjRtExecutable> owned;
  xla::PjRtExecutable* const xla;
  const std::string name;
  std::string fingerprint;  // empty if unknown
  std::shared_ptr<const std::string> origin;  // see LoadedExecutable

  std::mutex mu;  // guards the members below, which are made on demand
  std::optional<OutputInfo> outputs;
  std::unique_ptr<NamedValues> cost;
  std::optional<std::string> program;
  std::optional<std::vector<PJRT_Layouts_MemoryLayout*>> output_layouts;
};

void InstallExecutable(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_EXECUTABLE_H_
