//go:build pyext

/* Captured computations: what a call of one depends on of its arguments, and the call. A call gives the core the
 * storages of the arguments, and makes tensors of those that the computation makes. */
#include <stddef.h>
#include <string.h>

#include "pyfast.h"

/* ---- layout ---- */

/* Words before those of an argument that is not a tensor. */
enum { LAYOUT_HEADER = 3, OTHER = -1 };

/* 1 if the value of a tensor is its data, on the device; 0 if not; -1 with an exception. */
static int is_own(PyObject *tensor, const struct tgx_meta *m) {
  if (m->device_type != tgx_shim.xla) return 0;
  if (tgx_has_plain_keys(tensor)) return 1;
  for (int i = 0; i < 2; i++) {
    PyObject *bit = PyObject_CallMethod(tensor, i ? "is_neg" : "is_conj", NULL);
    int set = bit ? PyObject_IsTrue(bit) : -1;
    Py_XDECREF(bit);
    if (set) return set < 0 ? -1 : 0;
  }
  return 1;
}

int tgx_requires_grad(PyObject *tensor) {
  static PyObject *name;
  if (name == NULL && (name = PyUnicode_InternFromString("requires_grad")) == NULL) return -1;
  PyObject *answer = PyObject_GetAttr(tensor, name);
  int yes = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return yes;
}

/* Appends a tensor. handles are those of the tensors before it. 1, 0 where it cannot be captured, -1 with an exception. */
static int put_tensor(struct tgx_words *w, struct tgx_words *handles, PyObject *tensor) {
  struct tgx_meta m;
  Py_ssize_t place = 0;
  if (!tgx_is_plain_type(tensor)) return 0;
  int strided = tgx_is_strided(tensor);
  if (strided <= 0) return strided;
  if (tgx_meta_read(tensor, &m) < 0) return -1;
  int own = is_own(tensor, &m), grad = own > 0 ? tgx_requires_grad(tensor) : -1;
  Py_ssize_t nd = (Py_ssize_t)m.ndim;
  if (own <= 0) return own;
  if (grad < 0 || tgx_words_need(w, LAYOUT_HEADER + 2 * nd) < 0 || tgx_words_need(handles, 1) < 0) return -1;
  while (place < handles->n && handles->p[place] != m.handle) place++;
  handles->p[handles->n++] = m.handle;
  int64_t *p = w->p + w->n;
  p[0] = place;
  p[1] = m.scalar_type | (int64_t)grad << 8 | nd << 16;
  p[2] = m.offset;
  memcpy(p + LAYOUT_HEADER, m.sizes, (size_t)nd * sizeof *p);
  memcpy(p + LAYOUT_HEADER + nd, m.strides, (size_t)nd * sizeof *p);
  w->n += LAYOUT_HEADER + 2 * nd;
  return 1;
}

/* Appends a value of another type, which counts by itself, as put_tensor does. */
static int put_value(struct tgx_words *w, PyObject *values, PyObject *value) {
  if (tgx_words_need(w, 3) < 0) return -1;
  w->p[w->n++] = OTHER;
  w->p[w->n++] = (int64_t)(intptr_t)Py_TYPE(value); /* 1, 1.0 and True are equal; the value keeps its type alive */
  if (PyFloat_CheckExact(value)) { /* by its bits: 0.0 and -0.0 are equal too, and a NaN is not equal to itself */
    double number = PyFloat_AS_DOUBLE(value);
    memcpy(w->p + w->n++, &number, sizeof number);
    return 1;
  }
  if (PyObject_Hash(value) != -1) return PyList_Append(values, value) < 0 ? -1 : 1;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
  PyErr_Clear();
  return 0;
}

static PyObject *layout_of(PyObject *args, struct tgx_words *w, struct tgx_words *handles) {
  PyObject *values = NULL, *bytes = NULL, *key = NULL;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(args);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *a = PySequence_Fast_GET_ITEM(args, i);
    int r;
    if (PyObject_TypeCheck(a, tgx_state.tensor_type))
      r = put_tensor(w, handles, a);
    else
      r = values == NULL && (values = PyList_New(0)) == NULL ? -1 : put_value(w, values, a);
    if (r == 0) key = Py_NewRef(Py_None);
    if (r <= 0) goto done;
  }
  bytes = PyBytes_FromStringAndSize((const char *)w->p, w->n * (Py_ssize_t)sizeof *w->p);
  if (values == NULL || bytes == NULL)
    key = Py_XNewRef(bytes);
  else if (PyList_Append(values, bytes) == 0)
    key = PyList_AsTuple(values);
done:
  Py_XDECREF(bytes);
  Py_XDECREF(values);
  return key;
}

PyObject *tgx_layout(PyObject *module, PyObject *args) {
  struct tgx_words w, handles;
  (void)module;
  PyObject *fast = PySequence_Fast(args, "expected a tuple or a list");
  if (fast == NULL) return NULL;
  tgx_words_init(&w);
  tgx_words_init(&handles);
  PyObject *key = layout_of(fast, &w, &handles);
  tgx_words_free(&handles);
  tgx_words_free(&w);
  Py_DECREF(fast);
  return key;
}

PyObject *tgx_device_of(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *fast = PySequence_Fast(args, "expected a tuple or a list");
  if (fast == NULL) return NULL;
  int32_t type = 0, index = (int32_t)tgx_state.current_device;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
    PyObject *a = PySequence_Fast_GET_ITEM(fast, i);
    tgx_tensor t = PyObject_TypeCheck(a, tgx_state.tensor_type) ? tgx_borrow(a) : NULL;
    if (t == NULL || tgx_shim.aoti_torch_get_device_type(t, &type) || type != tgx_shim.xla) continue;
    tgx_shim.aoti_torch_get_device_index(t, &index);
    break;
  }
  Py_DECREF(fast);
  return PyLong_FromLong(index);
}

/* ---- replays ---- */

/* A storage that the computation makes, and the tensor over it. */
typedef struct {
  int32_t scalar_type;
  int64_t ndim, *sizes, *strides;
} result;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  int64_t id, device;
  PyObject *sync; /* (device): syncs the device, where there is more to do than the replay; NULL: no one asks */
  Py_ssize_t narguments, nresults;
  Py_ssize_t *arguments; /* places of the tensors whose storages it takes */
  result *results;
} replay;

static PyTypeObject replay_type;

static void replay_free(PyObject *self) {
  replay *r = (replay *)self;
  for (Py_ssize_t i = 0; r->results && i < r->nresults; i++) PyMem_Free(r->results[i].sizes);
  PyMem_Free(r->results);
  PyMem_Free(r->arguments);
  Py_XDECREF(r->sync);
  Py_TYPE(self)->tp_free(self);
}

static int read_result(PyObject *spec, result *to) {
  PyObject *sizes, *strides;
  if (!PyArg_ParseTuple(spec, "iO!O!", &to->scalar_type, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) return -1;
  to->ndim = PyTuple_GET_SIZE(sizes);
  if (PyTuple_GET_SIZE(strides) != to->ndim) {
    PyErr_SetString(PyExc_ValueError, "a result needs as many strides as sizes");
    return -1;
  }
  to->sizes = PyMem_Calloc((size_t)to->ndim * 2 + 1, sizeof *to->sizes);
  if (to->sizes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  to->strides = to->sizes + to->ndim;
  for (int64_t i = 0; i < to->ndim; i++) {
    to->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
    to->strides[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
  }
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *replay_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

PyObject *tgx_make_replay(PyObject *module, PyObject *args) {
  long long id, device;
  PyObject *arguments, *results, *sync;
  (void)module;
  if (!PyArg_ParseTuple(args, "LLO!O!O", &id, &device, &PyTuple_Type, &arguments, &PyTuple_Type, &results, &sync) ||
      PyType_Ready(&replay_type) < 0)
    return NULL;
  replay *r = PyObject_New(replay, &replay_type);
  if (r == NULL) return NULL;
  memset(&r->vectorcall, 0, sizeof *r - offsetof(replay, vectorcall));
  r->vectorcall = replay_call;
  r->id = id;
  r->device = device;
  r->sync = sync == Py_None ? NULL : Py_NewRef(sync);
  r->narguments = PyTuple_GET_SIZE(arguments);
  r->nresults = PyTuple_GET_SIZE(results);
  r->arguments = PyMem_Calloc((size_t)r->narguments + 1, sizeof *r->arguments);
  r->results = PyMem_Calloc((size_t)r->nresults + 1, sizeof *r->results);
  if (r->arguments == NULL || r->results == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < r->narguments && !PyErr_Occurred(); i++)
    r->arguments[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(arguments, i));
  for (Py_ssize_t i = 0; i < r->nresults && !PyErr_Occurred(); i++)
    read_result(PyTuple_GET_ITEM(results, i), &r->results[i]);
  if (PyErr_Occurred()) Py_CLEAR(r);
  return (PyObject *)r;
}

/* Puts the handles of the arguments' storages into to. */
static int take_handles(const replay *r, PyObject *args, int64_t *to) {
  for (Py_ssize_t i = 0; i < r->narguments; i++) {
    struct tgx_meta m;
    Py_ssize_t place = r->arguments[i];
    PyObject *a = place < PySequence_Fast_GET_SIZE(args) ? PySequence_Fast_GET_ITEM(args, place) : NULL;
    if (a == NULL || !PyObject_TypeCheck(a, tgx_state.tensor_type)) {
      PyErr_Format(PyExc_TypeError, "argument %zd has to be a tensor", place);
      return -1;
    }
    if (tgx_meta_read(a, &m) < 0) return -1;
    to[i] = m.handle;
  }
  return 0;
}

/* The tensors over the storages that a run has made. */
static PyObject *make_results(const replay *r, int64_t *handles) {
  PyObject *list = PyList_New(r->nresults);
  Py_ssize_t i = 0;
  for (; list && i < r->nresults; i++) {
    const result *to = &r->results[i];
    PyObject *t = tgx_new_tensor(handles[i], to->scalar_type, r->device, to->ndim, to->sizes, to->strides);
    if (t == NULL) break;
    PyList_SET_ITEM(list, i, t);
  }
  if (list && i == r->nresults) return list;
  /* The storage of the tensor that could not be made is dead by now. */
  if (list ? ++i < r->nresults : r->nresults > 0) tgx_release(handles + i, r->nresults - i);
  Py_XDECREF(list);
  return NULL;
}

static PyObject *run(const replay *r, PyObject *args, int64_t *handles, int64_t *made) {
  int64_t outcome = TGX_MISSED, status;
  if (take_handles(r, args, handles) < 0) return NULL;
  /* It may wait for an earlier program. What fails has done nothing, and is repeated with the GIL: then the error is
   * this thread's. */
  do {
    PyThreadState *state = tgx_release_gil();
    status = tgx_replay(r->id, handles, r->narguments, made, r->nresults, &outcome);
    tgx_restore_gil(state);
    if (status == TGX_FAILED) status = tgx_replay(r->id, handles, r->narguments, made, r->nresults, &outcome);
    if (status == TGX_BUSY && PyErr_CheckSignals() < 0) return NULL;
  } while (status == TGX_BUSY);
  if (status != TGX_DONE) {
    tgx_set_error();
    return NULL;
  }
  if (outcome == TGX_MISSED) Py_RETURN_NONE;
  PyObject *list = make_results(r, made);
  if (list == NULL || outcome == TGX_SYNCED || r->sync == NULL) return list;
  PyObject *device = PyLong_FromLongLong(r->device), *synced = device ? PyObject_CallOneArg(r->sync, device) : NULL;
  Py_XDECREF(device);
  if (synced == NULL) Py_CLEAR(list);
  Py_XDECREF(synced);
  return list;
}

static PyObject *replay_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  const replay *r = (replay *)self;
  struct tgx_words w;
  if (PyVectorcall_NARGS(nargsf) != 1 || kwnames) return PyErr_Format(PyExc_TypeError, "a replay takes a tuple of arguments");
  if (tgx_check_fork() < 0) return NULL;
  PyObject *fast = PySequence_Fast(args[0], "expected a tuple or a list"), *list = NULL;
  tgx_words_init(&w);
  if (fast && tgx_words_need(&w, r->narguments + r->nresults) == 0) list = run(r, fast, w.p, w.p + r->narguments);
  tgx_words_free(&w);
  Py_XDECREF(fast);
  return list;
}

static PyTypeObject replay_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.Replay",
    .tp_basicsize = sizeof(replay),
    .tp_dealloc = replay_free,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(replay, vectorcall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "A captured computation: (arguments) -> [tensors over the storages that it makes], None if it does not fit.",
};
