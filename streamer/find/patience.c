/* One detached thread per call; who waits and the thread agree under one lock on whose the job is. */
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../monotonic.h"

#define PATIENCE_S 2
#define MOST       16 /* calls that do not return */
#define STACK_SIZE (256u << 10)

struct call {
	struct patience *patience;
	uint64_t about;
	void (*fn)(void *job);
	void (*drop)(void *job);
	void *job;
	bool returned, given_up;
	struct call *next; /* of those given up */
};

struct patience {
	pthread_mutex_t lock; /* guards the calls, and the rest */
	pthread_cond_t returned;
	struct call *given_up;
	unsigned n;
	bool abandoned; /* the last call frees it */
	int fd;
};

struct patience *patience_new(void)
{
	struct patience *patience = calloc(1, sizeof(*patience));

	if (!patience)
		return NULL;
	patience->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (patience->fd < 0) {
		free(patience);
		return NULL;
	}
	pthread_mutex_init(&patience->lock, NULL);
	monotonic_cond_init(&patience->returned);
	return patience;
}

static void destroy(struct patience *patience)
{
	pthread_cond_destroy(&patience->returned);
	pthread_mutex_destroy(&patience->lock);
	close(patience->fd);
	free(patience);
}

void patience_free(struct patience *patience)
{
	bool last;

	if (!patience)
		return;
	pthread_mutex_lock(&patience->lock);
	last = !patience->n;
	patience->abandoned = true;
	pthread_mutex_unlock(&patience->lock);
	if (last)
		destroy(patience);
}

int patience_fd(const struct patience *patience)
{
	return patience->fd;
}

/* Under the lock. Returns whether the call is the last one of a patience that nobody has any more. */
static bool take_out(struct call *call)
{
	struct patience *patience = call->patience;
	struct call **at = &patience->given_up;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	patience->n--;
	eventfd_write(patience->fd, 1);
	return patience->abandoned && !patience->n;
}

static void *call_main(void *arg)
{
	struct call *call = arg;
	struct patience *patience = call->patience;
	bool given_up, last = false;

	call->fn(call->job);
	pthread_mutex_lock(&patience->lock);
	call->returned = true;
	given_up = call->given_up;
	if (given_up)
		last = take_out(call);
	else
		pthread_cond_broadcast(&patience->returned);
	pthread_mutex_unlock(&patience->lock);
	if (given_up) { /* else all of it is the caller's again */
		call->drop(call->job);
		free(call);
	}
	if (last)
		destroy(patience);
	return NULL;
}

static int start(struct call *call)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, call_main, call);
	pthread_attr_destroy(&attr);
	return -err;
}

/* Returns 0, or -ETIMEDOUT: the call is not ours any more. */
static int wait_for(struct call *call)
{
	struct patience *patience = call->patience;
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&patience->lock);
	while (!call->returned && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&patience->returned, &patience->lock, &until);
	call->given_up = !call->returned;
	err = call->returned ? 0 : -ETIMEDOUT;
	if (err) {
		call->next = patience->given_up;
		patience->given_up = call;
		patience->n++;
	}
	pthread_mutex_unlock(&patience->lock);
	return err;
}

static bool is_out(struct patience *patience, uint64_t about)
{
	const struct call *call;
	bool found;

	pthread_mutex_lock(&patience->lock);
	found = patience->n >= MOST;
	for (call = patience->given_up; call && !found; call = call->next)
		found = call->about == about;
	pthread_mutex_unlock(&patience->lock);
	return found;
}

static int begin(struct call call)
{
	struct call *copy = malloc(sizeof(*copy));
	int err = copy ? 0 : -ENOMEM;

	if (!err) {
		*copy = call;
		err = start(copy);
	}
	if (err) {
		free(copy);
		call.drop(call.job);
		return err;
	}
	err = wait_for(copy);
	if (!err)
		free(copy);
	return err;
}

int patience_call(struct patience *patience, uint64_t about, void (*fn)(void *job), void (*drop)(void *job),
		  void *job)
{
	if (!is_out(patience, about))
		return begin((struct call){
			.patience = patience, .about = about, .fn = fn, .drop = drop, .job = job});
	drop(job);
	return -EBUSY;
}
