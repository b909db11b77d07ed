/* Calls of torch's CPU kernels in the libtorch_cpu that the process has loaded: no torch header, nothing to link.
 *
 * An op is called by name, through the interface of torch's dispatcher that is stable across versions
 * (torch/csrc/stable/c/shim.h). It works on arrays in anyone's memory; its other arguments are encoded as package
 * ir encodes them. Neither Python nor its lock is needed, and XLA has no part in it. */
#ifndef TGX_TORCHCPU_H_
#define TGX_TORCHCPU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vocabulary.h"

typedef void *torch_tensor; /* an owned at::Tensor */

#define TORCH_FUNCTIONS(X)                                                                                    \
  X(const char *, torch_exception_get_what_without_backtrace, (void))                                         \
  X(int32_t, aoti_torch_device_type_cpu, (void))                                                              \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                                                            \
  X(void, aoti_torch_grad_mode_set_enabled, (bool))                                                           \
  X(int32_t, aoti_torch_create_tensor_from_blob,                                                              \
    (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t, int32_t, torch_tensor *))  \
  X(int32_t, aoti_torch_get_dim, (torch_tensor, int64_t *))                                                   \
  X(int32_t, aoti_torch_get_sizes, (torch_tensor, int64_t **))                                                \
  X(int32_t, aoti_torch_get_dtype, (torch_tensor, int32_t *))                                                 \
  X(int32_t, aoti_torch_get_numel, (torch_tensor, int64_t *))                                                 \
  X(int32_t, aoti_torch_get_storage_numel, (torch_tensor, int64_t *))                                         \
  X(int32_t, aoti_torch_is_defined, (torch_tensor, bool *))                                                   \
  X(int32_t, torch_get_const_data_ptr, (torch_tensor, const void **))                                         \
  X(int32_t, torch_get_mutable_data_ptr, (torch_tensor, void **))                                             \
  X(int32_t, aoti_torch_get_strides, (torch_tensor, int64_t **))                                              \
  X(int32_t, aoti_torch_new_tensor_handle, (torch_tensor, torch_tensor *))                                    \
  X(int32_t, aoti_torch_empty_strided,                                                                        \
    (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, torch_tensor *))                   \
  X(int32_t, aoti_torch__reinterpret_tensor,                                                                  \
    (torch_tensor, int64_t, const int64_t *, const int64_t *, int64_t, torch_tensor *))                       \
  X(int32_t, aoti_torch_cpu_add_Tensor, (torch_tensor, torch_tensor, double, torch_tensor *))                 \
  X(int32_t, aoti_torch_cpu_nonzero, (torch_tensor, torch_tensor *))                                          \
  X(int32_t, aoti_torch_cpu_pow_Tensor_Scalar, (torch_tensor, double, torch_tensor *))                        \
  X(int32_t, aoti_torch_cpu_addmm_out, (torch_tensor, torch_tensor, torch_tensor, torch_tensor, double, double))   \
  X(int32_t, aoti_torch_cpu_baddbmm_out, (torch_tensor, torch_tensor, torch_tensor, torch_tensor, double, double)) \
  X(int32_t, aoti_torch_copy_, (torch_tensor, torch_tensor, int32_t))                                         \
  X(int32_t, aoti_torch_delete_tensor_object, (torch_tensor))                                                 \
  X(int32_t, torch_new_list_reserve_size, (size_t, void **))                                                  \
  X(int32_t, torch_list_push_back, (void *, uint64_t))                                                        \
  X(int32_t, torch_list_get_item, (void *, size_t, uint64_t *))                                               \
  X(int32_t, torch_delete_list, (void *))                                                                     \
  X(int32_t, torch_new_string_handle, (const char *, size_t, void **))                                        \
  X(int32_t, torch_delete_string, (void *))                                                                   \
  X(int32_t, torch_new_stable_ivalue, (uint64_t **))                                                          \
  X(int32_t, torch_delete_stable_ivalue, (uint64_t *))                                                        \
  X(int32_t, torch_call_dispatcher, (const char *, const char *, uint64_t *, uint64_t))

struct torch_functions {
#define X(ret, name, args) ret(*name) args;
  TORCH_FUNCTIONS(X)
#undef X
};
extern struct torch_functions torch;

/* Looks every function up in the loaded library at path; NULL, or what is missing. */
const char *torch_load(const char *path);

/* What the loaded library, or one that it needs, exports by a name; NULL for nothing. */
void *torch_symbol(const char *name);

/* The dispatch keys that this thread adds to and takes from those of tensors, as differences from the default: two
 * words. NULL if this torch keeps them elsewhere. */
uint64_t *torch_local_keys(void);

/* An op that may be called. The table of rows (gocore/ops) is the only source of these. */
struct torch_op {
  const char *row;      /* its name there: "sort.stable" */
  const char *name;     /* torch's: "aten::sort" */
  const char *overload; /* "stable" */
  const char *out;      /* the overload that writes into given memory: "values_stable"; "" if none is called */
  const char *args;     /* the kinds of the arguments, see TORCH_KINDS */
  const char *check;    /* what torch takes on trust and is looked at before: the name of a check, see checks.c; "" for none */
  int results;
};

/* Kinds of arguments in torch_op.args, one letter each, followed by '?' where None may be given. T Tensor, L
 * Tensor[], O Tensor?[]; i int, b bool, d float, s str, y ScalarType; I int[], B bool[], D float[]; n any other,
 * always None. */

/* Arguments are encoded as in a node of package ir, see wire.Kind. Of its kinds a call has TGX_NULL, TGX_TENSOR
 * (the next operand), TGX_CONST, TGX_CONST_F, TGX_INTS, TGX_FLOATS, TGX_TEXT, TGX_TYPE, TGX_RESULT and TGX_TENSORS.
 * The last has a word for each: 1 the next operand, 0 None. */

/* An array in memory that the caller keeps during a call. */
struct torch_array {
  void *data;
  const int64_t *dims;
  const int64_t *strides; /* in elements; NULL: dense, the last dimension varying fastest */
  int32_t rank;
  int32_t type; /* a c10::ScalarType */
};

enum { TORCH_MOST = 16 /* operands, results and arguments of a call */, TORCH_MOST_RANK = 64 /* of torch's TensorIterator */ };

struct torch_call {
  const struct torch_op *op;
  const int64_t *words; /* the arguments */
  int64_t word_count;
  const struct torch_array *in, *out; /* with made, out is NULL or what the op's overload for that writes to */
  int64_t in_count, out_count;
  const int64_t *which; /* which of the op's results each of out is; NULL: the first ones */
  const torch_tensor *held; /* the operands as tensors of the caller's, not in; NULL: in */
  const torch_tensor *held_out; /* out as tensors of the caller's; NULL: there are none */
  torch_tensor *made;       /* takes all of the op's results as tensors that the caller owns; NULL: they are copied to out */
  char message[1024];   /* what went wrong */
};

/* The op of a row's name; NULL if none is registered. */
const struct torch_op *torch_find(const char *row, size_t length);

/* Makes an op known; the strings are kept. NULL, or why not. */
const char *torch_register(struct torch_op op);

/* The numbers of an argument; none for any other kind. The call has been checked. */
struct torch_list {
  const int64_t *items;
  int64_t count;
};
struct torch_list torch_argument(const struct torch_call *call, int place);

/* Sets the message; gives false. */
__attribute__((format(printf, 2, 3))) bool torch_refuse(struct torch_call *call, const char *format, ...);

/* Whether values and sizes that the op's kernel takes on trust are what it takes them for; false with the message
 * set. */
bool torch_trusts(struct torch_call *call);

/* Runs a call in this thread; false if it failed, and message says why. */
bool torch_run(struct torch_call *call);

/* Runs a call in the thread that is kept for torch's kernels, and waits for it. */
bool torch_run_apart(struct torch_call *call);

/* Runs anything in that thread and waits for it; false if there is no thread, or else what run gives. */
bool torch_apart(bool (*run)(void *), void *with);

/* Runs anything in this thread, without what the thread asks of torch: gradients, modes, autocast, transforms.
 * serial is without the other threads that compute with it, too. */
bool torch_here(bool (*run)(void *), void *with, bool serial);

/* Says by which dispatch keys torch looks after gradients and the versions of tensors: what runs in either way is
 * without. */
void torch_set_gradient_keys(uint64_t keys);

/* The tensor that lies in an array; false with the message set. */
bool torch_tensor_of(struct torch_call *call, const struct torch_array *a, torch_tensor *out);

/* ---- programs of many calls, see interpret.c ---- */

/* A number of a graph. */
struct torch_number {
  int64_t type; /* a c10::ScalarType: bool, int64, float64, complex128, or that of the 0-dim tensor it was */
  int64_t i;    /* of an integral type */
  double f, im; /* of the others */
};

struct torch_program {
  const int64_t *words; /* instructions, see interpret.c */
  int64_t word_count;
  struct torch_op *ops; /* what its calls name by number */
  int64_t op_count;
  const int64_t *roots; /* the values that it gives */
  int64_t root_count;
  int64_t values; /* how many it computes with, the parameters first */
};

enum torch_place {
  TORCH_APART,  /* in the thread that is kept for torch's kernels */
  TORCH_HERE,   /* in the calling thread */
  TORCH_SERIAL, /* and in no other one */
};

/* The tensor of an array in memory of the caller's. It is kept, as to make it again takes as long as a small
 * kernel. A loop has its arrays where it had them before, or its last but one did. */
struct torch_kept {
  void *data;
  torch_tensor tensor;
};

struct torch_execution {
  const struct torch_program *program;
  const struct torch_array *params;
  int64_t param_count;
  const struct torch_number *numbers;
  torch_tensor *values; /* room for those of the program, all NULL */
  struct torch_kept *kept; /* of the parameters, then of the results: room for the tensors of the run before */
  torch_tensor *roots; /* takes the results: dense, and in memory of their own */
  void *const *into;   /* memory of each result that it is to be in; NULL: memory of torch's */
  enum torch_place place;
  int64_t at;          /* the instruction that failed */
  char message[1024];
};

/* Runs a program; false if it failed, and message says why. */
bool torch_interpret(struct torch_execution *x);

/* Frees what an execution keeps from run to run. */
void torch_forget(struct torch_execution *x);

/* The memory of a dense tensor. */
void *torch_data(torch_tensor t);

void torch_free(torch_tensor t);

/* torch_free of the tensor that lies in a memory, for PJRT's callbacks. */
void torch_release(void *memory, void *tensor);

/* The handler of XLA's typed custom calls; see handler.c. */
extern void *const torch_handler;

#endif
