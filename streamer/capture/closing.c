/* Threads that close probes, several at a time, while there are any to be closed. */
#include <signal.h>
#include <stdlib.h>

#include "internal.h"

#define THREADS 32 /* at most: the kernel's grace periods end together */

void closing_init(struct closing *closing)
{
	pthread_mutex_init(&closing->lock, NULL);
	pthread_cond_init(&closing->done, NULL);
}

static void *close_sets(void *arg)
{
	struct closing *closing = arg;
	struct probe_set set;

	pthread_mutex_lock(&closing->lock);
	while (closing->nsets) {
		set = closing->sets[--closing->nsets];
		pthread_mutex_unlock(&closing->lock);
		probe_set_close(&set);
		pthread_mutex_lock(&closing->lock);
	}
	if (--closing->threads == 0)
		pthread_cond_broadcast(&closing->done);
	pthread_mutex_unlock(&closing->lock);
	return NULL;
}

/* Signals are the main thread's. */
static bool start_thread(struct closing *closing)
{
	pthread_attr_t detached;
	sigset_t all, old;
	pthread_t thread;
	int err;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &detached, close_sets, closing);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&detached);
	return !err;
}

void closing_add(struct closing *closing, const struct probe_set *set)
{
	struct probe_set *grown, own = *set;

	pthread_mutex_lock(&closing->lock);
	grown = reallocarray(closing->sets, closing->nsets + 1, sizeof(*grown));
	if (grown) {
		closing->sets = grown;
		grown[closing->nsets++] = own;
		if (closing->threads < THREADS && start_thread(closing))
			closing->threads++;
		if (!closing->threads)
			closing->nsets--;
	}
	if (!grown || !closing->threads) {
		pthread_mutex_unlock(&closing->lock);
		probe_set_close(&own);
		return;
	}
	pthread_mutex_unlock(&closing->lock);
}

void closing_wait(struct closing *closing)
{
	pthread_mutex_lock(&closing->lock);
	while (closing->threads)
		pthread_cond_wait(&closing->done, &closing->lock);
	free(closing->sets);
	closing->sets = NULL;
	pthread_mutex_unlock(&closing->lock);
}
