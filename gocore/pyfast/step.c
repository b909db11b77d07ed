//go:build pyext

/* The end of a step: one crossing to the core syncs and waits. */
#include <stdlib.h>

#include "pyfast.h"

static PyObject *step(PyObject *const *args, Py_ssize_t n, Py_ssize_t flags, bool sync) {
  int64_t device, flag[2] = {0}, through = 0;
  if (n != 1 + flags) return PyErr_Format(PyExc_TypeError, "%zd arguments, not %zd", n, 1 + flags);
  if (tgx_check_fork() < 0) return NULL;
  device = PyLong_AsLongLong(args[0]);
  for (Py_ssize_t i = 0; i < flags; i++) flag[i] = PyObject_IsTrue(args[1 + i]);
  if (PyErr_Occurred()) return NULL;
  PyThreadState *state = tgx_release_gil();
  char *error = sync ? tgx_sync(device, flag[0], flag[1], &through) : tgx_finish(device, &through);
  tgx_restore_gil(state);
  if (error == NULL) return PyBool_FromLong(through != 0);
  PyErr_SetString(PyExc_RuntimeError, error);
  free(error);
  return NULL;
}

PyObject *tgx_sync_device(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  return step(args, n, 2, true);
}

PyObject *tgx_finish_device(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  return step(args, n, 0, false);
}
