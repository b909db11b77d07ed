// Topologies: the devices that a program can be compiled for.
#ifndef PJRT_XLACPU_TOPOLOGY_H_
#define PJRT_XLACPU_TOPOLOGY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device.h"
#include "handles.h"
#include "named_values.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_compiler.h"

namespace xlacpu {

// A client's own topology borrows XLA's object; a deserialized one owns it.
struct Topology {
  explicit Topology(const xla::PjRtTopologyDescription* borrowed);
  explicit Topology(std::unique_ptr<xla::PjRtTopologyDescription> kept);

  const std::unique_ptr<xla::PjRtTopologyDescription> owned;
  const xla::PjRtTopologyDescription* const xla;
  const NamedValues attributes;

  // XLA's descriptions, ours of the same devices, and the list that
  // PJRT_TopologyDescription_GetDeviceDescriptions hands out.
  const std::vector<std::unique_ptr<const xla::PjRtDeviceDescription>> devices;
  std::vector<std::unique_ptr<DeviceDescription>> descriptions;
  std::vector<DeviceDescription*> handles;

 private:
  void Describe();
};

// The topology of this host with a number of devices of its own.
absl::StatusOr<std::unique_ptr<xla::PjRtTopologyDescription>> HostTopology(
    int devices);

// The features of the host's processor, as XLA names them ("+avx2").
absl::StatusOr<std::vector<std::string>> HostFeatures();

void InstallTopology(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_TOPOLOGY_H_
