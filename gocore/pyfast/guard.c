//go:build pyext

/* The device guard. torch has one of its own that asks Python for the type of the device, with the GIL. It does so
 * several times for an op that needs a gradient, for the stream of every input and result of an autograd node. Of a
 * torch whose guards are known, the methods that ask are replaced; of another, Python answers as fast as it can.
 *
 * What Python is asked: the type of its device.
 *
 * torch asks while it unwinds too, from code that may not throw. The exception of a hook or of a custom backward
 * pass may then be pending. CPython makes an error of any call that returns with an exception pending, which would
 * end the process. So the answer carries the exception. torch releases the answer before it looks for the
 * exception, and the carrier's end makes it pending again. */
#include <stddef.h>
#include <string.h>

#include "pyfast.h"

typedef struct {
  PyObject_HEAD
  PyObject *type, *value, *traceback;
} pending;

static void pending_dealloc(PyObject *self) {
  pending *p = (pending *)self;
  if (p->type) PyErr_Restore(p->type, p->value, p->traceback);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject pending_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.Pending",
    .tp_basicsize = sizeof(pending),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = pending_dealloc,
    .tp_doc = "An exception, which is pending again when this object ends.",
};

/* Callable without arguments. A type of its own, as torch takes a PyCFunction for one of its own methods, and a
 * Python function costs a frame. */
typedef struct {
  PyObject_HEAD
  PyObject *constant, *carrier; /* the device type; a subclass of its class, whose instances have attributes */
  vectorcallfunc vectorcall;
} device_type_function;

/* The device type with the pending exception, which is no longer pending; NULL if memory is short. */
static PyObject *carry(const device_type_function *d) {
  pending *p = PyObject_New(pending, &pending_type);
  if (p == NULL) return NULL;
  PyErr_Fetch(&p->type, &p->value, &p->traceback);
  PyObject *carried = PyObject_CallFunctionObjArgs(d->carrier, d->constant, NULL);
  if (carried != NULL && PyObject_SetAttrString(carried, "pending", (PyObject *)p) < 0) Py_CLEAR(carried);
  if (carried == NULL) PyErr_Clear();
  Py_DECREF(p); /* without a carrier this makes the exception pending at once */
  return carried;
}

static PyObject *device_type_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  const device_type_function *d = (const device_type_function *)self;
  (void)args, (void)nargsf, (void)kwnames;
  return PyErr_Occurred() ? carry(d) : Py_NewRef(d->constant);
}

static void device_type_dealloc(PyObject *self) {
  Py_DECREF(((device_type_function *)self)->constant);
  Py_DECREF(((device_type_function *)self)->carrier);
  Py_TYPE(self)->tp_free(self);
}

static PyTypeObject device_type_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_goxlafast.DeviceType",
    .tp_basicsize = sizeof(device_type_function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(device_type_function, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = device_type_dealloc,
    .tp_doc = "What a device guard has as type_.",
};

PyObject *tgx_device_type(PyObject *module, PyObject *args) {
  PyObject *constant, *carrier;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &constant, &carrier) || PyType_Ready(&pending_type) < 0 ||
      PyType_Ready(&device_type_type) < 0)
    return NULL;
  device_type_function *d = PyObject_New(device_type_function, &device_type_type);
  if (d == NULL) return NULL;
  d->constant = Py_NewRef(constant);
  d->carrier = Py_NewRef(carrier);
  d->vectorcall = device_type_call;
  return (PyObject *)d;
}

/* ---- methods in C ---- */

/* c10::Device and c10::Stream, which are passed and returned in registers as these are. */
typedef struct {
  int8_t type, index;
} c10_device;
typedef struct {
  c10_device device;
  int64_t id;
} c10_stream;

/* The virtual functions of c10::impl::DeviceGuardImplInterface of torch 2.15, as the Itanium C++ ABI orders them;
 * those that ask for the type by name. */
enum { TYPE = 0, EXCHANGE_DEVICE = 1, GET_DEVICE = 2, GET_STREAM = 5, EXCHANGE_STREAM = 9, FUNCTIONS = 26 };
enum { BEFORE_FUNCTIONS = 2 }; /* words of a table before the first: the offset to the top, the type's description */

static c10_device this_device(void) { return (c10_device){(int8_t)tgx_shim.xla, 0}; }

static int8_t guard_type(const void *guard) {
  (void)guard;
  return (int8_t)tgx_shim.xla;
}

static c10_device guard_get_device(const void *guard) {
  (void)guard;
  return this_device();
}

static c10_device guard_exchange_device(const void *guard, c10_device device) {
  (void)guard, (void)device;
  return this_device();
}

static c10_stream guard_get_stream(const void *guard, c10_device device) {
  (void)guard, (void)device;
  return (c10_stream){this_device(), 0};
}

static c10_stream guard_exchange_stream(const void *guard, c10_stream stream) {
  (void)guard, (void)stream;
  return (c10_stream){this_device(), 0};
}

/* What the guard itself says, before it is changed, is what ours say. */
static bool guard_agrees(const void *guard, void *const *functions) {
  if (((int8_t(*)(const void *))functions[TYPE])(guard) != tgx_shim.xla) return false;
  c10_device here = ((c10_device(*)(const void *))functions[GET_DEVICE])(guard);
  if (here.type != tgx_shim.xla || here.index != 0) return false;
  c10_stream stream = ((c10_stream(*)(const void *, c10_device))functions[GET_STREAM])(guard, here);
  return stream.device.type == here.type && stream.device.index == here.index && stream.id == 0;
}

PyObject *tgx_answer_for_guard(PyObject *module, PyObject *unused) {
  static void *table[BEFORE_FUNCTIONS + FUNCTIONS]; /* the guard lives as long as the process */
  (void)module, (void)unused;
  void **registry = tgx_shim_symbol("_ZN3c104impl26device_guard_impl_registryE");
  void ***guard = registry ? registry[tgx_shim.xla] : NULL;
  if (guard == NULL || !guard_agrees(guard, *guard)) Py_RETURN_FALSE;
  memcpy(table, *guard - BEFORE_FUNCTIONS, sizeof table);
  void **functions = table + BEFORE_FUNCTIONS;
  functions[TYPE] = (void *)guard_type;
  functions[EXCHANGE_DEVICE] = (void *)guard_exchange_device;
  functions[GET_DEVICE] = (void *)guard_get_device;
  functions[GET_STREAM] = (void *)guard_get_stream;
  functions[EXCHANGE_STREAM] = (void *)guard_exchange_stream;
  *guard = functions;
  Py_RETURN_TRUE;
}
