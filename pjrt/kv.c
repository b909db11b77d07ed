// The key-value store's callbacks: where a plugin's thread waits for Go's
// answer. See bridge.h.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "bridge.h"

struct pjc_kv {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  pjc_kv_request *first, *last;
  size_t owners;  // Go's side, and one for each request
  int fd;         // -1 once closed
};

// What a text answer lies in: the deleter is given only the text.
typedef struct {
  size_t size;
  char text[];
} block;

static char *copy_text(const char *text, size_t size) {
  block *b = pjc_alloc(PJC_MEM_KV, sizeof *b + size);
  if (b == NULL) return NULL;
  b->size = size;
  if (size > 0) memcpy(b->text, text, size);
  return b->text;
}

static void free_text(char *text) {
  if (text == NULL) return;
  block *b = (block *)(text - offsetof(block, text));
  pjc_free(PJC_MEM_KV, b, sizeof *b + b->size);
}

// Gives up one ownership; called with the lock held, returns without it.
static void release(pjc_kv *kv) {
  bool last = --kv->owners == 0;
  pthread_mutex_unlock(&kv->lock);
  if (!last) return;
  pthread_mutex_destroy(&kv->lock);
  pthread_cond_destroy(&kv->answered);
  pjc_free(PJC_MEM_KV, kv, sizeof *kv);
}

// Has Go answer the request, and waits for it. The request is on this thread's
// stack; Go does not touch it after the answer.
static void ask(pjc_kv *kv, pjc_kv_request *r) {
  pthread_mutex_lock(&kv->lock);
  kv->owners++;
  if (kv->fd < 0) {
    r->code = PJRT_Error_Code_CANCELLED;
    r->answered = true;
  } else {
    if (kv->first == NULL)
      kv->first = r;
    else
      kv->last->next = r;
    kv->last = r;
    uint64_t one = 1;
    // A full counter means that a wake-up is waiting already.
    ssize_t written = write(kv->fd, &one, sizeof one);
    (void)written;
  }
  while (!r->answered) pthread_cond_wait(&kv->answered, &kv->lock);
  release(kv);
}

// The plugin's error object for an answer that is not a value.
static PJRT_Error *refusal(pjc_kv_request *r, PJRT_CallbackError *make) {
  static const char closed[] = "the key-value store is closed";
  PJRT_Error *error = r->text != NULL
                       ? (*make)(r->code, r->text, r->text_size)
                       : (*make)(r->code, closed, sizeof closed - 1);
  free_text(r->text);
  return error;
}

static PJRT_Error *on_get(PJRT_KeyValueGetCallback_Args *args) {
  pjc_kv_request r = {.op = PJC_KV_GET,
                      .timeout_ms = args->timeout_in_ms,
                      .key = args->key,
                      .key_size = args->key_size};
  ask(args->user_arg, &r);
  if (r.code != PJRT_Error_Code_OK) return refusal(&r, args->callback_error);
  args->value = r.text;
  args->value_size = r.text_size;
  args->value_deleter_callback = free_text;
  return NULL;
}

static PJRT_Error *on_try_get(PJRT_KeyValueTryGetCallback_Args *args) {
  pjc_kv_request r = {
      .op = PJC_KV_TRY_GET, .key = args->key, .key_size = args->key_size};
  ask(args->user_arg, &r);
  if (r.code != PJRT_Error_Code_OK) return refusal(&r, args->callback_error);
  args->value = r.text;
  args->value_size = r.text_size;
  args->value_deleter_callback = free_text;
  return NULL;
}

static PJRT_Error *on_put(PJRT_KeyValuePutCallback_Args *args) {
  pjc_kv_request r = {.op = PJC_KV_PUT,
                      .key = args->key,
                      .key_size = args->key_size,
                      .value = args->value,
                      .value_size = args->value_size};
  ask(args->user_arg, &r);
  if (r.code != PJRT_Error_Code_OK) return refusal(&r, args->callback_error);
  free_text(r.text);
  return NULL;
}

pjc_kv *pjc_kv_new(int fd, PJRT_Client_Create_Args *block) {
  pjc_kv *kv = pjc_alloc(PJC_MEM_KV, sizeof *kv);
  if (kv == NULL) return NULL;
  pthread_mutex_init(&kv->lock, NULL);
  pthread_cond_init(&kv->answered, NULL);
  kv->owners = 1;
  kv->fd = fd;
  block->kv_get_callback = on_get;
  block->kv_put_callback = on_put;
  block->kv_try_get_callback = on_try_get;
  block->kv_get_user_arg = kv;
  block->kv_put_user_arg = kv;
  block->kv_try_get_user_arg = kv;
  return kv;
}

void pjc_kv_stop(pjc_kv *kv) {
  pthread_mutex_lock(&kv->lock);
  kv->fd = -1;
  for (pjc_kv_request *r = kv->first; r != NULL;) {
    pjc_kv_request *next = r->next;
    r->code = PJRT_Error_Code_CANCELLED;
    r->answered = true;
    r = next;
  }
  kv->first = kv->last = NULL;
  pthread_cond_broadcast(&kv->answered);
  pthread_mutex_unlock(&kv->lock);
}

void pjc_kv_free(pjc_kv *kv) {
  pthread_mutex_lock(&kv->lock);
  release(kv);
}

// The taker owns the store until it answers, so that closing it meanwhile does
// not free what the answer needs.
pjc_kv_request *pjc_kv_take(pjc_kv *kv) {
  pthread_mutex_lock(&kv->lock);
  pjc_kv_request *r = kv->first;
  if (r != NULL) {
    kv->first = r->next;
    if (kv->first == NULL) kv->last = NULL;
    kv->owners++;
  }
  pthread_mutex_unlock(&kv->lock);
  return r;
}

void pjc_kv_answer(pjc_kv *kv, pjc_kv_request *r, int code, const char *text,
                   size_t size) {
  char *copy = copy_text(text, size);
  pthread_mutex_lock(&kv->lock);
  r->text = copy;
  r->text_size = copy == NULL ? 0 : size;
  r->code = copy == NULL ? PJRT_Error_Code_RESOURCE_EXHAUSTED : code;
  r->answered = true;
  pthread_cond_broadcast(&kv->answered);
  release(kv);
}
