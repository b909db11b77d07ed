//go:build pyext

/* native_batch_norm updates its running statistics when it trains, and its schema does not say so. Of the ops whose
 * schemas do say what they update, it is one of three, by its arguments. */
#include "pyfast.h"

enum { INPUT, WEIGHT, BIAS, MEAN, VAR, TRAINING, MOMENTUM, EPS, ARGUMENTS };

/* ops: the kernels that train, that have no running statistics, and that only evaluate. */
static PyObject *batch_norm(PyObject *ops, PyObject *const *a, Py_ssize_t n) {
  if (n != ARGUMENTS)
    return PyErr_Format(PyExc_TypeError, "native_batch_norm takes %d arguments, got %zd", ARGUMENTS, n);
  if (a[MEAN] == Py_None || a[VAR] == Py_None) {
    PyObject *given[] = {a[INPUT], a[WEIGHT], a[BIAS], a[TRAINING], a[MOMENTUM], a[EPS]};
    return PyObject_Vectorcall(PyTuple_GET_ITEM(ops, 1), given, sizeof given / sizeof *given, NULL);
  }
  int training = PyObject_IsTrue(a[TRAINING]);
  if (training < 0) return NULL;
  if (training) return PyObject_Vectorcall(PyTuple_GET_ITEM(ops, 0), a, ARGUMENTS, NULL);
  PyObject *given[] = {a[INPUT], a[WEIGHT], a[BIAS], a[MEAN], a[VAR], a[MOMENTUM], a[EPS]};
  return PyObject_Vectorcall(PyTuple_GET_ITEM(ops, 2), given, sizeof given / sizeof *given, NULL);
}

static PyMethodDef definition = {"native_batch_norm", (PyCFunction)(void (*)(void))batch_norm, METH_FASTCALL, NULL};

PyObject *tgx_batch_norm(PyObject *module, PyObject *args) {
  PyObject *train, *no_stats, *evaluate;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO", &train, &no_stats, &evaluate)) return NULL;
  return PyCFunction_New(&definition, args);
}
