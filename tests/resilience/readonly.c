/* Preloaded into a program under test: files below one folder can be read but not changed, even by root, as on a disk
 * that the system has remounted read-only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static const char *root;

__attribute__((constructor)) static void begin(void) {
    const char *named = getenv("READONLY_ROOT");
    if (named) {
        root = strdup(named);
    }
}

static int below(const char *path) { return root && path && strncmp(path, root, strlen(root)) == 0; }

static int refused(void) {
    errno = EROFS;
    return -1;
}

/* Opening an existing file for reading changes nothing, whatever the other flags are. */
static int changes(const char *path, int flags) {
    if (!below(path)) {
        return 0;
    }
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) {
        return 1;
    }
    return (flags & O_CREAT) && access(path, F_OK) != 0;
}

#define MODE(flags)                                                                                                    \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                       \
        MODE(flags)                                                                                                    \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);                                                 \
        return changes(path, flags) ? refused() : real(path, flags, mode);                                             \
    }

#define OPENS_AT(name)                                                                                                 \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        MODE(flags)                                                                                                    \
        int (*real)(int, const char *, int, ...) = dlsym(RTLD_NEXT, #name);                                            \
        return changes(path, flags) ? refused() : real(folder, path, flags, mode);                                     \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int unlink(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    return below(path) ? refused() : real(path);
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    return below(from) || below(to) ? refused() : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
    int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
    if (below(path) && access(path, F_OK) != 0) {
        return refused();
    }
    return real(path, mode);
}

int access(const char *path, int wanted) {
    int (*real)(const char *, int) = dlsym(RTLD_NEXT, "access");
    return below(path) && (wanted & W_OK) ? refused() : real(path, wanted);
}
