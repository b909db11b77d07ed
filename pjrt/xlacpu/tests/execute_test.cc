// Programs: compile, run, donate, serialize, load.
#include <cstring>

#include "harness.h"

namespace {

using harness::AddProgram;
using harness::Buffer;
using harness::Client;
using harness::IntOption;
using harness::Program;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

// CompileOptionsProto{executable_build_options{device_ordinal: -1,
// num_replicas, num_partitions, use_spmd_partitioning}}, by hand: fields 3 and
// 1, 4, 5, 6.
std::string BuildOptions(int replicas, int partitions) {
  std::string inner("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
  inner += {'\x20', static_cast<char>(replicas), '\x28',
            static_cast<char>(partitions), '\x30',
            static_cast<char>(partitions > 1)};
  return std::string("\x1a") + static_cast<char>(inner.size()) + inner;
}

TEST(program_runs) {
  Client client;
  Program program = client.Compile(AddProgram(3));
  Buffer a = client.PutF32({1, 2, 3}), b = client.PutF32({10, 20, 30});
  EXPECT(program.Run({&a, &b})[0].Read<float>() ==
         (std::vector<float>{11, 22, 33}));
  EXPECT(!a.IsDeleted());
}

TEST(compile_errors_name_their_cause) {
  Client client;
  EXPECT_ERROR(client.TryCompile("module { this is not mlir }", "mlir"), 2,
               "error");
  EXPECT_ERROR(client.TryCompile("x", "wasm"), kInvalidArgument,
               "unknown program format \"wasm\"");
  EXPECT_ERROR(client.TryCompile("\xff\xff", "hlo"), kInvalidArgument,
               "HloModuleProto");
  EXPECT_ERROR(client.TryCompile(AddProgram(1), "mlir", "\xff\xff\xff"),
               kInvalidArgument, "CompileOptionsProto");
  EXPECT_ERROR(
      client.TryCompile("module { func.func public @main(%a: tensor<f32>) -> "
                        "tensor<f32> { %0 = stablehlo.custom_call "
                        "@no_such_target(%a) {api_version = 4 : i32} : "
                        "(tensor<f32>) -> tensor<f32> return %0 : tensor<f32> } }",
                        "mlir"),
      PJRT_Error_Code_NOT_FOUND, "no_such_target");
}

TEST(donated_memory_is_reused) {
  Client client;
  const std::vector<float> ones(1 << 16, 1.0f);
  Program program = client.Compile(AddProgram(1 << 16, /*donate=*/true));
  Buffer a = client.PutF32(ones), b = client.PutF32(ones);
  const uintptr_t before = a.Pointer();
  std::vector<Buffer> out = program.Run({&a, &b});
  EXPECT_EQ(out[0].Pointer(), before);
  EXPECT(a.IsDeleted());
  EXPECT(!b.IsDeleted());
  EXPECT_EQ(out[0].Read<float>()[5], 2.0f);
}

TEST(donated_buffer_answers_with_errors) {
  Client client;
  Program program = client.Compile(AddProgram(4, /*donate=*/true));
  Buffer a = client.PutF32({1, 2, 3, 4}), b = client.PutF32({1, 2, 3, 4});
  program.Run({&a, &b});
  float values[4];
  EXPECT_ERROR(a.TryRead(values, sizeof values), kInvalidArgument, "donated");
  EXPECT_ERROR(a.Ready(), kInvalidArgument, "donated");
  std::vector<Buffer> out;
  EXPECT_ERROR(program.TryRun({&a, &b}, out), kInvalidArgument, "donated");
  ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, reference);
  reference.buffer = a.get();
  EXPECT_ERROR(
      harness::Take(
          harness::api->PJRT_Buffer_IncreaseExternalReferenceCount(&reference)),
      kInvalidArgument, "donated");
}

TEST(donation_is_refused_or_withheld) {
  Client client;
  Program program = client.Compile(AddProgram(4, /*donate=*/true));
  Buffer a = client.PutF32({1, 2, 3, 4}), b = client.PutF32({1, 1, 1, 1});
  // A buffer cannot be donated and read by the same run; it stays alive.
  std::vector<Buffer> out;
  EXPECT_ERROR(program.TryRun({&a, &a}, out), kInvalidArgument,
               "passed twice");
  EXPECT(!a.IsDeleted());
  // Withheld: the input survives, and the output has memory of its own.
  out = program.Run({&a, &b}, /*kept=*/{0});
  EXPECT(!a.IsDeleted());
  EXPECT(out[0].Pointer() != a.Pointer());
  EXPECT_EQ(a.Read<float>()[3], 4.0f);
  EXPECT_EQ(out[0].Read<float>()[3], 5.0f);
}

TEST(failed_run_keeps_its_donatable_inputs) {
  Client client;
  Program program = client.Compile(AddProgram(4, /*donate=*/true));
  Buffer a = client.PutF32({1, 2, 3, 4}), wrong = client.PutF32({1, 2});
  std::vector<Buffer> out;
  EXPECT_ERROR(program.TryRun({&a, &wrong}, out), kInvalidArgument, "bytes");
  EXPECT(!a.IsDeleted());
  EXPECT_EQ(a.Read<float>()[0], 1.0f);
}

TEST(misuse_of_a_program_is_an_error) {
  Client client({IntOption("cpu_device_count", 2)});
  Program program = client.Compile(AddProgram(4));
  Buffer a = client.PutF32({1, 2, 3, 4});
  Buffer elsewhere = client.PutF32({1, 2, 3, 4}, /*device=*/1);
  Buffer nothing;
  std::vector<Buffer> out;
  EXPECT_ERROR(program.TryRun({&a}, out), kInvalidArgument, "1 arguments");
  EXPECT_ERROR(program.TryRun({&a, &elsewhere}, out), kInvalidArgument,
               "is on TFRT_CPU_1");
  EXPECT_ERROR(program.TryRun({&a, &nothing}, out), kInvalidArgument,
               "argument 1 is null");
  ARGS(PJRT_LoadedExecutable_Delete_Args, deletion);
  deletion.executable = program.get();
  ARGS(PJRT_LoadedExecutable_IsDeleted_Args, deleted);
  deleted.executable = program.get();
  CALL(PJRT_LoadedExecutable_IsDeleted, deleted);
  EXPECT(!deleted.is_deleted);
  CALL(PJRT_LoadedExecutable_Delete, deletion);
  CALL(PJRT_LoadedExecutable_IsDeleted, deleted);
  EXPECT(deleted.is_deleted);
  EXPECT_ERROR(program.TryRun({&a, &a}, out),
               PJRT_Error_Code_FAILED_PRECONDITION, "deleted executable");
}

// Two replicas sum their arguments with each other.
TEST(collective_runs_on_two_devices) {
  Client client({IntOption("cpu_device_count", 2)});
  Program program = client.Compile(
      R"(module @m attributes {mhlo.num_replicas = 2 : i32} {
        func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.all_reduce"(%a) <{
            replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
              %s = stablehlo.add %x, %y : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        } })",
      BuildOptions(2, 1));
  Buffer a = client.PutF32({1, 2}, 0), b = client.PutF32({10, 20}, 1);
  PJRT_Buffer* in[2][1] = {{a.get()}, {b.get()}};
  PJRT_Buffer* const* in_lists[] = {in[0], in[1]};
  PJRT_Buffer* out[2][1] = {};
  PJRT_Buffer** out_lists[] = {out[0], out[1]};
  PJRT_Event* done[2] = {};
  ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = program.get();
  args.argument_lists = in_lists;
  args.num_devices = 2;
  args.num_args = 1;
  args.output_lists = out_lists;
  args.device_complete_events = done;
  CALL(PJRT_LoadedExecutable_Execute, args);
  for (int d = 0; d < 2; ++d) {
    EXPECT_OK(harness::Event(done[d]).Await());
    EXPECT(Buffer(out[d][0]).Read<float>() == (std::vector<float>{11, 22}));
  }
  args.num_devices = 1;
  EXPECT_ERROR(harness::Take(harness::api->PJRT_LoadedExecutable_Execute(&args)),
               kInvalidArgument, "compiled for 2");
}

// ----- the executable's description

class Description {
 public:
  explicit Description(const Program& program) {
    ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
    args.loaded_executable = program.get();
    CALL(PJRT_LoadedExecutable_GetExecutable, args);
    handle_ = args.executable;
  }
  ~Description() {
    ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = handle_;
    harness::Take(harness::api->PJRT_Executable_Destroy(&args));
  }
  PJRT_Executable* get() const { return handle_; }

 private:
  PJRT_Executable* handle_;
};

std::string Fingerprint(const Program& program) {
  ARGS(PJRT_LoadedExecutable_Fingerprint_Args, args);
  args.executable = program.get();
  CALL(PJRT_LoadedExecutable_Fingerprint, args);
  return std::string(args.executable_fingerprint,
                     args.executable_fingerprint_size);
}

TEST(executable_describes_itself) {
  Client client;
  Program program = client.Compile(AddProgram(6));
  Description executable(program);
  ARGS(PJRT_Executable_Name_Args, name);
  name.executable = executable.get();
  CALL(PJRT_Executable_Name, name);
  EXPECT(std::string(name.executable_name, name.executable_name_size)
             .find("add") != std::string::npos);
  ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable.get();
  CALL(PJRT_Executable_OutputElementTypes, types);
  EXPECT_EQ(types.num_output_types, size_t{1});
  EXPECT(types.output_types[0] == PJRT_Buffer_Type_F32);
  ARGS(PJRT_Executable_OutputDimensions_Args, dims);
  dims.executable = executable.get();
  CALL(PJRT_Executable_OutputDimensions, dims);
  EXPECT_EQ(dims.dim_sizes[0], size_t{1});
  EXPECT_EQ(dims.dims[0], int64_t{6});
  ARGS(PJRT_Executable_OutputMemoryKinds_Args, kinds);
  kinds.executable = executable.get();
  CALL(PJRT_Executable_OutputMemoryKinds, kinds);
  EXPECT_EQ(kinds.num_outputs, size_t{1});
  ARGS(PJRT_Device_DefaultMemory_Args, memory_of);
  memory_of.device = client.Devices()[0];
  CALL(PJRT_Device_DefaultMemory, memory_of);
  ARGS(PJRT_Memory_Kind_Args, kind);
  kind.memory = memory_of.memory;
  CALL(PJRT_Memory_Kind, kind);
  EXPECT_EQ(std::string(kinds.memory_kinds[0], kinds.memory_kind_sizes[0]),
            std::string(kind.kind, kind.kind_size));
  ARGS(PJRT_Executable_NumReplicas_Args, replicas);
  replicas.executable = executable.get();
  CALL(PJRT_Executable_NumReplicas, replicas);
  EXPECT_EQ(replicas.num_replicas, size_t{1});
  ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, memory);
  memory.executable = executable.get();
  CALL(PJRT_Executable_GetCompiledMemoryStats, memory);
  EXPECT_EQ(memory.argument_size_in_bytes, int64_t{48});
  EXPECT_EQ(memory.output_size_in_bytes, int64_t{24});
  ARGS(PJRT_Executable_GetCostAnalysis_Args, cost);
  cost.executable = executable.get();
  CALL(PJRT_Executable_GetCostAnalysis, cost);
  bool flops = false;
  for (size_t i = 0; i < cost.num_properties; ++i) {
    const PJRT_NamedValue& p = cost.properties[i];
    if (std::string(p.name, p.name_size) == "flops") {
      flops = true;
      EXPECT_EQ(p.float_value, 6.0f);
    }
  }
  EXPECT(flops);
}

TEST(executable_tells_how_it_was_compiled) {
  Client client({IntOption("cpu_device_count", 2)});
  Program program = client.Compile(AddProgram(6), BuildOptions(1, 2));
  Description executable(program);
  ARGS(PJRT_Executable_NumPartitions_Args, partitions);
  partitions.executable = executable.get();
  CALL(PJRT_Executable_NumPartitions, partitions);
  EXPECT_EQ(partitions.num_partitions, size_t{2});
  ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, size);
  size.executable = executable.get();
  CALL(PJRT_Executable_SizeOfGeneratedCodeInBytes, size);
  ARGS(PJRT_Executable_GetCompileOptions_Args, options);
  options.executable = executable.get();
  CALL(PJRT_Executable_GetCompileOptions, options);
  const std::string bytes(options.serialized_bytes,
                          options.serialized_bytes_size);
  options.serialized_compile_options_deleter(options.serialized_compile_options);
  client.Compile(AddProgram(6), bytes);
  ARGS(PJRT_Executable_Fingerprint_Args, print);
  print.executable = executable.get();
  CALL(PJRT_Executable_Fingerprint, print);
  EXPECT_EQ(std::string(print.executable_fingerprint,
                        print.executable_fingerprint_size),
            Fingerprint(program));
  ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, devices);
  devices.executable = program.get();
  CALL(PJRT_LoadedExecutable_AddressableDevices, devices);
  EXPECT(std::vector<PJRT_Device*>(
             devices.addressable_devices,
             devices.addressable_devices + devices.num_addressable_devices) ==
         client.Devices());
  // DeviceAssignmentProto{replica_count: 1, computation_count: 2,
  // computation_devices: [{replica_device_ids: 0}, {replica_device_ids: 1}]}.
  ARGS(PJRT_LoadedExecutable_GetDeviceAssignment_Args, assignment);
  assignment.executable = program.get();
  CALL(PJRT_LoadedExecutable_GetDeviceAssignment, assignment);
  EXPECT_EQ(std::string(assignment.serialized_bytes,
                        assignment.serialized_bytes_size),
            std::string("\x08\x01\x10\x02\x1a\x03\x0a\x01\x00"
                        "\x1a\x03\x0a\x01\x01", 14));
  assignment.serialized_device_assignment_deleter(
      assignment.serialized_device_assignment);
}

TEST(optimized_program_comes_in_two_steps) {
  Client client;
  Program program = client.Compile(AddProgram(6));
  Description executable(program);
  ARGS(PJRT_Program, out);
  ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = executable.get();
  args.program = &out;
  CALL(PJRT_Executable_OptimizedProgram, args);
  EXPECT_EQ(std::string(out.format, out.format_size), "hlo_with_config");
  EXPECT(out.code_size > 0);
  std::string code(out.code_size, '\0');
  out.code = code.data();
  CALL(PJRT_Executable_OptimizedProgram, args);
  EXPECT_OK(client.TryCompile(code, "hlo_with_config"));
  out.code_size = 1;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Executable_OptimizedProgram(&args)),
      kInvalidArgument, "code_size is 1");
}

TEST(fingerprint_tells_programs_and_options_apart) {
  Client client({IntOption("cpu_device_count", 2)});
  const std::string one = Fingerprint(client.Compile(AddProgram(3)));
  EXPECT_EQ(one, Fingerprint(client.Compile(AddProgram(3))));
  EXPECT(one != Fingerprint(client.Compile(AddProgram(4))));
  EXPECT(one != Fingerprint(client.Compile(AddProgram(3), BuildOptions(1, 1))));
}

// ----- serialized executables

TEST(serialized_program_runs_again) {
  Client client;
  const std::string bytes = client.Compile(AddProgram(3, true)).Serialize();
  Program program = client.Load(bytes);
  Buffer a = client.PutF32({1, 2, 3}), b = client.PutF32({1, 1, 1});
  EXPECT(program.Run({&a, &b})[0].Read<float>() == (std::vector<float>{2, 3, 4}));
  EXPECT(a.IsDeleted());  // donation survives
  ARGS(PJRT_LoadedExecutable_Fingerprint_Args, print);
  print.executable = program.get();
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_LoadedExecutable_Fingerprint(&print)),
      PJRT_Error_Code_UNIMPLEMENTED, "deserialized");
}

TEST(loaded_program_serializes_again) {
  Client client;
  const std::string bytes = client.Compile(AddProgram(3)).Serialize();
  Program program = client.Load(client.Load(bytes).Serialize());
  Buffer a = client.PutF32({1, 2, 3});
  EXPECT(program.Run({&a, &a})[0].Read<float>() == (std::vector<float>{2, 4, 6}));
}

TEST(damaged_serialized_program_is_an_error) {
  Client client;
  const std::string good = client.Compile(AddProgram(3)).Serialize();
  EXPECT_EQ(client.TryLoad("").code, kInvalidArgument);
  EXPECT_EQ(client.TryLoad("not an executable at all").code, kInvalidArgument);
  for (size_t cut : {size_t{1}, size_t{8}, good.size() / 2, good.size() - 1}) {
    EXPECT_EQ(client.TryLoad(good.substr(0, cut)).code, kInvalidArgument);
  }
  for (size_t at = 0; at < good.size(); at += good.size() / 40 + 1) {
    std::string bad = good;
    bad[at] ^= 0x20;
    EXPECT_EQ(client.TryLoad(bad).code, kInvalidArgument);
  }
}

}  // namespace
