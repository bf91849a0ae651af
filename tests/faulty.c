/* Preloaded, this lets the n-th file operation below a folder fail, write too little, or kill the process.

   `faulty_arm` names the folder and what to do; `tests/forked.py` calls it in the process of each verb. Operations are
   counted in `state`, which the caller shares with it. `faulty_dies_after` kills after seconds of the processor. All
   that loads libc dynamically is reached: Python, the C++ of Arrow and the Rust of safetensors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, ONCE, ALWAYS, SHORT };
enum { WRITES = 1, READS = 2, REMOVALS = 4 };

static struct { long seen, hit; } nothing, *state = &nothing;
static char below[4096];
static long nth;
static int action, code, kinds;

void faulty_arm(void *shared, const char *folder, int act, long n, int error, int which) {
    state = shared, action = act, nth = n, code = error, kinds = which;
    strncpy(below, folder, sizeof below - 1);
}

static void die(int number) { (void)number, kill(getpid(), SIGKILL); }

void faulty_dies_after(double seconds) {
    struct itimerval once = {{0, 0}, {(long)seconds, 1 + (long)(1e6 * (seconds - (long)seconds))}};
    signal(SIGPROF, die), setitimer(ITIMER_PROF, &once, NULL);
}

static int starts(const char *path) {
    size_t length = strlen(below);
    return !strncmp(path, below, length) && (path[length] == '/' || !path[length]);
}

static int inside(int at, const char *path) {
    char link[64], found[4096];
    if (!below[0]) return 0;
    if (path && path[0] == '/') return starts(path);
    if (at == AT_FDCWD) strcpy(link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, found, sizeof found - 1);
    if (n < 0) return 0;
    found[n] = 0;
    return starts(found);
}

/* 0: go on; 1: fail with errno; 2: write a part */
static int strikes(int kind, int at, const char *path) {
    if (!(kinds & kind) || !inside(at, path)) return 0;
    long now = __atomic_fetch_add(&state->seen, 1, __ATOMIC_SEQ_CST);
    if (action == COUNT || (action == ALWAYS ? now < nth : now != nth)) return 0;
    state->hit = 1;
    if (action == KILL) kill(getpid(), SIGKILL), pause();
    if (action == SHORT) return 2;
    errno = code;
    return 1;
}

#define REAL(name) __typeof__(name) *real = dlsym(RTLD_NEXT, #name)
#define OPENS(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT) ? WRITES : READS)

#define OPEN(name, at, params, ...)                                             \
    int name params {                                                          \
        REAL(name);                                                            \
        mode_t mode = 0;                                                       \
        if (flags & (O_CREAT | O_TMPFILE)) {                                   \
            va_list more;                                                      \
            va_start(more, flags), mode = va_arg(more, mode_t), va_end(more);  \
        }                                                                      \
        return strikes(OPENS(flags), at, path) == 1 ? -1 : real(__VA_ARGS__);  \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(openat, at, (int at, const char *path, int flags, ...), at, path, flags, mode)
OPEN(openat64, at, (int at, const char *path, int flags, ...), at, path, flags, mode)

#define FOPEN(name)                                                                                        \
    FILE *name(const char *path, const char *mode) {                                                       \
        REAL(name);                                                                                        \
        return strikes(strpbrk(mode, "wa+") ? WRITES : READS, AT_FDCWD, path) == 1 ? NULL : real(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    int how = strikes(WRITES, fd, NULL);
    return how == 1 ? -1 : real(fd, data, how == 2 && size > 1 ? size / 2 : size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t place) {
    REAL(pwrite);
    int how = strikes(WRITES, fd, NULL);
    return how == 1 ? -1 : real(fd, data, how == 2 && size > 1 ? size / 2 : size, place);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t place) {
    REAL(pwrite64);
    int how = strikes(WRITES, fd, NULL);
    return how == 1 ? -1 : real(fd, data, how == 2 && size > 1 ? size / 2 : size, place);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    int how = strikes(WRITES, fd, NULL);
    return how == 1 ? -1 : real(fd, parts, how == 2 && n > 1 ? n / 2 : n);
}

ssize_t read(int fd, void *data, size_t size) {
    REAL(read);
    int how = strikes(READS, fd, NULL);
    return how == 1 ? -1 : real(fd, data, how == 2 && size > 1 ? size / 2 : size);
}

#define SIMPLE(name, kind, at, path, params, ...)                            \
    int name params {                                                        \
        REAL(name);                                                          \
        return strikes(kind, at, path) == 1 ? -1 : real(__VA_ARGS__);        \
    }
SIMPLE(fsync, WRITES, fd, NULL, (int fd), fd)
SIMPLE(fdatasync, WRITES, fd, NULL, (int fd), fd)
SIMPLE(ftruncate, WRITES, fd, NULL, (int fd, off_t size), fd, size)
SIMPLE(ftruncate64, WRITES, fd, NULL, (int fd, off64_t size), fd, size)
SIMPLE(mkdir, WRITES, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
SIMPLE(rename, WRITES, AT_FDCWD, to, (const char *from, const char *to), from, to)
SIMPLE(renameat, WRITES, at, to, (int of, const char *from, int at, const char *to), of, from, at, to)
SIMPLE(unlink, REMOVALS, AT_FDCWD, path, (const char *path), path)
SIMPLE(unlinkat, REMOVALS, at, path, (int at, const char *path, int flags), at, path, flags)
SIMPLE(rmdir, REMOVALS, AT_FDCWD, path, (const char *path), path)
