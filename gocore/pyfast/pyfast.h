/* Data plane between torch's dispatcher and the Go core: what the C files of this package share.
 *
 *   shim.c      functions of torch's stable C interface, looked up in the library that is loaded
 *   tensors.c   plain torch tensors whose storage address is a core handle; storages that died
 *   encode.c    Python arguments of an op -> words of the core
 *   scalar.c    the element of a tensor as a Python number
 *   host.c      small tensors as tensors of the CPU
 *   factory.c   tensors without a value
 *   kernel.c    one callable object per ATen overload: binds, encodes, traces, builds the results
 *   batchnorm.c the kernel of native_batch_norm, which chooses among others
 *   views.c     kernels that only make another view of a storage; no Python and no core call
 *   shortcut.c  methods and functions of torch that lead to a kernel without torch's dispatcher
 *   replay.c    captured computations: what a call of one depends on, and the call
 *   guard.c     torch's device guard, and what it asks Python
 *   location.c  the Python line that called an op
 *   ending.c    how threads end with the process
 *   module.c    the CPython module _goxlafast
 *
 * Everything runs under the GIL, but for the deleter of a storage, the view kernels and tgx_take_dead.
 */
#ifndef TGX_PYFAST_H
#define TGX_PYFAST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "vocabulary.h"

/* ---- the core: exported by pyfast.go ---- */

/* The state of the vocabulary that the Go part was built with. */
extern char *tgx_vocabulary(void);
extern void tgx_start(void);
extern int64_t tgx_trace(int64_t *words, int64_t n, int64_t *out, int64_t outcap);
/* Kind and text (UTF-8, cut at cap) of the last error; returns the text's whole length. */
extern int64_t tgx_error_text(int64_t *kind, char *dst, int64_t cap);
extern int64_t tgx_wait_idle(void);
/* 1 if the core can be called now without waiting for another thread. */
extern int64_t tgx_idle(void);
extern int64_t tgx_alloc(int64_t nbytes, int64_t device, int64_t *handle);
/* A new storage with a dense array of host memory; the memory is free for other use on return. */
extern int64_t tgx_place(void *src, int64_t scalar_type, int64_t *dims, int64_t ndim, int64_t device, int64_t *handle);
extern int64_t tgx_resize(int64_t handle, int64_t nbytes);
/* Materializes a storage and waits at most ms milliseconds until it is computed; *ready tells whether it is. */
extern int64_t tgx_ready(int64_t handle, int64_t ms, int64_t *ready);
/* Copies a whole storage, which must have that many bytes. */
extern int64_t tgx_fetch(int64_t handle, void *dst, int64_t nbytes);
extern int64_t tgx_release(int64_t *handles, int64_t n);
/* NULL, or the text of an error, which the caller frees. through is set where nothing is left to do. */
extern char *tgx_sync(int64_t device, int64_t mark, int64_t wait, int64_t *through);
extern char *tgx_finish(int64_t device, int64_t *through);
/* Runs a captured computation on the n storages at args; outs takes the handles of the m that it makes. */
extern int64_t tgx_replay(int64_t id, int64_t *args, int64_t n, int64_t *outs, int64_t m, int64_t *outcome);
extern int64_t tgx_location(char *file, int64_t file_bytes, int64_t line);

/* Storages that died since the last call, at most cap; returns how many. Any thread, with or without the GIL. */
extern int64_t tgx_take_dead(int64_t *dst, int64_t cap);

/* ---- shim.c ---- */

typedef void *tgx_tensor;     /* an owned at::Tensor */
typedef uint64_t tgx_ivalue;  /* torch's StableIValue */

#define TGX_SHIM_FUNCTIONS(X)                                                                              \
  X(int32_t, torch_get_const_data_ptr, (tgx_tensor, const void **))                                        \
  X(int32_t, torch_library_impl, (void *, const char *, void (*)(tgx_ivalue *, uint64_t, uint64_t), uint64_t)) \
  X(int32_t, torch_list_size, (void *, size_t *))                                                          \
  X(int32_t, torch_list_get_item, (void *, size_t, tgx_ivalue *))                                          \
  X(int32_t, torch_delete_list, (void *))                                                                  \
  X(int32_t, torch_new_list_reserve_size, (size_t, void **))                                               \
  X(int32_t, torch_list_push_back, (void *, tgx_ivalue))                                                   \
  X(int32_t, torch_new_stable_ivalue, (tgx_ivalue **))                                                     \
  X(int32_t, torch_delete_stable_ivalue, (tgx_ivalue *))                                                   \
  X(int32_t, torch_call_dispatcher, (const char *, const char *, tgx_ivalue *, uint64_t))                  \
  X(int32_t, aoti_torch_new_tensor_handle, (tgx_tensor, tgx_tensor *))                                     \
  X(const char *, torch_exception_get_what_without_backtrace, (void))                                      \
  X(int32_t, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, void **))  \
  X(int32_t, aoti_torch_get_sizes, (tgx_tensor, int64_t **))                                               \
  X(int32_t, aoti_torch_get_strides, (tgx_tensor, int64_t **))                                             \
  X(int32_t, aoti_torch_get_dim, (tgx_tensor, int64_t *))                                                  \
  X(int32_t, aoti_torch_get_dtype, (tgx_tensor, int32_t *))                                                \
  X(int32_t, aoti_torch_get_layout, (tgx_tensor, int32_t *))                                               \
  X(int32_t, aoti_torch_get_storage_offset, (tgx_tensor, int64_t *))                                       \
  X(int32_t, aoti_torch_get_storage_size, (tgx_tensor, int64_t *))                                         \
  X(int32_t, aoti_torch_get_device_type, (tgx_tensor, int32_t *))                                          \
  X(int32_t, aoti_torch_get_device_index, (tgx_tensor, int32_t *))                                         \
  X(int32_t, aoti_torch_delete_tensor_object, (tgx_tensor))                                                \
  X(int32_t, aoti_torch__reinterpret_tensor,                                                               \
    (tgx_tensor, int64_t, const int64_t *, const int64_t *, int64_t, tgx_tensor *))                        \
  X(int32_t, aoti_torch_view_dtype, (tgx_tensor, int32_t, tgx_tensor *))                                   \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                                                         \
  X(int32_t, aoti_torch_device_type_cpu, (void))                                                           \
  X(int32_t, aoti_torch_device_type_privateuse1, (void))                                                   \
  X(int32_t, aoti_torch_layout_strided, (void))                                                            \
  X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))

struct tgx_shim {
#define X(ret, name, args) ret(*name) args;
  TGX_SHIM_FUNCTIONS(X)
#undef X
  int32_t cpu, xla; /* device type numbers */
};
extern struct tgx_shim tgx_shim;

/* Looks every function up in the loaded library at path; NULL, or the name of the first that is missing. */
const char *tgx_shim_load(const char *path);

/* A symbol of the library that is loaded or of one that it needs, NULL if there is none. */
void *tgx_shim_symbol(const char *name);

/* Bytes of an element of a c10::ScalarType, 0 for one that the core has no tensors of. */
int64_t tgx_item_size(int32_t scalar_type);

/* ---- state that Python hands over once (module.c) ---- */

struct tgx_state {
  PyTypeObject *tensor_type;  /* torch._C.TensorBase */
  PyObject *from_dlpack;      /* torch._C._from_dlpack */
  PyObject *resize_out;       /* (tensor, sizes, quiet): resizes a destination as torch's resize_output does */
  PyObject *increment_version; /* (tensors): tells autograd that they were written to */
  PyObject *fallback;        /* (kernel, args, kwargs, why): what a kernel cannot record */
  PyObject *open;             /* (): opens the device when the first tensor needs it; NULL: cannot */
  PyObject *errors;           /* tuple of exception classes, by error kind */
  PyObject *empty;            /* the kernels of empty.memory_format and empty_strided */
  PyObject *empty_strided;    /* for all that factory.c leaves */
  PyObject *deterministic;    /* (): whether torch.use_deterministic_algorithms is on */
  PyObject *enums;            /* dict: torch.dtype, torch.layout or torch.memory_format -> its number */
  int64_t current_device;
  long default_type;          /* number of torch's default dtype */
};
extern struct tgx_state tgx_state;

/* ---- random generators (generator.c) ---- */

/* The number of the core's generator that torch's stands for, -1 for one of another device; -1 with an exception. */
int tgx_generator_number(PyObject *generator, int64_t *number);
PyObject *tgx_set_generators(PyObject *self, PyObject *args);

/* True in a process forked from one that had loaded the core. */
extern volatile int tgx_forked;
/* Sets ForkedProcessError and returns -1 in such a process, else 0. */
int tgx_check_fork(void);
/* Sets the Python exception of the last core error; returns its kind. */
int64_t tgx_set_error(void);
/* Lets other threads run until the core is idle; -1 with an exception if a signal handler raised. */
int tgx_wait(void);

/* ---- tensors.c ---- */

/* A new tensor that covers a core storage. strides NULL: contiguous. New reference, NULL with an exception. */
PyObject *tgx_new_tensor(int64_t handle, int32_t scalar_type, int64_t device, int64_t ndim, const int64_t *sizes,
                         const int64_t *strides);
/* Tells the core about dead storages once there are enough of them and it is idle. 0, or -1 with an exception. */
int tgx_release_dead(void);

/* What the core needs to know of a tensor. sizes and strides live as long as the tensor. */
struct tgx_meta {
  int64_t handle, offset, ndim;
  const int64_t *sizes, *strides;
  int32_t scalar_type, device_type;
  tgx_tensor owner;     /* as good as the Python tensor, and no longer than this struct */
  void *implementation; /* what owner points to, where the object's own at::Tensor was not found */
};
/* 1 if a tensor is strided, 0 if it is sparse, which has no strides and no storage; -1 with an exception. */
int tgx_is_strided(PyObject *tensor);

/* 0, or -1 with an exception. For a tensor on another device, handle is its data address. */
int tgx_meta_read(PyObject *tensor, struct tgx_meta *meta);
/* Whether a tensor of the device is contiguous and the whole of its storage, and the bytes of that. */
bool tgx_is_full(const struct tgx_meta *meta, int64_t *bytes);
/* probe_tensor(tensor, implementation address): finds the at::Tensor in a tensor's Python object. */
PyObject *tgx_probe_tensor(PyObject *module, PyObject *args);
/* The at::Tensor of a Python tensor, borrowed from it; NULL where probe_tensor has not found it. */
tgx_tensor tgx_borrow(PyObject *tensor);

/* ---- encode.c ---- */

/* A growing array of words that begins on the stack. */
struct tgx_words {
  int64_t *p;
  Py_ssize_t n, cap;
  int64_t local[384];
};
void tgx_words_init(struct tgx_words *w);
void tgx_words_free(struct tgx_words *w);
int tgx_words_grow(struct tgx_words *w, Py_ssize_t more);
static inline int tgx_words_need(struct tgx_words *w, Py_ssize_t more) {
  return w->n + more <= w->cap ? 0 : tgx_words_grow(w, more);
}

/* What the encoder of one call finds out on the way. */
struct tgx_call {
  struct tgx_words words;
  const char *op;  /* for messages */
  int lazy;        /* bits that may be set on operands of this op; torch resolves them for most ops */
  bool on_device;  /* an operand is on the device */
  int32_t device;  /* its index */
  bool direct;     /* torch's dispatcher was not asked: tensors must be plain, see shortcut.c */
  /* Python decides. An operand, the device argument or the generator is elsewhere; or an operand has a lazy bit; or
   * the core has no lowering for this use of the op (an exception is set then). */
  bool fallback;
};

/* The value at data of a scalar type, as the two words of HostZero; -1 for a type that is not read here. */
int tgx_host_value(int32_t scalar_type, const void *data, int64_t *words);

/* Appends one argument. 0, or -1 with an exception. */
int tgx_encode(struct tgx_call *call, enum tgx_type type, PyObject *arg);

/* ---- scalar.c ---- */

/* item(tensor): its one element as a Python number, or NotImplemented where that takes more than a copy. */
PyObject *tgx_item(PyObject *module, PyObject *tensor);
/* Waits until a storage is computed and copies it, which has that many bytes; -1 with an exception. */
int tgx_read(int64_t handle, void *to, int64_t nbytes);
/* wrapped_number(): the descriptor of Tensor._wrapped_number. */
PyObject *tgx_wrapped_number(PyObject *module, PyObject *unused);

/* ---- host.c ---- */

/* setup_host(torch.empty, torch.device("cpu"), {number: torch.dtype}): how tensors of the CPU are made. */
PyObject *tgx_setup_host(PyObject *module, PyObject *args);
/* cpu(tensor): a copy of a small plain tensor on the CPU, or NotImplemented. */
PyObject *tgx_cpu(PyObject *module, PyObject *tensor);

/* ---- factory.c ---- */

/* The kernels of empty.memory_format and empty_strided. */
PyObject *tgx_empty(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *tgx_empty_strided(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* to(tensor, device): a copy of a small plain CPU tensor on the device, or NotImplemented. */
PyObject *tgx_to(PyObject *module, PyObject *const *args, Py_ssize_t n);

/* ---- shortcut.c ---- */

/* setup_shortcuts(...): what shortcuts need to know of torch, after probe_tensor; False where it is not found. */
PyObject *tgx_setup_shortcuts(PyObject *module, PyObject *args, PyObject *kwargs);
/* add_shortcut(torch's object, kernel or callable, kernel for a number or None, operands, rank or -1) -> bool */
PyObject *tgx_add_shortcut(PyObject *module, PyObject *args);
/* shortcuts_taken() -> int */
PyObject *tgx_shortcuts_taken(PyObject *module, PyObject *unused);
/* Whether it is a Tensor or a Parameter itself, and no other class of tensors. */
bool tgx_is_plain_type(PyObject *o);
/* Whether a tensor of these classes is nothing but a tensor of the device: not to be read conjugated, for example. False
 * where setup_shortcuts has not found that out. */
bool tgx_has_plain_keys(PyObject *tensor);

/* The tensor lacks dispatch keys that plain ones of the device have: one for inference does. */
bool tgx_lacks_keys(tgx_tensor t);
/* Whether torch's dispatcher would do nothing for this operand but call the kernel. */
bool tgx_is_plain(PyObject *tensor);
/* The same for a tensor of the CPU. */
bool tgx_is_plain_host(PyObject *tensor);
/* Notes a write to a tensor in its version, which autograd compares; -1 with an exception. */
int tgx_bump_version(PyObject *tensor);

/* ---- step.c ---- */

/* sync(device, mark, wait) -> bool: computes what is recorded, -1: for all devices; false if the caller has to wait, or,
 * without wait, to be held back. */
PyObject *tgx_sync_device(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* finish(device) -> bool: waits for a while, and raises what has failed; false if the caller has to wait. */
PyObject *tgx_finish_device(PyObject *module, PyObject *const *args, Py_ssize_t n);

/* ---- replay.c ---- */

/* layout(arguments): what a captured computation depends on of them, hashable; None where it cannot be captured.
 * Tensors: type, sizes, strides, offset, gradient, and which of them share a storage. Other values: themselves. */
PyObject *tgx_layout(PyObject *module, PyObject *arguments);
/* device_of(arguments): the index of the first tensor's on the device, else the current one. */
PyObject *tgx_device_of(PyObject *module, PyObject *arguments);
/* replay(id, device, arguments, results, sync): the call of a captured computation, on the storages of the arguments
 * at some places; results are (scalar type, sizes, strides) of the storages that it makes. sync(device), or None, is
 * called if anything besides is recorded or waits. */
PyObject *tgx_make_replay(PyObject *module, PyObject *args);

/* Whether a tensor needs a gradient; -1 with an exception. */
int tgx_requires_grad(PyObject *tensor);

/* ---- outside.c ---- */

/* describe(values, torch.nn.Module, torch.optim.Optimizer) -> bytes: what a captured computation depends on of them. */
PyObject *tgx_describe(PyObject *module, PyObject *args);

/* ---- ending.c ---- */

/* Around what may wait for the GIL below frames of C++ or Go; with the GIL. Neither returns in a thread that ends with the
 * process. */
void tgx_enter(void);
void tgx_leave(void);
/* The same around a section without the GIL. */
PyThreadState *tgx_release_gil(void);
void tgx_restore_gil(PyThreadState *state);
/* end(milliseconds) -> bool: no thread but this one enters or leaves the core from now on, and none is in between. */
PyObject *tgx_end(PyObject *module, PyObject *milliseconds);
/* counted(function) -> the same function, between tgx_enter and tgx_leave */
PyObject *tgx_counted(PyObject *module, PyObject *function);

/* ---- guard.c ---- */

/* device_type(type, subclass of its class with attributes) -> function for the guard's attribute type_ */
PyObject *tgx_device_type(PyObject *module, PyObject *args);
/* answer_for_guard() -> bool: takes over what the guard that is registered asks Python; only for a torch whose
 * guards are known. False where this one's answer is unexpected. */
PyObject *tgx_answer_for_guard(PyObject *module, PyObject *unused);

/* ---- batchnorm.c ---- */

/* batch_norm(train, no_stats, evaluate): the kernel of native_batch_norm, given those that it chooses from. */
PyObject *tgx_batch_norm(PyObject *module, PyObject *args);

/* ---- kernel.c, location.c, views.c ---- */

extern PyTypeObject tgx_kernel_type;
PyObject *tgx_make_kernel(PyObject *module, PyObject *args, PyObject *kwargs);
/* How many arguments tgx_call_direct takes for a kernel; 0 if it does not take the kernel. */
Py_ssize_t tgx_direct_operands(PyObject *kernel);
/* Calls a kernel for its first n arguments, past torch's dispatcher. NULL without an exception where that
 * records nothing: the dispatcher decides, and finds the words for what is wrong. */
PyObject *tgx_call_direct(PyObject *kernel, PyObject *const *operands, Py_ssize_t n);

/* Registers the view kernels under aten for PrivateUse1; NULL or the reason why not. */
const char *tgx_register_views(uint64_t torch_version);

/* Id of the innermost Python line outside the skipped directories; 0 if there is none. */
int32_t tgx_call_site(void);
/* set_skipped_directories(tuple of str) */
PyObject *tgx_set_skipped(PyObject *module, PyObject *directories);

#endif
