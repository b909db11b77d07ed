// The completion queue: where plugin threads report finished events, and where
// one Go reader learns of them. No thread of a plugin ever enters Go.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge.h"

typedef struct node {
  struct node *next;
  pjc_queue *queue;
  const pj_api *api;
  pjc_completion done;
} node;

struct pjc_queue {
  pthread_mutex_t lock;
  node *first, *last;
  size_t owners;  // the reader, and one for each watched event
  int fd;         // -1 once closed
};

pjc_queue *pjc_queue_new(int fd) {
  pjc_queue *q = pjc_alloc(PJC_MEM_WATCH, sizeof *q);
  if (q == NULL) return NULL;
  pthread_mutex_init(&q->lock, NULL);
  q->owners = 1;
  q->fd = fd;
  return q;
}

void pjc_completion_free(pjc_completion *c) {
  pjc_free(PJC_MEM_WATCH, c->message, c->message_size);
  c->message = NULL;
}

static void free_nodes(node *n) {
  while (n != NULL) {
    node *next = n->next;
    pjc_completion_free(&n->done);
    pjc_free(PJC_MEM_WATCH, n, sizeof *n);
    n = next;
  }
}

// Gives up one ownership; called with the lock held, returns without it.
static void release(pjc_queue *q) {
  bool last = --q->owners == 0;
  pthread_mutex_unlock(&q->lock);
  if (!last) return;
  free_nodes(q->first);
  pthread_mutex_destroy(&q->lock);
  pjc_free(PJC_MEM_WATCH, q, sizeof *q);
}

void pjc_queue_close(pjc_queue *q) {
  pthread_mutex_lock(&q->lock);
  q->fd = -1;
  release(q);
}

// Reads the error into the node. Runs on the thread that completes the event.
static void take_error(node *n, pj_error error) {
  if (error == 0) return;
  const char *text = NULL;
  size_t size = 0;
  n->done.code = pjc_error_code(n->api, error);
  pjc_error_message(n->api, error, &text, &size);
  if (size > 0) {
    n->done.message = pjc_alloc(PJC_MEM_WATCH, size);
    if (n->done.message != NULL) {
      memcpy(n->done.message, text, size);
      n->done.message_size = size;
    }
  }
  pjc_error_destroy(n->api, error);
}

// Appends a completion and gives up the ownership that its node had.
static void finish(node *n) {
  pjc_queue *q = n->queue;
  pthread_mutex_lock(&q->lock);
  bool was_empty = q->first == NULL;
  if (was_empty)
    q->first = n;
  else
    q->last->next = n;
  q->last = n;
  if (was_empty && q->fd >= 0) {
    uint64_t one = 1;
    // An eventfd takes this write unless its counter is full, and then the
    // reader has a wake-up waiting already.
    ssize_t written = write(q->fd, &one, sizeof one);
    (void)written;
  }
  release(q);
}

static void on_ready(PJRT_Error *error, void *user) {
  node *n = user;
  take_error(n, (pj_error)error);
  finish(n);
}

static void on_delete(void *memory, void *user) {
  (void)memory;
  finish(user);
}

// A node that owns a part of the queue until it is finished or abandoned.
static node *expect(pjc_queue *q, const pj_api *api, uint64_t token) {
  node *n = pjc_alloc(PJC_MEM_WATCH, sizeof *n);
  if (n == NULL) return NULL;
  n->queue = q;
  n->api = api;
  n->done.token = token;
  pthread_mutex_lock(&q->lock);
  q->owners++;
  pthread_mutex_unlock(&q->lock);
  return n;
}

static void abandon(node *n) {
  pjc_queue *q = n->queue;
  pjc_free(PJC_MEM_WATCH, n, sizeof *n);
  pthread_mutex_lock(&q->lock);
  release(q);
}

pj_error pjc_on_ready(const pj_api *api, pj_event event,
                      PJRT_Event_OnReadyCallback callback, void *user) {
  struct {
    PJRT_Event_OnReady_Args block;
    char tail[PJC_TAIL];
  } a = {.block = {.struct_size = sizeof a.block + pjc_tail(api),
                   .event = (PJRT_Event *)event,
                   .callback = callback,
                   .user_arg = user}};
  return pjc_call(api, pj_fn_Event_OnReady, &a.block);
}

pj_error pjc_queue_watch(pjc_queue *q, const pj_api *api, pj_event event,
                         uint64_t token) {
  node *n = expect(q, api, token);
  if (n == NULL) return PJC_NO_MEMORY;
  pj_error error = pjc_on_ready(api, event, on_ready, n);
  if (error != 0) abandon(n);
  return error;
}

pj_error pjc_queue_view(pjc_queue *q, const pj_api *api, PJRT_Client_CreateViewOfDeviceBuffer_Args *block,
                        uintptr_t address, uint64_t token) {
  node *n = expect(q, api, token);
  if (n == NULL) return PJC_NO_MEMORY;
  struct {
    PJRT_Client_CreateViewOfDeviceBuffer_Args block;
    char tail[PJC_TAIL];
  } a = {.block = *block};
  a.block.struct_size = sizeof a.block + pjc_tail(api);
  a.block.device_buffer_ptr = (void *)address;
  a.block.on_delete_callback = on_delete;
  a.block.on_delete_callback_arg = n;
  pj_error error =
      pjc_call(api, pj_fn_Client_CreateViewOfDeviceBuffer, &a.block);
  block->buffer = a.block.buffer;
  if (error != 0) abandon(n);
  return error;
}

size_t pjc_queue_take(pjc_queue *q, pjc_completion *out, size_t max) {
  pthread_mutex_lock(&q->lock);
  node *first = q->first, *n = first, *last = NULL;
  size_t count = 0;
  for (; n != NULL && count < max; n = n->next) {
    out[count++] = n->done;
    last = n;
  }
  q->first = n;
  if (n == NULL) q->last = NULL;
  pthread_mutex_unlock(&q->lock);
  while (first != NULL && count > 0) {
    node *next = first == last ? NULL : first->next;
    pjc_free(PJC_MEM_WATCH, first, sizeof *first);
    first = next;
  }
  return count;
}
