// A PJRT plugin for tests: it computes a few operations for real on host memory,
// injects faults, and keeps accounts that show leaks and misuse.
//
// Objects are ordinary C structures whose addresses are the interface's handles.
// Without the delay option everything happens during the call. With it, a worker
// thread per client does executions and copies in the order of the calls, each
// after the delay, so that a caller that does not wait reads stale memory.
#ifndef NULL_PLUGIN_H_
#define NULL_PLUGIN_H_

#include <pthread.h>
#include <stdatomic.h>

#include "../../abi.h"

enum { MAX_DIMS = 8 };

// ---- Accounts (account.c).

// What exists now; indexes null_live.
// Clients count those of the second group themselves.
enum {
  LIVE_CLIENTS,
  LIVE_EVENTS,
  LIVE_COMPILED,  // descriptions of executables
  LIVE_ERRORS,
  LIVE_BUFFERS,
  LIVE_LOADED,  // loaded executables
  LIVE_DATA,    // blocks of device memory
  LIVE_BYTES,
  VIOLATIONS,  // uses that the interface forbids
  LIVE_COUNT,
};
void count(int what, long long n);

// Called on entry to function fn. Traces the call, refuses a block
// that is shorter than size, and says what an armed fault makes of the call:
// *after is set when the fault is to be reported after the work, so that a
// failing destroy still destroys.
pj_error enter(int fn, const void *block, size_t size, pj_error *after);

// Makes every block longer by some bytes, as newer interfaces do.
void grow(size_t bytes);

// Whether a block is as long as it must be, with zeros in what is new.
bool grown(const void *block, size_t size);

// Whether an armed fault wants the event of this call to fail; then the code and
// message are set.
bool event_fault(int fn, int *code, char *message, size_t size);

// Whether an armed fault wants the buffers that this call makes to be deleted.
bool deleted_fault(int fn);

// Arms faults: "Function:k:CODE[:message]" fails the k-th call from now,
// "Function@event:k:CODE" its event, "Function@deleted:k" deletes the buffers
// that it makes; several separated by commas.
bool arm(const char *specification);
int function_named(const char *name, size_t size);  // -1 if none

// ---- Errors (account.c).

typedef struct {
  int code;
  char message[];
} Error;

pj_error fail(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Answers with an array, or with text, of the object asked.
pj_error answer(void *list, const void *items, size_t size);
pj_error answer_text(void *list, const char *text);

// ---- Events (event.c).

typedef struct Waiter {
  struct Waiter *next;
  PJRT_Event_OnReadyCallback call;
  void *user;
} Waiter;

typedef struct Event {
  atomic_int refs;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ready;
  int code;
  char *message;  // null if none
  Waiter *waiters;
} Event;

Event *event_new(void);
Event *event_done(int code, const char *message);  // complete already
Event *event_keep(Event *e);                       // null is allowed
Event *event_keep_unless_good(Event *e);  // null if complete without an error
void event_drop(Event *e);                         // null is allowed
void event_set(Event *e, int code, const char *message);
void event_wait(Event *e);

// ---- Clients, devices, memories (client.c).

typedef struct Client Client;

typedef struct {
  Client *client;
  int id, process;
  bool addressable;
  char kind[16], name[32], debug[64];
  PJRT_NamedValue attributes[2];
  long long in_use, peak, allocations, largest;  // under the client's lock
  struct Memory *memories[2];  // device memory and pinned host memory
} Device;

typedef struct Memory {
  Device *device;
  int id, kind_id;
  const char *kind;
  char name[48];
} Memory;

// A piece of work of a client's worker.
typedef struct Task {
  struct Task *next;
  void (*run)(struct Task *task);  // frees the task
} Task;

struct Client {
  int process, num_devices, num_addressable;
  Device **devices;      // those of other processes too
  Device **addressable;  // within devices
  Memory **memories;
  long long memory_limit;  // bytes on each device, 0 for none
  int delay_us;            // 0: no worker
  char version[32];
  atomic_bool locked;
  // Under the lock:
  bool destroyed, working;  // working: the worker runs
  long long buffers, loaded, data, bytes;
  struct Data *released;  // to be told to their owners on unlocking
  struct Buffer *spare;   // freed buffers, for the next ones
  // The worker's tasks, under a lock of their own:
  pthread_mutex_t tasks;
  pthread_cond_t changed;
  bool ending;  // no more tasks are taken
  Task *first, *last;
  struct Client *next, *previous;  // among all clients, under their lock
};

// The lock guards whatever belongs to the client: one lock for all, that spins,
// makes the plugin cheap enough to measure what its caller costs. Unlocking calls
// back the owners of borrowed memory and frees a client that is destroyed and
// empty.
void client_lock(Client *c);
void client_unlock(Client *c);
void client_enqueue(Client *c, Task *task);
// Adds what all clients hold to the accounts.
void clients_count(int64_t *out);
Device *device_by_id(Client *c, int id);

// ---- Device memory and buffers (buffer.c).

// A block of device memory, shared by buffers of which one was donated to the
// other, and held by work in progress.
typedef struct Data {
  int refs;  // under the client's lock
  struct Data *next_released;
  Device *device;
  size_t size;
  uint8_t *bytes;
  Event *released;  // completes when no one uses the caller's memory any more
  void (*on_delete)(void *bytes, void *user);
  void *on_delete_arg;
  bool borrowed;  // the memory is the caller's
} Data;

// All with the client's lock held.
Data *data_new(Device *device, size_t size, pj_error *error);
Data *data_keep(Data *d);
void data_drop(Data *d);  // null is allowed
void data_release(Data *d);  // the owner's part, without the lock

typedef struct Buffer {
  struct Buffer *next_spare;
  Client *client;
  Device *device;
  Memory *memory;
  int type;
  size_t num_dims;
  int64_t dims[MAX_DIMS];
  // Under the client's lock:
  Data *data;    // null once deleted or donated
  Event *ready;  // null: ready, without an error
  int external;
  unsigned long long mark;  // the execution that was last seen to donate it
} Buffer;

// With the client's lock held; takes over data and ready.
Buffer *buffer_new(Device *device, Memory *memory, int type, const int64_t *dims,
                   size_t num_dims, Data *data, Event *ready);
void buffer_forget(Buffer *b);  // drops its memory, with the lock held
size_t type_size(int type);
size_t array_size(int type, const int64_t *dims, size_t num_dims);

// ---- Programs (module.c, run.c).

typedef struct {
  int type;
  size_t num_dims;
  int64_t dims[MAX_DIMS];
  size_t elements, bytes;
} Shape;

enum {
  OP_PARAMETER,
  OP_CONSTANT,
  OP_ADD,
  OP_SUBTRACT,
  OP_MULTIPLY,
  OP_DIVIDE,
  OP_MAXIMUM,
  OP_NEGATE,
  OP_BROADCAST,
  OP_RESHAPE,
  OP_SLICE,
};

typedef struct {
  int op;
  Shape shape;
  int operands[2];  // numbers of earlier values
  int64_t map[MAX_DIMS];  // OP_BROADCAST: operand dimension to result's
  int64_t start[MAX_DIMS], step[MAX_DIMS];  // OP_SLICE: of the operand's dimensions
  uint8_t *constant;      // OP_CONSTANT: the bytes
} Value;

typedef struct {
  char name[64];
  Value *values;  // parameters first
  int num_values, room;
  int num_parameters;
  int *results;  // numbers of values
  int num_results;
  int *alias;      // for each parameter: the result that may use its memory, or -1
  bool *donor;     // for each parameter: may be reused for any result
} Program;

// Parses a module in generic form. Null and an error, or a program.
Program *program_parse(const char *text, size_t size, pj_error *error);
void program_free(Program *p);

// Computes the results; outputs may share memory with inputs.
void program_run(const Program *p, uint8_t *const *inputs, uint8_t **outputs);

// ---- Executables (executable.c, execute.c).

typedef struct {
  atomic_int refs;  // a loaded executable and its descriptions
  Program *program;
  char *module;
  size_t module_size;
  char *options;
  size_t options_size;
  int replicas, partitions;
  bool portable;  // for the device that an execution names
  int *device_ids;  // [replicas * partitions]
  char fingerprint[24];
  PJRT_NamedValue cost[2];
  int *types;
  int64_t *dims;
  size_t *ranks;
  const char **kinds;
  size_t *kind_sizes;
} Compiled;

void compiled_drop(Compiled *c);

typedef struct {
  Client *client;
  Compiled *compiled;
  Device **devices;
  size_t num_devices;
  atomic_bool deleted;
} Loaded;

// ---- The functions of the table that are implemented.

#define NULL_FUNCTIONS(X)                      \
  X(Error_Destroy)                             \
  X(Error_Message)                             \
  X(Error_GetCode)                             \
  X(Plugin_Initialize)                         \
  X(Plugin_Attributes)                         \
  X(Event_Destroy)                             \
  X(Event_IsReady)                             \
  X(Event_Error)                               \
  X(Event_Await)                               \
  X(Event_OnReady)                             \
  X(Event_Create)                              \
  X(Event_Set)                                 \
  X(Client_Create)                             \
  X(Client_Destroy)                            \
  X(Client_PlatformName)                       \
  X(Client_ProcessIndex)                       \
  X(Client_PlatformVersion)                    \
  X(Client_Devices)                            \
  X(Client_AddressableDevices)                 \
  X(Client_LookupDevice)                       \
  X(Client_LookupAddressableDevice)            \
  X(Client_AddressableMemories)                \
  X(Client_Compile)                            \
  X(Client_DefaultDeviceAssignment)            \
  X(Client_BufferFromHostBuffer)               \
  X(Client_CreateUninitializedBuffer)          \
  X(Client_CreateViewOfDeviceBuffer)           \
  X(Client_TopologyDescription)                \
  X(TopologyDescription_PlatformName)          \
  X(TopologyDescription_PlatformVersion)       \
  X(TopologyDescription_GetDeviceDescriptions) \
  X(TopologyDescription_Serialize)             \
  X(TopologyDescription_Attributes)            \
  X(DeviceDescription_Id)                      \
  X(DeviceDescription_ProcessIndex)            \
  X(DeviceDescription_Attributes)              \
  X(DeviceDescription_Kind)                    \
  X(DeviceDescription_DebugString)             \
  X(DeviceDescription_ToString)                \
  X(Device_GetDescription)                     \
  X(Device_IsAddressable)                      \
  X(Device_LocalHardwareId)                    \
  X(Device_AddressableMemories)                \
  X(Device_DefaultMemory)                      \
  X(Device_MemoryStats)                        \
  X(Memory_Id)                                 \
  X(Memory_Kind)                               \
  X(Memory_Kind_Id)                            \
  X(Memory_DebugString)                        \
  X(Memory_ToString)                           \
  X(Memory_AddressableByDevices)               \
  X(Executable_Destroy)                        \
  X(Executable_Name)                           \
  X(Executable_NumReplicas)                    \
  X(Executable_NumPartitions)                  \
  X(Executable_NumOutputs)                     \
  X(Executable_SizeOfGeneratedCodeInBytes)     \
  X(Executable_GetCostAnalysis)                \
  X(Executable_OutputMemoryKinds)              \
  X(Executable_OptimizedProgram)               \
  X(Executable_Serialize)                      \
  X(Executable_DeserializeAndLoad)             \
  X(Executable_OutputElementTypes)             \
  X(Executable_OutputDimensions)               \
  X(Executable_Fingerprint)                    \
  X(Executable_GetCompiledMemoryStats)         \
  X(Executable_GetCompileOptions)              \
  X(LoadedExecutable_Destroy)                  \
  X(LoadedExecutable_GetExecutable)            \
  X(LoadedExecutable_AddressableDevices)       \
  X(LoadedExecutable_Delete)                   \
  X(LoadedExecutable_IsDeleted)                \
  X(LoadedExecutable_Execute)                  \
  X(LoadedExecutable_Fingerprint)              \
  X(Buffer_Destroy)                            \
  X(Buffer_ElementType)                        \
  X(Buffer_Dimensions)                         \
  X(Buffer_UnpaddedDimensions)                 \
  X(Buffer_DynamicDimensionIndices)            \
  X(Buffer_GetMemoryLayout)                    \
  X(Buffer_OnDeviceSizeInBytes)                \
  X(Buffer_Device)                             \
  X(Buffer_Memory)                             \
  X(Buffer_Delete)                             \
  X(Buffer_IsDeleted)                          \
  X(Buffer_CopyToDevice)                       \
  X(Buffer_CopyToMemory)                       \
  X(Buffer_CopyRawToHost)                      \
  X(Buffer_ToHostBuffer)                       \
  X(Buffer_IsOnCpu)                            \
  X(Buffer_ReadyEvent)                         \
  X(Buffer_UnsafePointer)                      \
  X(Buffer_IncreaseExternalReferenceCount)     \
  X(Buffer_DecreaseExternalReferenceCount)     \
  X(Buffer_OpaqueDeviceMemoryDataPointer)

#define NULL_DECLARE(name) pj_error null_##name(void *block);
NULL_FUNCTIONS(NULL_DECLARE)
#undef NULL_DECLARE

#endif  // NULL_PLUGIN_H_
