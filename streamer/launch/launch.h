/*
 * Running COMMAND under cudatap so that not one of its calls is missed: the
 * child installs a seccomp filter whose notifications hold it, and each of
 * its descendants, at every executable mapping and every exec until the
 * control thread has looked at the files and attached its probes.
 *
 * Threads: all calls are made by the control thread. The launch has a hold
 * thread of its own that receives notifications at once and lets go whoever
 * maps a file that has been shown already; only files that are new reach the
 * control thread. (Receiving at once matters: until a notification has been
 * received, a signal with a handler can make the held call fail with EINTR.)
 *
 * A watchdog process answers if cudatap dies or does not answer for
 * LAUNCH_PATIENCE_MS, or at once while it is stopped, so that the tree always goes on. It has its own
 * session, no descriptors but the ones it answers with, and ends with the tree. Where a filter cannot be had
 * the command runs without one, and launch_held() says why.
 *
 * Rights: with CAP_SYS_ADMIN the filter needs nothing more, and setuid programs
 * in the tree keep their rights. Without it (file capabilities on cudatap) the
 * kernel demands no_new_privs: setuid, setgid and file-capability programs
 * in the tree then run without their extra rights, which launch_note() says.
 * `hold = false` is the way out for whoever needs such programs.
 *
 * Terminal and signals: the command stays in cudatap's process group and
 * session, so Ctrl-C and Ctrl-Z reach both. It is the command's choice what
 * SIGINT and SIGQUIT mean: the caller should let the first of them pass and
 * end when launch_wait_fd() says so. Nothing is forwarded.
 *
 * Descriptors: the command gets what cudatap itself was given. Every
 * descriptor that cudatap opens must be O_CLOEXEC, and 0, 1 and 2 open.
 *
 * Known limits. A program that replaces the file behind a descriptor or path
 * from another thread while it is held is seen when it next loads a new
 * library or starts a program, not before. 32-bit and x32 programs are held at exec only: they
 * cannot map a 64-bit library. A second seccomp listener inside the tree is
 * refused by the kernel (EBUSY), and `strace --seccomp-bpf` there sees less. A signal
 * whose handler has no SA_RESTART, arriving in the some 10 us before a
 * notification is received, makes that mmap, mprotect or exec fail with EINTR: of 5000 mappings
 * under a timer of 1000 Hz about 5 did, under one of 100 Hz one at most.
 */
#ifndef CUDATAP_LAUNCH_H
#define CUDATAP_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The watchdog lets a held process go on unseen after this time without launch_progress(), or up to twice of
 * it. */
#define LAUNCH_PATIENCE_MS 10000

struct launch; /* opaque */

/* Who the command runs as. */
struct launch_user {
	bool set;
	uid_t uid;
	gid_t gid;
	char name[256];   /* for initgroups(), USER and LOGNAME; empty when only an id is known */
	char home[4096];  /* HOME, empty: unchanged */
	char shell[4096]; /* SHELL, empty: unchanged */
};

/**
 * launch_user_find - a user by name or numeric id (`-u`)
 * @name: NAME, UID, or either with :GROUP or :GID. A UID that no database knows
 *        gets the group of the same number unless one is given.
 * launch_user_sudo - the user who invoked sudo; set is false when not under sudo
 * Return 0, -ENOENT for an unknown user or group, -EINVAL. *user is untouched on failure.
 */
int launch_user_find(const char *name, struct launch_user *user);
int launch_user_sudo(struct launch_user *user);

/*
 * What cudatap was started with and changes for itself: taken first thing in
 * main(), given back to the command.
 */
#define LAUNCH_MAX_FD 4096 /* descriptors from here on are not given on */

struct launch_origin {
	sigset_t ignored; /* nohup and friends: stay ignored */
	sigset_t mask;    /* blocked */
	/* bit per descriptor that was open: the command gets these and no others, whatever libraries
	 * open without O_CLOEXEC */
	uint64_t descriptors[LAUNCH_MAX_FD / 64];
	struct rlimit nofile, memlock;
};

/** launch_origin_take - remember the present state */
void launch_origin_take(struct launch_origin *origin);

/*
 * A process of the tree is held where a program is about to run in it (@starts), or to be replaced. In the
 * hold thread: whoever does it, waits for it. @pid as cudatap's pid namespace names it.
 */
typedef void (*launch_program_fn)(void *ctx, pid_t pid, bool starts);

struct launch_options {
	char *const *argv;                  /* COMMAND and its arguments, NULL-terminated */
	const struct launch_user *user;     /* NULL: as cudatap itself */
	bool stdout_to_stderr;              /* the command's stdout goes to stderr */
	bool hold;                          /* false: run without the filter (for tests and --no-hold) */
	const struct launch_origin *origin; /* NULL: signals default, none blocked, limits as now */
	int patience_ms;                    /* 0: LAUNCH_PATIENCE_MS */
	launch_program_fn on_program;       /* or NULL */
	void *program_ctx;
};

/**
 * launch_start - fork, install the filter, stop just before exec
 * @error: one sentence for the user when the result is negative
 *
 * The child waits until launch_go(), so that probes can be attached first.
 * Signals are reset to default in the child (but for those ignored in @origin),
 * and blocked are those that @origin says; capabilities are not passed on; descriptors of
 * cudatap do not leak into it. With a user: its groups, and HOME, SHELL, USER,
 * LOGNAME; the working directory stays. Variables that the dynamic loader
 * hides from a program with file capabilities (LD_LIBRARY_PATH, ...) reach the
 * command all the same.
 *
 * Best called before large memory is in use: the watchdog is a fork.
 * Returns 0 and the launch (freed by launch_free()), or a negative errno.
 */
int launch_start(const struct launch_options *options, struct launch **ret_launch, char *error,
		 size_t error_size);

pid_t launch_pid(const struct launch *launch);
/** launch_go - let the child exec. 0, or -EPIPE when it is gone */
int launch_go(struct launch *launch);
/** launch_exec_status - 0 while it runs or exec succeeded; 126 or 127 (and errno in ret_errno)
 * when exec failed, known once launch_exec_fd() is readable. Read it once, then stop
 * polling the descriptor: it stays readable. The exec is itself held: keep handling. */
int launch_exec_fd(const struct launch *launch);
int launch_exec_status(struct launch *launch, int *ret_errno);

/** launch_held - NULL when the tree is held at each mapping, else why it is not */
const char *launch_held(const struct launch *launch);
/** launch_note - what holding costs the command (setuid programs lose their rights), or NULL */
const char *launch_note(const struct launch *launch);

/** launch_notify_fd - readable when a process is held by a new file, or the tree has ended;
 * -1 without a filter */
int launch_notify_fd(const struct launch *launch);

/*
 * What the control thread does while a process is held: look at @fd, attach.
 * @pid is the process (not the thread) as cudatap's pid namespace names it.
 * @fd is open for reading, a regular file, and stays owned by the launch; @path is for
 * messages. Called only for files that this launch has not shown before: a
 * file is shown again when it was changed or its inode number is another file's now.
 */
typedef void (*launch_file_fn)(void *ctx, pid_t pid, int fd, const char *path);

/**
 * launch_handle - take one held process, show its new files, let it go on
 * Returns 1 when one was handled, 0 when there was none, a negative errno
 * when the listener is gone (-ENOENT: the tree has ended; poll it no more).
 */
int launch_handle(struct launch *launch, launch_file_fn fn, void *ctx);

struct shown_key; /* shown.h */

/** launch_forget - show the file again, should it be mapped again */
void launch_forget(struct launch *launch, const struct shown_key *key);

/**
 * launch_progress - the control thread gets on with what it does for a held process
 * A callback that takes long calls it now and then: the watchdog's patience begins anew. NULL is fine.
 */
void launch_progress(struct launch *launch);

struct launch_counts {
	uint64_t held;     /* notifications received */
	uint64_t shown;    /* files given to the callback */
	uint64_t foreign;  /* let go unseen: not in a pid namespace that cudatap can see */
	uint64_t unopened; /* files that could not be looked at */
	uint64_t overdue;  /* let go unseen by the watchdog after LAUNCH_PATIENCE_MS, */
	uint64_t stopped;  /* ... or at once, while cudatap was stopped (SIGSTOP) */
};

/** launch_counts - what happened so far; all 0 without a filter */
void launch_counts(const struct launch *launch, struct launch_counts *ret_counts);

/** launch_end_hold - who is held goes on, and nobody is held any more: there are no probes to wait for. NULL
 * is fine. */
void launch_end_hold(struct launch *launch);

/** launch_wait_fd - a pidfd of the child, readable at its end */
int launch_wait_fd(const struct launch *launch);
/** launch_reap - its exit status as a shell would say it (128 + signal when killed);
 * -EAGAIN while it runs. As PID 1 it also reaps the orphans of the tree: call it now and then. */
int launch_reap(struct launch *launch);

/** launch_free - lets every held process go on and leaves the watchdog to answer
 * for descendants that outlive cudatap. A child that was never let go ends. NULL is fine. */
void launch_free(struct launch *launch);

#endif
