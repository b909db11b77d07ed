// Clients with their worker, devices and memories.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "null.h"

// ---- Lifetime and the worker.

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static Client *clients;

static void register_client(Client *c) {
  pthread_mutex_lock(&clients_lock);
  c->next = clients;
  if (clients != NULL) clients->previous = c;
  clients = c;
  pthread_mutex_unlock(&clients_lock);
  count(LIVE_CLIENTS, 1);
}

static void spin(Client *c) {
  for (int tries = 0;
       atomic_exchange_explicit(&c->locked, true, memory_order_acquire);)
    if (++tries % 64 == 0) sched_yield();
}

void clients_count(int64_t *out) {
  pthread_mutex_lock(&clients_lock);
  for (Client *c = clients; c != NULL; c = c->next) {
    spin(c);
    out[LIVE_BUFFERS] += c->buffers;
    out[LIVE_LOADED] += c->loaded;
    out[LIVE_DATA] += c->data;
    out[LIVE_BYTES] += c->bytes;
    atomic_store_explicit(&c->locked, false, memory_order_release);
  }
  pthread_mutex_unlock(&clients_lock);
}

static void free_client(Client *c) {
  pthread_mutex_lock(&clients_lock);
  if (c->previous != NULL)
    c->previous->next = c->next;
  else
    clients = c->next;
  if (c->next != NULL) c->next->previous = c->previous;
  pthread_mutex_unlock(&clients_lock);
  for (int i = 0; i < c->num_devices; i++) {
    for (int m = 0; m < 2; m++) free(c->devices[i]->memories[m]);
    free(c->devices[i]);
  }
  while (c->spare != NULL) {
    Buffer *b = c->spare;
    c->spare = b->next_spare;
    free(b);
  }
  free(c->devices);
  free(c->addressable);
  free(c->memories);
  pthread_mutex_destroy(&c->tasks);
  pthread_cond_destroy(&c->changed);
  free(c);
  count(LIVE_CLIENTS, -1);
}

void client_lock(Client *c) { spin(c); }

void client_unlock(Client *c) {
  Data *released = c->released;
  c->released = NULL;
  bool last = c->destroyed && !c->working && c->buffers == 0 &&
              c->loaded == 0 && c->data == 0;
  atomic_store_explicit(&c->locked, false, memory_order_release);
  while (released != NULL) {
    Data *next = released->next_released;
    data_release(released);
    released = next;
  }
  if (last) free_client(c);
}

// While held, no worker does anything.
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hold_changed = PTHREAD_COND_INITIALIZER;
static bool held;

__attribute__((visibility("default"))) void null_hold(int on) {
  pthread_mutex_lock(&hold_lock);
  held = on != 0;
  pthread_cond_broadcast(&hold_changed);
  pthread_mutex_unlock(&hold_lock);
}

static void wait_while_held(void) {
  pthread_mutex_lock(&hold_lock);
  while (held) pthread_cond_wait(&hold_changed, &hold_lock);
  pthread_mutex_unlock(&hold_lock);
}

static void *work(void *arg) {
  Client *c = arg;
  pthread_mutex_lock(&c->tasks);
  for (;;) {
    while (c->first == NULL && !c->ending)
      pthread_cond_wait(&c->changed, &c->tasks);
    Task *task = c->first;
    if (task == NULL) break;
    c->first = task->next;
    if (c->first == NULL) c->last = NULL;
    pthread_mutex_unlock(&c->tasks);
    usleep((useconds_t)c->delay_us);
    wait_while_held();
    task->run(task);
    pthread_mutex_lock(&c->tasks);
  }
  pthread_mutex_unlock(&c->tasks);
  client_lock(c);
  c->working = false;
  client_unlock(c);
  return NULL;
}

void client_enqueue(Client *c, Task *task) {
  if (c->delay_us > 0) {
    pthread_mutex_lock(&c->tasks);
    bool taken = !c->ending;
    if (taken) {
      task->next = NULL;
      if (c->last == NULL)
        c->first = task;
      else
        c->last->next = task;
      c->last = task;
      pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->tasks);
    if (taken) return;
  }
  // Without a worker, and after the client's end, it is done at once.
  task->run(task);
}

// ---- Creation.

static Device *new_device(Client *c, int id, int process) {
  Device *d = calloc(1, sizeof *d);
  if (d == NULL) abort();
  d->client = c;
  d->id = id;
  d->process = process;
  d->addressable = process == c->process;
  snprintf(d->kind, sizeof d->kind, "null");
  snprintf(d->name, sizeof d->name, "NullDevice(id=%d)", id);
  snprintf(d->debug, sizeof d->debug, "null device %d of process %d", id,
           process);
  d->attributes[0] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "id", .name_size = 2,
      .type = PJRT_NamedValue_kInt64, .int64_value = id, .value_size = 1};
  d->attributes[1] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "model", .name_size = 5,
      .type = PJRT_NamedValue_kString, .string_value = d->kind, .value_size = 4};
  static const char *const kinds[] = {"device", "pinned_host"};
  for (int i = 0; i < 2; i++) {
    Memory *m = calloc(1, sizeof *m);
    if (m == NULL) abort();
    m->device = d;
    m->id = 2 * id + i;
    m->kind_id = i;
    m->kind = kinds[i];
    snprintf(m->name, sizeof m->name, "NullMemory(id=%d, %s)", m->id, m->kind);
    d->memories[i] = m;
  }
  return d;
}

static void make_devices(Client *c, int processes, int each) {
  c->num_devices = processes * each;
  c->num_addressable = each;
  c->devices = calloc((size_t)c->num_devices, sizeof *c->devices);
  c->addressable = calloc((size_t)each, sizeof *c->addressable);
  c->memories = calloc((size_t)each * 2, sizeof *c->memories);
  if (c->devices == NULL || c->addressable == NULL || c->memories == NULL)
    abort();
  int next = 0;
  for (int i = 0; i < c->num_devices; i++) {
    Device *d = c->devices[i] = new_device(c, i, i / each);
    if (!d->addressable) continue;
    c->memories[2 * next] = d->memories[0];
    c->memories[2 * next + 1] = d->memories[1];
    c->addressable[next++] = d;
  }
}

// The options of a client, by name.
typedef struct {
  int64_t devices, delay_us, memory_limit, process, processes;
  bool kv_thread;
  char version[32], fault[256];
  bool fail;
} Options;

static bool is(const PJRT_NamedValue *v, const char *name, PJRT_NamedValue_Type type) {
  return v->type == type && v->name_size == strlen(name) &&
         memcmp(v->name, name, v->name_size) == 0;
}

static void copy_text(char *to, size_t room, const PJRT_NamedValue *v) {
  snprintf(to, room, "%.*s", (int)v->value_size, v->string_value);
}

static pj_error read_options(const PJRT_Client_Create_Args *a, Options *o) {
  for (size_t i = 0; i < a->num_options; i++) {
    const PJRT_NamedValue *v = &a->create_options[i];
    if (is(v, "devices", PJRT_NamedValue_kInt64) && v->int64_value > 0 &&
        v->int64_value <= 64)
      o->devices = v->int64_value;
    else if (is(v, "delay_us", PJRT_NamedValue_kInt64))
      o->delay_us = v->int64_value;
    else if (is(v, "memory_limit", PJRT_NamedValue_kInt64))
      o->memory_limit = v->int64_value;
    else if (is(v, "process_index", PJRT_NamedValue_kInt64))
      o->process = v->int64_value;
    else if (is(v, "process_count", PJRT_NamedValue_kInt64))
      o->processes = v->int64_value;
    else if (is(v, "kv_thread", PJRT_NamedValue_kBool))
      o->kv_thread = v->bool_value;
    else if (is(v, "version", PJRT_NamedValue_kString))
      copy_text(o->version, sizeof o->version, v);
    else if (is(v, "fault", PJRT_NamedValue_kString))
      copy_text(o->fault, sizeof o->fault, v);
    else if (!is(v, "ignored_list", PJRT_NamedValue_kInt64List) &&
             !is(v, "ignored_float", PJRT_NamedValue_kFloat))
      return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                  "no option %.*s of type %d with such a value",
                  (int)v->name_size, v->name, v->type);
  }
  if (o->process < 0 || o->process >= o->processes || o->processes > 64)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "process %lld of %lld",
                (long long)o->process, (long long)o->processes);
  return 0;
}

// ---- The key-value store: every process says how many devices it has.

typedef struct {
  const PJRT_Client_Create_Args *create;
  const Options *options;
  pj_error error;
} Meeting;

static PJRT_Error *make_error(PJRT_Error_Code code, const char *message,
                              size_t size) {
  return (PJRT_Error *)fail((int)code, "%.*s", (int)size, message);
}

static pj_error put(const PJRT_Client_Create_Args *a, const char *key,
                    const char *value) {
  static PJRT_CallbackError maker = make_error;
  PJRT_KeyValuePutCallback_Args block = {.struct_size = sizeof block,
                     .key = key,
                     .key_size = strlen(key),
                     .value = value,
                     .value_size = strlen(value),
                     .callback_error = &maker,
                     .user_arg = a->kv_put_user_arg};
  return (pj_error)a->kv_put_callback(&block);
}

static pj_error get(const PJRT_Client_Create_Args *a, const char *key, char *out,
                    size_t room) {
  static PJRT_CallbackError maker = make_error;
  PJRT_KeyValueGetCallback_Args block = {.struct_size = sizeof block,
                     .key = key,
                     .key_size = strlen(key),
                     .timeout_in_ms = 20000,
                     .callback_error = &maker,
                     .user_arg = a->kv_get_user_arg};
  pj_error error = (pj_error)a->kv_get_callback(&block);
  if (error != 0) return error;
  snprintf(out, room, "%.*s", (int)block.value_size, block.value);
  block.value_deleter_callback(block.value);
  return 0;
}

// A key that no one puts must be reported as not found, at once.
static pj_error try_missing(const PJRT_Client_Create_Args *a) {
  static PJRT_CallbackError maker = make_error;
  PJRT_KeyValueTryGetCallback_Args block = {.struct_size = sizeof block,
                         .key = "null/missing",
                         .key_size = 12,
                         .callback_error = &maker,
                         .user_arg = a->kv_try_get_user_arg};
  pj_error error = (pj_error)a->kv_try_get_callback(&block);
  if (error == 0) {
    block.value_deleter_callback(block.value);
    return fail(PJRT_Error_Code_INTERNAL, "a missing key was found");
  }
  int code = ((Error *)error)->code;
  if (code != PJRT_Error_Code_NOT_FOUND) return error;
  null_Error_Destroy(&(pj_object){.object = error});
  return 0;
}

static void *meet(void *arg) {
  Meeting *m = arg;
  const PJRT_Client_Create_Args *a = m->create;
  char key[64], value[64];
  snprintf(key, sizeof key, "null/devices/%d", (int)m->options->process);
  snprintf(value, sizeof value, "%d", (int)m->options->devices);
  m->error = put(a, key, value);
  for (int i = 0; m->error == 0 && i < m->options->processes; i++) {
    snprintf(key, sizeof key, "null/devices/%d", i);
    m->error = get(a, key, value, sizeof value);
    if (m->error == 0 && atoi(value) != m->options->devices)
      m->error = fail(PJRT_Error_Code_FAILED_PRECONDITION,
                      "process %d has %s devices, this one %d", i, value,
                      (int)m->options->devices);
  }
  if (m->error == 0 && a->kv_try_get_callback != NULL)
    m->error = try_missing(a);
  return NULL;
}

static pj_error meet_others(const PJRT_Client_Create_Args *a, const Options *o) {
  if (a->kv_get_callback == NULL || a->kv_put_callback == NULL) {
    if (o->processes == 1) return 0;
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "%d processes need a key-value store", (int)o->processes);
  }
  Meeting m = {a, o, 0};
  pthread_t thread;
  if (o->kv_thread && pthread_create(&thread, NULL, meet, &m) == 0)
    pthread_join(thread, NULL);
  else
    meet(&m);
  return m.error;
}

static int64_t from_environment(const char *name, int64_t otherwise) {
  const char *value = getenv(name);
  return value == NULL ? otherwise : atoll(value);
}

pj_error null_Client_Create(void *block) {
  PJRT_Client_Create_Args *a = block;
  Options o = {
      .devices = from_environment("NULL_PJRT_DEVICES", 1),
      .delay_us = from_environment("NULL_PJRT_DELAY_US", 0),
      .memory_limit = from_environment("NULL_PJRT_MEMORY_LIMIT", 0),
      .processes = 1,
      .version = "null 1",
  };
  if (o.devices < 1 || o.devices > 64) o.devices = 1;
  pj_error error = read_options(a, &o);
  if (error == 0) error = meet_others(a, &o);
  if (error != 0) return error;
  if (!arm(o.fault))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "cannot read the fault %s", o.fault);
  Client *c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->process = (int)o.process;
  c->memory_limit = o.memory_limit;
  c->delay_us = (int)o.delay_us;
  memcpy(c->version, o.version, sizeof c->version);
  pthread_mutex_init(&c->tasks, NULL);
  pthread_cond_init(&c->changed, NULL);
  make_devices(c, (int)o.processes, (int)o.devices);
  if (c->delay_us > 0) {
    pthread_t worker;
    c->working = true;
    if (pthread_create(&worker, NULL, work, c) != 0) abort();
    pthread_detach(worker);
  }
  register_client(c);
  a->client = (PJRT_Client *)c;
  return 0;
}

pj_error null_Client_Destroy(void *block) {
  Client *c = (Client *)((pj_object *)block)->object;
  if (c == NULL) return 0;
  pthread_mutex_lock(&c->tasks);
  c->ending = true;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->tasks);
  client_lock(c);
  // A plugin may require that nothing of the client is left; count it when
  // something is.
  if (c->buffers > 0 || c->loaded > 0) count(VIOLATIONS, 1);
  c->destroyed = true;
  client_unlock(c);
  return 0;
}

// ---- What a client tells.

pj_error null_Client_PlatformName(void *block) { return answer_text(block, "null"); }

pj_error null_Client_PlatformVersion(void *block) {
  return answer_text(block, ((Client *)((pj_list *)block)->object)->version);
}

pj_error null_Client_ProcessIndex(void *block) {
  pj_int *a = block;
  a->number = ((Client *)a->object)->process;
  return 0;
}

pj_error null_Client_Devices(void *block) {
  Client *c = (Client *)((pj_list *)block)->object;
  return answer(block, c->devices, (size_t)c->num_devices);
}

pj_error null_Client_AddressableDevices(void *block) {
  Client *c = (Client *)((pj_list *)block)->object;
  return answer(block, c->addressable, (size_t)c->num_addressable);
}

pj_error null_Client_AddressableMemories(void *block) {
  Client *c = (Client *)((pj_list *)block)->object;
  return answer(block, c->memories, (size_t)c->num_addressable * 2);
}

Device *device_by_id(Client *c, int id) {
  return id >= 0 && id < c->num_devices ? c->devices[id] : NULL;
}

pj_error null_Client_LookupDevice(void *block) {
  pj_lookup *a = block;
  Device *d = device_by_id((Client *)a->object, a->number);
  if (d == NULL) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no device %d", a->number);
  a->word = (uintptr_t)d;
  return 0;
}

pj_error null_Client_LookupAddressableDevice(void *block) {
  pj_lookup *a = block;
  Client *c = (Client *)a->object;
  if (a->number < 0 || a->number >= c->num_addressable)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no local device %d", a->number);
  a->word = (uintptr_t)c->addressable[a->number];
  return 0;
}

pj_error null_Client_DefaultDeviceAssignment(void *block) {
  PJRT_Client_DefaultDeviceAssignment_Args *a = block;
  int n = a->num_replicas * a->num_partitions;
  if ((size_t)n > a->default_assignment_size)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no room for %d devices", n);
  if (n > ((Client *)a->client)->num_devices)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%d devices are needed", n);
  for (int i = 0; i < n; i++) a->default_assignment[i] = i;
  return 0;
}

// ---- The topology. A client is its own.

pj_error null_Client_TopologyDescription(void *block) {
  pj_word *a = block;
  a->word = a->object;
  return 0;
}

pj_error null_TopologyDescription_PlatformName(void *block) {
  return null_Client_PlatformName(block);
}

pj_error null_TopologyDescription_PlatformVersion(void *block) {
  return null_Client_PlatformVersion(block);
}

pj_error null_TopologyDescription_GetDeviceDescriptions(void *block) {
  return null_Client_Devices(block);
}

static void free_bytes(uintptr_t owner) { free((void *)owner); }

pj_error null_TopologyDescription_Serialize(void *block) {
  pj_bytes *a = block;
  enum { ROOM = 32 };
  char *bytes = malloc(ROOM);
  if (bytes == NULL) abort();
  a->size = (size_t)snprintf(bytes, ROOM, "null*%d",
                             ((Client *)a->object)->num_devices);
  a->bytes = bytes;
  a->owner = (uintptr_t)bytes;
  a->deleter = free_bytes;
  return 0;
}

pj_error null_TopologyDescription_Attributes(void *block) {
  static const int64_t bounds[] = {1, 1};
  static const PJRT_NamedValue values[] = {
      {.struct_size = sizeof(PJRT_NamedValue), .name = "bounds", .name_size = 6,
       .type = PJRT_NamedValue_kInt64List, .int64_array_value = bounds,
       .value_size = 2}};
  return answer(block, values, 1);
}
