// Cholesky and LU factorizations, triangular and tridiagonal systems.
#include "linalg_arrays.h"

namespace xlacpu::linalg {
namespace {

// x = L L^H (uplo 'L') or U^H U ('U'). info[i] > 0: matrix i is not positive
// definite.
template <class T>
ffi::Error Potrf(Array<T> x, uint8_t uplo, Output<T> out, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the matrix", x, {m->rows, m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("info", *info, {})
                      .Letter("uplo", uplo, "LU");
  if (fit.failed()) return fit.error();
  void* potrf = Routine<T>("potrf");
  if (potrf == nullptr) return NoRoutine("potrf");
  CopyIn<T>(x, out);
  const char uplo_char = static_cast<char>(uplo);
  for (int64_t i = 0; i < m->count; ++i) {
    CallLapack(potrf, &uplo_char, &m->rows,
               out->typed_data() + i * m->size(), &m->leading,
               info->typed_data() + i, kLength);
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* PotrfHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Attr<uint8_t>("uplo")
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .To(Potrf<T>)
                             .release();
  return handler->Call(frame);
}

// Solves op(a) out = b (side 'L') or out op(a) = b ('R') for triangular a.
template <class T>
ffi::Error Trsm(Array<T> a, Array<T> b, uint8_t side, uint8_t uplo,
                uint8_t trans_x, uint8_t diag, Output<T> out) {
  auto ma = MatricesOf(a.dimensions());
  auto mb = MatricesOf(b.dimensions());
  if (!ma) return ma.error();
  if (!mb) return mb.error();
  const int64_t order = side == 'L' ? mb->rows : mb->cols;
  const Fit fit = Fit(b.dimensions())
                      .Has("the triangle", a, {order, order})
                      .Has("the result", *out, {mb->rows, mb->cols})
                      .Letter("side", side, "LR")
                      .Letter("uplo", uplo, "LU")
                      .Letter("trans_x", trans_x, "NTC")
                      .Letter("diag", diag, "NU");
  if (fit.failed()) return fit.error();
  void* trsm = Routine<T>("trsm");
  if (trsm == nullptr) return NoRoutine("trsm");
  CopyIn<T>(b, out);
  if (mb->size() == 0) return ffi::Error::Success();
  const T one(1);
  const char chars[] = {static_cast<char>(side), static_cast<char>(uplo),
                        static_cast<char>(trans_x), static_cast<char>(diag)};
  for (int64_t i = 0; i < mb->count; ++i) {
    CallLapack(trsm, &chars[0], &chars[1], &chars[2], &chars[3], &mb->rows,
               &mb->cols, &one, a.typed_data() + i * ma->size(), &ma->leading,
               out->typed_data() + i * mb->size(), &mb->leading, kLength,
               kLength, kLength, kLength);
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* TrsmHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Attr<uint8_t>("side")
                             .template Attr<uint8_t>("uplo")
                             .template Attr<uint8_t>("trans_x")
                             .template Attr<uint8_t>("diag")
                             .template Ret<Array<T>>()
                             .To(Trsm<T>)
                             .release();
  return handler->Call(frame);
}

// x = P L U; pivots count from one. info[i] > 0: U of matrix i is singular.
template <class T>
ffi::Error Getrf(Array<T> x, Output<T> out, Ints pivots, Ints info) {
  auto m = MatricesOf(x.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(x.dimensions())
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("pivots", *pivots, {m->rank()})
                      .Has("info", *info, {});
  if (fit.failed()) return fit.error();
  void* getrf = Routine<T>("getrf");
  if (getrf == nullptr) return NoRoutine("getrf");
  CopyIn<T>(x, out);
  for (int64_t i = 0; i < m->count; ++i) {
    CallLapack(getrf, &m->rows, &m->cols, out->typed_data() + i * m->size(),
               &m->leading, pivots->typed_data() + i * m->rank(),
               info->typed_data() + i);
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* GetrfHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .template Ret<Array<int32_t>>()
                             .To(Getrf<T>)
                             .release();
  return handler->Call(frame);
}

// Solves tridiagonal systems. The diagonals all have n entries: the first of the
// lower one and the last of the upper one are not used.
template <class T>
ffi::Error Gtsv(Array<T> lower, Array<T> diagonal, Array<T> upper, Array<T> b,
                Output<T> lower_out, Output<T> diagonal_out,
                Output<T> upper_out, Output<T> out, Ints info) {
  auto m = MatricesOf(b.dimensions());
  if (!m) return m.error();
  const Fit fit = Fit(b.dimensions())
                      .Has("the lower diagonal", lower, {m->rows})
                      .Has("the main diagonal", diagonal, {m->rows})
                      .Has("the upper diagonal", upper, {m->rows})
                      .Has("the lower diagonal", *lower_out, {m->rows})
                      .Has("the main diagonal", *diagonal_out, {m->rows})
                      .Has("the upper diagonal", *upper_out, {m->rows})
                      .Has("the result", *out, {m->rows, m->cols})
                      .Has("info", *info, {});
  if (fit.failed()) return fit.error();
  void* gtsv = Routine<T>("gtsv");
  if (gtsv == nullptr) return NoRoutine("gtsv");
  CopyIn<T>(lower, lower_out);
  CopyIn<T>(diagonal, diagonal_out);
  CopyIn<T>(upper, upper_out);
  CopyIn<T>(b, out);
  for (int64_t i = 0; i < m->count; ++i) {
    const int64_t at = i * m->rows;
    // LAPACK's lower diagonal starts with the second row.
    T* below = lower_out->typed_data() + at + (m->rows > 0 ? 1 : 0);
    CallLapack(gtsv, &m->rows, &m->cols, below, diagonal_out->typed_data() + at,
               upper_out->typed_data() + at, out->typed_data() + i * m->size(),
               &m->leading, info->typed_data() + i);
  }
  return ffi::Error::Success();
}

template <class T>
XLA_FFI_Error* GtsvHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Arg<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<T>>()
                             .template Ret<Array<int32_t>>()
                             .To(Gtsv<T>)
                             .release();
  return handler->Call(frame);
}

template <class T>
void Add(std::vector<Target>& targets) {
  targets.push_back(MakeTarget<T>("potrf", PotrfHandler<T>));
  targets.push_back(MakeTarget<T>("trsm", TrsmHandler<T>));
  targets.push_back(MakeTarget<T>("getrf", GetrfHandler<T>));
  targets.push_back(MakeTarget<T>("gtsv", GtsvHandler<T>));
}

}  // namespace

void AddSolvers(std::vector<Target>& targets) {
  Add<float>(targets);
  Add<double>(targets);
  Add<std::complex<float>>(targets);
  Add<std::complex<double>>(targets);
}

}  // namespace xlacpu::linalg
