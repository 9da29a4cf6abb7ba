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

#endif
