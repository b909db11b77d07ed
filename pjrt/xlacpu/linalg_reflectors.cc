// Factorizations by Householder reflectors: QR, with and without pivoting, the
// products of reflectors, and the reductions to Hessenberg and tridiagonal form.
#include "linalg_arrays.h"

namespace xlacpu::linalg {
namespace {

// The names of the routines that work on orthogonal matrices, or on unitary
// ones for complex types.
template <class T>
constexpr std::string_view Orthogonal(std::string_view real,
                                      std::string_view complex) {
  return kIsComplex<T> ? complex : real;
}

// x = Q R; R above the diagonal, the reflectors below it and in tau.
template <class T>
ffi::Error Geqrf(Array<T> x, Output<T> out, Output<T> tau) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("tau", *tau, {m->rank()});
  if (fit.failed()) return fit.error();
  void* geqrf = Routine<T>("geqrf");
  if (geqrf == nullptr) return NoRoutine("geqrf");
  CopyIn<T>(x, out);
  std::vector<T> work(1);
  int info = 0;
  auto run = [&](int64_t i, int size) {
    CallLapack(geqrf, &m->rows, &m->cols, out->typed_data() + i * m->size(),
               &m->leading, tau->typed_data() + i * m->rank(), work.data(),
               &size, &info);
  };
  if (m->count == 0 || m->size() == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count && info == 0; ++i) {
    run(i, static_cast<int>(work.size()));
  }
  return info == 0 ? ffi::Error::Success() : IllegalArgument("geqrf", info);
}

template <class T>
XLA_FFI_Error* GeqrfHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .To(Geqrf<T>)
                             .release();
  return handler->Call(frame);
}

// x P = Q R. Columns whose pivot is not zero are moved to the front; pivots
// count from one.
template <class T>
ffi::Error Geqp3(Array<T> x, Array<int32_t> pivots, Output<T> out,
                 Ints pivots_out, Output<T> tau) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("pivots", pivots, {m->cols})
                      .Has("pivots", *pivots_out, {m->cols})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("tau", *tau, {m->rank()});
  if (fit.failed()) return fit.error();
  void* geqp3 = Routine<T>("geqp3");
  if (geqp3 == nullptr) return NoRoutine("geqp3");
  CopyIn<T>(x, out);
  CopyIn<int32_t>(pivots, pivots_out);
  std::vector<T> work(1);
  std::vector<Real<T>> real_work(kIsComplex<T> ? 2 * size_t(m->cols) + 1 : 0);
  int info = 0;
  auto run = [&](int64_t i, int size) {
    T* a = out->typed_data() + i * m->size();
    int32_t* p = pivots_out->typed_data() + i * m->cols;
    T* t = tau->typed_data() + i * m->rank();
    if constexpr (kIsComplex<T>) {
      CallLapack(geqp3, &m->rows, &m->cols, a, &m->leading, p, t, work.data(),
                 &size, real_work.data(), &info);
    } else {
      CallLapack(geqp3, &m->rows, &m->cols, a, &m->leading, p, t, work.data(),
                 &size, &info);
    }
  };
  if (m->count == 0 || m->cols == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count && info == 0; ++i) {
    run(i, static_cast<int>(work.size()));
  }
  return info == 0 ? ffi::Error::Success() : IllegalArgument("geqp3", info);
}

template <class T>
XLA_FFI_Error* Geqp3Handler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Arg<Array<int32_t>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .template Ret<Array<T>>()
                             .To(Geqp3<T>)
                             .release();
  return handler->Call(frame);
}

// The first columns of the product of the reflectors in x and tau.
template <class T>
ffi::Error Orgqr(Array<T> x, Array<T> tau, Output<T> out) {
  constexpr std::string_view kName = Orthogonal<T>("orgqr", "ungqr");
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("tau", tau, {LastOf(tau)})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Holds(m->cols <= m->rows && LastOf(tau) <= m->cols, "tau",
                             "has more reflectors than there are columns, or "
                             "the matrix more columns than rows");
  if (fit.failed()) return fit.error();
  void* orgqr = Routine<T>(kName);
  if (orgqr == nullptr) return NoRoutine(kName);
  CopyIn<T>(x, out);
  const int count = static_cast<int>(tau.dimensions().back());
  std::vector<T> work(1);
  int info = 0;
  auto run = [&](int64_t i, int size) {
    CallLapack(orgqr, &m->rows, &m->cols, &count,
               out->typed_data() + i * m->size(), &m->leading,
               tau.typed_data() + i * count, work.data(), &size, &info);
  };
  if (m->count == 0 || m->size() == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count && info == 0; ++i) {
    run(i, static_cast<int>(work.size()));
  }
  return info == 0 ? ffi::Error::Success() : IllegalArgument(kName, info);
}

template <class T>
XLA_FFI_Error* OrgqrHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Ret<Array<T>>()
                             .To(Orgqr<T>)
                             .release();
  return handler->Call(frame);
}

// out = Q c, Q^H c, c Q or c Q^H for the product Q of the reflectors in a.
template <class T>
ffi::Error Ormqr(Array<T> a, Array<T> tau, Array<T> c, bool left,
                 bool transpose, Output<T> out) {
  constexpr std::string_view kName = Orthogonal<T>("ormqr", "unmqr");
  auto ma = MatricesOf(a.dimensions());
  auto mc = MatricesOf(c.dimensions());
  if (!ma) return ma.error();
  if (!mc) return mc.error();
  const int64_t order = left ? mc->rows : mc->cols;
  const Fit fit = Fit(c.dimensions())
                      .Has("the reflectors", a, {order, ma->cols})
                      .Has("tau", tau, {LastOf(tau)})
                      .Has("the result", *out, {mc->rows, mc->cols})
                      .Holds(LastOf(tau) <= std::min<int64_t>(order, ma->cols), "tau",
                             "has more reflectors than there are");
  if (fit.failed()) return fit.error();
  void* ormqr = Routine<T>(kName);
  if (ormqr == nullptr) return NoRoutine(kName);
  CopyIn<T>(c, out);
  const char side = left ? 'L' : 'R';
  const char op = !transpose ? 'N' : kIsComplex<T> ? 'C' : 'T';
  const int count = static_cast<int>(tau.dimensions().back());
  std::vector<T> work(1);
  int info = 0;
  auto run = [&](int64_t i, int size) {
    CallLapack(ormqr, &side, &op, &mc->rows, &mc->cols, &count,
               a.typed_data() + i * ma->size(), &ma->leading,
               tau.typed_data() + i * count, out->typed_data() + i * mc->size(),
               &mc->leading, work.data(), &size, &info, kLength, kLength);
  };
  if (mc->count == 0 || mc->size() == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < mc->count && info == 0; ++i) {
    run(i, static_cast<int>(work.size()));
  }
  return info == 0 ? ffi::Error::Success() : IllegalArgument(kName, info);
}

template <class T>
XLA_FFI_Error* OrmqrHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Attr<bool>("left")
                             .template Attr<bool>("transpose")
                             .template Ret<Array<T>>()
                             .To(Ormqr<T>)
                             .release();
  return handler->Call(frame);
}

// x = Q H Q^H with H in Hessenberg form; rows and columns outside of low..high
// (from one) are in that form already.
template <class T>
ffi::Error Gehrd(Array<T> x, int32_t low, int32_t high, Output<T> out,
                 Output<T> tau, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("tau", *tau, {std::max(0, m->rows - 1)})
                      .Has("info", *info, {})
                      .Holds(low >= 1 && low <= m->leading, "low", "is out of range")
                      .Holds(high >= std::min(low, m->rows) && high <= m->rows,
                             "high", "is out of range");
  if (fit.failed()) return fit.error();
  void* gehrd = Routine<T>("gehrd");
  if (gehrd == nullptr) return NoRoutine("gehrd");
  CopyIn<T>(x, out);
  std::vector<T> work(1);
  auto run = [&](int64_t i, int size) {
    CallLapack(gehrd, &m->rows, &low, &high, out->typed_data() + i * m->size(),
               &m->leading,
               tau->typed_data() + i * std::max(0, m->rows - 1), work.data(),
               &size, info->typed_data() + i);
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) run(i, static_cast<int>(work.size()));
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* GehrdHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Attr<int32_t>("low")
                             .template Attr<int32_t>("high")
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .To(Gehrd<T>)
                             .release();
  return handler->Call(frame);
}

// x = Q T Q^H with T tridiagonal, for symmetric or Hermitian x.
template <class T>
ffi::Error Sytrd(Array<T> x, uint8_t uplo, Output<T> out,
                 Output<Real<T>> diagonal, Output<Real<T>> off_diagonal,
                 Output<T> tau, Ints info) {
  constexpr std::string_view kName = Orthogonal<T>("sytrd", "hetrd");
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const int64_t less = std::max(0, m->rows - 1);
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("the diagonal", *diagonal, {m->rows})
                      .Has("the off-diagonal", *off_diagonal, {less})
                      .Has("tau", *tau, {less})
                      .Has("info", *info, {})
                      .Letter("uplo", uplo, "LU");
  if (fit.failed()) return fit.error();
  void* sytrd = Routine<T>(kName);
  if (sytrd == nullptr) return NoRoutine(kName);
  CopyIn<T>(x, out);
  const char uplo_char = static_cast<char>(uplo);
  std::vector<T> work(1);
  auto run = [&](int64_t i, int size) {
    CallLapack(sytrd, &uplo_char, &m->rows, out->typed_data() + i * m->size(),
               &m->leading, diagonal->typed_data() + i * m->rows,
               off_diagonal->typed_data() + i * less,
               tau->typed_data() + i * less, work.data(), &size,
               info->typed_data() + i, kLength);
  };
  if (m->count == 0) return ffi::Error::Success();
  run(0, -1);
  work.resize(WorkSize(work[0]));
  for (int64_t i = 0; i < m->count; ++i) run(i, static_cast<int>(work.size()));
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* SytrdHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Attr<uint8_t>("uplo")
                             .template Ret<Array<T>>()
                             .template Ret<Array<Real<T>>>()
                             .template Ret<Array<Real<T>>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .To(Sytrd<T>)
                             .release();
  return handler->Call(frame);
}

template <class T>
void Add(std::vector<Target>& targets) {
  targets.push_back(MakeTarget<T>("geqrf", GeqrfHandler<T>));
  targets.push_back(MakeTarget<T>("geqp3", Geqp3Handler<T>));
  targets.push_back(
      MakeTarget<T>(Orthogonal<T>("orgqr", "ungqr"), OrgqrHandler<T>));
  targets.push_back(
      MakeTarget<T>(Orthogonal<T>("ormqr", "unmqr"), OrmqrHandler<T>));
  targets.push_back(MakeTarget<T>("gehrd", GehrdHandler<T>));
  targets.push_back(
      MakeTarget<T>(Orthogonal<T>("sytrd", "hetrd"), SytrdHandler<T>));
}

}  // namespace

void AddReflectors(std::vector<Target>& targets) {
  Add<float>(targets);
  Add<double>(targets);
  Add<std::complex<float>>(targets);
  Add<std::complex<double>>(targets);
}

}  // namespace xlacpu::linalg
