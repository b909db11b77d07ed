//go:build pyext

/* What a captured computation depends on of the values that its function takes from outside: numbers, tensors, the
 * modes of modules, the settings of optimizers. Equal descriptions stand for equal computations. */
#include <string.h>

#include "pyfast.h"

/* A longer sequence counts by what it is, not by what it holds. */
enum { LONGEST = 64 };

enum tag { UNKNOWN, NUMBER, LONG_NUMBER, TEXT, TENSOR, MODULE, OPTIMIZER, SEQUENCE, END };

struct description {
  struct tgx_words words;
  PyTypeObject *module, *optimizer;
};

static int put(struct description *d, int64_t word) {
  if (tgx_words_need(&d->words, 1) < 0) return -1;
  d->words.p[d->words.n++] = word;
  return 0;
}

static int put_identity(struct description *d, const void *object) { return put(d, (int64_t)(intptr_t)object); }

/* A tag and the type, which tells apart what is equal: 1, 1.0 and True. */
static int begin(struct description *d, enum tag tag, PyObject *value) {
  return put(d, tag) < 0 ? -1 : put_identity(d, Py_TYPE(value));
}

static int put_text(struct description *d, PyObject *text) {
  Py_ssize_t n;
  const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
  if (bytes == NULL) return -1;
  Py_ssize_t words = n / 8 + 1;
  if (put(d, n) < 0 || tgx_words_need(&d->words, words) < 0) return -1;
  int64_t *to = d->words.p + d->words.n;
  to[words - 1] = 0;
  memcpy(to, bytes, (size_t)n);
  d->words.n += words;
  return 0;
}

static int put_number(struct description *d, PyObject *value) {
  if (value == Py_None) return begin(d, NUMBER, value);
  int64_t word;
  if (PyFloat_Check(value)) { /* by its bits: 0.0 and -0.0 are equal too, and a NaN is not equal to itself */
    double number = PyFloat_AS_DOUBLE(value);
    memcpy(&word, &number, sizeof word);
  } else {
    int overflow;
    word = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) {
      PyObject *digits = PyNumber_ToBase(value, 16);
      int r = digits == NULL || begin(d, LONG_NUMBER, value) < 0 ? -1 : put_text(d, digits);
      Py_XDECREF(digits);
      return r;
    }
  }
  return begin(d, NUMBER, value) < 0 ? -1 : put(d, word);
}

/* Which tensor it is, and whether it needs a gradient. */
static int put_tensor(struct description *d, PyObject *tensor) {
  int grad = tgx_requires_grad(tensor);
  return grad < 0 || put_identity(d, tensor) < 0 ? -1 : put(d, grad);
}

/* A parameter also by whether it has a gradient: a step that adds to one is another than a step that makes it. */
static int put_parameter(struct description *d, PyObject *parameter) {
  static PyObject *name;
  if (parameter == Py_None) return put(d, 0);
  if (name == NULL && (name = PyUnicode_InternFromString("grad")) == NULL) return -1;
  PyObject *grad = PyObject_GetAttr(parameter, name);
  if (grad == NULL) return -1;
  int r = put_tensor(d, parameter) < 0 ? -1 : put(d, grad == Py_None);
  Py_DECREF(grad);
  return r;
}

static int put_buffer(struct description *d, PyObject *buffer) { return put_identity(d, buffer); }

static int put_module(struct description *d, PyObject *module);

static int put_child(struct description *d, PyObject *module) { return module == Py_None ? 0 : put_module(d, module); }

/* Calls f with each value of the dictionary that a module has under this name. */
static int each(struct description *d, PyObject *space, const char *name, int (*f)(struct description *, PyObject *)) {
  PyObject *values = PyDict_GetItemString(space, name), *value;
  Py_ssize_t at = 0;
  if (values == NULL || !PyDict_Check(values)) return put(d, END);
  while (PyDict_Next(values, &at, NULL, &value)) {
    Py_INCREF(value); /* f may let other threads run */
    int r = f(d, value);
    Py_DECREF(value);
    if (r < 0) return -1;
  }
  return put(d, END);
}

/* Its mode, its parameters and buffers, and those of the modules in it. */
static int put_module(struct description *d, PyObject *module) {
  if (Py_EnterRecursiveCall(" in a module")) return -1;
  PyObject *space = PyObject_GenericGetDict(module, NULL);
  int r = -1;
  if (space != NULL && begin(d, MODULE, module) == 0)
    r = put(d, PyDict_GetItemString(space, "training") == Py_True) < 0 || each(d, space, "_parameters", put_parameter) < 0 ||
                each(d, space, "_buffers", put_buffer) < 0
            ? -1
            : each(d, space, "_modules", put_child);
  Py_XDECREF(space);
  Py_LeaveRecursiveCall();
  return r;
}

static int put_value(struct description *d, PyObject *value);

/* The settings of its groups of parameters. */
static int put_optimizer(struct description *d, PyObject *optimizer) {
  PyObject *groups = PyObject_GetAttrString(optimizer, "param_groups"), *setting, *value;
  int r = groups != NULL && PyList_Check(groups) && begin(d, OPTIMIZER, optimizer) == 0 ? 0 : -1;
  for (Py_ssize_t i = 0; r == 0 && i < PyList_GET_SIZE(groups); i++) {
    PyObject *group = PyList_GET_ITEM(groups, i);
    Py_ssize_t at = 0;
    while (r == 0 && PyDict_Check(group) && PyDict_Next(group, &at, &setting, &value)) {
      bool parameters = PyUnicode_Check(setting) && PyUnicode_CompareWithASCIIString(setting, "params") == 0;
      Py_INCREF(value);
      r = parameters ? 0 : put_value(d, value);
      Py_DECREF(value);
    }
    if (r == 0) r = put(d, END);
  }
  Py_XDECREF(groups);
  return r;
}

static int put_sequence(struct description *d, PyObject *sequence) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  if (begin(d, SEQUENCE, sequence) < 0 || put(d, n) < 0) return -1;
  if (n > LONGEST) return put_identity(d, sequence);
  if (Py_EnterRecursiveCall(" in a list")) return -1;
  int r = 0;
  for (Py_ssize_t i = 0; r == 0 && i < n; i++) r = put_value(d, PySequence_Fast_GET_ITEM(sequence, i));
  Py_LeaveRecursiveCall();
  return r;
}

static int put_value(struct description *d, PyObject *value) {
  if (value == Py_None || PyLong_Check(value) || PyFloat_Check(value)) return put_number(d, value);
  if (PyUnicode_Check(value)) return begin(d, TEXT, value) < 0 ? -1 : put_text(d, value);
  if (PyObject_TypeCheck(value, tgx_state.tensor_type)) return put(d, TENSOR) < 0 ? -1 : put_tensor(d, value);
  if (PyObject_TypeCheck(value, d->module)) return put_module(d, value);
  if (PyObject_TypeCheck(value, d->optimizer)) return put_optimizer(d, value);
  if (PyList_Check(value) || PyTuple_Check(value)) return put_sequence(d, value);
  return put(d, UNKNOWN);
}

PyObject *tgx_describe(PyObject *module, PyObject *args) {
  struct description d;
  PyObject *values, *bytes = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &values, &PyType_Type, &d.module, &PyType_Type, &d.optimizer)) return NULL;
  tgx_words_init(&d.words);
  int r = 0;
  for (Py_ssize_t i = 0; r == 0 && i < PyList_GET_SIZE(values); i++) r = put_value(&d, PyList_GET_ITEM(values, i));
  if (r == 0) bytes = PyBytes_FromStringAndSize((const char *)d.words.p, d.words.n * (Py_ssize_t)sizeof *d.words.p);
  tgx_words_free(&d.words);
  return bytes;
}
