/* The thread of one sink: doing what comes next, and accounting for it. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../streamer/log.h"
#include "spool.h"
#include "worker_internal.h"

#define MS               1000000ull
#define WORKER_PAUSE_MIN (50 * MS)    /* after a stall, doubling ... */
#define WORKER_PAUSE_MAX (1000 * MS)  /* ... up to this */
#define WORKER_LOSS_NS   (1000 * MS)  /* between two loss events */
#define WORKER_QUIET_NS  (10000 * MS) /* between two messages about stalls */
#define WORKER_GRACE_NS  (200 * MS)   /* beyond the deadline, to finish a line that is partly out */

static void fd_clear(int fd)
{
	uint64_t value;

	if (read(fd, &value, sizeof(value)) < 0)
		return;
}

/* ---- waiting ---- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Wait for wake_fd and one more descriptor until a moment. Returns ppoll(2)'s result. */
static int worker_poll(struct worker *worker, struct pollfd *other, uint64_t until_ns)
{
	struct pollfd fds[2] = {{.fd = worker->wake_fd, .events = POLLIN}, *other};
	uint64_t now = worker_now(), left = until_ns > now ? until_ns - now : 0;
	struct timespec ts = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
	int r = ppoll(fds, 2, until_ns == SINK_NEVER ? NULL : &ts, NULL);

	if (r > 0 && fds[0].revents)
		fd_clear(worker->wake_fd);
	other->revents = r > 0 ? fds[1].revents : 0;
	return r < 0 ? -errno : r;
}

int sink_poll(struct sink *sink, int fd, short events, uint64_t timeout_ns)
{
	struct worker *worker = sink->worker;
	uint64_t now = worker_now(), end = timeout_ns == SINK_NEVER ? SINK_NEVER : now + timeout_ns;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		uint64_t deadline = worker->finish_ns ? worker->finish_ns : atomic_load(&worker->deadline_ns);
		uint64_t until = min_u64(deadline, end);
		int r;

		if (worker->spool.spool)
			until = min_u64(until, worker_spool_wait(worker));
		r = worker_poll(worker, &p, until);
		if (p.revents)
			return 1;
		if (r < 0 && r != -EINTR)
			return r;
		now = worker_now();
		deadline = worker->finish_ns ? worker->finish_ns : atomic_load(&worker->deadline_ns);
		if (now >= end || now >= deadline)
			return 0;
	}
}

static void stall_message(struct worker *worker, const struct sink_result *result, uint64_t now)
{
	const struct sink *sink = &worker->sink;

	if (worker->told || now < worker->quiet_ns)
		return;
	worker->told = true;
	worker->quiet_ns = now + WORKER_QUIET_NS;
	log_msg("sink %s: %s takes no lines: %s%s; they wait in the %s, what does not fit there is lost",
		sink->name, sink->target ? sink->target : sink->ops->type,
		result->detail  ? result->detail
		: result->error ? strerror(result->error)
				: sink_reason_names[result->reason],
		result->error == ENOSPC || result->error == EDQUOT ? "; free some space" : "",
		worker->spool.spool ? "spool" : "queue");
}

void worker_pace(struct worker *worker, const struct sink_result *result)
{
	uint64_t now = worker_now();

	worker->partial = result->partial;
	if (result->status == SINK_STALLED) {
		uint64_t twice = worker->pause_ns ? worker->pause_ns * 2 : WORKER_PAUSE_MIN;

		worker->pause_ns = min_u64(twice, WORKER_PAUSE_MAX);
		worker->retry_ns = now + worker->pause_ns;
		stall_message(worker, result, now);
		return;
	}
	worker->retry_ns = 0;
	if (!result->taken)
		return;
	worker->pause_ns = 0;
	worker->last_try = false;
	if (worker->told)
		log_msg("sink %s: %s takes lines again", worker->sink.name,
			worker->sink.target ? worker->sink.target : worker->sink.ops->type);
	worker->told = false;
}

void worker_state(struct worker *worker, const struct sink_result *result)
{
	if (result->status == SINK_GONE || result->status == SINK_EXIT) {
		worker->gone = true;
		worker->wants_exit = result->status == SINK_EXIT;
		worker_close(worker, result->reason);
	} else if (result->status == SINK_STALLED) {
		worker->stalled_reason = result->reason;
	}
	if (result->status == SINK_STALLED || result->taken)
		worker->stalled = result->status == SINK_STALLED;
	if (result->taken || result->lost)
		worker->waited_out = false;
	if (worker->waiting)
		pthread_cond_signal(&worker->room_made);
}

/* Account for what write() did with the first lines of the queue. */
static void worker_settle(struct worker *worker, const struct step *step, struct sink_result *result)
{
	const struct line *lost;
	uint64_t first = 0, last = 0, bytes;

	result->taken = result->taken < step->n ? result->taken : step->n;
	result->lost = result->lost < step->n - result->taken ? result->lost : step->n - result->taken;
	if (result->lost) {
		lost = &step->lines[result->taken];
		first = lost[0].meta.seq;
		last = lost[result->lost - 1].meta.seq;
	}
	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		bytes = worker->queue.bytes;
		queue_consume(&worker->queue, result->taken);
		bytes -= worker->queue.bytes;
		if (worker->sink.ops->async) {
			worker->counters.in_flight -= step->n - result->taken;
			worker->offered = 0;
		} else {
			worker->counters.delivered += result->taken;
			worker->counters.bytes += bytes;
		}
		queue_consume(&worker->queue, result->lost);
		worker->held = result->partial; /* half a line is out: it must be there next time */
		worker_drop(worker, result->reason, result->lost, first, last);
		worker_state(worker, result);
	}
	pthread_mutex_unlock(&worker->lock);
	worker_pace(worker, result);
}

/* A result that is not about queued lines. */
static void worker_settle_other(struct worker *worker, const struct sink_result *result, bool told_loss)
{
	pthread_mutex_lock(&worker->lock);
	if (!worker->closed) {
		worker->counters.loss_events += told_loss;
		worker_state(worker, result);
	}
	pthread_mutex_unlock(&worker->lock);
	worker_pace(worker, result);
}

static void do_lines(struct worker *worker, const struct step *step)
{
	struct sink_result result;

	if (step->kind == STEP_SPOOLED) {
		worker_spool_write(worker, step->lines, step->n);
		return;
	}
	worker_origin(worker, worker->spool.own);
	result = worker->sink.ops->write(&worker->sink, step->lines, step->n);
	worker_settle(worker, step, &result);
}

/* It could not be told now: it is told later, with what comes to it. */
static void keep_loss(struct worker *worker)
{
	const struct sink_loss *loss = &worker->loss;

	pthread_mutex_lock(&worker->lock);
	losses_add(&worker->losses, loss->reason, loss->count, loss->seq_first, loss->seq_last);
	pthread_mutex_unlock(&worker->lock);
	worker->loss_failed = true;
	worker->loss_ns = worker_now() + WORKER_LOSS_NS;
}

/* Encode the loss whose turn it is; false when that fails, to be tried later. */
static bool make_loss(struct worker *worker)
{
	struct line_meta meta = {.row = UINT16_MAX};
	struct sink_loss *loss = &worker->loss;
	bool any;
	int len;

	pthread_mutex_lock(&worker->lock);
	any = losses_take(&worker->losses, loss);
	pthread_mutex_unlock(&worker->lock);
	if (!any)
		return false;
	loss->sink = worker->sink.name;
	len = worker->all->encode_loss(worker->all->ctx, worker->sink.format, loss, worker->loss_text,
				       sizeof(worker->loss_text), &meta);
	if (len > 0 && (size_t)len <= sizeof(worker->loss_text)) {
		meta.seq = 0;
		worker->loss_line =
			(struct line){.data = worker->loss_text, .len = (uint32_t)len, .meta = meta};
		return true;
	}
	keep_loss(worker);
	return false;
}

static void do_loss(struct worker *worker)
{
	struct sink_result result;

	if (!worker->loss_line.len && !make_loss(worker))
		return;
	worker_origin(worker, worker->spool.own);
	result = worker->sink.ops->write(&worker->sink, &worker->loss_line, 1);
	if (result.taken || result.lost) {
		worker->loss_line.len = 0;
		worker->loss_ns = worker_now() + WORKER_LOSS_NS;
	}
	if (result.lost && !result.taken)
		keep_loss(worker);
	worker_settle_other(worker, &result, result.taken > 0);
}

static void do_tick(struct worker *worker)
{
	const struct sink_ops *ops = worker->sink.ops;
	struct sink_result result;

	if (ops->tick_ns)
		worker->tick_ns = worker_now() + ops->tick_ns;
	result = ops->tick(&worker->sink);
	if (result.taken)
		worker->retry_ns = 0;
	result.taken = 0;
	if (result.status != SINK_DONE)
		worker_settle_other(worker, &result, false);
}

static void do_reopen(struct worker *worker)
{
	const struct sink *sink = &worker->sink;
	int r = sink->ops->reopen ? sink->ops->reopen(&worker->sink) : 0;

	if (r)
		log_msg("sink %s: cannot open %s again: %s; going on with the old one", sink->name,
			sink->target, strerror(-r));
	else
		worker->retry_ns = 0;
}

static void do_rotate(struct worker *worker)
{
	const struct sink *sink = &worker->sink;
	int r = sink->ops->rotate ? sink->ops->rotate(&worker->sink) : 0;

	if (r)
		log_msg("sink %s: cannot rotate %s: %s; going on with it", sink->name, sink->target,
			strerror(-r));
}

static void do_sleep(struct worker *worker, uint64_t until_ns)
{
	struct pollfd idle = {.fd = worker->sink.idle_fd, .events = worker->sink.idle_events};

	worker_poll(worker, &idle, until_ns);
	if (idle.revents && worker->sink.ops->tick)
		do_tick(worker);
}

/* A line that is partly out when the time is up gets a little more: half a line breaks its reader. */
static void finish_line(struct worker *worker)
{
	worker->finish_ns = worker_now() + WORKER_GRACE_NS;
	while (worker->partial && worker_now() < worker->finish_ns) {
		struct step step = {.kind = STEP_END};

		pthread_mutex_lock(&worker->lock);
		if (!worker->closed && !worker->loss_line.len)
			worker_offer(worker, &step, 1);
		pthread_mutex_unlock(&worker->lock);
		if (step.n)
			do_lines(worker, &step);
		else if (worker->loss_line.len)
			do_loss(worker);
		else
			break;
		if (worker->retry_ns)
			break;
	}
	worker->finish_ns = 0;
}

/* Is there a loss to be told, and time for it? */
static bool untold(struct worker *worker, uint64_t deadline)
{
	bool any;

	pthread_mutex_lock(&worker->lock);
	any = !worker->closed && !worker->loss_failed && worker_loss_wanted(worker, SINK_NEVER);
	pthread_mutex_unlock(&worker->lock);
	return any && worker_now() < deadline;
}

/* What an async kind has in flight may yet be lost: that is told behind everything else. */
static void flush_sink(struct worker *worker, uint64_t deadline)
{
	const struct sink_ops *ops = worker->sink.ops;
	bool told = false;

	ops->flush(&worker->sink, deadline);
	for (int i = 0; ops->async && i < SINK_NREASONS && untold(worker, deadline); i++) {
		do_loss(worker);
		told = true;
	}
	if (told)
		ops->flush(&worker->sink, deadline);
}

/* Under the lock: why what is still queued is lost. */
static enum sink_reason end_reason(const struct worker *worker)
{
	if (worker->spool.failing)
		return worker->spool.reason;
	return worker->stalled ? worker->stalled_reason : SINK_SHUTDOWN;
}

/* The last word: from here on the worker may be freed. */
static void say_ended(struct worker *worker)
{
	struct workers *all = worker->all;

	pthread_mutex_lock(&all->lock);
	worker->outside_gone = worker->gone;
	all->ngone += worker->gone && worker->current;
	if (worker->wants_exit)
		atomic_store(&all->exit, true);
	if ((worker->gone && worker->current && all->ngone == all->ncurrent) || worker->wants_exit)
		worker_signal(all->gone_fd);
	atomic_store(&worker->ended, true);
	if (!worker->current)
		worker_signal(all->left_fd);
	if (!--all->nrunning)
		worker_signal(all->ended_fd);
	pthread_mutex_unlock(&all->lock);
}

static void worker_end(struct worker *worker)
{
	struct sink *sink = &worker->sink;
	uint64_t deadline = atomic_load(&worker->deadline_ns);
	struct spool *spool;

	if (!worker->gone)
		finish_line(worker);
	if (!worker->gone && worker->opened && sink->ops->flush)
		flush_sink(worker, deadline);
	if (worker->spool.spool)
		worker_spool_end(worker);
	pthread_mutex_lock(&worker->lock);
	worker_close(worker, end_reason(worker));
	queue_destroy(&worker->queue);
	spool = worker->spool.spool;
	worker->spool.spool = NULL;
	pthread_mutex_unlock(&worker->lock);
	spool_close(spool);
	if (worker->opened)
		sink->ops->close(sink, deadline);
	say_ended(worker);
}

/* At a stop all is written: wait for what is in flight. May what came back meanwhile be tried again? */
static bool once_more(struct worker *worker)
{
	uint64_t deadline = atomic_load(&worker->deadline_ns);

	if (!worker->spool.spool || worker->gone || !worker->sink.ops->flush || worker_now() >= deadline)
		return false;
	worker->sink.ops->flush(&worker->sink, deadline);
	return worker->spool.returned && worker_now() < deadline;
}

/* Until the outside is no other sink's. Returns whether it was in time. */
static bool wait_for_turn(struct worker *worker)
{
	struct pollfd nothing = {.fd = -1};

	while (atomic_load(&worker->waits)) {
		uint64_t deadline = atomic_load(&worker->deadline_ns);

		if (worker_now() >= deadline)
			return false;
		worker_poll(worker, &nothing, deadline);
	}
	return true;
}

/* The outside cannot be opened: that is a stall like others. What its spool takes goes there meanwhile. */
static void wait_to_open(struct worker *worker, int error)
{
	const struct sink_result closed = {.status = SINK_STALLED,
					   .reason = error == -ENOSPC || error == -EDQUOT ? SINK_DISK_FULL
											  : SINK_IO_ERROR};
	struct pollfd nothing = {.fd = -1};

	pthread_mutex_lock(&worker->lock);
	worker_state(worker, &closed);
	pthread_mutex_unlock(&worker->lock);
	worker->told = true; /* by whoever knows what failed */
	worker_pace(worker, &closed);
	while (worker_now() < worker->retry_ns && atomic_load(&worker->deadline_ns) == SINK_NEVER) {
		uint64_t until = worker->spool.spool ? worker_spool_wait(worker) : SINK_NEVER;

		worker_poll(worker, &nothing, min_u64(until, worker->retry_ns));
	}
}

/*
 * Until the outside is this sink's, and open. Returns whether it is. Who has had to wait for it has no
 * predecessor any more that could stay in its place: it tries again, as one does that was open.
 */
static bool worker_begin(struct worker *worker)
{
	char error[512] = "";
	bool told = false;
	int r;

	if (worker->opened)
		return true;
	if (!wait_for_turn(worker))
		return false;
	while ((r = worker_open(worker, error, sizeof(error)))) {
		if (!told)
			log_msg("%s; trying again, events wait in the %s, what does not fit there is lost",
				error, worker->spool.spool ? "spool" : "queue");
		told = true;
		if (atomic_load(&worker->deadline_ns) != SINK_NEVER)
			break; /* that was the last time */
		wait_to_open(worker, r);
	}
	if (!r && told)
		log_msg("sink %s: it is open now", worker->sink.name);
	worker->told = false;
	worker->retry_ns = worker->pause_ns = 0;
	return !r;
}

static void worker_run(struct worker *worker)
{
	struct step step;

	do {
		uint64_t now = worker_now();

		if (worker->spool.spool)
			worker_spool_turn(worker);
		pthread_mutex_lock(&worker->lock);
		step = worker_next_step(worker, now);
		pthread_mutex_unlock(&worker->lock);
		switch (step.kind) {
		case STEP_SLEEP:
			do_sleep(worker, step.until_ns);
			break;
		case STEP_TICK:
			do_tick(worker);
			break;
		case STEP_REOPEN:
			do_reopen(worker);
			break;
		case STEP_ROTATE:
			do_rotate(worker);
			break;
		case STEP_LOSS:
			do_loss(worker);
			break;
		case STEP_LINES:
		case STEP_SPOOLED:
			do_lines(worker, &step);
			break;
		case STEP_AGAIN:
		case STEP_END:
			break;
		}
	} while (step.kind != STEP_END || once_more(worker));
}

void *worker_main(void *arg)
{
	struct worker *worker = arg;

	if (worker_begin(worker))
		worker_run(worker);
	worker_end(worker);
	return NULL;
}
