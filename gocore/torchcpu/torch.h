/* Torch's CPU kernels, by their C functions in the libtorch_cpu that the process has loaded: no torch header, nothing to link. */
#ifndef TGX_TORCHCPU_H_
#define TGX_TORCHCPU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *torch_tensor; /* an owned at::Tensor */

/* A list argument: its elements and their number. */
#define LIST const int64_t *, int64_t

#define TORCH_FUNCTIONS(X)                                                                                            \
  X(const char *, torch_exception_get_what_without_backtrace, (void))                                                 \
  X(int32_t, aoti_torch_device_type_cpu, (void))                                                                      \
  X(int32_t, aoti_torch_dtype_float32, (void))                                                                        \
  X(int32_t, aoti_torch_dtype_float16, (void))                                                                        \
  X(int32_t, aoti_torch_dtype_bfloat16, (void))                                                                       \
  X(int32_t, aoti_torch_dtype_float64, (void))                                                                        \
  X(int32_t, aoti_torch_dtype_complex64, (void))                                                                      \
  X(int32_t, aoti_torch_dtype_complex128, (void))                                                                     \
  X(int32_t, aoti_torch_dtype_int32, (void))                                                                          \
  X(int32_t, aoti_torch_dtype_int64, (void))                                                                          \
  X(void, aoti_torch_grad_mode_set_enabled, (bool))                                                                   \
  X(int32_t, aoti_torch_create_tensor_from_blob,                                                                      \
    (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t, int32_t, torch_tensor *))          \
  X(int32_t, aoti_torch_copy_, (torch_tensor, torch_tensor, int32_t))                                                 \
  X(int32_t, aoti_torch_delete_tensor_object, (torch_tensor))                                                         \
  X(int32_t, aoti_torch_call_dispatcher, (const char *, const char *, uint64_t *))                                    \
  X(int32_t, aoti_torch_cpu_convolution,                                                                              \
    (torch_tensor, torch_tensor, torch_tensor *, LIST, LIST, LIST, int32_t, LIST, int64_t, torch_tensor *))           \
  X(int32_t, aoti_torch_cpu_convolution_backward,                                                                     \
    (torch_tensor, torch_tensor, torch_tensor, const int64_t **, int64_t, LIST, LIST, LIST, int32_t, LIST, int64_t,   \
     const int32_t *, int64_t, torch_tensor *, torch_tensor *, torch_tensor *))                                       \
  X(int32_t, aoti_torch_cpu_max_pool2d_with_indices,                                                                  \
    (torch_tensor, LIST, LIST, LIST, LIST, int32_t, torch_tensor *, torch_tensor *))                                  \
  X(int32_t, aoti_torch_cpu_max_pool2d_with_indices_backward,                                                         \
    (torch_tensor, torch_tensor, LIST, LIST, LIST, LIST, int32_t, torch_tensor, torch_tensor *))

struct torch_functions {
#define X(ret, name, args) ret(*name) args;
  TORCH_FUNCTIONS(X)
#undef X
};
extern struct torch_functions torch;

/* Looks every function up in the loaded library at path; NULL, or what is missing. */
const char *torch_load(const char *path);

/* Handlers by number; NULL after the last. */
struct torch_target {
  const char *name;
  void *handler;
};
extern const struct torch_target torch_targets[];

#endif
