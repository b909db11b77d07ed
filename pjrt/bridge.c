// Memory by purpose, loading, and the one call path. See bridge.h.
#include "bridge.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  atomic_llong bytes, blocks;
} memory[PJC_MEM_COUNT];

void *pjc_alloc(int purpose, size_t size) {
  void *p = calloc(1, size == 0 ? 1 : size);
  if (p != NULL) {
    atomic_fetch_add(&memory[purpose].bytes, (long long)size);
    atomic_fetch_add(&memory[purpose].blocks, 1);
  }
  return p;
}

void pjc_free(int purpose, void *p, size_t size) {
  if (p == NULL) return;
  atomic_fetch_sub(&memory[purpose].bytes, (long long)size);
  atomic_fetch_sub(&memory[purpose].blocks, 1);
  free(p);
}

void *pjc_array(size_t size) {
  enum { ALIGN = 64 /* of XLA's cpu_function_runtime */ };
  void *p = NULL;
  return posix_memalign(&p, ALIGN, (size + ALIGN - 1) & ~(size_t)(ALIGN - 1)) == 0 ? p : NULL;
}

void pjc_array_free(void *memory, void *owner) {
  (void)memory;
  free(owner);
}

void pjc_memory(int purpose, int64_t *bytes, int64_t *blocks) {
  *bytes = atomic_load(&memory[purpose].bytes);
  *blocks = atomic_load(&memory[purpose].blocks);
}

// ---- Loading.

// RTLD_LOCAL keeps the plugin's symbols from other libraries of the process,
// RTLD_NODELETE keeps its threads' code mapped for good.
static void *open_library(const char *path, char *message, size_t size) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char *words = dlerror();
    snprintf(message, size, "%s", words != NULL ? words : "unknown reason");
  }
  return library;
}

int pjc_load(const char *path, const pj_api **api, char *message, size_t size) {
  void *library = open_library(path, message, size);
  if (library == NULL) return PJC_LOAD_DLOPEN;
  const pj_api *(*entry)(void) = NULL;
  // ISO C has no cast from an object pointer to a function pointer.
  *(void **)&entry = dlsym(library, "GetPjrtApi");
  if (entry == NULL) {
    const char *words = dlerror();
    snprintf(message, size, "%s", words != NULL ? words : "no such symbol");
    return PJC_LOAD_NO_ENTRY;
  }
  *api = entry();
  return *api == NULL ? PJC_LOAD_NO_API : PJC_LOAD_OK;
}

int pjc_preload(const char *path, char *message, size_t size) {
  return open_library(path, message, size) == NULL;
}

// ---- Calls.

#define NAME(name, block, field) #name,
static const char *const names[pj_fn_count] = {PJ_FUNCTIONS(NAME)};
#undef NAME

const char *pjc_function_name(int fn) {
  return fn >= 0 && fn < pj_fn_count ? names[fn] : NULL;
}

bool pjc_has(const pj_api *api, int fn) {
  size_t end = offsetof(pj_api, fn) + ((size_t)fn + 1) * sizeof(pj_function);
  return api->struct_size >= end && api->fn[fn] != NULL;
}

pj_error pjc_call(const pj_api *api, int fn, void *block) {
  if (!pjc_has(api, fn)) return PJC_ABSENT;
  return api->fn[fn](block);
}

void pjc_delete_bytes(pj_bytes *block) {
  if (block->deleter != NULL) block->deleter(block->owner);
}

// The three functions on errors. Two of them return nothing; calling them as if
// they returned a word is well defined on every platform PJRT runs on, and the
// word is not read.
int pjc_error_code(const pj_api *api, pj_error error) {
  struct {
    pj_int block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = error}};
  pj_error second = pjc_call(api, pj_fn_Error_GetCode, &a.block);
  if (second != 0) {
    if (second != PJC_ABSENT) pjc_error_destroy(api, second);
    return PJRT_Error_Code_UNKNOWN;
  }
  return a.block.number;
}

void pjc_error_message(const pj_api *api, pj_error error, const char **text,
                       size_t *size) {
  struct {
    pj_list block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = error}};
  if (pjc_has(api, pj_fn_Error_Message))
    (void)api->fn[pj_fn_Error_Message](&a.block);
  *text = a.block.items;
  *size = a.block.items == NULL ? 0 : a.block.count;
}

void pjc_error_destroy(const pj_api *api, pj_error error) {
  struct {
    pj_object block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = error}};
  if (pjc_has(api, pj_fn_Error_Destroy))
    (void)api->fn[pj_fn_Error_Destroy](&a.block);
}
