//go:build pyext

/* The Python line that called an op: the innermost frame whose file lies outside the skipped directories
 * (torch's and our own). The core interns file and line.
 *
 * It is asked for at every op, from under a dozen frames of torch.nn. CPython's interface makes an object of every
 * frame that is looked at, which costs more than the op; so the frames are read as the interpreter keeps them,
 * which its headers describe for each version. */

#include "pyfast.h"

enum { CACHE = 4096 };

#if PY_VERSION_HEX < 0x030E0000 /* the headers that this was written for */

#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

typedef struct _PyInterpreterFrame frame;

static frame *complete(frame *f) {
  while (f != NULL && _PyFrame_IsIncomplete(f)) f = f->previous;
  return f;
}

static frame *innermost(PyThreadState *thread) {
#if PY_VERSION_HEX < 0x030D0000
  return complete(thread->cframe->current_frame);
#else
  return complete(thread->current_frame);
#endif
}

static frame *outer(frame *f) { return complete(f->previous); }

static PyCodeObject *code_of(frame *f) {
#if PY_VERSION_HEX < 0x030D0000
  return f->f_code;
#else
  return _PyFrame_GetCode(f);
#endif
}

/* The byte of the code that runs. */
static int place_of(frame *f) { return _PyInterpreterFrame_LASTI(f) * (int)sizeof(_Py_CODEUNIT); }

static void let_go(frame *f) { (void)f; }

#else

typedef PyFrameObject frame;

static frame *innermost(PyThreadState *thread) { return PyThreadState_GetFrame(thread); }

static frame *outer(frame *f) {
  frame *back = PyFrame_GetBack(f);
  Py_DECREF(f);
  return back;
}

static PyCodeObject *code_of(frame *f) {
  PyCodeObject *code = PyFrame_GetCode(f);
  Py_DECREF(code); /* the frame keeps it */
  return code;
}

static int place_of(frame *f) { return PyFrame_GetLasti(f); }

static void let_go(frame *f) { Py_XDECREF(f); }

#endif

static PyObject *skipped; /* tuple of str, each ending in a slash */

/* Direct-mapped; an entry owns its code object, so that the address cannot come to mean another. */
static struct {
  PyCodeObject *code;
  int place;
  int32_t id; /* 0: in a skipped directory */
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

static int32_t find_line(PyCodeObject *code, int place) {
  Py_ssize_t n;
  const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &n);
  if (file == NULL) PyErr_Clear();
  if (file == NULL || is_skipped(code->co_filename)) return 0;
  return (int32_t)tgx_location((char *)file, n, PyCode_Addr2Line(code, place));
}

static int32_t line_of(frame *f) {
  PyCodeObject *code = code_of(f);
  int place = place_of(f);
  size_t slot = (((uintptr_t)code >> 4) * 31 + (size_t)place) % CACHE;
  if (cache[slot].code != code || cache[slot].place != place) {
    PyCodeObject *old = cache[slot].code;
    int32_t id = find_line(code, place);
    cache[slot].code = (PyCodeObject *)Py_NewRef(code);
    cache[slot].place = place;
    cache[slot].id = id;
    Py_XDECREF(old); /* last: it may call what watches the object */
    return id;
  }
  return cache[slot].id;
}

int32_t tgx_call_site(void) {
  frame *f = innermost(PyThreadState_Get());
  int32_t id = 0;
  while (f != NULL && (id = line_of(f)) == 0) f = outer(f);
  let_go(f);
  return id;
}
