// The table, and what the environment changes of it:
//
//	NULL_PJRT_API          the version, such as 0.40
//	NULL_PJRT_STRUCT_SIZE  the table's size in bytes
//	NULL_PJRT_GROW         bytes that every block is longer than known here
//	NULL_PJRT_ABSENT       functions that are null, separated by commas
//	NULL_PJRT_EXTENSIONS   numbers of extensions in the chain
//	NULL_PJRT_FAULTS       faults armed when the table is asked for
//	NULL_PJRT_NO_TABLE     GetPjrtApi returns null
//	NULL_PJRT_DEVICES, NULL_PJRT_DELAY_US, NULL_PJRT_MEMORY_LIMIT
//	                       what clients have that are not told by options
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"

#define SIZE(name, block, field) [pj_fn_##name] = sizeof(PJRT_##name##_Args),
static const size_t block_sizes[pj_fn_count] = {PJ_FUNCTIONS(SIZE)};
#undef SIZE

// What stands in the table: it counts, checks and may fail the call, then goes
// on. The functions on errors are left as they are, since they are what reports.
#define THUNK(name)                                                    \
  static pj_error call_##name(void *block) {                           \
    pj_error after = 0;                                                \
    pj_error error = enter(pj_fn_##name, block,                        \
                           block_sizes[pj_fn_##name], &after);         \
    if (error != 0) return error;                                      \
    error = null_##name(block);                                        \
    return error != 0 || after == 0 ? error : after;                   \
  }
NULL_FUNCTIONS(THUNK)
#undef THUNK

pj_error null_Plugin_Initialize(void *block) {
  (void)block;
  return 0;
}

pj_error null_Plugin_Attributes(void *block) {
  static const int64_t stablehlo[] = {1, 13, 7}, minimum[] = {0, 9, 0};
#define VALUE(n, t, member, v, s)                                          \
  {.struct_size = sizeof(PJRT_NamedValue), .name = n,                       \
   .name_size = sizeof n - 1, .type = t, .member = v, .value_size = s}
  static const PJRT_NamedValue values[] = {
      VALUE("stablehlo_current_version", PJRT_NamedValue_kInt64List,
            int64_array_value, stablehlo, 3),
      VALUE("stablehlo_minimum_version", PJRT_NamedValue_kInt64List,
            int64_array_value, minimum, 3),
      VALUE("xla_version", PJRT_NamedValue_kInt64, int64_value, 2, 1),
      VALUE("name", PJRT_NamedValue_kString, string_value, "null plugin", 11),
      VALUE("real", PJRT_NamedValue_kBool, bool_value, false, 1),
      VALUE("speed", PJRT_NamedValue_kFloat, float_value, 0.5f, 1),
  };
#undef VALUE
  PJRT_Plugin_Attributes_Args *a = block;
  a->attributes = values;
  a->num_attributes = sizeof values / sizeof *values;
  return 0;
}

static pj_api table = {
    .struct_size = sizeof table,
    .version = {.struct_size = sizeof(PJRT_Api_Version),
                .major_version = PJRT_API_MAJOR,
                .minor_version = PJRT_API_MINOR},
};

static void add_extensions(const char *list) {
  enum { MAX = 16 };
  static PJRT_Extension_Base chain[MAX];
  PJRT_Extension_Base **next = &table.extension_start;
  for (int i = 0; i < MAX && *list != 0; i++) {
    char *after;
    chain[i] = (PJRT_Extension_Base){.struct_size = sizeof *chain,
                              .type = (int)strtol(list, &after, 10)};
    *next = &chain[i];
    next = &chain[i].next;
    list = after + (*after == ',');
  }
}

static void remove_functions(const char *list) {
  while (*list != 0) {
    size_t size = strcspn(list, ",");
    int fn = function_named(list, size);
    if (fn >= 0) table.fn[fn] = NULL;
    list += size + (list[size] == ',');
  }
}

static void fill_table(void) {
#define ENTRY(name) table.fn[pj_fn_##name] = call_##name;
  NULL_FUNCTIONS(ENTRY)
#undef ENTRY
  table.fn[pj_fn_Error_Destroy] = null_Error_Destroy;
  table.fn[pj_fn_Error_Message] = null_Error_Message;
  table.fn[pj_fn_Error_GetCode] = null_Error_GetCode;
  const char *s;
  if ((s = getenv("NULL_PJRT_API")) != NULL)
    sscanf(s, "%d.%d", &table.version.major_version,
           &table.version.minor_version);
  if ((s = getenv("NULL_PJRT_STRUCT_SIZE")) != NULL)
    table.struct_size = (size_t)atoll(s);
  if ((s = getenv("NULL_PJRT_GROW")) != NULL) grow((size_t)atoll(s));
  if ((s = getenv("NULL_PJRT_ABSENT")) != NULL) remove_functions(s);
  if ((s = getenv("NULL_PJRT_EXTENSIONS")) != NULL) add_extensions(s);
  if ((s = getenv("NULL_PJRT_FAULTS")) != NULL && !arm(s))
    fprintf(stderr, "null plugin: cannot read NULL_PJRT_FAULTS=%s\n", s);
}

__attribute__((visibility("default"))) const pj_api *GetPjrtApi(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (getenv("NULL_PJRT_NO_TABLE") != NULL) return NULL;
  pthread_once(&once, fill_table);
  return &table;
}
