// Buffers: arrays in a device's memory.
#ifndef PJRT_XLACPU_BUFFER_H_
#define PJRT_XLACPU_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "client.h"
#include "handles.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"

namespace xlacpu {

// Arrays that the C API promises to keep at one address for a buffer's life.
// Most buffers are never asked for them, so they are made on demand.
struct BufferDetails {
  std::vector<int64_t> logical_dims;
  std::vector<size_t> dynamic_dims;
  std::vector<int64_t> minor_to_major;
  bool has_logical_dims = false, has_dynamic_dims = false, has_layout = false;
  // One per unreturned PJRT_Buffer_IncreaseExternalReferenceCount.
  std::vector<std::unique_ptr<xla::PjRtBuffer::ExternalReference>> references;
};

struct Buffer {
  Buffer(ClientRef c, std::unique_ptr<xla::PjRtBuffer> b)
      : client(std::move(c)), xla(std::move(b)) {}

  // Callers hold mu.
  BufferDetails& Details() {
    if (details == nullptr) details = std::make_unique<BufferDetails>();
    return *details;
  }

  // The client comes first, so that it is destroyed last.
  const ClientRef client;
  const std::unique_ptr<xla::PjRtBuffer> xla;
  std::mutex mu;  // guards details
  std::unique_ptr<BufferDetails> details;
};

// The C form of a buffer; the caller of the API owns it.
inline PJRT_Buffer* NewBuffer(ClientRef client,
                              std::unique_ptr<xla::PjRtBuffer> buffer) {
  return Wrap(new Buffer(std::move(client), std::move(buffer)));
}

// What a PJRT_FulfillAliasBufferCallback* points to; it is freed by the one
// PJRT_Client_FulfillAliasBuffer that uses it.
struct AliasFulfiller {
  xla::PjRtFulfillAliasBufferCallback fulfill;
};

// Properties, lifetime and references.
void InstallBuffer(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_BUFFER_H_
