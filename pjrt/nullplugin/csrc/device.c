// What devices and memories tell of themselves.
#include "null.h"

// ---- Devices. A device is its own description.

pj_error null_Device_GetDescription(void *block) {
  pj_word *a = block;
  a->word = a->object;
  return 0;
}

pj_error null_DeviceDescription_Id(void *block) {
  pj_int *a = block;
  a->number = ((Device *)a->object)->id;
  return 0;
}

pj_error null_DeviceDescription_ProcessIndex(void *block) {
  pj_int *a = block;
  a->number = ((Device *)a->object)->process;
  return 0;
}

pj_error null_DeviceDescription_Attributes(void *block) {
  pj_counted *a = block;
  a->items = ((Device *)a->object)->attributes;
  a->count = 2;
  return 0;
}

pj_error null_DeviceDescription_Kind(void *block) {
  return answer_text(block, ((Device *)((pj_list *)block)->object)->kind);
}

pj_error null_DeviceDescription_ToString(void *block) {
  return answer_text(block, ((Device *)((pj_list *)block)->object)->name);
}

pj_error null_DeviceDescription_DebugString(void *block) {
  return answer_text(block, ((Device *)((pj_list *)block)->object)->debug);
}

pj_error null_Device_IsAddressable(void *block) {
  pj_bool *a = block;
  a->truth = ((Device *)a->object)->addressable;
  return 0;
}

pj_error null_Device_LocalHardwareId(void *block) {
  pj_int *a = block;
  Device *d = (Device *)a->object;
  a->number = d->addressable ? d->id % d->client->num_addressable : -1;
  return 0;
}

pj_error null_Device_AddressableMemories(void *block) {
  return answer(block, ((Device *)((pj_list *)block)->object)->memories, 2);
}

pj_error null_Device_DefaultMemory(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Device *)a->object)->memories[0];
  return 0;
}

pj_error null_Device_MemoryStats(void *block) {
  PJRT_Device_MemoryStats_Args *a = block;
  Device *d = (Device *)a->device;
  client_lock(d->client);
  a->bytes_in_use = d->in_use;
  a->peak_bytes_in_use = d->peak;
  a->num_allocs = d->allocations;
  a->largest_alloc_size = d->largest;
  client_unlock(d->client);
  a->peak_bytes_in_use_is_set = true;
  a->num_allocs_is_set = true;
  a->largest_alloc_size_is_set = true;
  a->bytes_limit = d->client->memory_limit;
  a->bytes_limit_is_set = d->client->memory_limit > 0;
  return 0;
}

// ---- Memories.

pj_error null_Memory_Id(void *block) {
  pj_int *a = block;
  a->number = ((Memory *)a->object)->id;
  return 0;
}

pj_error null_Memory_Kind(void *block) {
  return answer_text(block, ((Memory *)((pj_list *)block)->object)->kind);
}

pj_error null_Memory_Kind_Id(void *block) {
  pj_int *a = block;
  a->number = ((Memory *)a->object)->kind_id;
  return 0;
}

pj_error null_Memory_ToString(void *block) {
  return answer_text(block, ((Memory *)((pj_list *)block)->object)->name);
}

pj_error null_Memory_DebugString(void *block) {
  return answer_text(block, ((Memory *)((pj_list *)block)->object)->name);
}

pj_error null_Memory_AddressableByDevices(void *block) {
  return answer(block, &((Memory *)((pj_list *)block)->object)->device, 1);
}
