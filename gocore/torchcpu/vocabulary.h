/* Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit. */
#ifndef TGX_VOCABULARY_H
#define TGX_VOCABULARY_H

#define TGX_VOCABULARY "6ada875185d047bb"

/* Kind says what an encoded argument is. */
enum {
  TGX_NULL = 0,
  TGX_TENSOR = 1,
  TGX_INT = 2,
  TGX_FLOAT = 3,
  TGX_BOOL = 4,
  TGX_COMPLEX = 5,
  TGX_HOST_ZERO = 6,
  TGX_CONST = 7,
  TGX_CONST_F = 8,
  TGX_INTS = 9,
  TGX_FLOATS = 10,
  TGX_TENSORS = 11,
  TGX_SCALARS = 12,
  TGX_TEXT = 13,
  TGX_TYPE = 14,
  TGX_DEVICE = 15,
  TGX_GENERATOR = 16,
  TGX_RESULT = 32, /* memory like that of result n, whose values do not matter; only in a call of a torch kernel */
};

/* TagBits are the places of what a tag holds. */
enum {
  TGX_KIND_MASK = 255,
  TGX_COUNT_SHIFT = 8,
  TGX_RANK_MASK = 255,
  TGX_TYPE_SHIFT = 16,
};

/* Limit bounds what a record holds. */
enum {
  TGX_MAX_ARGS = 48, /* arguments of a schema; torch's longest has 30-odd */
  TGX_MAX_DIMS = 255, /* dimensions of a tensor */
};

/* HeadWord is a word of a record before its arguments. */
enum {
  TGX_HEAD_ROW = 0, /* number of the op's row in the table */
  TGX_HEAD_ARGS = 1, /* how many arguments follow */
  TGX_HEAD_DISPOSITIONS = 2, /* how many dispositions follow them; 0 for an op that returns a list */
  TGX_HEAD_DEVICE = 3, /* index of the device for an op without tensors, else -1 */
  TGX_HEAD_LOCATION = 4, /* number of the Python line; 0 for none */
  TGX_HEAD_ELEMENT = 5, /* of a foreach call; 0 for its first, and for all other calls */
  TGX_HEAD_WORDS = 6, /* how many they are */
};

/* Disposition is what becomes of a result. */
enum {
  TGX_NEW = 0, /* a new tensor */
  TGX_WRITE = 1, /* written to the tensor that follows */
  TGX_DROP = 2,
  TGX_DISPOSITION_MASK = 255,
  TGX_RESIZABLE = 256,
};

/* ResultWord is a word of one result. */
enum {
  TGX_RESULT_HANDLE = 0, /* of its storage; 0: no tensor is made, and the next result follows at once */
  TGX_RESULT_TYPE = 1, /* c10::ScalarType number */
  TGX_RESULT_DEVICE = 2,
  TGX_RESULT_RANK = 3,
  TGX_RESULT_SIZES = 4, /* the first of as many sizes */
};

/* RankMark is or-ed to the rank of a result or of a resize. */
enum {
  TGX_STRIDED = 1073741824,
};

/* ResizeWord is a word of out after the status Resize. */
enum {
  TGX_RESIZE_DISPOSITION = 0, /* which disposition it stands in */
  TGX_RESIZE_QUIET = 1, /* 1: without torch's warning that it had elements */
  TGX_RESIZE_RANK = 2,
  TGX_RESIZE_SIZES = 3, /* the first of as many sizes */
};

/* Status is how a call of the core ends. */
enum {
  TGX_DONE = 0,
  TGX_FAILED = 1, /* the error is given beside it */
  TGX_RESIZE = 2, /* an out= argument must take other sizes first: see ResizeWord */
  TGX_BUSY = 3, /* another thread holds the core, or no device is open */
};

/* Outcome is what the call of a captured computation has done. */
enum {
  TGX_MISSED = 0, /* nothing: it was captured for other shapes, or for a storage that is gone; record it again */
  TGX_RAN = 1, /* it was launched */
  TGX_SYNCED = 2, /* it was launched, and a Sync would do nothing: no more is recorded, no launch waits for its turn */
};

/* ArgType is how a kernel encodes an argument: the type that its schema declares, less "?" and list lengths. */
enum tgx_type {
  TGX_T_TENSOR = 0,
  TGX_T_TENSORS = 1,
  TGX_T_INT = 2,
  TGX_T_INTS = 3,
  TGX_T_FLOAT = 4,
  TGX_T_FLOATS = 5,
  TGX_T_SCALAR = 6,
  TGX_T_SCALARS = 7,
  TGX_T_TEXT = 8,
  TGX_T_ENUM = 9,
  TGX_T_SCALAR_TYPE = 10,
  TGX_T_DEVICE = 11,
  TGX_T_GENERATOR = 12,
  TGX_T_COUNT = 13,
};

/* Lazy is a bit that torch sets on a tensor in place of computing. */
enum {
  TGX_LAZY_CONJ = 1, /* the data is to be read conjugated */
  TGX_LAZY_NEG = 2, /* the data is to be read negated */
};

/* Kinds of errors, by the names of their Python classes. */
enum {
  TGX_RUNTIME_ERROR = 1,
  TGX_TYPE_ERROR = 2,
  TGX_VALUE_ERROR = 3,
  TGX_INDEX_ERROR = 4,
  TGX_NOT_LOWERED_ERROR = 5,
  TGX_XLA_ERROR = 6,
  TGX_OUT_OF_MEMORY_ERROR = 7,
  TGX_COMPILE_ERROR = 8,
  TGX_DONATED_BUFFER_ERROR = 9,
  TGX_FORKED_PROCESS_ERROR = 10,
  TGX_MEMORY_ERROR = 11,
  TGX_NOT_IMPLEMENTED_ERROR = 12,
  TGX_KEYBOARD_INTERRUPT = 13,
  TGX_BLOCKING_I_O_ERROR = 14,
  TGX_LIN_ALG_ERROR = 15,
};

/* Element types: X(name, number of the c10::ScalarType, bytes, code of DLPack). */
#define TGX_DTYPES(X) \
  X(BOOL, 11, 1, 6) \
  X(UINT8, 0, 1, 1) \
  X(INT8, 1, 1, 0) \
  X(INT16, 2, 2, 0) \
  X(INT32, 3, 4, 0) \
  X(INT64, 4, 8, 0) \
  X(UINT16, 27, 2, 1) \
  X(UINT32, 28, 4, 1) \
  X(UINT64, 29, 8, 1) \
  X(FLOAT16, 5, 2, 2) \
  X(BFLOAT16, 15, 2, 4) \
  X(FLOAT32, 6, 4, 2) \
  X(FLOAT64, 7, 8, 2) \
  X(COMPLEX64, 9, 8, 5) \
  X(COMPLEX128, 10, 16, 5) \
  X(FLOAT8_E4M3FN, 24, 1, 10) \
  X(FLOAT8_E5M2, 23, 1, 12) \
  X(FLOAT8_E4M3FNUZ, 26, 1, 11) \
  X(FLOAT8_E5M2FNUZ, 25, 1, 13) \
  X(FLOAT8_E8M0FNU, 44, 1, 14)

#define TGX_DTYPE(name, number, bytes, code) TGX_DTYPE_##name = number,
enum { TGX_DTYPES(TGX_DTYPE) };
#undef TGX_DTYPE

#endif
