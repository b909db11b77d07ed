//go:build pyext

/* Kernels: one callable object per ATen overload, given to torch.library as the op's implementation.
 *
 * A kernel holds a plan made once by Python from torch's schema. It has the parameters of the overload,
 * and the arguments of the row of the op table, in the row's order. It says what happens to each result
 * of the row, and what the overload returns. A call binds, encodes and traces; it allocates the result tensors only. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pyfast.h"

enum { OUT_WORDS = 1024, LIST_OUT_WORDS = 1 << 17, MAX_RESULTS = 32, MAX_RESIZES = 8 };

typedef struct {
  PyObject *name; /* interned */
  bool keyword_only, required;
} param;

/* One argument of the row. Without a parameter, or where the caller gave none, it is these words. */
typedef struct {
  int32_t param; /* -1: a constant */
  enum tgx_type type;
  bool each; /* of a list parameter, the element at hand */
  int64_t *words;
  Py_ssize_t n;
} row_arg;

typedef struct {
  int32_t mode, param;
} destination;

enum shape { RETURN_NONE, RETURN_ONE, RETURN_TUPLE, RETURN_LIST };

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *name;
  int64_t row;
  int lazy; /* TGX_LAZY_* */
  bool each; /* foreach: the row runs once per element of the list parameters */
  int32_t nparams, npositional, nargs, ndestinations, nreturns;
  enum shape shape;
  param *params;
  row_arg *args;
  destination *destinations;
  int32_t *returns; /* r >= 0: result r of the row; -1-p: parameter p itself */
} kernel;

/* ---- binding ---- */

static int find_param(const kernel *k, PyObject *name) {
  for (int i = 0; i < k->nparams; i++)
    if (k->params[i].name == name) return i;
  for (int i = 0; i < k->nparams; i++)
    if (PyUnicode_Compare(k->params[i].name, name) == 0) return i;
  PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument '%U'", k->name, name);
  return -1;
}

/* Fills v with borrowed references, NULL where the default holds. */
static int bind(const kernel *k, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **v) {
  if (n > k->npositional) {
    PyErr_Format(PyExc_TypeError, "%U() takes %d positional arguments but %zd were given", k->name, (int)k->npositional,
                 n);
    return -1;
  }
  memcpy(v, args, (size_t)n * sizeof *v);
  memset(v + n, 0, (size_t)(k->nparams - n) * sizeof *v);
  Py_ssize_t nk = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < nk; i++) {
    int p = find_param(k, PyTuple_GET_ITEM(kwnames, i));
    if (p < 0) return -1;
    if (v[p] != NULL) {
      PyErr_Format(PyExc_TypeError, "%U() got multiple values for argument '%U'", k->name, k->params[p].name);
      return -1;
    }
    v[p] = args[n + i];
  }
  for (Py_ssize_t i = n; i < k->nparams; i++) {
    if (v[i] == NULL && k->params[i].required) {
      PyErr_Format(PyExc_TypeError, "%U() missing argument '%U'", k->name, k->params[i].name);
      return -1;
    }
  }
  return 0;
}

/* ---- encoding of a call ---- */

static PyObject *pick(PyObject *arg, bool each, Py_ssize_t element) {
  return each && arg != NULL ? PySequence_Fast_GET_ITEM(arg, element) : arg;
}

static int put_words(struct tgx_words *w, const int64_t *p, Py_ssize_t n) {
  if (tgx_words_need(w, n) < 0) return -1;
  memcpy(w->p + w->n, p, (size_t)n * sizeof *p);
  w->n += n;
  return 0;
}

/* Appends the record of one traced op. For an element of a foreach, v holds the lists. */
static int encode_record(const kernel *k, PyObject *const *v, Py_ssize_t element, struct tgx_call *c) {
  struct tgx_words *w = &c->words;
  Py_ssize_t start = w->n;
  if (tgx_words_need(w, TGX_HEAD_WORDS) < 0) return -1;
  int64_t *head = w->p + start;
  head[TGX_HEAD_ROW] = k->row;
  head[TGX_HEAD_ARGS] = k->nargs;
  head[TGX_HEAD_DISPOSITIONS] = k->ndestinations;
  head[TGX_HEAD_LOCATION] = tgx_call_site();
  head[TGX_HEAD_ELEMENT] = element;
  w->n += TGX_HEAD_WORDS;
  for (int i = 0; i < k->nargs; i++) {
    const row_arg *a = &k->args[i];
    PyObject *arg = a->param < 0 ? NULL : pick(v[a->param], a->each, element);
    if ((arg ? tgx_encode(c, a->type, arg) : put_words(w, a->words, a->n)) < 0) return -1;
  }
  for (int i = 0; i < k->ndestinations; i++) {
    const destination *d = &k->destinations[i];
    int64_t mode = d->mode;
    if (put_words(w, &mode, 1) < 0) return -1;
    if ((mode & TGX_DISPOSITION_MASK) != TGX_WRITE) continue;
    PyObject *target = pick(v[d->param], k->each, element);
    Py_ssize_t at = w->n;
    if (target == NULL || tgx_encode(c, TGX_T_TENSOR, target) < 0) return -1;
    if (at == w->n || (w->p[at] & TGX_KIND_MASK) != TGX_TENSOR) c->fallback = true; /* a CPU tensor is not written here */
  }
  w->p[start + TGX_HEAD_DEVICE] = c->on_device ? -1 : tgx_state.current_device;
  return 0;
}

/* ---- the core call ---- */

static PyObject *tuple_of(const int64_t *numbers, int64_t n) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)n);
  for (int64_t i = 0; tuple && i < n; i++) {
    PyObject *x = PyLong_FromLongLong(numbers[i]);
    if (x == NULL) Py_CLEAR(tuple);
    else PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, x);
  }
  return tuple;
}

static int resize_destination(const kernel *k, PyObject *const *v, const int64_t *out) {
  int64_t d = out[TGX_RESIZE_DISPOSITION], ndim = out[TGX_RESIZE_RANK] & ~TGX_STRIDED;
  if (d < 0 || d >= k->ndestinations || ndim < 0 || ndim > TGX_MAX_DIMS) {
    PyErr_Format(PyExc_SystemError, "%U: the core asks for a resize of destination %lld", k->name, (long long)d);
    return -1;
  }
  const int64_t *dims = out + TGX_RESIZE_SIZES;
  PyObject *sizes = tuple_of(dims, ndim), *r = NULL;
  PyObject *strides = out[TGX_RESIZE_RANK] & TGX_STRIDED ? tuple_of(dims + ndim, ndim) : Py_NewRef(Py_None);
  tgx_enter();
  if (sizes && strides) {
    PyObject *quiet = out[TGX_RESIZE_QUIET] ? Py_True : Py_False;
    r = PyObject_CallFunctionObjArgs(tgx_state.resize_out, v[k->destinations[d].param], sizes, quiet, strides, NULL);
  }
  tgx_leave();
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(r);
  return r ? 0 : -1;
}

/* TGX_DONE or TGX_RESIZE, or -1 with an exception; *refused if the core has no lowering for it. */
static int trace(int64_t *words, Py_ssize_t n, int64_t *out, int64_t cap, bool *refused) {
  for (;;) {
    int64_t status = tgx_trace(words, n, out, cap);
    if (status == TGX_DONE || status == TGX_RESIZE) return (int)status;
    if (status != TGX_BUSY) {
      if (tgx_set_error() == TGX_NOT_LOWERED_ERROR) *refused = true;
      return -1;
    }
    if (tgx_wait() < 0) return -1;
  }
}

/* Takes the next result off out; *result is NULL where there is none. */
static int next_result(int64_t **out, PyObject **result) {
  int64_t *p = *out, handle = p[TGX_RESULT_HANDLE], ndim;
  *result = NULL;
  if (handle == 0) {
    *out = p + 1;
    return 0;
  }
  bool strided = p[TGX_RESULT_RANK] & TGX_STRIDED;
  ndim = p[TGX_RESULT_RANK] & ~TGX_STRIDED;
  const int64_t *sizes = p + TGX_RESULT_SIZES;
  *out = p + TGX_RESULT_SIZES + (strided ? 2 * ndim : ndim);
  *result = tgx_new_tensor(handle, (int32_t)p[TGX_RESULT_TYPE], p[TGX_RESULT_DEVICE], ndim, sizes, strided ? sizes + ndim : NULL);
  return *result ? 0 : -1;
}

/* Fills results; after a failure the rest of the core's results still become tensors, to be released. */
static int take_results(int64_t *out, PyObject **results, int64_t n) {
  int failed = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!failed) {
      failed = next_result(&out, &results[i]);
      continue;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (next_result(&out, &results[i]) < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  return failed;
}

/* ---- what the overload returns ---- */

static PyObject *return_value(const kernel *k, PyObject *const *v, PyObject **results, int which) {
  int r = k->returns[which];
  PyObject *o = r >= 0 ? results[r] : v[-1 - r];
  return Py_NewRef(o ? o : Py_None);
}

static PyObject *build_return(const kernel *k, PyObject *const *v, PyObject **results) {
  if (k->shape == RETURN_NONE) Py_RETURN_NONE;
  if (k->shape == RETURN_ONE) return return_value(k, v, results, 0);
  PyObject *tuple = PyTuple_New(k->nreturns);
  for (int i = 0; tuple && i < k->nreturns; i++) PyTuple_SET_ITEM(tuple, i, return_value(k, v, results, i));
  return tuple;
}

static PyObject *fixed_results(const kernel *k, PyObject *const *v, int64_t *out) {
  PyObject *results[MAX_RESULTS] = {NULL}, *r = NULL;
  if (out[0] < k->ndestinations || out[0] > MAX_RESULTS)
    PyErr_Format(PyExc_SystemError, "%U: the core gave %lld results", k->name, (long long)out[0]);
  else if (take_results(out + 1, results, out[0]) == 0)
    r = build_return(k, v, results);
  for (int i = 0; i < MAX_RESULTS; i++) Py_XDECREF(results[i]);
  return r;
}

static PyObject *list_results(int64_t *out) {
  PyObject *list = PyList_New((Py_ssize_t)out[0]);
  if (list == NULL) return NULL;
  int64_t *p = out + 1;
  for (int64_t i = 0; i < out[0]; i++) {
    PyObject *item;
    if (next_result(&p, &item) < 0) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item ? item : Py_NewRef(Py_None));
  }
  return list;
}

/* ---- calls ---- */

static PyObject *call_once(const kernel *k, PyObject *const *v, struct tgx_call *c) {
  int64_t local[OUT_WORDS], *out = local, cap = OUT_WORDS;
  PyObject *result = NULL;
  if (k->shape == RETURN_LIST) {
    cap = LIST_OUT_WORDS;
    out = malloc((size_t)cap * sizeof *out);
    if (out == NULL) return PyErr_NoMemory();
  }
  for (int round = 0;; round++) {
    c->words.n = 0;
    if (encode_record(k, v, 0, c) < 0 || c->fallback) break;
    int status = trace(c->words.p, c->words.n, out, cap, &c->fallback);
    if (status == TGX_DONE) {
      result = k->shape == RETURN_LIST ? list_results(out) : fixed_results(k, v, out);
      break;
    }
    if (status < 0 || resize_destination(k, v, out) < 0) break;
    if (round == MAX_RESIZES) {
      PyErr_Format(PyExc_SystemError, "%U: the core does not accept the resized output", k->name);
      break;
    }
  }
  if (out != local) free(out);
  return result;
}

/* The common length of the list parameters. */
static Py_ssize_t list_length(const kernel *k, PyObject *const *v) {
  Py_ssize_t n = -1;
  for (int i = 0; i < k->nargs; i++) {
    const row_arg *a = &k->args[i];
    PyObject *list = a->param < 0 || !a->each ? NULL : v[a->param];
    if (list == NULL) continue;
    if (!PyList_Check(list) && !PyTuple_Check(list)) {
      PyErr_Format(PyExc_TypeError, "%U: expected a list, got %s", k->name, Py_TYPE(list)->tp_name);
      return -1;
    }
    Py_ssize_t m = PySequence_Fast_GET_SIZE(list);
    if (n >= 0 && m != n) {
      const char *text = a->type == TGX_T_TENSOR
                             ? "Tensor lists must have the same number of tensors, got %zd and %zd"
                             : "Tensor list must have same number of elements as scalar list, got %zd and %zd";
      PyErr_Format(PyExc_RuntimeError, text, n, m);
      return -1;
    }
    n = m;
  }
  if (n <= 0) PyErr_SetString(PyExc_RuntimeError, "Tensor list must have at least one tensor.");
  return n <= 0 ? -1 : n;
}

/* Traces the records between consecutive starts; each gives one tensor, or none if it writes. *traced is how many
 * were. */
static PyObject *trace_each(const kernel *k, struct tgx_call *c, const Py_ssize_t *starts, Py_ssize_t n, Py_ssize_t *traced) {
  int64_t out[OUT_WORDS];
  PyObject *list = k->shape == RETURN_NONE ? Py_NewRef(Py_None) : PyList_New(n);
  *traced = 0;
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *item = NULL;
    bool refused = false;
    int status = trace(c->words.p + starts[i], starts[i + 1] - starts[i], out, OUT_WORDS, &refused);
    c->fallback = refused && i == 0; /* later, elements have been written */
    if (status == TGX_RESIZE) PyErr_Format(PyExc_SystemError, "%U: the core asks for a resize", k->name);
    if (status != TGX_DONE || take_results(out + 1, &item, 1) < 0)
      Py_CLEAR(list);
    else if (k->shape != RETURN_NONE)
      PyList_SET_ITEM(list, i, item ? item : Py_NewRef(Py_None));
    *traced = i + (list != NULL);
  }
  return list;
}

/* Torch's kernels call the op of each element, which counts its writes; ours must, those before a failure too.
 * The first n tensors were written. An exception that is set stays. Steals result. */
static PyObject *written(PyObject *tensors, Py_ssize_t n, PyObject *result) {
  PyObject *type, *why, *traceback;
  PyErr_Fetch(&type, &why, &traceback);
  PyObject *first = PySequence_GetSlice(tensors, 0, n);
  PyObject *done = first ? PyObject_CallOneArg(tgx_state.increment_version, first) : NULL;
  if (done == NULL) Py_CLEAR(result);
  Py_XDECREF(done);
  Py_XDECREF(first);
  if (type) PyErr_Restore(type, why, traceback);
  return result;
}

/* All records are encoded before the first is traced: what can be refused is refused before any write. */
static PyObject *call_each(const kernel *k, PyObject *const *v, struct tgx_call *c) {
  Py_ssize_t n = list_length(k, v);
  if (n < 0) return NULL;
  Py_ssize_t *starts = PyMem_Malloc((size_t)(n + 1) * sizeof *starts);
  if (starts == NULL) return PyErr_NoMemory();
  PyObject *result = NULL;
  Py_ssize_t i = 0;
  for (; i < n; i++) {
    starts[i] = c->words.n;
    if (encode_record(k, v, i, c) < 0 || c->fallback) break;
  }
  if (i == n) {
    starts[n] = c->words.n;
    Py_ssize_t traced;
    result = trace_each(k, c, starts, n, &traced);
    if (traced && k->shape == RETURN_NONE) result = written(v[k->destinations[0].param], traced, result);
  }
  PyMem_Free(starts);
  return result;
}

/* Python decides about what cannot be recorded; the exception that is set, if any, is the reason why not. */
static PyObject *call_otherwise(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
  PyObject *type, *why, *traceback;
  PyErr_Fetch(&type, &why, &traceback);
  if (type) PyErr_NormalizeException(&type, &why, &traceback);
  PyObject *tuple = PyTuple_New(n), *dict = PyDict_New(), *r = NULL;
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  Py_ssize_t nk = dict && kwnames ? PyTuple_GET_SIZE(kwnames) : 0, i = 0;
  while (i < nk && PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), args[n + i]) == 0) i++;
  tgx_enter();
  if (tuple && dict && i == nk)
    r = PyObject_CallFunctionObjArgs(tgx_state.fallback, self, tuple, dict, why ? why : Py_None, NULL);
  tgx_leave();
  Py_XDECREF(type);
  Py_XDECREF(why);
  Py_XDECREF(traceback);
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  return r;
}

static PyObject *kernel_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  const kernel *k = (const kernel *)self;
  PyObject *v[TGX_MAX_ARGS];
  struct tgx_call c;
  if (tgx_check_fork() < 0 || bind(k, args, PyVectorcall_NARGS(nargsf), kwnames, v) < 0 || tgx_release_dead() < 0)
    return NULL;
  tgx_words_init(&c.words);
  c.op = PyUnicode_AsUTF8(k->name);
  c.lazy = k->lazy;
  c.on_device = c.fallback = c.direct = false;
  PyObject *r = (k->each ? call_each : call_once)(k, v, &c);
  tgx_words_free(&c.words);
  if (r != NULL || !c.fallback) return r;
  return call_otherwise(self, args, PyVectorcall_NARGS(nargsf), kwnames);
}

/* ---- calls past the dispatcher ---- */

Py_ssize_t tgx_direct_operands(PyObject *object) {
  const kernel *k = (const kernel *)object;
  if (!Py_IS_TYPE(object, &tgx_kernel_type) || k->each || k->shape != RETURN_ONE || k->ndestinations != 1) return 0;
  return k->npositional;
}

/* TGX_DONE, TGX_FAILED, or -1 with an exception. */
static int trace_direct(const struct tgx_call *c, int64_t *out, int64_t cap) {
  int64_t status;
  while ((status = tgx_trace(c->words.p, c->words.n, out, cap)) == TGX_BUSY)
    if (tgx_wait() < 0) return -1;
  return status == TGX_DONE ? TGX_DONE : TGX_FAILED;
}

PyObject *tgx_call_direct(PyObject *object, PyObject *const *operands, Py_ssize_t n) {
  const kernel *k = (const kernel *)object;
  PyObject *v[TGX_MAX_ARGS] = {NULL}, *r = NULL;
  struct tgx_call c;
  int64_t out[OUT_WORDS];
  if (tgx_release_dead() < 0) return NULL;
  memcpy(v, operands, (size_t)n * sizeof *v);
  tgx_words_init(&c.words);
  c.op = NULL;
  c.lazy = 0;
  c.on_device = c.fallback = false;
  c.direct = true;
  if (encode_record(k, v, 0, &c) < 0)
    PyErr_Clear();
  else if (!c.fallback && c.on_device && trace_direct(&c, out, OUT_WORDS) == TGX_DONE)
    r = fixed_results(k, v, out);
  tgx_words_free(&c.words);
  if (r != NULL && k->destinations[0].mode == TGX_WRITE && tgx_bump_version(v[k->destinations[0].param]) < 0)
    Py_CLEAR(r);
  return r;
}

/* ---- the type ---- */

static void kernel_dealloc(PyObject *self) {
  kernel *k = (kernel *)self;
  for (int i = 0; k->params && i < k->nparams; i++) Py_XDECREF(k->params[i].name);
  for (int i = 0; k->args && i < k->nargs; i++) PyMem_Free(k->args[i].words);
  PyMem_Free(k->params);
  PyMem_Free(k->args);
  PyMem_Free(k->destinations);
  PyMem_Free(k->returns);
  Py_XDECREF(k->name);
  PyObject_Free(self);
}

static PyObject *kernel_repr(PyObject *self) { return PyUnicode_FromFormat("<kernel %U>", ((kernel *)self)->name); }

static PyObject *kernel_name(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((kernel *)self)->name);
}

static PyGetSetDef kernel_attributes[] = {
    {"name", kernel_name, NULL, "name of the overload, as in add.Tensor", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject tgx_kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.Kernel",
    .tp_basicsize = sizeof(kernel),
    .tp_dealloc = kernel_dealloc,
    .tp_repr = kernel_repr,
    .tp_getset = kernel_attributes,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(kernel, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_doc = "The implementation of one ATen overload; made by _goxlafast.kernel().",
};

/* ---- making one ---- */

static void *table(Py_ssize_t n, size_t size) {
  void *p = PyMem_Calloc((size_t)(n ? n : 1), size);
  if (p == NULL) PyErr_NoMemory();
  return p;
}

/* params: [(name, keyword_only, required)] */
static int read_params(kernel *k, PyObject *list) {
  Py_ssize_t n = PyList_GET_SIZE(list);
  if (n > TGX_MAX_ARGS) {
    PyErr_Format(PyExc_ValueError, "%U has %zd parameters, at most %d are possible", k->name, n, TGX_MAX_ARGS);
    return -1;
  }
  if ((k->params = table(n, sizeof *k->params)) == NULL) return -1;
  k->nparams = (int32_t)n;
  for (Py_ssize_t i = 0; i < n; i++) {
    int keyword_only, required;
    PyObject *name;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "Upp", &name, &keyword_only, &required)) return -1;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    k->params[i] = (param){name, keyword_only, required};
    if (!keyword_only) k->npositional = (int32_t)(i + 1);
  }
  return 0;
}

/* args: [(param or -1, type, each, default or constant)] */
static int read_args(kernel *k, PyObject *list) {
  Py_ssize_t n = PyList_GET_SIZE(list);
  if ((k->args = table(n, sizeof *k->args)) == NULL) return -1;
  k->nargs = (int32_t)n;
  for (Py_ssize_t i = 0; i < n; i++) {
    int p, type, each;
    PyObject *value;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "iipO", &p, &type, &each, &value)) return -1;
    if (p < -1 || p >= k->nparams || type < 0 || type >= TGX_T_COUNT) {
      PyErr_Format(PyExc_ValueError, "%U: argument %zd: bad parameter %d or type %d", k->name, i, p, type);
      return -1;
    }
    struct tgx_call c = {.op = PyUnicode_AsUTF8(k->name)};
    tgx_words_init(&c.words);
    row_arg *a = &k->args[i];
    *a = (row_arg){p, (enum tgx_type)type, each, NULL, 0};
    int r = tgx_encode(&c, a->type, value);
    if (r == 0 && (a->words = table(c.words.n, sizeof(int64_t))) != NULL) {
      memcpy(a->words, c.words.p, (size_t)c.words.n * sizeof(int64_t));
      a->n = c.words.n;
    }
    tgx_words_free(&c.words);
    if (a->words == NULL) return -1;
  }
  return 0;
}

/* destinations: [(mode, param)] */
static int read_destinations(kernel *k, PyObject *list) {
  Py_ssize_t n = PyList_GET_SIZE(list);
  if ((k->destinations = table(n, sizeof *k->destinations)) == NULL) return -1;
  k->ndestinations = (int32_t)n;
  for (Py_ssize_t i = 0; i < n; i++) {
    int mode, p;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "ii", &mode, &p)) return -1;
    bool writes = (mode & TGX_DISPOSITION_MASK) == TGX_WRITE;
    if (n > MAX_RESULTS || (writes && (p < 0 || p >= k->nparams || !k->params[p].required))) {
      PyErr_Format(PyExc_ValueError, "%U: destination %zd: bad parameter %d", k->name, i, p);
      return -1;
    }
    k->destinations[i] = (destination){mode, p};
  }
  return 0;
}

/* returns: None, an int, a tuple of ints, or [] for a list of all results */
static int read_returns(kernel *k, PyObject *returns) {
  PyObject *single = PyLong_Check(returns) ? PyTuple_Pack(1, returns) : NULL;
  PyObject *list = single ? single : returns;
  Py_ssize_t n = PyTuple_Check(list) ? PyTuple_GET_SIZE(list) : 0;
  k->shape = single ? RETURN_ONE : list == Py_None ? RETURN_NONE : PyTuple_Check(list) ? RETURN_TUPLE : RETURN_LIST;
  k->returns = table(n, sizeof *k->returns);
  k->nreturns = (int32_t)n;
  for (Py_ssize_t i = 0; k->returns && i < n; i++) {
    long r = PyLong_AsLong(PyTuple_GET_ITEM(list, i));
    if (!PyErr_Occurred() && (r >= k->ndestinations || -1 - r >= k->nparams))
      PyErr_Format(PyExc_ValueError, "%U: returned value %zd: bad number %ld", k->name, i, r);
    k->returns[i] = (int32_t)r;
  }
  Py_XDECREF(single);
  return k->returns == NULL || PyErr_Occurred() ? -1 : 0;
}

PyObject *tgx_make_kernel(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "row", "params", "args", "destinations", "returns", "each", "lazy", NULL};
  PyObject *name, *params, *row_args, *destinations, *returns;
  long long row;
  int each = 0, lazy = 0;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ULO!O!O!O|pi", names, &name, &row, &PyList_Type, &params,
                                   &PyList_Type, &row_args, &PyList_Type, &destinations, &returns, &each, &lazy))
    return NULL;
  kernel *k = PyObject_New(kernel, &tgx_kernel_type);
  if (k == NULL) return NULL;
  memset((char *)k + sizeof(PyObject), 0, sizeof *k - sizeof(PyObject));
  k->vectorcall = kernel_call;
  k->name = Py_NewRef(name);
  k->row = row;
  k->each = each;
  k->lazy = lazy;
  if (read_params(k, params) < 0 || read_args(k, row_args) < 0 || read_destinations(k, destinations) < 0 ||
      read_returns(k, returns) < 0)
    Py_CLEAR(k);
  return (PyObject *)k;
}
