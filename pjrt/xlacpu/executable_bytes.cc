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

constexpr std::string_view kMagic = "XLACPU2\n";
constexpr size_t kHeaderSize = 32;

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

absl::StatusOr<std::string> SealExecutable(std::string_view xla_bytes) {
  xla::ExecutableAndOptionsProto outer;
  xla::cpu::CompilationResultProto program;
  if (!outer.ParseFromArray(xla_bytes.data(),
                            static_cast<int>(xla_bytes.size())) ||
      !program.ParseFromString(outer.serialized_executable())) {
    return absl::InternalError("XLA's serialized executable cannot be read");
  }
  xla::cpu::TargetMachineOptionsProto& machine =
      *program.mutable_target_machine_options();
  const std::string features = machine.features();
  // XLA would take the hints for features, find that the machine lacks them, and
  // log that as two errors of a kilobyte each. The code is compiled, and nothing
  // else reads the list.
  machine.clear_features();
  std::string rest;
  AppendNumber(rest, features.size());
  rest += features;
  std::string cleared;
  if (!program.SerializeToString(outer.mutable_serialized_executable()) ||
      !outer.SerializeToString(&cleared)) {
    return absl::InternalError("the executable exceeds 2 GiB");
  }
  rest += cleared;
  std::string sealed(kMagic);
  AppendNumber(sealed, LibraryIdentity());
  AppendNumber(sealed, Checksum(rest));
  return sealed + rest;
}

absl::StatusOr<std::string_view> OpenExecutable(
    std::string_view bytes, absl::Span<const std::string> host_features) {
  if (bytes.size() < kHeaderSize || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(
        "the bytes are not an executable serialized by this plugin");
  }
  if (ReadNumber(bytes.substr(8)) != LibraryIdentity()) {
    return absl::InvalidArgumentError(
        "the serialized executable is from another build of XLA");
  }
  const std::string_view rest = bytes.substr(24);
  const uint64_t features_size = ReadNumber(rest);
  const std::string_view body = rest.substr(8);
  if (Checksum(rest) != ReadNumber(bytes.substr(16)) ||
      features_size > body.size()) {
    return absl::InvalidArgumentError("the serialized executable is damaged");
  }
  absl::Status status =
      CheckFeatures(body.substr(0, features_size), host_features);
  if (!status.ok()) return status;
  return body.substr(features_size);
}

}  // namespace xlacpu
