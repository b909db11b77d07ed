#include "compile.h"

#include <malloc.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client.h"
#include "error.h"
#include "executable.h"
#include "library.h"
#include "loaded_executable.h"
#include "plugin.h"
#include "topology.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/service/hlo.pb.h"

// Declared here because its header (xla/pjrt/mlir_to_hlo.h) needs MLIR's own,
// which the tensorflow package does not ship.
namespace xla {
absl::Status ParseMlirModuleStringAndConvertToXlaComputation(
    std::string_view mlir_module_str, XlaComputation& xla_computation,
    bool use_tuple_args, bool return_tuple);
}

namespace xlacpu {

absl::StatusOr<xla::CompileOptions> ParseCompileOptions(std::string_view bytes) {
  if (bytes.empty()) return xla::CompileOptions();
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        "the compile options are not a serialized CompileOptionsProto");
  }
  return xla::CompileOptions::FromProto(proto);
}

absl::StatusOr<xla::DeviceAssignment> DefaultAssignment(const Client& client,
                                                        int replicas,
                                                        int partitions) {
  const size_t needed = static_cast<size_t>(replicas) * partitions;
  // XLA's own choice counts devices from 0, whatever their numbers are.
  if (needed <= client.addressable_devices.size() ||
      needed > client.devices.size()) {
    return client.xla->GetDefaultDeviceAssignment(replicas, partitions);
  }
  xla::DeviceAssignment assignment(replicas, partitions);
  for (int r = 0; r < replicas; ++r) {
    for (int p = 0; p < partitions; ++p) {
      assignment(r, p) =
          client.devices[r * partitions + p]->xla->global_device_id().value();
    }
  }
  return assignment;
}

namespace {

std::string_view CodeOf(const PJRT_Program& program) {
  return std::string_view(program.code, program.code_size);
}

template <class Proto>
absl::Status Parse(std::string_view bytes, Proto& proto) {
  if (proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the program is not a serialized ", std::string(proto.GetTypeName())));
}

// The program as an XLA computation. `tuple_args` passes all parameters as one
// tuple, as the compile options may ask.
absl::StatusOr<xla::XlaComputation> ParseProgram(const PJRT_Program& program,
                                                 bool tuple_args) {
  const std::string_view format(program.format, program.format_size);
  const std::string_view code = CodeOf(program);
  absl::Status status;
  if (format == "mlir") {
    xla::XlaComputation computation;
    status = xla::ParseMlirModuleStringAndConvertToXlaComputation(
        code, computation, tuple_args, /*return_tuple=*/false);
    if (!status.ok()) return status;
    return computation;
  }
  if (format == "hlo") {
    xla::HloModuleProto module;
    status = Parse(code, module);
    if (!status.ok()) return status;
    return xla::XlaComputation(std::move(module));
  }
  if (format == "hlo_with_config") {
    xla::HloModuleProtoWithConfig module;
    status = Parse(code, module);
    if (!status.ok()) return status;
    return xla::XlaComputation(std::move(*module.mutable_hlo_module()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown program format \"", format,
                   "\": mlir, hlo and hlo_with_config are known"));
}

// FNV-1a; the length is mixed in so that two fields cannot swap bytes.
uint64_t Mix(uint64_t hash, std::string_view bytes) {
  constexpr uint64_t kPrime = 1099511628211u;
  for (unsigned char c : bytes) hash = (hash ^ c) * kPrime;
  return (hash ^ bytes.size()) * kPrime;
}

// Equal inputs (compiler, options, program) give equal fingerprints. XLA:CPU
// computes none itself.
std::string Fingerprint(std::string_view version, std::string_view options,
                        std::string_view code) {
  constexpr uint64_t kBasis = 14695981039346656037u;
  const uint64_t high = Mix(Mix(Mix(kBasis, version), options), code);
  const uint64_t low = Mix(Mix(Mix(~kBasis, code), version), options);
  return absl::StrFormat("%016x%016x", high, low);
}

// Gives back, when a long compilation ends, what it has left: memory that the C
// library keeps for the next one, and pages of the compiler's code. Tens of
// milliseconds for hundreds of MB, so short compilations keep theirs.
class Cleanup {
 public:
  ~Cleanup() {
    if (absl::Now() - start_ < absl::Seconds(1)) return;
    malloc_trim(0);
    ReleaseLibraryPages();
  }

 private:
  const absl::Time start_ = absl::Now();
};

PJRT_Error* Client_Compile(PJRT_Client_Compile_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_Compile_Args, executable);
  XLACPU_OBJECT(client, PJRT_Client_Compile_Args, client);
  if (args->program == nullptr) return InvalidArgument("program is null");
  const Cleanup cleanup;
  const std::string_view bytes(args->compile_options,
                               args->compile_options_size);
  XLACPU_ASSIGN(xla::CompileOptions options, ParseCompileOptions(bytes));
  XLACPU_ASSIGN(xla::XlaComputation computation,
                ParseProgram(*args->program,
                             options.parameter_is_tupled_arguments));
  xla::ExecutableBuildOptions& build = options.executable_build_options;
  if (!build.has_device_assignment() && !options.compile_portable_executable) {
    XLACPU_ASSIGN(xla::DeviceAssignment assignment,
                  DefaultAssignment(*client, build.num_replicas(),
                                    build.num_partitions()));
    build.set_device_assignment(assignment);
  }
  XLACPU_ASSIGN(auto xla_executable, client->xla->CompileAndLoad(
                                         computation, std::move(options)));
  auto executable = std::make_unique<LoadedExecutable>(
      client->shared_from_this(), std::move(xla_executable));
  executable->fingerprint =
      Fingerprint(client->platform_version, bytes, CodeOf(*args->program));
  args->executable = Wrap(executable.release());
  return nullptr;
}

PJRT_Error* Compile(PJRT_Compile_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Compile_Args, executable);
  XLACPU_OBJECT(topology, PJRT_Compile_Args, topology);
  if (args->program == nullptr) return InvalidArgument("program is null");
  const std::string_view bytes(args->compile_options,
                               args->compile_options_size);
  XLACPU_ASSIGN(xla::CompileOptions options, ParseCompileOptions(bytes));
  XLACPU_ASSIGN(xla::XlaComputation computation,
                ParseProgram(*args->program,
                             options.parameter_is_tupled_arguments));
  // XLA:CPU has no compiler for topologies by themselves: a client of as many devices,
  // which the executable keeps, stands in for the one that is not given.
  std::unique_ptr<xla::PjRtClient> stand_in;
  xla::PjRtClient* compiler = nullptr;
  if (Client* client = Unwrap(args->client)) {
    compiler = client->xla.get();
  } else {
    XLACPU_RETURN_IF_ERROR(CheckProcess());
    xla::CpuClientOptions stand_in_options;
    stand_in_options.cpu_device_count =
        static_cast<int>(topology->handles.size());
    XLACPU_ASSIGN(stand_in,
                  xla::GetXlaPjrtCpuClient(std::move(stand_in_options)));
    compiler = stand_in.get();
  }
  XLACPU_ASSIGN(auto compiled,
                compiler->Compile(computation, std::move(options)));
  auto executable = std::make_unique<Executable>(std::move(compiled));
  executable->compiler = std::move(stand_in);
  args->executable = Wrap(executable.release());
  return nullptr;
}

}  // namespace

void InstallCompile(PJRT_Api& api) {
  XLACPU_SLOT(api, Client_Compile);
  XLACPU_SLOT(api, Compile);
}

}  // namespace xlacpu
