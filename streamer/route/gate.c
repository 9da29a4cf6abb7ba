/* Which sinks a call is for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "rate.h"

/* A sink that does not take everything. */
struct door {
	const char *name;
	uint64_t sink; /* its bit */
	struct filter *filter;
	struct rate rate;
};

struct gate {
	size_t ndoors;
	struct door doors[];
};

static bool takes_all(const struct door *door)
{
	return !door->filter && !door->rate.per_second;
}

int gate_new(const struct config_sink *sinks, size_t n, struct gate **ret_gate)
{
	struct gate *gate = calloc(1, sizeof(*gate) + n * sizeof(gate->doors[0]));
	int r = gate ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !r; i++) {
		struct door *door = &gate->doors[gate->ndoors];

		door->name = sinks[i].name;
		door->sink = 1ull << i;
		rate_init(&door->rate, (uint64_t)sinks[i].rate_limit.events,
			  (uint64_t)sinks[i].rate_limit.burst);
		r = filter_make(&sinks[i].filter, &door->filter);
		gate->ndoors += !takes_all(door);
	}
	if (gate && (r || !gate->ndoors)) {
		gate_free(gate);
		gate = NULL;
	}
	if (!r)
		*ret_gate = gate;
	return r;
}

void gate_free(struct gate *gate)
{
	for (size_t i = 0; gate && i < gate->ndoors; i++)
		filter_free(gate->doors[i].filter);
	free(gate);
}

void gate_continue(struct gate *gate, const struct gate *before)
{
	for (size_t i = 0; gate && i < gate->ndoors; i++)
		for (size_t j = 0; before && j < before->ndoors; j++) {
			struct rate *rate = &gate->doors[i].rate;
			const struct rate *old = &before->doors[j].rate;

			if (!strcmp(gate->doors[i].name, before->doors[j].name) &&
			    rate->per_second == old->per_second && rate->full == old->full)
				*rate = *old;
		}
}

uint64_t gate_call(struct gate *gate, struct fanout *fanout, const struct call *call,
		   const struct thread *thread)
{
	uint64_t filtered = 0, limited = 0;

	if (!gate)
		return FANOUT_ALL;
	for (size_t i = 0; i < gate->ndoors; i++) {
		struct door *door = &gate->doors[i];

		if (door->filter && !filter_match(door->filter, call, thread))
			filtered |= door->sink;
		else if (door->rate.per_second && !rate_take(&door->rate, call->rec->end_ns))
			limited |= door->sink;
	}
	if (filtered)
		fanout_withhold(fanout, filtered, FANOUT_FILTERED);
	if (limited)
		fanout_withhold(fanout, limited, FANOUT_RATE_LIMITED);
	return ~(filtered | limited);
}
