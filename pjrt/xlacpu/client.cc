#include "client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compile.h"
#include "error.h"
#include "job.h"
#include "key_value.h"
#include "lapack.h"
#include "library.h"
#include "linalg.h"
#include "options.h"
#include "plugin.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"

namespace xlacpu {

ClientRef Client::Make(std::unique_ptr<xla::PjRtClient> runtime,
                       std::shared_ptr<MemoryPool> pool) {
  auto client = std::make_shared<Client>();
  client->pool = std::move(pool);
  client->xla = std::move(runtime);
  client->platform_version = PlatformVersion();
  client->AddMemories();
  client->AddDevices();
  auto topology = client->xla->GetTopologyDescription();
  if (topology.ok()) {
    client->topology = std::make_unique<Topology>(*topology);
    absl::Span<const std::string> features =
        static_cast<const xla::CpuTopologyDescription*>(*topology)
            ->cpu_topology()
            .machine_attributes();
    client->machine_features.assign(features.begin(), features.end());
  }
  return client;
}

void Client::AddMemories() {
  for (xla::PjRtMemorySpace* m : xla->memory_spaces()) {
    owned_memories_.push_back(std::make_unique<Memory>(this, m));
    memories.push_back(owned_memories_.back().get());
    by_memory_[m] = memories.back();
  }
}

void Client::AddDevices() {
  for (xla::PjRtDevice* d : xla->devices()) {
    owned_devices_.push_back(std::make_unique<Device>(this, d));
    Device* device = owned_devices_.back().get();
    devices.push_back(device);
    by_device_[d] = device;
    if (!d->IsAddressable()) continue;
    for (xla::PjRtMemorySpace* m : d->memory_spaces()) {
      if (Memory* memory = Find(m)) {
        device->memories.push_back(memory);
        memory->devices.push_back(device);
      }
    }
  }
  for (xla::PjRtDevice* d : xla->addressable_devices()) {
    addressable_devices.push_back(Find(d));
  }
}

Device* Client::Find(const xla::PjRtDevice* device) const {
  auto it = by_device_.find(device);
  return it == by_device_.end() ? nullptr : it->second;
}

Memory* Client::Find(const xla::PjRtMemorySpace* memory) const {
  auto it = by_memory_.find(memory);
  return it == by_memory_.end() ? nullptr : it->second;
}

namespace {

PJRT_Error* Client_Create(PJRT_Client_Create_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_Create_Args, client);
  // Callers that skip PJRT_Plugin_Initialize are told here.
  XLACPU_RETURN_IF_ERROR(CheckProcess());
  XLACPU_ASSIGN(CreateOptions options,
                ParseCreateOptions(args->create_options, args->num_options));
  XLACPU_RETURN_IF_ERROR(RegisterLinalg());
  if (!options.lapack_library.empty()) {
    XLACPU_RETURN_IF_ERROR(LoadLapack(options.lapack_library));
  }
  auto pool = std::make_shared<MemoryPool>(options.pool);
  options.xla.allocator = [pool](size_t size, size_t alignment) {
    return pool->Allocate(size, alignment);
  };
  std::unique_ptr<xla::CpuTopologyDescription> job;
  if (options.num_nodes > 1) {
    XLACPU_ASSIGN(KeyValueStore store, KeyValueStore::From(*args));
    XLACPU_ASSIGN(job, JoinJob(store, options));
  }
  const bool asynchronous = options.xla.asynchronous;
  XLACPU_ASSIGN(std::unique_ptr<xla::PjRtClient> runtime,
                xla::GetXlaPjrtCpuClient(std::move(options.xla)));
  ClientRef client = Client::Make(std::move(runtime), std::move(pool));
  client->asynchronous = asynchronous;
  client->self = client;
  ReleaseLibraryPages();
  args->client = Wrap(client.get());
  return nullptr;
}

PJRT_Error* Client_Destroy(PJRT_Client_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_Destroy_Args, client);
  Client* client = Unwrap(args->client);
  if (client == nullptr) return nullptr;
  // Through a local: dropping the last reference destroys `self` itself.
  ClientRef last = std::move(client->self);
  return nullptr;
}

PJRT_Error* Client_PlatformName(PJRT_Client_PlatformName_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_PlatformName_Args, platform_name_size);
  XLACPU_OBJECT(client, PJRT_Client_PlatformName_Args, client);
  absl::string_view name = client->xla->platform_name();
  args->platform_name = name.data();
  args->platform_name_size = name.size();
  return nullptr;
}

PJRT_Error* Client_PlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_PlatformVersion_Args, platform_version_size);
  XLACPU_OBJECT(client, PJRT_Client_PlatformVersion_Args, client);
  args->platform_version = client->platform_version.data();
  args->platform_version_size = client->platform_version.size();
  return nullptr;
}

PJRT_Error* Client_ProcessIndex(PJRT_Client_ProcessIndex_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_ProcessIndex_Args, process_index);
  XLACPU_OBJECT(client, PJRT_Client_ProcessIndex_Args, client);
  args->process_index = client->xla->process_index();
  return nullptr;
}

PJRT_Error* Client_TopologyDescription(
    PJRT_Client_TopologyDescription_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_TopologyDescription_Args, topology);
  XLACPU_OBJECT(client, PJRT_Client_TopologyDescription_Args, client);
  if (client->topology == nullptr) {
    return ToError(client->xla->GetTopologyDescription().status());
  }
  args->topology = Wrap(client->topology.get());
  return nullptr;
}

PJRT_Error* Client_Devices(PJRT_Client_Devices_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_Devices_Args, num_devices);
  XLACPU_OBJECT(client, PJRT_Client_Devices_Args, client);
  args->devices = Wrap(client->devices.data());
  args->num_devices = client->devices.size();
  return nullptr;
}

PJRT_Error* Client_AddressableDevices(
    PJRT_Client_AddressableDevices_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_AddressableDevices_Args,
                    num_addressable_devices);
  XLACPU_OBJECT(client, PJRT_Client_AddressableDevices_Args, client);
  args->addressable_devices = Wrap(client->addressable_devices.data());
  args->num_addressable_devices = client->addressable_devices.size();
  return nullptr;
}

PJRT_Error* Client_LookupDevice(PJRT_Client_LookupDevice_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_LookupDevice_Args, device);
  XLACPU_OBJECT(client, PJRT_Client_LookupDevice_Args, client);
  XLACPU_ASSIGN(xla::PjRtDevice * device,
                client->xla->LookupDevice(xla::PjRtGlobalDeviceId(args->id)));
  args->device = Wrap(client->Find(device));
  return nullptr;
}

PJRT_Error* Client_LookupAddressableDevice(
    PJRT_Client_LookupAddressableDevice_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_LookupAddressableDevice_Args,
                    addressable_device);
  XLACPU_OBJECT(client, PJRT_Client_LookupAddressableDevice_Args, client);
  XLACPU_ASSIGN(xla::PjRtDevice * device,
                client->xla->LookupAddressableDevice(
                    xla::PjRtLocalDeviceId(args->local_hardware_id)));
  args->addressable_device = Wrap(client->Find(device));
  return nullptr;
}

PJRT_Error* Client_AddressableMemories(
    PJRT_Client_AddressableMemories_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_AddressableMemories_Args,
                    num_addressable_memories);
  XLACPU_OBJECT(client, PJRT_Client_AddressableMemories_Args, client);
  args->addressable_memories = Wrap(client->memories.data());
  args->num_addressable_memories = client->memories.size();
  return nullptr;
}

PJRT_Error* Client_DefaultDeviceAssignment(
    PJRT_Client_DefaultDeviceAssignment_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_DefaultDeviceAssignment_Args,
                    default_assignment);
  XLACPU_OBJECT(client, PJRT_Client_DefaultDeviceAssignment_Args, client);
  const int replicas = args->num_replicas, partitions = args->num_partitions;
  if (replicas < 1 || partitions < 1) {
    return InvalidArgument(absl::StrCat("an assignment of ", replicas,
                                        " replicas and ", partitions,
                                        " partitions: both must be positive"));
  }
  const size_t needed = static_cast<size_t>(replicas) * partitions;
  if (args->default_assignment_size < needed) {
    return InvalidArgument(absl::StrCat("default_assignment_size is ",
                                        args->default_assignment_size, ", ",
                                        needed, " is needed"));
  }
  XLACPU_ASSIGN(xla::DeviceAssignment assignment,
                DefaultAssignment(*client, replicas, partitions));
  int* next = args->default_assignment;
  for (int r = 0; r < replicas; ++r) {
    for (int p = 0; p < partitions; ++p) {
      *next++ = static_cast<int>(assignment(r, p));
    }
  }
  return nullptr;
}

PJRT_Error* Client_DmaMap(PJRT_Client_DmaMap_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_DmaMap_Args, size);
  XLACPU_OBJECT(client, PJRT_Client_DmaMap_Args, client);
  return ToError(client->xla->DmaMap(args->data, args->size));
}

PJRT_Error* Client_DmaUnmap(PJRT_Client_DmaUnmap_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Client_DmaUnmap_Args, data);
  XLACPU_OBJECT(client, PJRT_Client_DmaUnmap_Args, client);
  return ToError(client->xla->DmaUnmap(args->data));
}

}  // namespace

void InstallClient(PJRT_Api& api) {
  XLACPU_SLOT(api, Client_Create);
  XLACPU_SLOT(api, Client_Destroy);
  XLACPU_SLOT(api, Client_PlatformName);
  XLACPU_SLOT(api, Client_PlatformVersion);
  XLACPU_SLOT(api, Client_ProcessIndex);
  XLACPU_SLOT(api, Client_TopologyDescription);
  XLACPU_SLOT(api, Client_Devices);
  XLACPU_SLOT(api, Client_AddressableDevices);
  XLACPU_SLOT(api, Client_LookupDevice);
  XLACPU_SLOT(api, Client_LookupAddressableDevice);
  XLACPU_SLOT(api, Client_AddressableMemories);
  XLACPU_SLOT(api, Client_DefaultDeviceAssignment);
  XLACPU_SLOT(api, Client_DmaMap);
  XLACPU_SLOT(api, Client_DmaUnmap);
}

}  // namespace xlacpu
