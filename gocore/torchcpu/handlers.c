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

/* ---- arguments ---- */

enum { MOST_RANK = 64 /* of torch's TensorIterator */ };

/* The attribute of this name; what a call must have, its contract holds. */
static int attribute(const ffi_frame *f, const char *name) {
  size_t len = strlen(name);
  for (int64_t i = 0; i < f->attrs.size; i++)
    if (f->attrs.names[i]->len == len && memcmp(f->attrs.names[i]->ptr, name, len) == 0) return (int)i;
  return -1;
}

static int64_t number(const ffi_frame *f, const char *name) {
  int i = attribute(f, name);
  return i < 0 ? 0 : *(const int64_t *)((const ffi_scalar *)f->attrs.attrs[i])->value;
}

struct list {
  const int64_t *items;
  int64_t count;
};

static struct list numbers(const ffi_frame *f, const char *name) {
  int i = attribute(f, name);
  const ffi_array *a = i < 0 ? NULL : f->attrs.attrs[i];
  return a == NULL ? (struct list){NULL, 0} : (struct list){a->data, (int64_t)a->size};
}

/* Torch's number of an element type; -1 for one that no kernel takes. */
static int32_t torch_type(int dtype) {
  switch (dtype) {
    case FFI_F32: return torch.aoti_torch_dtype_float32();
    case FFI_BF16: return torch.aoti_torch_dtype_bfloat16();
    case FFI_F16: return torch.aoti_torch_dtype_float16();
    case FFI_F64: return torch.aoti_torch_dtype_float64();
    case FFI_C64: return torch.aoti_torch_dtype_complex64();
    case FFI_C128: return torch.aoti_torch_dtype_complex128();
    case FFI_S32: return torch.aoti_torch_dtype_int32();
    case FFI_S64: return torch.aoti_torch_dtype_int64();
  }
  return -1;
}

/* A tensor over a buffer's memory. The buffers of custom calls are dense, the last dimension varying fastest. */
static int tensor_of(const ffi_buffer *b, torch_tensor *out) {
  int64_t strides[MOST_RANK], step = 1;
  for (int64_t i = b->rank - 1; i >= 0; i--) {
    strides[i] = step;
    step *= b->dims[i];
  }
  return torch.aoti_torch_create_tensor_from_blob(b->data, b->rank, b->dims, strides, 0, torch_type(b->dtype),
                                                  torch.aoti_torch_device_type_cpu(), 0, out);
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

/* ---- what a call must be ----
 *
 * The values of a program, and a program from elsewhere too, may be anything. Torch's kernels check how sizes fit together; what
 * they take on trust is checked here, before anything of the call is used. */

/* What a target takes. Types are a letter an array: f for a float of a network, m for an element of a matrix, i and l for int32
 * and int64. */
struct contract {
  kernel *run;
  int operands[2], results[2]; /* least and most */
  const char *types, *given;   /* of the operands, of the results */
  int rank[2];            /* of the first operand, least and most */
  const char *lists[5];   /* of int64, one item a spatial dimension */
  const char *numbers[3]; /* int64 */
  const char *(*values)(const ffi_frame *); /* what else is wrong, or NULL */
};

static bool one_of(char kind, int dtype) {
  switch (kind) {
    case 'f': return dtype == FFI_F32 || dtype == FFI_BF16 || dtype == FFI_F16;
    case 'm': return dtype == FFI_F32 || dtype == FFI_F64 || dtype == FFI_C64 || dtype == FFI_C128;
    case 'i': return dtype == FFI_S32;
    default: return kind == 'l' && dtype == FFI_S64;
  }
}

static bool array_fits(const ffi_buffer *b, char kind) { return b->rank >= 0 && b->rank <= MOST_RANK && one_of(kind, b->dtype); }

static bool lists_fit(const ffi_frame *f, const struct contract *c, int64_t spatial) {
  for (int k = 0; c->lists[k] != NULL; k++) {
    int i = attribute(f, c->lists[k]);
    const ffi_array *a = i < 0 || f->attrs.types[i] != FFI_ATTR_ARRAY ? NULL : f->attrs.attrs[i];
    if (a == NULL || a->dtype != FFI_S64 || (int64_t)a->size != spatial) return false;
    for (int64_t j = 0; j < spatial; j++)
      if (((const int64_t *)a->data)[j] < 0 || ((const int64_t *)a->data)[j] > INT32_MAX) return false;
  }
  for (int k = 0; c->numbers[k] != NULL; k++) {
    int i = attribute(f, c->numbers[k]);
    const ffi_scalar *s = i < 0 || f->attrs.types[i] != FFI_ATTR_SCALAR ? NULL : f->attrs.attrs[i];
    if (s == NULL || s->dtype != FFI_S64 || *(const int64_t *)s->value < 0 || *(const int64_t *)s->value > INT32_MAX) return false;
  }
  return true;
}

/* Why a call cannot be run, or NULL. */
static const char *refusal(const ffi_frame *f, const struct contract *c) {
  if (f->args.size < c->operands[0] || f->args.size > c->operands[1]) return "the number of operands is not the kernel's";
  if (f->rets.size < c->results[0] || f->rets.size > c->results[1]) return "the number of results is not the kernel's";
  for (int64_t i = 0; i < f->args.size; i++)
    if (!array_fits(f->args.args[i], c->types[i])) return "an operand is not of a type and rank that the kernel takes";
  for (int64_t i = 0; i < f->rets.size; i++)
    if (!array_fits(f->rets.rets[i], c->given[i])) return "a result is not of a type and rank that the kernel gives";
  int64_t rank = f->args.args[0]->rank;
  if (rank < c->rank[0] || rank > c->rank[1]) return "the first operand is not of a rank that the kernel takes";
  if (!lists_fit(f, c, rank == 3 && c->rank[1] == 4 ? 2 : rank - 2)) return "an attribute is missing, or not what the kernel takes";
  return c->values == NULL ? NULL : c->values(f);
}

static bool same_dims(const ffi_buffer *a, const ffi_buffer *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* The gradient of a convolution has the sizes that the convolution gives, of which oneDNN's kernel is not told. */
static const char *convolution_gradient(const ffi_frame *f) {
  const ffi_buffer *grad = f->args.args[0], *in = f->args.args[1], *kernel = f->args.args[2];
  int i = attribute(f, "mask");
  const ffi_array *mask = i < 0 || f->attrs.types[i] != FFI_ATTR_ARRAY ? NULL : f->attrs.attrs[i];
  if (mask == NULL || mask->dtype != FFI_S64 || mask->size != 3) return "mask is missing, or not three numbers";
  int asked = 0;
  for (int k = 0; k < 3; k++) asked += ((const int64_t *)mask->data)[k] != 0;
  if (asked != f->rets.size) return "mask does not ask for as many gradients as there are results";
  if (in->rank != grad->rank || kernel->rank != grad->rank) return "gradient, input and kernel differ in rank";
  const int64_t *stride = numbers(f, "stride").items, *padding = numbers(f, "padding").items, *dilation = numbers(f, "dilation").items,
                *outputs = numbers(f, "output_padding").items;
  bool transposed = number(f, "transposed") != 0;
  if (grad->dims[0] != in->dims[0] || grad->dims[1] != (transposed ? kernel->dims[1] * number(f, "groups") : kernel->dims[0]))
    return "the gradient is not of the result's shape";
  for (int64_t d = 0; d < grad->rank - 2; d++) {
    if (stride[d] == 0) return "a stride is 0";
    __int128 size = in->dims[d + 2], reach = (__int128)dilation[d] * (kernel->dims[d + 2] - 1), edges = 2 * (__int128)padding[d];
    size = transposed ? (size - 1) * stride[d] - edges + reach + outputs[d] + 1 : (size + edges - reach - 1) / stride[d] + 1;
    if (grad->dims[d + 2] != size) return "the gradient is not of the result's shape";
  }
  return NULL;
}

/* Torch's kernel writes to wherever the places say. */
static const char *pool_gradient(const ffi_frame *f) {
  const ffi_buffer *grad = f->args.args[0], *places = f->args.args[1], *out = f->rets.rets[0];
  if (!same_dims(grad, places) || out->rank != grad->rank) return "gradient, indices and result differ in shape";
  int64_t plane = out->dims[out->rank - 2] * out->dims[out->rank - 1], count = 1;
  for (int64_t i = 0; i < places->rank; i++) count *= places->dims[i];
  const uint64_t *at = places->data;
  bool outside = false;
  for (int64_t i = 0; i < count; i++) outside |= at[i] >= (uint64_t)plane; /* without a branch: the compiler makes vectors of it */
  return outside ? "max_pool2d_with_indices_backward: an index is out of range of the input's plane" : NULL;
}

/* LAPACK swaps the rows that pivots name, counted from 1; two negative ones together are a block of two rows. */
static const char *ldl_pivots(const ffi_frame *f) {
  const ffi_buffer *factors = f->args.args[0], *pivots = f->args.args[1];
  int64_t n = factors->dims[factors->rank - 1], count = 1;
  if (pivots->rank != factors->rank - 1) return "linalg.ldl_solve: the pivots are not of the factors' batch";
  for (int64_t i = 0; i < pivots->rank; i++) {
    if (pivots->dims[i] != factors->dims[i]) return "linalg.ldl_solve: the pivots are not of the factors' batch";
    count *= pivots->dims[i];
  }
  const int32_t *p = pivots->data;
  for (int64_t i = 0; i < count; i++) {
    if (p[i] == 0 || p[i] > n || p[i] < -n) return "linalg.ldl_solve: a pivot is out of range";
    if (p[i] > 0) continue;
    if (i % n == n - 1 || p[i + 1] >= 0 || p[i + 1] < -n) return "linalg.ldl_solve: a pivot of a block of two rows has no second";
    i++;
  }
  return NULL;
}

static ffi_error *handle(ffi_frame *f, const struct contract *c) {
  if (f->extension_start != NULL && f->extension_start->type == FFI_EXTENSION_METADATA) {
    ffi_metadata *m = ((ffi_metadata_extension *)f->extension_start)->metadata;
    m->api_version.major_version = FFI_MAJOR;
    m->api_version.minor_version = FFI_MINOR;
    m->traits = 0;
    return NULL;
  }
  if (f->stage != FFI_STAGE_EXECUTE) return NULL;
  const char *cause = refusal(f, c);
  if (cause != NULL) return fail(f, cause);
  struct job j = {.run = c->run, .frame = f};
  pthread_mutex_lock(&lock);
  cause = start();
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

#define WINDOW "stride", "padding", "dilation"
static const struct contract contracts[] = {
    {convolution, {2, 3}, {1, 1}, "fff", "f", {3, 5}, {WINDOW, "output_padding"}, {"transposed", "groups"}, NULL},
    {convolution_backward, {3, 3}, {1, 3}, "fff", "fff", {3, 5}, {WINDOW, "output_padding"}, {"transposed", "groups"}, convolution_gradient},
    {max_pool2d, {1, 1}, {2, 2}, "f", "fl", {3, 4}, {WINDOW, "kernel"}, {"ceil"}, NULL},
    {max_pool2d_backward, {2, 2}, {1, 1}, "fl", "f", {3, 4}, {WINDOW, "kernel"}, {"ceil"}, pool_gradient},
    {linalg_eig, {1, 1}, {2, 2}, "m", "mm", {2, MOST_RANK}, {0}, {0}, NULL},
    {linalg_eigvals, {1, 1}, {1, 1}, "m", "m", {2, MOST_RANK}, {0}, {0}, NULL},
    {linalg_ldl_factor, {1, 1}, {3, 3}, "m", "mii", {2, MOST_RANK}, {0}, {"hermitian"}, NULL},
    {linalg_ldl_solve, {3, 3}, {1, 1}, "mim", "m", {2, MOST_RANK}, {0}, {"hermitian"}, ldl_pivots},
};

/* A handler has a name, and its contract's place. */
#define HANDLERS(X) \
  X(0, convolution) X(1, convolution_backward) X(2, max_pool2d) X(3, max_pool2d_backward) \
  X(4, linalg_eig) X(5, linalg_eigvals) X(6, linalg_ldl_factor) X(7, linalg_ldl_solve)

#define X(i, name) \
  static ffi_error *handle_##name(ffi_frame *f) { return handle(f, &contracts[i]); }
HANDLERS(X)
#undef X

const struct torch_target torch_targets[] = {
#define X(i, name) {"torch_" #name, (void *)handle_##name},
    HANDLERS(X)
#undef X
    {NULL, NULL},
};
