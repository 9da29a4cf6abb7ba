/* What the thread of one sink does next. All of it under the lock. */
#include "worker_internal.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool worker_loss_wanted(const struct worker *worker, uint64_t now)
{
	return worker->all->encode_loss && losses_any(&worker->losses) && now >= worker->loss_ns;
}

/* Is it time for a loss event? */
static bool loss_due(const struct worker *worker, uint64_t now, bool stopping)
{
	if (worker->loss_line.len)
		return true;
	if (worker->partial || (worker->stalled && (worker->queue.events || worker->counters.spooled)))
		return false; /* the line that waits comes first */
	if (stopping && !worker->queue.events)
		return worker_loss_wanted(worker, SINK_NEVER) && !worker->loss_failed;
	return worker_loss_wanted(worker, now);
}

/* While stalled, whether to go on waiting (or to give up). */
static bool pausing(struct worker *worker, uint64_t now, bool stopping, struct step *step)
{
	if (now >= worker->retry_ns)
		return false;
	if (stopping && !worker->sink.ops->patient) {
		step->kind = STEP_END;
		if (worker->last_try)
			return true;
		worker->last_try = true;
		return false;
	}
	step->kind = worker_spool_more(worker) ? STEP_AGAIN : STEP_SLEEP;
	step->until_ns = min_u64(step->until_ns, min_u64(worker->retry_ns, worker_spool_until(worker)));
	worker->sleeping = worker->spool.spool != NULL;
	return true;
}

/* Lines of the spool: which were looked at is known since the turn. */
static void offer_spooled(struct worker *worker, struct step *step, size_t max)
{
	size_t n = worker->spool.n < max ? worker->spool.n : max;

	step->kind = STEP_SPOOLED;
	step->lines = worker->spool.lines;
	step->n = lines_within(step->lines, n, worker->sink.ops->batch_bytes);
	step->n = step->n ? step->n : 1;
	if (worker->sink.ops->async) {
		worker->counters.spooled -= step->n;
		worker->counters.in_flight += step->n;
	}
}

void worker_offer(struct worker *worker, struct step *step, size_t max)
{
	if (worker->spool.n && !worker->held) {
		offer_spooled(worker, step, max);
		return;
	}
	if (worker->spool.spool && !worker_spool_direct(worker))
		return;
	if (worker->spool.spool && !worker->spool.failing)
		max = 1; /* only the line that is partly out */
	step->n = queue_peek(&worker->queue, worker->array, max, worker->sink.ops->batch_bytes, &step->lines);
	if (!step->n)
		return;
	step->kind = STEP_LINES;
	worker->held = step->n;
	if (worker->sink.ops->async) {
		worker->offered = step->n;
		worker->counters.in_flight += step->n;
	}
}

struct step worker_next_step(struct worker *worker, uint64_t now)
{
	uint64_t deadline = atomic_load(&worker->deadline_ns);
	bool stopping = deadline != SINK_NEVER;
	struct step step = {.kind = STEP_END, .until_ns = deadline};

	worker->sleeping = false;
	if (worker->closed || now >= deadline)
		return step;
	if (worker->reopen) {
		worker->reopen = false;
		step.kind = STEP_REOPEN;
		return step;
	}
	if (worker->rotate) {
		worker->rotate = false;
		step.kind = STEP_ROTATE;
		return step;
	}
	if (pausing(worker, now, stopping, &step))
		return step;
	if (worker->sink.ops->tick_ns && now >= worker->tick_ns) {
		step.kind = STEP_TICK;
		return step;
	}
	if (loss_due(worker, now, stopping)) {
		step.kind = STEP_LOSS;
		return step;
	}
	/* A pipe that is always full always has half a line in it: end that line, then tell the loss. */
	worker_offer(worker, &step, worker->partial && worker_loss_wanted(worker, now) ? 1 : WORKER_LINES);
	if (!step.n && worker_spool_more(worker))
		step.kind = STEP_AGAIN;
	if (step.kind == STEP_AGAIN || step.n || (stopping && !worker->spool.returned))
		return step;
	step.kind = STEP_SLEEP;
	step.until_ns = min_u64(step.until_ns, worker_spool_until(worker));
	if (worker->sink.ops->tick_ns)
		step.until_ns = min_u64(step.until_ns, worker->tick_ns);
	if (worker_loss_wanted(worker, SINK_NEVER))
		step.until_ns = min_u64(step.until_ns, worker->loss_ns);
	worker->sleeping = true;
	return step;
}
