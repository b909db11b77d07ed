//go:build pyext

/* What torch's device guard asks Python: the type of its device.
 *
 * torch asks while it unwinds too, from code that may not throw, with the exception of a hook or of a custom
 * backward pass still pending; and CPython makes an error of any call that returns with an exception pending, so
 * that the process would end. The answer to such a call carries the exception: torch lets go of the answer
 * before it looks for the exception, and the carrier's end makes it pending again. */
#include <stddef.h>

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
