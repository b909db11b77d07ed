/* Instructions that make a view of a value, or a copy of it with a part written. The words of each stand before it. */
#include "machine.h"

/* dst, src, rank, permutation… */
bool do_transpose(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), dims[TORCH_MOST_RANK], strides[TORCH_MOST_RANK];
  const int64_t *of = take(m, rank);
  struct layout l;
  if (!tensor_layout(m, src, &l)) return false;
  for (int64_t d = 0; d < rank; d++) dims[d] = l.dims[of[d]], strides[d] = l.strides[of[d]];
  return tensor_view(m, src, rank, dims, strides, 0, dst);
}

/* dst, src, rank, starts…, limits…, strides… */
bool do_slice(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), sizes[TORCH_MOST_RANK];
  const int64_t *starts = take(m, rank), *limits = take(m, rank), *steps = take(m, rank);
  for (int64_t d = 0; d < rank; d++) sizes[d] = (limits[d] - starts[d] + steps[d] - 1) / steps[d];
  return tensor_block(m, src, rank, starts, sizes, steps, dst);
}

/* The starts of a block of these sizes, moved to where it fits, as a dynamic slice has them. */
static void fitting(struct machine *m, int64_t rank, const struct layout *l, const int64_t *sizes, int64_t *starts) {
  for (int64_t d = 0; d < rank; d++) {
    int64_t at = whole_of(ref(m)), last = l->dims[d] - sizes[d];
    starts[d] = at < 0 ? 0 : at > last ? last : at;
  }
}

/* dst, src, rank, sizes…, starts as numbers… */
bool do_dynamic_slice(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), starts[TORCH_MOST_RANK];
  const int64_t *sizes = take(m, rank);
  struct layout l;
  if (!tensor_layout(m, src, &l)) return false;
  fitting(m, rank, &l, sizes, starts);
  return tensor_block(m, src, rank, starts, sizes, NULL, dst);
}

/* dst, src, rank, dims…, rank of src, where its dimensions are… */
bool do_broadcast(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m), strides[TORCH_MOST_RANK] = {0};
  const int64_t *dims = take(m, rank);
  int64_t from = next(m);
  const int64_t *mapping = take(m, from);
  struct layout l;
  if (!tensor_layout(m, src, &l)) return false;
  for (int64_t d = 0; d < from; d++) strides[mapping[d]] = l.dims[d] == dims[mapping[d]] ? l.strides[d] : 0;
  return tensor_view(m, src, rank, dims, strides, 0, dst);
}

/* dst, src, rank, dims… */
bool do_reshape(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m);
  int64_t rank = next(m);
  return tensor_reshape(m, src, rank, m->at, dst);
}

/* dst, src, rank, size…, stride…, offset: a strided view of a dense array */
bool do_strided(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m), base = NULL;
  int64_t rank = next(m);
  const int64_t *dims = take(m, rank), *strides = take(m, rank);
  bool ok = tensor_dense(m, src, &base) && tensor_view(m, base, rank, dims, strides, next(m), dst);
  drop(&base);
  return ok;
}

/* dst, src: the same value */
bool do_same(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)];
  return did(m, torch.aoti_torch_new_tensor_handle(value(m), dst));
}

bool written(struct machine *m, bool ok, torch_tensor *part, torch_tensor from, torch_tensor *made) {
  ok = ok && did(m, torch.aoti_torch_copy_(*part, from, 0));
  drop(part);
  if (!ok) drop(made);
  return ok;
}

/* dst, base, block, rank, starts…, strides…: a copy of base with the block written to it */
bool do_update(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), block = value(m), part = NULL;
  int64_t rank = next(m);
  const int64_t *starts = take(m, rank), *steps = take(m, rank);
  struct layout l;
  bool ok = tensor_layout(m, block, &l) && tensor_copy(m, base, dst) && tensor_block(m, *dst, rank, starts, l.dims, steps, &part);
  return written(m, ok, &part, block, dst);
}

/* dst, base, block, rank, starts as numbers… */
bool do_dynamic_update(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), block = value(m), part = NULL;
  int64_t rank = next(m), starts[TORCH_MOST_RANK];
  struct layout l, to;
  if (!tensor_layout(m, block, &l) || !tensor_layout(m, base, &to)) return false;
  fitting(m, rank, &to, l.dims, starts);
  bool ok = tensor_copy(m, base, dst) && tensor_block(m, *dst, rank, starts, l.dims, NULL, &part);
  return written(m, ok, &part, block, dst);
}

/* dst, base, value, rank, size…, stride…, offset: a copy of the flat base with the value written to a strided view
 * of it */
bool do_scatter(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], base = value(m), from = value(m), part = NULL, seen = NULL;
  int64_t rank = next(m);
  const int64_t *dims = take(m, rank), *strides = take(m, rank);
  bool ok = tensor_reshape(m, from, rank, dims, &seen) && tensor_copy(m, base, dst) && tensor_view(m, *dst, rank, dims, strides, next(m), &part);
  ok = written(m, ok, &part, seen, dst);
  drop(&seen);
  return ok;
}

/* dst, src, type, rank, dims…, low…: zeros around the value; negative padding leaves some of it out */
bool do_pad(struct machine *m) {
  static const struct torch_number zero = {.type = C10_LONG};
  torch_tensor *dst = &m->values[next(m)], src = value(m), to = NULL, from = NULL, one = NULL;
  int64_t type = next(m), rank = next(m), sizes[TORCH_MOST_RANK], out[TORCH_MOST_RANK], in[TORCH_MOST_RANK];
  const int64_t *dims = take(m, rank), *low = take(m, rank);
  struct layout l;
  bool ok = tensor_layout(m, src, &l) && tensor_number(m, &zero, type, 0, &one) && tensor_empty(m, type, rank, dims, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0));
  for (int64_t d = 0; ok && d < rank; d++) {
    out[d] = low[d] > 0 ? low[d] : 0;
    in[d] = low[d] < 0 ? -low[d] : 0;
    int64_t room = dims[d] - out[d], there = l.dims[d] - in[d];
    sizes[d] = room < there ? room : there;
    if (sizes[d] < 0) sizes[d] = 0;
  }
  ok = ok && tensor_block(m, *dst, rank, out, sizes, NULL, &to) && tensor_block(m, src, rank, in, sizes, NULL, &from);
  ok = written(m, ok, &to, from, dst);
  drop(&from);
  drop(&one);
  return ok;
}
