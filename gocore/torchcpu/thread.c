/* The one thread that calls torch's kernels.
 *
 * XLA calls handlers on any thread of its pool. OpenMP, which torch's kernels compute with, keeps a team of threads for each
 * thread that ever called it: with as many callers as cores that is the square of the cores. So one thread of ours calls them, one
 * kernel at a time, each of which uses all cores. It has none of the modes of Python's threads: no gradient, no function mode. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "torch.h"

struct job {
  bool (*run)(void *);
  void *with;
  bool done, ok;
  struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static bool started;

static void *serve(void *unused) {
  (void)unused;
  torch.aoti_torch_grad_mode_set_enabled(false);
  pthread_mutex_lock(&lock);
  for (;;) {
    while (first == NULL) pthread_cond_wait(&work, &lock);
    struct job *j = first;
    if ((first = j->next) == NULL) last = &first;
    pthread_mutex_unlock(&lock);
    j->ok = j->run(j->with);
    pthread_mutex_lock(&lock);
    j->done = true;
    pthread_cond_broadcast(&finished);
  }
  return NULL;
}

/* glibc gives the top of a heap back to the system when it is longer than twice the longest block that was ever mapped on its
 * own and freed, up to this one. Torch's kernels free what they return and what they compute with at once: without this, each
 * call of a kernel may fill fresh pages. No page of the block is touched. */
static void keep_freed_memory(void) {
  enum { LONGEST = 32 << 20 /* DEFAULT_MMAP_THRESHOLD_MAX of malloc.c */, HEADER = 1 << 16 };
  void *volatile block = malloc(LONGEST - HEADER); /* volatile: or the compiler leaves both calls out */
  free(block);
}

static bool start(void) {
  if (started) return true;
  pthread_t thread;
  keep_freed_memory();
  if (pthread_create(&thread, NULL, serve, NULL) != 0) return false;
  pthread_detach(thread);
  return started = true;
}

bool torch_apart(bool (*run)(void *), void *with) {
  struct job j = {.run = run, .with = with};
  pthread_mutex_lock(&lock);
  if (start()) {
    *last = &j;
    last = &j.next;
    pthread_cond_signal(&work);
    while (!j.done) pthread_cond_wait(&finished, &lock);
  }
  pthread_mutex_unlock(&lock);
  return j.ok;
}

bool torch_here(bool (*run)(void *), void *with) {
  uint64_t *keys = torch_local_keys();
  if (keys == NULL) return torch_apart(run, with);
  const uint64_t kept[] = {keys[0], keys[1]};
  bool gradients = torch.aoti_torch_grad_mode_is_enabled();
  keys[0] = keys[1] = 0;
  if (gradients) torch.aoti_torch_grad_mode_set_enabled(false);
  bool ok = run(with);
  if (gradients) torch.aoti_torch_grad_mode_set_enabled(true);
  keys[0] = kept[0], keys[1] = kept[1];
  return ok;
}

static bool call(void *c) { return torch_run(c); }

bool torch_run_apart(struct torch_call *c) {
  snprintf(c->message, sizeof c->message, "no thread for torch's kernels"); /* for as long as nothing else is said */
  return torch_apart(call, c);
}
