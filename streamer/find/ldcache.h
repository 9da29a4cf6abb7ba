/*
 * The run-time linker's cache, /etc/ld.so.cache, in the format that glibc has
 * written since 2.2 ("glibc-ld.so.cache1.1", sysdeps/generic/dl-cache.h of
 * glibc), alone or behind the older "ld.so-1.7.0" table.
 */
#ifndef CUDATAP_LDCACHE_H
#define CUDATAP_LDCACHE_H

#include <stddef.h>

/* Called with a library's name and path; nonzero ends the walk and is returned. */
typedef int (*ldcache_fn)(void *ctx, const char *name, const char *path);

/**
 * ldcache_walk - every library of this architecture in a cache
 * @bytes: the file's content, @size bytes; any bytes are safe
 * Returns 0, @fn's nonzero result, or -EINVAL for a cache of another format.
 */
int ldcache_walk(const void *bytes, size_t size, ldcache_fn fn, void *ctx);

#endif
