#include "executable.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compile.h"
#include "error.h"
#include "executable_bytes.h"
#include "layouts_extension.h"
#include "loaded_executable.h"
#include "serialized.h"
#include "shapes.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/service/hlo.pb.h"

namespace xlacpu {

Executable::Executable(ClientRef c,
                       std::shared_ptr<xla::PjRtLoadedExecutable> l)
    : client(std::move(c)),
      loaded(std::move(l)),
      xla(loaded->GetExecutable()),
      name(xla->name()) {}

Executable::Executable(std::unique_ptr<xla::PjRtExecutable> o)
    : owned(std::move(o)), xla(owned.get()), name(xla->name()) {}

Executable::~Executable() {
  if (!output_layouts.has_value()) return;
  for (PJRT_Layouts_MemoryLayout* layout : *output_layouts) {
    delete Unwrap(layout);
  }
}

namespace {

// The kind of the memory that CPU devices have by default.
constexpr std::string_view kDefaultKind = "device";

// XLA lists outputs per program of a multi-program executable; there is one.
template <class T>
const T* OnlyProgram(const std::vector<T>& programs) {
  return programs.empty() ? nullptr : &programs[0];
}

absl::StatusOr<OutputInfo> ReadOutputs(const xla::PjRtExecutable& executable) {
  OutputInfo info;
  auto types = executable.GetOutputElementTypes();
  if (!types.ok()) return types.status();
  if (const auto* program = OnlyProgram(*types)) {
    for (xla::PrimitiveType type : *program) {
      info.types.push_back(ToBufferType(type));
    }
  }
  auto dims = executable.GetOutputDimensions();
  if (!dims.ok()) return dims.status();
  if (const auto* program = OnlyProgram(*dims)) {
    for (const auto& output : *program) {
      info.dim_counts.push_back(output.size());
      info.dims.insert(info.dims.end(), output.begin(), output.end());
    }
  }
  // XLA:CPU does not say: outputs go to its devices' default memory.
  auto kinds = executable.GetOutputMemoryKinds();
  if (!kinds.ok() && !absl::IsUnimplemented(kinds.status())) {
    return kinds.status();
  }
  const auto* known = kinds.ok() ? OnlyProgram(*kinds) : nullptr;
  if (known != nullptr) {
    info.memory_kinds.assign(known->begin(), known->end());
  } else {
    info.memory_kinds.assign(info.types.size(), std::string(kDefaultKind));
  }
  return info;
}

// Reads the outputs once; callers hold executable->mu.
PJRT_Error* NeedOutputs(Executable* executable) {
  if (executable->outputs.has_value()) return nullptr;
  XLACPU_ASSIGN(executable->outputs, ReadOutputs(*executable->xla));
  // Only now are the strings where they stay.
  for (const std::string& kind : executable->outputs->memory_kinds) {
    executable->outputs->memory_kind_data.push_back(kind.data());
    executable->outputs->memory_kind_sizes.push_back(kind.size());
  }
  return nullptr;
}

PJRT_Error* Executable_Destroy(PJRT_Executable_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_Destroy_Args, executable);
  delete Unwrap(args->executable);
  return nullptr;
}

PJRT_Error* Executable_Name(PJRT_Executable_Name_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_Name_Args, executable_name_size);
  XLACPU_OBJECT(executable, PJRT_Executable_Name_Args, executable);
  args->executable_name = executable->name.data();
  args->executable_name_size = executable->name.size();
  return nullptr;
}

PJRT_Error* Executable_Fingerprint(PJRT_Executable_Fingerprint_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_Fingerprint_Args,
                    executable_fingerprint_size);
  XLACPU_OBJECT(executable, PJRT_Executable_Fingerprint_Args, executable);
  if (executable->fingerprint.empty()) return NoFingerprint();
  args->executable_fingerprint = executable->fingerprint.data();
  args->executable_fingerprint_size = executable->fingerprint.size();
  return nullptr;
}

PJRT_Error* Executable_NumReplicas(PJRT_Executable_NumReplicas_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_NumReplicas_Args, num_replicas);
  XLACPU_OBJECT(executable, PJRT_Executable_NumReplicas_Args, executable);
  args->num_replicas = executable->xla->num_replicas();
  return nullptr;
}

PJRT_Error* Executable_NumPartitions(PJRT_Executable_NumPartitions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_NumPartitions_Args, num_partitions);
  XLACPU_OBJECT(executable, PJRT_Executable_NumPartitions_Args, executable);
  args->num_partitions = executable->xla->num_partitions();
  return nullptr;
}

// ----- outputs

PJRT_Error* Executable_NumOutputs(PJRT_Executable_NumOutputs_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_NumOutputs_Args, num_outputs);
  XLACPU_OBJECT(executable, PJRT_Executable_NumOutputs_Args, executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (PJRT_Error* error = NeedOutputs(executable)) return error;
  args->num_outputs = executable->outputs->types.size();
  return nullptr;
}

PJRT_Error* Executable_OutputElementTypes(
    PJRT_Executable_OutputElementTypes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_OutputElementTypes_Args, num_output_types);
  XLACPU_OBJECT(executable, PJRT_Executable_OutputElementTypes_Args,
                executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (PJRT_Error* error = NeedOutputs(executable)) return error;
  args->output_types = executable->outputs->types.data();
  args->num_output_types = executable->outputs->types.size();
  return nullptr;
}

PJRT_Error* Executable_OutputDimensions(
    PJRT_Executable_OutputDimensions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_OutputDimensions_Args, dim_sizes);
  XLACPU_OBJECT(executable, PJRT_Executable_OutputDimensions_Args, executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (PJRT_Error* error = NeedOutputs(executable)) return error;
  args->num_outputs = executable->outputs->dim_counts.size();
  args->dims = executable->outputs->dims.data();
  args->dim_sizes = executable->outputs->dim_counts.data();
  return nullptr;
}

PJRT_Error* Executable_OutputMemoryKinds(
    PJRT_Executable_OutputMemoryKinds_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_OutputMemoryKinds_Args, memory_kind_sizes);
  XLACPU_OBJECT(executable, PJRT_Executable_OutputMemoryKinds_Args, executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (PJRT_Error* error = NeedOutputs(executable)) return error;
  args->num_outputs = executable->outputs->memory_kinds.size();
  args->memory_kinds = executable->outputs->memory_kind_data.data();
  args->memory_kind_sizes = executable->outputs->memory_kind_sizes.data();
  return nullptr;
}

// ----- costs and sizes

PJRT_Error* Executable_SizeOfGeneratedCodeInBytes(
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
                    size_in_bytes);
  XLACPU_OBJECT(executable, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
                executable);
  args->size_in_bytes = executable->xla->SizeOfGeneratedCodeInBytes();
  return nullptr;
}

PJRT_Error* Executable_GetCostAnalysis(
    PJRT_Executable_GetCostAnalysis_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_GetCostAnalysis_Args, properties);
  XLACPU_OBJECT(executable, PJRT_Executable_GetCostAnalysis_Args, executable);
  std::lock_guard<std::mutex> lock(executable->mu);
  if (executable->cost == nullptr) {
    XLACPU_ASSIGN(auto cost, executable->loaded
                                 ? executable->loaded->GetCostAnalysis()
                                 : executable->xla->GetCostAnalysis());
    executable->cost = std::make_unique<NamedValues>(cost);
  }
  args->properties = executable->cost->data();
  args->num_properties = executable->cost->size();
  return nullptr;
}

PJRT_Error* Executable_GetCompiledMemoryStats(
    PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  using Args = PJRT_Executable_GetCompiledMemoryStats_Args;
  XLACPU_CHECK_ARGS(Args, host_temp_size_in_bytes);
  XLACPU_OBJECT(executable, Args, executable);
  XLACPU_ASSIGN(xla::CompiledMemoryStats s,
                executable->xla->GetCompiledMemoryStats());
  args->generated_code_size_in_bytes = s.generated_code_size_in_bytes;
  args->argument_size_in_bytes = s.argument_size_in_bytes;
  args->output_size_in_bytes = s.output_size_in_bytes;
  args->alias_size_in_bytes = s.alias_size_in_bytes;
  args->temp_size_in_bytes = s.temp_size_in_bytes;
  args->host_generated_code_size_in_bytes = s.host_generated_code_size_in_bytes;
  args->host_argument_size_in_bytes = s.host_argument_size_in_bytes;
  args->host_output_size_in_bytes = s.host_output_size_in_bytes;
  args->host_alias_size_in_bytes = s.host_alias_size_in_bytes;
  args->host_temp_size_in_bytes = s.host_temp_size_in_bytes;
  if (XLACPU_HAS(Args, peak_memory_in_bytes)) {
    args->peak_memory_in_bytes = s.peak_memory_in_bytes;
  }
  if (XLACPU_HAS(Args, total_size_in_bytes)) {
    args->total_size_in_bytes = s.total_size_in_bytes;
  }
  return nullptr;
}

// ----- program, options and serialized form

absl::StatusOr<std::string> OptimizedProgram(
    const xla::PjRtExecutable& executable) {
  auto modules = executable.GetHloModules();
  if (!modules.ok()) return modules.status();
  if (modules->size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("the executable has ", modules->size(),
                     " modules; the C API hands out one"));
  }
  xla::HloModuleProtoWithConfig proto;
  (*modules)[0]->ToProtoWithConfig(&proto);
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    return absl::InternalError("the HLO module does not serialize");
  }
  return bytes;
}

PJRT_Error* Executable_OptimizedProgram(
    PJRT_Executable_OptimizedProgram_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_OptimizedProgram_Args, program);
  XLACPU_OBJECT(executable, PJRT_Executable_OptimizedProgram_Args, executable);
  PJRT_Program* out = args->program;
  if (out == nullptr) return InvalidArgument("program is null");
  static constexpr std::string_view kFormat = "hlo_with_config";
  out->format = kFormat.data();
  out->format_size = kFormat.size();
  std::lock_guard<std::mutex> lock(executable->mu);
  if (!executable->program.has_value()) {
    XLACPU_ASSIGN(executable->program, OptimizedProgram(*executable->xla));
  }
  const std::string& bytes = *executable->program;
  if (out->code == nullptr) {  // the caller asks for the size first
    out->code_size = bytes.size();
    return nullptr;
  }
  if (out->code_size < bytes.size()) {
    return InvalidArgument(absl::StrCat("code_size is ", out->code_size, ", ",
                                        bytes.size(), " bytes are needed"));
  }
  std::memcpy(out->code, bytes.data(), bytes.size());
  out->code_size = bytes.size();
  return nullptr;
}

PJRT_Error* Executable_Serialize(PJRT_Executable_Serialize_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_Serialize_Args,
                    serialized_executable_deleter);
  XLACPU_OBJECT(executable, PJRT_Executable_Serialize_Args, executable);
  std::string bytes;
  if (executable->origin != nullptr) {
    bytes = *executable->origin;
  } else {
    XLACPU_ASSIGN(bytes, executable->loaded
                             ? executable->loaded->SerializeExecutable()
                             : executable->xla->SerializeExecutable());
    XLACPU_ASSIGN(bytes, SealExecutable(bytes));
  }
  HandOut(std::move(bytes), &args->serialized_bytes,
          &args->serialized_bytes_size, &args->serialized_executable,
          &args->serialized_executable_deleter);
  return nullptr;
}

PJRT_Error* Executable_GetCompileOptions(
    PJRT_Executable_GetCompileOptions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Executable_GetCompileOptions_Args,
                    serialized_compile_options_deleter);
  XLACPU_OBJECT(executable, PJRT_Executable_GetCompileOptions_Args, executable);
  XLACPU_ASSIGN(xla::CompileOptions options,
                executable->xla->GetCompileOptions());
  XLACPU_ASSIGN(xla::CompileOptionsProto proto, options.ToProto());
  HandOut(proto.SerializeAsString(), &args->serialized_bytes,
          &args->serialized_bytes_size, &args->serialized_compile_options,
          &args->serialized_compile_options_deleter);
  return nullptr;
}

PJRT_Error* Executable_DeserializeAndLoad(
    PJRT_Executable_DeserializeAndLoad_Args* args) {
  using Args = PJRT_Executable_DeserializeAndLoad_Args;
  XLACPU_CHECK_ARGS(Args, loaded_executable);
  XLACPU_OBJECT(client, Args, client);
  std::optional<xla::CompileOptions> options;
  if (XLACPU_HAS(Args, overridden_serialized_compile_options_size) &&
      args->overridden_serialized_compile_options_size > 0) {
    XLACPU_ASSIGN(options,
                  ParseCompileOptions(std::string_view(
                      args->overridden_serialized_compile_options,
                      args->overridden_serialized_compile_options_size)));
  }
  const std::string_view sealed(args->serialized_executable,
                                args->serialized_executable_size);
  XLACPU_ASSIGN(std::string_view bytes,
                OpenExecutable(sealed, client->machine_features));
  XLACPU_ASSIGN(auto loaded,
                client->xla->LoadSerializedExecutable(
                    bytes, std::move(options), xla::LoadOptions()));
  auto executable = std::make_unique<LoadedExecutable>(
      client->shared_from_this(), std::move(loaded));
  executable->origin = std::make_shared<const std::string>(sealed);
  args->loaded_executable = Wrap(executable.release());
  return nullptr;
}

}  // namespace

void InstallExecutable(PJRT_Api& api) {
  XLACPU_SLOT(api, Executable_Destroy);
  XLACPU_SLOT(api, Executable_Name);
  XLACPU_SLOT(api, Executable_Fingerprint);
  XLACPU_SLOT(api, Executable_NumReplicas);
  XLACPU_SLOT(api, Executable_NumPartitions);
  XLACPU_SLOT(api, Executable_NumOutputs);
  XLACPU_SLOT(api, Executable_OutputElementTypes);
  XLACPU_SLOT(api, Executable_OutputDimensions);
  XLACPU_SLOT(api, Executable_OutputMemoryKinds);
  XLACPU_SLOT(api, Executable_SizeOfGeneratedCodeInBytes);
  XLACPU_SLOT(api, Executable_GetCostAnalysis);
  XLACPU_SLOT(api, Executable_GetCompiledMemoryStats);
  XLACPU_SLOT(api, Executable_OptimizedProgram);
  XLACPU_SLOT(api, Executable_Serialize);
  XLACPU_SLOT(api, Executable_GetCompileOptions);
  XLACPU_SLOT(api, Executable_DeserializeAndLoad);
}

}  // namespace xlacpu
