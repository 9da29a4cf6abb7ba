/* Waiting for a condition until a time of CLOCK_MONOTONIC, which nobody sets. */
#ifndef CUDATAP_MONOTONIC_H
#define CUDATAP_MONOTONIC_H

#include <pthread.h>
#include <time.h>

/** monotonic_cond_init - pthread_cond_timedwait() on it takes times of CLOCK_MONOTONIC */
static inline void monotonic_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

#endif
