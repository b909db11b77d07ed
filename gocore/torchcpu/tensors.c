/* Tensors made of others: empty ones, copies, views. */
#include "machine.h"

bool tensor_layout(struct machine *m, torch_tensor t, struct layout *l) {
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

bool layout_is_dense(const struct layout *l) {
  int64_t step = 1;
  for (int64_t d = l->rank - 1; d >= 0; d--) {
    if (l->dims[d] == 0) return true;
    if (l->dims[d] != 1 && l->strides[d] != step) return false;
    step *= l->dims[d];
  }
  return true;
}

bool tensor_empty(struct machine *m, int64_t type, int64_t rank, const int64_t *dims, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK];
  dense_strides(rank, dims, strides);
  return did(m, torch.aoti_torch_empty_strided(rank, dims, strides, (int32_t)type, torch.aoti_torch_device_type_cpu(), 0, out));
}

bool tensor_copy(struct machine *m, torch_tensor t, torch_tensor *out) {
  struct layout l;
  int32_t type = 0;
  if (!tensor_layout(m, t, &l) || !did(m, torch.aoti_torch_get_dtype(t, &type)) || !tensor_empty(m, type, l.rank, l.dims, out)) return false;
  if (did(m, torch.aoti_torch_copy_(*out, t, 0))) return true;
  drop(out);
  return false;
}

bool tensor_dense(struct machine *m, torch_tensor t, torch_tensor *out) {
  struct layout l;
  if (!tensor_layout(m, t, &l)) return false;
  return layout_is_dense(&l) ? did(m, torch.aoti_torch_new_tensor_handle(t, out)) : tensor_copy(m, t, out);
}

bool tensor_view(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset, torch_tensor *out) {
  return did(m, torch.aoti_torch__reinterpret_tensor(t, rank, dims, strides, offset, out));
}

bool tensor_block(struct machine *m, torch_tensor t, int64_t rank, const int64_t *starts, const int64_t *sizes, const int64_t *steps, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK], offset = 0;
  struct layout l;
  if (!tensor_layout(m, t, &l)) return false;
  for (int64_t d = 0; d < rank; d++) {
    strides[d] = l.strides[d] * (steps != NULL ? steps[d] : 1);
    offset += starts[d] * l.strides[d];
  }
  return tensor_view(m, t, rank, sizes, strides, offset, out);
}

/* The strides of the same elements with other dimensions; false if there are none. What at::detail::computeStride
 * does. */
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

bool tensor_reshape(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, torch_tensor *out) {
  int64_t strides[TORCH_MOST_RANK];
  struct layout l;
  if (!tensor_layout(m, t, &l)) return false;
  if (seen_as(&l, rank, dims, strides)) return tensor_view(m, t, rank, dims, strides, 0, out);
  torch_tensor made = NULL;
  dense_strides(rank, dims, strides);
  bool ok = tensor_copy(m, t, &made) && tensor_view(m, made, rank, dims, strides, 0, out);
  drop(&made);
  return ok;
}
