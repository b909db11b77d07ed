// Clients, their options, devices, memories and topologies.
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "harness.h"

namespace {

using harness::Client;
using harness::IntOption;
constexpr int kInvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT;

std::string Text(const char* data, size_t size) {
  return std::string(data, size);
}

// How much of XLA's library is in memory and as it is in the file, in kB.
int64_t ResidentOfLibrary() {
  std::ifstream maps("/proc/self/smaps");
  std::string line, word;
  int64_t resident = 0, number = 0;
  bool ours = false;
  while (std::getline(maps, line)) {
    std::istringstream fields(line);
    fields >> word;
    if (word.back() != ':') ours = line.find("libpjrt_xla_cpu_cc") != line.npos;
    if (!ours || !(fields >> number)) continue;
    if (word == "Rss:") resident += number;
    if (word == "Anonymous:") resident -= number;
  }
  return resident;
}

TEST(open_client_lets_go_of_what_loading_read) {
  Client client;
  const int64_t resident = ResidentOfLibrary();
  EXPECT(resident > 0);
  EXPECT(resident < 64 << 10);  // 220 MB after loading
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
  EXPECT(text.find("XLA:CPU of tensorflow-cpu 2.21.0, build ") == 0);
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

// ----- what devices and memories say of themselves

TEST(device_describes_itself) {
  Client client;
  ARGS(PJRT_Device_GetDescription_Args, get);
  get.device = client.Devices()[0];
  CALL(PJRT_Device_GetDescription, get);
  ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = get.device_description;
  CALL(PJRT_DeviceDescription_ProcessIndex, process);
  EXPECT_EQ(process.process_index, 0);
  ARGS(PJRT_DeviceDescription_DebugString_Args, text);
  text.device_description = get.device_description;
  CALL(PJRT_DeviceDescription_DebugString, text);
  EXPECT_EQ(Text(text.debug_string, text.debug_string_size), "TFRT_CPU_0");
  ARGS(PJRT_DeviceDescription_Attributes_Args, attributes);
  attributes.device_description = get.device_description;
  CALL(PJRT_DeviceDescription_Attributes, attributes);
  for (size_t i = 0; i < attributes.num_attributes; ++i) {
    EXPECT(attributes.attributes[i].name_size > 0);
  }
}

TEST(memories_describe_themselves) {
  Client client({IntOption("cpu_device_count", 2)});
  std::set<int> ids;
  for (PJRT_Memory* memory : client.Memories()) {
    ARGS(PJRT_Memory_Id_Args, id);
    id.memory = memory;
    CALL(PJRT_Memory_Id, id);
    ids.insert(id.id);
    ARGS(PJRT_Memory_Kind_Id_Args, kind);
    kind.memory = memory;
    CALL(PJRT_Memory_Kind_Id, kind);
    ARGS(PJRT_Memory_DebugString_Args, debug);
    debug.memory = memory;
    CALL(PJRT_Memory_DebugString, debug);
    EXPECT(Text(debug.debug_string, debug.debug_string_size).find("id=") !=
           std::string::npos);
    ARGS(PJRT_Memory_ToString_Args, text);
    text.memory = memory;
    CALL(PJRT_Memory_ToString, text);
    EXPECT(text.to_string_size > 0);
  }
  EXPECT_EQ(ids.size(), client.Memories().size());
}

// XLA:CPU keeps no marks for a profiler: the event is there and means nothing.
TEST(tracking_event_is_made_and_destroyed) {
  Client client;
  const std::string what = "a step";
  ARGS(PJRT_Device_CreateAsyncTrackingEvent_Args, make);
  make.device = client.Devices()[0];
  make.description = what.data();
  make.description_size = what.size();
  CALL(PJRT_Device_CreateAsyncTrackingEvent, make);
  EXPECT(make.event != nullptr);
  ARGS(PJRT_AsyncTrackingEvent_Destroy_Args, destroy);
  destroy.event = make.event;
  CALL(PJRT_AsyncTrackingEvent_Destroy, destroy);
}

TEST(nothing_is_poisoned_where_nothing_runs) {
  Client client;
  const std::string why = "on purpose";
  ARGS(PJRT_Device_PoisonExecution_Args, poison);
  poison.device = client.Devices()[0];
  poison.launch_id = 1;
  poison.error_code = PJRT_Error_Code_ABORTED;
  poison.error_message = why.data();
  poison.error_message_size = why.size();
  CALL(PJRT_Device_PoisonExecution, poison);
  EXPECT(!poison.poisoned);
}

// XLA:CPU pins nothing, which is its own error, and the client works on.
TEST(memory_of_the_host_cannot_be_pinned) {
  Client client;
  char memory[64];
  ARGS(PJRT_Client_DmaMap_Args, map);
  map.client = client.get();
  map.data = memory;
  map.size = sizeof memory;
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Client_DmaMap(&map)),
               PJRT_Error_Code_UNIMPLEMENTED, "not supported");
  ARGS(PJRT_Client_DmaUnmap_Args, unmap);
  unmap.client = client.get();
  unmap.data = memory;
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Client_DmaUnmap(&unmap)),
               PJRT_Error_Code_UNIMPLEMENTED, "not supported");
  EXPECT_EQ(client.PutF32({7}).Read<float>()[0], 7.0f);
}

}  // namespace
