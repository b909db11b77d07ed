//go:build pyext

/* Random generators. torch asks a C++ hook for a generator of a device, and a backend without C++ has none. So
 * torch.Generator("xla") makes an object of a subclass in Python. Kernels get another Python object for the
 * generator that was passed, so that it is known by the address of torch's own. */
#include "pyfast.h"

static newfunc torch_new;   /* what makes any other generator */
static PyTypeObject *base;  /* torch.Generator */
static PyObject *make;      /* (*args, **kwargs): a generator of the xla device, or NotImplemented */
static PyObject *numbers;   /* dict: address of torch's generator -> number of the core's */

static PyObject *new_generator(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  if (type == base && (PyTuple_GET_SIZE(args) > 0 || (kwargs && PyDict_GET_SIZE(kwargs) > 0))) {
    PyObject *made = PyObject_Call(make, args, kwargs);
    if (made != Py_NotImplemented) return made;
    Py_DECREF(made);
  }
  return torch_new(type, args, kwargs);
}

int tgx_generator_number(PyObject *generator, int64_t *number) {
  *number = -1;
  if (numbers == NULL || PyDict_GET_SIZE(numbers) == 0) return 0;
  PyObject *address = PyObject_GetAttrString(generator, "_cdata");
  if (address == NULL) return -1;
  PyObject *found = PyDict_GetItemWithError(numbers, address);
  Py_DECREF(address);
  if (found) *number = PyLong_AsLongLong(found);
  return PyErr_Occurred() ? -1 : 0;
}

PyObject *tgx_set_generators(PyObject *self, PyObject *args) {
  PyObject *type, *maker, *dict;
  (void)self;
  if (!PyArg_ParseTuple(args, "O!OO!", &PyType_Type, &type, &maker, &PyDict_Type, &dict)) return NULL;
  if (base) return PyErr_Format(PyExc_RuntimeError, "the generators are set");
  base = (PyTypeObject *)Py_NewRef(type);
  make = Py_NewRef(maker);
  numbers = Py_NewRef(dict);
  torch_new = base->tp_new;
  base->tp_new = new_generator;
  PyType_Modified(base);
  Py_RETURN_NONE;
}
