/*
 * Which files a held call is about. Looking does not open anything that could
 * block or have an effect: devices and fifos are never opened.
 */
#ifndef CUDATAP_LAUNCH_LOOK_H
#define CUDATAP_LAUNCH_LOOK_H

#include <linux/seccomp.h>
#include <sys/types.h>

struct look_file {
	pid_t tid;        /* the held thread */
	const char *link; /* leads to the file whatever its name and mount namespace; for statx and open */
	const char *path; /* the name its process used, or NULL: what the link says */
	int fd;           /* the descriptor in the held thread, or -1 */
};

/* Return 0 to go on; anything else ends the look and is returned. Strings live for the call only. */
typedef int (*look_fn)(void *ctx, const struct look_file *file);

/**
 * look_at_call - the files that a held call is about to map or run
 * Returns 0, what @fn returned, or a negative errno (a thread that is gone, an
 * address that cannot be read: there is nothing to see then).
 */
int look_at_call(const struct seccomp_notif *notif, look_fn fn, void *ctx);

/** look_at_maps - every file that the thread's process maps executable now */
int look_at_maps(pid_t tid, look_fn fn, void *ctx);

#endif
