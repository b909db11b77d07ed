// Devices, their descriptions, and memories.
#ifndef PJRT_XLACPU_DEVICE_H_
#define PJRT_XLACPU_DEVICE_H_

#include <memory>
#include <vector>

#include "handles.h"
#include "named_values.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_device_description.h"

namespace xlacpu {

// A description borrows XLA's object: from a device, or from a topology that
// describes devices without there being any.
struct DeviceDescription {
  explicit DeviceDescription(const xla::PjRtDeviceDescription* d);

  const xla::PjRtDeviceDescription* const xla;
  const NamedValues attributes;
  const std::vector<const xla::PjRtMemorySpaceDescription*> memories;
};

// Devices and memories belong to their client and are never handed to a caller
// for keeping; `client` is therefore a plain pointer.
struct Device {
  Device(Client* c, xla::PjRtDevice* d)
      : client(c), xla(d), description(&d->description()) {}

  Client* const client;
  xla::PjRtDevice* const xla;
  DeviceDescription description;
  std::vector<Memory*> memories;  // none for a device of another process
};

struct Memory {
  Memory(Client* c, xla::PjRtMemorySpace* m) : client(c), xla(m) {}

  Client* const client;
  xla::PjRtMemorySpace* const xla;
  std::vector<Device*> devices;
};

// What a PJRT_AsyncTrackingEvent* points to.
struct TrackingEvent {
  std::unique_ptr<xla::ScopedAsyncTrackingEvent> xla;
};

void InstallDevice(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_DEVICE_H_
