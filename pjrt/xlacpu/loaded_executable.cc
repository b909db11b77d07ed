#include "loaded_executable.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "buffer.h"
#include "error.h"
#include "event.h"
#include "executable.h"
#include "serialized.h"
#include "xla/service/computation_placer.h"
#include "xla/xla_data.pb.h"

namespace xlacpu {

namespace {

std::shared_ptr<RunPlace> PlaceOf(const Client& client,
                                  const xla::PjRtLoadedExecutable& executable) {
  const bool alone =
      executable.addressable_devices().size() == 1 &&
      executable.device_assignment().replica_count() *
              executable.device_assignment().computation_count() ==
          1;
  return client.asynchronous && alone ? std::make_shared<RunPlace>() : nullptr;
}

}  // namespace

LoadedExecutable::LoadedExecutable(
    ClientRef c, std::unique_ptr<xla::PjRtLoadedExecutable> e)
    : client(std::move(c)),
      xla(std::move(e)),
      parameters(*xla),
      place(PlaceOf(*client, *xla)) {
  for (xla::PjRtDevice* device : xla->addressable_devices()) {
    addressable_devices.push_back(client->Find(device));
  }
}

PJRT_Error* NoFingerprint() {
  return Unimplemented("the fingerprint of a deserialized executable",
                       "it is made of the program, which is not kept in it");
}

namespace {

PJRT_Error* LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_Destroy_Args, executable);
  delete Unwrap(args->executable);
  return nullptr;
}

PJRT_Error* LoadedExecutable_GetExecutable(
    PJRT_LoadedExecutable_GetExecutable_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, executable);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_GetExecutable_Args,
                loaded_executable);
  auto executable = std::make_unique<Executable>(loaded->client, loaded->xla);
  executable->fingerprint = loaded->fingerprint;
  executable->origin = loaded->origin;
  args->executable = Wrap(executable.release());
  return nullptr;
}

PJRT_Error* LoadedExecutable_AddressableDevices(
    PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args,
                    num_addressable_devices);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_AddressableDevices_Args,
                executable);
  args->addressable_devices = Wrap(loaded->addressable_devices.data());
  args->num_addressable_devices = loaded->addressable_devices.size();
  return nullptr;
}

PJRT_Error* LoadedExecutable_GetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_GetDeviceAssignment_Args,
                    serialized_device_assignment_deleter);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_GetDeviceAssignment_Args,
                executable);
  xla::DeviceAssignmentProto proto;
  loaded->xla->device_assignment().Serialize(&proto);
  HandOut(proto.SerializeAsString(), &args->serialized_bytes,
          &args->serialized_bytes_size, &args->serialized_device_assignment,
          &args->serialized_device_assignment_deleter);
  return nullptr;
}

PJRT_Error* LoadedExecutable_Fingerprint(
    PJRT_LoadedExecutable_Fingerprint_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_Fingerprint_Args,
                    executable_fingerprint_size);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_Fingerprint_Args, executable);
  if (loaded->fingerprint.empty()) return NoFingerprint();
  args->executable_fingerprint = loaded->fingerprint.data();
  args->executable_fingerprint_size = loaded->fingerprint.size();
  return nullptr;
}

PJRT_Error* LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_Delete_Args, executable);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_Delete_Args, executable);
  loaded->deleted = true;
  return nullptr;
}

PJRT_Error* LoadedExecutable_IsDeleted(
    PJRT_LoadedExecutable_IsDeleted_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_IsDeleted_Args, is_deleted);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_IsDeleted_Args, executable);
  args->is_deleted = loaded->deleted;
  return nullptr;
}

// ----- execute

absl::StatusOr<xla::ExecuteOptions> ToExecuteOptions(
    const PJRT_ExecuteOptions* given) {
  xla::ExecuteOptions options;
  if (given == nullptr) return options;
  auto has = [given](size_t size) { return given->struct_size >= size; };
  if (!has(PJRT_STRUCT_SIZE(PJRT_ExecuteOptions,
                            num_non_donatable_input_indices))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PJRT_ExecuteOptions: struct_size is ", given->struct_size));
  }
  if (given->num_send_ops != 0 || given->num_recv_ops != 0) {
    return absl::UnimplementedError(
        "send and receive callbacks do not exist on XLA:CPU");
  }
  options.launch_id = given->launch_id;
  for (size_t i = 0; i < given->num_non_donatable_input_indices; ++i) {
    options.non_donatable_input_indices.insert(
        static_cast<int>(given->non_donatable_input_indices[i]));
  }
  if (has(PJRT_STRUCT_SIZE(PJRT_ExecuteOptions, context)) &&
      given->context != nullptr) {
    options.context = &Unwrap(given->context)->xla;
  }
  if (has(PJRT_STRUCT_SIZE(PJRT_ExecuteOptions, call_location)) &&
      given->call_location != nullptr) {
    options.call_location = given->call_location;
  }
  return options;
}

using Inputs = std::vector<xla::PjRtBuffer*>;
using Outputs = std::vector<std::unique_ptr<xla::PjRtBuffer>>;

absl::StatusOr<Inputs> ToInputs(PJRT_Buffer* const* list, size_t count) {
  Inputs inputs(count);
  for (size_t i = 0; i < count; ++i) {
    if (list[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("argument ", i, " is null"));
    }
    inputs[i] = Unwrap(list[i])->xla.get();
  }
  return inputs;
}

void HandOutOutputs(const ClientRef& client, Outputs outputs,
                    PJRT_Buffer** list) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    list[i] = NewBuffer(client, std::move(outputs[i]));
  }
}

// A run that reports no future of its own is over when Execute returns.
PJRT_Event* CompletionEvent(xla::Future<>* future) {
  return NewEvent(future ? std::move(*future) : xla::Future<>(absl::OkStatus()));
}

// Runs on one device: on one of the executable's own, or, for a portable
// executable, on any.
PJRT_Error* ExecuteOnDevice(LoadedExecutable* loaded, Device* device,
                            const xla::ExecuteOptions& options,
                            PJRT_LoadedExecutable_Execute_Args* args) {
  if (args->num_devices != 1) {
    return InvalidArgument(absl::StrCat(
        "execute_device is given, and num_devices is ", args->num_devices,
        " where it must be 1"));
  }
  XLACPU_ASSIGN(Inputs inputs,
                ToInputs(args->argument_lists[0], args->num_args));
  const bool want_event = args->device_complete_events != nullptr;
  const bool assigned =
      absl::c_linear_search(loaded->addressable_devices, device);
  std::optional<xla::Future<>> future;
  XLACPU_ASSIGN(Outputs outputs,
                assigned
                    ? loaded->xla->ExecuteSharded(inputs, device->xla, options,
                                                  future, want_event)
                    : loaded->xla->ExecutePortable(inputs, device->xla, options,
                                                   future, want_event));
  HandOutOutputs(loaded->client, std::move(outputs), args->output_lists[0]);
  if (want_event) {
    args->device_complete_events[0] =
        CompletionEvent(future.has_value() ? &*future : nullptr);
  }
  return nullptr;
}

PJRT_Error* ExecuteOnAll(LoadedExecutable* loaded,
                         const xla::ExecuteOptions& options,
                         PJRT_LoadedExecutable_Execute_Args* args) {
  const size_t num_devices = args->num_devices;
  if (num_devices != loaded->addressable_devices.size()) {
    return InvalidArgument(absl::StrCat(
        "there are argument lists for ", num_devices,
        " devices, the executable was compiled for ",
        loaded->addressable_devices.size()));
  }
  std::vector<Inputs> inputs(num_devices);
  for (size_t d = 0; d < num_devices; ++d) {
    XLACPU_ASSIGN(inputs[d], ToInputs(args->argument_lists[d], args->num_args));
    XLACPU_RETURN_IF_ERROR(loaded->parameters.Check(
        inputs[d], loaded->addressable_devices[d]->xla,
        options.non_donatable_input_indices));
  }
  const RunPlace::Start start;
  std::optional<std::vector<xla::Future<>>> futures;
  if (args->device_complete_events != nullptr) futures.emplace();
  XLACPU_ASSIGN(std::vector<Outputs> outputs,
                loaded->xla->Execute(inputs, options, futures));
  for (size_t d = 0; d < outputs.size(); ++d) {
    HandOutOutputs(loaded->client, std::move(outputs[d]),
                   args->output_lists[d]);
  }
  if (args->device_complete_events == nullptr) return nullptr;
  if (loaded->place != nullptr && futures.has_value() && !futures->empty()) {
    loaded->place->Learn(start, futures->front());
  }
  for (size_t d = 0; d < num_devices; ++d) {
    const bool known = futures.has_value() && d < futures->size();
    args->device_complete_events[d] =
        CompletionEvent(known ? &(*futures)[d] : nullptr);
  }
  return nullptr;
}

PJRT_Error* LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_LoadedExecutable_Execute_Args, device_complete_events);
  XLACPU_OBJECT(loaded, PJRT_LoadedExecutable_Execute_Args, executable);
  XLACPU_ASSIGN(xla::ExecuteOptions options, ToExecuteOptions(args->options));
  if (loaded->place != nullptr) options.execution_mode = loaded->place->mode();
  if (loaded->deleted) {
    return ToError(
        absl::FailedPreconditionError("Execute on a deleted executable"));
  }
  PJRT_Device* device =
      XLACPU_HAS(PJRT_LoadedExecutable_Execute_Args, execute_device)
          ? args->execute_device
          : nullptr;
  if (device != nullptr) {
    return ExecuteOnDevice(loaded, Unwrap(device), options, args);
  }
  return ExecuteOnAll(loaded, options, args);
}

PJRT_Error* ExecuteContext_Create(PJRT_ExecuteContext_Create_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_ExecuteContext_Create_Args, context);
  args->context = Wrap(new ExecuteContext);
  return nullptr;
}

PJRT_Error* ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_ExecuteContext_Destroy_Args, context);
  delete Unwrap(args->context);
  return nullptr;
}

}  // namespace

void InstallLoadedExecutable(PJRT_Api& api) {
  XLACPU_SLOT(api, LoadedExecutable_Destroy);
  XLACPU_SLOT(api, LoadedExecutable_GetExecutable);
  XLACPU_SLOT(api, LoadedExecutable_AddressableDevices);
  XLACPU_SLOT(api, LoadedExecutable_GetDeviceAssignment);
  XLACPU_SLOT(api, LoadedExecutable_Fingerprint);
  XLACPU_SLOT(api, LoadedExecutable_Delete);
  XLACPU_SLOT(api, LoadedExecutable_IsDeleted);
  XLACPU_SLOT(api, LoadedExecutable_Execute);
  XLACPU_SLOT(api, ExecuteContext_Create);
  XLACPU_SLOT(api, ExecuteContext_Destroy);
}

}  // namespace xlacpu
