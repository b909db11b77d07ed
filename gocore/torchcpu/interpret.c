/* Programs of many calls. A program is a list of instructions, which package interp writes from a plan; each makes one value, or
 * several, from others. Values are tensors of torch's: the parameters lie in memory of the device, the others in torch's own. Views
 * share memory; nothing is written in place, so that no value changes once it is made.
 *
 *   instruction   opcode, words behind this one, operands…
 *
 * Operands are numbers of values ("dst" is the one that is made), sizes, and numbers of the execution's numbers. The program is this
 * process's own: it is not checked, but each result of a call is compared with the shape that the graph has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "torch.h"

enum { C10_BOOL = 11, C10_INT = 3, C10_LONG = 4, C10_FLOAT = 6, C10_DOUBLE = 7, C10_COMPLEX_DOUBLE = 10 };

struct machine {
  struct torch_execution *x;
  torch_tensor *values;
  const int64_t *at; /* the operands of the instruction */
};

static bool refuse(struct machine *m, const char *what) {
  snprintf(m->x->message, sizeof m->x->message, "%s", what);
  return false;
}

static bool failed(struct machine *m) { return refuse(m, torch.torch_exception_get_what_without_backtrace()); }

static bool did(struct machine *m, int32_t status) { return status == 0 || failed(m); }

static int64_t next(struct machine *m) { return *m->at++; }

/* The next n words. */
static const int64_t *take(struct machine *m, int64_t n) {
  const int64_t *words = m->at;
  m->at += n;
  return words;
}

static void drop(torch_tensor *t) {
  if (*t != NULL) torch.aoti_torch_delete_tensor_object(*t);
  *t = NULL;
}

/* ---- shapes ---- */

struct layout {
  int64_t rank, *dims, *strides;
};

static bool layout_of(struct machine *m, torch_tensor t, struct layout *l) {
  return did(m, torch.aoti_torch_get_dim(t, &l->rank)) && did(m, torch.aoti_torch_get_sizes(t, &l->dims)) &&
         did(m, torch.aoti_torch_get_strides(t, &l->strides));
}

static void dense_strides(int64_t rank, const int64_t *dims, int64_t *strides) {
  int64_t step = 1;
  for (int64_t d = rank - 1; d >= 0; d--) {
    strides[d] = step;
    step *= dims[d] > 1 ? dims[d] : 1;
  }
}

static bool is_dense(const struct layout *l) {
  int64_t step = 1;
  for (int64_t d = l->rank - 1; d >= 0; d--) {
    if (l->dims[d] == 0) return true;
    if (l->dims[d] != 1 && l->strides[d] != step) return false;
    step *= l->dims[d];
  }
  return true;
}

static bool empty(struct machine *m, int64_t type, int64_t rank, const int64_t *dims, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK];
  dense_strides(rank, dims, strides);
  return did(m, torch.aoti_torch_empty_strided(rank, dims, strides, (int32_t)type, torch.aoti_torch_device_type_cpu(), 0, out));
}

/* A dense copy. */
static bool copy(struct machine *m, torch_tensor t, torch_tensor *out) {
  struct layout l;
  int32_t type = 0;
  if (!layout_of(m, t, &l) || !did(m, torch.aoti_torch_get_dtype(t, &type)) || !empty(m, type, l.rank, l.dims, out)) return false;
  if (did(m, torch.aoti_torch_copy_(*out, t, 0))) return true;
  drop(out);
  return false;
}

/* The tensor itself if it is dense, else a dense copy. */
static bool dense(struct machine *m, torch_tensor t, torch_tensor *out) {
  struct layout l;
  if (!layout_of(m, t, &l)) return false;
  return is_dense(&l) ? did(m, torch.aoti_torch_new_tensor_handle(t, out)) : copy(m, t, out);
}

static bool view(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset, torch_tensor *out) {
  return did(m, torch.aoti_torch__reinterpret_tensor(t, rank, dims, strides, offset, out));
}

/* ---- numbers ---- */

static double real_of(const struct torch_number *n) { return n->type == C10_BOOL || n->type <= C10_LONG || n->type >= 27 ? (double)n->i : n->f; }

static bool is_integral(int64_t type) { return type == C10_BOOL || type <= C10_LONG || (type >= 27 && type <= 29); }

static int64_t whole_of(const struct torch_number *n) { return is_integral(n->type) ? n->i : (int64_t)n->f; }

/* Writes a number in a type of torch's that needs no rounding rules of its own; false for other types. */
static bool write_number(const struct torch_number *n, int64_t type, void *to) {
  switch (type) {
    case C10_DOUBLE:
      *(double *)to = real_of(n);
      return true;
    case C10_FLOAT:
      *(float *)to = (float)real_of(n);
      return true;
    case C10_LONG:
      *(int64_t *)to = whole_of(n);
      return true;
    case C10_BOOL:
      *(bool *)to = is_integral(n->type) ? n->i != 0 : n->f != 0 || n->im != 0;
      return true;
    case C10_COMPLEX_DOUBLE:
      ((double *)to)[0] = real_of(n);
      ((double *)to)[1] = is_integral(n->type) ? 0 : n->im;
      return true;
  }
  return false;
}

/* A number as a tensor of one element with rank dimensions. */
static bool number(struct machine *m, const struct torch_number *n, int64_t type, int64_t rank, torch_tensor *out) {
  static const int64_t one[1] = {1};
  void *data = NULL;
  bool exact = type == C10_DOUBLE || type == C10_FLOAT || type == C10_LONG || type == C10_BOOL || type == C10_COMPLEX_DOUBLE;
  int64_t natural = exact ? type : is_integral(n->type) ? C10_LONG : n->type == C10_COMPLEX_DOUBLE || n->type == 9 ? C10_COMPLEX_DOUBLE : C10_DOUBLE;
  if (!empty(m, natural, rank, one, out)) return false;
  if (!did(m, torch.torch_get_mutable_data_ptr(*out, &data))) return false;
  write_number(n, natural, data);
  if (exact) return true;
  torch_tensor rounded = NULL;
  bool ok = empty(m, type, rank, one, &rounded) && did(m, torch.aoti_torch_copy_(rounded, *out, 0));
  drop(out);
  *out = rounded;
  return ok;
}

static const struct torch_number *ref(struct machine *m) { return &m->x->numbers[next(m)]; }

static torch_tensor value(struct machine *m) { return m->values[next(m)]; }

/* ---- instructions ---- */

/* dst, number, type, rank */
static bool do_number(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)];
  const struct torch_number *n = ref(m);
  int64_t type = next(m);
  return number(m, n, type, next(m), dst);
}

/* dst, number, type, rank, dims… */
static bool do_full(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], one = NULL;
  const struct torch_number *n = ref(m);
  int64_t type = next(m), rank = next(m);
  bool ok = number(m, n, type, 0, &one) && empty(m, type, rank, m->at, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0));
  drop(&one);
  return ok;
}

/* dst, start, step, type, n: start, start + step, … */
static bool do_iota(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], natural = NULL;
  const struct torch_number *start = ref(m), *step = ref(m);
  int64_t type = next(m), n = next(m);
  bool whole = is_integral(type);
  void *data = NULL;
  if (!empty(m, whole ? C10_LONG : C10_DOUBLE, 1, &n, &natural)) return false;
  bool ok = did(m, torch.torch_get_mutable_data_ptr(natural, &data));
  for (int64_t i = 0; ok && i < n; i++) {
    if (whole)
      ((int64_t *)data)[i] = whole_of(start) + i * whole_of(step);
    else
      ((double *)data)[i] = real_of(start) + (double)i * real_of(step);
  }
  if (ok && type == (whole ? C10_LONG : C10_DOUBLE)) {
    *dst = natural;
    return true;
  }
  ok = ok && empty(m, type, 1, &n, dst) && did(m, torch.aoti_torch_copy_(*dst, natural, 0));
  drop(&natural);
  return ok;
}

/* dst, what, key and draws as numbers, block, from or a, count or b, whether wide, rank, dims…: random numbers */
static bool do_random(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)];
  struct torch_draw d = {.kind = (enum torch_drawn)next(m)};
  struct torch_stream s = {.key = (uint64_t)whole_of(ref(m))};
  s.draws = (uint64_t)whole_of(ref(m)), s.block = (uint64_t)next(m);
  const int64_t *range = take(m, 2);
  d.from = range[0], d.count = (uint64_t)range[1];
  memcpy(&d.a, &range[0], sizeof d.a), memcpy(&d.b, &range[1], sizeof d.b);
  d.wide = next(m) != 0;
  int64_t rank = next(m), n = 1;
  int64_t type = d.kind == TORCH_CHANCE ? C10_BOOL : d.kind == TORCH_KEYS || d.kind == TORCH_INTEGERS ? C10_LONG : d.wide ? C10_DOUBLE : C10_FLOAT;
  void *data = NULL;
  for (int64_t i = 0; i < rank; i++) n *= m->at[i];
  if (!empty(m, type, rank, m->at, dst) || !did(m, torch.torch_get_mutable_data_ptr(*dst, &data))) return false;
  torch_draw(&s, &d, n, data);
  return true;
}

/* dst, src, rank, permutation… */
static bool do_transpose(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), dims[TORCH_MOST_RANK], strides[TORCH_MOST_RANK];
  const int64_t *of = take(m, rank);
  struct layout l;
  if (!layout_of(m, src, &l)) return false;
  for (int64_t d = 0; d < rank; d++) dims[d] = l.dims[of[d]], strides[d] = l.strides[of[d]];
  return view(m, src, rank, dims, strides, 0, dst);
}

/* A block of a tensor. */
static bool block_of(struct machine *m, torch_tensor t, int64_t rank, const int64_t *starts, const int64_t *sizes, const int64_t *steps, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK], offset = 0;
  struct layout l;
  if (!layout_of(m, t, &l)) return false;
  for (int64_t d = 0; d < rank; d++) {
    strides[d] = l.strides[d] * (steps != NULL ? steps[d] : 1);
    offset += starts[d] * l.strides[d];
  }
  return view(m, t, rank, sizes, strides, offset, out);
}

/* dst, src, rank, starts…, limits…, strides… */
static bool do_slice(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), sizes[TORCH_MOST_RANK];
  const int64_t *starts = take(m, rank), *limits = take(m, rank), *steps = take(m, rank);
  for (int64_t d = 0; d < rank; d++) sizes[d] = (limits[d] - starts[d] + steps[d] - 1) / steps[d];
  return block_of(m, src, rank, starts, sizes, steps, dst);
}

/* The starts of a block of these sizes, moved to where it fits, as a dynamic slice has them. */
static void fitting(struct machine *m, int64_t rank, const struct layout *l, const int64_t *sizes, int64_t *starts) {
  for (int64_t d = 0; d < rank; d++) {
    int64_t at = whole_of(ref(m)), last = l->dims[d] - sizes[d];
    starts[d] = at < 0 ? 0 : at > last ? last : at;
  }
}

/* dst, src, rank, sizes…, starts as numbers… */
static bool do_dynamic_slice(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), starts[TORCH_MOST_RANK];
  const int64_t *sizes = take(m, rank);
  struct layout l;
  if (!layout_of(m, src, &l)) return false;
  fitting(m, rank, &l, sizes, starts);
  return block_of(m, src, rank, starts, sizes, NULL, dst);
}

/* dst, src, rank, dims…, rank of src, where its dimensions are… */
static bool do_broadcast(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), strides[TORCH_MOST_RANK] = {0};
  const int64_t *dims = take(m, rank);
  int64_t from = next(m);
  const int64_t *mapping = take(m, from);
  struct layout l;
  if (!layout_of(m, src, &l)) return false;
  for (int64_t d = 0; d < from; d++) strides[mapping[d]] = l.dims[d] == dims[mapping[d]] ? l.strides[d] : 0;
  return view(m, src, rank, dims, strides, 0, dst);
}

/* The strides of the same elements with other dimensions; false if there are none. What at::detail::computeStride does. */
static bool seen_as(const struct layout *l, int64_t rank, const int64_t *dims, int64_t *strides) {
  int64_t d = rank - 1, base = l->rank > 0 ? l->strides[l->rank - 1] : 1, chunk = 1, viewed = 1;
  for (int64_t i = 0; i < l->rank; i++)
    if (l->dims[i] == 0) {
      dense_strides(rank, dims, strides);
      return true;
    }
  for (int64_t i = l->rank - 1; i >= 0; i--) {
    chunk *= l->dims[i];
    if (i > 0 && (l->dims[i - 1] == 1 || l->strides[i - 1] == chunk * base)) continue;
    for (; d >= 0 && (viewed < chunk || dims[d] == 1); d--) {
      strides[d] = viewed * base;
      viewed *= dims[d];
    }
    if (viewed != chunk) return false;
    if (i > 0) base = l->strides[i - 1], chunk = viewed = 1;
  }
  for (; d >= 0; d--) strides[d] = viewed * base; /* all of size 1 */
  return true;
}

static bool reshape(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK];
  struct layout l;
  if (!layout_of(m, t, &l)) return false;
  if (seen_as(&l, rank, dims, strides)) return view(m, t, rank, dims, strides, 0, out);
  torch_tensor made = NULL;
  dense_strides(rank, dims, strides);
  bool ok = copy(m, t, &made) && view(m, made, rank, dims, strides, 0, out);
  drop(&made);
  return ok;
}

/* dst, src, rank, dims… */
static bool do_reshape(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m);
  return reshape(m, src, rank, m->at, dst);
}

/* dst, src, rank, size…, stride…, offset: a strided view of a dense array */
static bool do_strided(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m), base = NULL;
  int64_t rank = next(m);
  const int64_t *dims = take(m, rank), *strides = take(m, rank);
  bool ok = dense(m, src, &base) && view(m, base, rank, dims, strides, next(m), dst);
  drop(&base);
  return ok;
}

/* Copies a value to a place of what was made, and gives up both the place and, if that failed, what was made. */
static bool written(struct machine *m, bool ok, torch_tensor *place, torch_tensor from, torch_tensor *made) {
  ok = ok && did(m, torch.aoti_torch_copy_(*place, from, 0));
  drop(place);
  if (!ok) drop(made);
  return ok;
}

/* dst, base, block, rank, starts…, strides…: a copy of base with the block written to it */
static bool do_update(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), block = value(m), place = NULL;
  int64_t rank = next(m);
  const int64_t *starts = take(m, rank), *steps = take(m, rank);
  struct layout l;
  bool ok = layout_of(m, block, &l) && copy(m, base, dst) && block_of(m, *dst, rank, starts, l.dims, steps, &place);
  return written(m, ok, &place, block, dst);
}

/* dst, base, block, rank, starts as numbers… */
static bool do_dynamic_update(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), block = value(m), place = NULL;
  int64_t rank = next(m), starts[TORCH_MOST_RANK];
  struct layout l, to;
  if (!layout_of(m, block, &l) || !layout_of(m, base, &to)) return false;
  fitting(m, rank, &to, l.dims, starts);
  bool ok = copy(m, base, dst) && block_of(m, *dst, rank, starts, l.dims, NULL, &place);
  return written(m, ok, &place, block, dst);
}

/* dst, base, value, rank, size…, stride…, offset: a copy of the flat base with the value written to a strided view of it */
static bool do_scatter(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), from = value(m), place = NULL, seen = NULL;
  int64_t rank = next(m);
  const int64_t *dims = take(m, rank), *strides = take(m, rank);
  bool ok = reshape(m, from, rank, dims, &seen) && copy(m, base, dst) && view(m, *dst, rank, dims, strides, next(m), &place);
  ok = written(m, ok, &place, seen, dst);
  drop(&seen);
  return ok;
}

/* dst, src, type, rank, dims…, low…: zeros around the value; negative padding leaves some of it out */
static bool do_pad(struct machine *m) {
  static const struct torch_number zero = {.type = C10_LONG};
  torch_tensor *dst = &m->values[next(m)], src = value(m), to = NULL, from = NULL, one = NULL;
  int64_t type = next(m), rank = next(m), sizes[TORCH_MOST_RANK], out[TORCH_MOST_RANK], in[TORCH_MOST_RANK];
  const int64_t *dims = take(m, rank), *low = take(m, rank);
  struct layout l;
  bool ok = layout_of(m, src, &l) && number(m, &zero, type, 0, &one) && empty(m, type, rank, dims, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0));
  for (int64_t d = 0; ok && d < rank; d++) {
    out[d] = low[d] > 0 ? low[d] : 0;
    in[d] = low[d] < 0 ? -low[d] : 0;
    int64_t room = dims[d] - out[d], there = l.dims[d] - in[d];
    sizes[d] = room < there ? room : there;
    if (sizes[d] < 0) sizes[d] = 0;
  }
  ok = ok && block_of(m, *dst, rank, out, sizes, NULL, &to) && block_of(m, src, rank, in, sizes, NULL, &from);
  ok = written(m, ok, &to, from, dst);
  drop(&from);
  drop(&one);
  return ok;
}

/* dst, a, b, number, sign: a + sign · number · b, of a floating type */
static bool do_add(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], a = value(m), b = value(m);
  double alpha = real_of(ref(m));
  return did(m, torch.aoti_torch_cpu_add_Tensor(a, b, alpha * (double)next(m), dst));
}

/* dst, self, a, b, beta, alpha, type, rank, dims…: beta · self + alpha · (a @ b), of a floating type */
static bool do_addmm(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], self = value(m), a = value(m), b = value(m);
  double beta = real_of(ref(m)), alpha = real_of(ref(m));
  int64_t type = next(m), rank = next(m);
  if (!empty(m, type, rank, m->at, dst)) return false;
  return did(m, rank == 3 ? torch.aoti_torch_cpu_baddbmm_out(*dst, self, a, b, beta, alpha) : torch.aoti_torch_cpu_addmm_out(*dst, self, a, b, beta, alpha));
}

/* dst, src, size, fill, rank: the places of what is not zero, in size rows; those that are left over are filled */
static bool do_nonzero(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m), found = NULL, place = NULL, part = NULL, one = NULL;
  int64_t dims[] = {next(m), 0}, count[2];
  struct torch_number fill = {.type = C10_LONG, .i = next(m)};
  struct layout l;
  dims[1] = next(m);
  bool ok = number(m, &fill, C10_LONG, 0, &one) && empty(m, C10_LONG, 2, dims, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0)) &&
            did(m, torch.aoti_torch_cpu_nonzero(src, &found)) && layout_of(m, found, &l);
  if (ok) {
    count[0] = l.dims[0] < dims[0] ? l.dims[0] : dims[0], count[1] = dims[1];
    ok = view(m, found, 2, count, l.strides, 0, &part) && view(m, *dst, 2, count, (int64_t[]){dims[1] > 0 ? dims[1] : 1, 1}, 0, &place);
  }
  ok = written(m, ok, &place, part, dst);
  drop(&part);
  drop(&found);
  drop(&one);
  return ok;
}

/* dst, a, number: a to a real power, of a floating or complex type */
static bool do_power(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], a = value(m);
  return did(m, torch.aoti_torch_cpu_pow_Tensor_Scalar(a, real_of(ref(m)), dst));
}

/* dst, src: the same value */
static bool do_same(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)];
  return did(m, torch.aoti_torch_new_tensor_handle(value(m), dst));
}

/* value, limit, ignored: fails unless the value's integers are below the limit and not negative, or the ignored one */
static bool do_range(struct machine *m) {
  torch_tensor src = value(m), t = NULL;
  int64_t limit = next(m), ignored = next(m), n = 1;
  int32_t type = 0;
  const void *data = NULL;
  struct layout l;
  if (!did(m, torch.aoti_torch_get_dtype(src, &type))) return false;
  if (type != C10_LONG) return refuse(m, "the indices are not of 64 bits");
  bool ok = dense(m, src, &t) && layout_of(m, t, &l) && did(m, torch.torch_get_const_data_ptr(t, &data));
  for (int64_t d = 0; ok && d < l.rank; d++) n *= l.dims[d];
  for (int64_t i = 0; ok && i < n; i++) {
    int64_t at = ((const int64_t *)data)[i];
    if (at != ignored && (at < 0 || at >= limit)) ok = refuse(m, "an index is out of range");
  }
  drop(&t);
  return ok;
}

/* n, values… */
static bool do_free(struct machine *m) {
  for (int64_t n = next(m); n > 0; n--) {
    int64_t i = next(m);
    if (i >= m->x->param_count) drop(&m->values[i]);
  }
  return true;
}

static bool differs(struct machine *m, const char *op, const char *what) {
  snprintf(m->x->message, sizeof m->x->message, "%s %s", op, what);
  return false;
}

/* Whether a result of an op has a shape: type, rank, dims… */
static bool has_shape(struct machine *m, const char *op, torch_tensor t, int64_t type, int64_t rank, const int64_t *dims) {
  struct layout l;
  bool defined = false;
  int32_t have = 0;
  if (torch.aoti_torch_is_defined(t, &defined) != 0 || !defined) return differs(m, op, "gives no result");
  if (!layout_of(m, t, &l) || !did(m, torch.aoti_torch_get_dtype(t, &have))) return false;
  if (have != type) return differs(m, op, "gives another type than the graph has");
  if (l.rank != rank || (rank > 0 && memcmp(l.dims, dims, (size_t)rank * sizeof *dims) != 0))
    return differs(m, op, "gives another shape than the graph has");
  return true;
}

enum { CALL_WORDS = 256, CALL_OPERANDS = 128 };

/* Takes the only element of a list that an op has returned. */
static bool unlist(struct machine *m, torch_tensor *made) {
  void *list = *made;
  uint64_t item = 0;
  *made = NULL;
  bool ok = did(m, torch.torch_list_get_item(list, 0, &item));
  torch.torch_delete_list(list);
  *made = (torch_tensor)(uintptr_t)item;
  return ok;
}

/* Makes the tensor of an array, unless it is there. */
static bool keep(struct machine *m, struct torch_kept *k, const struct torch_array *a) {
  struct torch_call wrap = {.op = NULL};
  if (k->tensor != NULL && k->data == a->data) return true;
  drop(&k->tensor);
  k->data = a->data;
  return torch_tensor_of(&wrap, a, &k->tensor) || refuse(m, wrap.message);
}

/* Where the results of a call are to be, if all of them are roots that are wanted in memory of the caller's. */
static bool placed(struct machine *m, const int64_t *results, int64_t count, struct torch_array *out) {
  for (int64_t i = 0; i < count; i++, results += 4 + results[3]) {
    void *memory = results[1] < 0 ? NULL : m->x->into[results[1]];
    if (memory == NULL) return false;
    out[i] = (struct torch_array){.data = memory, .dims = results + 4, .rank = (int32_t)results[3], .type = (int32_t)results[2]};
  }
  return true;
}

/* op, whether it returns a list, words: n, words…; patches: n, (place, or ~place for a float, number)…; operands: n, values…; results: n, (value or −1, root or −1, type, rank, dims…)… */
static bool do_call(struct machine *m) {
  int64_t words[CALL_WORDS];
  torch_tensor held[CALL_OPERANDS], held_out[TORCH_MOST], made[TORCH_MOST] = {0};
  struct torch_array out[TORCH_MOST];
  struct torch_call call = {.op = &m->x->program->ops[next(m)], .words = words, .held = held, .made = made};
  bool list = next(m) != 0;
  call.word_count = next(m);
  memcpy(words, take(m, call.word_count), (size_t)call.word_count * sizeof *words);
  for (int64_t n = next(m); n > 0; n--) {
    int64_t at = next(m);
    const struct torch_number *v = ref(m);
    double real = real_of(v);
    if (at < 0)
      memcpy(&words[~at], &real, sizeof real);
    else
      words[at] = whole_of(v);
  }
  call.in_count = next(m);
  for (int64_t i = 0; i < call.in_count; i++) held[i] = value(m);
  call.out_count = next(m);
  if (placed(m, m->at, call.out_count, out)) {
    call.out = out, call.held_out = held_out;
    const int64_t *results = m->at;
    for (int64_t i = 0; i < call.out_count; i++, results += 4 + results[3]) {
      struct torch_kept *k = &m->x->kept[m->x->param_count + results[1]];
      if (!keep(m, k, &out[i])) return false;
      held_out[i] = k->tensor;
    }
  }
  if (!torch_run(&call)) return refuse(m, call.message);
  bool ok = !list || unlist(m, &made[0]);
  for (int64_t i = 0; i < call.out_count; i++) {
    int64_t to = next(m);
    m->at++;
    int64_t type = next(m), rank = next(m);
    const int64_t *dims = take(m, rank);
    if (ok && to >= 0) ok = has_shape(m, call.op->name, made[i], type, rank, dims);
    if (ok && to >= 0)
      m->values[to] = made[i];
    else
      drop(&made[i]);
  }
  return ok;
}

/* By opcode; those of package interp. */
static bool (*const instructions[])(struct machine *) = {
    do_call, do_number, do_full, do_iota,   do_random,  do_transpose,      do_slice,   do_dynamic_slice, do_broadcast, do_reshape, do_strided,
    do_update, do_dynamic_update, do_scatter, do_pad, do_add, do_addmm, do_power, do_nonzero, do_same, do_range, do_free,
};

/* ---- a program ---- */

static bool is_inside(const struct torch_execution *x, const void *data) {
  for (int64_t i = 0; i < x->param_count; i++) {
    const struct torch_array *a = &x->params[i];
    int64_t bytes = 16; /* of an element, at most */
    for (int d = 0; d < a->rank; d++) bytes *= a->dims[d];
    if ((const char *)data >= (const char *)a->data && (const char *)data < (const char *)a->data + bytes) return true;
  }
  return false;
}

/* Copies root t to the caller's memory. */
static bool copy_into(struct machine *m, torch_tensor t, const struct layout *l, void *memory) {
  struct torch_call wrap = {.op = NULL};
  struct torch_array a = {.data = memory, .dims = l->dims, .rank = (int32_t)l->rank};
  torch_tensor to = NULL;
  if (!did(m, torch.aoti_torch_get_dtype(t, &a.type))) return false;
  if (!torch_tensor_of(&wrap, &a, &to)) return refuse(m, wrap.message);
  bool ok = did(m, torch.aoti_torch_copy_(to, t, 0));
  drop(&to);
  return ok;
}

/* Tells whether a tensor is about all of its storage, which lives as long as the tensor does. */
static bool is_whole(torch_tensor t) {
  int64_t own = 0, all = 0;
  return torch.aoti_torch_get_numel(t, &own) == 0 && torch.aoti_torch_get_storage_numel(t, &all) == 0 && all / 2 <= own;
}

/* Root i: in the memory that the caller wants it in, or dense and not in a parameter's memory, which another root may take over,
   nor a small part of what was computed. */
static bool give(struct machine *m, int64_t i) {
  torch_tensor t = m->values[m->x->program->roots[i]], *out = &m->x->roots[i];
  void *memory = m->x->into[i];
  const void *data = NULL;
  struct layout l;
  if (!did(m, torch.torch_get_const_data_ptr(t, &data))) return false;
  if (memory != NULL && data == memory) return true;
  if (!layout_of(m, t, &l)) return false;
  if (memory != NULL) return copy_into(m, t, &l, memory);
  return is_dense(&l) && !is_inside(m->x, data) && is_whole(t) ? did(m, torch.aoti_torch_new_tensor_handle(t, out)) : copy(m, t, out);
}

static bool run(struct machine *m) {
  struct torch_execution *x = m->x;
  const struct torch_program *p = x->program;
  for (int64_t i = 0; i < x->param_count; i++) {
    if (!keep(m, &x->kept[i], &x->params[i])) return false;
    m->values[i] = x->kept[i].tensor;
  }
  for (const int64_t *at = p->words, *end = at + p->word_count; at < end; at += 2 + at[1]) {
    x->at = at - p->words;
    m->at = at + 2;
    if (!instructions[at[0]](m)) return false;
  }
  for (int64_t i = 0; i < p->root_count; i++)
    if (!give(m, i)) return false;
  return true;
}

static bool interpret(void *with) {
  struct torch_execution *x = with;
  struct machine m = {.x = x, .values = x->values};
  bool ok = run(&m);
  for (int64_t i = x->param_count; i < x->program->values; i++) drop(&m.values[i]);
  for (int64_t i = 0; !ok && i < x->program->root_count; i++) drop(&x->roots[i]);
  if (!ok) torch_forget(x); /* an op that fails may have given its result another shape */
  return ok;
}

void torch_forget(struct torch_execution *x) {
  for (int64_t i = 0; i < x->param_count + x->program->root_count; i++) drop(&x->kept[i].tensor);
}

bool torch_interpret(struct torch_execution *x) {
  if (x->place != TORCH_APART) return torch_here(interpret, x, x->place == TORCH_SERIAL);
  snprintf(x->message, sizeof x->message, "no thread for torch's kernels"); /* for as long as nothing else is said */
  return torch_apart(interpret, x);
}

void *torch_data(torch_tensor t) {
  void *data = NULL;
  return torch.torch_get_mutable_data_ptr(t, &data) == 0 ? data : NULL;
}

void torch_free(torch_tensor t) {
  if (t != NULL) torch.aoti_torch_delete_tensor_object(t);
}

void torch_release(void *memory, void *tensor) {
  (void)memory;
  torch_free(tensor);
}
