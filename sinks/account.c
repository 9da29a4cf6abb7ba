/* Counters of a sink, reasons of loss, and losses not yet told. */
#include "account.h"

#include <assert.h>

const char *const sink_reason_names[SINK_NREASONS] = {
	[SINK_QUEUE_FULL] = "queue_full",
	[SINK_TOO_LARGE] = "too_large",
	[SINK_DISK_FULL] = "disk_full",
	[SINK_IO_ERROR] = "io_error",
	[SINK_PIPE_CLOSED] = "pipe_closed",
	[SINK_UNREACHABLE] = "unreachable",
	[SINK_TIMED_OUT] = "timed_out",
	[SINK_REJECTED] = "rejected",
	[SINK_AUTH] = "auth",
	[SINK_FATAL] = "fatal",
	[SINK_SHUTDOWN] = "shutdown",
	[SINK_ENCODE_ERROR] = "encode_error",
	[SINK_SPOOL_FULL] = "spool_full",
	[SINK_SPOOL_CORRUPT] = "spool_corrupt",
};

uint64_t sink_counters_dropped(const struct sink_counters *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < SINK_NREASONS; i++)
		sum += c->dropped[i];
	return sum;
}

static_assert(sizeof(struct sink_counters) % sizeof(uint64_t) == 0, "they are all of one type");

void sink_counters_add(struct sink_counters *to, const struct sink_counters *more)
{
	const uint64_t *from = (const uint64_t *)more;
	uint64_t *sums = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sums); i++)
		sums[i] += from[i];
}

bool sink_counters_check(const struct sink_counters *c)
{
	return c->received + c->recovered + c->taken_over ==
	       c->delivered + sink_counters_dropped(c) + c->unknown + c->filtered + c->rate_limited +
		       c->queued + c->in_flight + c->spooled + c->handed_over;
}

void losses_add(struct losses *losses, enum sink_reason reason, uint64_t n, uint64_t seq_first,
		uint64_t seq_last)
{
	typeof(losses->by_reason[0]) *loss = &losses->by_reason[reason];

	if (!n)
		return;
	loss->count += n;
	if (seq_first && (!loss->seq_first || seq_first < loss->seq_first))
		loss->seq_first = seq_first;
	if (seq_last > loss->seq_last)
		loss->seq_last = seq_last;
}

bool losses_take(struct losses *losses, struct sink_loss *ret_loss)
{
	for (unsigned i = 0; i < SINK_NREASONS; i++) {
		unsigned reason = (losses->next + i) % SINK_NREASONS;
		typeof(losses->by_reason[0]) *loss = &losses->by_reason[reason];

		if (!loss->count)
			continue;
		ret_loss->reason = reason;
		ret_loss->count = loss->count;
		ret_loss->seq_first = loss->seq_first;
		ret_loss->seq_last = loss->seq_last;
		*loss = (typeof(*loss)){0};
		losses->next = reason + 1;
		return true;
	}
	return false;
}

bool losses_any(const struct losses *losses)
{
	for (int i = 0; i < SINK_NREASONS; i++)
		if (losses->by_reason[i].count)
			return true;
	return false;
}
