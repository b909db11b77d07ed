// Topologies: of a client, made from nothing, serialized; programs compiled for one.
#include <string>

#include "harness.h"

namespace {

using harness::Client;
using harness::IntOption;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

class Topology {
 public:
  explicit Topology(PJRT_TopologyDescription* handle) : handle_(handle) {}
  Topology(const Topology&) = delete;
  ~Topology() {
    ARGS(PJRT_TopologyDescription_Destroy_Args, args);
    args.topology = handle_;
    harness::Take(harness::api->PJRT_TopologyDescription_Destroy(&args));
  }
  PJRT_TopologyDescription* get() const { return handle_; }

  static harness::Outcome TryCreate(const Client::Options& options,
                                    PJRT_TopologyDescription*& out) {
    ARGS(PJRT_TopologyDescription_Create_Args, args);
    args.create_options = options.data();
    args.num_options = options.size();
    harness::Outcome outcome =
        harness::Take(harness::api->PJRT_TopologyDescription_Create(&args));
    out = args.topology;
    return outcome;
  }
  static Topology Create(int devices) {
    PJRT_TopologyDescription* handle = nullptr;
    EXPECT_OK(TryCreate({IntOption("cpu_device_count", devices)}, handle));
    return Topology(handle);
  }
  static PJRT_TopologyDescription* Of(const Client& client) {
    ARGS(PJRT_Client_TopologyDescription_Args, args);
    args.client = client.get();
    CALL(PJRT_Client_TopologyDescription, args);
    return args.topology;
  }

 private:
  PJRT_TopologyDescription* handle_;
};

size_t NumDevices(PJRT_TopologyDescription* topology) {
  ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, args);
  args.topology = topology;
  CALL(PJRT_TopologyDescription_GetDeviceDescriptions, args);
  return args.num_descriptions;
}

std::string PlatformName(PJRT_TopologyDescription* topology) {
  ARGS(PJRT_TopologyDescription_PlatformName_Args, args);
  args.topology = topology;
  CALL(PJRT_TopologyDescription_PlatformName, args);
  return std::string(args.platform_name, args.platform_name_size);
}

std::string PlatformVersion(PJRT_TopologyDescription* topology) {
  ARGS(PJRT_TopologyDescription_PlatformVersion_Args, args);
  args.topology = topology;
  CALL(PJRT_TopologyDescription_PlatformVersion, args);
  return std::string(args.platform_version, args.platform_version_size);
}

TEST(topology_is_that_of_its_client) {
  Client client({IntOption("cpu_device_count", 2)});
  PJRT_TopologyDescription* topology = Topology::Of(client);
  EXPECT_EQ(NumDevices(topology), size_t{2});
  EXPECT_EQ(PlatformName(topology), "cpu");
  ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client.get();
  CALL(PJRT_Client_PlatformVersion, version);
  EXPECT_EQ(PlatformVersion(topology),
            std::string(version.platform_version, version.platform_version_size));
  EXPECT(PlatformVersion(topology).find("2.21.0") != std::string::npos);
  ARGS(PJRT_TopologyDescription_Attributes_Args, attributes);
  attributes.topology = topology;
  CALL(PJRT_TopologyDescription_Attributes, attributes);
  for (size_t i = 0; i < attributes.num_attributes; ++i) {
    EXPECT(attributes.attributes[i].name_size > 0);
  }
}

TEST(topology_is_made_without_a_client) {
  Topology topology = Topology::Create(3);
  EXPECT_EQ(NumDevices(topology.get()), size_t{3});
  EXPECT_EQ(PlatformName(topology.get()), "cpu");
  Client client;
  EXPECT_EQ(PlatformVersion(topology.get()),
            PlatformVersion(Topology::Of(client)));
  PJRT_TopologyDescription* none = nullptr;
  EXPECT_ERROR(Topology::TryCreate({IntOption("no_such_option", 1)}, none),
               kInvalidArgument, "unknown create option");
}

TEST(topology_survives_serialization) {
  Client client({IntOption("cpu_device_count", 2)});
  ARGS(PJRT_TopologyDescription_Serialize_Args, out);
  out.topology = Topology::Of(client);
  CALL(PJRT_TopologyDescription_Serialize, out);
  ARGS(PJRT_TopologyDescription_Deserialize_Args, in);
  in.serialized_topology = out.serialized_bytes;
  in.serialized_topology_size = out.serialized_bytes_size;
  CALL(PJRT_TopologyDescription_Deserialize, in);
  Topology topology(in.topology);
  out.serialized_topology_deleter(out.serialized_topology);
  EXPECT_EQ(NumDevices(topology.get()), size_t{2});
  EXPECT_EQ(PlatformName(topology.get()), "cpu");
}

TEST(topology_from_garbage_is_an_error) {
  ARGS(PJRT_TopologyDescription_Deserialize_Args, args);
  args.serialized_topology = "\xff\xff\xff\xff garbage";
  args.serialized_topology_size = 12;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_TopologyDescription_Deserialize(&args)),
      kInvalidArgument, "not a serialized CPU topology");
}

// ----- programs for a topology

harness::Outcome TryCompile(PJRT_TopologyDescription* topology,
                            const std::string& code, PJRT_Client* client,
                            PJRT_Executable*& out) {
  const std::string format = "mlir";
  ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(code.data());
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  ARGS(PJRT_Compile_Args, args);
  args.topology = topology;
  args.program = &program;
  args.client = client;
  harness::Outcome outcome = harness::Take(harness::api->PJRT_Compile(&args));
  out = args.executable;
  return outcome;
}

void DestroyExecutable(PJRT_Executable* executable) {
  ARGS(PJRT_Executable_Destroy_Args, args);
  args.executable = executable;
  CALL(PJRT_Executable_Destroy, args);
}

// Compiled without a client or with one, serialized, and run elsewhere.
TEST(program_compiled_for_a_topology_runs_where_it_is_loaded) {
  Topology topology = Topology::Create(1);
  Client client;
  for (PJRT_Client* compiler : {static_cast<PJRT_Client*>(nullptr), client.get()}) {
    PJRT_Executable* executable = nullptr;
    EXPECT_OK(TryCompile(topology.get(), harness::AddProgram(3), compiler,
                         executable));
    ARGS(PJRT_Executable_NumOutputs_Args, outputs);
    outputs.executable = executable;
    CALL(PJRT_Executable_NumOutputs, outputs);
    EXPECT_EQ(outputs.num_outputs, size_t{1});
    ARGS(PJRT_Executable_Serialize_Args, bytes);
    bytes.executable = executable;
    CALL(PJRT_Executable_Serialize, bytes);
    harness::Program program = client.Load(
        std::string(bytes.serialized_bytes, bytes.serialized_bytes_size));
    bytes.serialized_executable_deleter(bytes.serialized_executable);
    DestroyExecutable(executable);
    harness::Buffer a = client.PutF32({1, 2, 3});
    EXPECT(program.Run({&a, &a})[0].Read<float>() ==
           (std::vector<float>{2, 4, 6}));
  }
}

TEST(program_for_a_topology_that_does_not_compile_is_an_error) {
  Topology topology = Topology::Create(1);
  PJRT_Executable* executable = nullptr;
  EXPECT(TryCompile(topology.get(), "module { this is not mlir }", nullptr,
                    executable).code != 0);
  ARGS(PJRT_Compile_Args, args);
  args.topology = topology.get();
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Compile(&args)),
               kInvalidArgument, "program is null");
}

}  // namespace
