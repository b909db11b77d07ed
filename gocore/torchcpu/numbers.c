/* Instructions that make tensors of numbers. The words of each stand before it. */
#include <string.h>

#include "machine.h"
#include "random.h"

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

bool tensor_number(struct machine *m, const struct torch_number *n, int64_t type, int64_t rank, torch_tensor *out) {
  static const int64_t one[1] = {1};
  void *data = NULL;
  bool exact = type == C10_DOUBLE || type == C10_FLOAT || type == C10_LONG || type == C10_BOOL || type == C10_COMPLEX_DOUBLE;
  int64_t natural = exact ? type : is_integral(n->type) ? C10_LONG : n->type == C10_COMPLEX_DOUBLE || n->type == C10_COMPLEX_FLOAT ? C10_COMPLEX_DOUBLE : C10_DOUBLE;
  if (!tensor_empty(m, natural, rank, one, out)) return false;
  if (!did(m, torch.torch_get_mutable_data_ptr(*out, &data))) return false;
  write_number(n, natural, data);
  if (exact) return true;
  torch_tensor rounded = NULL;
  bool ok = tensor_empty(m, type, rank, one, &rounded) && did(m, torch.aoti_torch_copy_(rounded, *out, 0));
  drop(out);
  *out = rounded;
  return ok;
}

/* dst, number, type, rank */
bool do_number(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)];
  const struct torch_number *n = ref(m);
  int64_t type = next(m);
  return tensor_number(m, n, type, next(m), dst);
}

/* dst, number, type, rank, dims… */
bool do_full(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], one = NULL;
  const struct torch_number *n = ref(m);
  int64_t type = next(m), rank = next(m);
  bool ok = tensor_number(m, n, type, 0, &one) && tensor_empty(m, type, rank, m->at, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0));
  drop(&one);
  return ok;
}

/* dst, start, step, type, n: start, start + step, … */
bool do_iota(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], natural = NULL;
  const struct torch_number *start = ref(m), *step = ref(m);
  int64_t type = next(m), n = next(m);
  bool whole = is_integral(type);
  void *data = NULL;
  if (!tensor_empty(m, whole ? C10_LONG : C10_DOUBLE, 1, &n, &natural)) return false;
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
  ok = ok && tensor_empty(m, type, 1, &n, dst) && did(m, torch.aoti_torch_copy_(*dst, natural, 0));
  drop(&natural);
  return ok;
}

/* dst, what, key and draws as numbers, block, from or a, count or b, whether wide, rank, dims…: random numbers */
bool do_random(struct machine *m) {
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
  if (!tensor_empty(m, type, rank, m->at, dst) || !did(m, torch.torch_get_mutable_data_ptr(*dst, &data))) return false;
  torch_draw(&s, &d, n, data);
  return true;
}
