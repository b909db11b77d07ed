#include "device.h"

#include <string_view>
#include <utility>

#include "client.h"
#include "error.h"

namespace xlacpu {

DeviceDescription::DeviceDescription(const xla::PjRtDeviceDescription* d)
    : xla(d),
      attributes(d->Attributes()),
      memories(d->memory_spaces().begin(), d->memory_spaces().end()) {}

namespace {

// Defines a function that hands out one text owned by XLA's object.
#define XLACPU_TEXT(name, field, handle, expression) \
  PJRT_Error* name(PJRT_##name##_Args* args) {       \
    XLACPU_CHECK_ARGS(PJRT_##name##_Args, field##_size); \
    XLACPU_OBJECT(object, PJRT_##name##_Args, handle);   \
    std::string_view text = object->expression;          \
    args->field = text.data();                           \
    args->field##_size = text.size();                    \
    return nullptr;                                      \
  }

// ----- descriptions

PJRT_Error* DeviceDescription_Id(PJRT_DeviceDescription_Id_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_DeviceDescription_Id_Args, id);
  XLACPU_OBJECT(d, PJRT_DeviceDescription_Id_Args, device_description);
  args->id = d->xla->id();
  return nullptr;
}

PJRT_Error* DeviceDescription_ProcessIndex(
    PJRT_DeviceDescription_ProcessIndex_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process_index);
  XLACPU_OBJECT(d, PJRT_DeviceDescription_ProcessIndex_Args, device_description);
  args->process_index = d->xla->process_index();
  return nullptr;
}

PJRT_Error* DeviceDescription_Attributes(
    PJRT_DeviceDescription_Attributes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_DeviceDescription_Attributes_Args, attributes);
  XLACPU_OBJECT(d, PJRT_DeviceDescription_Attributes_Args, device_description);
  args->attributes = d->attributes.data();
  args->num_attributes = d->attributes.size();
  return nullptr;
}

XLACPU_TEXT(DeviceDescription_Kind, device_kind, device_description,
            xla->device_kind())
XLACPU_TEXT(DeviceDescription_DebugString, debug_string, device_description,
            xla->DebugString())
XLACPU_TEXT(DeviceDescription_ToString, to_string, device_description,
            xla->ToString())

// ----- devices

PJRT_Error* Device_GetDescription(PJRT_Device_GetDescription_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_GetDescription_Args, device_description);
  XLACPU_OBJECT(device, PJRT_Device_GetDescription_Args, device);
  args->device_description = Wrap(&device->description);
  return nullptr;
}

PJRT_Error* Device_IsAddressable(PJRT_Device_IsAddressable_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_IsAddressable_Args, is_addressable);
  XLACPU_OBJECT(device, PJRT_Device_IsAddressable_Args, device);
  args->is_addressable = device->xla->IsAddressable();
  return nullptr;
}

PJRT_Error* Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_LocalHardwareId_Args, local_hardware_id);
  XLACPU_OBJECT(device, PJRT_Device_LocalHardwareId_Args, device);
  args->local_hardware_id = device->xla->local_hardware_id().value();
  return nullptr;
}

PJRT_Error* Device_AddressableMemories(
    PJRT_Device_AddressableMemories_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_AddressableMemories_Args, num_memories);
  XLACPU_OBJECT(device, PJRT_Device_AddressableMemories_Args, device);
  args->memories = Wrap(device->memories.data());
  args->num_memories = device->memories.size();
  return nullptr;
}

PJRT_Error* Device_DefaultMemory(PJRT_Device_DefaultMemory_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_DefaultMemory_Args, memory);
  XLACPU_OBJECT(device, PJRT_Device_DefaultMemory_Args, device);
  XLACPU_ASSIGN(xla::PjRtMemorySpace * memory,
                device->xla->default_memory_space());
  args->memory = Wrap(device->client->Find(memory));
  return nullptr;
}

// The devices of a client share one pool, and each reports the whole of it:
// XLA:CPU does not say for which device it asks for memory.
PJRT_Error* Device_MemoryStats(PJRT_Device_MemoryStats_Args* args) {
  using Args = PJRT_Device_MemoryStats_Args;
  XLACPU_CHECK_ARGS(Args, largest_free_block_bytes_is_set);
  XLACPU_OBJECT(device, Args, device);
  if (!device->xla->IsAddressable()) {
    return InvalidArgument("the device belongs to another process");
  }
  const PoolFigures figures = device->client->pool->Figures();
  args->bytes_in_use = figures.in_use;
  args->peak_bytes_in_use = figures.peak_in_use;
  args->peak_bytes_in_use_is_set = true;
  args->num_allocs = figures.allocations;
  args->num_allocs_is_set = true;
  args->largest_alloc_size = figures.largest_allocation;
  args->largest_alloc_size_is_set = true;
  args->bytes_limit = figures.limit;
  args->bytes_limit_is_set = true;
  args->bytes_reserved_is_set = false;
  args->peak_bytes_reserved_is_set = false;
  args->bytes_reservable_limit_is_set = false;
  args->largest_free_block_bytes = figures.largest_kept;
  args->largest_free_block_bytes_is_set = true;
  if (XLACPU_HAS(Args, peak_pool_bytes_is_set)) {
    args->pool_bytes = figures.in_use + figures.kept;
    args->pool_bytes_is_set = true;
    args->peak_pool_bytes = figures.peak_held;
    args->peak_pool_bytes_is_set = true;
  }
  return nullptr;
}

PJRT_Error* Device_PoisonExecution(PJRT_Device_PoisonExecution_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_PoisonExecution_Args, poisoned);
  XLACPU_OBJECT(device, PJRT_Device_PoisonExecution_Args, device);
  XLACPU_ASSIGN(args->poisoned,
                device->xla->PoisonExecution(
                    args->launch_id,
                    ToStatus(args->error_code, args->error_message,
                             args->error_message_size)));
  return nullptr;
}

PJRT_Error* Device_CreateAsyncTrackingEvent(
    PJRT_Device_CreateAsyncTrackingEvent_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Device_CreateAsyncTrackingEvent_Args, event);
  XLACPU_OBJECT(device, PJRT_Device_CreateAsyncTrackingEvent_Args, device);
  // XLA:CPU tracks nothing and returns null; the handle is still an object, so
  // that callers can tell success from failure.
  auto event = std::make_unique<TrackingEvent>();
  event->xla = device->xla->CreateAsyncTrackingEvent(
      std::string_view(args->description, args->description_size));
  args->event = Wrap(event.release());
  return nullptr;
}

PJRT_Error* AsyncTrackingEvent_Destroy(
    PJRT_AsyncTrackingEvent_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_AsyncTrackingEvent_Destroy_Args, event);
  delete Unwrap(args->event);
  return nullptr;
}

// ----- memories

PJRT_Error* Memory_Id(PJRT_Memory_Id_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Memory_Id_Args, id);
  XLACPU_OBJECT(memory, PJRT_Memory_Id_Args, memory);
  args->id = memory->xla->id();
  return nullptr;
}

PJRT_Error* Memory_Kind_Id(PJRT_Memory_Kind_Id_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Memory_Kind_Id_Args, kind_id);
  XLACPU_OBJECT(memory, PJRT_Memory_Kind_Id_Args, memory);
  args->kind_id = memory->xla->kind_id();
  return nullptr;
}

XLACPU_TEXT(Memory_Kind, kind, memory, xla->kind())
XLACPU_TEXT(Memory_DebugString, debug_string, memory, xla->DebugString())
XLACPU_TEXT(Memory_ToString, to_string, memory, xla->ToString())

PJRT_Error* Memory_AddressableByDevices(
    PJRT_Memory_AddressableByDevices_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Memory_AddressableByDevices_Args, num_devices);
  XLACPU_OBJECT(memory, PJRT_Memory_AddressableByDevices_Args, memory);
  args->devices = Wrap(memory->devices.data());
  args->num_devices = memory->devices.size();
  return nullptr;
}

#undef XLACPU_TEXT

}  // namespace

void InstallDevice(PJRT_Api& api) {
  XLACPU_SLOT(api, DeviceDescription_Id);
  XLACPU_SLOT(api, DeviceDescription_ProcessIndex);
  XLACPU_SLOT(api, DeviceDescription_Attributes);
  XLACPU_SLOT(api, DeviceDescription_Kind);
  XLACPU_SLOT(api, DeviceDescription_DebugString);
  XLACPU_SLOT(api, DeviceDescription_ToString);
  XLACPU_SLOT(api, Device_GetDescription);
  XLACPU_SLOT(api, Device_IsAddressable);
  XLACPU_SLOT(api, Device_LocalHardwareId);
  XLACPU_SLOT(api, Device_AddressableMemories);
  XLACPU_SLOT(api, Device_DefaultMemory);
  XLACPU_SLOT(api, Device_MemoryStats);
  XLACPU_SLOT(api, Device_PoisonExecution);
  XLACPU_SLOT(api, Device_CreateAsyncTrackingEvent);
  XLACPU_SLOT(api, AsyncTrackingEvent_Destroy);
  XLACPU_SLOT(api, Memory_Id);
  XLACPU_SLOT(api, Memory_Kind);
  XLACPU_SLOT(api, Memory_Kind_Id);
  XLACPU_SLOT(api, Memory_DebugString);
  XLACPU_SLOT(api, Memory_ToString);
  XLACPU_SLOT(api, Memory_AddressableByDevices);
}

}  // namespace xlacpu
