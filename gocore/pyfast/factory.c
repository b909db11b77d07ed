//go:build pyext

/* Tensors without a value: empty.memory_format and empty_strided, for the arguments that nearly every call
 * has. All others, and wrong ones, go to the kernels in Python. */
#include "pyfast.h"

enum { MAX_DIMS = 64 };

/* What a call asks for. */
typedef struct {
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS], ndim;
  long type, device;
} request;

enum answer { FAILED = -1, SLOW_WAY, TAKEN };

static enum answer take_enum(PyObject *value, long *number) {
  PyObject *found = PyDict_GetItemWithError(tgx_state.enums, value);
  if (found == NULL) return PyErr_Occurred() ? FAILED : SLOW_WAY;
  *number = PyLong_AsLong(found);
  return TAKEN;
}

static enum answer take_device(PyObject *value, long *device) {
  PyObject *index = PyObject_GetAttrString(value, "index");
  if (index == NULL) return FAILED;
  if (index != Py_None) *device = PyLong_AsLong(index);
  Py_DECREF(index);
  return PyErr_Occurred() ? FAILED : TAKEN;
}

/* dtype, layout, device, pin_memory or memory_format. */
static enum answer take_keyword(PyObject *name, PyObject *value, request *r) {
  const char *key = PyUnicode_AsUTF8(name);
  long ignored;
  if (key == NULL) return FAILED;
  if (value == Py_None) return TAKEN;
  if (key[0] == 'd') return key[1] == 't' ? take_enum(value, &r->type) : take_device(value, &r->device);
  if (key[0] == 'l') return take_enum(value, &ignored); /* of the layouts, only torch.strided is there */
  return value == Py_False ? TAKEN : SLOW_WAY;
}

static enum answer take_ints(PyObject *list, int64_t *to, int64_t *n) {
  if (!PyList_Check(list) && !PyTuple_Check(list)) return SLOW_WAY;
  *n = PySequence_Fast_GET_SIZE(list);
  if (*n > MAX_DIMS) return SLOW_WAY;
  for (int64_t i = 0; i < *n; i++) {
    to[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(list, i));
    if (to[i] == -1 && PyErr_Occurred()) return FAILED;
    if (to[i] < 0) return SLOW_WAY;
  }
  return TAKEN;
}

static void contiguous(request *r) {
  int64_t step = 1;
  for (int64_t i = r->ndim - 1; i >= 0; i--) {
    r->strides[i] = step;
    if (r->sizes[i] > 1 && __builtin_mul_overflow(step, r->sizes[i], &step)) step = INT64_MAX;
  }
}

/* Bytes from the first element to the last; false on overflow. */
static bool span(const request *r, int64_t *bytes) {
  int64_t elements = 1, reach;
  for (int64_t i = 0; i < r->ndim; i++) {
    if (r->sizes[i] == 0) return *bytes = 0, true;
    if (__builtin_mul_overflow(r->sizes[i] - 1, r->strides[i], &reach) ||
        __builtin_add_overflow(elements, reach, &elements))
      return false;
  }
  return !__builtin_mul_overflow(elements, tgx_item_size((int32_t)r->type), bytes);
}

static PyObject *make(const request *r, int64_t bytes, bool strided) {
  int64_t handle = 0, status;
  while ((status = tgx_alloc(bytes, r->device, &handle)) == TGX_BUSY)
    if (tgx_wait() < 0) return NULL;
  if (status == TGX_OK)
    return tgx_new_tensor(handle, (int32_t)r->type, r->device, r->ndim, r->sizes, strided ? r->strides : NULL);
  tgx_set_error();
  return NULL;
}

/* lists: 1 for sizes, 2 for sizes and strides. */
static PyObject *factory(PyObject *slow, int lists, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
  request r;
  int64_t bytes, nstrides = 0;
  enum answer a = n == lists ? TAKEN : SLOW_WAY;
  if (tgx_check_fork() < 0 || tgx_release_dead() < 0) return NULL;
  r.type = tgx_state.default_type;
  r.device = (long)tgx_state.current_device;
  if (a == TAKEN) a = take_ints(args[0], r.sizes, &r.ndim);
  if (a == TAKEN && lists == 2) a = take_ints(args[1], r.strides, &nstrides);
  Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; a == TAKEN && i < nk; i++) a = take_keyword(PyTuple_GET_ITEM(kwnames, i), args[n + i], &r);
  if (a == FAILED) return NULL;
  if (a == TAKEN && lists == 1) contiguous(&r);
  if (a == SLOW_WAY || (lists == 2 && nstrides != r.ndim) || !span(&r, &bytes))
    return PyObject_Vectorcall(slow, args, (size_t)n, kwnames);
  return make(&r, bytes, lists == 2);
}

PyObject *tgx_empty(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
  (void)module;
  return factory(tgx_state.empty, 1, args, n, kwnames);
}

PyObject *tgx_empty_strided(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
  (void)module;
  return factory(tgx_state.empty_strided, 2, args, n, kwnames);
}
