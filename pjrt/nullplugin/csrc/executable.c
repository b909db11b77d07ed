// Compilation, and what an executable tells of itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"

void compiled_drop(Compiled *c) {
  if (atomic_fetch_sub(&c->refs, 1) != 1) return;
  program_free(c->program);
  free(c->module);
  free(c->options);
  free(c->device_ids);
  free(c->types);
  free(c->dims);
  free(c->ranks);
  free(c->kinds);
  free(c->kind_sizes);
  free(c);
}

// ---- Compile options: the fields of CompileOptionsProto that matter here.

typedef struct {
  const uint8_t *at, *end;
  bool bad;
} Wire;

static uint64_t varint(Wire *w) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (w->at >= w->end) break;
    uint8_t byte = *w->at++;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return v;
  }
  w->bad = true;
  return 0;
}

// Reads one field: its number, and its value or its bytes. False at the end.
static bool field(Wire *w, int *number, uint64_t *value, Wire *bytes) {
  if (w->bad || w->at >= w->end) return false;
  uint64_t tag = varint(w);
  *number = (int)(tag >> 3);
  *value = 0;
  *bytes = (Wire){w->at, w->at, false};
  switch (tag & 7) {
    case 0: *value = varint(w); break;
    case 1:
    case 5: {
      size_t n = (tag & 7) == 1 ? 8 : 4;
      if ((size_t)(w->end - w->at) < n) w->bad = true;
      else w->at += n;
      break;
    }
    case 2: {
      uint64_t n = varint(w);
      if (w->bad || n > (uint64_t)(w->end - w->at)) {
        w->bad = true;
        break;
      }
      *bytes = (Wire){w->at, w->at + n, false};
      w->at += n;
      break;
    }
    default: w->bad = true;
  }
  return !w->bad;
}

enum { MAX_ASSIGNED = 64 };

typedef struct {
  int64_t replicas, partitions;
  bool portable;
  int assigned[MAX_ASSIGNED];  // [partition][replica]
  int num_assigned;
} CompileOptions;

static void read_assignment(Wire w, CompileOptions *o) {
  int number, inner;
  uint64_t value;
  Wire devices, ids;
  while (field(&w, &number, &value, &devices)) {
    if (number != 3) continue;
    while (field(&devices, &inner, &value, &ids)) {
      if (inner != 1) continue;
      while (ids.at < ids.end && !ids.bad && o->num_assigned < MAX_ASSIGNED)
        o->assigned[o->num_assigned++] = (int)varint(&ids);
    }
  }
}

static pj_error read_compile_options(const char *text, size_t size,
                                     CompileOptions *o) {
  Wire w = {(const uint8_t *)text, (const uint8_t *)text + size, false};
  Wire build, inside;
  int number, inner;
  uint64_t value;
  *o = (CompileOptions){.replicas = 1, .partitions = 1};
  while (field(&w, &number, &value, &build)) {
    if (number == 4) o->portable = value != 0;
    if (number != 3) continue;
    while (field(&build, &inner, &value, &inside)) {
      if (inner == 4) o->replicas = (int64_t)value;
      if (inner == 5) o->partitions = (int64_t)value;
      if (inner == 9) read_assignment(inside, o);
    }
    w.bad |= build.bad;
  }
  if (w.bad)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the compile options are malformed");
  if (o->replicas < 1 || o->partitions < 1 ||
      o->replicas * o->partitions > MAX_ASSIGNED)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%lld replicas of %lld partitions",
                (long long)o->replicas, (long long)o->partitions);
  if (o->num_assigned != 0 && o->num_assigned != o->replicas * o->partitions)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%d devices assigned",
                o->num_assigned);
  return 0;
}

// ---- Compilation.

static uint64_t hash(uint64_t h, const void *bytes, size_t size) {
  const uint8_t *p = bytes;
  for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

static void describe_outputs(Compiled *c) {
  const Program *p = c->program;
  size_t n = (size_t)p->num_results + 1;
  c->types = calloc(n, sizeof *c->types);
  c->dims = calloc(n * MAX_DIMS, sizeof *c->dims);
  c->ranks = calloc(n, sizeof *c->ranks);
  c->kinds = calloc(n, sizeof *c->kinds);
  c->kind_sizes = calloc(n, sizeof *c->kind_sizes);
  if (!c->types || !c->dims || !c->ranks || !c->kinds || !c->kind_sizes)
    abort();
  int64_t *next = c->dims;
  for (int i = 0; i < p->num_results; i++) {
    const Shape *s = &p->values[p->results[i]].shape;
    c->types[i] = s->type;
    c->ranks[i] = s->num_dims;
    for (size_t d = 0; d < s->num_dims; d++) *next++ = s->dims[d];
    c->kinds[i] = "device";
    c->kind_sizes[i] = 6;
  }
}

static void estimate_cost(Compiled *c) {
  float flops = 0, bytes = 0;
  for (int i = 0; i < c->program->num_values; i++) {
    const Value *v = &c->program->values[i];
    bytes += (float)v->shape.bytes;
    if (v->op >= OP_ADD && v->op <= OP_NEGATE) flops += (float)v->shape.elements;
  }
  c->cost[0] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "flops", .name_size = 5,
      .type = PJRT_NamedValue_kFloat, .float_value = flops, .value_size = 1};
  c->cost[1] = (PJRT_NamedValue){.struct_size = sizeof(PJRT_NamedValue),
                                .name = "bytes accessed", .name_size = 14,
                                .type = PJRT_NamedValue_kFloat,
                                .float_value = bytes, .value_size = 1};
}

static char *copy_bytes(const char *bytes, size_t size) {
  char *copy = malloc(size + 1);
  if (copy == NULL) abort();
  if (size > 0) memcpy(copy, bytes, size);
  return copy;
}

// Places a program on its devices.
static pj_error load(Client *client, Compiled *c, PJRT_LoadedExecutable **out) {
  int n = c->portable ? 0 : c->replicas * c->partitions;
  Loaded *x = calloc(1, sizeof *x);
  if (x == NULL) abort();
  x->devices = calloc((size_t)n + 1, sizeof *x->devices);
  if (x->devices == NULL) abort();
  for (int i = 0; i < n; i++) {
    Device *d = device_by_id(client, c->device_ids[i]);
    if (d == NULL) {
      free(x->devices);
      free(x);
      return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no device %d of the %d needed",
                  c->device_ids[i], n);
    }
    if (d->addressable) x->devices[x->num_devices++] = d;
  }
  x->client = client;
  x->compiled = c;
  atomic_fetch_add(&c->refs, 1);
  client_lock(client);
  client->loaded++;
  client_unlock(client);
  *out = (PJRT_LoadedExecutable *)x;
  return 0;
}

static pj_error compile(Client *client, const char *module, size_t module_size,
                        const char *options, size_t options_size,
                        PJRT_LoadedExecutable **out) {
  CompileOptions o;
  pj_error error = read_compile_options(options, options_size, &o);
  if (error != 0) return error;
  Program *program = program_parse(module, module_size, &error);
  if (program == NULL) return error;
  Compiled *c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  atomic_init(&c->refs, 1);
  c->program = program;
  c->module = copy_bytes(module, module_size);
  c->module_size = module_size;
  c->options = copy_bytes(options, options_size);
  c->options_size = options_size;
  c->replicas = (int)o.replicas;
  c->partitions = (int)o.partitions;
  c->portable = o.portable;
  c->device_ids = calloc((size_t)(o.replicas * o.partitions), sizeof(int));
  if (c->device_ids == NULL) abort();
  for (int r = 0; r < c->replicas; r++)
    for (int q = 0; q < c->partitions; q++)
      c->device_ids[r * c->partitions + q] =
          o.num_assigned != 0 ? o.assigned[q * c->replicas + r]
                              : r * c->partitions + q;
  uint64_t h = hash(0xcbf29ce484222325u, module, module_size);
  snprintf(c->fingerprint, sizeof c->fingerprint, "%016llx",
           (unsigned long long)hash(h, options, options_size));
  describe_outputs(c);
  estimate_cost(c);
  error = load(client, c, out);
  compiled_drop(c);
  return error;
}

pj_error null_Client_Compile(void *block) {
  PJRT_Client_Compile_Args *a = block;
  const PJRT_Program *p = a->program;
  if (!grown(p, sizeof *p))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the program's block is too short");
  if (p->format_size != 4 || memcmp(p->format, "mlir", 4) != 0)
    return fail(PJRT_Error_Code_UNIMPLEMENTED, "no format %.*s here",
                (int)p->format_size, p->format);
  return compile((Client *)a->client, p->code, p->code_size,
                 a->compile_options, a->compile_options_size, &a->executable);
}

// ---- Serialization: a header of numbers, the options, the module.

typedef struct {
  char magic[8];
  uint64_t checksum, options_size, module_size;
  char version[32];
} Header;

static const char magic[8] = "nullexe1";

static void free_bytes(uintptr_t owner) { free((void *)owner); }

pj_error null_Executable_Serialize(void *block) {
  pj_bytes *a = block;
  Compiled *c = (Compiled *)a->object;
  size_t size = sizeof(Header) + c->options_size + c->module_size;
  char *bytes = malloc(size);
  if (bytes == NULL) abort();
  Header h = {.options_size = c->options_size, .module_size = c->module_size};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(bytes + sizeof h, c->options, c->options_size);
  memcpy(bytes + sizeof h + c->options_size, c->module, c->module_size);
  h.checksum = hash(0, bytes + sizeof h, size - sizeof h);
  memcpy(bytes, &h, sizeof h);
  a->bytes = bytes;
  a->size = size;
  a->owner = (uintptr_t)bytes;
  a->deleter = free_bytes;
  return 0;
}

pj_error null_Executable_DeserializeAndLoad(void *block) {
  PJRT_Executable_DeserializeAndLoad_Args *a = block;
  Header h;
  const char *bytes = a->serialized_executable;
  if (a->serialized_executable_size < sizeof h)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "not a serialized executable");
  memcpy(&h, bytes, sizeof h);
  size_t rest = a->serialized_executable_size - sizeof h;
  if (memcmp(h.magic, magic, sizeof magic) != 0)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "not a serialized executable");
  if (h.options_size > rest || h.module_size != rest - h.options_size ||
      h.checksum != hash(0, bytes + sizeof h, rest))
    return fail(PJRT_Error_Code_DATA_LOSS, "the serialized executable is damaged");
  const char *options = a->overridden_serialized_compile_options != NULL
                            ? a->overridden_serialized_compile_options
                            : bytes + sizeof h;
  size_t size = a->overridden_serialized_compile_options != NULL
                    ? a->overridden_serialized_compile_options_size
                    : h.options_size;
  return compile((Client *)a->client, bytes + sizeof h + h.options_size,
                 h.module_size, options, size, &a->loaded_executable);
}

// ---- Loaded executables.

pj_error null_LoadedExecutable_Destroy(void *block) {
  Loaded *x = (Loaded *)((pj_object *)block)->object;
  if (x == NULL) return 0;
  Client *c = x->client;
  compiled_drop(x->compiled);
  free(x->devices);
  free(x);
  client_lock(c);
  c->loaded--;
  client_unlock(c);
  return 0;
}

pj_error null_LoadedExecutable_GetExecutable(void *block) {
  pj_word *a = block;
  Compiled *c = ((Loaded *)a->object)->compiled;
  atomic_fetch_add(&c->refs, 1);
  count(LIVE_COMPILED, 1);
  a->word = (uintptr_t)c;
  return 0;
}

pj_error null_LoadedExecutable_AddressableDevices(void *block) {
  pj_list *a = block;
  a->items = ((Loaded *)a->object)->devices;
  a->count = ((Loaded *)a->object)->num_devices;
  return 0;
}

pj_error null_LoadedExecutable_Delete(void *block) {
  atomic_store(&((Loaded *)((pj_object *)block)->object)->deleted, true);
  return 0;
}

pj_error null_LoadedExecutable_IsDeleted(void *block) {
  pj_bool *a = block;
  a->truth = atomic_load(&((Loaded *)a->object)->deleted);
  return 0;
}

pj_error null_LoadedExecutable_Fingerprint(void *block) {
  Compiled *c = ((Loaded *)((pj_list *)block)->object)->compiled;
  return answer(block, c->fingerprint, strlen(c->fingerprint));
}

// ---- Descriptions.

pj_error null_Executable_Destroy(void *block) {
  Compiled *c = (Compiled *)((pj_object *)block)->object;
  if (c == NULL) return 0;
  compiled_drop(c);
  count(LIVE_COMPILED, -1);
  return 0;
}

pj_error null_Executable_Name(void *block) {
  Compiled *c = (Compiled *)((pj_list *)block)->object;
  return answer(block, c->program->name, strlen(c->program->name));
}

pj_error null_Executable_Fingerprint(void *block) {
  Compiled *c = (Compiled *)((pj_list *)block)->object;
  return answer(block, c->fingerprint, strlen(c->fingerprint));
}

pj_error null_Executable_NumReplicas(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Compiled *)a->object)->replicas;
  return 0;
}

pj_error null_Executable_NumPartitions(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Compiled *)a->object)->partitions;
  return 0;
}

pj_error null_Executable_NumOutputs(void *block) {
  pj_word *a = block;
  a->word = (uintptr_t)((Compiled *)a->object)->program->num_results;
  return 0;
}

pj_error null_Executable_SizeOfGeneratedCodeInBytes(void *block) {
  pj_word *a = block;
  Compiled *c = (Compiled *)a->object;
  a->word = (uintptr_t)c->program->num_values * sizeof(Value);
  return 0;
}

pj_error null_Executable_OutputElementTypes(void *block) {
  Compiled *c = (Compiled *)((pj_list *)block)->object;
  return answer(block, c->types, (size_t)c->program->num_results);
}

pj_error null_Executable_OutputDimensions(void *block) {
  pj_two_lists *a = block;
  Compiled *c = (Compiled *)a->object;
  a->count = (size_t)c->program->num_results;
  a->items = c->dims;
  a->sizes = c->ranks;
  return 0;
}

pj_error null_Executable_OutputMemoryKinds(void *block) {
  pj_two_lists *a = block;
  Compiled *c = (Compiled *)a->object;
  a->count = (size_t)c->program->num_results;
  a->items = c->kinds;
  a->sizes = c->kind_sizes;
  return 0;
}

pj_error null_Executable_GetCostAnalysis(void *block) {
  pj_counted *a = block;
  a->items = ((Compiled *)a->object)->cost;
  a->count = 2;
  return 0;
}

pj_error null_Executable_OptimizedProgram(void *block) {
  PJRT_Executable_OptimizedProgram_Args *a = block;
  Compiled *c = (Compiled *)a->executable;
  if (!grown(a->program, sizeof *a->program))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the program's block is too short");
  a->program->format = "mlir";
  a->program->format_size = 4;
  if (a->program->code == NULL)
    a->program->code_size = c->module_size;
  else if (a->program->code_size < c->module_size)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no room for the program");
  else
    memcpy(a->program->code, c->module, c->module_size);
  return 0;
}

static void no_deleter(uintptr_t owner) { (void)owner; }

pj_error null_Executable_GetCompileOptions(void *block) {
  pj_bytes *a = block;
  Compiled *c = (Compiled *)a->object;
  a->bytes = c->options;
  a->size = c->options_size;
  a->owner = a->object;
  a->deleter = no_deleter;
  return 0;
}

pj_error null_Executable_GetCompiledMemoryStats(void *block) {
  PJRT_Executable_GetCompiledMemoryStats_Args *a = block;
  const Program *p = ((Compiled *)a->executable)->program;
  for (int i = 0; i < p->num_values; i++) {
    int64_t bytes = (int64_t)p->values[i].shape.bytes;
    if (i < p->num_parameters)
      a->argument_size_in_bytes += bytes;
    else
      a->temp_size_in_bytes += bytes;
  }
  for (int i = 0; i < p->num_results; i++)
    a->output_size_in_bytes += (int64_t)p->values[p->results[i]].shape.bytes;
  for (int i = 0; i < p->num_parameters; i++)
    if (p->alias[i] >= 0) a->alias_size_in_bytes += (int64_t)p->values[i].shape.bytes;
  a->generated_code_size_in_bytes = (int64_t)sizeof(Value) * p->num_values;
  a->peak_memory_in_bytes = a->argument_size_in_bytes + a->output_size_in_bytes - a->alias_size_in_bytes +
                   a->temp_size_in_bytes;
  a->total_size_in_bytes = a->peak_memory_in_bytes + a->generated_code_size_in_bytes;
  return 0;
}
