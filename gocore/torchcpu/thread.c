/* The threads that call torch's kernels.
 *
 * XLA calls handlers on any thread of its pool. OpenMP, which torch's kernels compute with, keeps a team of
 * threads for each thread that ever called it. With as many callers as cores that is the square of the cores. So
 * one thread of ours calls them, one kernel at a time, each of which uses all cores. It has none of the modes of
 * Python's threads: no gradient, no function mode.
 *
 * A short program runs in the thread that launches it, whose team computes it. While there are more threads in teams
 * than cores, each of them sleeps between kernels, and is woken for each; so our thread gives up its team when it
 * has no work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "torch.h"

struct job {
  bool (*run)(void *);
  void *with;
  bool done, ok;
  struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first; /* guarded by lock */
static bool started;                       /* guarded by lock */

enum { IDLE_MS = 20 /* after which the thread gives up its team; many times what it takes to make one */ };

/* Frees the OpenMP team of the calling thread, which makes another when it needs one. Only GNU's library is asked:
 * what it frees is the caller's. */
static void free_team(void) {
  static int (*pause)(int);
  static bool looked;
  Dl_info from;
  if (!looked) {
    looked = true;
    pause = (int (*)(int))torch_symbol("omp_pause_resource_all");
    if (pause != NULL && (dladdr((void *)pause, &from) == 0 || strstr(from.dli_fname, "libgomp") == NULL)) pause = NULL;
  }
  enum { SOFT = 1 /* omp_pause_soft */ };
  if (pause != NULL) pause(SOFT);
}

/* Waits for work, with lock held. */
static void await_work(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += IDLE_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  while (first == NULL)
    if (pthread_cond_timedwait(&work, &lock, &until) == ETIMEDOUT) break;
  if (first == NULL) {
    pthread_mutex_unlock(&lock);
    free_team();
    pthread_mutex_lock(&lock);
  }
  while (first == NULL) pthread_cond_wait(&work, &lock);
}

static uint64_t gradient_keys; /* set before any kernel runs */

void torch_set_gradient_keys(uint64_t keys) { gradient_keys = keys; }

static void *serve(void *unused) {
  (void)unused;
  uint64_t *keys = torch_local_keys();
  if (keys != NULL) keys[1] = gradient_keys;
  torch.aoti_torch_grad_mode_set_enabled(false);
  pthread_mutex_lock(&lock);
  for (;;) {
    await_work();
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

/* Makes glibc keep the top of the heap. glibc gives its end back to the system when that is longer than twice the
 * longest block that was mapped on its own and freed; blocks up to LONGEST count. Torch's kernels free what they
 * return and what they compute with at once: without this, each call of a kernel may fill fresh pages. No page of the
 * block is touched. */
static void keep_freed_memory(void) {
  enum { LONGEST = 32 << 20 /* DEFAULT_MMAP_THRESHOLD_MAX of malloc.c */, HEADER = 1 << 16 };
  void *volatile block = malloc(LONGEST - HEADER); /* volatile: or the compiler leaves both calls out */
  free(block);
}

static pthread_once_t kept = PTHREAD_ONCE_INIT;

static bool start(void) {
  if (started) return true;
  pthread_t thread;
  pthread_once(&kept, keep_freed_memory);
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

/* How many threads compute what a thread launches: OpenMP and MKL keep that for each thread. */
struct team {
  int (*count)(void); /* of torch, which sets what follows when a thread asks it first */
  void (*of_openmp)(int);
  int (*of_mkl)(int); /* the form for C; gives what it was; NULL: this torch has no MKL */
};

static struct team team;

static void find_team(void) {
  team.count = (int (*)(void))torch_symbol("_ZN2at15get_num_threadsEv");
  team.of_openmp = (void (*)(int))torch_symbol("omp_set_num_threads");
  team.of_mkl = (int (*)(int))torch_symbol("MKL_Set_Num_Threads_Local");
}

/* Runs in this thread only, without its team. */
static bool serially(bool (*run)(void *), void *with) {
  static pthread_once_t found = PTHREAD_ONCE_INIT;
  pthread_once(&found, find_team);
  int threads = team.count != NULL && team.of_openmp != NULL ? team.count() : 1;
  if (threads <= 1) return run(with);
  int of_mkl = team.of_mkl != NULL ? team.of_mkl(1) : 0;
  team.of_openmp(1);
  bool ok = run(with);
  team.of_openmp(threads);
  if (team.of_mkl != NULL) team.of_mkl(of_mkl);
  return ok;
}

bool torch_here(bool (*run)(void *), void *with, bool serial) {
  uint64_t *keys = torch_local_keys();
  if (keys == NULL) return torch_apart(run, with);
  pthread_once(&kept, keep_freed_memory);
  const uint64_t set[] = {keys[0], keys[1]};
  bool gradients = torch.aoti_torch_grad_mode_is_enabled();
  keys[0] = 0, keys[1] = gradient_keys;
  if (gradients) torch.aoti_torch_grad_mode_set_enabled(false);
  bool ok = serial ? serially(run, with) : run(with);
  if (gradients) torch.aoti_torch_grad_mode_set_enabled(true);
  keys[0] = set[0], keys[1] = set[1];
  return ok;
}

static bool call(void *c) { return torch_run(c); }

bool torch_run_apart(struct torch_call *c) {
  snprintf(c->message, sizeof c->message, "no thread for torch's kernels"); /* for as long as nothing else is said */
  return torch_apart(call, c);
}
