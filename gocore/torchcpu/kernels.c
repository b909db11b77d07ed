/* Instructions that compute by functions which torch exports by name. The words of each stand before it. */
#include "machine.h"

/* dst, a, b, number, sign: a + sign · number · b, of a floating type */
bool do_add(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], a = value(m), b = value(m);
  double alpha = real_of(ref(m));
  return did(m, torch.aoti_torch_cpu_add_Tensor(a, b, alpha * (double)next(m), dst));
}

/* dst, self, a, b, beta, alpha, type, rank, dims…: beta · self + alpha · (a @ b), of a floating type */
bool do_addmm(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], self = value(m), a = value(m), b = value(m);
  double beta = real_of(ref(m)), alpha = real_of(ref(m));
  int64_t type = next(m), rank = next(m);
  if (!tensor_empty(m, type, rank, m->at, dst)) return false;
  return did(m, rank == 3 ? torch.aoti_torch_cpu_baddbmm_out(*dst, self, a, b, beta, alpha) : torch.aoti_torch_cpu_addmm_out(*dst, self, a, b, beta, alpha));
}

/* dst, a, number: a to a real power, of a floating or complex type */
bool do_power(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], a = value(m);
  return did(m, torch.aoti_torch_cpu_pow_Tensor_Scalar(a, real_of(ref(m)), dst));
}

/* dst, src, size, fill, rank: the places of what is not zero, in size rows; those that are left over are filled */
bool do_nonzero(struct machine *m) {
  torch_tensor *dst = &m->values[next(m)], src = value(m), found = NULL, place = NULL, part = NULL, one = NULL;
  int64_t dims[] = {next(m), 0}, count[2];
  struct torch_number fill = {.type = C10_LONG, .i = next(m)};
  struct layout l;
  dims[1] = next(m);
  bool ok = tensor_number(m, &fill, C10_LONG, 0, &one) && tensor_empty(m, C10_LONG, 2, dims, dst) && did(m, torch.aoti_torch_copy_(*dst, one, 0)) &&
            did(m, torch.aoti_torch_cpu_nonzero(src, &found)) && tensor_layout(m, found, &l);
  if (ok) {
    count[0] = l.dims[0] < dims[0] ? l.dims[0] : dims[0], count[1] = dims[1];
    ok = tensor_view(m, found, 2, count, l.strides, 0, &part) && tensor_view(m, *dst, 2, count, (int64_t[]){dims[1] > 0 ? dims[1] : 1, 1}, 0, &place);
  }
  ok = written(m, ok, &place, part, dst);
  drop(&part);
  drop(&found);
  drop(&one);
  return ok;
}

/* value, limit, ignored: fails unless the value's integers are below the limit and not negative, or the ignored one */
bool do_range(struct machine *m) {
  torch_tensor src = value(m), t = NULL;
  int64_t limit = next(m), ignored = next(m), n = 1;
  int32_t type = 0;
  const void *data = NULL;
  struct layout l;
  if (!did(m, torch.aoti_torch_get_dtype(src, &type))) return false;
  if (type != C10_LONG) return refuse(m, "the indices are not of 64 bits");
  bool ok = tensor_dense(m, src, &t) && tensor_layout(m, t, &l) && did(m, torch.torch_get_const_data_ptr(t, &data));
  for (int64_t d = 0; ok && d < l.rank; d++) n *= l.dims[d];
  for (int64_t i = 0; ok && i < n; i++) {
    int64_t at = ((const int64_t *)data)[i];
    if (at != ignored && (at < 0 || at >= limit)) ok = refuse(m, "an index is out of range");
  }
  drop(&t);
  return ok;
}
