#include "transfer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "buffer.h"
#include "client.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "shapes.h"
#include "xla/layout_util.h"
#include "xla/literal.h"
#include "xla/shape_util.h"

namespace xlacpu {
namespace {

// The memory to put a buffer into: the given one, else the device's default.
absl::StatusOr<xla::PjRtMemorySpace*> Target(PJRT_Device* device,
                                             PJRT_Memory* memory) {
  if (memory != nullptr) return Unwrap(memory)->xla;
  if (device != nullptr) return Unwrap(device)->xla->default_memory_space();
  return absl::InvalidArgumentError("neither a device nor a memory is given");
}

absl::StatusOr<xla::PjRtClient::HostBufferSemantics> ToSemantics(
    PJRT_HostBufferSemantics semantics) {
  using Xla = xla::PjRtClient::HostBufferSemantics;
  switch (semantics) {
    case PJRT_HostBufferSemantics_kImmutableOnlyDuringCall:
      return Xla::kImmutableOnlyDuringCall;
    case PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes:
      return Xla::kImmutableUntilTransferCompletes;
    case PJRT_HostBufferSemantics_kImmutableZeroCopy:
      return Xla::kImmutableZeroCopy;
    case PJRT_HostBufferSemantics_kMutableZeroCopy:
      return Xla::kMutableZeroCopy;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown host buffer semantics (", static_cast<int>(semantics), ")"));
}

// The shape that the three functions with `shape_*` members ask for.
template <class Args>
absl::StatusOr<xla::Shape> ShapeOf(const Args* args) {
  return ToShape(args->shape_element_type,
                 Dims(args->shape_dims, args->shape_num_dims),
                 args->shape_layout);
}

// ----- into device memory

PJRT_Error* Client_BufferFromHostBuffer(
    PJRT_Client_BufferFromHostBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_BufferFromHostBuffer_Args, buffer);
  XLACPU_OBJECT(client, PJRT_Client_BufferFromHostBuffer_Args, client);
  XLACPU_ASSIGN(xla::PrimitiveType type, ToPrimitiveType(args->type));
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory,
                Target(args->device, args->memory));
  XLACPU_ASSIGN(auto semantics, ToSemantics(args->host_buffer_semantics));
  const absl::Span<const int64_t> dims = Dims(args->dims, args->num_dims);
  std::optional<absl::Span<const int64_t>> strides;
  if (args->byte_strides != nullptr) {
    if (args->num_byte_strides != args->num_dims) {
      return InvalidArgument(absl::StrCat("num_byte_strides is ",
                                          args->num_byte_strides,
                                          ", num_dims is ", args->num_dims));
    }
    strides = Dims(args->byte_strides, args->num_byte_strides);
  }
  std::optional<xla::Layout> layout;
  if (args->device_layout != nullptr) {
    XLACPU_ASSIGN(layout, ToLayout(*args->device_layout, type, dims));
  }
  absl::AnyInvocable<void() &&> on_done;
  xla::Future<> released(absl::OkStatus());
  // When the data is copied during the call, the event is born ready.
  if (args->host_buffer_semantics !=
      PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    auto [promise, future] = xla::MakePromise<>();
    released = std::move(future);
    on_done = [p = std::move(promise)]() mutable { p.Set(absl::OkStatus()); };
  }
  XLACPU_ASSIGN(auto buffer, client->xla->BufferFromHostBuffer(
                                 args->data, type, dims, strides, semantics,
                                 std::move(on_done), memory,
                                 layout.has_value() ? &*layout : nullptr));
  args->buffer = NewBuffer(client->shared_from_this(), std::move(buffer));
  args->done_with_host_buffer = NewEvent(std::move(released));
  return nullptr;
}

PJRT_Error* Client_CreateUninitializedBuffer(
    PJRT_Client_CreateUninitializedBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_CreateUninitializedBuffer_Args, buffer);
  XLACPU_OBJECT(client, PJRT_Client_CreateUninitializedBuffer_Args, client);
  XLACPU_ASSIGN(xla::Shape shape, ShapeOf(args));
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory,
                Target(args->device, args->memory));
  XLACPU_ASSIGN(auto buffer,
                client->xla->CreateUninitializedBuffer(shape, memory));
  args->buffer = NewBuffer(client->shared_from_this(), std::move(buffer));
  return nullptr;
}

PJRT_Error* Client_CreateErrorBuffer(
    PJRT_Client_CreateErrorBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_CreateErrorBuffer_Args, buffer);
  XLACPU_OBJECT(client, PJRT_Client_CreateErrorBuffer_Args, client);
  XLACPU_ASSIGN(xla::Shape shape, ShapeOf(args));
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory, Target(nullptr, args->memory));
  absl::Status error = ToStatus(args->error_code, args->error_message,
                                args->error_message_size);
  if (error.ok()) return InvalidArgument("an error buffer needs an error code");
  XLACPU_ASSIGN(auto buffer, client->xla->CreateErrorBuffer(std::move(error),
                                                            shape, memory));
  args->buffer = NewBuffer(client->shared_from_this(), std::move(buffer));
  return nullptr;
}

PJRT_Error* Client_CreateViewOfDeviceBuffer(
    PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, buffer);
  XLACPU_OBJECT(client, PJRT_Client_CreateViewOfDeviceBuffer_Args, client);
  XLACPU_ASSIGN(xla::Shape shape,
                ToShape(args->element_type, Dims(args->dims, args->num_dims),
                        args->layout));
  PJRT_Memory* given =
      XLACPU_HAS(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory)
          ? args->memory
          : nullptr;
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory, Target(args->device, given));
  std::function<void()> on_delete;
  if (args->on_delete_callback != nullptr) {
    on_delete = [callback = args->on_delete_callback,
                 data = args->device_buffer_ptr,
                 user_arg = args->on_delete_callback_arg] {
      callback(data, user_arg);
    };
  }
  XLACPU_ASSIGN(auto buffer,
                client->xla->CreateViewOfDeviceBuffer(
                    args->device_buffer_ptr, shape, memory,
                    std::move(on_delete)));
  args->buffer = NewBuffer(client->shared_from_this(), std::move(buffer));
  return nullptr;
}

// ----- buffers that stand for one that is made later

PJRT_Error* Client_CreateAliasBuffer(
    PJRT_Client_CreateAliasBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_CreateAliasBuffer_Args,
                    fulfill_alias_buffer_cb);
  XLACPU_OBJECT(client, PJRT_Client_CreateAliasBuffer_Args, client);
  XLACPU_ASSIGN(xla::Shape shape, ShapeOf(args));
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory, Target(nullptr, args->memory));
  XLACPU_ASSIGN(auto alias, client->xla->CreateAliasBuffer(shape, memory));
  auto fulfiller =
      std::make_unique<AliasFulfiller>(AliasFulfiller{std::move(alias.second)});
  args->alias_buffer =
      NewBuffer(client->shared_from_this(), std::move(alias.first));
  args->fulfill_alias_buffer_cb = Wrap(fulfiller.release());
  return nullptr;
}

PJRT_Error* Client_FulfillAliasBuffer(
    PJRT_Client_FulfillAliasBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_FulfillAliasBuffer_Args,
                    fulfill_alias_buffer_cb);
  XLACPU_OBJECT(fulfiller, PJRT_Client_FulfillAliasBuffer_Args,
                fulfill_alias_buffer_cb);
  std::unique_ptr<AliasFulfiller> used(fulfiller);
  absl::Status error = ToStatus(args->status_code, args->error_message,
                                args->error_message_size);
  if (!error.ok()) return ToError(used->fulfill(std::move(error)));
  if (args->buffer == nullptr) {
    return ToError(used->fulfill(
        absl::InvalidArgumentError("neither a buffer nor an error is given")));
  }
  return ToError(used->fulfill(Unwrap(args->buffer)->xla.get()));
}

// ----- between devices

PJRT_Error* Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_CopyToDevice_Args, dst_buffer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_CopyToDevice_Args, buffer);
  XLACPU_OBJECT(device, PJRT_Buffer_CopyToDevice_Args, dst_device);
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory,
                device->xla->default_memory_space());
  XLACPU_ASSIGN(auto copy, buffer->xla->CopyToMemorySpace(memory));
  args->dst_buffer =
      NewBuffer(device->client->shared_from_this(), std::move(copy));
  return nullptr;
}

PJRT_Error* Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_CopyToMemory_Args, dst_buffer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_CopyToMemory_Args, buffer);
  XLACPU_OBJECT(memory, PJRT_Buffer_CopyToMemory_Args, dst_memory);
  XLACPU_ASSIGN(auto copy, buffer->xla->CopyToMemorySpace(memory->xla));
  args->dst_buffer =
      NewBuffer(memory->client->shared_from_this(), std::move(copy));
  return nullptr;
}

// ----- back to the host

// The shape that the host is to receive: the buffer's real dimensions in the
// layout asked for, or in the buffer's own.
absl::StatusOr<xla::Shape> HostShape(const Buffer& buffer,
                                     const PJRT_Buffer_MemoryLayout* asked) {
  xla::Shape shape = buffer.xla->on_device_shape();
  if (shape.is_dynamic()) {
    absl::StatusOr<xla::Shape> logical = buffer.xla->logical_on_device_shape();
    if (!logical.ok()) return logical;
    shape = *std::move(logical);
  }
  if (asked == nullptr) {
    const xla::Layout layout = buffer.xla->layout()->xla_layout();
    *shape.mutable_layout() =
        xla::LayoutUtil::MakeLayout(layout.minor_to_major());
    return shape;
  }
  absl::StatusOr<xla::Layout> layout =
      ToLayout(*asked, shape.element_type(), shape.dimensions());
  if (!layout.ok()) return layout.status();
  *shape.mutable_layout() = *std::move(layout);
  return shape;
}

PJRT_Error* Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_ToHostBuffer_Args, event);
  XLACPU_OBJECT(buffer, PJRT_Buffer_ToHostBuffer_Args, src);
  if (!buffer->xla->on_device_shape().IsArray()) {
    return InvalidArgument("only arrays have host data");
  }
  XLACPU_ASSIGN(xla::Shape shape, HostShape(*buffer, args->host_layout));
  const size_t needed = xla::ShapeUtil::ByteSizeOf(shape);
  if (args->dst == nullptr) {
    args->dst_size = needed;
    return nullptr;
  }
  if (args->dst_size < needed) {
    return InvalidArgument(absl::StrCat("dst_size is ", args->dst_size, ", ",
                                        needed, " bytes are needed"));
  }
  auto literal = std::make_unique<xla::MutableBorrowingLiteral>(
      static_cast<char*>(args->dst), shape);
  xla::Future<> done = buffer->xla->ToLiteral(literal.get());
  // The literal must live until the copy is done.
  if (!done.IsReady()) {
    done.OnReady([keep = std::move(literal)](const absl::Status&) {});
  }
  args->event = NewEvent(std::move(done));
  return nullptr;
}

PJRT_Error* Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_CopyRawToHost_Args, event);
  XLACPU_OBJECT(buffer, PJRT_Buffer_CopyRawToHost_Args, buffer);
  if (args->dst == nullptr) return InvalidArgument("dst is null");
  args->event = NewEvent(buffer->xla->CopyRawToHost(args->dst, args->offset,
                                                    args->transfer_size));
  return nullptr;
}

PJRT_Error* Buffer_CopyRawToHostFuture(
    PJRT_Buffer_CopyRawToHostFuture_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_CopyRawToHostFuture_Args,
                    future_ready_callback);
  XLACPU_OBJECT(buffer, PJRT_Buffer_CopyRawToHostFuture_Args, buffer);
  auto [promise, future] = xla::MakePromise<void*>();
  args->event = NewEvent(buffer->xla->CopyRawToHostFuture(
      std::move(future), args->offset, args->transfer_size));
  // The caller calls back exactly once; that call frees the promise.
  args->callback_data = new xla::Promise<void*>(std::move(promise));
  args->future_ready_callback =
      [](PJRT_Buffer_CopyRawToHostFuture_Callback_Args* ready) {
        std::unique_ptr<xla::Promise<void*>> destination(
            static_cast<xla::Promise<void*>*>(ready->callback_data));
        absl::Status status = ToStatus(ready->error_code, ready->error_message,
                                       ready->error_message_size);
        if (status.ok()) {
          destination->Set(ready->dst);
        } else {
          destination->Set(std::move(status));
        }
      };
  return nullptr;
}

PJRT_Error* Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_ReadyEvent_Args, event);
  XLACPU_OBJECT(buffer, PJRT_Buffer_ReadyEvent_Args, buffer);
  args->event = NewEvent(buffer->xla->GetReadyFuture());
  return nullptr;
}

}  // namespace

void InstallTransfer(PJRT_Api& api) {
  XLACPU_SLOT(api, Client_BufferFromHostBuffer);
  XLACPU_SLOT(api, Client_CreateUninitializedBuffer);
  XLACPU_SLOT(api, Client_CreateErrorBuffer);
  XLACPU_SLOT(api, Client_CreateViewOfDeviceBuffer);
  XLACPU_SLOT(api, Client_CreateAliasBuffer);
  XLACPU_SLOT(api, Client_FulfillAliasBuffer);
  XLACPU_SLOT(api, Buffer_CopyToDevice);
  XLACPU_SLOT(api, Buffer_CopyToMemory);
  XLACPU_SLOT(api, Buffer_ToHostBuffer);
  XLACPU_SLOT(api, Buffer_CopyRawToHost);
  XLACPU_SLOT(api, Buffer_CopyRawToHostFuture);
  XLACPU_SLOT(api, Buffer_ReadyEvent);
}

}  // namespace xlacpu
