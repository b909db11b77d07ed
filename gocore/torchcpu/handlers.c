/* Handlers of XLA's typed custom calls whose bodies are torch's CPU kernels. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi.h"
#include "torch.h"

struct torch_functions torch;

const char *torch_load(const char *path) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return path;
#define X(ret, name, args) \
  if ((*(void **)&torch.name = dlsym(library, #name)) == NULL) return #name;
  TORCH_FUNCTIONS(X)
#undef X
  return NULL;
}

/* ---- one thread for all of torch's kernels ----
 *
 * XLA calls handlers on any thread of its pool. OpenMP, which torch's kernels compute with, keeps a team of threads for each
 * thread that ever called it: with as many callers as cores that is the square of the cores. So one thread of ours calls them, one
 * kernel at a time, each of which uses all cores. */

typedef int kernel(const ffi_frame *); /* 0, or what torch's function returned */

struct job {
  kernel *run;
  const ffi_frame *frame;
  bool done;
  int status;
  char message[1024];
  struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static bool started;

static void *serve(void *unused) {
  (void)unused;
  torch.aoti_torch_grad_mode_set_enabled(false);
  pthread_mutex_lock(&lock);
  for (;;) {
    while (first == NULL) pthread_cond_wait(&work, &lock);
    struct job *j = first;
    if ((first = j->next) == NULL) last = &first;
    pthread_mutex_unlock(&lock);
    j->status = j->run(j->frame);
    if (j->status != 0) snprintf(j->message, sizeof j->message, "%s", torch.torch_exception_get_what_without_backtrace());
    pthread_mutex_lock(&lock);
    j->done = true;
    pthread_cond_broadcast(&finished);
  }
  return NULL;
}

/* glibc gives the top of a heap back to the system when it is longer than twice the longest block that was ever mapped on its
 * own and freed, up to this one. Torch's kernels free what they return and what they compute with at once: without this, each
 * call of a kernel may fill fresh pages. No page of the block is touched. */
static void keep_freed_memory(void) {
  enum { LONGEST = 32 << 20 /* DEFAULT_MMAP_THRESHOLD_MAX of malloc.c */, HEADER = 1 << 16 };
  void *volatile block = malloc(LONGEST - HEADER); /* volatile: or the compiler leaves both calls out */
  free(block);
}

static const char *start(void) {
  if (started) return NULL;
  pthread_t thread;
  keep_freed_memory();
  if (pthread_create(&thread, NULL, serve, NULL) != 0) return "no thread for torch's kernels";
  pthread_detach(thread);
  started = true;
  return NULL;
}

static ffi_error *fail(const ffi_frame *f, const char *message) {
  ffi_error_create args = {.struct_size = sizeof args, .message = message, .errc = FFI_INTERNAL};
  return f->api->XLA_FFI_Error_Create(&args);
}

static ffi_error *handle(ffi_frame *f, kernel *run) {
  if (f->extension_start != NULL && f->extension_start->type == FFI_EXTENSION_METADATA) {
    ffi_metadata *m = ((ffi_metadata_extension *)f->extension_start)->metadata;
    m->api_version.major_version = FFI_MAJOR;
    m->api_version.minor_version = FFI_MINOR;
    m->traits = 0;
    return NULL;
  }
  if (f->stage != FFI_STAGE_EXECUTE) return NULL;
  struct job j = {.run = run, .frame = f};
  pthread_mutex_lock(&lock);
  const char *cause = start();
  if (cause == NULL) {
    *last = &j;
    last = &j.next;
    pthread_cond_signal(&work);
    while (!j.done) pthread_cond_wait(&finished, &lock);
  }
  pthread_mutex_unlock(&lock);
  if (cause != NULL) return fail(f, cause);
  return j.status == 0 ? NULL : fail(f, j.message);
}

/* ---- arguments ---- */

/* The attribute of this name; the lowering writes every one that a handler asks for. */
static void *attribute(const ffi_frame *f, const char *name) {
  size_t len = strlen(name);
  for (int64_t i = 0; i < f->attrs.size; i++)
    if (f->attrs.names[i]->len == len && memcmp(f->attrs.names[i]->ptr, name, len) == 0) return f->attrs.attrs[i];
  return NULL;
}

static int64_t number(const ffi_frame *f, const char *name) {
  const ffi_scalar *s = attribute(f, name);
  return s == NULL ? 0 : *(const int64_t *)s->value;
}

struct list {
  const int64_t *items;
  int64_t count;
};

static struct list numbers(const ffi_frame *f, const char *name) {
  const ffi_array *a = attribute(f, name);
  return a == NULL ? (struct list){NULL, 0} : (struct list){a->data, (int64_t)a->size};
}

/* A tensor over a buffer's memory. The buffers of custom calls are dense, the last dimension varying fastest. */
static int tensor_of(const ffi_buffer *b, torch_tensor *out) {
  int64_t strides[16], step = 1;
  for (int64_t i = b->rank - 1; i >= 0; i--) {
    strides[i] = step;
    step *= b->dims[i];
  }
  int32_t type = b->dtype == FFI_F32    ? torch.aoti_torch_dtype_float32()
                 : b->dtype == FFI_BF16 ? torch.aoti_torch_dtype_bfloat16()
                 : b->dtype == FFI_F16  ? torch.aoti_torch_dtype_float16()
                 : b->dtype == FFI_F64  ? torch.aoti_torch_dtype_float64()
                 : b->dtype == FFI_C64  ? torch.aoti_torch_dtype_complex64()
                 : b->dtype == FFI_C128 ? torch.aoti_torch_dtype_complex128()
                 : b->dtype == FFI_S32  ? torch.aoti_torch_dtype_int32()
                                        : torch.aoti_torch_dtype_int64();
  return torch.aoti_torch_create_tensor_from_blob(b->data, b->rank, b->dims, strides, 0, type, torch.aoti_torch_device_type_cpu(), 0, out);
}

/* The operands as tensors; what could not be made is NULL. */
static int operands(const ffi_frame *f, torch_tensor *out) {
  for (int64_t i = 0; i < f->args.size; i++) {
    int status = tensor_of(f->args.args[i], &out[i]);
    if (status != 0) return status;
  }
  return 0;
}

/* Copies a kernel's result to result k of the call. */
static int give(const ffi_frame *f, int64_t k, torch_tensor value) {
  torch_tensor to;
  int status = tensor_of(f->rets.rets[k], &to);
  if (status != 0) return status;
  status = torch.aoti_torch_copy_(to, value, 0);
  torch.aoti_torch_delete_tensor_object(to);
  return status;
}

static void drop(torch_tensor *tensors, int count) {
  for (int i = 0; i < count; i++)
    if (tensors[i] != NULL) torch.aoti_torch_delete_tensor_object(tensors[i]);
}

/* ---- the kernels ---- */

/* (input, kernel[, bias]) -> output */
static int convolution(const ffi_frame *f) {
  struct list stride = numbers(f, "stride"), padding = numbers(f, "padding"), dilation = numbers(f, "dilation"),
              outputs = numbers(f, "output_padding");
  torch_tensor in[3] = {0}, out = NULL;
  int status = operands(f, in);
  if (status == 0)
    status = torch.aoti_torch_cpu_convolution(in[0], in[1], in[2] != NULL ? &in[2] : NULL, stride.items, stride.count, padding.items,
                                              padding.count, dilation.items, dilation.count, (int32_t)number(f, "transposed"),
                                              outputs.items, outputs.count, number(f, "groups"), &out);
  if (status == 0) status = give(f, 0, out);
  drop(&out, 1);
  drop(in, 3);
  return status;
}

/* (gradient, input, kernel) -> those of the gradients by input, kernel and bias that the mask asks for */
static int convolution_backward(const ffi_frame *f) {
  struct list stride = numbers(f, "stride"), padding = numbers(f, "padding"), dilation = numbers(f, "dilation"),
              outputs = numbers(f, "output_padding"), asked = numbers(f, "mask");
  int32_t mask[3] = {0};
  for (int i = 0; i < 3 && i < asked.count; i++) mask[i] = asked.items[i] != 0;
  int64_t channels = f->args.args[0]->dims[1];
  const int64_t *bias = &channels;
  torch_tensor in[3] = {0}, out[3] = {0};
  int status = operands(f, in);
  if (status == 0)
    status = torch.aoti_torch_cpu_convolution_backward(
        in[0], in[1], in[2], mask[2] ? &bias : NULL, mask[2] ? 1 : 0, stride.items, stride.count, padding.items, padding.count,
        dilation.items, dilation.count, (int32_t)number(f, "transposed"), outputs.items, outputs.count, number(f, "groups"), mask, 3,
        &out[0], &out[1], &out[2]);
  for (int64_t i = 0, k = 0; i < 3; i++)
    if (mask[i] && status == 0) status = give(f, k++, out[i]);
  drop(out, 3);
  drop(in, 3);
  return status;
}

/* (input) -> maxima, their places */
static int max_pool2d(const ffi_frame *f) {
  struct list kernel = numbers(f, "kernel"), stride = numbers(f, "stride"), padding = numbers(f, "padding"),
              dilation = numbers(f, "dilation");
  torch_tensor in = NULL, out[2] = {0};
  int status = operands(f, &in);
  if (status == 0)
    status = torch.aoti_torch_cpu_max_pool2d_with_indices(in, kernel.items, kernel.count, stride.items, stride.count, padding.items,
                                                          padding.count, dilation.items, dilation.count, (int32_t)number(f, "ceil"),
                                                          &out[0], &out[1]);
  for (int64_t k = 0; k < 2 && status == 0; k++) status = give(f, k, out[k]);
  drop(out, 2);
  drop(&in, 1);
  return status;
}

/* (gradient, places) -> gradient by the input. Of the input the kernel reads only the shape, which is the result's. */
static int max_pool2d_backward(const ffi_frame *f) {
  struct list kernel = numbers(f, "kernel"), stride = numbers(f, "stride"), padding = numbers(f, "padding"),
              dilation = numbers(f, "dilation");
  torch_tensor in[2] = {0}, input = NULL, out = NULL;
  int status = operands(f, in);
  if (status == 0) status = tensor_of(f->rets.rets[0], &input);
  if (status == 0)
    status = torch.aoti_torch_cpu_max_pool2d_with_indices_backward(in[0], input, kernel.items, kernel.count, stride.items, stride.count,
                                                                   padding.items, padding.count, dilation.items, dilation.count,
                                                                   (int32_t)number(f, "ceil"), in[1], &out);
  if (status == 0) status = give(f, 0, out);
  drop(&out, 1);
  drop(&input, 1);
  drop(in, 2);
  return status;
}

/* An op by name: the operands, then what follows them in the schema (truths), on torch's stack; its results take their place. */
static int op(const ffi_frame *f, const char *name, int count, const bool *truths) {
  enum { MOST = 8 };
  torch_tensor in[MOST] = {0};
  uint64_t stack[MOST] = {0};
  int64_t operand_count = f->args.size;
  int status = operands(f, in);
  if (status != 0) {
    drop(in, MOST);
    return status;
  }
  for (int64_t i = 0; i < operand_count; i++) stack[i] = (uint64_t)(uintptr_t)in[i]; /* the call owns them */
  for (int i = 0; i < count; i++) stack[operand_count + i] = truths[i];
  status = torch.aoti_torch_call_dispatcher(name, "", stack);
  if (status != 0) return status;
  for (int64_t k = 0; k < f->rets.size; k++) {
    torch_tensor out = (torch_tensor)(uintptr_t)stack[k];
    if (status == 0) status = give(f, k, out);
    drop(&out, 1);
  }
  return status;
}

/* (matrices) -> eigenvalues, eigenvectors */
static int linalg_eig(const ffi_frame *f) { return op(f, "aten::linalg_eig", 0, NULL); }

static bool all_finite(const ffi_buffer *b) {
  bool single = b->dtype == FFI_F32 || b->dtype == FFI_C64;
  int64_t count = b->dtype == FFI_C64 || b->dtype == FFI_C128 ? 2 : 1;
  for (int64_t i = 0; i < b->rank; i++) count *= b->dims[i];
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(single ? ((const float *)b->data)[i] : ((const double *)b->data)[i])) return false;
  return true;
}

/* (matrices) -> eigenvalues. LAPACK dies of what is not finite, which linalg_eig refuses and _linalg_eigvals does not. */
static int linalg_eigvals(const ffi_frame *f) {
  return op(f, all_finite(f->args.args[0]) ? "aten::_linalg_eigvals" : "aten::linalg_eig", 0, NULL);
}

/* (matrices) -> factors, pivots, info */
static int linalg_ldl_factor(const ffi_frame *f) {
  bool truths[] = {number(f, "hermitian") != 0, false};
  return op(f, "aten::linalg_ldl_factor_ex", 2, truths);
}

/* (factors, pivots, right sides) -> solutions */
static int linalg_ldl_solve(const ffi_frame *f) {
  bool truths[] = {number(f, "hermitian") != 0};
  return op(f, "aten::linalg_ldl_solve", 1, truths);
}

#define HANDLER(name) \
  static ffi_error *handle_##name(ffi_frame *f) { return handle(f, name); }
HANDLER(convolution)
HANDLER(convolution_backward)
HANDLER(max_pool2d)
HANDLER(max_pool2d_backward)
HANDLER(linalg_eig)
HANDLER(linalg_eigvals)
HANDLER(linalg_ldl_factor)
HANDLER(linalg_ldl_solve)

const struct torch_target torch_targets[] = {
    {"torch_convolution", (void *)handle_convolution},
    {"torch_convolution_backward", (void *)handle_convolution_backward},
    {"torch_max_pool2d", (void *)handle_max_pool2d},
    {"torch_max_pool2d_backward", (void *)handle_max_pool2d_backward},
    {"torch_linalg_eig", (void *)handle_linalg_eig},
    {"torch_linalg_eigvals", (void *)handle_linalg_eigvals},
    {"torch_linalg_ldl_factor", (void *)handle_linalg_ldl_factor},
    {"torch_linalg_ldl_solve", (void *)handle_linalg_ldl_solve},
    {NULL, NULL},
};
