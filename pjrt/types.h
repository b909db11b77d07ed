// Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit.
#ifndef PJ_TYPES_H
#define PJ_TYPES_H

// X(name, code, bits): bits per element in host memory, 0 for a token.
#define PJ_TYPES(X) \
  X(PRED, 1, 8) \
  X(S8, 2, 8) \
  X(S16, 3, 16) \
  X(S32, 4, 32) \
  X(S64, 5, 64) \
  X(U8, 6, 8) \
  X(U16, 7, 16) \
  X(U32, 8, 32) \
  X(U64, 9, 64) \
  X(F16, 10, 16) \
  X(F32, 11, 32) \
  X(F64, 12, 64) \
  X(BF16, 13, 16) \
  X(C64, 14, 64) \
  X(C128, 15, 128) \
  X(F8E5M2, 16, 8) \
  X(F8E4M3FN, 17, 8) \
  X(F8E4M3B11FNUZ, 18, 8) \
  X(F8E5M2FNUZ, 19, 8) \
  X(F8E4M3FNUZ, 20, 8) \
  X(S4, 21, 8) \
  X(U4, 22, 8) \
  X(TOKEN, 23, 0) \
  X(S2, 24, 8) \
  X(U2, 25, 8) \
  X(F8E4M3, 26, 8) \
  X(F8E3M4, 27, 8) \
  X(F8E8M0FNU, 28, 8) \
  X(F4E2M1FN, 29, 8)

// X(name, StableHLO's name)
#define PJ_TYPE_NAMES(X) \
  X(PRED, "i1") \
  X(U8, "ui8") \
  X(S8, "i8") \
  X(S16, "i16") \
  X(S32, "i32") \
  X(S64, "i64") \
  X(U16, "ui16") \
  X(U32, "ui32") \
  X(U64, "ui64") \
  X(F16, "f16") \
  X(BF16, "bf16") \
  X(F32, "f32") \
  X(F64, "f64") \
  X(C64, "complex<f32>") \
  X(C128, "complex<f64>") \
  X(F8E4M3FN, "f8E4M3FN") \
  X(F8E5M2, "f8E5M2") \
  X(F8E4M3FNUZ, "f8E4M3FNUZ") \
  X(F8E5M2FNUZ, "f8E5M2FNUZ") \
  X(F8E8M0FNU, "f8E8M0FNU")

#endif
