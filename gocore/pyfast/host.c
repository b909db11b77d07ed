//go:build pyext

/* Small tensors of the device as tensors of the host: the shortest way from a program's result to its reader. */
#include "pyfast.h"

enum { MAX_READ = 1 << 16 /* bytes copied while other Python threads wait */ };

static struct {
  PyObject *empty, *device, *names; /* torch.empty, the CPU, the keywords dtype and device */
  PyObject *dtypes;                 /* dict: number -> torch.dtype */
} host;

PyObject *tgx_setup_host(PyObject *module, PyObject *args) {
  PyObject *empty, *device, *dtypes;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO!", &empty, &device, &PyDict_Type, &dtypes)) return NULL;
  if (host.names == NULL && (host.names = Py_BuildValue("(ss)", "dtype", "device")) == NULL) return NULL;
  Py_XSETREF(host.empty, Py_NewRef(empty));
  Py_XSETREF(host.device, Py_NewRef(device));
  Py_XSETREF(host.dtypes, Py_NewRef(dtypes));
  Py_RETURN_NONE;
}

/* A tensor of the CPU that is not written yet. */
static PyObject *empty_like(const struct tgx_meta *m) {
  PyObject *number = PyLong_FromLong(m->scalar_type), *sizes = PyTuple_New((Py_ssize_t)m->ndim), *tensor = NULL;
  PyObject *dtype = number ? PyDict_GetItemWithError(host.dtypes, number) : NULL;
  for (Py_ssize_t i = 0; sizes && i < m->ndim; i++) {
    PyObject *n = PyLong_FromLongLong(m->sizes[i]);
    if (n == NULL) Py_CLEAR(sizes);
    else PyTuple_SET_ITEM(sizes, i, n);
  }
  if (sizes && dtype) tensor = PyObject_Vectorcall(host.empty, (PyObject *[]){sizes, dtype, host.device}, 1, host.names);
  Py_XDECREF(sizes);
  Py_XDECREF(number);
  return tensor;
}

/* Copies a whole storage to the memory of a tensor of the CPU. */
static int fill(PyObject *tensor, int64_t handle, int64_t nbytes) {
  struct tgx_meta m;
  const void *data = NULL;
  if (tgx_meta_read(tensor, &m) < 0) return -1;
  int failed = tgx_shim.torch_get_const_data_ptr(m.owner, &data);
  if (!failed) return tgx_read(handle, (void *)data, nbytes);
  PyErr_SetString(PyExc_RuntimeError, tgx_shim.torch_exception_get_what_without_backtrace());
  return -1;
}

PyObject *tgx_cpu(PyObject *module, PyObject *tensor) {
  struct tgx_meta m;
  int64_t nbytes = 0;
  (void)module;
  if (host.empty == NULL || !tgx_is_plain(tensor)) Py_RETURN_NOTIMPLEMENTED;
  if (tgx_check_fork() < 0 || tgx_meta_read(tensor, &m) < 0) return NULL;
  PyObject *to = NULL;
  bool here = tgx_is_full(&m, &nbytes) && nbytes > 0 && nbytes <= MAX_READ;
  if (here) to = empty_like(&m);
  if (to && fill(to, m.handle, nbytes) < 0) Py_CLEAR(to);
  return to || PyErr_Occurred() ? to : Py_NewRef(Py_NotImplemented);
}
