// A wait for one event in the calling thread. See bridge.h.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "bridge.h"

// What the waiting thread and the thread that completes the event share. The
// last of the two frees it: the event may complete long after the wait.
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t completed;
  const pj_api *api;
  int owners;
  bool done;
} waiter;

// Gives up one ownership; called with the lock held, returns without it.
static void release(waiter *w) {
  bool last = --w->owners == 0;
  pthread_mutex_unlock(&w->lock);
  if (!last) return;
  pthread_cond_destroy(&w->completed);
  pthread_mutex_destroy(&w->lock);
  pjc_free(PJC_MEM_WATCH, w, sizeof *w);
}

static void on_ready(PJRT_Error *error, void *user) {
  waiter *w = user;
  if (error != NULL) pjc_error_destroy(w->api, (pj_error)error);  // the event keeps it
  pthread_mutex_lock(&w->lock);
  w->done = true;
  pthread_cond_signal(&w->completed);
  release(w);
}

static waiter *new_waiter(const pj_api *api) {
  waiter *w = pjc_alloc(PJC_MEM_WATCH, sizeof *w);
  if (w == NULL) return NULL;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&w->completed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&w->lock, NULL);
  w->api = api;
  w->owners = 2;
  return w;
}

static int64_t now(struct timespec *t) {
  clock_gettime(CLOCK_MONOTONIC, t);
  return t->tv_sec * 1000000000LL + t->tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Asks for spin_ns whether the event is complete.
static pj_error spin(const pj_api *api, pj_event event, int64_t spin_ns,
                     bool *ready) {
  struct {
    pj_bool block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .object = event}};
  struct timespec t;
  const int64_t end = spin_ns > 0 ? now(&t) + spin_ns : 0;
  for (;;) {
    pj_error error = pjc_call(api, pj_fn_Event_IsReady, &a.block);
    *ready = error == 0 && a.block.truth;
    if (error != 0 || *ready || spin_ns <= 0 || now(&t) >= end) return error;
    for (int i = 0; i < 16; i++) relax();
  }
}

pjc_result pjc_await_for(const pj_api *api, pj_event event, int64_t spin_ns,
                         int64_t timeout_ns) {
  pjc_result r = {.fn = pj_fn_Event_IsReady};
  bool ready = false;
  r.error = spin(api, event, spin_ns, &ready);
  r.number = ready;
  if (r.error != 0 || ready || timeout_ns <= spin_ns) return r;
  r.fn = pj_fn_Event_OnReady;
  waiter *w = new_waiter(api);
  if (w == NULL) {
    r.error = PJC_NO_MEMORY;
    return r;
  }
  struct timespec until;
  const int64_t end = now(&until) + timeout_ns - spin_ns;
  until.tv_sec = (time_t)(end / 1000000000);
  until.tv_nsec = (long)(end % 1000000000);
  r.error = pjc_on_ready(api, event, on_ready, w);
  pthread_mutex_lock(&w->lock);
  if (r.error != 0) {
    w->owners--;  // the plugin has not taken the callback
  } else {
    int status = 0;
    while (!w->done && status != ETIMEDOUT)
      status = pthread_cond_timedwait(&w->completed, &w->lock, &until);
  }
  r.number = w->done;
  release(w);
  return r;
}
