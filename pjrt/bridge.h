// The C side of the client: the one call path into a plugin, the calls of the
// hot path, and the completion queue.
//
// Nothing here calls into Go, on any thread. Functions that Go passes memory to
// copy it before they enter the plugin, so that a Go stack may move meanwhile.
#ifndef PJC_BRIDGE_H_
#define PJC_BRIDGE_H_

#include "abi.h"

// Not an error object but the client's own finding: the plugin's table does not
// reach the function, or has a null there.
#define PJC_ABSENT ((pj_error)1)
// The client's own finding: no memory for the call's arguments.
#define PJC_NO_MEMORY ((pj_error)2)
// The client's own finding: more dimensions than it serves.
#define PJC_BAD_RANK ((pj_error)3)

// A plugin refuses a block that is shorter than its own interface has it, and newer interfaces have longer blocks. A
// plugin that reports a newer one is given blocks with this many zeros behind them. A caller that does not use the new
// fields would say the same.
enum { PJC_TAIL = 128 };

// The bytes of zeros that this plugin is given: PJC_TAIL or 0.
static inline size_t pjc_tail(const pj_api *api) {
  return api->version.minor_version > PJRT_API_MINOR ? PJC_TAIL : 0;
}

// What C memory is held for; indexes pjc_memory.
enum {
  PJC_MEM_CALL = 0,     // argument arrays of prepared calls
  PJC_MEM_OPTIONS = 1,  // client options while a client is created
  PJC_MEM_WATCH = 2,    // watched events and completions not yet read
  PJC_MEM_KV = 3,       // key-value requests and values
  PJC_MEM_STAGE = 4,    // arrays on their way between the host and parts of devices
  PJC_MEM_COUNT = 5,
};

void *pjc_alloc(int purpose, size_t size);             // zeroed; null if none
void pjc_free(int purpose, void *memory, size_t size);  // null is allowed
void *pjc_array(size_t size);                           // not zeroed, aligned for any program; null if none
void pjc_array_free(void *memory, void *owner);         // of pjc_array, as PJRT calls it back; the two are one
void pjc_memory(int purpose, int64_t *bytes, int64_t *blocks);

// ---- Loading.

enum {
  PJC_LOAD_OK = 0,
  PJC_LOAD_DLOPEN = 1,   // the loader refused the file
  PJC_LOAD_NO_ENTRY = 2, // it has no GetPjrtApi
  PJC_LOAD_NO_API = 3,   // GetPjrtApi returned null
};

// Opens the library and asks it for its table. On PJC_LOAD_DLOPEN or
// PJC_LOAD_NO_ENTRY, message (of room size bytes) holds the loader's words.
int pjc_load(const char *path, const pj_api **api, char *message, size_t size);

// Opens a library that a plugin needs; 0, or 1 with the loader's words.
int pjc_preload(const char *path, char *message, size_t size);

// ---- Calls.

// The name of function fn without its prefix, null out of range.
const char *pjc_function_name(int fn);

// Whether the plugin's table reaches fn and has it.
bool pjc_has(const pj_api *api, int fn);

// Calls fn with its block, whose struct_size is set.
pj_error pjc_call(const pj_api *api, int fn, void *block);

// Calls a function of a pj_bytes block's own: frees what the plugin made.
void pjc_delete_bytes(pj_bytes *block);

// Code and message of an error; the message lives as long as the error.
int pjc_error_code(const pj_api *api, pj_error error);
void pjc_error_message(const pj_api *api, pj_error error, const char **text,
                       size_t *size);
void pjc_error_destroy(const pj_api *api, pj_error error);

// ---- The hot path.

// More dimensions than any array of XLA has.
enum { PJC_MAX_RANK = 64 };

// What a call of the hot path gives. Some of them call two functions of the
// plugin: fn is the one that the error is of.
typedef struct {
  pj_error error;
  int fn;
  uintptr_t object;
  pj_event event;
  int64_t number;
} pjc_result;

// Copies host data to a device or, where memory is not 0, to that memory.
pjc_result pjc_from_host(const pj_api *api, pj_client client, const void *data,
                         int type, const int64_t *dims, size_t num_dims,
                         const int64_t *strides, size_t num_strides,
                         int semantics, pj_device device, pj_memory memory);

// Makes a buffer in a memory, whose values are anything.
pjc_result pjc_uninitialized(const pj_api *api, pj_client client, int type,
                             const int64_t *dims, size_t num_dims,
                             pj_device device, pj_memory memory);

// Calls a function of an object that gives a word, which is the result's object.
pjc_result pjc_word(const pj_api *api, int fn, uintptr_t object);

// Starts the copy of a buffer to host memory, dense and row-major. number is
// the size needed when dst is null.
pjc_result pjc_to_host(const pj_api *api, pj_buffer buffer, void *dst,
                       size_t size);

// Destroys objects by fn and returns the first error; the rest are still
// destroyed.
pj_error pjc_destroy_all(const pj_api *api, int fn, const uintptr_t *objects,
                         size_t count);

// Waits for an event and, when destroy is set, destroys it whatever came.
pjc_result pjc_await(const pj_api *api, pj_event event, bool destroy);

// Waits for an event for at most timeout_ns, for the first spin_ns of them
// without sleeping. number is 1 if it is complete, with or without success.
pjc_result pjc_await_for(const pj_api *api, pj_event event, int64_t spin_ns,
                         int64_t timeout_ns);

// An executable's argument block with every array that an execution needs,
// allocated once. Go reads and writes the arrays in place.
typedef struct {
  const pj_api *api;
  size_t num_devices, num_args, num_outputs;
  size_t size;          // of this allocation
  pj_buffer *args;      // [num_devices * num_args]
  pj_buffer *outputs;   // [num_devices * num_outputs]
  pj_event *events;     // [num_devices]
  int64_t *keep;        // [num_args], the indices that must not be donated
  PJRT_Buffer *const **arg_lists;
  PJRT_Buffer ***output_lists;
  struct {
    PJRT_ExecuteOptions block;
    char tail[PJC_TAIL];
  } options;
  struct {
    PJRT_LoadedExecutable_Execute_Args block;
    char tail[PJC_TAIL];
  } execute;
} pjc_prepared;

pjc_prepared *pjc_prepare(const pj_api *api, pj_loaded executable,
                          size_t num_devices, size_t num_args,
                          size_t num_outputs);
void pjc_prepared_free(pjc_prepared *call);

// Runs it. Outputs are zeroed before, events too.
pj_error pjc_execute(pjc_prepared *call, size_t num_keep, bool want_events);

// ---- The completion queue.

typedef struct pjc_queue pjc_queue;

typedef struct {
  uint64_t token;
  int code;         // PJRT_Error_Code_OK or the event's error
  char *message;    // to be freed with pjc_completion_free, null if none
  size_t message_size;
} pjc_completion;

// Makes a queue whose readiness shows on the descriptor fd (an eventfd), which
// stays the caller's.
pjc_queue *pjc_queue_new(int fd);

// Releases the queue. It is freed when the last watched event has completed.
void pjc_queue_close(pjc_queue *queue);

// Has the plugin call back when the event completes; the callback owns its error.
pj_error pjc_on_ready(const pj_api *api, pj_event event,
                      PJRT_Event_OnReadyCallback callback, void *user);

// Puts a completion with this token on the queue when the event completes.
pj_error pjc_queue_watch(pjc_queue *queue, const pj_api *api, pj_event event,
                         uint64_t token);

// Makes a view of device memory from a block that is filled but for its address
// and its callback; a completion with this token tells that it is released.
pj_error pjc_queue_view(pjc_queue *queue, const pj_api *api, PJRT_Client_CreateViewOfDeviceBuffer_Args *block,
                        uintptr_t address, uint64_t token);

// Takes up to max completions without waiting.
size_t pjc_queue_take(pjc_queue *queue, pjc_completion *out, size_t max);
void pjc_completion_free(pjc_completion *completion);

// ---- The key-value store of a client.
//
// A plugin's thread that asks for a key waits here, in C, while a goroutine
// looks it up and answers.

typedef struct pjc_kv pjc_kv;

enum { PJC_KV_GET = 0, PJC_KV_TRY_GET = 1, PJC_KV_PUT = 2 };

typedef struct pjc_kv_request {
  struct pjc_kv_request *next;
  int op;  // PJC_KV_*
  int timeout_ms;
  const char *key, *value;  // the plugin's, until the answer
  size_t key_size, value_size;
  // The answer.
  bool answered;
  int code;
  char *text;  // value or message, of the kind pjc_kv_answer makes
  size_t text_size;
} pjc_kv_request;

// Makes a store's C side, which shows on the descriptor fd that there are
// requests, and puts its callbacks into the block.
pjc_kv *pjc_kv_new(int fd, PJRT_Client_Create_Args *block);

// Refuses all requests from now on, those that wait too, and stops using fd.
void pjc_kv_stop(pjc_kv *kv);

// Releases the store, which is freed with the last request. Follows the stop.
void pjc_kv_free(pjc_kv *kv);

// Takes the next request, null if there is none.
pjc_kv_request *pjc_kv_take(pjc_kv *kv);

// Answers a request with a value, or with a code and a message; copies text.
void pjc_kv_answer(pjc_kv *kv, pjc_kv_request *request, int code,
                   const char *text, size_t size);

#endif  // PJC_BRIDGE_H_
