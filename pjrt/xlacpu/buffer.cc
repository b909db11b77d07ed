#include "buffer.h"

#include "absl/types/span.h"
#include "error.h"
#include "shapes.h"
#include "xla/layout.h"

namespace xlacpu {
namespace {

PJRT_Error* Buffer_Destroy(PJRT_Buffer_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_Destroy_Args, buffer);
  delete Unwrap(args->buffer);
  return nullptr;
}

// ----- properties: they stay readable after the buffer's data is deleted

PJRT_Error* Buffer_ElementType(PJRT_Buffer_ElementType_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_ElementType_Args, type);
  XLACPU_OBJECT(buffer, PJRT_Buffer_ElementType_Args, buffer);
  args->type = ToBufferType(buffer->xla->element_type());
  return nullptr;
}

PJRT_Error* Buffer_Dimensions(PJRT_Buffer_Dimensions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_Dimensions_Args, num_dims);
  XLACPU_OBJECT(buffer, PJRT_Buffer_Dimensions_Args, buffer);
  absl::Span<const int64_t> dims = buffer->xla->dimensions();
  args->dims = dims.data();
  args->num_dims = dims.size();
  return nullptr;
}

PJRT_Error* Buffer_UnpaddedDimensions(
    PJRT_Buffer_UnpaddedDimensions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_UnpaddedDimensions_Args, num_dims);
  XLACPU_OBJECT(buffer, PJRT_Buffer_UnpaddedDimensions_Args, buffer);
  if (!buffer->xla->has_dynamic_dimensions()) {
    absl::Span<const int64_t> dims = buffer->xla->dimensions();
    args->unpadded_dims = dims.data();
    args->num_dims = dims.size();
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(buffer->mu);
  BufferDetails& details = buffer->Details();
  if (!details.has_logical_dims) {
    XLACPU_ASSIGN(details.logical_dims, buffer->xla->logical_dimensions());
    details.has_logical_dims = true;
  }
  args->unpadded_dims = details.logical_dims.data();
  args->num_dims = details.logical_dims.size();
  return nullptr;
}

PJRT_Error* Buffer_DynamicDimensionIndices(
    PJRT_Buffer_DynamicDimensionIndices_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_DynamicDimensionIndices_Args, num_dynamic_dims);
  XLACPU_OBJECT(buffer, PJRT_Buffer_DynamicDimensionIndices_Args, buffer);
  std::lock_guard<std::mutex> lock(buffer->mu);
  BufferDetails& details = buffer->Details();
  if (!details.has_dynamic_dims) {
    absl::Span<const bool> dynamic = buffer->xla->is_dynamic_dimension();
    for (size_t i = 0; i < dynamic.size(); ++i) {
      if (dynamic[i]) details.dynamic_dims.push_back(i);
    }
    details.has_dynamic_dims = true;
  }
  args->dynamic_dim_indices = details.dynamic_dims.data();
  args->num_dynamic_dims = details.dynamic_dims.size();
  return nullptr;
}

PJRT_Error* Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_GetMemoryLayout_Args, layout);
  XLACPU_OBJECT(buffer, PJRT_Buffer_GetMemoryLayout_Args, buffer);
  std::lock_guard<std::mutex> lock(buffer->mu);
  BufferDetails& details = buffer->Details();
  if (!details.has_layout) {
    const xla::Layout layout = buffer->xla->layout()->xla_layout();
    details.minor_to_major.assign(layout.minor_to_major().begin(),
                                  layout.minor_to_major().end());
    details.has_layout = true;
  }
  args->layout = PJRT_Buffer_MemoryLayout{};
  args->layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  PJRT_Buffer_MemoryLayout_Tiled& tiled = args->layout.tiled;
  tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  tiled.minor_to_major = details.minor_to_major.data();
  tiled.minor_to_major_size = details.minor_to_major.size();
  return nullptr;
}

PJRT_Error* Buffer_OnDeviceSizeInBytes(
    PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args,
                    on_device_size_in_bytes);
  XLACPU_OBJECT(buffer, PJRT_Buffer_OnDeviceSizeInBytes_Args, buffer);
  XLACPU_ASSIGN(args->on_device_size_in_bytes,
                buffer->xla->GetOnDeviceSizeInBytes());
  return nullptr;
}

PJRT_Error* Buffer_Device(PJRT_Buffer_Device_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_Device_Args, device);
  XLACPU_OBJECT(buffer, PJRT_Buffer_Device_Args, buffer);
  args->device = Wrap(buffer->client->Find(buffer->xla->device()));
  return nullptr;
}

PJRT_Error* Buffer_Memory(PJRT_Buffer_Memory_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_Memory_Args, memory);
  XLACPU_OBJECT(buffer, PJRT_Buffer_Memory_Args, buffer);
  args->memory = Wrap(buffer->client->Find(buffer->xla->memory_space()));
  return nullptr;
}

PJRT_Error* Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_IsOnCpu_Args, is_on_cpu);
  XLACPU_OBJECT(buffer, PJRT_Buffer_IsOnCpu_Args, buffer);
  args->is_on_cpu = buffer->xla->IsOnCpu();
  return nullptr;
}

// ----- lifetime

PJRT_Error* Buffer_Delete(PJRT_Buffer_Delete_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_Delete_Args, buffer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_Delete_Args, buffer);
  buffer->xla->Delete();
  return nullptr;
}

PJRT_Error* Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_IsDeleted_Args, is_deleted);
  XLACPU_OBJECT(buffer, PJRT_Buffer_IsDeleted_Args, buffer);
  args->is_deleted = buffer->xla->IsDeleted();
  return nullptr;
}

// ----- references from outside the runtime

PJRT_Error* Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_UnsafePointer_Args, buffer_pointer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_UnsafePointer_Args, buffer);
  XLACPU_ASSIGN(args->buffer_pointer,
                buffer->client->xla->UnsafeBufferPointer(buffer->xla.get()));
  return nullptr;
}

PJRT_Error* Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer);
  XLACPU_ASSIGN(auto reference, buffer->xla->AcquireExternalReference());
  std::lock_guard<std::mutex> lock(buffer->mu);
  buffer->Details().references.push_back(std::move(reference));
  return nullptr;
}

PJRT_Error* Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer);
  XLACPU_OBJECT(buffer, PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer);
  std::unique_ptr<xla::PjRtBuffer::ExternalReference> released;
  std::lock_guard<std::mutex> lock(buffer->mu);
  if (buffer->details == nullptr || buffer->details->references.empty()) {
    return InvalidArgument("the external reference count is already zero");
  }
  released = std::move(buffer->details->references.back());
  buffer->details->references.pop_back();
  return nullptr;
}

PJRT_Error* Buffer_OpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
                    device_memory_ptr);
  XLACPU_OBJECT(buffer, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, buffer);
  XLACPU_ASSIGN(auto reference, buffer->xla->AcquireExternalReference());
  args->device_memory_ptr = reference->OpaqueDeviceMemoryDataPointer();
  return nullptr;
}

}  // namespace

void InstallBuffer(PJRT_Api& api) {
  XLACPU_SLOT(api, Buffer_Destroy);
  XLACPU_SLOT(api, Buffer_ElementType);
  XLACPU_SLOT(api, Buffer_Dimensions);
  XLACPU_SLOT(api, Buffer_UnpaddedDimensions);
  XLACPU_SLOT(api, Buffer_DynamicDimensionIndices);
  XLACPU_SLOT(api, Buffer_GetMemoryLayout);
  XLACPU_SLOT(api, Buffer_OnDeviceSizeInBytes);
  XLACPU_SLOT(api, Buffer_Device);
  XLACPU_SLOT(api, Buffer_Memory);
  XLACPU_SLOT(api, Buffer_IsOnCpu);
  XLACPU_SLOT(api, Buffer_Delete);
  XLACPU_SLOT(api, Buffer_IsDeleted);
  XLACPU_SLOT(api, Buffer_UnsafePointer);
  XLACPU_SLOT(api, Buffer_IncreaseExternalReferenceCount);
  XLACPU_SLOT(api, Buffer_DecreaseExternalReferenceCount);
  XLACPU_SLOT(api, Buffer_OpaqueDeviceMemoryDataPointer);
}

}  // namespace xlacpu
