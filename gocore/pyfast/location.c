//go:build pyext

/* The Python line that called an op: the innermost frame whose file lies outside the skipped directories
 * (torch's and our own). Off by default; the core interns file and line. */

#include "pyfast.h"

enum { CACHE = 1024 };

static PyObject *skipped; /* tuple of str, each ending in a slash */

/* Direct-mapped; an entry owns its code object, so that the address cannot come to mean another. */
static struct {
  PyCodeObject *code;
  int line;
  int64_t id; /* 0: in a skipped directory */
} cache[CACHE];

PyObject *tgx_set_skipped(PyObject *module, PyObject *directories) {
  (void)module;
  if (!PyTuple_Check(directories)) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple of directories");
    return NULL;
  }
  Py_XSETREF(skipped, Py_NewRef(directories));
  for (int i = 0; i < CACHE; i++) Py_CLEAR(cache[i].code);
  Py_RETURN_NONE;
}

static bool is_skipped(PyObject *file) {
  for (Py_ssize_t i = 0; skipped && i < PyTuple_GET_SIZE(skipped); i++) {
    Py_ssize_t r = PyUnicode_Tailmatch(file, PyTuple_GET_ITEM(skipped, i), 0, PY_SSIZE_T_MAX, -1);
    if (r < 0) PyErr_Clear();
    if (r > 0) return true;
  }
  return false;
}

static int64_t site_of(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  int line = PyFrame_GetLineNumber(frame);
  size_t slot = (((uintptr_t)code >> 4) * 31 + (size_t)line) % CACHE;
  if (cache[slot].code == code && cache[slot].line == line) {
    Py_DECREF(code);
    return cache[slot].id;
  }
  Py_ssize_t n;
  const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &n);
  if (file == NULL) PyErr_Clear();
  int64_t id = file == NULL || is_skipped(code->co_filename) ? 0 : tgx_location((char *)file, n, line);
  Py_XSETREF(cache[slot].code, code);
  cache[slot].line = line;
  cache[slot].id = id;
  return id;
}

int64_t tgx_call_site(void) {
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  int64_t id = 0;
  while (frame != NULL && (id = site_of(frame)) == 0) {
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return id;
}
