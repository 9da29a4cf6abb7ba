/*
 * Environments of programs that a launch holds at their start: read before
 * they run, so that a process which ends at once has its variables as well.
 * Read by whoever holds them, taken by the reader thread when their first
 * record comes.
 */
#ifndef CUDATAP_EARLY_H
#define CUDATAP_EARLY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "environs.h"

#define EARLY_MAX 4096 /* that wait to be taken: most programs make no CUDA call; then the oldest go */

struct early;

/** early_new - @names: of @n variables; kept. NULL when out of memory. */
struct early *early_new(const char *const *names, size_t n);
void early_free(struct early *early);

/** early_read - a program is about to run in the process. Any thread. */
void early_read(struct early *early, pid_t pid);
/** early_forget - another program will run in it: what was read is not its any more. Any thread. */
void early_forget(struct early *early, pid_t pid);
/** early_take - what was read for this process; the caller's from now on. NULL: nothing. Any thread. */
struct environs *early_take(struct early *early, pid_t pid, uint64_t start_ns);

#endif
