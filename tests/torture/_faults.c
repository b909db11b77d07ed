/* The calls of the C library that change files below one folder: counted, logged, and failed or killed at the k-th.
 *
 * Loaded by LD_PRELOAD. Unarmed it passes everything on. Calls past the library (a bare syscall) are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FAIL = 1, FAIL_FROM, KILL, INTERRUPT, SIGNAL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static long count, at;
static int action, with_errno;
static char *text; /* a line a call: its name and the paths */
static size_t used, room;

/* Count the calls below a folder from now on, and at the k-th: 1 fail it, 2 fail it and all later ones, 3 kill the
 * process before it, 4 send SIGINT before it, 5 SIGUSR1. k = 0 only counts. */
void faults_arm(const char *below, int what, long k, int error) {
    pthread_mutex_lock(&lock);
    snprintf(folder, sizeof folder, "%s", below);
    action = what, at = k, with_errno = error, count = 0, used = 0;
    pthread_mutex_unlock(&lock);
}

/* Stop; return the number of calls since. */
long faults_disarm(void) {
    pthread_mutex_lock(&lock);
    folder[0] = 0;
    pthread_mutex_unlock(&lock);
    return count;
}

/* The calls since faults_arm, a line each. */
const char *faults_log(void) { return used ? text : ""; }

static void path_of(int fd, char *out) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, out, PATH_MAX - 1);
    out[n < 0 ? 0 : n] = 0;
}

static void path_at(int dir, const char *path, char *out) {
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    char base[PATH_MAX];
    if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        path_of(dir, base);
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) out[0] = 0;
}

/* Note a call; tell whether it is to fail. */
static int fault(const char *call, const char *path, const char *to) {
    int fails = 0, sends = 0;
    size_t n = strlen(folder);
    if (!n || strncmp(path, folder, n)) return 0;
    pthread_mutex_lock(&lock);
    if (folder[0]) {
        long k = ++count;
        size_t need = strlen(call) + strlen(path) + strlen(to) + 4;
        if (used + need > room) text = realloc(text, room = 2 * room + need);
        used += sprintf(text + used, "%s\t%s\t%s\n", call, path, to);
        sends = at && k == at && action >= KILL ? (action == KILL ? SIGKILL : action == SIGNAL ? SIGUSR1 : SIGINT) : 0;
        fails = at && ((k == at && action == FAIL) || (k >= at && action == FAIL_FROM));
    }
    pthread_mutex_unlock(&lock);
    if (sends) kill(getpid(), sends);
    if (sends == SIGKILL) pause();
    if (fails) errno = with_errno;
    return fails;
}

static int fault_fd(const char *call, int fd) {
    char path[PATH_MAX];
    if (!folder[0]) return 0;
    path_of(fd, path);
    return fault(call, path, "");
}

static int fault_at(const char *call, int dir, const char *path, const char *to) {
    char full[PATH_MAX];
    if (!folder[0]) return 0;
    path_at(dir, path, full);
    return fault(call, full, to);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FD(type, name, parameters, ...)                                                                               \
    type name parameters { return fault_fd(#name, fd) ? -1 : REAL(name)(__VA_ARGS__); }
#define AT(name, dir, to, parameters, ...)                                                                            \
    int name parameters { return fault_at(#name, dir, path, to) ? -1 : REAL(name)(__VA_ARGS__); }

FD(ssize_t, write, (int fd, const void *data, size_t n), fd, data, n)
FD(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t offset), fd, data, n, offset)
FD(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t offset), fd, data, n, offset)
FD(int, fsync, (int fd), fd)
FD(int, fdatasync, (int fd), fd)
FD(int, ftruncate, (int fd, off_t size), fd, size)
FD(int, ftruncate64, (int fd, off64_t size), fd, size)
FD(int, fchmod, (int fd, mode_t mode), fd, mode)
FD(int, fchown, (int fd, uid_t user, gid_t group), fd, user, group)
AT(rename, AT_FDCWD, to, (const char *path, const char *to), path, to)
AT(renameat, dir, to, (int dir, const char *path, int dir2, const char *to), dir, path, dir2, to)
AT(unlink, AT_FDCWD, "", (const char *path), path)
AT(unlinkat, dir, "", (int dir, const char *path, int flags), dir, path, flags)
AT(rmdir, AT_FDCWD, "", (const char *path), path)

/* One that exists changes nothing. */
int mkdir(const char *path, mode_t mode) {
    if (access(path, F_OK) && fault_at("mkdir", AT_FDCWD, path, "")) return -1;
    return REAL(mkdir)(path, mode);
}

/* Those that only read are let through. */
#define OPEN(name, dir, parameters, ...)                                                                              \
    int name parameters {                                                                                             \
        mode_t mode = 0;                                                                                              \
        va_list list;                                                                                                 \
        va_start(list, flags);                                                                                        \
        if (flags & (O_CREAT | __O_TMPFILE)) mode = va_arg(list, mode_t);                                             \
        va_end(list);                                                                                                 \
        if (flags & (O_CREAT | O_TRUNC) && fault_at(#name, dir, path, "")) return -1;                                 \
        return REAL(name)(__VA_ARGS__);                                                                               \
    }

OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(openat, dir, (int dir, const char *path, int flags, ...), dir, path, flags, mode)
OPEN(openat64, dir, (int dir, const char *path, int flags, ...), dir, path, flags, mode)
