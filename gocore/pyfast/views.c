//go:build pyext

/* View kernels, through torch's stable interface: no Python on the path and no core call, since a view is
 * another shape over the same storage. Nearly all of torch's views come down to as_strided.
 * The checks and their texts follow ATen/native/Resize.h, ATen/InferSize.h and at::detail::computeStride. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pyfast.h"

enum { MAX_DIMS = 128, MAX_TEXT = 4096 };

/* A list of ints of one of torch's arguments. */
typedef struct {
  int64_t n, v[MAX_DIMS];
} ints;

/* ---- errors ---- */

typedef struct {
  char text[MAX_TEXT];
  int n;
} message;

static void say(message *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(message *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(m->text + m->n, sizeof m->text - (size_t)m->n, format, args);
  va_end(args);
  m->n = m->n + n < (int)sizeof m->text ? m->n + n : (int)sizeof m->text - 1;
}

static void say_ints(message *m, const int64_t *v, int64_t n) {
  say(m, "[");
  for (int64_t i = 0; i < n; i++) say(m, i ? ", %lld" : "%lld", (long long)v[i]);
  say(m, "]");
}

/* Throws a RuntimeError through torch; what the kernel owns must be free already. */
static void throw_message(const char *kernel, const message *m) {
  tgx_shim.aoti_torch_check(false, kernel, "views.c", 0, m->text);
}

/* ---- arguments ---- */

/* Reads and frees a list. */
static void take_ints(tgx_ivalue value, ints *to) {
  void *list = (void *)(uintptr_t)value;
  size_t n = 0;
  tgx_ivalue item;
  tgx_shim.torch_list_size(list, &n);
  to->n = (int64_t)n;
  for (size_t i = 0; i < n && i < MAX_DIMS; i++)
    if (tgx_shim.torch_list_get_item(list, i, &item) == 0) to->v[i] = (int64_t)item;
  tgx_shim.torch_delete_list(list);
}

typedef struct {
  int64_t ndim, offset, item, storage_bytes;
  const int64_t *sizes, *strides;
} source;

static bool read_source(tgx_tensor t, source *s, message *m) {
  int32_t scalar_type;
  int64_t *sizes, *strides;
  if (tgx_shim.aoti_torch_get_dim(t, &s->ndim) || tgx_shim.aoti_torch_get_sizes(t, &sizes) ||
      tgx_shim.aoti_torch_get_strides(t, &strides) || tgx_shim.aoti_torch_get_dtype(t, &scalar_type) ||
      tgx_shim.aoti_torch_get_storage_offset(t, &s->offset) ||
      tgx_shim.aoti_torch_get_storage_size(t, &s->storage_bytes)) {
    say(m, "%s", tgx_shim.torch_exception_get_what_without_backtrace());
    return false;
  }
  s->sizes = sizes;
  s->strides = strides;
  s->item = tgx_item_size(scalar_type);
  return true;
}

static struct {
  bool (*inference)(void); /* c10::InferenceMode::is_enabled */
  uint64_t version;        /* torch's */
} torch_state;

static bool new_list(const int64_t *v, int64_t n, tgx_ivalue *to) {
  void *list;
  if (tgx_shim.torch_new_list_reserve_size((size_t)n, &list)) return false;
  for (int64_t i = 0; i < n; i++) tgx_shim.torch_list_push_back(list, (tgx_ivalue)v[i]);
  *to = (tgx_ivalue)(uintptr_t)list;
  return true;
}

/* The view as an alias that then gets other sizes, which is a tensor for inference just if t is one. Both calls take
 * over what is on their stack. */
static bool view_of_alias(tgx_tensor t, const ints *sizes, const int64_t *strides, int64_t offset, tgx_tensor *view) {
  tgx_ivalue stack[4], *place;
  tgx_tensor same;
  if (tgx_shim.aoti_torch_new_tensor_handle(t, &same)) return false;
  stack[0] = (tgx_ivalue)(uintptr_t)same;
  if (tgx_shim.torch_call_dispatcher("aten::alias", "", stack, torch_state.version)) return false;
  if (!new_list(sizes->v, sizes->n, &stack[1]) || !new_list(strides, sizes->n, &stack[2]) ||
      tgx_shim.torch_new_stable_ivalue(&place))
    return false;
  *place = (tgx_ivalue)offset;
  stack[3] = (tgx_ivalue)(uintptr_t)place;
  if (tgx_shim.torch_call_dispatcher("aten::as_strided_", "", stack, torch_state.version)) return false;
  *view = (tgx_tensor)(uintptr_t)stack[0];
  return true;
}

static bool new_view(tgx_tensor t, const source *s, const ints *sizes, const int64_t *strides, int64_t offset,
                     tgx_tensor *view) {
  /* _reinterpret_tensor makes a tensor for inference in inference mode, and only there. */
  if (torch_state.inference() || tgx_lacks_keys(t)) return view_of_alias(t, sizes, strides, offset, view);
  return tgx_shim.aoti_torch__reinterpret_tensor(t, sizes->n, sizes->v, strides, offset - s->offset, view) == 0;
}

/* The end of a kernel: the view of t in its place, or the error. */
static void give(const char *kernel, tgx_ivalue *stack, tgx_tensor t, const source *s, const ints *sizes,
                 const int64_t *strides, int64_t offset, message *m) {
  tgx_tensor view = NULL;
  if (m->n == 0 && !new_view(t, s, sizes, strides, offset, &view))
    say(m, "%s", tgx_shim.torch_exception_get_what_without_backtrace());
  tgx_shim.aoti_torch_delete_tensor_object(t);
  if (m->n > 0) throw_message(kernel, m);
  stack[0] = (tgx_ivalue)(uintptr_t)view;
}

/* ---- as_strided ---- */

/* Elements from the first to the last that a view reaches, 0 for an empty one; false on overflow. */
static bool span(const ints *sizes, const int64_t *strides, int64_t *elements) {
  *elements = 1;
  for (int64_t i = 0; i < sizes->n; i++) {
    int64_t step;
    if (sizes->v[i] == 0) {
      *elements = 0;
      return true;
    }
    if (sizes->v[i] < 0 || __builtin_mul_overflow(sizes->v[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(*elements, step, elements))
      return false;
  }
  return true;
}

static void check_as_strided(const source *s, const ints *sizes, const ints *strides, int64_t offset, message *m) {
  int64_t elements, bytes;
  if (sizes->n != strides->n) {
    say(m, "mismatch in length of strides and shape");
    return;
  }
  for (int64_t i = 0; i < strides->n; i++) {
    if (strides->v[i] >= 0) continue;
    say(m, "as_strided: Negative strides are not supported at the moment, got strides: ");
    say_ints(m, strides->v, strides->n);
    return;
  }
  if (offset < 0) {
    say(m, "Tensor: invalid storage offset %lld", (long long)offset);
    return;
  }
  bool fits = span(sizes, strides->v, &elements);
  if (fits && elements == 0) return;
  if (!fits || __builtin_add_overflow(elements, offset, &bytes) || __builtin_mul_overflow(bytes, s->item, &bytes)) {
    say(m, "Storage size calculation overflowed with sizes=");
    say_ints(m, sizes->v, sizes->n);
    say(m, " and strides=");
    say_ints(m, strides->v, strides->n);
  } else if (bytes > s->storage_bytes) {
    say(m, "setStorage: sizes ");
    say_ints(m, sizes->v, sizes->n);
    say(m, ", strides ");
    say_ints(m, strides->v, strides->n);
    say(m,
        ", storage offset %lld, and itemsize %lld requiring a storage size of %lld are out of bounds for storage of "
        "size %lld",
        (long long)offset, (long long)s->item, (long long)bytes, (long long)s->storage_bytes);
  }
}

/* as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a) */
static void as_strided(tgx_ivalue *stack, uint64_t nargs, uint64_t nouts) {
  (void)nargs, (void)nouts;
  tgx_tensor t = (tgx_tensor)(uintptr_t)stack[0];
  tgx_ivalue *given = (tgx_ivalue *)(uintptr_t)stack[3];
  ints sizes, strides;
  source s = {0};
  message m;
  m.n = 0;
  take_ints(stack[1], &sizes);
  take_ints(stack[2], &strides);
  int64_t offset = given ? (int64_t)*given : 0;
  if (given) tgx_shim.torch_delete_stable_ivalue(given);
  if (sizes.n > MAX_DIMS || strides.n > MAX_DIMS) {
    say(&m, "as_strided: more than %d dimensions", MAX_DIMS);
  } else if (read_source(t, &s, &m)) {
    if (!given) offset = s.offset;
    check_as_strided(&s, &sizes, &strides, offset, &m);
  }
  give("as_strided", stack, t, &s, &sizes, strides.v, offset, &m);
}

/* _reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a); the caller has checked them. */
static void reshape_alias(tgx_ivalue *stack, uint64_t nargs, uint64_t nouts) {
  (void)nargs, (void)nouts;
  tgx_tensor t = (tgx_tensor)(uintptr_t)stack[0];
  ints sizes, strides;
  source s = {0};
  message m;
  m.n = 0;
  take_ints(stack[1], &sizes);
  take_ints(stack[2], &strides);
  if (sizes.n > MAX_DIMS || sizes.n != strides.n)
    say(&m, "_reshape_alias: %lld sizes and %lld strides", (long long)sizes.n, (long long)strides.n);
  else
    read_source(t, &s, &m);
  give("_reshape_alias", stack, t, &s, &sizes, strides.v, s.offset, &m);
}

/* ---- view ---- */

static void say_invalid(message *m, const ints *shape, int64_t numel) {
  say(m, "shape '");
  say_ints(m, shape->v, shape->n);
  say(m, "' is invalid for input of size %lld", (long long)numel);
}

/* Replaces the -1 in shape. */
static void infer_size(ints *shape, int64_t numel, message *m) {
  int64_t known = 1, unknown = -1;
  for (int64_t d = 0; d < shape->n; d++) {
    if (shape->v[d] == -1 && unknown >= 0) {
      say(m, "only one dimension can be inferred");
      return;
    }
    if (shape->v[d] == -1) {
      unknown = d;
    } else if (shape->v[d] < 0) {
      say(m, "invalid shape dimension %lld at index %lld of shape ", (long long)shape->v[d], (long long)d);
      say_ints(m, shape->v, shape->n);
      return;
    } else if (__builtin_mul_overflow(known, shape->v[d], &known)) {
      say_invalid(m, shape, numel);
      return;
    }
  }
  if (unknown < 0) {
    if (known != numel) say_invalid(m, shape, numel);
  } else if (known == 0 && numel == 0) {
    say(m, "cannot reshape tensor of 0 elements into shape ");
    say_ints(m, shape->v, shape->n);
    say(m, " because the unspecified dimension size -1 can be any value and is ambiguous");
  } else if (known == 0 || numel % known != 0) {
    say_invalid(m, shape, numel);
  } else {
    shape->v[unknown] = numel / known;
  }
}

static void contiguous_strides(const ints *shape, int64_t *strides) {
  int64_t step = 1;
  for (int64_t d = shape->n - 1; d >= 0; d--) {
    strides[d] = step;
    step *= shape->v[d] > 1 ? shape->v[d] : 1;
  }
}

/* Strides of the view of s with that shape (same number of elements, not 0); false if there is no such view. */
static bool view_strides(const source *s, const ints *shape, int64_t *strides) {
  int64_t d = shape->n - 1, chunk = 1, in_view = 1;
  int64_t base = s->ndim > 0 ? s->strides[s->ndim - 1] : 1;
  for (int64_t i = s->ndim - 1; i >= 0; i--) {
    chunk *= s->sizes[i];
    if (i > 0 && (s->sizes[i - 1] == 1 || s->strides[i - 1] == chunk * base)) continue;
    /* Dimensions i.. of s up to the last break are one run in memory. */
    while (d >= 0 && (in_view < chunk || shape->v[d] == 1)) {
      strides[d] = in_view * base;
      in_view *= shape->v[d--];
    }
    if (in_view != chunk) return false;
    if (i > 0) {
      base = s->strides[i - 1];
      chunk = in_view = 1;
    }
  }
  if (s->ndim == 0)
    for (; d >= 0; d--) strides[d] = 1;
  return d < 0;
}

static void plan_view(const source *s, ints *shape, int64_t *strides, message *m) {
  int64_t numel = 1;
  bool same = s->ndim == shape->n;
  for (int64_t i = 0; i < s->ndim; i++) numel *= s->sizes[i];
  infer_size(shape, numel, m);
  if (m->n > 0) return;
  for (int64_t i = 0; same && i < shape->n; i++) same = s->sizes[i] == shape->v[i];
  if (numel == 0 && same) {
    memcpy(strides, s->strides, (size_t)shape->n * sizeof *strides);
  } else if (numel == 0) {
    contiguous_strides(shape, strides);
  } else if (!view_strides(s, shape, strides)) {
    say(m, "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
           "contiguous subspaces). Use .reshape(...) instead.");
  }
}

/* view(Tensor(a) self, SymInt[] size) -> Tensor(a) */
static void view(tgx_ivalue *stack, uint64_t nargs, uint64_t nouts) {
  (void)nargs, (void)nouts;
  tgx_tensor t = (tgx_tensor)(uintptr_t)stack[0];
  ints shape;
  int64_t strides[MAX_DIMS];
  source s = {0};
  message m;
  m.n = 0;
  take_ints(stack[1], &shape);
  if (shape.n > MAX_DIMS)
    say(&m, "view: more than %d dimensions", MAX_DIMS);
  else if (read_source(t, &s, &m))
    plan_view(&s, &shape, strides, &m);
  give("view", stack, t, &s, &shape, strides, s.offset, &m);
}

const char *tgx_register_views(uint64_t torch_version) {
  static void *library; /* lives as long as the process, as torch's own registrations do */
  static const struct {
    const char *name;
    void (*kernel)(tgx_ivalue *, uint64_t, uint64_t);
  } kernels[] = {{"as_strided", as_strided}, {"_reshape_alias", reshape_alias}, {"view", view}};
  torch_state.version = torch_version;
  *(void **)&torch_state.inference = tgx_shim_symbol("_ZN3c1013InferenceMode10is_enabledEv");
  if (torch_state.inference == NULL) return "c10::InferenceMode::is_enabled";
  if (tgx_shim.aoti_torch_library_init_impl("aten", "PrivateUse1", "views.c", 1, &library))
    return tgx_shim.torch_exception_get_what_without_backtrace();
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if (tgx_shim.torch_library_impl(library, kernels[i].name, kernels[i].kernel, torch_version))
      return tgx_shim.torch_exception_get_what_without_backtrace();
  return NULL;
}
