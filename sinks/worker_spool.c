/*
 * A sink with a spool: every line goes from the queue into the spool as soon
 * as the thread sees it, also while it waits in a write, and comes out of it to
 * be written.
 *
 * A disk that takes nothing loses no line by itself: lines stay in the queue
 * then, and once all of the spool is out they go from there to the sink
 * directly. Only what the queue has no room for is lost (disk_full, io_error).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../streamer/log.h"
#include "spool.h"
#include "worker_internal.h"

#define MS        1000000ull
#define ROUNDS    64           /* batches into the spool before one is written */
#define RETRY_NS  (500 * MS)   /* after a failure to append */
#define PAUSE_MIN (50 * MS)    /* before lines that came back are tried again, doubling ... */
#define PAUSE_MAX (2000 * MS)  /* ... up to this */
#define QUIET_NS  (10000 * MS) /* between two messages of a kind */

enum { SAY_FAILING, SAY_FULL, SAY_CORRUPT };

static bool may_say(struct worker *worker, int what)
{
	uint64_t now = worker_now();

	if (now < worker->spool.quiet_ns[what])
		return false;
	worker->spool.quiet_ns[what] = now + QUIET_NS;
	return true;
}

/* ---- life ---- */

static void say_found(const struct worker *worker, uint64_t n)
{
	if (n)
		log_msg("sink %s: %" PRIu64 " events were left in spool %s; they go first", worker->sink.name,
			n, worker->spool.path);
}

/* Losses of the spool into the counters. Under the lock. */
static void account(struct worker *worker, struct spool_loss *full, struct spool_loss *corrupt)
{
	struct sink_counters *c = &worker->counters;

	if (!spool_losses(worker->spool.spool, full, corrupt) || worker->closed)
		return;
	c->spooled -= full->n + corrupt->n;
	worker_drop(worker, SINK_SPOOL_FULL, full->n, full->seq_first, full->seq_last);
	worker_drop(worker, SINK_SPOOL_CORRUPT, corrupt->n, corrupt->seq_first, corrupt->seq_last);
}

static void say_losses(struct worker *worker, const struct spool_loss *full, const struct spool_loss *corrupt)
{
	if (full->n && may_say(worker, SAY_FULL))
		log_msg("sink %s: spool %s is full: its oldest events are lost", worker->sink.name,
			worker->spool.path);
	if (corrupt->n && may_say(worker, SAY_CORRUPT))
		log_msg("sink %s: %" PRIu64 " events in spool %s were damaged or missing and are lost",
			worker->sink.name, corrupt->n, worker->spool.path);
}

int worker_spool_open(struct worker *worker, char *error, size_t error_size)
{
	const struct config_sink *config = worker->config;
	struct worker_spool *s = &worker->spool;
	struct spool_loss full = {0}, corrupt = {0};
	struct spool *spool = NULL;
	char why[384];
	int r;

	s->own = worker->sink.origin;
	if (!config->spool.path)
		return 0;
	s->path = config->spool.path;
	worker->sink.spooled = true;
	r = spool_open(s->path, config->spool.max_bytes, &worker->all->pool, s->own, &spool, why,
		       sizeof(why));
	if (r) {
		snprintf(error, error_size, "sink %s: %s", config->name, why);
		return r;
	}
	pthread_mutex_lock(&worker->lock);
	s->spool = spool;
	worker->counters.recovered = spool_recovered(spool);
	worker->counters.spooled = worker->counters.recovered;
	account(worker, &full, &corrupt);
	pthread_mutex_unlock(&worker->lock);
	say_found(worker, worker->counters.spooled);
	say_losses(worker, &full, &corrupt);
	return 0;
}

void worker_origin(struct worker *worker, const struct sink_origin *origin)
{
	if (worker->sink.origin == origin)
		return;
	worker->sink.origin = origin;
	if (worker->sink.ops->origin)
		worker->sink.ops->origin(&worker->sink);
}

/* ---- into the spool ---- */

static void append_failed(struct worker *worker, int error)
{
	bool full = error == -ENOSPC || error == -EDQUOT || error == -EFBIG;

	worker->spool.retry_ns = worker_now() + RETRY_NS;
	pthread_mutex_lock(&worker->lock);
	worker->spool.failing = true;
	worker->spool.reason = full ? SINK_DISK_FULL : SINK_IO_ERROR;
	pthread_mutex_unlock(&worker->lock);
	if (may_say(worker, SAY_FAILING))
		log_msg("sink %s: cannot write to spool %s: %s; events wait in the queue%s",
			worker->sink.name, worker->spool.path, strerror(-error),
			full ? "; free some space" : "");
}

static size_t take_queued(struct worker *worker, const struct line **ret_lines, bool waits)
{
	size_t n = 0;

	pthread_mutex_lock(&worker->lock);
	if (!worker->held && !worker->closed)
		n = queue_peek(&worker->queue, worker->array, WORKER_LINES, UINT32_MAX, ret_lines);
	worker->held = n ? n : worker->held;
	worker->sleeping = waits && !n && !worker->held;
	pthread_mutex_unlock(&worker->lock);
	return n;
}

/* One batch. Returns whether there may be more. */
static bool absorb(struct worker *worker, bool waits)
{
	struct spool_loss full = {0}, corrupt = {0};
	const struct line *lines;
	size_t n = take_queued(worker, &lines, waits), done;
	int error;

	if (!n)
		return false;
	done = spool_append(worker->spool.spool, lines, n, &error);
	pthread_mutex_lock(&worker->lock);
	worker->held = 0;
	worker->spool.failing &= !done;
	if (!worker->closed) {
		queue_consume(&worker->queue, done);
		worker->counters.spooled += done;
		worker->waited_out &= !done;
		if (worker->waiting)
			pthread_cond_signal(&worker->room_made);
	}
	account(worker, &full, &corrupt);
	pthread_mutex_unlock(&worker->lock);
	say_losses(worker, &full, &corrupt);
	if (error)
		append_failed(worker, error);
	return !error;
}

static void absorb_all(struct worker *worker, bool waits)
{
	if (worker->spool.failing && worker_now() < worker->spool.retry_ns)
		return;
	for (int i = 0; i < ROUNDS && absorb(worker, waits); i++)
		;
}

uint64_t worker_spool_wait(struct worker *worker)
{
	absorb_all(worker, true);
	return worker->spool.failing ? worker->spool.retry_ns : SINK_NEVER;
}

/* ---- out of it ---- */

static void look(struct worker *worker)
{
	struct worker_spool *s = &worker->spool;

	if (s->returned && !spool_taken(s->spool) && worker_now() >= s->rewind_ns) {
		spool_rewind(s->spool);
		s->returned = 0;
	}
	/* New lines must not overtake those that came back. */
	s->n = s->returned ? 0 : spool_peek(s->spool, &s->lines, &s->origin);
}

void worker_spool_turn(struct worker *worker)
{
	struct worker_spool *s = &worker->spool;
	struct spool_loss full = {0}, corrupt = {0};

	absorb_all(worker, false);
	look(worker);
	pthread_mutex_lock(&worker->lock);
	account(worker, &full, &corrupt);
	pthread_mutex_unlock(&worker->lock);
	say_losses(worker, &full, &corrupt);
	/* A process that dies while it has nothing to do leaves nothing to be delivered twice. */
	spool_save(s->spool, spool_empty(s->spool) && !spool_taken(s->spool) ? 0 : worker_now());
}

bool worker_spool_more(const struct worker *worker)
{
	return worker->spool.spool && worker->queue.events && !worker->held && !worker->spool.failing &&
	       !worker->closed;
}

uint64_t worker_spool_until(const struct worker *worker)
{
	const struct worker_spool *s = &worker->spool;
	uint64_t until = SINK_NEVER;

	if (s->spool && s->failing)
		until = s->retry_ns;
	if (s->spool && s->returned && !spool_taken(s->spool) && s->rewind_ns < until)
		until = s->rewind_ns;
	return until;
}

bool worker_spool_direct(const struct worker *worker)
{
	const struct worker_spool *s = &worker->spool;

	return worker->held || (s->failing && !s->returned && spool_empty(s->spool));
}

/* Under the lock. */
static void settle_counters(struct worker *worker, const struct line *lines, size_t n,
			    const struct sink_result *result)
{
	struct sink_counters *c = &worker->counters;
	const struct line *lost = &lines[result->taken];
	bool foreign = worker->spool.origin != worker->spool.own;

	if (worker->sink.ops->async) {
		c->in_flight -= n - result->taken;
		c->spooled += n - result->taken;
	} else if (result->taken) {
		c->spooled -= result->taken;
		c->delivered += result->taken;
		c->bytes += lines_bytes(lines, result->taken);
	}
	if (result->lost) {
		c->spooled -= result->lost;
		worker_drop(worker, result->reason, result->lost, foreign ? 0 : lost[0].meta.seq,
			    foreign ? 0 : lost[result->lost - 1].meta.seq);
	}
	worker_state(worker, result);
}

void worker_spool_write(struct worker *worker, const struct line *lines, size_t n)
{
	struct worker_spool *s = &worker->spool;
	struct sink_result result;
	size_t done;

	worker_origin(worker, s->origin);
	spool_pin(s->spool, true);
	result = worker->sink.ops->write(&worker->sink, lines, n);
	result.taken = result.taken < n ? result.taken : n;
	result.lost = result.lost < n - result.taken ? result.lost : n - result.taken;
	done = result.taken + result.lost;
	pthread_mutex_lock(&worker->lock);
	if (!worker->closed)
		settle_counters(worker, lines, n, &result);
	pthread_mutex_unlock(&worker->lock);
	spool_take(s->spool, done);
	spool_pin(s->spool, result.partial);
	for (size_t i = worker->sink.ops->async ? result.taken : 0; i < done; i++)
		spool_release(s->spool, lines[i].meta.spool);
	s->lines += done;
	s->n -= done;
	worker_pace(worker, &result);
}

void sink_release(struct sink *sink, const struct line_meta *meta)
{
	struct worker_spool *s = &sink->worker->spool;

	if (!s->spool || !meta->spool)
		return;
	s->pause_ns = 0;
	spool_release(s->spool, meta->spool);
}

void sink_give_back(struct sink *sink, const struct line_meta *meta)
{
	struct worker *worker = sink->worker;
	struct worker_spool *s = &worker->spool;

	if (!s->spool || !meta->spool)
		return;
	spool_give_back(s->spool, meta);
	if (!s->returned++) {
		s->pause_ns = s->pause_ns ? s->pause_ns * 2 : PAUSE_MIN;
		s->pause_ns = s->pause_ns < PAUSE_MAX ? s->pause_ns : PAUSE_MAX;
		s->rewind_ns = worker_now() + s->pause_ns;
	}
	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		worker->counters.in_flight--;
		worker->counters.spooled++;
	}
	pthread_mutex_unlock(&worker->lock);
}

void worker_spool_end(struct worker *worker)
{
	struct spool_loss full = {0}, corrupt = {0};

	pthread_mutex_lock(&worker->lock);
	worker->held = 0;
	pthread_mutex_unlock(&worker->lock);
	while (absorb(worker, false))
		;
	spool_end(worker->spool.spool);
	worker->spool.n = 0;
	pthread_mutex_lock(&worker->lock);
	account(worker, &full, &corrupt);
	pthread_mutex_unlock(&worker->lock);
	say_losses(worker, &full, &corrupt);
}
