#include "topology.h"

#include <string>
#include <string_view>
#include <utility>

#include "error.h"
#include "library.h"
#include "options.h"
#include "plugin.h"
#include "serialized.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.pb.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"

namespace xlacpu {

Topology::Topology(const xla::PjRtTopologyDescription* borrowed)
    : xla(borrowed),
      attributes(xla->Attributes()),
      devices(xla->DeviceDescriptions()) {
  Describe();
}

Topology::Topology(std::unique_ptr<xla::PjRtTopologyDescription> kept)
    : owned(std::move(kept)),
      xla(owned.get()),
      attributes(xla->Attributes()),
      devices(xla->DeviceDescriptions()) {
  Describe();
}

void Topology::Describe() {
  for (const auto& device : devices) {
    descriptions.push_back(std::make_unique<DeviceDescription>(device.get()));
    handles.push_back(descriptions.back().get());
  }
}

namespace {

std::unique_ptr<xla::CpuTopologyDescription> FromProto(
    const xla::CpuTopologyProto& proto) {
  std::unique_ptr<const xla::CpuTopology> parsed =
      xla::CpuTopology::FromProto(proto);
  std::vector<xla::CpuTopology::CpuDevice> devices(parsed->devices().begin(),
                                                   parsed->devices().end());
  return std::make_unique<xla::CpuTopologyDescription>(
      xla::CpuId(), xla::CpuName(), "cpu", std::move(devices),
      parsed->machine_attributes());
}

// A client finds out about the host; it lives for the length of the call.
absl::StatusOr<std::unique_ptr<xla::CpuTopologyDescription>> AskClient(
    int devices) {
  xla::CpuClientOptions options;
  options.cpu_device_count = devices;
  auto client = xla::GetXlaPjrtCpuClient(std::move(options));
  if (!client.ok()) return client.status();
  auto topology = (*client)->GetTopologyDescription();
  if (!topology.ok()) return topology.status();
  return FromProto(static_cast<const xla::CpuTopologyDescription*>(*topology)
                       ->cpu_topology()
                       .ToProto());
}

}  // namespace

absl::StatusOr<std::unique_ptr<xla::PjRtTopologyDescription>> HostTopology(
    int devices) {
  return AskClient(devices);
}

absl::StatusOr<std::vector<std::string>> HostFeatures() {
  auto topology = AskClient(1);
  if (!topology.ok()) return topology.status();
  auto features = (*topology)->cpu_topology().machine_attributes();
  return std::vector<std::string>(features.begin(), features.end());
}

namespace {

PJRT_Error* TopologyDescription_Create(
    PJRT_TopologyDescription_Create_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_Create_Args, topology);
  XLACPU_RETURN_IF_ERROR(CheckProcess());
  XLACPU_ASSIGN(CreateOptions options,
                ParseCreateOptions(args->create_options, args->num_options));
  XLACPU_ASSIGN(auto host,
                HostTopology(options.xla.cpu_device_count.value_or(1)));
  args->topology = Wrap(new Topology(std::move(host)));
  return nullptr;
}

PJRT_Error* TopologyDescription_Destroy(
    PJRT_TopologyDescription_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_Destroy_Args, topology);
  Topology* topology = Unwrap(args->topology);
  // A client's topology dies with the client, whatever calls this on it.
  if (topology != nullptr && topology->owned != nullptr) delete topology;
  return nullptr;
}

PJRT_Error* TopologyDescription_PlatformName(
    PJRT_TopologyDescription_PlatformName_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_PlatformName_Args,
                    platform_name_size);
  XLACPU_OBJECT(topology, PJRT_TopologyDescription_PlatformName_Args, topology);
  std::string_view name = topology->xla->platform_name();
  args->platform_name = name.data();
  args->platform_name_size = name.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_PlatformVersion(
    PJRT_TopologyDescription_PlatformVersion_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_PlatformVersion_Args,
                    platform_version_size);
  XLACPU_OBJECT(topology, PJRT_TopologyDescription_PlatformVersion_Args,
                topology);
  args->platform_version = PlatformVersion().data();
  args->platform_version_size = PlatformVersion().size();
  return nullptr;
}

PJRT_Error* TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args,
                    num_descriptions);
  XLACPU_OBJECT(topology, PJRT_TopologyDescription_GetDeviceDescriptions_Args,
                topology);
  args->descriptions = Wrap(topology->handles.data());
  args->num_descriptions = topology->handles.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_Attributes(
    PJRT_TopologyDescription_Attributes_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_Attributes_Args, num_attributes);
  XLACPU_OBJECT(topology, PJRT_TopologyDescription_Attributes_Args, topology);
  args->attributes = topology->attributes.data();
  args->num_attributes = topology->attributes.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_Serialize(
    PJRT_TopologyDescription_Serialize_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_Serialize_Args,
                    serialized_topology_deleter);
  XLACPU_OBJECT(topology, PJRT_TopologyDescription_Serialize_Args, topology);
  XLACPU_ASSIGN(std::string bytes, topology->xla->Serialize());
  HandOut(std::move(bytes), &args->serialized_bytes,
          &args->serialized_bytes_size, &args->serialized_topology,
          &args->serialized_topology_deleter);
  return nullptr;
}

PJRT_Error* TopologyDescription_Deserialize(
    PJRT_TopologyDescription_Deserialize_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_TopologyDescription_Deserialize_Args, topology);
  xla::CpuTopologyProto proto;
  if (!proto.ParseFromArray(args->serialized_topology,
                            static_cast<int>(args->serialized_topology_size))) {
    return InvalidArgument("the bytes are not a serialized CPU topology");
  }
  args->topology = Wrap(new Topology(FromProto(proto)));
  return nullptr;
}

}  // namespace

void InstallTopology(PJRT_Api& api) {
  XLACPU_SLOT(api, TopologyDescription_Create);
  XLACPU_SLOT(api, TopologyDescription_Destroy);
  XLACPU_SLOT(api, TopologyDescription_PlatformName);
  XLACPU_SLOT(api, TopologyDescription_PlatformVersion);
  XLACPU_SLOT(api, TopologyDescription_GetDeviceDescriptions);
  XLACPU_SLOT(api, TopologyDescription_Attributes);
  XLACPU_SLOT(api, TopologyDescription_Serialize);
  XLACPU_SLOT(api, TopologyDescription_Deserialize);
}

}  // namespace xlacpu
