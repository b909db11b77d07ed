// Events: completion with an optional error, waited for or called back.
#include <stdlib.h>
#include <string.h>

#include "null.h"

Event *event_new(void) {
  Event *e = calloc(1, sizeof *e);
  if (e == NULL) abort();
  atomic_init(&e->refs, 1);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->changed, NULL);
  count(LIVE_EVENTS, 1);
  return e;
}

Event *event_done(int code, const char *message) {
  Event *e = event_new();
  event_set(e, code, message);
  return e;
}

Event *event_keep(Event *e) {
  if (e != NULL) atomic_fetch_add(&e->refs, 1);
  return e;
}

Event *event_keep_unless_good(Event *e) {
  if (e == NULL) return NULL;
  pthread_mutex_lock(&e->lock);
  bool good = e->ready && e->code == PJRT_Error_Code_OK;
  pthread_mutex_unlock(&e->lock);
  return good ? NULL : event_keep(e);
}

void event_drop(Event *e) {
  if (e == NULL || atomic_fetch_sub(&e->refs, 1) != 1) return;
  for (Waiter *w = e->waiters; w != NULL;) {
    // No one can complete it any more; the watchers were told nothing.
    Waiter *next = w->next;
    count(VIOLATIONS, 1);
    free(w);
    w = next;
  }
  free(e->message);
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->changed);
  free(e);
  count(LIVE_EVENTS, -1);
}

static pj_error error_of(const Event *e) {
  if (e->code == PJRT_Error_Code_OK) return 0;
  return fail(e->code, "%s", e->message == NULL ? "" : e->message);
}

void event_set(Event *e, int code, const char *message) {
  pthread_mutex_lock(&e->lock);
  Waiter *waiters = NULL;
  if (!e->ready) {
    e->ready = true;
    e->code = code;
    e->message = code == PJRT_Error_Code_OK || message == NULL ? NULL : strdup(message);
    waiters = e->waiters;
    e->waiters = NULL;
    pthread_cond_broadcast(&e->changed);
  }
  pthread_mutex_unlock(&e->lock);
  while (waiters != NULL) {
    Waiter *next = waiters->next;
    waiters->call((PJRT_Error *)error_of(e), waiters->user);
    free(waiters);
    waiters = next;
  }
}

void event_wait(Event *e) {
  pthread_mutex_lock(&e->lock);
  while (!e->ready) pthread_cond_wait(&e->changed, &e->lock);
  pthread_mutex_unlock(&e->lock);
}

pj_error null_Event_Destroy(void *block) {
  event_drop((Event *)((pj_object *)block)->object);
  return 0;
}

pj_error null_Event_IsReady(void *block) {
  pj_bool *a = block;
  Event *e = (Event *)a->object;
  pthread_mutex_lock(&e->lock);
  a->truth = e->ready;
  pthread_mutex_unlock(&e->lock);
  return 0;
}

pj_error null_Event_Error(void *block) {
  Event *e = (Event *)((pj_object *)block)->object;
  pthread_mutex_lock(&e->lock);
  bool ready = e->ready;
  pthread_mutex_unlock(&e->lock);
  if (!ready) {
    count(VIOLATIONS, 1);
    return fail(PJRT_Error_Code_FAILED_PRECONDITION, "the event is not complete");
  }
  return error_of(e);
}

pj_error null_Event_Await(void *block) {
  Event *e = (Event *)((pj_object *)block)->object;
  event_wait(e);
  return error_of(e);
}

pj_error null_Event_OnReady(void *block) {
  PJRT_Event_OnReady_Args *a = block;
  Event *e = (Event *)a->event;
  Waiter *w = malloc(sizeof *w);
  if (w == NULL) abort();
  w->call = a->callback;
  w->user = a->user_arg;
  pthread_mutex_lock(&e->lock);
  bool ready = e->ready;
  if (!ready) {
    w->next = e->waiters;
    e->waiters = w;
  }
  pthread_mutex_unlock(&e->lock);
  if (ready) {
    free(w);
    a->callback((PJRT_Error *)error_of(e), a->user_arg);
  }
  return 0;
}

pj_error null_Event_Create(void *block) {
  ((PJRT_Event_Create_Args *)block)->event = (PJRT_Event *)event_new();
  return 0;
}

pj_error null_Event_Set(void *block) {
  PJRT_Event_Set_Args *a = block;
  char message[256];
  size_t size = a->error_message_size < sizeof message - 1
                    ? a->error_message_size
                    : sizeof message - 1;
  if (size > 0) memcpy(message, a->error_message, size);
  message[size] = 0;
  event_set((Event *)a->event, a->error_code, message);
  return 0;
}
