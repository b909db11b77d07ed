#include "options.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace xlacpu {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
// XLA:CPU numbers the devices of one process in steps below this.
constexpr int64_t kMaxDevices = 2048;
// Every process is connected to every other.
constexpr int64_t kMaxProcesses = 4096;

struct Range {
  int64_t low, high;
};
struct Boolean {};

// One row per option. `variable` completes what callers do not say: some pass
// no options at all (JAX by PJRT_NAMES_AND_LIBRARY_PATHS).
struct Row {
  std::string_view name;
  const char* variable;  // may be null
  std::variant<Range, Boolean> type;
  void (*store)(CreateOptions& out, int64_t value);
};

const Row kRows[] = {
    {"cpu_device_count", "CPU_NUM_DEVICES", Range{1, kMaxDevices},
     [](CreateOptions& o, int64_t v) { o.xla.cpu_device_count = v; }},
    {"asynchronous", nullptr, Boolean{},
     [](CreateOptions& o, int64_t v) { o.xla.asynchronous = v; }},
    {"max_inflight_computations_per_device", nullptr, Range{1, kMaxInt},
     [](CreateOptions& o, int64_t v) {
       o.xla.max_inflight_computations_per_device = v;
     }},
    {"max_transpose_threads", nullptr, Range{1, kMaxInt},
     [](CreateOptions& o, int64_t v) { o.xla.max_transpose_threads = v; }},
    {"cpu_huge_pages", "PJRT_XLA_CPU_HUGE_PAGES", Boolean{},
     [](CreateOptions& o, int64_t v) { o.pool.huge_pages = v; }},
    {"cpu_memory_limit_bytes", "PJRT_XLA_CPU_MEMORY_LIMIT_BYTES",
     Range{1, kMaxInt64},
     [](CreateOptions& o, int64_t v) { o.pool.limit = v; }},
    {"cpu_pool_limit_bytes", "PJRT_XLA_CPU_POOL_LIMIT_BYTES",
     Range{0, kMaxInt64},
     [](CreateOptions& o, int64_t v) { o.pool.kept_limit = v; }},
    {"node_id", nullptr, Range{0, kMaxInt},
     [](CreateOptions& o, int64_t v) { o.xla.process_id = v; }},
    {"num_nodes", nullptr, Range{1, kMaxProcesses},
     [](CreateOptions& o, int64_t v) { o.num_nodes = v; }},
    {"cpu_connect_timeout_seconds", nullptr, Range{1, 86400},
     [](CreateOptions& o, int64_t v) { o.connect_timeout = absl::Seconds(v); }},
    {"cpu_watched_job", nullptr, Boolean{},
     [](CreateOptions& o, int64_t v) { o.watched = v; }},
};

absl::Status CheckRange(std::string_view what, int64_t value, Range range) {
  if (value >= range.low && value <= range.high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is ", value, ", must lie in ", range.low, "..", range.high));
}

absl::Status FromVariable(const Row& row, CreateOptions& out) {
  const char* text = row.variable ? std::getenv(row.variable) : nullptr;
  if (text == nullptr || *text == '\0') return absl::OkStatus();
  const std::string what = absl::StrCat("the environment's ", row.variable);
  int64_t value = 0;
  if (const Range* range = std::get_if<Range>(&row.type)) {
    if (!absl::SimpleAtoi(text, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " is \"", text, "\", must be an integer"));
    }
    absl::Status status = CheckRange(what, value, *range);
    if (!status.ok()) return status;
  } else {
    bool parsed = false;
    if (!absl::SimpleAtob(text, &parsed)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " is \"", text, "\", must be a boolean"));
    }
    value = parsed;
  }
  row.store(out, value);
  return absl::OkStatus();
}

absl::Status FromOption(const Row& row, const PJRT_NamedValue& option,
                        CreateOptions& out) {
  const std::string what = absl::StrCat("create option ", row.name);
  if (const Range* range = std::get_if<Range>(&row.type)) {
    if (option.type != PJRT_NamedValue_kInt64) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " must be an integer"));
    }
    absl::Status status = CheckRange(what, option.int64_value, *range);
    if (status.ok()) row.store(out, option.int64_value);
    return status;
  }
  if (option.type != PJRT_NamedValue_kBool) {
    return absl::InvalidArgumentError(absl::StrCat(what, " must be a boolean"));
  }
  row.store(out, option.bool_value);
  return absl::OkStatus();
}

struct TextRow {
  std::string_view name;
  const char* variable;
  std::string CreateOptions::*member;
};

const TextRow kTextRows[] = {
    {"cpu_lapack_library", "PJRT_XLA_CPU_LAPACK_LIBRARY",
     &CreateOptions::lapack_library},
    {"cpu_collectives_address", "PJRT_XLA_CPU_COLLECTIVES_ADDRESS",
     &CreateOptions::collectives_address},
};

absl::Status ApplyOption(const PJRT_NamedValue& option, CreateOptions& out) {
  const std::string_view name(option.name, option.name_size);
  for (const TextRow& row : kTextRows) {
    if (row.name != name) continue;
    if (option.type != PJRT_NamedValue_kString) {
      return absl::InvalidArgumentError(
          absl::StrCat("create option ", name, " must be a string"));
    }
    (out.*row.member).assign(option.string_value, option.value_size);
    return absl::OkStatus();
  }
  for (const Row& row : kRows) {
    if (row.name == name) return FromOption(row, option, out);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown create option \"", name, "\""));
}

}  // namespace

absl::StatusOr<CreateOptions> ParseCreateOptions(const PJRT_NamedValue* options,
                                                 size_t count) {
  CreateOptions out;
  for (const TextRow& row : kTextRows) {
    const char* text = std::getenv(row.variable);
    if (text != nullptr && *text != '\0') out.*row.member = text;
  }
  for (const Row& row : kRows) {
    absl::Status status = FromVariable(row, out);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < count; ++i) {
    absl::Status status = ApplyOption(options[i], out);
    if (!status.ok()) return status;
  }
  return out;
}

}  // namespace xlacpu
