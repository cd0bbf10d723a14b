/* Preloaded into a program under test: notes, in their order, what it does to the files of one folder, so that a test
 * can make the folder anew as a power cut at any moment might have left it. Written for this test alone. */
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

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_truncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_close = dlsym(RTLD_NEXT, "close");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    root = getenv("POWER_ROOT");
    const char *path = getenv("POWER_RECORD");
    if (root && path) record = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* One entry: kind, length of the name, offset, length of the data; then both. */
static void note(char kind, const char *name, uint64_t offset, const void *data, uint32_t length) {
    char head[17];
    uint32_t named = (uint32_t)strlen(name);
    head[0] = kind;
    memcpy(head + 1, &named, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &length, 4);
    real_write(record, head, sizeof head);
    real_write(record, name, named);
    if (length) real_write(record, data, length);
}

static int ours(int fd) { return record >= 0 && fd >= 0 && fd < FILES && names[fd]; }

static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= FILES || record < 0 || strncmp(path, root, strlen(root)) != 0) return fd;
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return fd;
    pthread_mutex_lock(&alone);
    free(names[fd]);
    names[fd] = strdup(path + strlen(root));
    if (flags & O_TRUNC) note('t', names[fd], 0, 0, 0);
    pthread_mutex_unlock(&alone);
    return fd;
}

#define OPEN(name)                                             \
    int name(const char *path, int flags, ...) {               \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                          \
        return opened(real_open(path, flags, mode), path, flags); \
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

static ssize_t written(int fd, const void *data, size_t length, uint64_t offset, ssize_t done) {
    if (done > 0) note('w', names[fd], offset, data, (uint32_t)done);
    (void)length;
    return done;
}

ssize_t write(int fd, const void *data, size_t length) {
    if (!ours(fd)) return real_write(fd, data, length);
    pthread_mutex_lock(&alone);
    /* The place is the file's own: it may have been moved there by a seek. */
    off_t place = lseek(fd, 0, SEEK_CUR);
    ssize_t done = written(fd, data, length, (uint64_t)place, real_write(fd, data, length));
    pthread_mutex_unlock(&alone);
    return done;
}

static ssize_t placed(int fd, const void *data, size_t length, off_t offset) {
    if (!ours(fd)) return real_pwrite(fd, data, length, offset);
    pthread_mutex_lock(&alone);
    ssize_t done = written(fd, data, length, (uint64_t)offset, real_pwrite(fd, data, length, offset));
    pthread_mutex_unlock(&alone);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return placed(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return placed(fd, data, length, offset); }

static int shortened(int fd, off_t length) {
    int done = real_truncate(fd, length);
    if (done == 0 && ours(fd)) {
        pthread_mutex_lock(&alone);
        note('t', names[fd], (uint64_t)length, 0, 0);
        pthread_mutex_unlock(&alone);
    }
    return done;
}
int ftruncate(int fd, off_t length) { return shortened(fd, length); }
int ftruncate64(int fd, off_t length) { return shortened(fd, length); }

static int synced(int fd, int done) {
    if (done == 0 && ours(fd)) {
        pthread_mutex_lock(&alone);
        note('s', names[fd], 0, 0, 0);
        pthread_mutex_unlock(&alone);
    }
    return done;
}
int fsync(int fd) { return synced(fd, real_fsync(fd)); }
int fdatasync(int fd) { return synced(fd, real_fdatasync(fd)); }

int unlink(const char *path) {
    int done = real_unlink(path);
    if (done == 0 && record >= 0 && strncmp(path, root, strlen(root)) == 0) {
        pthread_mutex_lock(&alone);
        note('u', path + strlen(root), 0, 0, 0);
        pthread_mutex_unlock(&alone);
    }
    return done;
}
