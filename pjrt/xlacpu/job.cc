#include "job.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mailbox.h"
#include "peers.h"
#include "process_collectives.h"
#include "topology.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"

namespace xlacpu {
namespace {

using CpuDevice = xla::CpuTopology::CpuDevice;

std::string CountKey(int process) {
  return absl::StrCat("xlacpu/devices/", process);
}

// The devices of all processes, in the order of processes.
absl::StatusOr<std::vector<CpuDevice>> ExchangeDevices(
    const KeyValueStore& store, const CreateOptions& options) {
  const int own = options.xla.cpu_device_count.value_or(1);
  absl::Status status =
      store.Put(CountKey(options.xla.process_id), absl::StrCat(own));
  if (!status.ok()) return status;
  const absl::Time deadline = absl::Now() + options.connect_timeout;
  std::vector<CpuDevice> devices;
  for (int process = 0; process < options.num_nodes; ++process) {
    int count = own;
    if (process != options.xla.process_id) {
      absl::StatusOr<std::string> text =
          store.Get(CountKey(process), deadline - absl::Now());
      if (!text.ok()) return text.status();
      if (!absl::SimpleAtoi(*text, &count) || count < 1 ||
          count > xla::kMaxCpuDevicesPerProcess) {
        return absl::InternalError(absl::StrCat(
            "the shared store's ", CountKey(process), " is \"", *text, "\""));
      }
    }
    for (int i = 0; i < count; ++i) devices.push_back({process, i});
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<xla::CpuTopologyDescription>> JoinJob(
    const KeyValueStore& store, CreateOptions& options) {
  if (options.xla.process_id >= options.num_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("node_id is ", options.xla.process_id, ", num_nodes is ",
                     options.num_nodes));
  }
  absl::StatusOr<std::vector<CpuDevice>> devices =
      ExchangeDevices(store, options);
  if (!devices.ok()) return devices.status();
  PeersOptions peers_options;
  peers_options.process = options.xla.process_id;
  peers_options.num_processes = options.num_nodes;
  peers_options.address = options.collectives_address;
  peers_options.timeout = options.connect_timeout;
  peers_options.watched = options.watched;
  auto mailbox = std::make_shared<Mailbox>();
  absl::StatusOr<std::unique_ptr<Peers>> peers =
      Peers::Connect(peers_options, store, mailbox);
  if (!peers.ok()) return peers.status();
  absl::StatusOr<std::vector<std::string>> features = HostFeatures();
  if (!features.ok()) return features.status();
  // With a topology, this is the number of devices of the whole job.
  options.xla.cpu_device_count = static_cast<int>(devices->size());
  options.xla.collectives = std::make_shared<ProcessCollectives>(
      options.xla.process_id, !options.watched, std::move(mailbox),
      *std::move(peers));
  auto topology = std::make_unique<xla::CpuTopologyDescription>(
      xla::CpuId(), xla::CpuName(), "cpu", *std::move(devices), *features);
  options.xla.topology = topology.get();
  return topology;
}

}  // namespace xlacpu
