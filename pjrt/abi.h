// The binary interface of a PJRT plugin, as far as this client speaks it.
//
// PJRT publishes a C interface: a plugin exports GetPjrtApi, which returns a
// table of function pointers; every function takes one pointer to a block of
// arguments and returns an error object or null. Only the layout of the table
// and of the blocks matters, and that is what this header states, in a form of
// its own:
//
//  - Opaque objects (clients, buffers, events, ...) are carried as integers of
//    pointer size. Go can then hold them without its collector, its vet or
//    cgo's pointer checks taking an interest in them.
//  - The functions form an array indexed by pj_fn_*; PJ_FUNCTIONS lists their
//    names in the interface's order together with the argument block of each.
//  - Blocks of the same layout share one type: asking a client for its devices
//    and a device for its memories both use pj_list.
//
// A test compares every offset, size, index and enumerator below with the real
// header where one is installed. Fields and functions marked "since 0.N" are
// absent from interfaces older than minor version N.
#ifndef PJC_ABI_H_
#define PJC_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types.h"

// The interface version that these declarations follow, and the oldest minor
// version whose table has the same order (0.57 rearranged it).
enum { PJ_MAJOR = 0, PJ_MINOR = 90, PJ_OLDEST_MINOR = 57 };

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

// One link of a plugin's chain of extensions.
typedef struct pj_extension {
  size_t struct_size;
  int type;
  struct pj_extension *next;
} pj_extension;

// What every block begins with: its own size, by which each side learns how
// many fields the other knows, and a chain of extensions.
#define PJ_HEAD        \
  size_t struct_size;  \
  pj_extension *extension_start;

// ---- Named values: client options, attributes, cost figures.

enum {
  PJ_VALUE_STRING = 0,
  PJ_VALUE_INT64 = 1,
  PJ_VALUE_INT64_LIST = 2,
  PJ_VALUE_FLOAT = 3,
  PJ_VALUE_BOOL = 4,
};

typedef struct {
  PJ_HEAD
  const char *name;
  size_t name_size;
  int type;  // PJ_VALUE_*
  union {
    const char *string_value;
    int64_t int64_value;
    const int64_t *int64_array_value;
    float float_value;
    bool bool_value;
  } value;
  size_t value_size;  // length of a string or list, else 1
} pj_named_value;

// ---- Element types, error codes, and how long a host buffer may be read.

#define PJ_ENUM(name, code, bits) PJ_TYPE_##name = code,
enum { PJ_TYPE_INVALID = 0, PJ_TYPES(PJ_ENUM) PJ_TYPE_COUNT };
#undef PJ_ENUM

#define PJ_CODES(X)          \
  X(OK, 0)                   \
  X(CANCELLED, 1)            \
  X(UNKNOWN, 2)              \
  X(INVALID_ARGUMENT, 3)     \
  X(DEADLINE_EXCEEDED, 4)    \
  X(NOT_FOUND, 5)            \
  X(ALREADY_EXISTS, 6)       \
  X(PERMISSION_DENIED, 7)    \
  X(RESOURCE_EXHAUSTED, 8)   \
  X(FAILED_PRECONDITION, 9)  \
  X(ABORTED, 10)             \
  X(OUT_OF_RANGE, 11)        \
  X(UNIMPLEMENTED, 12)       \
  X(INTERNAL, 13)            \
  X(UNAVAILABLE, 14)         \
  X(DATA_LOSS, 15)           \
  X(UNAUTHENTICATED, 16)

#define PJ_ENUM(name, code) PJ_CODE_##name = code,
enum { PJ_CODES(PJ_ENUM) PJ_CODE_COUNT };
#undef PJ_ENUM

enum {
  PJ_HOST_ONLY_DURING_CALL = 0,
  PJ_HOST_UNTIL_TRANSFER_COMPLETES = 1,
  PJ_HOST_ZERO_COPY = 2,
  PJ_HOST_MUTABLE_ZERO_COPY = 3,
};

// ---- Layouts of a buffer's data.

enum { PJ_LAYOUT_TILED = 0, PJ_LAYOUT_STRIDES = 1 };

typedef struct {
  PJ_HEAD
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  const int64_t *tile_dims;
  const size_t *tile_dim_sizes;
  size_t num_tiles;
} pj_tiled_layout;

typedef struct {
  PJ_HEAD
  const int64_t *byte_strides;
  size_t num_byte_strides;
} pj_strided_layout;

typedef struct {
  PJ_HEAD
  union {
    pj_tiled_layout tiled;
    pj_strided_layout strides;
  } form;
  int type;  // PJ_LAYOUT_*
} pj_layout;

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

// An array that belongs to the plugin.
typedef struct {
  PJ_HEAD
  const pj_named_value *items;  // out
  size_t count;                 // out
} pj_attributes;

// ---- Events.

// Called once when the event completes, maybe on a plugin's thread; owns error.
typedef void (*pj_on_ready_fn)(pj_error error, void *user);

typedef struct {
  PJ_HEAD
  pj_event event;
  pj_on_ready_fn callback;
  void *user_arg;
} pj_on_ready;

typedef struct {
  PJ_HEAD
  pj_event event;  // out
} pj_made_event;

typedef struct {
  PJ_HEAD
  pj_event event;
  int error_code;
  const char *error_message;
  size_t error_message_size;
} pj_event_set;

// ---- Clients.

// What a plugin gives a key-value callback to make an error object with.
typedef pj_error (*pj_make_error)(int code, const char *message, size_t size);

typedef struct {
  PJ_HEAD
  const char *key;
  size_t key_size;
  int timeout_in_ms;
  pj_make_error *callback_error;
  void *user_arg;
  char *value;                           // out
  size_t value_size;                     // out
  void (*value_deleter)(char *value);    // out
} pj_kv_get;

typedef struct {
  PJ_HEAD
  const char *key;
  size_t key_size;
  pj_make_error *callback_error;
  void *user_arg;
  char *value;                           // out
  size_t value_size;                     // out
  void (*value_deleter)(char *value);    // out
} pj_kv_try_get;

typedef struct {
  PJ_HEAD
  const char *key;
  size_t key_size;
  const char *value;
  size_t value_size;
  pj_make_error *callback_error;
  void *user_arg;
} pj_kv_put;

typedef struct {
  PJ_HEAD
  const pj_named_value *create_options;
  size_t num_options;
  pj_error (*kv_get_callback)(pj_kv_get *args);
  void *kv_get_user_arg;
  pj_error (*kv_put_callback)(pj_kv_put *args);
  void *kv_put_user_arg;
  pj_client client;  // out
  pj_error (*kv_try_get_callback)(pj_kv_try_get *args);
  void *kv_try_get_user_arg;
} pj_client_create;

typedef struct {
  PJ_HEAD
  char *code;
  size_t code_size;
  const char *format;  // "mlir", "hlo", "hlo_with_config"
  size_t format_size;
} pj_program;

typedef struct {
  PJ_HEAD
  pj_client client;
  const pj_program *program;
  const char *compile_options;  // a serialized CompileOptionsProto
  size_t compile_options_size;
  pj_loaded executable;  // out
} pj_client_compile;

typedef struct {
  PJ_HEAD
  pj_client client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int *default_assignment;  // filled by the plugin
} pj_default_assignment;

typedef struct {
  PJ_HEAD
  pj_client client;
  const char *serialized_executable;
  size_t serialized_executable_size;
  pj_loaded loaded_executable;  // out
  const char *options;          // null: those it was compiled with
  size_t options_size;
} pj_deserialize;

// ---- Transfers.

typedef struct {
  PJ_HEAD
  pj_client client;
  const void *data;
  int type;  // PJ_TYPE_*
  const int64_t *dims;
  size_t num_dims;
  const int64_t *byte_strides;
  size_t num_byte_strides;
  int host_buffer_semantics;  // PJ_HOST_*
  pj_device device;
  pj_memory memory;
  pj_layout *device_layout;
  pj_event done_with_host_buffer;  // out
  pj_buffer buffer;                // out
} pj_from_host;

typedef struct {
  PJ_HEAD
  pj_client client;
  const int64_t *dims;
  size_t num_dims;
  int type;
  pj_layout *layout;
  pj_device device;
  pj_memory memory;
  pj_buffer buffer;  // out
} pj_uninitialized;

typedef struct {
  PJ_HEAD
  pj_client client;
  void *device_buffer;
  const int64_t *dims;
  size_t num_dims;
  int type;
  pj_layout *layout;
  pj_device device;
  void (*on_delete)(void *device_buffer, void *user);
  void *on_delete_arg;
  intptr_t stream;
  pj_buffer buffer;  // out
  pj_memory memory;
} pj_view;

typedef struct {
  PJ_HEAD
  pj_buffer src;
  pj_layout *host_layout;
  void *dst;
  size_t dst_size;
  pj_event event;  // out
} pj_to_host;

typedef struct {
  PJ_HEAD
  pj_buffer buffer;
  void *dst;
  int64_t offset;
  int64_t transfer_size;
  pj_event event;  // out
} pj_copy_raw;

typedef struct {
  PJ_HEAD
  pj_buffer buffer;
  pj_layout layout;  // out
} pj_buffer_layout;

// ---- Devices.

typedef struct {
  PJ_HEAD
  pj_device device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
} pj_memory_stats;

// ---- Executables.

typedef struct {
  PJ_HEAD
  pj_executable executable;
  pj_program *program;  // the plugin fills it, the caller owns the bytes
} pj_optimized;

typedef struct {
  PJ_HEAD
  pj_executable executable;
  int64_t generated_code_size;
  int64_t argument_size;
  int64_t output_size;
  int64_t alias_size;
  int64_t temp_size;
  int64_t host_generated_code_size;
  int64_t host_argument_size;
  int64_t host_output_size;
  int64_t host_alias_size;
  int64_t host_temp_size;
  int64_t peak_memory;
  int64_t total_size;
  int64_t total_allocation;        // since 0.104
  int64_t indefinite_allocations;  // since 0.104
  int64_t peak_unpadded_heap;      // since 0.104
} pj_compiled_memory;

typedef struct {
  PJ_HEAD
  void *send_callbacks;
  void *recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t *non_donatable;
  size_t num_non_donatable;
  uintptr_t context;
  const char *call_location;
  size_t num_tasks;
  int *task_ids;
  int64_t *incarnation_ids;
  void *multi_slice_config;  // since 0.97
} pj_execute_options;

typedef struct {
  PJ_HEAD
  pj_loaded executable;
  pj_execute_options *options;
  const pj_buffer *const *argument_lists;  // [num_devices][num_args]
  size_t num_devices;
  size_t num_args;
  pj_buffer *const *output_lists;      // [num_devices][outputs], written
  pj_event *device_complete_events;    // [num_devices], written, or null
  pj_device execute_device;
} pj_execute;

// ---- The extension by which programs call code of the client.

typedef struct {
  size_t struct_size;
  const char *target_name;
  size_t target_name_size;
  void *handler;  // XLA_FFI_Handler
  const char *platform_name;
  size_t platform_name_size;
  int traits;
} pj_ffi_register_handler;

typedef struct {
  pj_extension base;
  void *type_register;
  void *user_data_add;
  pj_error (*register_handler)(pj_ffi_register_handler *block);
} pj_ffi_extension;

// ---- The table.

typedef struct {
  PJ_HEAD
  int major_version;
  int minor_version;
} pj_version;

#include "abi_functions.h"

#define PJ_ENUM(name, block) pj_fn_##name,
enum { PJ_FUNCTIONS(PJ_ENUM) pj_fn_count };
#undef PJ_ENUM

typedef pj_error (*pj_function)(void *block);

typedef struct {
  PJ_HEAD
  pj_version version;
  pj_function fn[pj_fn_count];
} pj_api;

#endif  // PJC_ABI_H_
