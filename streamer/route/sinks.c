/* The counters of the sinks, as events tell them. */
#include "stream.h"

#include "../../sinks/fanout.h"

#define REMOVED "(removed)" /* no sink can have this name */

static json_t *sink_object(const struct sink_counters *c)
{
	json_t *dropped = json_object(), *object;

	for (int r = 0; r < SINK_NREASONS; r++)
		if (c->dropped[r])
			json_object_set_new(dropped, sink_reason_names[r],
					    json_integer((json_int_t)c->dropped[r]));
	object =
		json_pack("{sI sI sI so sI sI sI sI sI sI}", "received", (json_int_t)c->received, "recovered",
			  (json_int_t)c->recovered, "delivered", (json_int_t)c->delivered, "dropped", dropped,
			  "unknown", (json_int_t)c->unknown, "filtered", (json_int_t)c->filtered,
			  "rate_limited", (json_int_t)c->rate_limited, "queued", (json_int_t)c->queued,
			  "in_flight", (json_int_t)c->in_flight, "spooled", (json_int_t)c->spooled);
	if (c->taken_over)
		json_object_set_new(object, "taken_over", json_integer((json_int_t)c->taken_over));
	if (c->handed_over)
		json_object_set_new(object, "handed_over", json_integer((json_int_t)c->handed_over));
	return object;
}

/* Over a long time sinks of any number of names may come and go, but a line has to hold them all. */
json_t *stream_sinks(const struct stream *stream)
{
	struct fanout *fanout = stream_fanout(stream);
	size_t n = fanout_nsinks(fanout), nremoved = 0;
	struct sink_counters removed = {0}, c;
	json_t *all = json_object();

	for (size_t i = 0; i < n; i++) {
		fanout_counters(fanout, i, &c);
		if (n > FANOUT_MAX_SINKS && fanout_sink_is_removed(fanout, i)) {
			sink_counters_add(&removed, &c);
			nremoved++;
		} else {
			json_object_set_new(all, fanout_sink_name(fanout, i), sink_object(&c));
		}
	}
	if (nremoved)
		json_object_set_new(all, REMOVED, sink_object(&removed));
	return all;
}

uint64_t stream_sinks_lost(const struct stream *stream)
{
	struct fanout *fanout = stream_fanout(stream);
	struct sink_counters c;
	uint64_t lost = 0;

	for (size_t i = 0; i < fanout_nsinks(fanout); i++) {
		fanout_counters(fanout, i, &c);
		lost += sink_counters_dropped(&c) + c.unknown;
	}
	return lost;
}
