/* A process whose main thread has ended while others go on. */
#ifndef CUDATAP_LIVING_H
#define CUDATAP_LIVING_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

/**
 * living_thread - the thread by whose number /proc shows a process's memory and files
 *
 * That is the process's own number, unless its main thread has ended by pthread_exit() and others go on: then
 * /proc/PID/maps, cmdline and environ are empty, and map_files, root and exe lead nowhere, while /proc/TID/
 * of any other thread has them all. For who has found nothing by the process's number: it reads proc(5)'s
 * stat. Returns @pid, another thread's number, or 0 when the process has ended.
 */
pid_t living_thread(pid_t pid);

/** living_other - the same for who has asked by the process's own number: 0 also when that is the one */
pid_t living_other(pid_t pid);

/** living_may_help - whether a negative errno is one that map_files of an ended main thread gives, by kernel
 */
static inline bool living_may_help(int err)
{
	return err == -ENOENT || err == -ESRCH;
}

#endif
