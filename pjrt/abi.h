// The binary interface of a PJRT plugin, as this client speaks it: PJRT's own
// header, and what makes it convenient for Go.
//
//  - Opaque objects (clients, buffers, events, ...) are carried as integers of
//    pointer size. Go can then hold them without its collector, its vet or
//    cgo's pointer checks taking an interest in them.
//  - The functions form an array indexed by pj_fn_*; PJ_FUNCTIONS lists their
//    names in the interface's order together with the argument block of each.
//  - Blocks of the same layout share one type: asking a client for its devices
//    and a device for its memories both use pj_list.
//
// abi.c has the compiler compare all of this with PJRT's header.
#ifndef PJC_ABI_H_
#define PJC_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi_functions.h"
#include "types.h"
#include "third_party/xla/pjrt/c/pjrt_c_api.h"

// The oldest minor version whose table has the same order (0.57 rearranged it).
// PJRT_API_MINOR is the version that the header describes.
enum { PJ_OLDEST_MINOR = 57 };

// Opaque objects: addresses that only the plugin looks behind.
typedef uintptr_t pj_error;
typedef uintptr_t pj_event;
typedef uintptr_t pj_client;
typedef uintptr_t pj_device;
typedef uintptr_t pj_memory;
typedef uintptr_t pj_buffer;
typedef uintptr_t pj_topology;
typedef uintptr_t pj_executable;  // compiled code
typedef uintptr_t pj_loaded;      // compiled code on devices, ready to run

// What every block begins with: its own size, by which each side learns how
// many fields the other knows, and a chain of extensions.
#define PJ_HEAD        \
  size_t struct_size;  \
  PJRT_Extension_Base *extension_start;

// ---- Argument blocks that several functions share. "out" is written by the
// plugin.

// An object, and nothing else.
typedef struct {
  PJ_HEAD
  uintptr_t object;
} pj_object;

// An object and a pointer-sized answer: another object, or a count.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  uintptr_t word;  // out
} pj_word;

// An object and an int.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  int number;  // out
} pj_int;

// An object and a truth.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  bool truth;  // out
} pj_bool;

// An object and text, or an array: its address and its length.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  const void *items;  // out
  size_t count;       // out
} pj_list;

// The same with the length first.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  size_t count;       // out
  const void *items;  // out
} pj_counted;

// An object, the length of the two arrays, and the arrays.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  size_t count;         // out for OutputDimensions and the memory kinds
  const void *items;    // out
  const size_t *sizes;  // out
} pj_two_lists;

// An object, a second object, and an answer.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  uintptr_t target;
  uintptr_t word;  // out
} pj_pair;

// An object, an int, and an answer: a look-up.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  int number;
  uintptr_t word;  // out
} pj_lookup;

// An object and bytes made for the caller, who frees them with the deleter.
typedef struct {
  PJ_HEAD
  uintptr_t object;
  const char *bytes;             // out
  size_t size;                   // out
  uintptr_t owner;               // out
  void (*deleter)(uintptr_t owner);  // out
} pj_bytes;

// An answer only.
typedef struct {
  PJ_HEAD
} pj_nothing;

// ---- The table.

#define PJ_ENUM(name, block, field) pj_fn_##name,
enum { PJ_FUNCTIONS(PJ_ENUM) pj_fn_count };
#undef PJ_ENUM

typedef pj_error (*pj_function)(void *block);

// PJRT_Api with its functions as an array.
typedef struct {
  PJ_HEAD
  PJRT_Api_Version version;
  pj_function fn[pj_fn_count];
} pj_api;

#endif  // PJC_ABI_H_
