//go:build pyext

/* Tensors of the device. A torch storage is a core storage. Its data address is the core's handle, which no one may
 * follow. Its deleter tells the core that no tensor uses it any more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pyfast.h"

/* DLPack, the unversioned ABI (dlpack.h of DMLC). */
typedef struct {
  int32_t type, id;
} dl_device;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} dl_type;
typedef struct {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_type type;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *);
} dl_managed;

enum { DL_EXT_DEV = 12 };

/* One storage. It is made with its first tensor and, when torch drops it, goes on the list of the dead. */
typedef struct storage {
  dl_managed managed; /* first: torch hands this address back */
  struct storage *next;
  int64_t dims[];
} storage;

/* By the number of c10::ScalarType. */
static const dl_type dl_types[] = {
#define ROW(name, number, bytes, code) [number] = {code, 8 * bytes, 1},
    TGX_DTYPES(ROW)
#undef ROW
};

/* Dead storages. Any thread pushes on `dead` without a lock; takers, one at a time, move it to `taken`. */
static _Atomic(storage *) dead;
static atomic_long dead_count;
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;
static storage *taken;

enum { RELEASE_BATCH = 64 };

/* The storage whose tensor this thread is making. torch drops some of those that it refuses and leaves others to
 * the caller; by then another thread may have freed it. */
static _Thread_local const storage *creating;

static void storage_died(dl_managed *managed) {
  if (tgx_forked) return; /* the parent's storage: the child owns nothing */
  storage *s = (storage *)managed;
  if (s == creating) creating = NULL;
  s->next = atomic_load_explicit(&dead, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&dead, &s->next, s, memory_order_release, memory_order_relaxed)) {
  }
  atomic_fetch_add_explicit(&dead_count, 1, memory_order_relaxed);
}

int64_t tgx_take_dead(int64_t *dst, int64_t cap) {
  int64_t n = 0;
  if (tgx_forked) return 0;
  pthread_mutex_lock(&taking);
  while (n < cap) {
    if (taken == NULL) taken = atomic_exchange_explicit(&dead, NULL, memory_order_acquire);
    storage *s = taken;
    if (s == NULL) break;
    taken = s->next;
    dst[n++] = (int64_t)(intptr_t)s->managed.tensor.data;
    free(s);
  }
  pthread_mutex_unlock(&taking);
  atomic_fetch_sub_explicit(&dead_count, n, memory_order_relaxed);
  return n;
}

int tgx_release_dead(void) {
  if (atomic_load_explicit(&dead_count, memory_order_relaxed) < RELEASE_BATCH || !tgx_idle()) return 0;
  int64_t handles[4 * RELEASE_BATCH];
  int64_t n = tgx_take_dead(handles, 4 * RELEASE_BATCH);
  if (tgx_release(handles, n) == TGX_DONE) return 0;
  tgx_set_error();
  return -1;
}

PyObject *tgx_new_tensor(int64_t handle, int32_t scalar_type, int64_t device, int64_t ndim, const int64_t *sizes,
                         const int64_t *strides) {
  if (tgx_item_size(scalar_type) == 0) {
    PyErr_Format(PyExc_TypeError, "the device has no tensors of scalar type %d", (int)scalar_type);
    return NULL;
  }
  storage *s = malloc(sizeof *s + 2 * (size_t)ndim * sizeof(int64_t));
  if (s == NULL) return PyErr_NoMemory();
  dl_managed *m = &s->managed;
  m->tensor = (dl_tensor){
      .data = (void *)(intptr_t)handle,
      .device = {DL_EXT_DEV, (int32_t)device},
      .ndim = (int32_t)ndim,
      .type = dl_types[scalar_type],
      .shape = s->dims,
      .strides = strides ? s->dims + ndim : NULL,
  };
  m->context = NULL;
  m->deleter = storage_died;
  memcpy(s->dims, sizes, (size_t)ndim * sizeof(int64_t));
  if (strides) memcpy(s->dims + ndim, strides, (size_t)ndim * sizeof(int64_t));
  creating = s;
  PyObject *capsule = PyCapsule_New(m, "dltensor", NULL);
  PyObject *tensor = capsule ? PyObject_CallOneArg(tgx_state.from_dlpack, capsule) : NULL;
  if (tensor == NULL && creating == s) storage_died(m);
  creating = NULL;
  Py_XDECREF(capsule);
  return tensor;
}

/* ---- from a Python tensor to torch's ---- */

/* Where a tensor's Python object keeps its at::Tensor, which is the pointer to its implementation, is not part
 * of any interface. probe_tensor finds the one word of the first few that is that pointer; without it, the tensor's
 * attribute _cdata gives the pointer. torch_tensor_from_pyobject would, but torch 2.13 has none. */
enum { OBJECT_WORDS = 8 };
static int tensor_word = -1;

PyObject *tgx_probe_tensor(PyObject *module, PyObject *args) {
  PyObject *tensor;
  unsigned long long implementation;
  int found = -1;
  (void)module;
  if (!PyArg_ParseTuple(args, "OK", &tensor, &implementation)) return NULL;
  void **words = (void **)tensor;
  for (int i = 0; i < OBJECT_WORDS && (i + 1) * (Py_ssize_t)sizeof *words <= Py_TYPE(tensor)->tp_basicsize; i++) {
    if (words[i] != (void *)(uintptr_t)implementation) continue;
    if (found >= 0) Py_RETURN_FALSE;
    found = i;
  }
  tensor_word = found;
  return PyBool_FromLong(found >= 0);
}

tgx_tensor tgx_borrow(PyObject *tensor) { return tensor_word < 0 ? NULL : (void **)tensor + tensor_word; }

/* Stores the address of a tensor's implementation; -1 with an exception if it cannot. */
static int implementation_of(PyObject *tensor, void **to) {
  PyObject *address = PyObject_GetAttrString(tensor, "_cdata");
  *to = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  return *to ? 0 : -1;
}

/* A tensor without elements has no data address of its own; its storage has. */
static int64_t storage_handle(PyObject *tensor) {
  PyObject *s = PyObject_CallMethod(tensor, "untyped_storage", NULL);
  PyObject *address = s ? PyObject_CallMethod(s, "data_ptr", NULL) : NULL;
  int64_t handle = address ? PyLong_AsLongLong(address) : -1;
  Py_XDECREF(address);
  Py_XDECREF(s);
  return handle;
}

int tgx_is_strided(PyObject *tensor) {
  void *implementation;
  int32_t layout;
  tgx_tensor t = tgx_borrow(tensor);
  if (t == NULL) {
    if (implementation_of(tensor, &implementation) < 0) return -1;
    t = &implementation;
  }
  if (tgx_shim.aoti_torch_get_layout(t, &layout) == 0) return layout == tgx_shim.aoti_torch_layout_strided();
  PyErr_SetString(PyExc_RuntimeError, tgx_shim.torch_exception_get_what_without_backtrace());
  return -1;
}

int tgx_meta_read(PyObject *tensor, struct tgx_meta *m) {
  int64_t *sizes, *strides;
  const void *data;
  m->owner = tgx_borrow(tensor);
  if (m->owner == NULL) {
    if (implementation_of(tensor, &m->implementation) < 0) return -1;
    m->owner = &m->implementation;
  }
  tgx_tensor t = m->owner;
  if (tgx_shim.aoti_torch_get_device_type(t, &m->device_type) || tgx_shim.aoti_torch_get_dtype(t, &m->scalar_type) ||
      tgx_shim.aoti_torch_get_dim(t, &m->ndim) || tgx_shim.aoti_torch_get_sizes(t, &sizes))
    goto failed;
  m->sizes = sizes;
  m->strides = NULL;
  m->handle = m->offset = 0;
  if (m->device_type != tgx_shim.xla && m->device_type != tgx_shim.cpu) return 0;
  if (m->device_type == tgx_shim.cpu && m->ndim > 0) return 0; /* may be sparse: there is nothing else to ask */
  if (tgx_shim.aoti_torch_get_strides(t, &strides) || tgx_shim.aoti_torch_get_storage_offset(t, &m->offset) ||
      tgx_shim.torch_get_const_data_ptr(t, &data))
    goto failed;
  m->strides = strides;
  m->handle = (int64_t)(intptr_t)data;
  if (m->device_type == tgx_shim.cpu) return 0;
  if (data != NULL) {
    m->handle -= m->offset * tgx_item_size(m->scalar_type);
    return 0;
  }
  m->handle = storage_handle(tensor);
  if (m->handle == 0)
    PyErr_SetString(PyExc_RuntimeError, "the tensor is on the xla device but its storage was not made there");
  return m->handle > 0 ? 0 : -1;
failed:
  PyErr_SetString(PyExc_RuntimeError, tgx_shim.torch_exception_get_what_without_backtrace());
  return -1;
}

bool tgx_is_full(const struct tgx_meta *m, int64_t *bytes) {
  int64_t step = 1;
  bool full = m->offset == 0 && tgx_shim.aoti_torch_get_storage_size(m->owner, bytes) == 0;
  for (int64_t i = m->ndim - 1; full && i >= 0; i--) {
    full = m->sizes[i] == 1 || m->strides[i] == step;
    step *= m->sizes[i];
  }
  return full && step * tgx_item_size(m->scalar_type) == *bytes;
}
