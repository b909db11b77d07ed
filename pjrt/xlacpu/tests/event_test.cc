// Events that the caller makes and sets.
#include <atomic>
#include <thread>
#include <utility>

#include "harness.h"

namespace {

using harness::Event;
constexpr int kAborted = PJRT_Error_Code_ABORTED;

Event Make() {
  ARGS(PJRT_Event_Create_Args, args);
  CALL(PJRT_Event_Create, args);
  return Event(args.event);
}

harness::Outcome Set(const Event& event, PJRT_Error_Code code,
                     const std::string& message) {
  ARGS(PJRT_Event_Set_Args, args);
  args.event = event.get();
  args.error_code = code;
  args.error_message = message.data();
  args.error_message_size = message.size();
  return harness::Take(harness::api->PJRT_Event_Set(&args));
}

struct Seen {
  std::atomic<int> calls{0};
  harness::Outcome outcome;
};

void OnReady(const Event& event, Seen& seen) {
  ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event.get();
  args.user_arg = &seen;
  args.callback = [](PJRT_Error* error, void* user_arg) {
    auto* seen = static_cast<Seen*>(user_arg);
    seen->outcome = harness::Take(error);
    ++seen->calls;
  };
  CALL(PJRT_Event_OnReady, args);
}

TEST(event_is_ready_once_it_is_set) {
  Event event = Make();
  EXPECT(!event.IsReady());
  ARGS(PJRT_Event_Error_Args, early);
  early.event = event.get();
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Event_Error(&early)),
               PJRT_Error_Code_FAILED_PRECONDITION, "not ready");
  EXPECT_OK(Set(event, PJRT_Error_Code_OK, ""));
  EXPECT(event.IsReady());
  EXPECT_OK(event.Await());
}

TEST(event_carries_the_error_it_is_set_with) {
  Event event = Make();
  EXPECT_OK(Set(event, PJRT_Error_Code_ABORTED, "no more"));
  EXPECT_ERROR(event.Await(), kAborted, "no more");
  ARGS(PJRT_Event_Error_Args, args);
  args.event = event.get();
  EXPECT_ERROR(harness::Take(harness::api->PJRT_Event_Error(&args)), kAborted,
               "no more");
}

TEST(event_is_set_once_only) {
  Event event = Make();
  EXPECT_OK(Set(event, PJRT_Error_Code_OK, ""));
  EXPECT_ERROR(Set(event, PJRT_Error_Code_ABORTED, "again"),
               PJRT_Error_Code_FAILED_PRECONDITION, "was set before");
  EXPECT_OK(event.Await());
}

TEST(event_calls_back_before_and_after_it_is_set) {
  Event event = Make();
  Seen before, after;
  OnReady(event, before);
  EXPECT_EQ(before.calls.load(), 0);
  EXPECT_OK(Set(event, PJRT_Error_Code_ABORTED, "x"));
  OnReady(event, after);
  EXPECT_EQ(before.calls.load(), 1);
  EXPECT_EQ(after.calls.load(), 1);
  EXPECT_EQ(before.outcome.code, kAborted);
}

TEST(event_wakes_a_waiting_thread) {
  Event event = Make();
  harness::Outcome outcome{-1, ""};
  std::thread waiter([&] { outcome = event.Await(); });
  EXPECT_OK(Set(event, PJRT_Error_Code_OK, ""));
  waiter.join();
  EXPECT_EQ(outcome.code, 0);
}

TEST(event_destroyed_unset_fails_its_waiters) {
  Seen seen;
  {
    Event event = Make();
    OnReady(event, seen);
  }
  EXPECT_EQ(seen.calls.load(), 1);
  EXPECT(seen.outcome.code != 0);
}

}  // namespace
