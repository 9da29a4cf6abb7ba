/*
 * One worker from inside: the part of it that other threads touch, under its
 * lock (worker.c), and the thread's own (worker_thread.c, worker_step.c).
 */
#ifndef CUDATAP_WORKER_INTERNAL_H
#define CUDATAP_WORKER_INTERNAL_H

#include <pthread.h>

#include "worker.h"

struct spool;

#define WORKER_LINES 1024 /* in one write */

/* The spool of a sink that has one: the lines go from the queue into it, and from there to write(). */
struct worker_spool {
	struct spool *spool; /* NULL: the sink has none */
	const char *path;
	const struct sink_origin *own, *origin; /* this run, whoever wrote the lines below */
	const struct line *lines;               /* next to be written, looked at outside of the lock */
	size_t n;
	uint64_t returned;            /* lines given back since the last rewind */
	uint64_t rewind_ns, pause_ns; /* when to rewind, and the pause before it */
	uint64_t retry_ns;            /* when failing: next try to append */
	uint64_t quiet_ns[3];         /* no further message of a kind before */

	/* under the lock */
	bool failing; /* it takes no lines: they wait in the queue, and what does not fit there is lost */
	enum sink_reason reason;
};

struct worker {
	struct sink sink;
	const struct config_sink *config;
	struct sink_origin own; /* this run */
	struct workers *all;
	pthread_t thread;
	_Atomic uint64_t deadline_ns; /* SINK_NEVER: no stop was asked */
	enum sink_when_full when_full;
	uint64_t block_timeout_ns;
	int wake_fd;
	bool opened, started;
	atomic_bool waits; /* for worker_go() */
	atomic_bool ended;
	bool current, outside_gone; /* under all->lock */

	pthread_mutex_t lock; /* guards from here ... */
	struct queue queue;
	struct sink_counters counters; /* but for queued */
	struct losses losses;          /* not yet told */
	size_t held;    /* lines at the queue's front in the hands of write(): nobody else may take them */
	size_t offered; /* of these, in flight already: those of async kinds */
	enum sink_reason closed_reason, stalled_reason;
	bool closed;   /* nothing is queued any more: lines are lost for closed_reason */
	bool stalled;  /* what does not fit is lost for stalled_reason */
	bool sleeping; /* a push must wake it */
	bool reopen, rotate;
	bool waited_out; /* the reader waited for room in vain: not again before lines go out */
	bool waiting;    /* the reader waits */
	pthread_cond_t room_made;
	/* ... to here. The rest is the worker thread's. */

	bool gone;                   /* the outside has gone */
	bool wants_exit;             /* and cudatap is to end for it */
	bool partial;                /* something is partly out: nothing else may come in between */
	bool told;                   /* a message about this stall */
	bool last_try;               /* while stopping */
	uint64_t quiet_ns;           /* no further message before */
	uint64_t retry_ns, pause_ns; /* when stalled: next try, and the pause before it */
	uint64_t finish_ns;          /* sink_poll()'s deadline while finishing a line */
	uint64_t tick_ns;            /* next tick */
	uint64_t loss_ns;            /* earliest next loss event */
	struct sink_loss loss;       /* being told while loss_line.len > 0 */
	struct line loss_line;
	bool loss_failed; /* it could not be encoded */
	struct worker_spool spool;
	struct line array[WORKER_LINES];
	char loss_text[FANOUT_MAX_LINE];
};

/* Under the lock. */

/** worker_drop - count lost lines and remember to tell */
void worker_drop(struct worker *worker, enum sink_reason reason, uint64_t n, uint64_t first, uint64_t last);
/** worker_close - from now on everything is lost for @reason, beginning with what is queued */
void worker_close(struct worker *worker, enum sink_reason reason);

/* ---- worker_spool.c: what differs for a sink with a spool ---- */

int worker_spool_open(struct worker *worker, char *error, size_t error_size);
/** worker_spool_turn - lines from the queue into the spool, and a look at the next ones */
void worker_spool_turn(struct worker *worker);
/** worker_spool_wait - likewise, before waiting in a write; returns until when at most */
uint64_t worker_spool_wait(struct worker *worker);
/** worker_spool_write - lines out of the spool to the sink, and account for what became of them */
void worker_spool_write(struct worker *worker, const struct line *lines, size_t n);
/** worker_origin - tell the kind whose lines come now */
void worker_origin(struct worker *worker, const struct sink_origin *origin);
/** worker_spool_end - what is still queued goes into the spool, which is closed */
void worker_spool_end(struct worker *worker);

/* Under the lock. */

/** worker_spool_more - are there lines that the spool would take now? */
bool worker_spool_more(const struct worker *worker);
/** worker_spool_until - when there is something to do without anybody's waking us */
uint64_t worker_spool_until(const struct worker *worker);
/** worker_spool_direct - may lines of the queue be written without having been in the spool? */
bool worker_spool_direct(const struct worker *worker);

/* ---- worker_step.c: what comes next; under the lock ---- */

/* The thread's next step, and what it needs. */
enum step_kind {
	STEP_SLEEP,
	STEP_AGAIN, /* there is something new for the spool */
	STEP_TICK,
	STEP_REOPEN,
	STEP_ROTATE,
	STEP_LOSS,
	STEP_LINES,
	STEP_SPOOLED, /* lines out of the spool */
	STEP_END
};

struct step {
	enum step_kind kind;
	uint64_t until_ns; /* SLEEP */
	const struct line *lines;
	size_t n;
};

/** worker_next_step - what the thread is to do now */
struct step worker_next_step(struct worker *worker, uint64_t now);
/** worker_offer - the next lines to be written, if there are any (@step->n), @max at most */
void worker_offer(struct worker *worker, struct step *step, size_t max);
/** worker_loss_wanted - is there a loss to be told by @now? */
bool worker_loss_wanted(const struct worker *worker, uint64_t now);

/* ---- worker_thread.c ---- */

/** worker_state - how the result changes what happens to the lines to come; under the lock */
void worker_state(struct worker *worker, const struct sink_result *result);
/** worker_pace - stalled or flowing again: when to try next, and whom to tell */
void worker_pace(struct worker *worker, const struct sink_result *result);

/** worker_open - the spool and the outside; 0, or a negative errno and one sentence */
int worker_open(struct worker *worker, char *error, size_t error_size);

/** worker_signal - make an eventfd readable */
void worker_signal(int fd);

/** worker_main - the thread */
void *worker_main(void *arg);

#endif
