// Eigenvalues, eigenvectors and the Schur form.
#include "linalg_arrays.h"

namespace xlacpu::linalg {
namespace {

// x = V diag(w) V^H for symmetric or Hermitian x; w ascends. Mode 'V' computes
// the vectors, 'N' does not.
template <class T>
ffi::Error Syevd(Array<T> x, uint8_t mode, uint8_t uplo, Output<T> out,
                 Output<Real<T>> values, Ints info) {
  constexpr std::string_view kName = kIsComplex<T> ? "heevd" : "syevd";
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("the values", *values, {m->rows})
                      .Has("info", *info, {})
                      .Letter("mode", mode, "NV")
                      .Letter("uplo", uplo, "LU");
  if (fit.failed()) return fit.error();
  void* syevd = Routine<T>(kName);
  if (syevd == nullptr) return NoRoutine(kName);
  CopyIn<T>(x, out);
  const char mode_char = static_cast<char>(mode);
  const char uplo_char = static_cast<char>(uplo);
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(1);
  std::vector<int> int_work(1);
  int size = -1, real_size = -1, int_size = -1;
  auto run = [&](int64_t i) {
    T* a = out->typed_data() + i * m->size();
    Real<T>* w = values->typed_data() + i * m->rows;
    int* status = info->typed_data() + i;
    if constexpr (kIsComplex<T>) {
      CallLapack(syevd, &mode_char, &uplo_char, &m->rows, a, &m->leading, w,
                 work.data(), &size, real_work.data(), &real_size,
                 int_work.data(), &int_size, status, kLength, kLength);
    } else {
      CallLapack(syevd, &mode_char, &uplo_char, &m->rows, a, &m->leading, w,
                 work.data(), &size, int_work.data(), &int_size, status,
                 kLength, kLength);
    }
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0);  // the sizes of the workspaces
  work.resize(size = WorkSize(work[0]));
  real_work.resize(real_size = WorkSize(real_work[0]));
  int_work.resize(int_size = std::max(1, int_work[0]));
  for (int64_t i = 0; i < m->count; ++i) {
    if (AllFinite(out->typed_data() + i * m->size(), m->size())) {
      run(i);
    } else {
      info->typed_data()[i] = kNotFinite;
    }
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* SyevdHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Attr<uint8_t>("mode")
                             .template Attr<uint8_t>("uplo")
                             .template Ret<Array<T>>()
                             .template Ret<Array<Real<T>>>()
                             .template Ret<Array<int32_t>>()
                             .To(Syevd<T>)
                             .release();
  return handler->Call(frame);
}

// A copy of each input: LAPACK overwrites it, and no result holds it.
template <class T>
class Scratch {
 public:
  Scratch(const Array<T>& x, const Matrices& m)
      : x_(x), size_(m.size()), copy_(std::max<int64_t>(1, m.size())) {}
  // The copy of matrix i, or null if it has NaNs or infinities.
  T* Take(int64_t i) {
    const T* from = x_.typed_data() + i * size_;
    if (!AllFinite(from, size_)) return nullptr;
    std::copy_n(from, size_, copy_.data());
    return copy_.data();
  }
  T* data() { return copy_.data(); }

 private:
  const Array<T>& x_;
  const int64_t size_;
  std::vector<T> copy_;
};

// LAPACK stores the vectors of a conjugate pair of eigenvalues as their real
// and imaginary parts in two columns, under the value with the positive
// imaginary part first.
template <class R>
void UnpackVectors(int n, const R* imaginary, const std::vector<R>& packed,
                   std::complex<R>* out) {
  for (int j = 0; j < n; ++j) {
    const R* re = packed.data() + int64_t{j} * n;
    std::complex<R>* to = out + int64_t{j} * n;
    if (imaginary[j] == 0 || j + 1 == n) {
      for (int i = 0; i < n; ++i) to[i] = re[i];
      continue;
    }
    for (int i = 0; i < n; ++i) {
      to[i] = {re[i], re[n + i]};
      to[n + i] = {re[i], -re[n + i]};
    }
    ++j;
  }
}

// x V = V diag(w), and U^H x = diag(w) U^H for the left vectors; 'V' computes
// them, 'N' does not.
template <class R>
ffi::Error RealGeev(Array<R> x, uint8_t left, uint8_t right, Output<R> real,
                    Output<R> imaginary, Output<std::complex<R>> left_out,
                    Output<std::complex<R>> right_out, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the values", *real, {m->rows})
                      .Has("the values", *imaginary, {m->rows})
                      .Has("the vectors", *left_out, {m->rows, m->rows})
                      .Has("the vectors", *right_out, {m->rows, m->rows})
                      .Has("info", *info, {})
                      .Letter("compute_left", left, "NV")
                      .Letter("compute_right", right, "NV");
  if (fit.failed()) return fit.error();
  void* geev = Routine<R>("geev");
  if (geev == nullptr) return NoRoutine("geev");
  const char left_char = static_cast<char>(left);
  const char right_char = static_cast<char>(right);
  const int n = m->rows;
  Scratch<R> scratch(x, *m);
  std::vector<R> left_packed(m->size() + 1), right_packed(m->size() + 1), work(1);
  auto run = [&](int64_t i, R* a, int size) {
    CallLapack(geev, &left_char, &right_char, &n, a, &m->leading,
               real->typed_data() + i * n, imaginary->typed_data() + i * n,
               left_packed.data(), &m->leading, right_packed.data(),
               &m->leading, work.data(), &size, info->typed_data() + i, kLength,
               kLength);
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, scratch.data(), -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) {
    R* a = scratch.Take(i);
    if (a == nullptr) {
      info->typed_data()[i] = kNotFinite;
      continue;
    }
    run(i, a, static_cast<int>(work.size()));
    const R* values = imaginary->typed_data() + i * n;
    const int64_t at = i * m->size();
    if (info->typed_data()[i] != 0) continue;
    if (left_char == 'V') {
      UnpackVectors(n, values, left_packed, left_out->typed_data() + at);
    }
    if (right_char == 'V') {
      UnpackVectors(n, values, right_packed, right_out->typed_data() + at);
    }
  }
  return ffi::Error::Success();
}

template <class T>
ffi::Error ComplexGeev(Array<T> x, uint8_t left, uint8_t right,
                       Output<T> values, Output<T> left_out,
                       Output<T> right_out, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the values", *values, {m->rows})
                      .Has("the vectors", *left_out, {m->rows, m->rows})
                      .Has("the vectors", *right_out, {m->rows, m->rows})
                      .Has("info", *info, {})
                      .Letter("compute_left", left, "NV")
                      .Letter("compute_right", right, "NV");
  if (fit.failed()) return fit.error();
  void* geev = Routine<T>("geev");
  if (geev == nullptr) return NoRoutine("geev");
  const char left_char = static_cast<char>(left);
  const char right_char = static_cast<char>(right);
  const int n = m->rows;
  Scratch<T> scratch(x, *m);
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(2 * size_t(n) + 1);
  auto run = [&](int64_t i, T* a, int size) {
    const int64_t at = i * m->size();
    CallLapack(geev, &left_char, &right_char, &n, a, &m->leading,
               values->typed_data() + i * n, left_out->typed_data() + at,
               &m->leading, right_out->typed_data() + at, &m->leading,
               work.data(), &size, real_work.data(), info->typed_data() + i,
               kLength, kLength);
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, scratch.data(), -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) {
    if (T* a = scratch.Take(i)) {
      run(i, a, static_cast<int>(work.size()));
    } else {
      info->typed_data()[i] = kNotFinite;
    }
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* GeevHandler(XLA_FFI_CallFrame* frame) {
  auto binding = ffi::Ffi::Bind()
                     .template Arg<Array<T>>()
                     .template Attr<uint8_t>("compute_left")
                     .template Attr<uint8_t>("compute_right");
  if constexpr (kIsComplex<T>) {
    static auto* handler = std::move(binding)
                               .template Ret<Array<T>>()
                               .template Ret<Array<T>>()
                               .template Ret<Array<T>>()
                               .template Ret<Array<int32_t>>()
                               .To(ComplexGeev<T>)
                               .release();
    return handler->Call(frame);
  } else {
    using C = std::complex<T>;
    static auto* handler = std::move(binding)
                               .template Ret<Array<T>>()
                               .template Ret<Array<T>>()
                               .template Ret<Array<C>>()
                               .template Ret<Array<C>>()
                               .template Ret<Array<int32_t>>()
                               .To(RealGeev<T>)
                               .release();
    return handler->Call(frame);
  }
}

// x = Z S Z^H with S triangular, or for real types in blocks of two. Sorting
// needs a function to choose by, which a custom call does not carry.
template <class T, class Run>
ffi::Error GeesLoop(const Matrices& m, Output<T> out, Ints selected, Ints info,
                    std::vector<T>& work, Run run) {
  if (m.count == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m.count; ++i) {
    selected->typed_data()[i] = 0;
    if (AllFinite(out->typed_data() + i * m.size(), m.size())) {
      run(i, static_cast<int>(work.size()));
    } else {
      info->typed_data()[i] = kNotFinite;
    }
  }
  return ffi::Error::Success();
}

template <class R>
ffi::Error RealGees(Array<R> x, uint8_t mode, uint8_t sort, Output<R> out,
                    Output<R> vectors, Output<R> real, Output<R> imaginary,
                    Ints selected, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("the vectors", *vectors, {m->rows, m->rows})
                      .Has("the values", *real, {m->rows})
                      .Has("the values", *imaginary, {m->rows})
                      .Has("the selection", *selected, {})
                      .Has("info", *info, {})
                      .Letter("mode", mode, "NV")
                      .Letter("sort", sort, "N");
  if (fit.failed()) return fit.error();
  void* gees = Routine<R>("gees");
  if (gees == nullptr) return NoRoutine("gees");
  CopyIn<R>(x, out);
  const char mode_char = static_cast<char>(mode), sort_char = 'N';
  const int n = m->rows;
  std::vector<R> work(1);
  std::vector<int> bool_work(n + 1);
  void* no_selection = nullptr;
  auto run = [&](int64_t i, int size) {
    const int64_t at = i * m->size();
    CallLapack(gees, &mode_char, &sort_char, no_selection, &n,
               out->typed_data() + at, &m->leading, selected->typed_data() + i,
               real->typed_data() + i * n, imaginary->typed_data() + i * n,
               vectors->typed_data() + at, &m->leading, work.data(), &size,
               bool_work.data(), info->typed_data() + i, kLength, kLength);
  };
  return GeesLoop<R>(*m, out, selected, info, work, run);
}

template <class T>
ffi::Error ComplexGees(Array<T> x, uint8_t mode, uint8_t sort, Output<T> out,
                       Output<T> vectors, Output<T> values, Ints selected,
                       Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("the vectors", *vectors, {m->rows, m->rows})
                      .Has("the values", *values, {m->rows})
                      .Has("the selection", *selected, {})
                      .Has("info", *info, {})
                      .Letter("mode", mode, "NV")
                      .Letter("sort", sort, "N");
  if (fit.failed()) return fit.error();
  void* gees = Routine<T>("gees");
  if (gees == nullptr) return NoRoutine("gees");
  CopyIn<T>(x, out);
  const char mode_char = static_cast<char>(mode), sort_char = 'N';
  const int n = m->rows;
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(n + 1);
  std::vector<int> bool_work(n + 1);
  void* no_selection = nullptr;
  auto run = [&](int64_t i, int size) {
    const int64_t at = i * m->size();
    CallLapack(gees, &mode_char, &sort_char, no_selection, &n,
               out->typed_data() + at, &m->leading, selected->typed_data() + i,
               values->typed_data() + i * n, vectors->typed_data() + at,
               &m->leading, work.data(), &size, real_work.data(),
               bool_work.data(), info->typed_data() + i, kLength, kLength);
  };
  return GeesLoop<T>(*m, out, selected, info, work, run);
}

template <class T>
XLA_FFI_Error* GeesHandler(XLA_FFI_CallFrame* frame) {
  auto binding = ffi::Ffi::Bind()
                     .template Arg<Array<T>>()
                     .template Attr<uint8_t>("mode")
                     .template Attr<uint8_t>("sort")
                     .template Ret<Array<T>>()
                     .template Ret<Array<T>>();
  if constexpr (kIsComplex<T>) {
    static auto* handler = std::move(binding)
                               .template Ret<Array<T>>()
                               .template Ret<Array<int32_t>>()
                               .template Ret<Array<int32_t>>()
                               .To(ComplexGees<T>)
                               .release();
    return handler->Call(frame);
  } else {
    static auto* handler = std::move(binding)
                               .template Ret<Array<T>>()
                               .template Ret<Array<T>>()
                               .template Ret<Array<int32_t>>()
                               .template Ret<Array<int32_t>>()
                               .To(RealGees<T>)
                               .release();
    return handler->Call(frame);
  }
}

template <class T>
void Add(std::vector<Target>& targets) {
  targets.push_back(
      MakeTarget<T>(kIsComplex<T> ? "heevd" : "syevd", SyevdHandler<T>));
  targets.push_back(MakeTarget<T>("geev", GeevHandler<T>));
  targets.push_back(MakeTarget<T>("gees", GeesHandler<T>));
}

}  // namespace

void AddEigen(std::vector<Target>& targets) {
  Add<float>(targets);
  Add<double>(targets);
  Add<std::complex<float>>(targets);
  Add<std::complex<double>>(targets);
}

}  // namespace xlacpu::linalg
