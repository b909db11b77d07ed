#include "transfer_manager.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "buffer.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "shapes.h"
#include "xla/literal.h"

namespace xlacpu {
namespace {

// XLA checks indices with assertions that end the process; here first.
absl::Status CheckIndex(const TransferManager& manager, int index) {
  const size_t count = manager.xla->buffer_count();
  if (index >= 0 && static_cast<size_t>(index) < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer_index is ", index, ", there are ", count, " buffers"));
}

absl::StatusOr<std::vector<xla::PjRtClient::ShapeSpec>> ToSpecs(
    const PJRT_ShapeSpec* given, size_t count) {
  std::vector<xla::PjRtClient::ShapeSpec> specs;
  for (size_t i = 0; i < count; ++i) {
    const auto dims = Dims(given[i].dims, given[i].num_dims);
    absl::StatusOr<xla::Shape> shape =
        ToShape(given[i].element_type, dims, /*layout=*/nullptr);
    if (!shape.ok()) return shape.status();
    specs.push_back({shape->element_type(),
                     xla::DimensionVector(dims.begin(), dims.end())});
  }
  return specs;
}

PJRT_Error* Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  using Args = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args;
  XLACPU_CHECK_ARGS(Args, transfer_manager);
  XLACPU_OBJECT(client, Args, client);
  XLACPU_OBJECT(memory, Args, memory);
  XLACPU_ASSIGN(auto specs, ToSpecs(args->shape_specs, args->num_shape_specs));
  std::vector<std::optional<xla::Layout>> layouts;
  if (args->device_layouts != nullptr) {
    if (args->num_device_layouts != specs.size()) {
      return InvalidArgument(absl::StrCat("there are ", specs.size(),
                                          " shapes and ",
                                          args->num_device_layouts, " layouts"));
    }
    for (size_t i = 0; i < specs.size(); ++i) {
      layouts.emplace_back();
      if (args->device_layouts[i] == nullptr) continue;
      XLACPU_ASSIGN(layouts.back(),
                    ToLayout(*args->device_layouts[i], specs[i].element_type,
                             specs[i].dims));
    }
  }
  std::optional<absl::Span<const std::optional<xla::Layout>>> given;
  if (args->device_layouts != nullptr) given = layouts;
  XLACPU_ASSIGN(auto manager, client->xla->CreateBuffersForAsyncHostToDevice(
                                  specs, given, memory->xla));
  args->transfer_manager = Wrap(
      new TransferManager(client->shared_from_this(), std::move(manager)));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
                    transfer_manager);
  delete Unwrap(args->transfer_manager);
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args;
  XLACPU_CHECK_ARGS(Args, done_with_h2d_transfer);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  XLACPU_RETURN_IF_ERROR(CheckIndex(*manager, args->buffer_index));
  const int64_t size = manager->xla->buffer_size(args->buffer_index);
  if (args->offset < 0 || args->transfer_size < 0 ||
      args->transfer_size > size - args->offset) {
    return InvalidArgument(absl::StrCat(
        "a transfer of ", args->transfer_size, " bytes to offset ",
        args->offset, " of a buffer of ", size, " bytes"));
  }
  auto [promise, future] = xla::MakePromise<>();
  XLACPU_RETURN_IF_ERROR(manager->xla->TransferRawDataToSubBuffer(
      args->buffer_index, args->data, args->offset, args->transfer_size,
      args->is_last_transfer,
      [p = std::move(promise)]() mutable { p.Set(absl::OkStatus()); }));
  args->done_with_h2d_transfer = NewEvent(std::move(future));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args;
  XLACPU_CHECK_ARGS(Args, done_with_h2d_transfer);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  XLACPU_RETURN_IF_ERROR(CheckIndex(*manager, args->buffer_index));
  XLACPU_ASSIGN(xla::Shape shape,
                ToShape(args->shape_element_type,
                        Dims(args->shape_dims, args->shape_num_dims),
                        args->shape_layout));
  // The literal borrows the caller's bytes until the transfer is done with
  // them, and is itself kept by the completion callback.
  auto literal = std::make_shared<xla::BorrowingLiteral>(
      static_cast<const char*>(args->data), shape);
  auto [promise, future] = xla::MakePromise<>();
  XLACPU_RETURN_IF_ERROR(manager->xla->TransferLiteralToBuffer(
      args->buffer_index, *literal,
      [literal, p = std::move(promise)]() mutable { p.Set(absl::OkStatus()); }));
  args->done_with_h2d_transfer = NewEvent(std::move(future));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args;
  XLACPU_CHECK_ARGS(Args, buffer_out);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  XLACPU_RETURN_IF_ERROR(CheckIndex(*manager, args->buffer_index));
  auto buffer = manager->xla->RetrieveBuffer(args->buffer_index);
  if (buffer == nullptr) {
    return InvalidArgument(absl::StrCat("buffer ", args->buffer_index,
                                        " was retrieved before"));
  }
  args->buffer_out = NewBuffer(manager->client, std::move(buffer));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_Device(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_Device_Args;
  XLACPU_CHECK_ARGS(Args, device_out);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  args->device_out = Wrap(manager->client->Find(manager->xla->device()));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_BufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args;
  XLACPU_CHECK_ARGS(Args, buffer_count);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  args->buffer_count = manager->xla->buffer_count();
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args;
  XLACPU_CHECK_ARGS(Args, buffer_size);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  XLACPU_RETURN_IF_ERROR(CheckIndex(*manager, args->buffer_index));
  args->buffer_size = manager->xla->buffer_size(args->buffer_index);
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args;
  XLACPU_CHECK_ARGS(Args, error_message_size);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  XLACPU_RETURN_IF_ERROR(CheckIndex(*manager, args->buffer_index));
  absl::Status error = ToStatus(args->error_code, args->error_message,
                                args->error_message_size);
  if (error.ok()) return InvalidArgument("error_code is OK");
  manager->xla->SetBufferError(args->buffer_index, std::move(error));
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args* args) {
  using Args = PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args;
  XLACPU_CHECK_ARGS(Args, num_metadata);
  XLACPU_OBJECT(manager, Args, transfer_manager);
  TransferManager::Xla::TransferMetadata metadata;
  for (size_t i = 0; i < args->num_metadata; ++i) {
    const PJRT_NamedValue& entry = args->transfer_metadata[i];
    const std::string name(entry.name, entry.name_size);
    if (entry.type != PJRT_NamedValue_kString) {
      return InvalidArgument(
          absl::StrCat("transfer metadata ", name, " is not a string"));
    }
    metadata[name] = std::string(entry.string_value, entry.value_size);
  }
  manager->xla->AddTransferMetadata(metadata);
  return nullptr;
}

}  // namespace

void InstallTransferManager(PJRT_Api& api) {
  XLACPU_SLOT(api, Client_CreateBuffersForAsyncHostToDevice);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_Destroy);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_TransferData);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_TransferLiteral);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_RetrieveBuffer);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_Device);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_BufferCount);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_BufferSize);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_SetBufferError);
  XLACPU_SLOT(api, AsyncHostToDeviceTransferManager_AddMetadata);
}

}  // namespace xlacpu
