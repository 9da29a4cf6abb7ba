/*
 * Running COMMAND under cudatap so that not one of its calls is missed: the
 * child installs a seccomp filter whose notifications hold it, and each of
 * its descendants, at every executable mapping and every exec until the
 * control thread has looked at the files and attached its probes.
 *
 * A watchdog process answers if cudatap dies, so that the tree always goes
 * on. Where a filter cannot be had the command runs without one, and
 * launch_held() says why.
 *
 * All calls are made by the control thread.
 */
#ifndef CUDATAP_LAUNCH_H
#define CUDATAP_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct launch;		/* opaque */

/* Who the command runs as. */
struct launch_user {
	bool set;
	uid_t uid;
	gid_t gid;
	char name[256];		/* for initgroups(), empty when only an id is known */
	char home[4096];	/* HOME, empty: unchanged */
};

/**
 * launch_user_find - a user by name or numeric id (`-u`)
 * launch_user_sudo - the user who invoked sudo; set is false when not under sudo
 * Return 0, -ENOENT for an unknown user, -EINVAL.
 */
int launch_user_find(const char *name, struct launch_user *user);
int launch_user_sudo(struct launch_user *user);

struct launch_options {
	char *const *argv;		/* COMMAND and its arguments, NULL-terminated */
	const struct launch_user *user;	/* NULL: as cudatap itself */
	bool stdout_to_stderr;		/* the command's stdout goes to stderr */
	bool hold;			/* false: run without the filter (for tests and --no-hold) */
};

/**
 * launch_start - fork, install the filter, stop just before exec
 * @error: one sentence for the user when the result is negative
 *
 * The child waits until launch_go(), so that probes can be attached first.
 * Signals are reset to default and unblocked in the child, descriptors of
 * cudatap do not leak into it.
 * Returns 0 and the launch (freed by launch_free()), or a negative errno.
 */
int launch_start(const struct launch_options *options, struct launch **ret_launch,
		 char *error, size_t error_size);

pid_t launch_pid(const struct launch *launch);
/** launch_go - let the child exec */
int launch_go(struct launch *launch);
/** launch_exec_status - 0 while it runs or exec succeeded; 126 or 127 (and errno in ret_errno)
 * when exec failed, known once launch_exec_fd() is readable */
int launch_exec_fd(const struct launch *launch);
int launch_exec_status(struct launch *launch, int *ret_errno);

/** launch_held - NULL when the tree is held at each mapping, else why it is not */
const char *launch_held(const struct launch *launch);

/** launch_notify_fd - readable when a process is held; -1 without a filter */
int launch_notify_fd(const struct launch *launch);

/*
 * What the control thread does while a process is held: look at @fd, attach.
 * @fd is open for reading and stays owned by the launch; @path is for
 * messages. Called only for files (dev, ino) that this launch has not shown
 * before.
 */
typedef void (*launch_file_fn)(void *ctx, pid_t pid, int fd, const char *path);

/**
 * launch_handle - receive one notification, show its new files, let it go on
 * Returns 1 when one was handled, 0 when there was none, a negative errno
 * when the listener is gone (-ENOENT: the tree has ended).
 */
int launch_handle(struct launch *launch, launch_file_fn fn, void *ctx);

/** launch_wait_fd - a pidfd of the child, readable at its end */
int launch_wait_fd(const struct launch *launch);
/** launch_reap - its exit status as a shell would say it (128 + signal when killed);
 * -EAGAIN while it runs */
int launch_reap(struct launch *launch);

/** launch_free - lets every held process go on and leaves the watchdog to answer
 * for descendants that outlive cudatap. NULL is fine. */
void launch_free(struct launch *launch);

#endif
