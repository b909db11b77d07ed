// Handlers of others inside programs, and what they show: when a program runs.
#include "xla/ffi/api/c_api.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "harness.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace {

using harness::Buffer;
using harness::Client;
using harness::Event;
using harness::Program;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

// What a run of the handler below waits for, and where it says who ran it.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  // False if the gate stays shut, so that a failing test ends.
  bool Pass() {
    std::unique_lock<std::mutex> lock(mu_);
    visitor_ = std::this_thread::get_id();
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [this] { return open_; });
  }
  std::thread::id visitor() const { return visitor_; }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
  std::thread::id visitor_;
};

XLA_FFI_TypeId gate_type{0};

XLA_FFI_Error* MakeError(const XLA_FFI_Api* api, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_ABORTED;
  return api->XLA_FFI_Error_Create(&args);
}

// f32[] -> f32[]: the argument, once the gate of the execution's context is open.
XLA_FFI_Error* PassGate(XLA_FFI_CallFrame* frame) {
  if (auto* extension = frame->extension_start;
      extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return nullptr;
  }
  XLA_FFI_ExecutionContext_Get_Args get{};
  get.struct_size = XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE;
  get.ctx = frame->ctx;
  get.type_id = &gate_type;
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_ExecutionContext_Get(&get)) {
    return error;
  }
  if (!static_cast<Gate*>(get.data)->Pass()) {
    return MakeError(frame->api, "the gate stays shut");
  }
  std::memcpy(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data,
              static_cast<XLA_FFI_Buffer*>(frame->args.args[0])->data,
              sizeof(float));
  return nullptr;
}

const PJRT_FFI_Extension* Extension() {
  return reinterpret_cast<const PJRT_FFI_Extension*>(
      harness::FindExtension(PJRT_Extension_Type_FFI));
}

harness::Outcome Register(const std::string& target, void* handler) {
  const std::string platform = "cpu";
  ARGS(PJRT_FFI_Register_Handler_Args, args);
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  return harness::Take(Extension()->register_handler(&args));
}

// Types and handlers are the process's, and are registered once.
void RegisterGate() {
  if (gate_type.type_id != 0) return;
  EXPECT_OK(Register("test_pass_gate", reinterpret_cast<void*>(&PassGate)));
  const std::string name = "test_gate";
  ARGS(PJRT_FFI_Type_Register_Args, args);
  args.type_name = name.data();
  args.type_name_size = name.size();
  EXPECT_OK(harness::Take(Extension()->type_register(&args)));
  gate_type.type_id = args.type_id;
}

// User data for one execution.
class Context {
 public:
  explicit Context(Gate* gate) {
    ARGS(PJRT_ExecuteContext_Create_Args, make);
    CALL(PJRT_ExecuteContext_Create, make);
    handle_ = make.context;
    if (gate != nullptr) EXPECT_OK(Add(gate));
  }
  ~Context() {
    ARGS(PJRT_ExecuteContext_Destroy_Args, args);
    args.context = handle_;
    harness::Take(harness::api->PJRT_ExecuteContext_Destroy(&args));
  }
  PJRT_ExecuteContext* get() const { return handle_; }

  harness::Outcome Add(Gate* gate) const {
    ARGS(PJRT_FFI_UserData_Add_Args, args);
    args.context = handle_;
    args.user_data.type_id = gate_type.type_id;
    args.user_data.data = gate;
    return harness::Take(Extension()->user_data_add(&args));
  }

 private:
  PJRT_ExecuteContext* handle_;
};

// f32[] -> f32[]: through the gate. A large one goes on with a matrix product,
// which XLA does not count as cheap.
std::string GateProgram(bool large) {
  const std::string rest =
      large ? R"(
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.slice %2 [0:1, 0:1] : (tensor<64x64xf32>) -> tensor<1x1xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x1xf32>) -> tensor<f32>
    return %4 : tensor<f32> } })"
            : " return %0 : tensor<f32> } }";
  return "module @gate { func.func public @main(%a: tensor<f32>) -> tensor<f32> {"
         " %0 = stablehlo.custom_call @test_pass_gate(%a) {api_version = 4 : i32}"
         " : (tensor<f32>) -> tensor<f32>" + rest;
}

struct Launch {
  Buffer output;
  Event done;
};

Launch Start(const Program& program, const Buffer& argument,
             const Context& context) {
  ARGS(PJRT_ExecuteOptions, options);
  options.context = context.get();
  PJRT_Buffer* in[] = {argument.get()};
  PJRT_Buffer* const* in_lists[] = {in};
  PJRT_Buffer* out[] = {nullptr};
  PJRT_Buffer** out_lists[] = {out};
  PJRT_Event* done[] = {nullptr};
  ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = program.get();
  args.options = &options;
  args.argument_lists = in_lists;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = out_lists;
  args.device_complete_events = done;
  CALL(PJRT_LoadedExecutable_Execute, args);
  return {Buffer(out[0]), Event(done[0])};
}

Event ReadyEvent(const Buffer& buffer) {
  ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer.get();
  CALL(PJRT_Buffer_ReadyEvent, args);
  return Event(args.event);
}

TEST(execution_returns_before_a_large_program_is_done) {
  RegisterGate();
  Client client;
  Program program = client.Compile(GateProgram(/*large=*/true));
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  Gate gate;
  Context context(&gate);
  Launch launch = Start(program, two, context);
  Event ready = ReadyEvent(launch.output);
  const bool early = launch.done.IsReady() || ready.IsReady();
  gate.Open();
  EXPECT_OK(launch.done.Await());
  EXPECT_OK(ready.Await());
  EXPECT(!early);
  EXPECT_EQ(launch.output.Read<float>()[0], 256.0f);
  EXPECT(gate.visitor() != std::this_thread::get_id());
}

// A program that waits for another's result is launched all the same.
TEST(execution_takes_results_that_are_not_ready) {
  RegisterGate();
  Client client;
  Program program = client.Compile(GateProgram(/*large=*/true));
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  Gate first, second;
  Context one(&first), other(&second);
  Launch before = Start(program, two, one);
  Launch after = Start(program, before.output, other);
  second.Open();
  const bool early = after.done.IsReady();
  first.Open();
  EXPECT_OK(after.done.Await());
  EXPECT(!early);
  EXPECT_EQ(after.output.Read<float>()[0], 64.0f * 256 * 256);
}

// Whether the thread that launches the program runs it too.
bool RunsInline(const Client& client, bool large) {
  Program program = client.Compile(GateProgram(large));
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  Gate gate;
  gate.Open();
  Context context(&gate);
  Launch launch = Start(program, two, context);
  const bool done = launch.done.IsReady();
  EXPECT_OK(launch.done.Await());
  return done && gate.visitor() == std::this_thread::get_id();
}

TEST(execution_is_inline_if_small_or_not_asynchronous) {
  RegisterGate();
  EXPECT(RunsInline(Client(), /*large=*/false));
  Client client({harness::BoolOption("asynchronous", false)});
  EXPECT(RunsInline(client, /*large=*/false));
  EXPECT(RunsInline(client, /*large=*/true));
}

// Which thread runs the program, whose gate is open, or opens after a while.
std::thread::id Visitor(const Program& program, const Buffer& argument,
                        std::chrono::microseconds shut = {}) {
  Gate gate;
  Context context(&gate);
  std::thread opener([&] {
    std::this_thread::sleep_for(shut);
    gate.Open();
  });
  if (shut.count() == 0) opener.join();
  Launch launch = Start(program, argument, context);
  EXPECT_OK(launch.done.Await());
  if (opener.joinable()) opener.join();
  return gate.visitor();
}

// A run may be interrupted: it is enough that one of some programs is found out.
TEST(short_program_moves_to_the_launching_thread) {
  RegisterGate();
  Client client;
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  bool moved = false;
  for (int attempt = 0; attempt < 10 && !moved; ++attempt) {
    Program program = client.Compile(GateProgram(/*large=*/true));
    EXPECT(Visitor(program, two) != std::this_thread::get_id());
    for (int run = 0; run < 10 && !moved; ++run) {
      moved = Visitor(program, two) == std::this_thread::get_id();
    }
  }
  EXPECT(moved);
}

TEST(long_program_leaves_the_launching_thread) {
  RegisterGate();
  Client client;
  Program program = client.Compile(GateProgram(/*large=*/false));
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  for (int run = 0; run < 3; ++run) {
    EXPECT(Visitor(program, two, std::chrono::milliseconds(2)) ==
           std::this_thread::get_id());
  }
  EXPECT(Visitor(program, two) != std::this_thread::get_id());
}

TEST(handler_without_its_user_data_fails_the_program) {
  RegisterGate();
  Client client;
  Program program = client.Compile(GateProgram(/*large=*/true));
  Buffer two = client.Put(std::vector<float>{2}, PJRT_Buffer_Type_F32, {});
  Context empty(nullptr);
  Launch launch = Start(program, two, empty);
  EXPECT_ERROR(launch.done.Await(), PJRT_Error_Code_NOT_FOUND, "User data");
  EXPECT_ERROR(launch.output.Ready(), PJRT_Error_Code_NOT_FOUND, "User data");
}

TEST(user_data_of_one_type_is_added_once) {
  RegisterGate();
  Gate gate;
  Context context(&gate);
  EXPECT(context.Add(&gate).code != 0);
}

TEST(handlers_are_checked) {
  EXPECT_ERROR(Register("test_null_handler", nullptr), kInvalidArgument,
               "handler is null");
  RegisterGate();
  // The same handler again is no error, another under its name is.
  EXPECT_OK(Register("test_pass_gate", reinterpret_cast<void*>(&PassGate)));
  XLA_FFI_Handler* other = [](XLA_FFI_CallFrame* frame) -> XLA_FFI_Error* {
    return PassGate(frame);
  };
  EXPECT(Register("test_pass_gate", reinterpret_cast<void*>(other)).code != 0);
}

}  // namespace
