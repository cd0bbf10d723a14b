/* Preloaded into a program under test: records its operations on the files of one folder in order, so that a test can
 * rebuild the folder as a power cut at any moment might have left it. Shared memory (-shm) is not recorded, because it
 * is rebuilt from the log. Mapped writes to other files would be missed; SQLite makes none in its default
 * configuration. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096

static char *names[FILES];
static int record = -1;
static const char *root;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_truncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_close)(int);
static int (*real_open)(const char *, int, ...);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_truncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_close = dlsym(RTLD_NEXT, "close");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_rename = dlsym(RTLD_NEXT, "rename");
    root = getenv("POWER_ROOT");
    const char *path = getenv("POWER_RECORD");
    if (root && path) {
        root = strdup(root);
        record = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
}

/* Appends one entry in a single write, so that a kill never leaves a partial entry before another: kind, length of the
 * name, offset, length of the data, then name and data. */
static void note(char kind, const char *name, uint64_t offset, const void *data, uint32_t length) {
    char head[17];
    uint32_t named = (uint32_t)strlen(name);
    head[0] = kind;
    memcpy(head + 1, &named, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &length, 4);
    struct iovec parts[3] = {{head, sizeof head}, {(void *)name, named}, {(void *)data, length}};
    ssize_t whole = (ssize_t)(sizeof head + named + length);
    if (writev(record, parts, length ? 3 : 2) != whole) abort();
}

static int inside(const char *path) {
    size_t length = strlen(root);
    return record >= 0 && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int ours(int fd) { return record >= 0 && fd >= 0 && fd < FILES && names[fd]; }

static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || record < 0 || !inside(path)) return fd;
    if (fd >= FILES) abort();
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return fd;
    pthread_mutex_lock(&alone);
    free(names[fd]);
    names[fd] = strdup(path + strlen(root));
    if (flags & O_CREAT) note('c', names[fd], 0, 0, 0);
    if (flags & O_TRUNC) note('t', names[fd], 0, 0, 0);
    pthread_mutex_unlock(&alone);
    return fd;
}

#define OPEN(name)                                                  \
    int name(const char *path, int flags, ...) {                    \
        va_list rest;                                               \
        va_start(rest, flags);                                      \
        mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                               \
        return opened(real_open(path, flags, mode), path, flags);   \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    if (ours(fd)) {
        pthread_mutex_lock(&alone);
        free(names[fd]);
        names[fd] = NULL;
        pthread_mutex_unlock(&alone);
    }
    return real_close(fd);
}

ssize_t write(int fd, const void *data, size_t length) {
    if (!ours(fd)) return real_write(fd, data, length);
    pthread_mutex_lock(&alone);
    /* The current file offset, which an earlier seek may have changed. */
    off_t place = lseek(fd, 0, SEEK_CUR);
    ssize_t done = real_write(fd, data, length);
    if (done > 0) note('w', names[fd], (uint64_t)place, data, (uint32_t)done);
    pthread_mutex_unlock(&alone);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*real_writev)(int, const struct iovec *, int);
    if (!real_writev) real_writev = dlsym(RTLD_NEXT, "writev");
    /* The recorded files are not written with writev; if they were, the record would be silently incomplete. */
    if (ours(fd)) abort();
    return real_writev(fd, parts, count);
}

static ssize_t placed(int fd, const void *data, size_t length, off_t offset) {
    if (!ours(fd)) return real_pwrite(fd, data, length, offset);
    pthread_mutex_lock(&alone);
    ssize_t done = real_pwrite(fd, data, length, offset);
    if (done > 0) note('w', names[fd], (uint64_t)offset, data, (uint32_t)done);
    pthread_mutex_unlock(&alone);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return placed(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return placed(fd, data, length, offset); }

static int shortened(int fd, off_t length) {
    if (!ours(fd)) return real_truncate(fd, length);
    pthread_mutex_lock(&alone);
    int done = real_truncate(fd, length);
    if (done == 0) note('t', names[fd], (uint64_t)length, 0, 0);
    pthread_mutex_unlock(&alone);
    return done;
}
int ftruncate(int fd, off_t length) { return shortened(fd, length); }
int ftruncate64(int fd, off_t length) { return shortened(fd, length); }

/* Records a sync. The lock excludes writes by other threads during it. */
static int synced(int fd, int (*real)(int)) {
    if (!ours(fd)) return real(fd);
    pthread_mutex_lock(&alone);
    int done = real(fd);
    if (done == 0) note('s', names[fd], 0, 0, 0);
    pthread_mutex_unlock(&alone);
    return done;
}
int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int unlink(const char *path) {
    if (record < 0 || !inside(path)) return real_unlink(path);
    pthread_mutex_lock(&alone);
    int done = real_unlink(path);
    if (done == 0) note('u', path + strlen(root), 0, 0, 0);
    pthread_mutex_unlock(&alone);
    return done;
}

int rename(const char *from, const char *to) {
    if (record < 0 || !inside(from) || !inside(to)) return real_rename(from, to);
    pthread_mutex_lock(&alone);
    int done = real_rename(from, to);
    if (done == 0) {
        const char *name = to + strlen(root);
        note('r', from + strlen(root), 0, name, (uint32_t)strlen(name));
        for (int fd = 0; fd < FILES; fd++) {
            if (names[fd] && strcmp(names[fd], from + strlen(root)) == 0) {
                free(names[fd]);
                names[fd] = strdup(name);
            }
        }
    }
    pthread_mutex_unlock(&alone);
    return done;
}
