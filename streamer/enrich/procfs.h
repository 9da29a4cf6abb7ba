/*
 * What only /proc tells of a process, its command line and its environment,
 * read by a thread of its own: it may have to wait for a page of the process,
 * which the reader thread must not. A process that has ended by then, or whose
 * number is another's now, gives nothing.
 */
#ifndef CUDATAP_PROCFS_H
#define CUDATAP_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "environs.h"

#define PROCFS_MAX_CMDLINE 4096  /* bytes of one that are read */
#define PROCFS_WAITING     16384 /* questions that may wait; further ones get no answer */

struct procfs;

struct procfs_answer {
	uint32_t tgid;
	uint64_t start_ns;
	const char *words;         /* of the command line, each with its NUL */
	size_t len;                /* 0: not known, or not wanted */
	struct environs *environs; /* the callback's from now on; NULL: not known, or not wanted */
};

/* An answer that says something. Runs in the thread. */
typedef void (*procfs_fn)(void *ctx, const struct procfs_answer *answer);

struct procfs_options {
	bool cmdline;           /* wanted */
	const char *const *env; /* names of the variables that are wanted; kept */
	size_t nenv;
	procfs_fn fn;
	void *ctx;
};

/** procfs_new - start the thread. NULL when that is not possible. */
struct procfs *procfs_new(const struct procfs_options *options);
/** procfs_free - end the thread; what waits gets no answer. NULL is fine. */
void procfs_free(struct procfs *procfs);

/**
 * procfs_ask - ask for a process; does not wait
 * @tgid: handed back; @pid: the process in cudatap's own pid namespace
 * @start_ns: boot time of its start, which says that it is the one
 */
void procfs_ask(struct procfs *procfs, uint32_t tgid, pid_t pid, uint64_t start_ns);

/** procfs_want_cmdline - from now on command lines are wanted, too. Any thread. */
void procfs_want_cmdline(struct procfs *procfs);

/**
 * procfs_wait - until all questions have been answered, or for @timeout_ns
 * While one hangs, further ones are not waited for. For one thread alone.
 */
void procfs_wait(struct procfs *procfs, uint64_t timeout_ns);

/* One process at once; @start: its alive_start(), which says that the number is the process's still. */

/** procfs_cmdline - a command line. Returns its length; 0: not known, or another process's. */
size_t procfs_cmdline(pid_t pid, uint64_t start, char words[PROCFS_MAX_CMDLINE]);

/** procfs_environs - variables. NULL: not known, another process's, or out of memory. */
struct environs *procfs_environs(pid_t pid, uint64_t start, const char *const *names, size_t n);

#endif
