// A handler of XLA's typed custom calls: f32 -> f32, times the attribute "by"; a negative one is an error.
#include <stddef.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* failed(const XLA_FFI_Api* api, const char* message) {
  XLA_FFI_Error_Create_Args args = {0};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* Scale(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
  }
  if (frame->attrs.size != 1 || frame->attrs.types[0] != XLA_FFI_AttrType_SCALAR) return failed(frame->api, "no attribute by");
  float by = *(const float*)((const XLA_FFI_Scalar*)frame->attrs.attrs[0])->value;
  if (by < 0) return failed(frame->api, "by is negative");
  const XLA_FFI_Buffer* x = frame->args.args[0];
  const XLA_FFI_Buffer* y = frame->rets.rets[0];
  size_t n = 1;
  for (int64_t i = 0; i < x->rank; i++) n *= x->dims[i];
  for (size_t i = 0; i < n; i++) ((float*)y->data)[i] = by * ((const float*)x->data)[i];
  return NULL;
}
