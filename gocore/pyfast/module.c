//go:build pyext

/* The CPython module _goxlafast. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pyfast.h"

struct tgx_state tgx_state = {.default_type = TGX_DTYPE_FLOAT32};
volatile int tgx_forked;

static void after_fork_in_child(void) { tgx_forked = 1; }

static PyObject *error_class(int64_t kind) {
  PyObject *errors = tgx_state.errors;
  bool known = errors && kind > 0 && kind < PyTuple_GET_SIZE(errors);
  return known ? PyTuple_GET_ITEM(errors, (Py_ssize_t)kind) : PyExc_RuntimeError;
}

int tgx_check_fork(void) {
  if (!tgx_forked) return 0;
  PyErr_SetString(error_class(TGX_FORKED_PROCESS_ERROR),
                  "an xla tensor was used in a process forked after torch_go_xla had started; the device cannot be "
                  "used there. Start the process by \"spawn\", or keep xla tensors out of it");
  return -1;
}

int64_t tgx_set_error(void) {
  char local[2048], *text = local;
  int64_t kind = 0, n = tgx_error_text(&kind, local, sizeof local);
  if (n > (int64_t)sizeof local) {
    text = PyMem_Malloc((size_t)n);
    if (text == NULL) {
      PyErr_NoMemory();
      return 0;
    }
    n = tgx_error_text(&kind, text, n);
  }
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
  if (message) PyErr_SetObject(error_class(kind), message);
  Py_XDECREF(message);
  if (text != local) PyMem_Free(text);
  return kind;
}

int tgx_wait(void) {
  int64_t closed;
  PyThreadState *state = tgx_release_gil();
  closed = tgx_wait_idle();
  tgx_restore_gil(state);
  if (closed) {
    tgx_enter();
    PyObject *r = tgx_state.open ? PyObject_CallNoArgs(tgx_state.open)
                                 : PyErr_Format(PyExc_RuntimeError, "no device is open, and nothing to open one");
    tgx_leave();
    if (r == NULL) return -1;
    Py_DECREF(r);
  }
  return PyErr_CheckSignals();
}

/* ---- setup ---- */

static PyObject *fast_setup(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"library", "tensor_type", "from_dlpack", "resize_out", "fallback", "errors",
                          "enums",   "empty",       "empty_strided", "increment_version", "deterministic", NULL};
  const char *library;
  PyObject *tensor_type, *from_dlpack, *resize_out, *fallback, *errors, *enums, *empty, *empty_strided, *increment_version,
      *deterministic;
  (void)self;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!OOOO!O!OOOO", names, &library, &PyType_Type, &tensor_type,
                                   &from_dlpack, &resize_out, &fallback, &PyTuple_Type, &errors, &PyDict_Type, &enums,
                                   &empty, &empty_strided, &increment_version, &deterministic))
    return NULL;
  tgx_start();
  const char *missing = tgx_shim_load(library);
  if (missing) return PyErr_Format(PyExc_ImportError, "torch's stable C interface lacks %s", missing);
  Py_XSETREF(tgx_state.tensor_type, (PyTypeObject *)Py_NewRef(tensor_type));
  Py_XSETREF(tgx_state.from_dlpack, Py_NewRef(from_dlpack));
  Py_XSETREF(tgx_state.resize_out, Py_NewRef(resize_out));
  Py_XSETREF(tgx_state.fallback, Py_NewRef(fallback));
  Py_XSETREF(tgx_state.errors, Py_NewRef(errors));
  Py_XSETREF(tgx_state.empty, Py_NewRef(empty));
  Py_XSETREF(tgx_state.empty_strided, Py_NewRef(empty_strided));
  Py_XSETREF(tgx_state.increment_version, Py_NewRef(increment_version));
  Py_XSETREF(tgx_state.deterministic, Py_NewRef(deterministic));
  Py_XSETREF(tgx_state.enums, Py_NewRef(enums));
  Py_RETURN_NONE;
}

static PyObject *fast_set_open(PyObject *self, PyObject *open) {
  (void)self;
  Py_XSETREF(tgx_state.open, Py_NewRef(open));
  Py_RETURN_NONE;
}

static PyObject *fast_register_views(PyObject *self, PyObject *version) {
  (void)self;
  unsigned long long v = PyLong_AsUnsignedLongLong(version);
  if (PyErr_Occurred()) return NULL;
  const char *why = tgx_register_views(v);
  if (why) return PyErr_Format(PyExc_RuntimeError, "the view kernels cannot be registered: %s", why);
  Py_RETURN_NONE;
}

static PyObject *fast_set_current_device(PyObject *self, PyObject *index) {
  (void)self;
  long v = PyLong_AsLong(index);
  if (v == -1 && PyErr_Occurred()) return NULL;
  tgx_state.current_device = v;
  Py_RETURN_NONE;
}

static PyObject *fast_set_default_type(PyObject *self, PyObject *number) {
  (void)self;
  long v = PyLong_AsLong(number);
  if (v == -1 && PyErr_Occurred()) return NULL;
  tgx_state.default_type = v;
  Py_RETURN_NONE;
}

static PyObject *fast_current_device(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return PyLong_FromLongLong(tgx_state.current_device);
}

static PyObject *fast_forked(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return PyBool_FromLong(tgx_forked);
}

/* ---- tensors ---- */

static int device_meta(PyObject *tensor, struct tgx_meta *m) {
  if (tgx_state.tensor_type == NULL || !PyObject_TypeCheck(tensor, tgx_state.tensor_type)) {
    PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
    return -1;
  }
  if (tgx_meta_read(tensor, m) < 0) return -1;
  if (m->device_type == tgx_shim.xla) return 0;
  PyErr_SetString(PyExc_RuntimeError, "expected a tensor on the xla device");
  return -1;
}

static PyObject *fast_handle(PyObject *self, PyObject *tensor) {
  (void)self;
  struct tgx_meta m;
  if (device_meta(tensor, &m) < 0) return NULL;
  return PyLong_FromLongLong(m.handle);
}

static PyObject *fast_is_full(PyObject *self, PyObject *tensor) {
  (void)self;
  struct tgx_meta m;
  int64_t bytes;
  if (device_meta(tensor, &m) < 0) return NULL;
  bool full = tgx_is_full(&m, &bytes);
  return PyBool_FromLong(full);
}

/* Reads at most max ints of a tuple or list. */
static int64_t read_ints(PyObject *sequence, int64_t *to, Py_ssize_t max) {
  PyObject *fast = PySequence_Fast(sequence, "expected a tuple or list of ints");
  if (fast == NULL) return -1;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  if (n > max) PyErr_Format(PyExc_ValueError, "more than %zd dimensions", max);
  for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
    to[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, i));
  Py_DECREF(fast);
  return PyErr_Occurred() ? -1 : n;
}

static PyObject *fast_new_tensor(PyObject *self, PyObject *args) {
  long long handle, device;
  int scalar_type;
  PyObject *sizes, *strides = Py_None;
  int64_t size[TGX_MAX_DIMS], stride[TGX_MAX_DIMS];
  (void)self;
  if (tgx_check_fork() < 0 || !PyArg_ParseTuple(args, "LiLO|O", &handle, &scalar_type, &device, &sizes, &strides))
    return NULL;
  int64_t n = read_ints(sizes, size, TGX_MAX_DIMS);
  int64_t k = n < 0 ? -1 : strides == Py_None ? n : read_ints(strides, stride, TGX_MAX_DIMS);
  if (k < 0) return NULL;
  if (k != n) return PyErr_Format(PyExc_ValueError, "%lld sizes and %lld strides", (long long)n, (long long)k);
  return tgx_new_tensor(handle, (int32_t)scalar_type, device, n, size, strides == Py_None ? NULL : stride);
}

/* Runs a core call that may find the core busy. */
#define UNTIL_IDLE(status, call)                      \
  while ((status = (call)) == TGX_BUSY)               \
    if (tgx_wait() < 0) return NULL;                  \
  if (status != TGX_DONE) {                             \
    tgx_set_error();                                  \
    return NULL;                                      \
  }

static PyObject *fast_alloc(PyObject *self, PyObject *args) {
  long long nbytes, device;
  int64_t handle = 0, status;
  (void)self;
  if (tgx_check_fork() < 0 || tgx_release_dead() < 0 || !PyArg_ParseTuple(args, "LL", &nbytes, &device)) return NULL;
  UNTIL_IDLE(status, tgx_alloc(nbytes, device, &handle))
  return PyLong_FromLongLong(handle);
}

static PyObject *fast_resize(PyObject *self, PyObject *args) {
  long long handle, nbytes;
  int64_t status;
  (void)self;
  if (tgx_check_fork() < 0 || !PyArg_ParseTuple(args, "LL", &handle, &nbytes)) return NULL;
  UNTIL_IDLE(status, tgx_resize(handle, nbytes))
  Py_RETURN_NONE;
}

static PyObject *fast_take_dead(PyObject *self, PyObject *unused) {
  int64_t handles[1024];
  (void)self, (void)unused;
  PyObject *list = PyList_New(0);
  for (int64_t n; list && (n = tgx_take_dead(handles, 1024)) > 0;) {
    for (int64_t i = 0; list && i < n; i++) {
      PyObject *handle = PyLong_FromLongLong(handles[i]);
      if (handle == NULL || PyList_Append(list, handle) < 0) Py_CLEAR(list);
      Py_XDECREF(handle);
    }
  }
  return list;
}

/* ---- the byte count of a torch storage ---- */

/* Where c10::StorageImpl keeps its byte count is not part of any interface. probe_storage finds the one
 * word of the first few that equals the byte count in both probes; without one, storages keep their size. */
enum { STORAGE_WORDS = 12 };
static int storage_word = -1;

static PyObject *fast_probe_storage(PyObject *self, PyObject *args) {
  unsigned long long a, b;
  long long na, nb;
  int found = -1;
  (void)self;
  if (!PyArg_ParseTuple(args, "KLKL", &a, &na, &b, &nb)) return NULL;
  const int64_t *wa = (const int64_t *)(uintptr_t)a, *wb = (const int64_t *)(uintptr_t)b;
  for (int i = 0; i < STORAGE_WORDS; i++) {
    if (wa[i] != na || wb[i] != nb) continue;
    if (found >= 0) Py_RETURN_FALSE;
    found = i;
  }
  storage_word = found;
  return PyBool_FromLong(found >= 0);
}

static PyObject *fast_set_storage_nbytes(PyObject *self, PyObject *args) {
  unsigned long long address;
  long long old, new;
  (void)self;
  if (!PyArg_ParseTuple(args, "KLL", &address, &old, &new)) return NULL;
  int64_t *words = (int64_t *)(uintptr_t)address;
  if (storage_word < 0 || words[storage_word] != old || new < 0)
    return PyErr_Format(PyExc_NotImplementedError, "the storage of an xla tensor cannot be resized with this torch");
  words[storage_word] = new;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"setup", (PyCFunction)(void (*)(void))fast_setup, METH_VARARGS | METH_KEYWORDS,
     "setup(library, tensor_type, from_dlpack, resize_out, fallback, errors, enums, empty, empty_strided, increment_version, "
     "deterministic)"},
    {"kernel", (PyCFunction)(void (*)(void))tgx_make_kernel, METH_VARARGS | METH_KEYWORDS,
     "kernel(name, row, params, args, destinations, returns, each=False, lazy=0) -> Kernel"},
    {"batch_norm", tgx_batch_norm, METH_VARARGS, "batch_norm(train, no_stats, evaluate) -> the kernel of native_batch_norm"},
    {"set_open", fast_set_open, METH_O, "set_open(callable): what opens the device when the first tensor needs it"},
    {"register_views", fast_register_views, METH_O, "register_views(torch_version_word)"},
    {"set_generators", tgx_set_generators, METH_VARARGS, "set_generators(torch.Generator, make, numbers)"},
    {"set_current_device", fast_set_current_device, METH_O, "set_current_device(index)"},
    {"current_device", fast_current_device, METH_NOARGS, "current_device() -> int"},
    {"set_skipped_directories", tgx_set_skipped, METH_O, "set_skipped_directories(tuple of str)"},
    {"forked", fast_forked, METH_NOARGS, "forked() -> bool: this process was forked after the start"},
    {"item", tgx_item, METH_O, "item(tensor) -> number, or NotImplemented"},
    {"setup_host", tgx_setup_host, METH_VARARGS, "setup_host(torch.empty, device, dtypes by number)"},
    {"cpu", tgx_cpu, METH_O, "cpu(tensor) -> tensor, or NotImplemented"},
    {"wrapped_number", tgx_wrapped_number, METH_NOARGS, "wrapped_number() -> descriptor of Tensor._wrapped_number"},
    {"to", (PyCFunction)(void (*)(void))tgx_to, METH_FASTCALL, "to(tensor, device) -> tensor, or NotImplemented"},
    {"empty", (PyCFunction)(void (*)(void))tgx_empty, METH_FASTCALL | METH_KEYWORDS,
     "the kernel of empty.memory_format"},
    {"empty_strided", (PyCFunction)(void (*)(void))tgx_empty_strided, METH_FASTCALL | METH_KEYWORDS,
     "the kernel of empty_strided"},
    {"set_default_type", fast_set_default_type, METH_O, "set_default_type(scalar_type)"},
    {"probe_tensor", tgx_probe_tensor, METH_VARARGS, "probe_tensor(tensor, implementation) -> bool"},
    {"setup_shortcuts", (PyCFunction)(void (*)(void))tgx_setup_shortcuts, METH_VARARGS | METH_KEYWORDS,
     "setup_shortcuts(types, plain, host, samples, increment_version, forward_ad) -> bool"},
    {"add_shortcut", tgx_add_shortcut, METH_VARARGS,
     "add_shortcut(object, kernel or callable, kernel for a number or None, operands, rank or -1) -> bool"},
    {"shortcuts_taken", tgx_shortcuts_taken, METH_NOARGS, "shortcuts_taken() -> int: calls past torch's dispatcher"},
    {"device_type", tgx_device_type, METH_VARARGS, "device_type(type, class) -> what a device guard has as type_"},
    {"answer_for_guard", tgx_answer_for_guard, METH_NOARGS,
     "answer_for_guard() -> bool: C in place of Python answers for the registered device guard of torch 2.15"},
    {"end", tgx_end, METH_O, "end(milliseconds) -> bool: no other thread enters or leaves the core, and none is in between"},
    {"counted", tgx_counted, METH_O, "counted(function) -> the same function, which the end of the process waits for"},
    {"sync", (PyCFunction)(void (*)(void))tgx_sync_device, METH_FASTCALL,
     "sync(device, mark, wait) -> bool: nothing is left to do; -1: all devices"},
    {"finish", (PyCFunction)(void (*)(void))tgx_finish_device, METH_FASTCALL, "finish(device) -> bool: nothing is left to do"},
    {"layout", tgx_layout, METH_O, "layout(arguments) -> hashable, or None"},
    {"device_of", tgx_device_of, METH_O, "device_of(arguments) -> int"},
    {"replay", tgx_make_replay, METH_VARARGS, "replay(id, device, arguments, results, sync) -> Replay"},
    {"describe", tgx_describe, METH_VARARGS, "describe(list of values, torch.nn.Module, torch.optim.Optimizer) -> bytes"},
    {"handle", fast_handle, METH_O, "handle(tensor) -> int"},
    {"is_full", fast_is_full, METH_O, "is_full(tensor) -> bool: contiguous and the whole of its storage"},
    {"new_tensor", fast_new_tensor, METH_VARARGS, "new_tensor(handle, scalar_type, device, sizes, strides=None)"},
    {"alloc", fast_alloc, METH_VARARGS, "alloc(nbytes, device) -> handle"},
    {"resize", fast_resize, METH_VARARGS, "resize(handle, nbytes)"},
    {"take_dead", fast_take_dead, METH_NOARGS, "take_dead() -> list of handles"},
    {"probe_storage", fast_probe_storage, METH_VARARGS, "probe_storage(impl, nbytes, impl, nbytes) -> bool"},
    {"set_storage_nbytes", fast_set_storage_nbytes, METH_VARARGS, "set_storage_nbytes(impl, old, new)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_goxlafast", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__goxlafast(void) {
  static bool watching;
  if (PyType_Ready(&tgx_kernel_type) < 0) return NULL;
  char *vocabulary = tgx_vocabulary();
  bool same = strcmp(vocabulary, TGX_VOCABULARY) == 0;
  free(vocabulary);
  if (!same) return PyErr_Format(PyExc_ImportError, "the C and the Go part of the library are of different builds");
  if (!watching && pthread_atfork(NULL, NULL, after_fork_in_child) != 0) return PyErr_NoMemory();
  watching = true;
  return PyModule_Create(&module);
}
