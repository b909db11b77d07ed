// Execution, with donation.
#include <stdlib.h>
#include <string.h>

#include "null.h"

// One device's part of an execution. The arrays follow the structure.
typedef struct {
  Task task;
  Client *client;
  Compiled *compiled;
  int num_args, num_outs;
  Data **args, **outs;
  Event **needs;         // of each argument, null if it is there
  Event *made, *done;    // the outputs, the device; may be null
  uint8_t **in, **out;   // room for the addresses
  bool deleted;          // an injected deletion of the outputs
  int code;              // an injected failure
  char message[128];
} Run;

static Run *new_run(Client *client, Compiled *c) {
  size_t n = (size_t)c->program->num_parameters;
  size_t m = (size_t)c->program->num_results;
  Run *r = calloc(1, sizeof *r + (3 * n + 2 * m) * sizeof(void *));
  if (r == NULL) abort();
  void **next = (void **)(r + 1);
  r->client = client;
  r->compiled = c;
  atomic_fetch_add(&c->refs, 1);
  r->num_args = (int)n;
  r->num_outs = (int)m;
  r->args = (Data **)next;
  r->needs = (Event **)(next + n);
  r->in = (uint8_t **)(next + 2 * n);
  r->outs = (Data **)(next + 3 * n);
  r->out = (uint8_t **)(next + 3 * n + m);
  return r;
}

static void free_run(Run *r) {
  client_lock(r->client);
  for (int i = 0; i < r->num_args; i++) data_drop(r->args[i]);
  for (int i = 0; i < r->num_outs; i++) data_drop(r->outs[i]);
  client_unlock(r->client);
  for (int i = 0; i < r->num_args; i++) event_drop(r->needs[i]);
  event_drop(r->made);
  event_drop(r->done);
  Compiled *c = r->compiled;
  free(r);
  compiled_drop(c);
}

static void run(Task *task) {
  Run *r = (Run *)task;
  int code = r->code;
  const char *message = r->message;
  for (int i = 0; i < r->num_args; i++) {
    if (r->needs[i] == NULL) continue;
    event_wait(r->needs[i]);
    if (code == PJRT_Error_Code_OK && r->needs[i]->code != PJRT_Error_Code_OK) {
      code = r->needs[i]->code;
      message = r->needs[i]->message;
    }
  }
  if (code == PJRT_Error_Code_OK) {
    for (int i = 0; i < r->num_args; i++) r->in[i] = r->args[i]->bytes;
    for (int i = 0; i < r->num_outs; i++) r->out[i] = r->outs[i]->bytes;
    program_run(r->compiled->program, r->in, r->out);
  }
  if (r->made != NULL) event_set(r->made, code, message);
  if (r->done != NULL) event_set(r->done, code, message);
  free_run(r);
}

static bool may_donate(const PJRT_ExecuteOptions *o, const Program *p, int i) {
  if (p->alias[i] < 0 && !p->donor[i]) return false;
  for (size_t k = 0; k < o->num_non_donatable_input_indices; k++)
    if (o->non_donatable_input_indices[k] == i) return false;
  return true;
}

// Holds an argument for the execution, and checks it against its parameter.
static pj_error take_argument(const Program *p, Device *device, Buffer *b,
                              int i, bool donate, Run *r) {
  const Shape *s = &p->values[i].shape;
  bool same = b->type == s->type && b->num_dims == s->num_dims;
  for (size_t d = 0; same && d < s->num_dims; d++)
    same = b->dims[d] == s->dims[d];
  if (!same)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "argument %d does not have its parameter's shape", i);
  if (b->device != device)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "argument %d is on device %d, the program runs on %d", i,
                b->device->id, device->id);
  if (b->data == NULL)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "argument %d has been deleted or donated", i);
  r->args[i] = data_keep(b->data);
  r->needs[i] = event_keep_unless_good(b->ready);
  if (donate && b->external > 0)
    return fail(PJRT_Error_Code_FAILED_PRECONDITION,
                "argument %d is donated but has external references", i);
  return 0;
}

// A buffer may be donated once, and not be another argument as well. Each
// execution marks what it donates with a number of its own.
static pj_error check_donations(PJRT_Buffer *const *args, const bool *donate,
                                int n) {
  static atomic_ullong numbers;
  unsigned long long own = atomic_fetch_add(&numbers, 1) + 1;
  for (int i = 0; i < n; i++) {
    Buffer *b = (Buffer *)args[i];
    if (donate[i] && b->mark == own)
      return fail(PJRT_Error_Code_INVALID_ARGUMENT, "argument %d is donated twice", i);
    if (donate[i]) b->mark = own;
  }
  for (int i = 0; i < n; i++)
    if (!donate[i] && ((Buffer *)args[i])->mark == own)
      return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument %d is donated as another argument", i);
  return 0;
}

static pj_error take_arguments(const PJRT_LoadedExecutable_Execute_Args *a, const Program *p,
                               Device *device, PJRT_Buffer *const *args,
                               bool *donate, Run *r) {
  bool any = false;
  for (int i = 0; i < p->num_parameters; i++) {
    donate[i] = may_donate(a->options, p, i);
    any |= donate[i];
    pj_error error = take_argument(p, device, (Buffer *)args[i], i, donate[i], r);
    if (error != 0) return error;
  }
  return any ? check_donations(args, donate, p->num_parameters) : 0;
}

// Memory for the outputs: a donated argument's, else new.
static pj_error take_outputs(const Program *p, Device *device,
                             const bool *donate, Run *r) {
  for (int i = 0; i < p->num_parameters; i++)
    if (donate[i] && p->alias[i] >= 0 && r->outs[p->alias[i]] == NULL &&
        !r->args[i]->borrowed)
      r->outs[p->alias[i]] = data_keep(r->args[i]);
  for (int o = 0; o < p->num_results; o++) {
    if (r->outs[o] != NULL) continue;
    pj_error error = 0;
    r->outs[o] = data_new(device, p->values[p->results[o]].shape.bytes, &error);
    if (r->outs[o] == NULL) return error;
  }
  return 0;
}

// Donated arguments lose their memory when the execution is accepted.
static void give_up(PJRT_Buffer *const *args, const bool *donate, int n) {
  for (int i = 0; i < n; i++)
    if (donate[i]) buffer_forget((Buffer *)args[i]);
}

// The device of one part: its own, or the one that the call names.
static Device *device_of(const PJRT_LoadedExecutable_Execute_Args *a, const Loaded *x, size_t d) {
  return a->execute_device != NULL ? (Device *)a->execute_device : x->devices[d];
}

static pj_error prepare(const PJRT_LoadedExecutable_Execute_Args *a, Loaded *x, size_t d, bool *donate,
                        Run **out) {
  Device *device = device_of(a, x, d);
  const Program *p = x->compiled->program;
  Run *r = *out = new_run(x->client, x->compiled);
  r->task.run = run;
  client_lock(x->client);
  pj_error error = take_arguments(a, p, device, a->argument_lists[d],
                                  donate, r);
  if (error == 0) error = take_outputs(p, device, donate, r);
  client_unlock(x->client);
  return error;
}

// Starts one device's part; nothing can fail any more.
static void start(const PJRT_LoadedExecutable_Execute_Args *a, Loaded *x, size_t d, const bool *donate,
                  Run *r) {
  Device *device = device_of(a, x, d);
  const Program *p = x->compiled->program;
  bool late = x->client->delay_us > 0 || r->code != PJRT_Error_Code_OK;
  for (int i = 0; i < r->num_args && !late; i++)
    late = r->needs[i] != NULL;
  if (late) r->made = event_new();
  client_lock(x->client);
  for (int o = 0; o < p->num_results; o++) {
    const Shape *s = &p->values[p->results[o]].shape;
    Buffer *b = buffer_new(device, device->memories[0], s->type, s->dims,
                           s->num_dims, data_keep(r->outs[o]),
                           event_keep(r->made));
    if (r->deleted) buffer_forget(b);
    a->output_lists[d][o] = (PJRT_Buffer *)b;
  }
  give_up(a->argument_lists[d], donate, p->num_parameters);
  client_unlock(x->client);
  if (a->device_complete_events != NULL) {
    r->done = event_new();
    a->device_complete_events[d] = (PJRT_Event *)event_keep(r->done);
  }
  client_enqueue(x->client, &r->task);
}

pj_error null_LoadedExecutable_Execute(void *block) {
  PJRT_LoadedExecutable_Execute_Args *a = block;
  Loaded *x = (Loaded *)a->executable;
  const Program *p = x->compiled->program;
  if (!grown(a->options, sizeof *a->options))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the options' block is too short");
  if (atomic_load(&x->deleted))
    return fail(PJRT_Error_Code_FAILED_PRECONDITION, "the executable is deleted");
  size_t n = a->execute_device != NULL ? 1 : x->num_devices;
  if (a->num_devices != n || n == 0 ||
      a->num_args != (size_t)p->num_parameters)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "%zu arguments on %zu devices; %d on %zu are needed",
                a->num_args, a->num_devices, p->num_parameters, n);
  size_t width = a->num_args + 1;
  Run **runs = calloc(n + 1, sizeof *runs);
  bool *donate = calloc(n * width + 1, sizeof *donate);
  if (runs == NULL || donate == NULL) abort();
  pj_error error = 0;
  for (size_t d = 0; d < n && error == 0; d++)
    error = prepare(a, x, d, donate + d * width, &runs[d]);
  int code = PJRT_Error_Code_OK;
  char message[128];
  bool faulty = error == 0 && event_fault(pj_fn_LoadedExecutable_Execute, &code,
                                          message, sizeof message);
  bool gone = error == 0 && deleted_fault(pj_fn_LoadedExecutable_Execute);
  for (size_t d = 0; d < n; d++) {
    if (error != 0) {
      if (runs[d] != NULL) free_run(runs[d]);
      continue;
    }
    runs[d]->deleted = gone;
    if (faulty) {
      runs[d]->code = code;
      memcpy(runs[d]->message, message, sizeof message);
    }
    start(a, x, d, donate + d * width, runs[d]);
  }
  free(donate);
  free(runs);
  return error;
}
