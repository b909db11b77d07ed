// Asynchronous host-to-device transfers: buffers that exist before their data.
#ifndef PJRT_XLACPU_TRANSFER_MANAGER_H_
#define PJRT_XLACPU_TRANSFER_MANAGER_H_

#include <memory>
#include <utility>

#include "client.h"
#include "handles.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"

namespace xlacpu {

struct TransferManager {
  using Xla = xla::PjRtClient::AsyncHostToDeviceTransferManager;

  TransferManager(ClientRef c, std::unique_ptr<Xla> m)
      : client(std::move(c)), xla(std::move(m)) {}

  // The client comes first, so that it is destroyed last.
  const ClientRef client;
  const std::unique_ptr<Xla> xla;
};

void InstallTransferManager(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_TRANSFER_MANAGER_H_
