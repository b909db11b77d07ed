// Singular values and vectors: by divide and conquer (gesdd) and by QR (gesvd).
#include "linalg_arrays.h"

namespace xlacpu::linalg {
namespace {

// LAPACK wants workspace of reals beside that of complex numbers; these are its
// documented bounds.
template <class T>
size_t RealWorkOfGesdd(const Matrices& m, char mode) {
  if (!kIsComplex<T>) return 0;
  const size_t least = m.rank(), most = std::max(m.rows, m.cols);
  if (mode == 'N') return 7 * least + 1;
  return 1 + least * std::max(5 * least + 7, 2 * most + 2 * least + 1);
}

// Compares a call with what its mode writes.
template <class T>
Fit SvdFit(Array<T> x, const Matrices& m, uint8_t mode, Output<T> out,
           Output<Real<T>> s, Output<T> u, Output<T> vt, Ints info) {
  Fit fit(x.dimensions());
  fit.Has("the result", *out, {m.rows, m.cols})
      .Has("the values", *s, {m.rank()})
      .Has("info", *info, {})
      .Letter("mode", mode, "ASN");
  if (mode == 'N') return fit;  // neither vectors are written
  return fit
      .Has("the left vectors", *u, {m.rows, mode == 'A' ? m.rows : m.rank()})
      .Has("the right vectors", *vt,
           {mode == 'A' ? m.cols : m.rank(), m.cols});
}

// x = U diag(s) V^H; s descends. Mode 'A' computes all vectors, 'S' as many as
// there are values, 'N' none.
template <class T>
ffi::Error Gesdd(Array<T> x, uint8_t mode, Output<T> out, Output<Real<T>> s,
                 Output<T> u, Output<T> vt, Ints info) {
  auto m = MatricesOf(x.dimensions());
  auto mu = MatricesOf(u->dimensions());
  auto mv = MatricesOf(vt->dimensions());
  if (!m) return m.error();
  if (!mu) return mu.error();
  if (!mv) return mv.error();
  const Fit fit = SvdFit<T>(x, *m, mode, out, s, u, vt, info);
  if (fit.failed()) return fit.error();
  void* gesdd = Routine<T>("gesdd");
  if (gesdd == nullptr) return NoRoutine("gesdd");
  CopyIn<T>(x, out);
  const char mode_char = static_cast<char>(mode);
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(RealWorkOfGesdd<T>(*m, mode_char));
  std::vector<int> int_work(8 * size_t(m->rank()) + 1);
  auto run = [&](int64_t i, int size) {
    T* a = out->typed_data() + i * m->size();
    Real<T>* values = s->typed_data() + i * m->rank();
    T* left = u->typed_data() + i * mu->size();
    T* right = vt->typed_data() + i * mv->size();
    int* status = info->typed_data() + i;
    if constexpr (kIsComplex<T>) {
      CallLapack(gesdd, &mode_char, &m->rows, &m->cols, a, &m->leading, values,
                 left, &mu->leading, right, &mv->leading, work.data(), &size,
                 real_work.data(), int_work.data(), status, kLength);
    } else {
      CallLapack(gesdd, &mode_char, &m->rows, &m->cols, a, &m->leading, values,
                 left, &mu->leading, right, &mv->leading, work.data(), &size,
                 int_work.data(), status, kLength);
    }
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) {
    if (AllFinite(out->typed_data() + i * m->size(), m->size())) {
      run(i, static_cast<int>(work.size()));
    } else {
      info->typed_data()[i] = kNotFinite;
    }
  }
  return ffi::Error::Success();
}

template <class T>
ffi::Error Gesvd(Array<T> x, uint8_t mode, Output<T> out, Output<Real<T>> s,
                 Output<T> u, Output<T> vt, Ints info) {
  auto m = MatricesOf(x.dimensions());
  auto mu = MatricesOf(u->dimensions());
  auto mv = MatricesOf(vt->dimensions());
  if (!m) return m.error();
  if (!mu) return mu.error();
  if (!mv) return mv.error();
  const Fit fit = SvdFit<T>(x, *m, mode, out, s, u, vt, info);
  if (fit.failed()) return fit.error();
  void* gesvd = Routine<T>("gesvd");
  if (gesvd == nullptr) return NoRoutine("gesvd");
  CopyIn<T>(x, out);
  const char mode_char = static_cast<char>(mode);
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(kIsComplex<T> ? 5 * size_t(m->rank()) + 1 : 0);
  auto run = [&](int64_t i, int size) {
    T* a = out->typed_data() + i * m->size();
    Real<T>* values = s->typed_data() + i * m->rank();
    T* left = u->typed_data() + i * mu->size();
    T* right = vt->typed_data() + i * mv->size();
    int* status = info->typed_data() + i;
    if constexpr (kIsComplex<T>) {
      CallLapack(gesvd, &mode_char, &mode_char, &m->rows, &m->cols, a,
                 &m->leading, values, left, &mu->leading, right, &mv->leading,
                 work.data(), &size, real_work.data(), status, kLength,
                 kLength);
    } else {
      CallLapack(gesvd, &mode_char, &mode_char, &m->rows, &m->cols, a,
                 &m->leading, values, left, &mu->leading, right, &mv->leading,
                 work.data(), &size, status, kLength, kLength);
    }
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) {
    if (AllFinite(out->typed_data() + i * m->size(), m->size())) {
      run(i, static_cast<int>(work.size()));
    } else {
      info->typed_data()[i] = kNotFinite;
    }
  }
  return ffi::Error::Success();
}

template <class T, auto kFunction>
XLA_FFI_Error* SvdHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Attr<uint8_t>("mode")
                             .template Ret<Array<T>>()
                             .template Ret<Array<Real<T>>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .To(kFunction)
                             .release();
  return handler->Call(frame);
}

template <class T>
void Add(std::vector<Target>& targets) {
  targets.push_back(MakeTarget<T>("gesdd", SvdHandler<T, Gesdd<T>>));
  targets.push_back(MakeTarget<T>("gesvd", SvdHandler<T, Gesvd<T>>));
}

}  // namespace

void AddSvd(std::vector<Target>& targets) {
  Add<float>(targets);
  Add<double>(targets);
  Add<std::complex<float>>(targets);
  Add<std::complex<double>>(targets);
}

}  // namespace xlacpu::linalg
