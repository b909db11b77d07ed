/* The binary interface of XLA's typed custom calls, as far as handlers that only compute need it. A test compares it
 * with XLA's own header (xla/ffi/api/c_api.h) where one is installed. */
#ifndef TGX_FFI_H_
#define TGX_FFI_H_

#include <stddef.h>
#include <stdint.h>

enum { FFI_MAJOR = 0, FFI_MINOR = 2 };

/* Element types that handlers tell apart. */
enum {
  FFI_PRED = 1,
  FFI_S8 = 2,
  FFI_S16 = 3,
  FFI_S32 = 4,
  FFI_S64 = 5,
  FFI_U8 = 6,
  FFI_F16 = 10,
  FFI_F32 = 11,
  FFI_F64 = 12,
  FFI_C64 = 15,
  FFI_BF16 = 16,
  FFI_C128 = 18
};

/* Types of attributes. */
enum { FFI_ATTR_ARRAY = 1, FFI_ATTR_STRING = 4 };
enum { FFI_STAGE_EXECUTE = 3 };
enum { FFI_INTERNAL = 13 };
enum { FFI_EXTENSION_METADATA = 1 };

typedef struct ffi_error ffi_error;

typedef struct ffi_extension {
  size_t struct_size;
  int type;
  struct ffi_extension *next;
} ffi_extension;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  int major_version;
  int minor_version;
} ffi_version;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  const char *message;
  int errc;
} ffi_error_create;

/* The functions that XLA offers to handlers; the table goes on. */
typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  ffi_version api_version;
  const void *internal_api;
  ffi_error *(*XLA_FFI_Error_Create)(ffi_error_create *);
} ffi_api;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  int dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} ffi_buffer;

typedef struct {
  const char *ptr;
  size_t len;
} ffi_span;

typedef struct {
  int dtype;
  size_t size;
  void *data;
} ffi_array;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  int64_t size;
  int *types;
  ffi_buffer **args;
} ffi_args;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  int64_t size;
  int *types;
  ffi_buffer **rets;
} ffi_rets;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  int64_t size;
  int *types;
  ffi_span **names;
  void **attrs;
} ffi_attrs;

typedef struct {
  size_t struct_size;
  ffi_extension *extension_start;
  const ffi_api *api;
  void *ctx;
  int stage;
  ffi_args args;
  ffi_rets rets;
  ffi_attrs attrs;
  void *future;
} ffi_frame;

/* What XLA asks of a handler when it is registered. */
typedef struct {
  size_t struct_size;
  ffi_version api_version;
  uint32_t traits;
} ffi_metadata;

typedef struct {
  ffi_extension extension_base;
  ffi_metadata *metadata;
} ffi_metadata_extension;

typedef ffi_error *ffi_handler(ffi_frame *frame);

#endif
