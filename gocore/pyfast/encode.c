//go:build pyext

/* Arguments of an op, as torch's dispatcher hands them to a Python kernel, to words; see gocore/wire. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pyfast.h"

void tgx_words_init(struct tgx_words *w) {
  w->p = w->local;
  w->n = 0;
  w->cap = (Py_ssize_t)(sizeof w->local / sizeof w->local[0]);
}

void tgx_words_free(struct tgx_words *w) {
  if (w->p != w->local) free(w->p);
}

int tgx_words_grow(struct tgx_words *w, Py_ssize_t more) {
  Py_ssize_t cap = 2 * w->cap + more;
  int64_t *p = malloc((size_t)cap * sizeof *p);
  if (p == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(p, w->p, (size_t)w->n * sizeof *p);
  tgx_words_free(w);
  w->p = p;
  w->cap = cap;
  return 0;
}

static inline int64_t tag(int kind, int64_t n) { return kind | n << TGX_COUNT_SHIFT; }

static inline int64_t bits(double x) {
  int64_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static int put(struct tgx_words *w, int64_t word) {
  if (tgx_words_need(w, 1) < 0) return -1;
  w->p[w->n++] = word;
  return 0;
}

static int put2(struct tgx_words *w, int64_t a, int64_t b) {
  if (tgx_words_need(w, 2) < 0) return -1;
  w->p[w->n++] = a;
  w->p[w->n++] = b;
  return 0;
}

static int put3(struct tgx_words *w, int64_t a, int64_t b, int64_t c) { return put2(w, a, b) < 0 ? -1 : put(w, c); }

static int unexpected(struct tgx_call *c, const char *want, PyObject *arg) {
  PyErr_Format(PyExc_TypeError, "%s: expected %s, got %s", c->op, want, Py_TYPE(arg)->tp_name);
  return -1;
}

/* ---- numbers ---- */

static double half_to_double(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double v = exponent == 31 ? (mantissa ? NAN : INFINITY)
             : exponent    ? ldexp(1024 + mantissa, exponent - 25)
                           : ldexp(mantissa, -24);
  return h & 0x8000 ? -v : v;
}

static double bfloat_to_double(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

int tgx_host_value(int32_t scalar_type, const void *data, int64_t *v) {
  v[0] = v[1] = 0;
  switch (scalar_type) {
    case TGX_DTYPE_UINT8: v[0] = *(const uint8_t *)data; return 0;
    case TGX_DTYPE_INT8: v[0] = *(const int8_t *)data; return 0;
    case TGX_DTYPE_INT16: v[0] = *(const int16_t *)data; return 0;
    case TGX_DTYPE_INT32: v[0] = *(const int32_t *)data; return 0;
    case TGX_DTYPE_INT64: case TGX_DTYPE_UINT64: v[0] = *(const int64_t *)data; return 0;
    case TGX_DTYPE_FLOAT16: v[0] = bits(half_to_double(*(const uint16_t *)data)); return 0;
    case TGX_DTYPE_FLOAT32: v[0] = bits(*(const float *)data); return 0;
    case TGX_DTYPE_FLOAT64: v[0] = bits(*(const double *)data); return 0;
    case TGX_DTYPE_COMPLEX64: v[0] = bits(((const float *)data)[0]), v[1] = bits(((const float *)data)[1]); return 0;
    case TGX_DTYPE_COMPLEX128: v[0] = bits(((const double *)data)[0]), v[1] = bits(((const double *)data)[1]); return 0;
    case TGX_DTYPE_BOOL: v[0] = *(const uint8_t *)data != 0; return 0;
    case TGX_DTYPE_BFLOAT16: v[0] = bits(bfloat_to_double(*(const uint16_t *)data)); return 0;
    case TGX_DTYPE_UINT16: v[0] = *(const uint16_t *)data; return 0;
    case TGX_DTYPE_UINT32: v[0] = *(const uint32_t *)data; return 0;
  }
  return -1;
}

static int put_host_zero(struct tgx_call *c, PyObject *tensor, const struct tgx_meta *m) {
  int64_t v[2];
  if (m->handle == 0 || tgx_host_value(m->scalar_type, (const void *)(intptr_t)m->handle, v) < 0) {
    PyObject *item = PyObject_CallMethod(tensor, "item", NULL); /* 8-bit floats */
    double x = item ? PyFloat_AsDouble(item) : -1;
    Py_XDECREF(item);
    if (x == -1 && PyErr_Occurred()) return -1;
    v[0] = bits(x), v[1] = 0;
  }
  return put3(&c->words, TGX_HOST_ZERO | (int64_t)m->scalar_type << TGX_TYPE_SHIFT, v[0], v[1]);
}

/* 0, -1 with an exception, 1 if arg is not a number. */
static int put_number(struct tgx_call *c, PyObject *arg) {
  struct tgx_words *w = &c->words;
  if (PyFloat_Check(arg)) return put2(w, TGX_FLOAT, bits(PyFloat_AS_DOUBLE(arg)));
  if (PyBool_Check(arg)) return put2(w, TGX_BOOL, arg == Py_True);
  if (PyLong_Check(arg)) {
    long long v = PyLong_AsLongLong(arg);
    return v == -1 && PyErr_Occurred() ? -1 : put2(w, TGX_INT, v);
  }
  if (PyComplex_Check(arg))
    return put3(w, TGX_COMPLEX, bits(PyComplex_RealAsDouble(arg)), bits(PyComplex_ImagAsDouble(arg)));
  return 1;
}

static int put_const(struct tgx_call *c, int kind, PyObject *arg) {
  long long v = PyLong_AsLongLong(arg);
  return v == -1 && PyErr_Occurred() ? -1 : put2(&c->words, kind, v);
}

static int put_const_float(struct tgx_call *c, PyObject *arg) {
  double v = PyFloat_AsDouble(arg);
  return v == -1 && PyErr_Occurred() ? -1 : put2(&c->words, TGX_CONST_F, bits(v));
}

/* ---- tensors ---- */

static int has_bit(PyObject *tensor, const char *query) {
  PyObject *answer = PyObject_CallMethod(tensor, query, NULL);
  int r = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return r;
}

/* Whether the tensor's data is not its value; -1 with an exception. */
static int is_lazy(const struct tgx_call *c, PyObject *tensor, int32_t scalar_type) {
  bool complex = scalar_type == TGX_DTYPE_COMPLEX64 || scalar_type == TGX_DTYPE_COMPLEX128;
  int r = complex && c->lazy & TGX_LAZY_CONJ ? has_bit(tensor, "is_conj") : 0;
  return r == 0 && c->lazy & TGX_LAZY_NEG ? has_bit(tensor, "is_neg") : r;
}

enum { MOST_DIMENSIONS = (1 << (TGX_TYPE_SHIFT - 8)) - 1 }; /* what the word that tags a tensor can hold */

static int put_device_tensor(struct tgx_words *w, const struct tgx_meta *m) {
  Py_ssize_t nd = (Py_ssize_t)m->ndim;
  if (nd > MOST_DIMENSIONS) {
    PyErr_Format(PyExc_RuntimeError, "a tensor has %zd dimensions; xla tensors have at most %d", nd, (int)MOST_DIMENSIONS);
    return -1;
  }
  if (tgx_words_need(w, 3 + 2 * nd) < 0) return -1;
  int64_t *p = w->p + w->n;
  p[0] = tag(TGX_TENSOR, nd) | (int64_t)m->scalar_type << TGX_TYPE_SHIFT;
  p[1] = m->handle;
  p[2] = m->offset;
  for (Py_ssize_t i = 0; i < nd; i++) {
    p[3 + i] = m->sizes[i];
    p[3 + nd + i] = m->strides[i];
  }
  w->n += 3 + 2 * nd;
  return 0;
}

/* Two devices in one op are for Python to decide: a copy may, others may not. */
static void note_device(struct tgx_call *c, tgx_tensor t) {
  int32_t index = 0;
  tgx_shim.aoti_torch_get_device_index(t, &index);
  if (!c->on_device) c->device = index;
  c->on_device = true;
  if (c->device != index) c->fallback = true;
}

static int put_tensor(struct tgx_call *c, PyObject *arg) {
  struct tgx_meta m;
  if (c->direct && !tgx_is_plain(arg)) {
    c->fallback = true;
    return 0;
  }
  if (tgx_meta_read(arg, &m) < 0) return -1;
  int r = 0;
  if (m.device_type == tgx_shim.xla) {
    note_device(c, m.owner);
    r = c->lazy ? is_lazy(c, arg, m.scalar_type) : 0;
    if (r > 0) c->fallback = true;
    if (r >= 0) r = put_device_tensor(&c->words, &m);
  } else if (m.device_type == tgx_shim.cpu && m.ndim == 0) {
    r = put_host_zero(c, arg, &m);
  } else {
    c->fallback = true;
  }
  return r;
}

/* A Tensor place takes a tensor, None, or a number (torch's wrapped numbers arrive as such). */
static int put_tensor_place(struct tgx_call *c, PyObject *arg) {
  if (PyObject_TypeCheck(arg, tgx_state.tensor_type)) return put_tensor(c, arg);
  if (arg == Py_None) return put(&c->words, TGX_NULL);
  int r = put_number(c, arg);
  return r > 0 ? unexpected(c, "a tensor", arg) : r;
}

/* ---- lists ---- */

static int put_items(struct tgx_call *c, int kind, PyObject *list, int (*one)(struct tgx_call *, PyObject *)) {
  PyObject *fast = PySequence_Fast(list, "expected a list or a tuple");
  if (fast == NULL) return -1;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  int r = put(&c->words, tag(kind, n));
  for (Py_ssize_t i = 0; i < n && r == 0; i++) r = one(c, PySequence_Fast_GET_ITEM(fast, i));
  Py_DECREF(fast);
  return r;
}

static int put_scalar(struct tgx_call *c, PyObject *arg) {
  int r = put_number(c, arg);
  if (r <= 0) return r;
  if (PyObject_TypeCheck(arg, tgx_state.tensor_type)) { /* a 0-dim tensor where a number is asked for */
    PyObject *item = PyObject_CallMethod(arg, "item", NULL);
    r = item ? put_number(c, item) : -1;
    Py_XDECREF(item);
    return r;
  }
  return unexpected(c, "a number", arg);
}

static int put_int_item(struct tgx_call *c, PyObject *arg) {
  long long v = PyLong_AsLongLong(arg);
  return v == -1 && PyErr_Occurred() ? -1 : put(&c->words, v);
}

static int put_float_item(struct tgx_call *c, PyObject *arg) {
  double v = PyFloat_AsDouble(arg);
  return v == -1 && PyErr_Occurred() ? -1 : put(&c->words, bits(v));
}

static int put_text(struct tgx_call *c, PyObject *arg) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(arg, &n);
  if (s == NULL) return -1;
  Py_ssize_t k = (n + 7) / 8;
  if (tgx_words_need(&c->words, 1 + k) < 0) return -1;
  int64_t *p = c->words.p + c->words.n;
  p[0] = tag(TGX_TEXT, n);
  memset(p + 1, 0, (size_t)k * 8);
  memcpy(p + 1, s, (size_t)n);
  c->words.n += 1 + k;
  return 0;
}

/* ---- enumerations and devices ---- */

static int put_enum(struct tgx_call *c, int kind, PyObject *arg) {
  PyObject *number = PyLong_Check(arg) ? arg : PyDict_GetItemWithError(tgx_state.enums, arg);
  if (number != NULL) return put_const(c, kind, number);
  return PyErr_Occurred() ? -1 : unexpected(c, "a dtype, layout or memory format", arg);
}

/* Of an out= argument that stands for the dtype or device argument of a factory: its dtype, its device. */
static int put_property(struct tgx_call *c, enum tgx_type type, PyObject *tensor) {
  struct tgx_meta m;
  int32_t index = 0;
  if (tgx_meta_read(tensor, &m) < 0) return -1;
  tgx_shim.aoti_torch_get_device_index(m.owner, &index);
  return type == TGX_T_SCALAR_TYPE ? put2(&c->words, TGX_TYPE, m.scalar_type) : put2(&c->words, TGX_DEVICE, index);
}

static int put_device(struct tgx_call *c, PyObject *arg) {
  PyObject *type = PyObject_GetAttrString(arg, "type"), *index = NULL;
  const char *name = type ? PyUnicode_AsUTF8(type) : NULL;
  int r = -1;
  if (name == NULL) goto done;
  if (strcmp(name, "xla") != 0) c->fallback = true;
  index = PyObject_GetAttrString(arg, "index");
  if (index == NULL) goto done;
  long n = index == Py_None ? (long)tgx_state.current_device : PyLong_AsLong(index);
  if (n == -1 && PyErr_Occurred()) goto done;
  if (c->on_device && c->device != n) c->fallback = true;
  r = put2(&c->words, TGX_DEVICE, n);
done:
  Py_XDECREF(index);
  Py_XDECREF(type);
  return r;
}

int tgx_encode(struct tgx_call *c, enum tgx_type type, PyObject *arg) {
  if (arg == Py_None) return put(&c->words, TGX_NULL);
  if ((type == TGX_T_SCALAR_TYPE || type == TGX_T_DEVICE) && PyObject_TypeCheck(arg, tgx_state.tensor_type))
    return put_property(c, type, arg);
  switch (type) {
    case TGX_T_TENSOR: return put_tensor_place(c, arg);
    case TGX_T_TENSORS: return put_items(c, TGX_TENSORS, arg, put_tensor_place);
    case TGX_T_INT: return put_const(c, TGX_CONST, arg);
    case TGX_T_INTS:
      if (PyLong_Check(arg)) return put(&c->words, tag(TGX_INTS, 1)) < 0 ? -1 : put_int_item(c, arg);
      return put_items(c, TGX_INTS, arg, put_int_item);
    case TGX_T_FLOAT: return put_const_float(c, arg);
    case TGX_T_FLOATS: return put_items(c, TGX_FLOATS, arg, put_float_item);
    case TGX_T_SCALAR: return put_scalar(c, arg);
    case TGX_T_SCALARS: return put_items(c, TGX_SCALARS, arg, put_scalar);
    case TGX_T_TEXT: return put_text(c, arg);
    case TGX_T_ENUM: return put_enum(c, TGX_CONST, arg);
    case TGX_T_SCALAR_TYPE: return put_enum(c, TGX_TYPE, arg);
    case TGX_T_DEVICE: return put_device(c, arg);
    case TGX_T_GENERATOR: {
      int64_t number;
      if (tgx_generator_number(arg, &number) < 0) return -1;
      if (number >= 0) return put2(&c->words, TGX_GENERATOR, number);
      c->fallback = true; /* a generator of another device asks for another place */
      return put(&c->words, TGX_NULL);
    }
    case TGX_T_COUNT: break;
  }
  PyErr_Format(PyExc_SystemError, "%s: unknown argument type %d", c->op, (int)type);
  return -1;
}
