/*
 * One sink at work: its queue, its counters and the thread that writes.
 *
 * The reader pushes runs of lines; the worker sleeps in poll(2) on an eventfd
 * (and on the sink's own idle_fd) and is woken only when it sleeps. One lock
 * guards queue, counters and losses, so that every snapshot of the counters
 * satisfies the equation of sink.h; it is taken once per push and twice per
 * written batch, never around a write.
 *
 * A worker ends when its outside is gone or when a stop was asked and all is
 * written or the deadline has passed. What comes later is counted as lost.
 */
#ifndef CUDATAP_WORKER_H
#define CUDATAP_WORKER_H

#include "account.h"
#include "fanout.h"
#include "queue.h"

/* What the workers of one fan-out share. */
struct workers {
	struct chunk_pool pool;
	const struct sink_origin *origin; /* or NULL */
	fanout_loss_fn encode_loss;
	void *ctx;
	atomic_uint n, ngone, nended;
	atomic_bool exit;      /* a sink wants cudatap to end */
	int gone_fd, ended_fd; /* eventfds: readable when all n are; gone_fd also for `exit` */
};

/**
 * worker_new - a sink with its outside open; the thread comes with worker_start()
 * @error: one sentence when the result is negative
 */
int worker_new(const struct config_sink *config, struct workers *all, struct worker **ret_worker, char *error,
	       size_t error_size);
/** worker_start - 0 or a negative errno; worker_free() is due in any case */
int worker_start(struct worker *worker);

/**
 * worker_push - append runs to the queue; what it does not take is counted as lost. Reader thread.
 * Waits for room only where the sink is configured so (when_full: block), up to its block_timeout.
 * @filtered, @rate_limited: events that were not for this sink, to be counted
 */
void worker_push(struct worker *worker, const struct queue_run *runs, size_t nruns, uint64_t filtered,
		 uint64_t rate_limited);
/** worker_lost - one event never became a line */
void worker_lost(struct worker *worker, enum sink_reason reason, uint64_t seq);

/* Any thread. */
const char *worker_name(const struct worker *worker);
void worker_counters(struct worker *worker, struct sink_counters *ret_counters);
void worker_reopen(struct worker *worker);
void worker_rotate(struct worker *worker);
void worker_stop(struct worker *worker, uint64_t deadline_ns);

/** worker_join - join a thread that has ended (workers.ended_fd)
 * Returns false if it has not, being stuck in the kernel: it is left behind, what it holds is counted
 * as lost, and neither it nor the pool may be freed. */
bool worker_join(struct worker *worker);

/** worker_free - closes the outside of a worker that never started. NULL is fine. */
void worker_free(struct worker *worker);

/** worker_now - CLOCK_MONOTONIC nanoseconds */
uint64_t worker_now(void);

#endif
