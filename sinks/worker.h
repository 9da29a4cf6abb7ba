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

/*
 * What the workers of one fan-out share. A worker is current from
 * workers_enter() to workers_leave(): it is given lines.
 */
struct workers {
	struct chunk_pool pool;
	fanout_loss_fn encode_loss;
	void *ctx;
	pthread_mutex_t lock;     /* guards the numbers */
	unsigned nrunning;        /* threads */
	unsigned ncurrent, ngone; /* current ones, and of these, those whose outside has gone */
	atomic_bool exit;         /* a sink wants cudatap to end */
	_Atomic enum fanout_patience patience;
	/* eventfds: readable when all current ones have gone or one wants to exit; when no thread runs;
	 * when one that is not current has ended */
	int gone_fd, ended_fd, left_fd;
};

/** workers_init - 0 or a negative errno */
int workers_init(struct workers *all);
void workers_destroy(struct workers *all);
/** workers_enter, workers_leave - the worker is given lines, or none any more. It need not have started. */
void workers_enter(struct worker *worker);
void workers_leave(struct worker *worker);

/* How a worker begins. */
enum worker_begin {
	WORKER_AT_ONCE,
	WORKER_WHEN_FREE, /* not before worker_go(): its outside is another one's until then */
};

/**
 * worker_new - a sink; the thread comes with worker_start()
 * @config: kept
 * @origin: copied, what it points to is kept; or NULL
 * @begin: WORKER_AT_ONCE: its outside is open now; otherwise the thread opens it, and tries again, as it does
 *	when the outside takes nothing, if that fails
 * @error: one sentence when the result is negative
 */
int worker_new(const struct config_sink *config, const struct sink_origin *origin, enum worker_begin begin,
	       struct workers *all, struct worker **ret_worker, char *error, size_t error_size);
/** worker_start - 0 or a negative errno; worker_free() is due in any case */
int worker_start(struct worker *worker);
/** worker_go - WORKER_WHEN_FREE: it may begin. Any thread. */
void worker_go(struct worker *worker);
/** worker_has_ended - the thread has; worker_join() will not wait. Any thread. */
bool worker_has_ended(const struct worker *worker);

/**
 * worker_push - append runs to the queue; what it does not take is counted as lost. Reader thread.
 * Waits for room only where the sink is configured so (when_full: block), up to its block_timeout.
 * @filtered, @rate_limited: events that were not for this sink, to be counted
 */
void worker_push(struct worker *worker, const struct queue_run *runs, size_t nruns, uint64_t filtered,
		 uint64_t rate_limited);
/** worker_stir - a reader that waits looks at all->patience again. Any thread. */
void worker_stir(struct worker *worker);
/** worker_lost - one event never became a line */
void worker_lost(struct worker *worker, enum sink_reason reason, uint64_t seq);

/* Any thread. */
const char *worker_name(const struct worker *worker);
const struct config_sink *worker_config(const struct worker *worker);
bool worker_is_running(const struct worker *worker); /* it was started, and not joined */
void worker_counters(struct worker *worker, struct sink_counters *ret_counters);
void worker_reopen(struct worker *worker);
void worker_rotate(struct worker *worker);
void worker_stop(struct worker *worker, uint64_t deadline_ns);

/** worker_join - join a thread that has ended (worker_has_ended())
 * Returns false if it has not, being stuck in the kernel: it is left behind, what it holds is counted
 * as lost, and neither it nor the pool may be freed. */
bool worker_join(struct worker *worker);

/** worker_free - closes the outside of a worker that never started. NULL is fine. */
void worker_free(struct worker *worker);

/** worker_now - CLOCK_MONOTONIC nanoseconds */
uint64_t worker_now(void);

#endif
