// Device memory, buffers, and copies.
#include <stdlib.h>
#include <string.h>

#include "null.h"

// ---- Types.

size_t type_size(int type) {
#define ROW(name, code, bits) [code] = bits / 8,
  static const size_t sizes[] = {PJ_TYPES(ROW)};
#undef ROW
  const int count = sizeof sizes / sizeof *sizes;
  return type > 0 && type < count ? sizes[type] : 0;
}

size_t array_size(int type, const int64_t *dims, size_t num_dims) {
  size_t n = type_size(type);
  for (size_t i = 0; i < num_dims; i++) n *= (size_t)dims[i];
  return n;
}

// ---- Device memory.

static Data *data_around(Device *device, size_t size, uint8_t *bytes) {
  Data *d = calloc(1, sizeof *d);
  if (d == NULL) abort();
  d->refs = 1;
  d->device = device;
  d->size = size;
  d->bytes = bytes;
  device->client->data++;
  return d;
}

Data *data_new(Device *device, size_t size, pj_error *error) {
  long long used = device->in_use + (long long)size;
  long long limit = device->client->memory_limit;
  if (limit > 0 && used > limit) {
    *error = fail(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                  "out of memory on device %d: %zu bytes wanted, %lld of %lld "
                  "in use",
                  device->id, size, device->in_use, limit);
    return NULL;
  }
  device->in_use = used;
  if (used > device->peak) device->peak = used;
  if ((long long)size > device->largest) device->largest = (long long)size;
  device->allocations++;
  device->client->bytes += (long long)size;
  uint8_t *bytes = malloc(size == 0 ? 1 : size);
  if (bytes == NULL) abort();
  return data_around(device, size, bytes);
}

Data *data_keep(Data *d) {
  d->refs++;
  return d;
}

void data_drop(Data *d) {
  if (d == NULL || --d->refs > 0) return;
  Client *c = d->device->client;
  c->data--;
  if (d->borrowed) {
    d->next_released = c->released;
    c->released = d;
    return;
  }
  d->device->in_use -= (long long)d->size;
  c->bytes -= (long long)d->size;
  free(d->bytes);
  free(d);
}

void data_release(Data *d) {
  if (d->on_delete != NULL) d->on_delete(d->bytes, d->on_delete_arg);
  if (d->released != NULL) event_set(d->released, PJRT_Error_Code_OK, NULL);
  event_drop(d->released);
  free(d);
}

// ---- Buffers.

// Buffers are kept for reuse, except where memory is checked.
#ifdef __SANITIZE_ADDRESS__
enum { KEEP_SPARE = 0 };
#else
enum { KEEP_SPARE = 1 };
#endif

Buffer *buffer_new(Device *device, Memory *memory, int type,
                   const int64_t *dims, size_t num_dims, Data *data,
                   Event *ready) {
  Client *c = device->client;
  Buffer *b = c->spare;
  if (b != NULL)
    c->spare = b->next_spare;
  else if ((b = malloc(sizeof *b)) == NULL)
    abort();
  b->client = c;
  b->device = device;
  b->memory = memory;
  b->type = type;
  b->num_dims = num_dims;
  for (size_t i = 0; i < num_dims; i++) b->dims[i] = dims[i];
  b->data = data;
  b->ready = ready;
  b->external = 0;
  b->mark = 0;
  c->buffers++;
  return b;
}

void buffer_forget(Buffer *b) {
  data_drop(b->data);
  b->data = NULL;
}

// What a reader of a buffer needs, held until dropped; false if it is deleted.
static bool hold(Buffer *b, Data **data, Event **ready) {
  client_lock(b->client);
  bool there = b->data != NULL;
  if (there) {
    *data = data_keep(b->data);
    *ready = event_keep(b->ready);
  }
  client_unlock(b->client);
  return there;
}

static void let_go(Client *c, Data *data) {
  client_lock(c);
  data_drop(data);
  client_unlock(c);
}

static pj_error deleted(void) {
  return fail(PJRT_Error_Code_INVALID_ARGUMENT,
              "the buffer has been deleted or donated");
}

pj_error null_Buffer_Destroy(void *block) {
  Buffer *b = (Buffer *)((pj_object *)block)->object;
  if (b == NULL) return 0;
  Client *c = b->client;
  event_drop(b->ready);
  client_lock(c);
  if (b->external != 0) count(VIOLATIONS, 1);
  buffer_forget(b);
  c->buffers--;
  if (KEEP_SPARE) {
    b->next_spare = c->spare;
    c->spare = b;
  } else {
    free(b);
  }
  client_unlock(c);
  return 0;
}

pj_error null_Buffer_Delete(void *block) {
  Buffer *b = (Buffer *)((pj_object *)block)->object;
  client_lock(b->client);
  buffer_forget(b);
  client_unlock(b->client);
  return 0;
}

pj_error null_Buffer_IsDeleted(void *block) {
  pj_bool *a = block;
  Buffer *b = (Buffer *)a->object;
  client_lock(b->client);
  a->truth = b->data == NULL;
  client_unlock(b->client);
  return 0;
}

pj_error null_Buffer_ElementType(void *block) {
  pj_int *a = block;
  a->number = ((Buffer *)a->object)->type;
  return 0;
}

pj_error null_Buffer_Dimensions(void *block) {
  pj_list *a = block;
  Buffer *b = (Buffer *)a->object;
  a->items = b->dims;
  a->count = b->num_dims;
  return 0;
}

pj_error null_Buffer_UnpaddedDimensions(void *block) {
  return null_Buffer_Dimensions(block);
}

pj_error null_Buffer_DynamicDimensionIndices(void *block) {
  pj_list *a = block;
  a->items = NULL;
  a->count = 0;
  return 0;
}

pj_error null_Buffer_GetMemoryLayout(void *block) {
  PJRT_Buffer_GetMemoryLayout_Args *a = block;
  Buffer *b = (Buffer *)a->buffer;
  // Row-major: the last of the dimensions first.
  static const int64_t order[MAX_DIMS] = {7, 6, 5, 4, 3, 2, 1, 0};
  _Static_assert(MAX_DIMS == 8, "order lists the dimensions");
  a->layout = (PJRT_Buffer_MemoryLayout){
      .struct_size = sizeof(PJRT_Buffer_MemoryLayout),
      .type = PJRT_Buffer_MemoryLayout_Type_Tiled,
      .tiled = {.struct_size = sizeof(PJRT_Buffer_MemoryLayout_Tiled),
                     .minor_to_major = order + MAX_DIMS - b->num_dims,
                     .minor_to_major_size = b->num_dims},
  };
  return 0;
}

pj_error null_Buffer_OnDeviceSizeInBytes(void *block) {
  pj_word *a = block;
  Buffer *b = (Buffer *)a->object;
  a->word = array_size(b->type, b->dims, b->num_dims);
  return 0;
}

pj_error null_Buffer_Device(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Buffer *)a->object)->device;
  return 0;
}

pj_error null_Buffer_Memory(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Buffer *)a->object)->memory;
  return 0;
}

pj_error null_Buffer_IsOnCpu(void *block) {
  ((pj_bool *)block)->truth = true;
  return 0;
}

pj_error null_Buffer_ReadyEvent(void *block) {
  pj_word *a = block;
  Buffer *b = (Buffer *)a->object;
  Data *data;
  Event *ready;
  if (!hold(b, &data, &ready)) {
    a->word = (uintptr_t)event_done(PJRT_Error_Code_INVALID_ARGUMENT,
                                    "the buffer has been deleted or donated");
    return 0;
  }
  let_go(b->client, data);
  a->word = (uintptr_t)(ready != NULL ? ready : event_done(PJRT_Error_Code_OK, NULL));
  return 0;
}

pj_error null_Buffer_UnsafePointer(void *block) {
  pj_word *a = block;
  Buffer *b = (Buffer *)a->object;
  Data *data;
  Event *ready;
  if (!hold(b, &data, &ready)) return deleted();
  if (ready != NULL) event_wait(ready);
  a->word = (uintptr_t)data->bytes;
  event_drop(ready);
  let_go(b->client, data);
  return 0;
}

pj_error null_Buffer_OpaqueDeviceMemoryDataPointer(void *block) {
  return null_Buffer_UnsafePointer(block);
}

static pj_error add_external(Buffer *b, int n) {
  client_lock(b->client);
  bool there = b->data != NULL, possible = b->external + n >= 0;
  if (there && possible) b->external += n;
  client_unlock(b->client);
  if (!there) return deleted();
  if (!possible)
    return fail(PJRT_Error_Code_FAILED_PRECONDITION,
                "the buffer has no external reference");
  return 0;
}

pj_error null_Buffer_IncreaseExternalReferenceCount(void *block) {
  return add_external((Buffer *)((pj_object *)block)->object, 1);
}

pj_error null_Buffer_DecreaseExternalReferenceCount(void *block) {
  return add_external((Buffer *)((pj_object *)block)->object, -1);
}

// ---- Copies. One task kind serves all: bytes from one place to another, once
// what makes the source is complete.

typedef struct {
  Task task;
  Client *client;
  Data *source;  // or null: from host memory
  Event *source_ready;
  const uint8_t *host_source;
  Data *target;  // or null: to host memory
  uint8_t *host_target;
  size_t offset, size;
  Event *done, *made;  // completed after the copy; may be null
  int code;            // an injected failure
  char message[128];
  // For a strided host source.
  int64_t dims[MAX_DIMS], strides[MAX_DIMS];
  size_t num_dims, item;
  bool strided;
} Copy;

static void gather(const Copy *c, uint8_t *to) {
  int64_t at[MAX_DIMS] = {0};
  size_t total = c->size / c->item;
  for (size_t n = 0; n < total; n++) {
    const uint8_t *from = c->host_source;
    for (size_t i = 0; i < c->num_dims; i++) from += at[i] * c->strides[i];
    memcpy(to + n * c->item, from, c->item);
    for (size_t i = c->num_dims; i-- > 0;) {
      if (++at[i] < c->dims[i]) break;
      at[i] = 0;
    }
  }
}

static void run_copy(Task *task) {
  Copy *c = (Copy *)task;
  int code = c->code;
  const char *message = c->message;
  if (c->source_ready != NULL) event_wait(c->source_ready);
  if (code == PJRT_Error_Code_OK && c->source_ready != NULL &&
      c->source_ready->code != PJRT_Error_Code_OK) {
    code = c->source_ready->code;
    message = c->source_ready->message;
  }
  if (code == PJRT_Error_Code_OK && c->size > 0) {
    uint8_t *to = c->target != NULL ? c->target->bytes : c->host_target;
    if (c->strided)
      gather(c, to);
    else
      memcpy(to, c->source != NULL ? c->source->bytes + c->offset : c->host_source,
             c->size);
  }
  if (c->made != NULL) event_set(c->made, code, message);
  if (c->done != NULL) event_set(c->done, code, message);
  event_drop(c->made);
  event_drop(c->done);
  event_drop(c->source_ready);
  client_lock(c->client);
  data_drop(c->source);
  data_drop(c->target);
  client_unlock(c->client);
  free(c);
}

static Copy *new_copy(Client *client, int fn, size_t size) {
  Copy *c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->task.run = run_copy;
  c->client = client;
  c->size = size;
  if (fn >= 0) event_fault(fn, &c->code, c->message, sizeof c->message);
  return c;
}

static pj_error target_of(Client *client, PJRT_Device *device,
                          PJRT_Memory *memory, Device **d, Memory **m) {
  *m = memory != NULL ? (Memory *)memory : ((Device *)device)->memories[0];
  *d = (*m)->device;
  if ((*d)->client != client || !(*d)->addressable)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the device is not addressable");
  return 0;
}

static pj_error check_shape(int type, size_t num_dims, size_t num_strides) {
  if (type_size(type) == 0)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no element type %d", type);
  if (num_dims > MAX_DIMS)
    return fail(PJRT_Error_Code_UNIMPLEMENTED, "%zu dimensions; %d is the most here",
                num_dims, MAX_DIMS);
  if (num_strides != 0 && num_strides != num_dims)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%zu strides for %zu dimensions",
                num_strides, num_dims);
  return 0;
}

// A buffer on the caller's memory.
static Buffer *borrow(PJRT_Client_BufferFromHostBuffer_Args *a, Device *d, Memory *m, size_t size) {
  client_lock(d->client);
  Data *data = data_around(d, size, (uint8_t *)a->data);
  data->borrowed = true;
  data->released = event_new();
  a->done_with_host_buffer = (PJRT_Event *)event_keep(data->released);
  Buffer *b = buffer_new(d, m, a->type, a->dims, a->num_dims, data, NULL);
  client_unlock(d->client);
  return b;
}

// An armed fault takes back what was just made.
static void delete_if_armed(PJRT_Buffer *b) {
  if (deleted_fault(pj_fn_Client_BufferFromHostBuffer))
    null_Buffer_Delete(&(pj_object){.object = (uintptr_t)b});
}

pj_error null_Client_BufferFromHostBuffer(void *block) {
  PJRT_Client_BufferFromHostBuffer_Args *a = block;
  Client *client = (Client *)a->client;
  Device *d;
  Memory *m;
  pj_error error = check_shape(a->type, a->num_dims, a->num_byte_strides);
  if (error == 0) error = target_of(client, a->device, a->memory, &d, &m);
  if (error != 0) return error;
  size_t size = array_size(a->type, a->dims, a->num_dims);
  if (a->num_byte_strides == 0 &&
      a->host_buffer_semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy && size > 0) {
    a->buffer = (PJRT_Buffer *)borrow(a, d, m, size);
    delete_if_armed(a->buffer);
    return 0;
  }
  client_lock(client);
  Data *data = data_new(d, size, &error);
  if (data != NULL) data_keep(data);  // once for the copy, once for the buffer
  client_unlock(client);
  if (data == NULL) return error;
  Copy *copy = new_copy(client, pj_fn_Client_BufferFromHostBuffer, size);
  copy->host_source = a->data;
  copy->target = data;
  copy->item = type_size(a->type);
  copy->strided = a->num_byte_strides > 0;
  copy->num_dims = a->num_dims;
  for (size_t i = 0; i < a->num_dims; i++) {
    copy->dims[i] = a->dims[i];
    copy->strides[i] = copy->strided ? a->byte_strides[i] : 0;
  }
  copy->done = event_new();
  copy->made = event_new();
  a->done_with_host_buffer = (PJRT_Event *)event_keep(copy->done);
  client_lock(client);
  a->buffer = (PJRT_Buffer *)buffer_new(d, m, a->type, a->dims, a->num_dims, data,
                                    event_keep(copy->made));
  client_unlock(client);
  delete_if_armed(a->buffer);
  if (a->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
    run_copy(&copy->task);
  else
    client_enqueue(client, &copy->task);
  return 0;
}

pj_error null_Client_CreateUninitializedBuffer(void *block) {
  PJRT_Client_CreateUninitializedBuffer_Args *a = block;
  Device *d;
  Memory *m;
  pj_error error = check_shape(a->shape_element_type, a->shape_num_dims, 0);
  if (error == 0)
    error = target_of((Client *)a->client, a->device, a->memory, &d, &m);
  if (error != 0) return error;
  size_t size = array_size(a->shape_element_type, a->shape_dims, a->shape_num_dims);
  client_lock(d->client);
  Data *data = data_new(d, size, &error);
  if (data != NULL) {
    memset(data->bytes, 0xAB, size);
    a->buffer = (PJRT_Buffer *)buffer_new(d, m, a->shape_element_type, a->shape_dims, a->shape_num_dims,
                                      data, NULL);
  }
  client_unlock(d->client);
  return error;
}

pj_error null_Client_CreateViewOfDeviceBuffer(void *block) {
  PJRT_Client_CreateViewOfDeviceBuffer_Args *a = block;
  Device *d;
  Memory *m;
  pj_error error = check_shape(a->element_type, a->num_dims, 0);
  if (error == 0)
    error = target_of((Client *)a->client, a->device, a->memory, &d, &m);
  if (error != 0) return error;
  client_lock(d->client);
  Data *data = data_around(d, array_size(a->element_type, a->dims, a->num_dims),
                           a->device_buffer_ptr);
  data->borrowed = true;
  data->on_delete = a->on_delete_callback;
  data->on_delete_arg = a->on_delete_callback_arg;
  a->buffer = (PJRT_Buffer *)buffer_new(d, m, a->element_type, a->dims, a->num_dims, data,
                                    NULL);
  client_unlock(d->client);
  return 0;
}

static bool row_major(const PJRT_Buffer_MemoryLayout *layout, size_t num_dims) {
  if (layout == NULL) return true;
  if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled || layout->tiled.num_tiles != 0 ||
      layout->tiled.minor_to_major_size != num_dims)
    return false;
  for (size_t i = 0; i < num_dims; i++)
    if (layout->tiled.minor_to_major[i] != (int64_t)(num_dims - 1 - i))
      return false;
  return true;
}

// Starts a copy to host memory of part of a buffer.
static pj_error to_host(int fn, Buffer *b, void *dst, size_t offset,
                        size_t size, PJRT_Event **event) {
  Data *data;
  Event *ready;
  if (!hold(b, &data, &ready)) return deleted();
  Copy *copy = new_copy(b->client, fn, size);
  copy->source = data;
  copy->source_ready = ready;
  copy->offset = offset;
  copy->host_target = dst;
  copy->done = event_new();
  *event = (PJRT_Event *)event_keep(copy->done);
  client_enqueue(b->client, &copy->task);
  return 0;
}

pj_error null_Buffer_ToHostBuffer(void *block) {
  PJRT_Buffer_ToHostBuffer_Args *a = block;
  Buffer *b = (Buffer *)a->src;
  size_t size = array_size(b->type, b->dims, b->num_dims);
  if (!row_major(a->host_layout, b->num_dims))
    return fail(PJRT_Error_Code_UNIMPLEMENTED, "a host layout that is not row-major");
  if (a->dst == NULL) {
    a->dst_size = size;
    return 0;
  }
  if (a->dst_size < size)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%zu bytes of room, %zu needed",
                a->dst_size, size);
  return to_host(pj_fn_Buffer_ToHostBuffer, b, a->dst, 0, size, &a->event);
}

pj_error null_Buffer_CopyRawToHost(void *block) {
  PJRT_Buffer_CopyRawToHost_Args *a = block;
  Buffer *b = (Buffer *)a->buffer;
  size_t size = array_size(b->type, b->dims, b->num_dims);
  if (a->offset < 0 || a->transfer_size < 0 ||
      (size_t)(a->offset + a->transfer_size) > size)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the range is outside the buffer");
  return to_host(pj_fn_Buffer_CopyRawToHost, b, a->dst, (size_t)a->offset,
                 (size_t)a->transfer_size, &a->event);
}

static pj_error copy_to(pj_pair *a, Memory *m) {
  Buffer *b = (Buffer *)a->object;
  if (m->device->client != b->client || !m->device->addressable)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the device is not addressable");
  if (m == b->memory)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the buffer is there already");
  Data *source;
  Event *ready;
  if (!hold(b, &source, &ready)) return deleted();
  pj_error error = 0;
  client_lock(b->client);
  Data *data = data_new(m->device, source->size, &error);
  if (data == NULL) {
    data_drop(source);
    client_unlock(b->client);
    event_drop(ready);
    return error;
  }
  Copy *copy = new_copy(b->client, -1, source->size);
  copy->source = source;
  copy->source_ready = ready;
  copy->target = data_keep(data);
  copy->made = event_new();
  a->word = (uintptr_t)buffer_new(m->device, m, b->type, b->dims, b->num_dims,
                                  data, event_keep(copy->made));
  client_unlock(b->client);
  client_enqueue(b->client, &copy->task);
  return 0;
}

pj_error null_Buffer_CopyToDevice(void *block) {
  pj_pair *a = block;
  return copy_to(a, ((Device *)a->target)->memories[0]);
}

pj_error null_Buffer_CopyToMemory(void *block) {
  pj_pair *a = block;
  return copy_to(a, (Memory *)a->target);
}
