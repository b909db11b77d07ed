// Compares abi.h and abi_functions.h with PJRT's own header; it has no code.
#include "abi.h"

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is not " #theirs)

// The blocks that functions share: their sizes, and where their answers are.
#define SHARED(shape, out, name, field)                                  \
  SAME(sizeof(shape), sizeof(PJRT_##name##_Args));                       \
  SAME(offsetof(shape, out), offsetof(PJRT_##name##_Args, field));       \
  SAME(sizeof(((shape *)0)->out), sizeof(((PJRT_##name##_Args *)0)->field));
#define BLOCK_pj_nothing(name, field) SHARED(pj_nothing, struct_size, name, field)
#define BLOCK_pj_object(name, field) SHARED(pj_object, object, name, field)
#define BLOCK_pj_word(name, field) SHARED(pj_word, word, name, field)
#define BLOCK_pj_int(name, field) SHARED(pj_int, number, name, field)
#define BLOCK_pj_bool(name, field) SHARED(pj_bool, truth, name, field)
#define BLOCK_pj_list(name, field) SHARED(pj_list, items, name, field)
#define BLOCK_pj_counted(name, field) SHARED(pj_counted, items, name, field)
#define BLOCK_pj_two_lists(name, field) SHARED(pj_two_lists, items, name, field)
#define BLOCK_pj_pair(name, field) SHARED(pj_pair, word, name, field)
#define BLOCK_pj_lookup(name, field) SHARED(pj_lookup, word, name, field)
#define BLOCK_pj_bytes(name, field) SHARED(pj_bytes, bytes, name, field)
#define BLOCK_own(name, field)
#define BLOCK_unused(name, field)

#define FUNCTION(name, block, field)                                              \
  SAME(offsetof(pj_api, fn) + pj_fn_##name * sizeof(pj_function), offsetof(PJRT_Api, PJRT_##name)); \
  BLOCK_##block(name, field)
PJ_FUNCTIONS(FUNCTION)

SAME(sizeof(pj_api), sizeof(PJRT_Api));
SAME(offsetof(pj_api, version), offsetof(PJRT_Api, pjrt_api_version));

#define TYPE(name, code, bits) SAME(code, (int)PJRT_Buffer_Type_##name);
PJ_TYPES(TYPE)
