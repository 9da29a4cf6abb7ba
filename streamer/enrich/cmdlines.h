/*
 * Command lines of processes, read from /proc by a thread of their own: it may
 * have to wait for a page of the process, which the reader thread must not.
 * A process that has ended by then, or whose number is another's now, gives no
 * answer.
 */
#ifndef CUDATAP_CMDLINES_H
#define CUDATAP_CMDLINES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CMDLINES_MAX     4096  /* bytes of one that are read */
#define CMDLINES_WAITING 16384 /* questions that may wait; further ones get no answer */

struct cmdlines;

/* An answer: the words, each with its NUL. Runs in the thread. */
typedef void (*cmdlines_fn)(void *ctx, uint32_t tgid, uint64_t start_ns, const char *words, size_t len);

/** cmdlines_new - start the thread. NULL when that is not possible. */
struct cmdlines *cmdlines_new(cmdlines_fn fn, void *ctx);
/** cmdlines_free - end the thread; what waits gets no answer. NULL is fine. */
void cmdlines_free(struct cmdlines *cmdlines);

/**
 * cmdlines_ask - ask for a process's command line; does not wait
 * @tgid: handed back; @pid: the process in cudatap's own pid namespace
 * @start_ns: boot time of its start, which says that it is the one
 */
void cmdlines_ask(struct cmdlines *cmdlines, uint32_t tgid, pid_t pid, uint64_t start_ns);

/** cmdlines_read - one command line at once. Returns its length; 0: not known, or another process's. */
size_t cmdlines_read(pid_t pid, uint64_t start_ns, char words[CMDLINES_MAX]);

#endif
