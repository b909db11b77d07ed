//go:build pyext

/* Torch's stable C interface, by dlsym: the library needs no torch header and no torch symbol to link. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "pyfast.h"

struct tgx_shim tgx_shim;
static void *library;

const char *tgx_shim_load(const char *path) {
  library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return path;
#define X(ret, name, args) \
  if ((*(void **)&tgx_shim.name = dlsym(library, #name)) == NULL) return #name;
  TGX_SHIM_FUNCTIONS(X)
#undef X
  tgx_shim.cpu = tgx_shim.aoti_torch_device_type_cpu();
  tgx_shim.xla = tgx_shim.aoti_torch_device_type_privateuse1();
  return NULL;
}

void *tgx_shim_symbol(const char *name) { return dlsym(library, name); }

/* By the number of c10::ScalarType. */
static const int8_t item_sizes[] = {
#define ROW(name, number, bytes, code) [number] = bytes,
    TGX_DTYPES(ROW)
#undef ROW
};

int64_t tgx_item_size(int32_t scalar_type) {
  if (scalar_type < 0 || scalar_type >= (int32_t)sizeof item_sizes) return 0;
  return item_sizes[scalar_type];
}
