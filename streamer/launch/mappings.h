/*
 * File mappings of a process, by address. /proc/PID/maps is asked for the one
 * in question where the kernel can (PROCMAP_QUERY, 6.11) and read as text
 * where it cannot.
 */
#ifndef CUDATAP_LAUNCH_MAPPINGS_H
#define CUDATAP_LAUNCH_MAPPINGS_H

#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uint64_t start, end;
	const char *path; /* as the kernel prints it; valid during the call only */
};

enum {
	MAPPING_EXEC = 1 << 0,   /* only executable ones */
	MAPPING_SHARED = 1 << 1, /* only shared ones */
};

/* Return 0 to go on; anything else ends the walk and is returned. */
typedef int (*mapping_fn)(void *ctx, const struct mapping *mapping);

/**
 * mapping_each - the file mappings that overlap [start, end)
 * @pid: a process or thread, 0 for oneself
 * @want: MAPPING_ flags that must all hold
 * Returns 0, what @fn returned, or a negative errno. Async-signal-safe. @fn may unmap.
 */
int mapping_each(pid_t pid, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx);

/** mapping_each_text - the same, always from the text (for tests of the older way) */
int mapping_each_text(pid_t pid, uint64_t start, uint64_t end, unsigned want, mapping_fn fn, void *ctx);

#endif
