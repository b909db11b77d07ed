// Clients, their options, devices, memories and topologies.
#include <cstring>
#include <memory>
#include <set>

#include "harness.h"

namespace {

using harness::Client;
using harness::IntOption;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

std::string Text(const char* data, size_t size) {
  return std::string(data, size);
}

TEST(client_has_the_devices_asked_for) {
  Client client({IntOption("cpu_device_count", 3)});
  EXPECT_EQ(client.Devices().size(), size_t{3});
  ARGS(PJRT_Client_Devices_Args, all);
  all.client = client.get();
  CALL(PJRT_Client_Devices, all);
  EXPECT_EQ(all.num_devices, size_t{3});
  std::set<int> ids;
  for (PJRT_Device* device : client.Devices()) {
    ARGS(PJRT_Device_GetDescription_Args, get);
    get.device = device;
    CALL(PJRT_Device_GetDescription, get);
    ARGS(PJRT_DeviceDescription_Id_Args, id);
    id.device_description = get.device_description;
    CALL(PJRT_DeviceDescription_Id, id);
    ids.insert(id.id);
    ARGS(PJRT_DeviceDescription_Kind_Args, kind);
    kind.device_description = get.device_description;
    CALL(PJRT_DeviceDescription_Kind, kind);
    EXPECT_EQ(Text(kind.device_kind, kind.device_kind_size), "cpu");
    ARGS(PJRT_DeviceDescription_ToString_Args, text);
    text.device_description = get.device_description;
    CALL(PJRT_DeviceDescription_ToString, text);
    EXPECT(text.to_string_size > 0);
    ARGS(PJRT_Device_IsAddressable_Args, addressable);
    addressable.device = device;
    CALL(PJRT_Device_IsAddressable, addressable);
    EXPECT(addressable.is_addressable);
    ARGS(PJRT_Client_LookupDevice_Args, lookup);
    lookup.client = client.get();
    lookup.id = id.id;
    CALL(PJRT_Client_LookupDevice, lookup);
    EXPECT(lookup.device == device);
    ARGS(PJRT_Device_LocalHardwareId_Args, local);
    local.device = device;
    CALL(PJRT_Device_LocalHardwareId, local);
    ARGS(PJRT_Client_LookupAddressableDevice_Args, by_local);
    by_local.client = client.get();
    by_local.local_hardware_id = local.local_hardware_id;
    CALL(PJRT_Client_LookupAddressableDevice, by_local);
    EXPECT(by_local.addressable_device == device);
  }
  EXPECT_EQ(ids.size(), size_t{3});
}

TEST(client_names_its_platform) {
  Client client;
  ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = client.get();
  CALL(PJRT_Client_PlatformName, name);
  EXPECT_EQ(Text(name.platform_name, name.platform_name_size), "cpu");
  ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client.get();
  CALL(PJRT_Client_PlatformVersion, version);
  const std::string text(version.platform_version,
                         version.platform_version_size);
  EXPECT(text.find("XLA:CPU of tensorflow-cpu, build ") == 0);
  ARGS(PJRT_Client_ProcessIndex_Args, process);
  process.client = client.get();
  CALL(PJRT_Client_ProcessIndex, process);
  EXPECT_EQ(process.process_index, 0);
}

TEST(lookup_of_an_unknown_device_is_an_error) {
  Client client;
  ARGS(PJRT_Client_LookupDevice_Args, lookup);
  lookup.client = client.get();
  lookup.id = 12345;
  EXPECT(harness::Take(harness::api->PJRT_Client_LookupDevice(&lookup)).code != 0);
}

TEST(options_are_checked_by_name_type_and_range) {
  EXPECT_ERROR(harness::TryClient({IntOption("no_such_option", 1)}),
               kInvalidArgument, "unknown create option \"no_such_option\"");
  EXPECT_ERROR(harness::TryClient({harness::BoolOption("cpu_device_count", true)}),
               kInvalidArgument, "cpu_device_count must be an integer");
  EXPECT_ERROR(harness::TryClient({IntOption("cpu_device_count", 0)}),
               kInvalidArgument, "cpu_device_count is 0");
  EXPECT_ERROR(harness::TryClient({IntOption("cpu_huge_pages", 1)}),
               kInvalidArgument, "cpu_huge_pages must be a boolean");
  EXPECT_OK(harness::TryClient({harness::BoolOption("asynchronous", false),
                                IntOption("max_transpose_threads", 2)}));
}

TEST(default_device_assignment_covers_the_devices) {
  Client client({IntOption("cpu_device_count", 4)});
  int assignment[4] = {-1, -1, -1, -1};
  ARGS(PJRT_Client_DefaultDeviceAssignment_Args, args);
  args.client = client.get();
  args.num_replicas = 2;
  args.num_partitions = 2;
  args.default_assignment_size = 4;
  args.default_assignment = assignment;
  CALL(PJRT_Client_DefaultDeviceAssignment, args);
  EXPECT_EQ(std::set<int>(assignment, assignment + 4).size(), size_t{4});
  args.default_assignment_size = 3;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_DefaultDeviceAssignment(&args)),
      kInvalidArgument, "is 3, 4 is needed");
  args.num_replicas = 0;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_Client_DefaultDeviceAssignment(&args)),
      kInvalidArgument, "must be positive");
}

TEST(memories_belong_to_their_devices) {
  Client client({IntOption("cpu_device_count", 2)});
  for (PJRT_Device* device : client.Devices()) {
    ARGS(PJRT_Device_DefaultMemory_Args, preferred);
    preferred.device = device;
    CALL(PJRT_Device_DefaultMemory, preferred);
    ARGS(PJRT_Device_AddressableMemories_Args, memories);
    memories.device = device;
    CALL(PJRT_Device_AddressableMemories, memories);
    bool among = false;
    for (size_t i = 0; i < memories.num_memories; ++i) {
      among |= memories.memories[i] == preferred.memory;
    }
    EXPECT(among);
    ARGS(PJRT_Memory_AddressableByDevices_Args, by);
    by.memory = preferred.memory;
    CALL(PJRT_Memory_AddressableByDevices, by);
    EXPECT_EQ(by.num_devices, size_t{1});
    EXPECT(by.devices[0] == device);
    ARGS(PJRT_Memory_Kind_Args, kind);
    kind.memory = preferred.memory;
    CALL(PJRT_Memory_Kind, kind);
    EXPECT(kind.kind_size > 0);
  }
}

TEST(topology_survives_serialization) {
  Client client({IntOption("cpu_device_count", 2)});
  ARGS(PJRT_Client_TopologyDescription_Args, get);
  get.client = client.get();
  CALL(PJRT_Client_TopologyDescription, get);
  ARGS(PJRT_TopologyDescription_Serialize_Args, out);
  out.topology = get.topology;
  CALL(PJRT_TopologyDescription_Serialize, out);
  ARGS(PJRT_TopologyDescription_Deserialize_Args, in);
  in.serialized_topology = out.serialized_bytes;
  in.serialized_topology_size = out.serialized_bytes_size;
  CALL(PJRT_TopologyDescription_Deserialize, in);
  out.serialized_topology_deleter(out.serialized_topology);
  ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, devices);
  devices.topology = in.topology;
  CALL(PJRT_TopologyDescription_GetDeviceDescriptions, devices);
  EXPECT_EQ(devices.num_descriptions, size_t{2});
  ARGS(PJRT_TopologyDescription_PlatformName_Args, name);
  name.topology = in.topology;
  CALL(PJRT_TopologyDescription_PlatformName, name);
  EXPECT_EQ(Text(name.platform_name, name.platform_name_size), "cpu");
  ARGS(PJRT_TopologyDescription_Destroy_Args, destroy);
  destroy.topology = in.topology;
  CALL(PJRT_TopologyDescription_Destroy, destroy);
}

TEST(topology_from_garbage_is_an_error) {
  ARGS(PJRT_TopologyDescription_Deserialize_Args, args);
  args.serialized_topology = "\xff\xff\xff\xff garbage";
  args.serialized_topology_size = 12;
  EXPECT_ERROR(
      harness::Take(harness::api->PJRT_TopologyDescription_Deserialize(&args)),
      kInvalidArgument, "not a serialized CPU topology");
}

// A garbage-collected host lets go of its objects in any order.
TEST(buffers_and_programs_outlive_their_client) {
  auto client = std::make_unique<Client>();
  harness::Buffer a = client->PutF32({1, 2, 3});
  harness::Program program = client->Compile(harness::AddProgram(3));
  client->Destroy();
  std::vector<harness::Buffer> sum = program.Run({&a, &a});
  const std::vector<float> values = sum[0].Read<float>();
  EXPECT_EQ(values[2], 6.0f);
}

}  // namespace
