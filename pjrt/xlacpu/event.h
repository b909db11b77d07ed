// Completion events.
#ifndef PJRT_XLACPU_EVENT_H_
#define PJRT_XLACPU_EVENT_H_

#include <mutex>
#include <optional>

#include "handles.h"
#include "xla/future.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace xlacpu {

// What a PJRT_Event* points to. Events made by PJRT_Event_Create also hold the
// promise that PJRT_Event_Set fulfils. `promise` comes after `future`, so that
// destroying an event that was never set fails its waiters instead of leaving
// them to wait for ever.
struct Event {
  explicit Event(xla::Future<> f) : future(std::move(f)) {}

  xla::Future<> future;
  std::mutex mu;  // guards promise
  std::optional<xla::Promise<>> promise;
};

// The C form of a future; the caller of the API owns the event.
PJRT_Event* NewEvent(xla::Future<> future);

void InstallEvent(PJRT_Api& api);

}  // namespace xlacpu

#endif  // PJRT_XLACPU_EVENT_H_
