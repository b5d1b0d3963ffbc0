/* LD_PRELOAD library that simulates a full disk: writes to files below FULL_DISK_FOLDER fail with ENOSPC when these files
 * would exceed FULL_DISK_BYTES. Sizes are rounded up to 4 KiB blocks, as in a file system. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static _Thread_local long long used;

static int add(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    (void)path, (void)walk;
    if (type == FTW_F)
        used += (about->st_size + BLOCK - 1) / BLOCK * BLOCK;
    return 0;
}

static int is_full(int file, size_t more)
{
    const char *folder = getenv("FULL_DISK_FOLDER"), *bytes = getenv("FULL_DISK_BYTES");
    char link[64], path[PATH_MAX];
    struct stat about;
    if (!folder || !bytes || fstat(file, &about) || !S_ISREG(about.st_mode))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    size_t within = strlen(folder);
    if (strncmp(path, folder, within) || path[within] != '/')
        return 0;
    used = 0;
    nftw(folder, add, 8, FTW_PHYS);
    long long room = (BLOCK - about.st_size % BLOCK) % BLOCK;
    return (long long)more > room && used + (long long)more - room > atoll(bytes);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t length)
{
    if (is_full(file, length))
        return errno = ENOSPC, -1;
    return NEXT(write)(file, bytes, length);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (is_full(file, length))
        return errno = ENOSPC, -1;
    return NEXT(writev)(file, parts, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at)
{
    if (is_full(file, length))
        return errno = ENOSPC, -1;
    return NEXT(pwrite64)(file, bytes, length, at);
}

/* Not supported: callers fall back to read and write. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags)
{
    (void)from, (void)from_at, (void)to, (void)to_at, (void)length, (void)flags;
    return errno = ENOSYS, -1;
}
