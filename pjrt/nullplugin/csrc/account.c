// Errors, counts, the call trace and armed faults.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"

#define EXPORT __attribute__((visibility("default")))

static atomic_llong live[LIVE_COUNT];

void count(int what, long long n) {
  atomic_fetch_add_explicit(&live[what], n, memory_order_relaxed);
}

// ---- Errors.

pj_error fail(int code, const char *format, ...) {
  enum { ROOM = 512 };
  Error *e = malloc(sizeof *e + ROOM);
  if (e == NULL) abort();
  e->code = code;
  va_list args;
  va_start(args, format);
  vsnprintf(e->message, ROOM, format, args);
  va_end(args);
  count(LIVE_ERRORS, 1);
  return (pj_error)e;
}

pj_error null_Error_Destroy(void *block) {
  pj_object *a = block;
  if (a->object == 0) return 0;
  count(LIVE_ERRORS, -1);
  free((Error *)a->object);
  return 0;
}

pj_error null_Error_Message(void *block) {
  pj_list *a = block;
  a->items = ((Error *)a->object)->message;
  a->count = strlen(((Error *)a->object)->message);
  return 0;
}

pj_error null_Error_GetCode(void *block) {
  pj_int *a = block;
  a->number = ((Error *)a->object)->code;
  return 0;
}

pj_error answer(void *list, const void *items, size_t size) {
  pj_list *a = list;
  a->items = items;
  a->count = size;
  return 0;
}

pj_error answer_text(void *list, const char *text) {
  return answer(list, text, strlen(text));
}

// ---- Names.

#define NAME(name, block, field) #name,
static const char *const function_names[] = {PJ_FUNCTIONS(NAME)};
#undef NAME

int function_named(const char *name, size_t size) {
  if (size > 5 && strncmp(name, "PJRT_", 5) == 0) {
    name += 5;
    size -= 5;
  }
  for (int i = 0; i < pj_fn_count; i++)
    if (strlen(function_names[i]) == size &&
        strncmp(function_names[i], name, size) == 0)
      return i;
  return -1;
}

static int code_named(const char *name, size_t size) {
#define NAME(name) [PJRT_Error_Code_##name] = #name
  static const char *const names[] = {
      NAME(OK), NAME(CANCELLED), NAME(UNKNOWN), NAME(INVALID_ARGUMENT),
      NAME(DEADLINE_EXCEEDED), NAME(NOT_FOUND), NAME(ALREADY_EXISTS),
      NAME(PERMISSION_DENIED), NAME(RESOURCE_EXHAUSTED),
      NAME(FAILED_PRECONDITION), NAME(ABORTED), NAME(OUT_OF_RANGE),
      NAME(UNIMPLEMENTED), NAME(INTERNAL), NAME(UNAVAILABLE), NAME(DATA_LOSS),
      NAME(UNAUTHENTICATED)};
#undef NAME
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strlen(names[i]) == size && strncmp(names[i], name, size) == 0)
      return i;
  return -1;
}

// ---- Faults.

// What of a call a fault concerns.
typedef enum { THE_CALL, ITS_EVENT, ITS_BUFFERS } Part;

typedef struct {
  int fn;
  Part part;
  long left;  // calls until it fires
  int code;
  char message[128];
} Fault;

enum { MAX_FAULTS = 64 };
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static Fault faults[MAX_FAULTS];
static int num_faults;
static atomic_int armed;  // num_faults, readable without the lock

static bool parse_fault(const char *s, size_t size, Fault *f) {
  const char *end = s + size;
  const char *colon = memchr(s, ':', size);
  if (colon == NULL) return false;
  size_t name = strcspn(s, "@:");  // the colon ends it at the latest
  size_t suffix = (size_t)(colon - s) - name;
  if (suffix == 0)
    f->part = THE_CALL;
  else if (suffix == 6 && strncmp(colon - 6, "@event", 6) == 0)
    f->part = ITS_EVENT;
  else if (suffix == 8 && strncmp(colon - 8, "@deleted", 8) == 0)
    f->part = ITS_BUFFERS;
  else
    return false;
  f->fn = function_named(s, name);
  char *after = NULL;
  f->left = strtol(colon + 1, &after, 10);
  if (f->fn < 0 || after == colon + 1 || f->left < 1) return false;
  if (f->part == ITS_BUFFERS) {  // their users say what is wrong
    bool makes = f->fn == pj_fn_LoadedExecutable_Execute ||
                 f->fn == pj_fn_Client_BufferFromHostBuffer;
    return makes && after == end;
  }
  if (*after != ':') return false;
  const char *code = after + 1;
  const char *stop = memchr(code, ':', (size_t)(end - code));
  f->code = code_named(code, (size_t)((stop == NULL ? end : stop) - code));
  if (f->code <= PJRT_Error_Code_OK) return false;
  if (stop == NULL)
    snprintf(f->message, sizeof f->message, "injected fault in %s",
             function_names[f->fn]);
  else
    snprintf(f->message, sizeof f->message, "%.*s", (int)(end - stop - 1),
             stop + 1);
  return true;
}

bool arm(const char *s) {
  while (*s != 0) {
    size_t size = strcspn(s, ",");
    Fault f;
    if (!parse_fault(s, size, &f)) return false;
    pthread_mutex_lock(&fault_lock);
    bool room = num_faults < MAX_FAULTS;
    if (room) faults[num_faults++] = f;
    atomic_store(&armed, num_faults);
    pthread_mutex_unlock(&fault_lock);
    if (!room) return false;
    s += size + (s[size] == ',');
  }
  return true;
}

// Counts one call of fn towards its faults; true and the fault if one fires.
static bool fires(int fn, Part part, Fault *out) {
  bool fired = false;
  pthread_mutex_lock(&fault_lock);
  for (int i = 0; i < num_faults; i++) {
    Fault *f = &faults[i];
    if (f->fn != fn || f->part != part || --f->left > 0) continue;
    *out = *f;
    fired = true;
    faults[i--] = faults[--num_faults];
  }
  atomic_store(&armed, num_faults);
  pthread_mutex_unlock(&fault_lock);
  return fired;
}

bool event_fault(int fn, int *code, char *message, size_t size) {
  Fault f;
  if (atomic_load_explicit(&armed, memory_order_relaxed) == 0 ||
      !fires(fn, ITS_EVENT, &f))
    return false;
  *code = f.code;
  snprintf(message, size, "%s", f.message);
  return true;
}

bool deleted_fault(int fn) {
  Fault f;
  return atomic_load_explicit(&armed, memory_order_relaxed) != 0 &&
         fires(fn, ITS_BUFFERS, &f);
}

// ---- Trace.

static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool tracing;
static int32_t *trace;
static size_t trace_size, trace_room;

static void record(int fn) {
  pthread_mutex_lock(&trace_lock);
  if (trace_size == trace_room) {
    trace_room = trace_room == 0 ? 256 : 2 * trace_room;
    trace = realloc(trace, trace_room * sizeof *trace);
    if (trace == NULL) abort();
  }
  trace[trace_size++] = fn;
  pthread_mutex_unlock(&trace_lock);
}

static bool destroys(int fn) {
  switch (fn) {
    case pj_fn_Event_Destroy:
    case pj_fn_Client_Destroy:
    case pj_fn_Executable_Destroy:
    case pj_fn_LoadedExecutable_Destroy:
    case pj_fn_Buffer_Destroy:
      return true;
  }
  return false;
}

static size_t growth;

void grow(size_t bytes) { growth = bytes; }

bool grown(const void *block, size_t size) {
  const pj_nothing *head = block;
  if (head->struct_size < size + growth) return false;
  for (size_t i = size; i < size + growth; i++)
    if (((const char *)block)[i] != 0) return false;
  return true;
}

pj_error enter(int fn, const void *block, size_t size, pj_error *after) {
  if (atomic_load_explicit(&tracing, memory_order_relaxed)) record(fn);
  const pj_nothing *head = block;
  if (head == NULL || !grown(block, size)) {
    count(VIOLATIONS, 1);
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "%s: struct_size %zu, need %zu with zeros behind %zu",
                function_names[fn], head == NULL ? 0 : head->struct_size,
                size + growth, size);
  }
  Fault f;
  if (atomic_load_explicit(&armed, memory_order_relaxed) == 0 ||
      !fires(fn, THE_CALL, &f))
    return 0;
  pj_error error = fail(f.code, "%s", f.message);
  if (!destroys(fn)) return error;
  *after = error;
  return 0;
}

// ---- What tests read and set.

EXPORT void null_live(int64_t *out) {
  for (int i = 0; i < LIVE_COUNT; i++) out[i] = atomic_load(&live[i]);
  clients_count(out);
}

EXPORT int null_arm(const char *specification) { return arm(specification); }

EXPORT int null_armed(void) { return atomic_load(&armed); }

EXPORT void null_disarm(void) {
  pthread_mutex_lock(&fault_lock);
  num_faults = 0;
  atomic_store(&armed, 0);
  pthread_mutex_unlock(&fault_lock);
}

EXPORT int null_function_count(void) { return pj_fn_count; }
EXPORT const char *null_function_name(int fn) { return function_names[fn]; }

// Starts a new trace, or stops and keeps the one there is.
EXPORT void null_trace(int on) {
  pthread_mutex_lock(&trace_lock);
  if (on) trace_size = 0;
  atomic_store(&tracing, on != 0);
  pthread_mutex_unlock(&trace_lock);
}

// The size of the trace; copies up to max numbers of functions.
EXPORT size_t null_trace_read(int32_t *out, size_t max) {
  pthread_mutex_lock(&trace_lock);
  size_t n = trace_size;
  for (size_t i = 0; i < n && i < max; i++) out[i] = trace[i];
  pthread_mutex_unlock(&trace_lock);
  return n;
}
