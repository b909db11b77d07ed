/* libpjrt_xla_cpu.so: opens the plugin itself, libpjrt_xla_cpu_impl.so, so that
 * its symbols are those of the libraries beside it.
 *
 * TensorFlow makes its libraries visible to all that are loaded after them
 * (RTLD_GLOBAL). XLA's libraries here have the same symbols, and would take
 * TensorFlow's for their own: its registries are full, and it may be another
 * release. RTLD_DEEPBIND lets a library look into those it came with first; a
 * PJRT client does not open plugins that way, so this library does. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { kFailedPrecondition = 9 };

static const void* (*get_api)(void);
static int (*vet)(const char*, char*, size_t);
static char failure[PATH_MAX + 512];

static void open_plugin(void) {
  static const char name[] = "libpjrt_xla_cpu_impl.so";
  Dl_info self;
  char path[PATH_MAX];
  dladdr((void*)open_plugin, &self);
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash + 1 - self.dli_fname);
  snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, name);
  void* library =
      dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
  if (library != NULL) {
    *(void**)&get_api = dlsym(library, "GetPjrtApi");
    *(void**)&vet = dlsym(library, "XlaCpuPlugin_Vet");
  }
  if (get_api == NULL || vet == NULL) {
    snprintf(failure, sizeof failure, "cannot load XLA:CPU: %s", dlerror());
  }
}

static int is_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_plugin);
  return failure[0] == '\0';
}

/* The table of the PJRT C API. NULL, and a line on stderr, if the plugin or one
 * of its libraries cannot be loaded. */
EXPORT const void* GetPjrtApi(void) {
  if (is_open()) return get_api();
  fprintf(stderr, "%s\n", failure);
  return NULL;
}

/* As plugin.h says. */
EXPORT int XlaCpuPlugin_Vet(const char* xla_flags, char* message, size_t size) {
  if (is_open()) return vet(xla_flags, message, size);
  if (message != NULL && size != 0) snprintf(message, size, "%s", failure);
  return kFailedPrecondition;
}
