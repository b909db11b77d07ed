//go:build pyext

/* Tensors without a value: empty.memory_format and empty_strided, for the arguments that nearly every call
 * has. All others, and wrong ones, go to the kernels in Python. And tensors with the value of a small CPU tensor. */
#include <string.h>

#include "pyfast.h"

enum { MAX_DIMS = 64, MAX_PLACED = 4096 /* bytes copied while other Python threads wait */ };

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
  if (status == TGX_DONE)
    return tgx_new_tensor(handle, (int32_t)r->type, r->device, r->ndim, r->sizes, strided ? r->strides : NULL);
  tgx_set_error();
  return NULL;
}

/* Whether torch.use_deterministic_algorithms is on, so that memory may have to be filled; -1 on an error. */
static int is_deterministic(void) {
  PyObject *on = PyObject_CallNoArgs(tgx_state.deterministic);
  if (on == NULL) return -1;
  Py_DECREF(on); /* True and False are never freed */
  return on == Py_True;
}

/* lists: 1 for sizes, 2 for sizes and strides. */
static PyObject *factory(PyObject *slow, int lists, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
  request r;
  int64_t bytes, nstrides = 0;
  int deterministic = is_deterministic();
  enum answer a = n == lists && !deterministic ? TAKEN : SLOW_WAY;
  if (deterministic < 0 || tgx_check_fork() < 0 || tgx_release_dead() < 0) return NULL;
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

/* ---- to(device) ---- */

enum { ANOTHER_DEVICE = -2, CURRENT_DEVICE = -1 };

/* The device that text names: xla, xla:0 … xla:9. */
static int named(PyObject *text) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(text, &n);
  if (s == NULL || strncmp(s, "xla", 3) != 0) return ANOTHER_DEVICE;
  if (n == 3) return CURRENT_DEVICE;
  return n == 5 && s[3] == ':' && s[4] >= '0' && s[4] <= '9' ? s[4] - '0' : ANOTHER_DEVICE;
}

/* A str or a torch.device. Programs name a device by one object again and again. */
static int device_of(PyObject *object) {
  static PyObject *last;
  static int number;
  if (object == last) return number;
  PyObject *text = PyUnicode_CheckExact(object) ? Py_NewRef(object)
                   : strcmp(Py_TYPE(object)->tp_name, "torch.device") == 0 ? PyObject_Str(object)
                                                                          : NULL;
  if (text == NULL) return ANOTHER_DEVICE;
  number = named(text);
  Py_DECREF(text);
  Py_XSETREF(last, Py_NewRef(object));
  return number;
}

static bool is_dense(const struct tgx_meta *m, int64_t *elements) {
  *elements = 1;
  for (int64_t i = m->ndim - 1; i >= 0; i--) {
    if (m->sizes[i] != 1 && m->strides[i] != *elements) return false;
    *elements *= m->sizes[i];
  }
  return true;
}

static PyObject *place(PyObject *tensor, int64_t device) {
  int64_t handle = 0, status, elements;
  struct tgx_meta m;
  const void *data;
  int64_t *strides;
  if (tgx_meta_read(tensor, &m) < 0) return NULL;
  int64_t item = tgx_item_size(m.scalar_type);
  if (tgx_shim.aoti_torch_get_strides(m.owner, &strides) || tgx_shim.torch_get_const_data_ptr(m.owner, &data)) return NULL;
  m.strides = strides;
  if (item == 0 || data == NULL || !is_dense(&m, &elements) || elements * item > MAX_PLACED) return NULL;
  while ((status = tgx_place((void *)data, m.scalar_type, (int64_t *)m.sizes, m.ndim, device, &handle)) == TGX_BUSY)
    if (tgx_wait() < 0) return NULL;
  if (status == TGX_DONE) return tgx_new_tensor(handle, m.scalar_type, device, m.ndim, m.sizes, NULL);
  tgx_set_error();
  return NULL;
}

PyObject *tgx_to(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  int device = n == 2 ? device_of(args[1]) : ANOTHER_DEVICE;
  PyObject *r = NULL;
  if (device != ANOTHER_DEVICE && tgx_is_plain_host(args[0])) {
    if (tgx_release_dead() < 0) return NULL;
    r = place(args[0], device == CURRENT_DEVICE ? tgx_state.current_device : device);
  }
  return r || PyErr_Occurred() ? r : Py_NewRef(Py_NotImplemented);
}
