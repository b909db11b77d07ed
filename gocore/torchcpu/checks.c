/* What torch's kernels take on trust. The values of a program may be anything, and so may a program from elsewhere;
 * torch's kernels check how sizes fit together, but not all of them, and few look at values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"

static int64_t numel(const struct torch_array *a) {
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= a->dims[i];
  return n;
}

static bool same_dims(const struct torch_array *a, const struct torch_array *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* LAPACK may not come back from what is not finite. */
static bool all_finite(struct torch_call *call) {
  const struct torch_array *a = &call->in[0];
  bool single = a->type == TGX_DTYPE_FLOAT32 || a->type == TGX_DTYPE_COMPLEX64;
  int64_t n = numel(a) * (a->type == TGX_DTYPE_COMPLEX64 || a->type == TGX_DTYPE_COMPLEX128 ? 2 : 1);
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(single ? ((const float *)a->data)[i] : ((const double *)a->data)[i]))
      return torch_refuse(call, "input tensor should not contain infs or NaNs.");
  return true;
}

/* The op behind cholesky_solve takes the batches of right sides and factors for the same. */
static bool cholesky_factor(struct torch_call *call) {
  const struct torch_array *b = &call->in[0], *a = &call->in[1];
  if (a->rank < 2 || a->rank != b->rank || a->type != b->type || a->dims[a->rank - 1] != a->dims[a->rank - 2] ||
      memcmp(a->dims, b->dims, (size_t)(a->rank - 1) * sizeof *a->dims) != 0)
    return torch_refuse(call, "the right sides are not of the factor's batch and size");
  return true;
}

/* LAPACK swaps the rows that pivots name, counted from 1; two negative ones together are a block of two rows. */
static bool ldl_pivots(struct torch_call *call) {
  const struct torch_array *factors = &call->in[0], *pivots = &call->in[1];
  if (factors->rank < 2 || pivots->type != TGX_DTYPE_INT32 || pivots->rank != factors->rank - 1 ||
      memcmp(pivots->dims, factors->dims, (size_t)pivots->rank * sizeof *pivots->dims) != 0)
    return torch_refuse(call, "the pivots are not of the factors' batch");
  int64_t n = factors->dims[factors->rank - 1], count = numel(pivots);
  const int32_t *p = pivots->data;
  for (int64_t i = 0; i < count; i++) {
    if (p[i] == 0 || p[i] > n || p[i] < -n) return torch_refuse(call, "a pivot is out of range");
    if (p[i] > 0) continue;
    if (i % n == n - 1 || p[i + 1] >= 0 || p[i + 1] < -n) return torch_refuse(call, "a pivot of a block of two rows has no second");
    i++;
  }
  return true;
}

/* Item i of a list of one number for all spatial dimensions, or one for each. */
static int64_t item(struct torch_list l, int64_t i) { return l.items[l.count == 1 ? 0 : i]; }

/* The gradient of a convolution has the sizes that the convolution gives, which oneDNN's kernel is not given. */
static bool convolution_gradient(struct torch_call *call) {
  const struct torch_array *grad = &call->in[0], *in = &call->in[1], *kernel = &call->in[2];
  struct torch_list stride = torch_argument(call, 4), padding = torch_argument(call, 5), dilation = torch_argument(call, 6),
                    transposed = torch_argument(call, 7), outputs = torch_argument(call, 8), groups = torch_argument(call, 9),
                    mask = torch_argument(call, 10);
  int64_t spatial = grad->rank - 2;
  if (spatial < 1 || in->rank != grad->rank || kernel->rank != grad->rank) return torch_refuse(call, "gradient, input and kernel differ in rank");
  if (mask.count != 3) return torch_refuse(call, "the mask is not three numbers");
  const struct torch_list *lists[] = {&stride, &padding, &dilation, &outputs};
  for (int k = 0; k < 4; k++) {
    if (lists[k]->count != 1 && lists[k]->count != spatial) return torch_refuse(call, "the window is not one of %d dimensions", (int)spatial);
    for (int64_t i = 0; i < lists[k]->count; i++)
      if (lists[k]->items[i] < 0 || lists[k]->items[i] > INT32_MAX) return torch_refuse(call, "a number of the window is out of range");
  }
  if (groups.items[0] < 1 || groups.items[0] > INT32_MAX) return torch_refuse(call, "non-positive groups is not supported");
  int64_t channels = transposed.items[0] ? kernel->dims[1] * groups.items[0] : kernel->dims[0];
  if (grad->dims[0] != in->dims[0] || grad->dims[1] != channels) return torch_refuse(call, "the gradient is not of the result's shape");
  for (int64_t d = 0; d < spatial; d++) {
    if (item(stride, d) == 0) return torch_refuse(call, "a stride is 0");
    __int128 size = in->dims[d + 2], reach = (__int128)item(dilation, d) * (kernel->dims[d + 2] - 1), edges = 2 * (__int128)item(padding, d);
    size = transposed.items[0] ? (size - 1) * item(stride, d) - edges + reach + item(outputs, d) + 1
                               : (size + edges - reach - 1) / item(stride, d) + 1;
    if (grad->dims[d + 2] != size) return torch_refuse(call, "the gradient is not of the result's shape");
  }
  return true;
}

/* Torch's kernel writes to wherever the places say. */
static bool pool_gradient(struct torch_call *call) {
  if (call->in_count != 2 || call->out_count != 1) return torch_refuse(call, "the input is not given as the result's like");
  const struct torch_array *grad = &call->in[0], *places = &call->in[1], *out = &call->out[0];
  if (!same_dims(grad, places) || out->rank != grad->rank || out->rank < 3 || places->type != TGX_DTYPE_INT64)
    return torch_refuse(call, "gradient, indices and result differ in shape");
  uint64_t plane = (uint64_t)(out->dims[out->rank - 2] * out->dims[out->rank - 1]);
  const uint64_t *at = places->data;
  bool outside = false;
  for (int64_t i = 0, n = numel(places); i < n; i++) outside |= at[i] >= plane; /* without a branch: the compiler makes vectors of it */
  return !outside || torch_refuse(call, "an index is out of range of the input's plane");
}

/* Torch's attention reads keys, values and mask by the sizes of the queries, and divides by the number of the keys'
 * heads. */
static bool fit_together(struct torch_call *call, const struct torch_array *q, int64_t masks) {
  const struct torch_array *k = &q[1], *v = &q[2], *mask = &call->in[call->in_count - 1];
  if (q->rank != 4 || k->rank != 4 || !same_dims(k, v) || k->dims[0] != q->dims[0] || k->dims[1] == 0 || k->dims[2] == 0 ||
      q->dims[1] % k->dims[1] != 0 || k->dims[3] != q->dims[3] || k->type != q->type || v->type != q->type)
    return torch_refuse(call, "queries, keys and values do not fit together");
  if (masks == 0) return true;
  const int64_t scores[] = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
  if (mask->rank != 2 && mask->rank != 4) return torch_refuse(call, "the mask has neither 2 nor 4 dimensions");
  for (int i = 0; i < mask->rank; i++)
    if (mask->dims[i] != 1 && mask->dims[i] != scores[4 - mask->rank + i]) return torch_refuse(call, "the mask does not fit the scores");
  return true;
}

static bool attention(struct torch_call *call) { return fit_together(call, call->in, call->in_count - 3); }

static bool attention_gradient(struct torch_call *call) {
  const struct torch_array *grad = &call->in[0], *q = &call->in[1], *out = &call->in[4], *lse = &call->in[5];
  if (!fit_together(call, q, call->in_count - 6)) return false;
  if (!same_dims(grad, q) || !same_dims(out, q) || grad->type != q->type || out->type != q->type || lse->rank != 3 ||
      memcmp(lse->dims, q->dims, 3 * sizeof *q->dims) != 0)
    return torch_refuse(call, "gradient, result and logarithms are not of the queries' shape");
  return lse->type == (q->type == TGX_DTYPE_FLOAT64 ? TGX_DTYPE_FLOAT64 : TGX_DTYPE_FLOAT32) || torch_refuse(call, "the logarithms are of another type");
}

static const struct {
  const char *name;
  bool (*holds)(struct torch_call *);
} checks[] = {
    {"finite", all_finite},
    {"cholesky_factor", cholesky_factor},
    {"ldl_pivots", ldl_pivots},
    {"attention", attention},
    {"attention_gradient", attention_gradient},
    {"convolution_gradient", convolution_gradient},
    {"pool_gradient", pool_gradient},
};

bool torch_trusts(struct torch_call *call) {
  if (call->op->check[0] == 0) return true;
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    if (strcmp(checks[i].name, call->op->check) == 0) return checks[i].holds(call);
  return torch_refuse(call, "there is no check named %s", call->op->check);
}
