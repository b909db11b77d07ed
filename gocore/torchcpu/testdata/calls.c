/* Calls the handlers as no lowering does, and expects each call to be refused before torch's kernels, which are not loaded
 * here, are called: one that is not refused calls a null pointer. */
#include "../handlers.c"

#include <stdio.h>

static const char *refused;

static ffi_error *note(ffi_error_create *args) {
  refused = args->message;
  return (ffi_error *)&refused;
}

enum { MANY = 80 };
static int64_t ones[MANY], data[MANY * MANY];
static ffi_buffer buffers[2 * MANY];
static ffi_buffer *operands_of_call[MANY], *results_of_call[MANY];
static ffi_api api = {.XLA_FFI_Error_Create = note};

static ffi_buffer *array(int i, int dtype, int64_t rank) {
  buffers[i] = (ffi_buffer){.dtype = dtype, .data = data, .rank = rank, .dims = ones};
  return &buffers[i];
}

static int run(const struct torch_target *t, const char *what, ffi_frame *f) {
  refused = NULL;
  f->api = &api;
  f->stage = FFI_STAGE_EXECUTE;
  f->args.args = operands_of_call;
  f->rets.rets = results_of_call;
  if (((ffi_handler *)t->handler)(f) != NULL && refused != NULL) return 0;
  printf("%s: not refused: %s\n", t->name, what);
  return 1;
}

int main(void) {
  int bad = 0, tries = 0;
  for (int i = 0; i < MANY; i++) ones[i] = 1;
  for (const struct torch_target *t = torch_targets; t->name != NULL; t++) {
    for (int args = 0; args < MANY; args += args < 5 ? 1 : 25)
      for (int rets = 0; rets < MANY; rets += rets < 5 ? 1 : 25)
        for (int64_t rank = 0; rank < MANY; rank += rank < 7 ? 1 : 24)
          for (int dtype = 0; dtype < 20; dtype++, tries++) {
            for (int i = 0; i < args; i++) operands_of_call[i] = array(i, dtype, rank);
            for (int i = 0; i < rets; i++) results_of_call[i] = array(MANY + i, FFI_S32 == dtype ? FFI_F32 : FFI_S32, rank);
            ffi_frame f = {.args.size = args, .rets.size = rets}; /* no attribute, and results of a wrong type */
            bad += run(t, "arity, rank or type", &f);
          }
  }
  /* The places of a max pooling's gradient, and the pivots of a solve, are values of the program. */
  int64_t plane[] = {1, 2, 4}, factors[] = {4, 4}, two[] = {1, 1}, zero = 0;
  ffi_array windows = {.dtype = FFI_S64, .size = 2, .data = two};
  ffi_scalar number_of_call = {.dtype = FFI_S64, .value = &zero};
  ffi_span names[] = {{"stride", 6}, {"padding", 7}, {"dilation", 8}, {"kernel", 6}, {"ceil", 4}, {"hermitian", 9}};
  ffi_span *name[] = {&names[0], &names[1], &names[2], &names[3], &names[4], &names[5]};
  void *attrs[] = {&windows, &windows, &windows, &windows, &number_of_call, &number_of_call};
  int types[] = {FFI_ATTR_ARRAY, FFI_ATTR_ARRAY, FFI_ATTR_ARRAY, FFI_ATTR_ARRAY, FFI_ATTR_SCALAR, FFI_ATTR_SCALAR};
  ffi_frame f = {.args.size = 2, .rets.size = 1, .attrs = {.size = 6, .types = types, .names = name, .attrs = attrs}};
  const int64_t places[] = {8, -1, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 4; i++, tries++) {
    memset(data, 0, sizeof data);
    data[7] = places[i];
    operands_of_call[0] = array(0, FFI_F32, 3);
    operands_of_call[1] = array(1, FFI_S64, 3);
    results_of_call[0] = array(2, FFI_F32, 3);
    for (int b = 0; b < 3; b++) buffers[b].dims = plane;
    bad += run(&torch_targets[3], "places", &f);
  }
  const int32_t pivots[][4] = {{1, 2, 3, 0}, {1, 2, 3, 5}, {1, 2, 3, -4}, {-1, 2, 3, 4}, {1, -1, -9, 4}};
  f.args.size = 3;
  for (int i = 0; i < 5; i++, tries++) {
    operands_of_call[0] = array(0, FFI_F64, 2);
    operands_of_call[1] = array(1, FFI_S32, 1);
    operands_of_call[2] = array(2, FFI_F64, 2);
    results_of_call[0] = array(3, FFI_F64, 2);
    for (int b = 0; b < 4; b++) buffers[b].dims = factors;
    buffers[1].data = (void *)pivots[i];
    bad += run(&torch_targets[7], "pivots", &f);
  }
  printf("%d calls, %d not refused\n", tries, bad);
  return bad != 0;
}
