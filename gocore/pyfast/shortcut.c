//go:build pyext

/* Shortcuts. `x + 1` passes torch's argument parser, and becomes an at::Tensor of 1. It goes down the keys of the
 * dispatcher, and comes up through Python objects before it is at our kernel. All of that is there for modes,
 * transforms, subclasses, gradients and marks on tensors. A shortcut stands in front of the C function of one
 * method of Tensor or one function of torch. Where it sees none of them, it calls the kernel. In all other cases,
 * and whenever the kernel records nothing, it calls the function that it stands in front of.
 *
 * torch's method and function objects stay what they are: the address in their PyMethodDef is another. What a
 * shortcut looks at is found out by name or by comparison (setup_shortcuts); a torch in which one of these things
 * is not found has no shortcuts, and is only slower. */
#include "pyfast.h"

enum { MAX_SHORTCUTS = 120, MAX_OPERANDS = 3, KEY_WORDS = 26, PLAIN_TYPES = 2 };

typedef struct {
  PyCFunction original;
  PyObject *kernel; /* or another callable, which returns NotImplemented where the call is torch's */
  PyObject *number_kernel; /* for a number as the last operand, NULL if it may not be one */
  Py_ssize_t operands;
  int64_t rank; /* of every operand; -1: any */
  bool method;  /* the first operand is self */
} shortcut;

static shortcut shortcuts[MAX_SHORTCUTS];
static int nshortcuts;
static long long taken; /* calls that went past the dispatcher */

/* What setup_shortcuts has found; ready tells that it has found all. */
static struct {
  bool ready;
  PyTypeObject *types[PLAIN_TYPES]; /* Tensor and Parameter: what has neither __torch_function__ nor __torch_dispatch__ */
  int key_word;                     /* where a c10::TensorImpl keeps its dispatch keys */
  uint64_t plain_keys, host_keys;   /* those of a tensor of the device, of the CPU, that is nothing else besides */
  getter requires_grad;
  PyCFunction increment_version;
  PyObject *forward_ad, *current_level; /* the dict of torch.autograd.forward_ad, and a key of it */
  bool (*function_mode)(void);          /* a TorchFunctionMode is active */
  bool (*callbacks)(void);              /* somebody observes ops, as the profiler does */
} torch_state;

#define LOCAL_KEYS "_ZN3c104impl26raw_local_dispatch_key_setE"

/* The keys that this thread adds to and takes from those of tensors, as differences from the default: modes,
 * transforms, autocast, inference mode, tracing. */
static const uint64_t *local_keys(void) {
  static __thread const uint64_t *keys;
  if (keys == NULL) keys = tgx_shim_symbol(LOCAL_KEYS);
  return keys;
}

static bool forward_gradients(void) {
  PyObject *level = PyDict_GetItemWithError(torch_state.forward_ad, torch_state.current_level);
  return level == NULL || !PyLong_Check(level) || PyLong_AsLong(level) >= 0;
}

/* Nothing in this thread asks for more of an op than to be done. */
static bool is_quiet(void) {
  const uint64_t *keys = local_keys();
  return (keys[0] | keys[1]) == 0 && !torch_state.function_mode() && !torch_state.callbacks() && !forward_gradients() &&
         !tgx_forked;
}

bool tgx_is_plain_type(PyObject *o) {
  return Py_IS_TYPE(o, torch_state.types[0]) || Py_IS_TYPE(o, torch_state.types[1]);
}

static uint64_t keys_in(const void *tensor) {
  uint64_t *const *t = tensor;
  return (*t)[torch_state.key_word];
}

static uint64_t keys_of(PyObject *tensor) { return keys_in(tgx_borrow(tensor)); }

bool tgx_lacks_keys(tgx_tensor t) {
  return torch_state.ready && (torch_state.plain_keys & ~keys_in(t)) != 0;
}

static bool needs_gradient(PyObject *tensor) {
  if (!tgx_shim.aoti_torch_grad_mode_is_enabled()) return false;
  PyObject *answer = torch_state.requires_grad(tensor, NULL);
  bool no = answer == Py_False;
  if (answer == NULL) PyErr_Clear();
  Py_XDECREF(answer);
  return !no;
}

bool tgx_has_plain_keys(PyObject *tensor) {
  return torch_state.ready && keys_of(tensor) == torch_state.plain_keys;
}

bool tgx_is_plain(PyObject *tensor) { return keys_of(tensor) == torch_state.plain_keys && !needs_gradient(tensor); }

bool tgx_is_plain_host(PyObject *tensor) { return keys_of(tensor) == torch_state.host_keys && !needs_gradient(tensor); }

int tgx_bump_version(PyObject *tensor) {
  PyObject *one = PyTuple_Pack(1, tensor);
  PyObject *r = one ? torch_state.increment_version(NULL, one) : NULL;
  Py_XDECREF(one);
  Py_XDECREF(r);
  return r ? 0 : -1;
}

/* ---- calls ---- */

static bool is_number(PyObject *o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o); }

static bool has_rank(PyObject *tensor, int64_t rank) {
  int64_t n;
  return rank < 0 || (tgx_shim.aoti_torch_get_dim(tgx_borrow(tensor), &n) == 0 && n == rank);
}

/* The kernel for these operands, NULL if there is none. */
static PyObject *choose(const shortcut *s, PyObject *const *v) {
  Py_ssize_t last = s->operands - 1;
  for (Py_ssize_t i = 0; i <= last; i++) {
    if (i > 0 && i == last && is_number(v[i])) return s->number_kernel;
    if (!tgx_is_plain_type(v[i]) || !has_rank(v[i], s->rank)) return NULL;
  }
  return s->kernel;
}

static PyObject *call_other(const shortcut *s, PyObject *const *v) {
  if (!tgx_is_plain_type(v[0])) return NULL;
  uint64_t keys = keys_of(v[0]);
  if (keys != torch_state.plain_keys && keys != torch_state.host_keys) return NULL;
  PyObject *r = PyObject_Vectorcall(s->kernel, v, (size_t)s->operands, NULL);
  if (r == Py_NotImplemented) Py_CLEAR(r);
  return r;
}

/* NULL without an exception: the call goes torch's way. */
static PyObject *take(const shortcut *s, PyObject *const *v) {
  PyObject *r = NULL, *kernel;
  if (!is_quiet()) return NULL;
  if (!Py_IS_TYPE(s->kernel, &tgx_kernel_type))
    r = call_other(s, v);
  else if ((kernel = choose(s, v)) != NULL)
    r = tgx_call_direct(kernel, v, s->operands);
  taken += r != NULL;
  return r;
}

static PyObject *with_arguments(const shortcut *s, PyObject *self, PyObject *args, PyObject *kwargs) {
  PyObject *v[MAX_OPERANDS], *r = NULL;
  Py_ssize_t n = 0, given = PyTuple_GET_SIZE(args);
  if (s->method) v[n++] = self;
  if (n + given == s->operands && (kwargs == NULL || PyDict_GET_SIZE(kwargs) == 0)) {
    for (Py_ssize_t i = 0; i < given; i++) v[n++] = PyTuple_GET_ITEM(args, i);
    r = take(s, v);
  }
  if (r != NULL || PyErr_Occurred()) return r;
  return ((PyCFunctionWithKeywords)(void (*)(void))s->original)(self, args, kwargs);
}

static PyObject *without_arguments(const shortcut *s, PyObject *self, PyObject *unused) {
  PyObject *r = take(s, &self);
  return r != NULL || PyErr_Occurred() ? r : s->original(self, unused);
}

/* A PyMethodDef has no place for data: each shortcut has functions of its own. */
#define TEN(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7) X(d##8) X(d##9)
#define EACH(X)                                                                                               \
  TEN(X, ) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9) TEN(X, 10) \
      TEN(X, 11)

#define DEFINE(n)                                                                                                \
  static PyObject *with_##n(PyObject *self, PyObject *args, PyObject *kwargs) {                                  \
    return with_arguments(&shortcuts[n], self, args, kwargs);                                                    \
  }                                                                                                              \
  static PyObject *without_##n(PyObject *self, PyObject *unused) { return without_arguments(&shortcuts[n], self, unused); }
EACH(DEFINE)

#define WITH(n) with_##n,
static const PyCFunctionWithKeywords with[MAX_SHORTCUTS] = {EACH(WITH)};
#define WITHOUT(n) without_##n,
static const PyCFunction without[MAX_SHORTCUTS] = {EACH(WITHOUT)};

/* ---- setup ---- */

/* samples: [(address of a c10::TensorImpl, its dispatch keys)]; the one word that holds the keys in all, or -1. */
static int find_keys(PyObject *samples) {
  int found = -1;
  for (int word = 0; word < KEY_WORDS; word++) {
    bool fits = PyList_GET_SIZE(samples) > 0;
    for (Py_ssize_t i = 0; fits && i < PyList_GET_SIZE(samples); i++) {
      unsigned long long address, keys;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(samples, i), "KK", &address, &keys)) return -1;
      fits = ((const uint64_t *)(uintptr_t)address)[word] == keys;
    }
    if (fits && found >= 0) return -1;
    if (fits) found = word;
  }
  return found;
}

static getter find_getter(PyTypeObject *type, const char *name) {
  PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
  getter get = NULL;
  if (descriptor && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
    get = ((PyGetSetDescrObject *)descriptor)->d_getset->get;
  PyErr_Clear();
  Py_XDECREF(descriptor); /* the type keeps it */
  return get;
}

PyObject *tgx_setup_shortcuts(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"types", "plain", "host", "samples", "increment_version", "forward_ad", NULL};
  PyObject *types[PLAIN_TYPES], *samples, *increment_version, *forward_ad;
  unsigned long long plain, host;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "(O!O!)KKO!O!O!", names, &PyType_Type, &types[0], &PyType_Type, &types[1],
                                   &plain, &host, &PyList_Type, &samples, &PyCFunction_Type, &increment_version, &PyDict_Type,
                                   &forward_ad))
    return NULL;
  for (int i = 0; i < PLAIN_TYPES; i++) torch_state.types[i] = (PyTypeObject *)Py_NewRef(types[i]);
  torch_state.plain_keys = plain;
  torch_state.host_keys = host;
  torch_state.key_word = find_keys(samples);
  torch_state.requires_grad = find_getter(tgx_state.tensor_type, "requires_grad");
  PyMethodDef *increment = ((PyCFunctionObject *)increment_version)->m_ml;
  torch_state.increment_version = increment->ml_flags == METH_O ? increment->ml_meth : NULL;
  torch_state.forward_ad = Py_NewRef(forward_ad);
  torch_state.current_level = PyUnicode_InternFromString("_current_level");
  *(void **)&torch_state.function_mode = tgx_shim_symbol("_ZN2at4impl27torch_function_mode_enabledEv");
  *(void **)&torch_state.callbacks = tgx_shim_symbol("_ZN2at12hasCallbacksEv");
  torch_state.ready = torch_state.key_word >= 0 && torch_state.requires_grad && torch_state.increment_version &&
                      torch_state.current_level && torch_state.function_mode && torch_state.callbacks && local_keys() &&
                      !forward_gradients();
  return PyErr_Occurred() ? NULL : PyBool_FromLong(torch_state.ready);
}

PyObject *tgx_add_shortcut(PyObject *module, PyObject *args) {
  PyObject *object, *kernel, *number_kernel;
  Py_ssize_t operands;
  long long rank;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOnL", &object, &kernel, &number_kernel, &operands, &rank)) return NULL;
  bool method = Py_IS_TYPE(object, &PyMethodDescr_Type);
  PyMethodDef *def = method                    ? ((PyMethodDescrObject *)object)->d_method
                     : PyCFunction_Check(object) ? ((PyCFunctionObject *)object)->m_ml
                                               : NULL;
  int flags = def ? def->ml_flags & ~METH_STATIC : 0;
  bool plain = method && flags == METH_NOARGS && operands == 1;
  bool is_kernel = Py_IS_TYPE(kernel, &tgx_kernel_type);
  bool fits = operands > 0 && operands <= MAX_OPERANDS && (!is_kernel || operands <= tgx_direct_operands(kernel)) &&
              (number_kernel == Py_None || operands <= tgx_direct_operands(number_kernel));
  if (!torch_state.ready || nshortcuts == MAX_SHORTCUTS || !fits || !(plain || flags == (METH_VARARGS | METH_KEYWORDS)))
    Py_RETURN_FALSE;
  shortcut *s = &shortcuts[nshortcuts];
  *s = (shortcut){def->ml_meth, Py_NewRef(kernel), number_kernel == Py_None ? NULL : Py_NewRef(number_kernel), operands,
                  rank, method};
  def->ml_meth = plain ? without[nshortcuts] : (PyCFunction)(void (*)(void))with[nshortcuts];
  nshortcuts++;
  Py_RETURN_TRUE;
}

PyObject *tgx_shortcuts_taken(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyLong_FromLongLong(taken);
}
