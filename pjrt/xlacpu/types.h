// Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit.
#ifndef PJRT_XLACPU_TYPES_H_
#define PJRT_XLACPU_TYPES_H_

// X(name): PJRT and XLA number the same types differently, and give them the same names.
#define XLACPU_TYPES(X) \
  X(PRED) \
  X(S8) \
  X(S16) \
  X(S32) \
  X(S64) \
  X(U8) \
  X(U16) \
  X(U32) \
  X(U64) \
  X(F16) \
  X(F32) \
  X(F64) \
  X(BF16) \
  X(C64) \
  X(C128) \
  X(F8E5M2) \
  X(F8E4M3FN) \
  X(F8E4M3B11FNUZ) \
  X(F8E5M2FNUZ) \
  X(F8E4M3FNUZ) \
  X(S4) \
  X(U4) \
  X(TOKEN) \
  X(S2) \
  X(U2) \
  X(F8E4M3) \
  X(F8E3M4) \
  X(F8E8M0FNU) \
  X(F4E2M1FN)

#endif
