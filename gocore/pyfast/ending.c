//go:build pyext

/* How threads end with the process.
 *
 * While an interpreter finalizes, a daemon thread that asks for the GIL is ended by pthread_exit (before CPython
 * 3.14). That unwinds its stack. Frames of torch's C++ end the process where they may not throw or touch the GIL,
 * and Go's cannot be unwound. So no other thread may wait for the GIL below such a frame when finalization begins.
 *
 * Python calls tgx_end as the last thing before that. It makes every other thread stop for good, without the GIL,
 * where it enters or leaves the core; and waits until none is in between. A thread that torch ends elsewhere, in a
 * frame that may not throw, stops at the call of std::terminate. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pyfast.h"

enum { LOOK_NS = 200000 };

static atomic_int inside;  /* threads between tgx_enter and tgx_leave */
static atomic_bool ending; /* set with the GIL */
static pthread_t ender;    /* the thread that finalizes */
static __thread int depth; /* of this thread's calls of tgx_enter */
static void (*terminate)(void);

static bool stops(void) { return atomic_load(&ending) && !pthread_equal(pthread_self(), ender); }

/* Stops this thread, which does not hold the GIL. */
static _Noreturn void stop(void) {
  if (depth > 0) atomic_fetch_sub(&inside, 1);
  for (;;) pause();
}

void tgx_enter(void) {
  if (stops()) {
    PyEval_SaveThread();
    stop();
  }
  if (depth++ == 0) atomic_fetch_add(&inside, 1);
}

void tgx_leave(void) {
  if (--depth == 0) atomic_fetch_sub(&inside, 1);
}

PyThreadState *tgx_release_gil(void) {
  tgx_enter();
  return PyEval_SaveThread();
}

void tgx_restore_gil(PyThreadState *state) {
  if (stops()) stop();
  PyEval_RestoreThread(state);
  tgx_leave();
}

/* The handler of std::terminate from tgx_end on. */
static void terminated(void) {
  if (stops()) stop();
  if (terminate) terminate();
  abort();
}

PyObject *tgx_end(PyObject *module, PyObject *milliseconds) {
  typedef void (*handler)(void);
  long looks = PyLong_AsLong(milliseconds) * (1000000 / LOOK_NS);
  (void)module;
  if (PyErr_Occurred()) return NULL;
  if (!atomic_load(&ending)) {
    handler (*set_terminate)(handler) = (handler(*)(handler))tgx_shim_symbol("_ZSt13set_terminatePFvvE");
    if (set_terminate) terminate = set_terminate(terminated);
    ender = pthread_self();
    atomic_store(&ending, true);
  }
  int self = depth > 0;
  for (; looks > 0 && atomic_load(&inside) > self; looks--) {
    Py_BEGIN_ALLOW_THREADS
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    Py_END_ALLOW_THREADS
  }
  return PyBool_FromLong(atomic_load(&inside) == self);
}

/* ---- Python functions that torch calls ---- */

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *function;
} counted;

static PyObject *counted_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  tgx_enter();
  PyObject *result = PyObject_Vectorcall(((counted *)self)->function, args, nargsf, kwnames);
  tgx_leave();
  return result;
}

static void counted_free(PyObject *self) {
  Py_DECREF(((counted *)self)->function);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject counted_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.Counted",
    .tp_basicsize = sizeof(counted),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(counted, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = counted_free,
    .tp_doc = "A Python function that the end of the process waits for; made by _goxlafast.counted().",
};

PyObject *tgx_counted(PyObject *module, PyObject *function) {
  (void)module;
  if (PyType_Ready(&counted_type) < 0) return NULL;
  counted *c = PyObject_New(counted, &counted_type);
  if (c == NULL) return NULL;
  c->vectorcall = counted_call;
  c->function = Py_NewRef(function);
  return (PyObject *)c;
}
