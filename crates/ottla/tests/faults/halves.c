/* Loaded before libc: does only half of every nth pread64 or pwrite64, as a system may. HALVES=CALL:N says which. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static atomic_ulong calls;

/* How much of `count` is done: whole blocks, where there are any, since O_DIRECT takes nothing else. */
static size_t part(const char *call, size_t count)
{
    const char *wanted = getenv("HALVES");
    size_t length = strlen(call);
    if (!wanted || strncmp(wanted, call, length) || wanted[length] != ':' || count < 2)
        return count;
    unsigned long nth = strtoul(wanted + length + 1, NULL, 10);
    if (nth && (atomic_fetch_add(&calls, 1) + 1) % nth)
        return count;
    return count >= 8192 ? count / 2 / 4096 * 4096 : count / 2;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return next(file, bytes, part("pwrite64", count), at);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t at)
{
    ssize_t (*next)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    return next(file, bytes, part("pread64", count), at);
}
