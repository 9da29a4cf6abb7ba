/*
 * New executable mappings of the host as they appear: a dummy software event
 * on every CPU whose mmap2 records name each file that is mapped executable.
 *
 * The records are asynchronous: a program that calls at once after dlopen()
 * is ahead of them. What must not be missed is started as `cudatap -- COMMAND`.
 */
#ifndef CUDATAP_WATCH_H
#define CUDATAP_WATCH_H

#include "find.h"

struct find_watch;

/**
 * find_watch_new - begin to watch
 * @pid: one process and its future threads' mappings, or 0: the whole host
 * Returns 0, or a negative errno (-EACCES: CAP_PERFMON is missing). Only the control thread uses it.
 */
int find_watch_new(pid_t pid, struct find_watch **ret_watch);
void find_watch_free(struct find_watch *watch);

/** find_watch_fd - readable (epoll) when there are records */
int find_watch_fd(const struct find_watch *watch);

/**
 * find_watch_read - call @fn for every mapping seen since the last call
 * Returns how many records the kernel had to drop, at least 1 where it may have: look at all processes anew
 * then. A result of @fn other than 0 is ignored.
 */
unsigned long find_watch_read(struct find_watch *watch, find_fn fn, void *ctx);

#endif
