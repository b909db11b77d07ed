//go:build pyext

/* The element of a tensor as a Python number: where a program waits for a value, the shortest way to it. */
#include <string.h>

#include "pyfast.h"

/* A larger storage is not worth fetching for one element; and how long to wait between looks for signals. */
enum { MAX_BYTES = 4096, SLICE_MS = 50 };

static double real(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static PyObject *number(int32_t scalar_type, const int64_t *v) {
  switch (scalar_type) {
    case TGX_DTYPE_UINT8: case TGX_DTYPE_INT8: case TGX_DTYPE_INT16: case TGX_DTYPE_INT32: case TGX_DTYPE_INT64:
    case TGX_DTYPE_UINT16: case TGX_DTYPE_UINT32: return PyLong_FromLongLong(v[0]);
    case TGX_DTYPE_UINT64: return PyLong_FromUnsignedLongLong((uint64_t)v[0]);
    case TGX_DTYPE_COMPLEX64: case TGX_DTYPE_COMPLEX128: return PyComplex_FromDoubles(real(v[0]), real(v[1]));
    case TGX_DTYPE_BOOL: return PyBool_FromLong(v[0] != 0);
    default: return PyFloat_FromDouble(real(v[0]));
  }
}

/* Waits until the storage is computed. The first look keeps the GIL: most often there is nothing to wait for. */
static int await(int64_t handle) {
  int64_t ready = 0, status = tgx_ready(handle, 0, &ready);
  bool released = false;
  while (status == TGX_BUSY || (status == TGX_DONE && !ready)) {
    released = true;
    PyThreadState *state = tgx_release_gil();
    status = tgx_ready(handle, SLICE_MS, &ready);
    tgx_restore_gil(state);
    if (PyErr_CheckSignals() < 0) return -1;
  }
  if (status == TGX_DONE) return 0;
  /* Asked with the GIL, the error is this thread's. One that does not come again is not lost either. */
  if (released) tgx_ready(handle, 0, &ready);
  tgx_set_error();
  return -1;
}

int tgx_read(int64_t handle, void *to, int64_t nbytes) {
  int64_t status;
  if (await(handle) < 0) return -1;
  while ((status = tgx_fetch(handle, to, nbytes)) == TGX_BUSY)
    if (tgx_wait() < 0) return -1;
  if (status == TGX_DONE) return 0;
  tgx_set_error();
  return -1;
}

PyObject *tgx_item(PyObject *module, PyObject *tensor) {
  struct tgx_meta m;
  int64_t nbytes = 0, elements = 1, v[2];
  char data[MAX_BYTES];
  (void)module;
  if (tgx_check_fork() < 0 || tgx_meta_read(tensor, &m) < 0) return NULL;
  for (int64_t i = 0; i < m.ndim; i++) elements *= m.sizes[i];
  int64_t size = tgx_item_size(m.scalar_type), at = m.offset * size;
  bool plain = m.device_type == tgx_shim.xla && elements == 1 && size > 0 &&
               tgx_shim.aoti_torch_get_storage_size(m.owner, &nbytes) == 0;
  plain = plain && nbytes <= MAX_BYTES && at + size <= nbytes;
  if (!plain) Py_RETURN_NOTIMPLEMENTED;
  if (tgx_read(m.handle, data, nbytes) < 0) return NULL;
  if (tgx_host_value(m.scalar_type, data + at, v) < 0) Py_RETURN_NOTIMPLEMENTED;
  return number(m.scalar_type, v);
}

/* ---- wrapped numbers ---- */

/* The attribute Tensor._wrapped_number. torch makes a tensor of the number in `x + 1`, and asks that tensor
 * for this attribute when it hands the number to a Python kernel; without it, torch builds an AttributeError
 * for every such call before it reads the value itself. This has no __set__: what torch sets on a tensor
 * (for a symbolic number) comes first. */
static PyObject *wrapped_number(PyObject *self, PyObject *tensor, PyObject *type) {
  struct tgx_meta m = {0};
  int64_t v[2];
  (void)type;
  if (tensor == NULL || tensor == Py_None) return Py_NewRef(self);
  bool readable = tgx_meta_read(tensor, &m) == 0;
  bool is_number = m.scalar_type == TGX_DTYPE_INT64 || m.scalar_type == TGX_DTYPE_FLOAT64 ||
                   m.scalar_type == TGX_DTYPE_COMPLEX128 || m.scalar_type == TGX_DTYPE_BOOL;
  if (readable && is_number && m.device_type == tgx_shim.cpu && m.ndim == 0 && m.handle != 0 &&
      tgx_host_value(m.scalar_type, (const void *)(intptr_t)m.handle, v) == 0)
    return number(m.scalar_type, v);
  PyErr_SetString(PyExc_AttributeError, "_wrapped_number");
  return NULL;
}

/* torch's list of overridable functions looks __set__ up on what has __get__. It is a method here and no slot, so
 * that setting the attribute of a tensor still does what it does without us. */
static PyObject *no_setter(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  PyErr_SetString(PyExc_AttributeError, "_wrapped_number is set on tensors, not through its descriptor");
  return NULL;
}

static PyMethodDef wrapped_number_methods[] = {
    {"__set__", no_setter, METH_VARARGS, "AttributeError"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject wrapped_number_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.WrappedNumber",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_descr_get = wrapped_number,
    .tp_methods = wrapped_number_methods,
    .tp_doc = "Tensor._wrapped_number: the number of a CPU tensor without dimensions.",
};

PyObject *tgx_wrapped_number(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  if (PyType_Ready(&wrapped_number_type) < 0) return NULL;
  return PyObject_New(PyObject, &wrapped_number_type);
}
