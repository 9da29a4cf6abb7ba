/* Whether a process number is still the process's that is meant: numbers are given away again. */
#ifndef CUDATAP_ALIVE_H
#define CUDATAP_ALIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * alive_still - a process of that number that began at that time is there
 * @pid: in cudatap's pid namespace
 * @start_ns: CLOCK_BOOTTIME; the kernel tells it in clock ticks, by which two processes may look alike
 * What was read of the process beforehand is its own when this holds afterwards.
 */
bool alive_still(pid_t pid, uint64_t start_ns);

/** alive_ticks - a time of the boot clock in ns as /proc tells it: in clock ticks */
uint64_t alive_ticks(uint64_t start_ns);

/**
 * alive_start - when the process of that number began, in clock ticks; 0: there is none
 * @living: and none is one that has ended and waits to be reaped
 */
uint64_t alive_start(pid_t pid, bool living);

#endif
