#include "executable_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "library.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/service/cpu/executable.pb.h"

namespace xlacpu {
namespace {

constexpr std::string_view kMagic = "XLACPU1\n";
constexpr size_t kHeaderSize = 24;

uint64_t Checksum(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : bytes) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

void AppendNumber(std::string& out, uint64_t number) {
  for (int i = 0; i < 8; ++i) out += static_cast<char>(number >> (8 * i));
}

uint64_t ReadNumber(std::string_view bytes) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) {
    number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

// XLA lists hints to LLVM ("+prefer-no-gather") among the features that a
// program needs of the machine.
bool IsHint(std::string_view feature) {
  return absl::StartsWith(feature, "+prefer-");
}

struct Parsed {
  xla::ExecutableAndOptionsProto outer;
  xla::cpu::CompilationResultProto program;
};

bool Parse(std::string_view bytes, Parsed& out) {
  return out.outer.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
         out.program.ParseFromString(out.outer.serialized_executable());
}

absl::Status CheckFeatures(std::string_view needed,
                           absl::Span<const std::string> host) {
  std::vector<std::string_view> missing;
  for (std::string_view feature : absl::StrSplit(needed, ',')) {
    if (!absl::StartsWith(feature, "+") || IsHint(feature)) continue;
    if (std::find(host.begin(), host.end(), feature) == host.end()) {
      missing.push_back(feature.substr(1));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the serialized executable was compiled for a machine with ",
                   absl::StrJoin(missing, ", "), ", which this one lacks"));
}

}  // namespace

std::string SealExecutable(std::string_view xla_bytes) {
  std::string sealed(kMagic);
  AppendNumber(sealed, LibraryIdentity());
  AppendNumber(sealed, Checksum(xla_bytes));
  sealed += xla_bytes;
  return sealed;
}

absl::StatusOr<std::string> OpenExecutable(
    std::string_view bytes, absl::Span<const std::string> host_features) {
  if (bytes.size() < kHeaderSize || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(
        "the bytes are not an executable serialized by this plugin");
  }
  if (ReadNumber(bytes.substr(8)) != LibraryIdentity()) {
    return absl::InvalidArgumentError(
        "the serialized executable is from another build of XLA");
  }
  const uint64_t checksum = ReadNumber(bytes.substr(16));
  bytes.remove_prefix(kHeaderSize);
  Parsed parsed;
  if (Checksum(bytes) != checksum || !Parse(bytes, parsed)) {
    return absl::InvalidArgumentError("the serialized executable is damaged");
  }
  xla::cpu::TargetMachineOptionsProto& machine =
      *parsed.program.mutable_target_machine_options();
  absl::Status status = CheckFeatures(machine.features(), host_features);
  if (!status.ok()) return status;
  // XLA would take the hints for features, find that the machine lacks them, and
  // log that as two errors of a kilobyte each. The code is compiled, and nothing
  // else reads the list.
  machine.clear_features();
  std::string xla_bytes;
  if (!parsed.program.SerializeToString(
          parsed.outer.mutable_serialized_executable()) ||
      !parsed.outer.SerializeToString(&xla_bytes)) {
    return absl::InternalError("the executable exceeds 2 GiB");
  }
  return xla_bytes;
}

}  // namespace xlacpu
