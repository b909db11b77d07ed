// The calls that a training step makes. See bridge.h.
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

pjc_result pjc_from_host(const pj_api *api, pj_client client, const void *data,
                         int type, const int64_t *dims, size_t num_dims,
                         const int64_t *strides, size_t num_strides,
                         int semantics, pj_device device, pj_memory memory) {
  pjc_result r = {.fn = pj_fn_Client_BufferFromHostBuffer};
  int64_t own_dims[PJC_MAX_RANK], own_strides[PJC_MAX_RANK];
  if (num_dims > PJC_MAX_RANK || num_strides > PJC_MAX_RANK) {
    r.error = PJC_BAD_RANK;
    return r;
  }
  for (size_t i = 0; i < num_dims; i++) own_dims[i] = dims[i];
  for (size_t i = 0; i < num_strides; i++) own_strides[i] = strides[i];
  struct {
    PJRT_Client_BufferFromHostBuffer_Args block;
    char tail[PJC_TAIL];
  } a = {.block = {
      .struct_size = sizeof a.block + pjc_tail(api),
      .client = (PJRT_Client *)client,
      .data = data,
      .type = (PJRT_Buffer_Type)type,
      .dims = own_dims,
      .num_dims = num_dims,
      .byte_strides = num_strides == 0 ? NULL : own_strides,
      .num_byte_strides = num_strides,
      .host_buffer_semantics = (PJRT_HostBufferSemantics)semantics,
      .device = (PJRT_Device *)device,
      .memory = (PJRT_Memory *)memory,
  }};
  r.error = pjc_call(api, r.fn, &a.block);
  r.object = (uintptr_t)a.block.buffer;
  r.event = (pj_event)a.block.done_with_host_buffer;
  return r;
}

pjc_result pjc_uninitialized(const pj_api *api, pj_client client, int type,
                             const int64_t *dims, size_t num_dims,
                             pj_device device, pj_memory memory) {
  pjc_result r = {.fn = pj_fn_Client_CreateUninitializedBuffer};
  int64_t own_dims[PJC_MAX_RANK];
  if (num_dims > PJC_MAX_RANK) {
    r.error = PJC_BAD_RANK;
    return r;
  }
  for (size_t i = 0; i < num_dims; i++) own_dims[i] = dims[i];
  struct {
    PJRT_Client_CreateUninitializedBuffer_Args block;
    char tail[PJC_TAIL];
  } a = {.block = {
      .struct_size = sizeof a.block + pjc_tail(api),
      .client = (PJRT_Client *)client,
      .shape_dims = own_dims,
      .shape_num_dims = num_dims,
      .shape_element_type = (PJRT_Buffer_Type)type,
      .device = (PJRT_Device *)device,
      .memory = (PJRT_Memory *)memory,
  }};
  r.error = pjc_call(api, r.fn, &a.block);
  r.object = (uintptr_t)a.block.buffer;
  return r;
}

pjc_result pjc_word(const pj_api *api, int fn, uintptr_t object) {
  pjc_result r = {.fn = fn};
  struct {
    pj_word block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = object}};
  r.error = pjc_call(api, fn, &a.block);
  r.object = (uintptr_t)a.block.word;
  return r;
}

pjc_result pjc_to_host(const pj_api *api, pj_buffer buffer, void *dst,
                       size_t size) {
  pjc_result r = {.fn = pj_fn_Buffer_Dimensions};
  // The rank is needed to state the row-major layout: without one a plugin
  // hands out the device's own.
  struct {
    pj_list block;
    char tail[PJC_TAIL];
  } shape = {.block = {.struct_size = sizeof shape.block + pjc_tail(api),
                       .object = buffer}};
  r.error = pjc_call(api, r.fn, &shape.block);
  if (r.error != 0) return r;
  r.fn = pj_fn_Buffer_ToHostBuffer;
  int64_t order[PJC_MAX_RANK];
  size_t rank = shape.block.count;
  if (rank > PJC_MAX_RANK) {
    r.error = PJC_BAD_RANK;
    return r;
  }
  for (size_t i = 0; i < rank; i++) order[i] = (int64_t)(rank - 1 - i);
  PJRT_Buffer_MemoryLayout layout = {
      .struct_size = sizeof layout,
      .type = PJRT_Buffer_MemoryLayout_Type_Tiled,
      .tiled = {.struct_size = sizeof layout.tiled,
                     .minor_to_major = order,
                     .minor_to_major_size = rank},
  };
  struct {
    PJRT_Buffer_ToHostBuffer_Args block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .src = (PJRT_Buffer *)buffer,
                   .host_layout = &layout,
                   .dst = dst,
                   .dst_size = size}};
  r.error = pjc_call(api, r.fn, &a.block);
  r.event = (pj_event)a.block.event;
  r.number = (int64_t)a.block.dst_size;
  return r;
}

pj_error pjc_destroy_all(const pj_api *api, int fn, const uintptr_t *objects,
                         size_t count) {
  enum { CHUNK = 512 };
  uintptr_t few[CHUNK];
  uintptr_t *copy = few;
  if (count > CHUNK) {
    copy = malloc(count * sizeof *copy);
    if (copy == NULL) return PJC_NO_MEMORY;
  }
  memcpy(copy, objects, count * sizeof *copy);
  pj_error first = 0;
  struct {
    pj_object block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api)}};
  for (size_t i = 0; i < count; i++) {
    if (copy[i] == 0) continue;
    a.block.object = copy[i];
    pj_error error = pjc_call(api, fn, &a.block);
    if (error == 0) continue;
    if (first == 0)
      first = error;
    else if (error != PJC_ABSENT)
      pjc_error_destroy(api, error);
  }
  if (copy != few) free(copy);
  return first;
}

pjc_result pjc_await(const pj_api *api, pj_event event, bool destroy) {
  pjc_result r = {.fn = pj_fn_Event_Await};
  struct {
    pj_object block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = event}};
  r.error = pjc_call(api, r.fn, &a.block);
  if (!destroy) return r;
  pj_error second = pjc_call(api, pj_fn_Event_Destroy, &a.block);
  if (r.error == 0) {
    r.error = second;
    r.fn = pj_fn_Event_Destroy;
  } else if (second != 0 && second != PJC_ABSENT) {
    pjc_error_destroy(api, second);
  }
  return r;
}

// ---- Prepared executions.

pjc_prepared *pjc_prepare(const pj_api *api, pj_loaded executable,
                          size_t num_devices, size_t num_args,
                          size_t num_outputs) {
  // One allocation: the block, then its arrays, all of pointer size.
  size_t words = num_devices * (num_args + num_outputs + 1 + 2) + num_args;
  size_t size = sizeof(pjc_prepared) + words * sizeof(uintptr_t);
  pjc_prepared *c = pjc_alloc(PJC_MEM_CALL, size);
  if (c == NULL) return NULL;
  uintptr_t *next = (uintptr_t *)(c + 1);
  c->api = api;
  c->size = size;
  c->num_devices = num_devices;
  c->num_args = num_args;
  c->num_outputs = num_outputs;
  c->args = next;
  next += num_devices * num_args;
  c->outputs = next;
  next += num_devices * num_outputs;
  c->events = next;
  next += num_devices;
  c->keep = (int64_t *)next;
  next += num_args;
  c->arg_lists = (PJRT_Buffer *const **)next;
  next += num_devices;
  c->output_lists = (PJRT_Buffer ***)next;
  for (size_t d = 0; d < num_devices; d++) {
    c->arg_lists[d] = (PJRT_Buffer **)c->args + d * num_args;
    c->output_lists[d] = (PJRT_Buffer **)c->outputs + d * num_outputs;
  }
  PJRT_ExecuteOptions *o = &c->options.block;
  o->struct_size = sizeof *o + pjc_tail(api);
  o->non_donatable_input_indices = c->keep;
  PJRT_LoadedExecutable_Execute_Args *e = &c->execute.block;
  e->struct_size = sizeof *e + pjc_tail(api);
  e->executable = (PJRT_LoadedExecutable *)executable;
  e->options = o;
  e->argument_lists = c->arg_lists;
  e->num_devices = num_devices;
  e->num_args = num_args;
  e->output_lists = c->output_lists;
  return c;
}

void pjc_prepared_free(pjc_prepared *c) {
  if (c != NULL) pjc_free(PJC_MEM_CALL, c, c->size);
}

pj_error pjc_execute(pjc_prepared *c, size_t num_keep, bool want_events) {
  memset(c->outputs, 0, c->num_devices * c->num_outputs * sizeof *c->outputs);
  memset(c->events, 0, c->num_devices * sizeof *c->events);
  c->options.block.num_non_donatable_input_indices = num_keep;
  c->execute.block.device_complete_events = want_events ? (PJRT_Event **)c->events : NULL;
  return pjc_call(c->api, pj_fn_LoadedExecutable_Execute, &c->execute.block);
}
