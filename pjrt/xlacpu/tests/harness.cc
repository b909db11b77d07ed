#include "harness.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace harness {

const PJRT_Api* api = nullptr;
std::string plugin_path;

namespace {

void* library = nullptr;

struct Registered {
  const char* name;
  void (*run)();
  bool hidden;
};

std::vector<Registered>& Cases() {
  static auto* cases = new std::vector<Registered>;
  return *cases;
}

void* Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return handle;
}

}  // namespace

Case::Case(const char* name, void (*run)(), bool hidden) {
  Cases().push_back({name, run, hidden});
}

void Fail(const char* file, int line, const std::string& what) {
  const char* base = std::strrchr(file, '/');
  throw Failure{std::string(base ? base + 1 : file) + ":" +
                std::to_string(line) + ": " + what};
}

Outcome Take(PJRT_Error* error) {
  if (error == nullptr) return {};
  Outcome outcome;
  ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  api->PJRT_Error_GetCode(&code);
  outcome.code = code.code;
  ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  outcome.message.assign(message.message, message.message_size);
  ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  return outcome;
}

// ----- events

Event::~Event() {
  ARGS(PJRT_Event_Destroy_Args, args);
  args.event = handle_;
  Take(api->PJRT_Event_Destroy(&args));
}

Outcome Event::Await() const {
  ARGS(PJRT_Event_Await_Args, args);
  args.event = handle_;
  return Take(api->PJRT_Event_Await(&args));
}

bool Event::IsReady() const {
  ARGS(PJRT_Event_IsReady_Args, args);
  args.event = handle_;
  CALL(PJRT_Event_IsReady, args);
  return args.is_ready;
}

// ----- buffers

Buffer::~Buffer() {
  ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = handle_;
  Take(api->PJRT_Buffer_Destroy(&args));
}

bool Buffer::IsDeleted() const {
  ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = handle_;
  CALL(PJRT_Buffer_IsDeleted, args);
  return args.is_deleted;
}

Outcome Buffer::Ready() const {
  ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = handle_;
  Outcome outcome = Take(api->PJRT_Buffer_ReadyEvent(&args));
  return outcome.code != 0 ? outcome : Event(args.event).Await();
}

uintptr_t Buffer::Pointer() const {
  ARGS(PJRT_Buffer_UnsafePointer_Args, args);
  args.buffer = handle_;
  CALL(PJRT_Buffer_UnsafePointer, args);
  return args.buffer_pointer;
}

std::vector<int64_t> Buffer::Dims() const {
  ARGS(PJRT_Buffer_Dimensions_Args, args);
  args.buffer = handle_;
  CALL(PJRT_Buffer_Dimensions, args);
  return std::vector<int64_t>(args.dims, args.dims + args.num_dims);
}

size_t Buffer::ByteSize() const {
  ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = handle_;
  CALL(PJRT_Buffer_ToHostBuffer, args);
  return args.dst_size;
}

Outcome Buffer::TryRead(void* data, size_t size) const {
  char nowhere = 0;  // a null dst would ask for the size
  ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = handle_;
  args.dst = data ? data : &nowhere;
  args.dst_size = size;
  Outcome outcome = Take(api->PJRT_Buffer_ToHostBuffer(&args));
  return outcome.code != 0 ? outcome : Event(args.event).Await();
}

void Buffer::ReadBytes(void* data, size_t size) const {
  EXPECT_OK(TryRead(data, size));
}

// ----- programs

Program::~Program() {
  if (handle_ == nullptr) return;
  ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = handle_;
  Take(api->PJRT_LoadedExecutable_Destroy(&args));
}

namespace {

// Calls `use` with the program's PJRT_Executable, and frees that.
void WithExecutable(PJRT_LoadedExecutable* loaded,
                    const std::function<void(PJRT_Executable*)>& use) {
  ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = loaded;
  CALL(PJRT_LoadedExecutable_GetExecutable, get);
  use(get.executable);
  ARGS(PJRT_Executable_Destroy_Args, destroy);
  destroy.executable = get.executable;
  CALL(PJRT_Executable_Destroy, destroy);
}

}  // namespace

size_t Program::NumOutputs() const {
  size_t count = 0;
  WithExecutable(handle_, [&](PJRT_Executable* executable) {
    ARGS(PJRT_Executable_NumOutputs_Args, args);
    args.executable = executable;
    CALL(PJRT_Executable_NumOutputs, args);
    count = args.num_outputs;
  });
  return count;
}

std::string Program::Serialize() const {
  std::string bytes;
  WithExecutable(handle_, [&](PJRT_Executable* executable) {
    ARGS(PJRT_Executable_Serialize_Args, args);
    args.executable = executable;
    CALL(PJRT_Executable_Serialize, args);
    bytes.assign(args.serialized_bytes, args.serialized_bytes_size);
    args.serialized_executable_deleter(args.serialized_executable);
  });
  return bytes;
}

Outcome Program::TryRun(const std::vector<const Buffer*>& arguments,
                        std::vector<Buffer>& outputs,
                        const std::vector<int64_t>& kept) const {
  std::vector<PJRT_Buffer*> in;
  for (const Buffer* argument : arguments) in.push_back(argument->get());
  std::vector<PJRT_Buffer*> out(NumOutputs(), nullptr);
  ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  PJRT_Buffer* const* in_lists[] = {in.data()};
  PJRT_Buffer** out_lists[] = {out.data()};
  PJRT_Event* done[] = {nullptr};
  ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = handle_;
  args.options = &options;
  args.argument_lists = in_lists;
  args.num_devices = 1;
  args.num_args = in.size();
  args.output_lists = out_lists;
  args.device_complete_events = done;
  Outcome outcome = Take(api->PJRT_LoadedExecutable_Execute(&args));
  if (outcome.code != 0) return outcome;
  for (PJRT_Buffer* buffer : out) outputs.emplace_back(buffer);
  return Event(done[0]).Await();
}

std::vector<Buffer> Program::Run(const std::vector<const Buffer*>& arguments,
                                 const std::vector<int64_t>& kept) const {
  std::vector<Buffer> outputs;
  EXPECT_OK(TryRun(arguments, outputs, kept));
  return outputs;
}

// ----- clients

Client::Client(const Options& options) {
  ARGS(PJRT_Client_Create_Args, args);
  args.create_options = options.data();
  args.num_options = options.size();
  CALL(PJRT_Client_Create, args);
  handle_ = args.client;
}

Outcome TryClient(const Client::Options& options) {
  ARGS(PJRT_Client_Create_Args, args);
  args.create_options = options.data();
  args.num_options = options.size();
  Outcome outcome = Take(api->PJRT_Client_Create(&args));
  if (outcome.code == 0) {
    ARGS(PJRT_Client_Destroy_Args, destroy);
    destroy.client = args.client;
    CALL(PJRT_Client_Destroy, destroy);
  }
  return outcome;
}

Client::~Client() { Destroy(); }

void Client::Destroy() {
  ARGS(PJRT_Client_Destroy_Args, args);
  args.client = std::exchange(handle_, nullptr);
  Take(api->PJRT_Client_Destroy(&args));
}

std::vector<PJRT_Device*> Client::Devices() const {
  ARGS(PJRT_Client_AddressableDevices_Args, args);
  args.client = handle_;
  CALL(PJRT_Client_AddressableDevices, args);
  return std::vector<PJRT_Device*>(
      args.addressable_devices,
      args.addressable_devices + args.num_addressable_devices);
}

std::vector<PJRT_Memory*> Client::Memories() const {
  ARGS(PJRT_Client_AddressableMemories_Args, args);
  args.client = handle_;
  CALL(PJRT_Client_AddressableMemories, args);
  return std::vector<PJRT_Memory*>(
      args.addressable_memories,
      args.addressable_memories + args.num_addressable_memories);
}

namespace {

PJRT_Error* CompileCall(PJRT_Client* client, const std::string& code,
                        const std::string& format, const std::string& options,
                        PJRT_LoadedExecutable** out) {
  ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(code.data());
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  ARGS(PJRT_Client_Compile_Args, args);
  args.client = client;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  PJRT_Error* error = api->PJRT_Client_Compile(&args);
  *out = args.executable;
  return error;
}

PJRT_Error* LoadCall(PJRT_Client* client, const std::string& serialized,
                     PJRT_LoadedExecutable** out) {
  ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  PJRT_Error* error = api->PJRT_Executable_DeserializeAndLoad(&args);
  *out = args.loaded_executable;
  return error;
}

}  // namespace

Program Client::Compile(const std::string& mlir,
                        const std::string& options) const {
  PJRT_LoadedExecutable* executable = nullptr;
  EXPECT_OK(Take(CompileCall(handle_, mlir, "mlir", options, &executable)));
  return Program(executable);
}

Outcome Client::TryCompile(const std::string& code, const std::string& format,
                           const std::string& options) const {
  PJRT_LoadedExecutable* executable = nullptr;
  Outcome outcome = Take(CompileCall(handle_, code, format, options, &executable));
  Program owner(outcome.code == 0 ? executable : nullptr);
  return outcome;
}

Program Client::Load(const std::string& serialized) const {
  PJRT_LoadedExecutable* executable = nullptr;
  EXPECT_OK(Take(LoadCall(handle_, serialized, &executable)));
  return Program(executable);
}

Outcome Client::TryLoad(const std::string& serialized) const {
  PJRT_LoadedExecutable* executable = nullptr;
  Outcome outcome = Take(LoadCall(handle_, serialized, &executable));
  Program owner(outcome.code == 0 ? executable : nullptr);
  return outcome;
}

Buffer Client::PutBytes(const void* data, PJRT_Buffer_Type type,
                        const std::vector<int64_t>& dims, int device) const {
  ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = handle_;
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics =
      PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = Devices()[device];
  CALL(PJRT_Client_BufferFromHostBuffer, args);
  Event done(args.done_with_host_buffer);
  return Buffer(args.buffer);
}

PJRT_Device_MemoryStats_Args Client::MemoryStats(int device) const {
  ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = Devices()[device];
  CALL(PJRT_Device_MemoryStats, args);
  return args;
}

// ----- the rest

namespace {

PJRT_NamedValue Named(const char* name, PJRT_NamedValue_Type type) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = name;
  value.name_size = std::strlen(name);
  value.type = type;
  value.value_size = 1;
  return value;
}

}  // namespace

PJRT_NamedValue IntOption(const char* name, int64_t value) {
  PJRT_NamedValue option = Named(name, PJRT_NamedValue_kInt64);
  option.int64_value = value;
  return option;
}

PJRT_NamedValue BoolOption(const char* name, bool value) {
  PJRT_NamedValue option = Named(name, PJRT_NamedValue_kBool);
  option.bool_value = value;
  return option;
}

PJRT_NamedValue TextOption(const char* name, const char* value) {
  PJRT_NamedValue option = Named(name, PJRT_NamedValue_kString);
  option.string_value = value;
  option.value_size = std::strlen(value);
  return option;
}

PJRT_Extension_Base* FindExtension(PJRT_Extension_Type type) {
  for (auto* e = api->extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return e;
  }
  return nullptr;
}

void* FindExport(const char* name) { return dlsym(library, name); }

std::string AddProgram(int64_t n, bool donate) {
  const std::string type = "tensor<" + std::to_string(n) + "xf32>";
  const std::string alias = donate ? " {tf.aliasing_output = 0 : i32}" : "";
  return "module @add { func.func public @main(%a: " + type + alias +
         ", %b: " + type + ") -> " + type + " { %0 = stablehlo.add %a, %b : " +
         type + " return %0 : " + type + " } }";
}

}  // namespace harness

// Runs the named cases, or all; one line each: "ok NAME", or "failed NAME:" and
// why. Exits with 1 if any failed.
int main(int argc, char** argv) {
  using namespace harness;
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& c : Cases()) std::printf("%s\n", c.name);
    return 0;
  }
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PLUGIN [CASE...]\n", argv[0]);
    return 2;
  }
  plugin_path = argv[1];
  library = Open(plugin_path);
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(FindExport("GetPjrtApi"));
  if (get == nullptr) return 2;
  api = get();
  int failures = 0, runs = 0;
  for (const auto& c : Cases()) {
    bool wanted = argc == 2 && !c.hidden;
    for (int i = 2; i < argc; ++i) wanted |= std::strcmp(argv[i], c.name) == 0;
    if (!wanted) continue;
    ++runs;
    try {
      c.run();
      std::printf("ok %s\n", c.name);
    } catch (const Failure& failure) {
      ++failures;
      std::printf("failed %s: %s\n", c.name, failure.what.c_str());
    }
    std::fflush(stdout);
  }
  return failures != 0 || runs == 0 ? 1 : 0;
}
