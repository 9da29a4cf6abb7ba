/* One sink at work: its queue and counters, and what other threads may do with them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "../streamer/monotonic.h"
#include "spool.h"
#include "worker_internal.h"

uint64_t worker_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

const char *worker_name(const struct worker *worker)
{
	return worker->sink.name;
}

const struct config_sink *worker_config(const struct worker *worker)
{
	return worker->config;
}

bool worker_is_running(const struct worker *worker)
{
	return worker->started;
}

void worker_signal(int fd)
{
	const uint64_t one = 1;

	/* An eventfd refuses only at 2^64 - 1: it is readable then, which is all we want. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

/* ---- accounting, under the lock ---- */

void worker_drop(struct worker *worker, enum sink_reason reason, uint64_t n, uint64_t first, uint64_t last)
{
	worker->counters.dropped[reason] += n;
	if (!worker->closed)
		losses_add(&worker->losses, reason, n, first, last);
}

void worker_close(struct worker *worker, enum sink_reason reason)
{
	uint64_t kept;

	if (worker->closed)
		return;
	worker->closed = true;
	worker->closed_reason = reason;
	worker->counters.dropped[reason] += worker->queue.events - worker->offered;
	/* What is in flight out of a spool is in there still. */
	kept = worker->spool.spool ? spool_taken(worker->spool.spool) : 0;
	kept = kept < worker->counters.in_flight ? kept : worker->counters.in_flight;
	worker->counters.spooled += kept;
	worker->counters.dropped[SINK_SHUTDOWN] += worker->counters.in_flight - kept;
	worker->counters.in_flight = 0;
	pthread_cond_broadcast(&worker->room_made);
}

void sink_delivered(struct sink *sink, uint64_t n, uint64_t bytes)
{
	struct worker *worker = sink->worker;

	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		worker->counters.in_flight -= n;
		worker->counters.delivered += n;
		worker->counters.bytes += bytes;
	}
	pthread_mutex_unlock(&worker->lock);
}

void sink_unknown(struct sink *sink, uint64_t n)
{
	struct worker *worker = sink->worker;

	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		worker->counters.in_flight -= n;
		worker->counters.unknown += n;
	}
	pthread_mutex_unlock(&worker->lock);
}

void sink_dropped(struct sink *sink, enum sink_reason reason, uint64_t n, uint64_t seq_first,
		  uint64_t seq_last)
{
	struct worker *worker = sink->worker;

	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		worker->counters.in_flight -= n;
		worker_drop(worker, reason, n, seq_first, seq_last);
	}
	pthread_mutex_unlock(&worker->lock);
}

void worker_counters(struct worker *worker, struct sink_counters *ret_counters)
{
	pthread_mutex_lock(&worker->lock);
	*ret_counters = worker->counters;
	ret_counters->queued = worker->closed ? 0 : worker->queue.events - worker->offered;
	pthread_mutex_unlock(&worker->lock);
}

/* ---- the reader's side ---- */

/* Why there is no room. */
static enum sink_reason full_reason(const struct worker *worker)
{
	if (worker->closed)
		return worker->closed_reason;
	if (worker->spool.spool)
		return worker->spool.failing ? worker->spool.reason : SINK_QUEUE_FULL;
	return worker->stalled ? worker->stalled_reason : SINK_QUEUE_FULL;
}

static bool make_room(struct worker *worker, size_t wanted)
{
	uint64_t first, last;
	size_t n = queue_evict(&worker->queue, worker->held, wanted, &first, &last);

	if (n)
		worker_drop(worker, full_reason(worker), n, first, last);
	return n;
}

/* Until some lines have gone out or the time is up. */
static bool wait_for_room(struct worker *worker, uint64_t *deadline_ns)
{
	struct timespec ts;

	if (worker->waited_out || atomic_load(&worker->all->patience) != FANOUT_WAITS)
		return false;
	if (!*deadline_ns)
		*deadline_ns = worker_now() + worker->block_timeout_ns;
	ts.tv_sec = (time_t)(*deadline_ns / 1000000000ull);
	ts.tv_nsec = (long)(*deadline_ns % 1000000000ull);
	if (worker->sleeping) {
		worker->sleeping = false;
		worker_signal(worker->wake_fd);
	}
	worker->waiting = true;
	if (pthread_cond_timedwait(&worker->room_made, &worker->lock, &ts))
		worker->waited_out = true;
	worker->waiting = false;
	return !worker->waited_out;
}

static bool more_room(struct worker *worker, size_t wanted, uint64_t *deadline_ns)
{
	switch (worker->when_full) {
	case SINK_DROP_OLDEST:
		return make_room(worker, wanted);
	case SINK_BLOCK:
		return wait_for_room(worker, deadline_ns);
	default:
		return false;
	}
}

static size_t push(struct worker *worker, struct chunk *chunk, uint32_t first, size_t count)
{
	bool beyond = worker->when_full == SINK_BLOCK && !worker->waited_out &&
		      atomic_load(&worker->all->patience) == FANOUT_EXCEEDS;

	return beyond ? queue_push_beyond(&worker->queue, chunk, first, count)
		      : queue_push(&worker->queue, chunk, first, count);
}

static void push_run(struct worker *worker, const struct queue_run *run, uint64_t *deadline_ns)
{
	const struct line *lines = &run->chunk->lines[run->first];
	size_t taken = 0;

	do {
		uint32_t first = run->first + (uint32_t)taken;
		size_t left = run->count - taken, n;

		n = worker->closed ? 0 : push(worker, run->chunk, first, left);
		worker->counters.received += n;
		taken += n;
	} while (taken < run->count && !worker->closed && more_room(worker, run->count - taken, deadline_ns));
	worker->counters.received += run->count - taken;
	if (taken < run->count)
		worker_drop(worker, full_reason(worker), run->count - taken, lines[taken].meta.seq,
			    lines[run->count - 1].meta.seq);
}

void worker_push(struct worker *worker, const struct queue_run *runs, size_t nruns, uint64_t filtered,
		 uint64_t rate_limited)
{
	uint64_t deadline_ns = 0; /* of all waiting in this push */
	bool wake;

	pthread_mutex_lock(&worker->lock);
	worker->counters.received += filtered + rate_limited;
	worker->counters.filtered += filtered;
	worker->counters.rate_limited += rate_limited;
	for (size_t i = 0; i < nruns; i++)
		push_run(worker, &runs[i], &deadline_ns);
	wake = worker->sleeping && nruns;
	if (wake)
		worker->sleeping = false;
	pthread_mutex_unlock(&worker->lock);
	if (wake)
		worker_signal(worker->wake_fd);
}

void worker_stir(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	pthread_cond_broadcast(&worker->room_made);
	pthread_mutex_unlock(&worker->lock);
}

void worker_lost(struct worker *worker, enum sink_reason reason, uint64_t seq)
{
	pthread_mutex_lock(&worker->lock);
	worker->counters.received++;
	worker_drop(worker, reason, 1, seq, seq);
	pthread_mutex_unlock(&worker->lock);
}

void worker_reopen(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->reopen = true;
	pthread_mutex_unlock(&worker->lock);
	worker_signal(worker->wake_fd);
}

void worker_rotate(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->rotate = true;
	pthread_mutex_unlock(&worker->lock);
	worker_signal(worker->wake_fd);
}

void worker_stop(struct worker *worker, uint64_t deadline_ns)
{
	uint64_t old = atomic_load(&worker->deadline_ns);

	while (deadline_ns < old && !atomic_compare_exchange_weak(&worker->deadline_ns, &old, deadline_ns))
		;
	worker_signal(worker->wake_fd);
}

/* ---- life ---- */

int workers_init(struct workers *all)
{
	pthread_mutex_init(&all->lock, NULL);
	chunk_pool_init(&all->pool, UINT32_MAX);
	all->gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	all->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	all->left_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return all->gone_fd < 0 || all->ended_fd < 0 || all->left_fd < 0 ? -errno : 0;
}

void workers_destroy(struct workers *all)
{
	const int fds[] = {all->gone_fd, all->ended_fd, all->left_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	chunk_pool_destroy(&all->pool);
	pthread_mutex_destroy(&all->lock);
}

static bool all_gone(const struct workers *all)
{
	return all->ncurrent && all->ngone == all->ncurrent;
}

void workers_enter(struct worker *worker)
{
	struct workers *all = worker->all;

	pthread_mutex_lock(&all->lock);
	worker->current = true;
	all->ncurrent++;
	all->ngone += worker->outside_gone;
	if (all_gone(all))
		worker_signal(all->gone_fd);
	pthread_mutex_unlock(&all->lock);
}

void workers_leave(struct worker *worker)
{
	struct workers *all = worker->all;

	pthread_mutex_lock(&all->lock);
	worker->current = false;
	all->ncurrent--;
	all->ngone -= worker->outside_gone;
	if (all_gone(all))
		worker_signal(all->gone_fd);
	if (atomic_load(&worker->ended))
		worker_signal(all->left_fd);
	pthread_mutex_unlock(&all->lock);
}

int worker_open(struct worker *worker, char *error, size_t error_size)
{
	int r = worker->spool.spool ? 0 : worker_spool_open(worker, error, error_size);

	if (!r)
		r = worker->sink.ops->open(&worker->sink, error, error_size);
	worker->opened = !r;
	return r;
}

static void worker_init(struct worker *worker, const struct config_sink *config,
			const struct sink_origin *origin, struct workers *all)
{

	worker->all = all;
	worker->config = config;
	if (origin)
		worker->own = *origin;
	worker->sink = (struct sink){.name = config->name,
				     .ops = config->ops,
				     .options = config->options,
				     .format = config->format,
				     .max_events = config->queue.max_events,
				     .max_bytes = config->queue.max_bytes,
				     .origin = origin ? &worker->own : NULL,
				     .idle_fd = -1,
				     .worker = worker};
	atomic_init(&worker->deadline_ns, SINK_NEVER);
	worker->when_full = (enum sink_when_full)config->queue.when_full;
	worker->block_timeout_ns = config->queue.block_timeout_ns;
	pthread_mutex_init(&worker->lock, NULL);
	monotonic_cond_init(&worker->room_made);
	queue_init(&worker->queue, config->queue.max_events, config->queue.max_bytes, &all->pool);
	worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int worker_new(const struct config_sink *config, const struct sink_origin *origin, enum worker_begin begin,
	       struct workers *all, struct worker **ret_worker, char *error, size_t error_size)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r = 0;

	if (!worker) {
		snprintf(error, error_size, "sink %s: out of memory", config->name);
		return -ENOMEM;
	}
	worker_init(worker, config, origin, all);
	if (worker->wake_fd < 0) {
		r = -errno;
		snprintf(error, error_size, "sink %s: eventfd: %s", config->name, strerror(-r));
	} else if (begin == WORKER_WHEN_FREE) {
		atomic_store(&worker->waits, true);
	} else {
		r = worker_open(worker, error, error_size);
	}
	if (r) {
		worker_free(worker);
		return r;
	}
	*ret_worker = worker;
	return 0;
}

void worker_go(struct worker *worker)
{
	atomic_store(&worker->waits, false);
	worker_signal(worker->wake_fd);
}

bool worker_has_ended(const struct worker *worker)
{
	return atomic_load(&worker->ended);
}

static void count_running(struct workers *all, int change)
{
	pthread_mutex_lock(&all->lock);
	all->nrunning += (unsigned)change;
	pthread_mutex_unlock(&all->lock);
}

int worker_start(struct worker *worker)
{
	char name[16];
	sigset_t all, old;
	int r;

	count_running(worker->all, 1); /* beforehand: it may end at once */
	/* Signals are the main thread's; SIGPIPE and SIGXFSZ become errors of write(2). */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&worker->thread, NULL, worker_main, worker);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		count_running(worker->all, -1);
		return -r;
	}
	worker->started = true;
	snprintf(name, sizeof(name), "sink %s", worker->sink.name);
	pthread_setname_np(worker->thread, name);
	return 0;
}

bool worker_join(struct worker *worker)
{
	if (!worker->started)
		return true;
	if (atomic_load(&worker->ended)) {
		pthread_join(worker->thread, NULL);
		worker->started = false;
		return true;
	}
	pthread_mutex_lock(&worker->lock);
	worker_close(worker, SINK_SHUTDOWN);
	pthread_mutex_unlock(&worker->lock);
	log_msg("sink %s: a write to %s does not come back; leaving it behind", worker->sink.name,
		worker->sink.target ? worker->sink.target : worker->sink.ops->type);
	pthread_detach(worker->thread);
	return false;
}

void worker_free(struct worker *worker)
{
	if (!worker)
		return;
	if (!atomic_load(&worker->ended)) {
		if (worker->opened)
			worker->sink.ops->close(&worker->sink, 0);
		queue_destroy(&worker->queue);
	}
	spool_close(worker->spool.spool);
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	pthread_cond_destroy(&worker->room_made);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
