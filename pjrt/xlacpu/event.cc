#include "event.h"

#include <memory>
#include <utility>

#include "error.h"

namespace xlacpu {

PJRT_Event* NewEvent(xla::Future<> future) {
  return Wrap(new Event(std::move(future)));
}

namespace {

PJRT_Error* Event_Create(PJRT_Event_Create_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_Create_Args, event);
  auto [promise, future] = xla::MakePromise<>();
  auto event = std::make_unique<Event>(std::move(future));
  event->promise.emplace(std::move(promise));
  args->event = Wrap(event.release());
  return nullptr;
}

PJRT_Error* Event_Set(PJRT_Event_Set_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_Set_Args, error_message_size);
  XLACPU_OBJECT(event, PJRT_Event_Set_Args, event);
  std::optional<xla::Promise<>> promise;
  {
    std::lock_guard<std::mutex> lock(event->mu);
    promise.swap(event->promise);
  }
  if (!promise.has_value()) {
    return ToError(absl::FailedPreconditionError(
        "the event was set before, or was not made by PJRT_Event_Create"));
  }
  // Callbacks run inside Set, and may destroy the event: no lock is held here.
  promise->Set(ToStatus(args->error_code, args->error_message,
                        args->error_message_size));
  return nullptr;
}

PJRT_Error* Event_Destroy(PJRT_Event_Destroy_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_Destroy_Args, event);
  delete Unwrap(args->event);
  return nullptr;
}

PJRT_Error* Event_IsReady(PJRT_Event_IsReady_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_IsReady_Args, is_ready);
  XLACPU_OBJECT(event, PJRT_Event_IsReady_Args, event);
  args->is_ready = event->future.IsReady();
  return nullptr;
}

PJRT_Error* Event_Error(PJRT_Event_Error_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_Error_Args, event);
  XLACPU_OBJECT(event, PJRT_Event_Error_Args, event);
  if (!event->future.IsReady()) {
    return ToError(absl::FailedPreconditionError("the event is not ready yet"));
  }
  return ToError(event->future.Await());
}

PJRT_Error* Event_Await(PJRT_Event_Await_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_Await_Args, event);
  XLACPU_OBJECT(event, PJRT_Event_Await_Args, event);
  return ToError(event->future.Await());
}

PJRT_Error* Event_OnReady(PJRT_Event_OnReady_Args* args) {
  XLACPU_CHECK_ARGS(PJRT_Event_OnReady_Args, user_arg);
  XLACPU_OBJECT(event, PJRT_Event_OnReady_Args, event);
  if (args->callback == nullptr) return InvalidArgument("callback is null");
  event->future.OnReady(
      [callback = args->callback, user_arg = args->user_arg](
          absl::Status status) { callback(ToError(std::move(status)), user_arg); });
  return nullptr;
}

}  // namespace

void InstallEvent(PJRT_Api& api) {
  XLACPU_SLOT(api, Event_Create);
  XLACPU_SLOT(api, Event_Set);
  XLACPU_SLOT(api, Event_Destroy);
  XLACPU_SLOT(api, Event_IsReady);
  XLACPU_SLOT(api, Event_Error);
  XLACPU_SLOT(api, Event_Await);
  XLACPU_SLOT(api, Event_OnReady);
}

}  // namespace xlacpu
