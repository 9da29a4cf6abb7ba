/*
 * Calls that may not return: who opens a file on a file system that does not
 * answer is kept until it does. Such a call is made by a thread of its own and
 * given up after a while.
 */
#ifndef CUDATAP_PATIENCE_H
#define CUDATAP_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct patience;

/** patience_new - NULL when there is no memory or descriptor */
struct patience *patience_new(void);
/** patience_free - what does not return goes on until the process ends. NULL is fine. */
void patience_free(struct patience *patience);

/**
 * patience_call - run @fn(@job), for two seconds at most
 * @about: what it may hang at, such as a device's number
 * @drop: frees @job
 *
 * Returns 0 when @fn has returned; @job is the caller's. Otherwise @job is, or will be, dropped: -ETIMEDOUT
 * when it was given up just now, -EBUSY when an earlier call about the same was and has not returned yet, or
 * another negative errno.
 */
int patience_call(struct patience *patience, uint64_t about, void (*fn)(void *job), void (*drop)(void *job),
		  void *job);

/** patience_fd - an eventfd, readable when a call that was given up has returned after all */
int patience_fd(const struct patience *patience);

#endif
