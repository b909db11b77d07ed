/* The handler of XLA's typed custom calls that runs torch's ops. A call's attributes are
 *   op       the name of a row of the table
 *   args     the arguments, encoded (see torch.h)
 *   results  which of the op's results the call has, if not all; in ascending order
 *   orders   for each operand, then each result: dimension i of the array is dimension order[i] of the buffer; without it all
 *            are dense
 * Programs may come from strangers: everything is checked, and what does not fit is an error of the program. */
#include <stdio.h>
#include <string.h>

#include "ffi.h"
#include "torch.h"

static ffi_error *fail(const ffi_frame *f, const char *message) {
  ffi_error_create args = {.struct_size = sizeof args, .message = message, .errc = FFI_INTERNAL};
  return f->api->XLA_FFI_Error_Create(&args);
}

/* The attribute of this name and type; NULL if there is none. */
static const void *attribute(const ffi_frame *f, const char *name, int type) {
  size_t len = strlen(name);
  for (int64_t i = 0; i < f->attrs.size; i++)
    if (f->attrs.types[i] == type && f->attrs.names[i]->len == len && memcmp(f->attrs.names[i]->ptr, name, len) == 0)
      return f->attrs.attrs[i];
  return NULL;
}

/* An attribute that is a list of i64; NULL if there is none. */
static const ffi_array *numbers(const ffi_frame *f, const char *name) {
  const ffi_array *a = attribute(f, name, FFI_ATTR_ARRAY);
  return a == NULL || a->dtype != FFI_S64 ? NULL : a;
}

/* The c10::ScalarType of an element type of XLA; −1 for one that torch's kernels are not called with. */
static int32_t scalar_type(int type) {
  static const int32_t types[] = {
      [FFI_PRED] = 11 + 1, [FFI_S8] = 1 + 1,   [FFI_S16] = 2 + 1,  [FFI_S32] = 3 + 1,  [FFI_S64] = 4 + 1,
      [FFI_U8] = 0 + 1,    [FFI_F16] = 5 + 1,  [FFI_F32] = 6 + 1,  [FFI_F64] = 7 + 1,  [FFI_C64] = 9 + 1,
      [FFI_BF16] = 15 + 1, [FFI_C128] = 10 + 1,
  }; /* each one more than the number, so that what is not listed is 0 */
  return type >= 0 && type < (int)(sizeof types / sizeof *types) ? types[type] - 1 : -1;
}

/* The buffers of custom calls are dense, the last dimension varying fastest. */
static bool arrays(ffi_buffer **buffers, int64_t count, struct torch_array *out) {
  for (int64_t i = 0; i < count; i++) {
    const ffi_buffer *b = buffers[i];
    out[i] = (struct torch_array){.data = b->data, .dims = b->dims, .rank = (int32_t)b->rank, .type = scalar_type(b->dtype)};
    if (out[i].type < 0 || b->rank < 0 || b->rank > TORCH_MOST_RANK) return false;
  }
  return true;
}

enum { ORDERED_RANK = 8 };

struct place {
  int64_t dims[ORDERED_RANK], strides[ORDERED_RANK];
};

/* Gives each array the dimensions and strides that its order says; false if the numbers are not permutations. */
static bool ordered(struct torch_array *arrays, int64_t count, const int64_t **at, const int64_t *end, struct place *places) {
  for (int64_t k = 0; k < count; k++, places++) {
    struct torch_array *a = &arrays[k];
    int64_t steps[ORDERED_RANK], step = 1;
    unsigned seen = 0;
    if (a->rank > ORDERED_RANK || end - *at < a->rank) return false;
    for (int i = a->rank - 1; i >= 0; i--) {
      steps[i] = step;
      step *= a->dims[i];
    }
    for (int i = 0; i < a->rank; i++) {
      int64_t from = *(*at)++;
      if (from < 0 || from >= a->rank || (seen & 1u << from) != 0) return false;
      seen |= 1u << from;
      places->dims[i] = a->dims[from];
      places->strides[i] = steps[from];
    }
    a->dims = places->dims;
    a->strides = places->strides;
  }
  return true;
}

static ffi_error *run(ffi_frame *f) {
  struct torch_array in[TORCH_MOST], out[TORCH_MOST];
  struct torch_call call = {.in = in, .out = out, .in_count = f->args.size, .out_count = f->rets.size};
  const ffi_span *name = attribute(f, "op", FFI_ATTR_STRING);
  const ffi_array *args = numbers(f, "args"), *which = numbers(f, "results"), *orders = numbers(f, "orders");
  struct place places[2 * TORCH_MOST];
  if (name == NULL || args == NULL) return fail(f, "torch_op: a call has the attributes op, a string, and args, numbers of 64 bits");
  if ((call.op = torch_find(name->ptr, name->len)) == NULL) {
    snprintf(call.message, sizeof call.message, "torch_op: %.*s is not an op that programs may call", (int)(name->len < 100 ? name->len : 100), name->ptr);
    return fail(f, call.message);
  }
  if (call.in_count > TORCH_MOST || call.out_count > TORCH_MOST || !arrays(f->args.args, call.in_count, in) ||
      !arrays(f->rets.rets, call.out_count, out))
    return fail(f, "torch_op: too many operands or dimensions, or a type that torch's kernels do not have");
  if (orders != NULL) {
    const int64_t *at = orders->data, *end = at + orders->size;
    if (!ordered(in, call.in_count, &at, end, places) || !ordered(out, call.out_count, &at, end, places + call.in_count) || at != end)
      return fail(f, "torch_op: orders are not permutations of each array's dimensions");
  }
  call.words = args->data;
  call.word_count = (int64_t)args->size;
  if (which != NULL) {
    if ((int64_t)which->size != call.out_count) return fail(f, "torch_op: results does not name each result");
    call.which = which->data;
  }
  return torch_run_apart(&call) ? NULL : fail(f, call.message);
}

static ffi_error *handle(ffi_frame *f) {
  if (f->extension_start != NULL && f->extension_start->type == FFI_EXTENSION_METADATA) {
    ffi_metadata *m = ((ffi_metadata_extension *)f->extension_start)->metadata;
    m->api_version.major_version = FFI_MAJOR;
    m->api_version.minor_version = FFI_MINOR;
    m->traits = 0;
    return NULL;
  }
  return f->stage == FFI_STAGE_EXECUTE ? run(f) : NULL;
}

void *const torch_handler = (void *)handle;
