// The client: one XLA:CPU runtime with its devices and memories.
#ifndef PJRT_XLACPU_CLIENT_H_
#define PJRT_XLACPU_CLIENT_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device.h"
#include "handles.h"
#include "pool.h"
#include "topology.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"

namespace xlacpu {

// Buffers and executables share the client, so that it outlives them in
// whatever order a garbage-collected host releases its objects.
using ClientRef = std::shared_ptr<Client>;

struct Client : std::enable_shared_from_this<Client> {
  // Wraps the runtime, whose allocator `pool` is.
  static ClientRef Make(std::unique_ptr<xla::PjRtClient> runtime,
                        std::shared_ptr<MemoryPool> pool);

  // The wrapper of one of the runtime's own objects; null for a foreign one.
  Device* Find(const xla::PjRtDevice* device) const;
  Memory* Find(const xla::PjRtMemorySpace* memory) const;

  // The caller's reference; PJRT_Client_Destroy drops it.
  ClientRef self;

  std::shared_ptr<MemoryPool> pool;
  std::unique_ptr<xla::PjRtClient> xla;
  std::string platform_version;
  bool asynchronous = true;  // see the option
  std::unique_ptr<Topology> topology;  // null if the runtime has none
  std::vector<std::string> machine_features;  // of the host's processor

  std::vector<Device*> devices, addressable_devices;
  std::vector<Memory*> memories;

 private:
  void AddMemories();
  void AddDevices();

  std::vector<std::unique_ptr<Device>> owned_devices_;
  std::vector<std::unique_ptr<Memory>> owned_memories_;
  std::unordered_map<const xla::PjRtDevice*, Device*> by_device_;
  std::unordered_map<const xla::PjRtMemorySpace*, Memory*> by_memory_;
};

void InstallClient(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_CLIENT_H_
