/* Bodies of events: from what the reader knows to JSON. Not on the hot path. */
#include "bodies.h"

#include <string.h>

#include "../encode/encode.h"
#include "../encode/timestamp.h"

static void set_text(json_t *body, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(body, key, encode_string(text));
}

static void set_number(json_t *body, const char *key, uint64_t number)
{
	json_object_set_new(body, key, json_integer((json_int_t)number));
}

static void set_time(json_t *body, const char *key, int64_t ts_ns)
{
	struct timestamp_cache cache = {0};
	char text[TIMESTAMP_LEN + 1];

	*put_timestamp(text, &cache, ts_ns) = 0;
	json_object_set_new(body, key, json_string(text));
}

json_t *body_open(const struct call *call, const struct thread *thread, int64_t start_ns)
{
	const struct table_row *row = call->row;
	json_t *body = json_object();

	set_number(body, "pid", thread->pid);
	if (thread->ns_pid)
		set_number(body, "ns_pid", thread->ns_pid);
	set_number(body, "tid", thread->tid);
	set_text(body, "comm", thread->comm);
	set_text(body, "thread", thread->thread);
	set_text(body, "api", row->api == TABLE_RUNTIME ? "runtime" : "driver");
	set_text(body, "family", table_families[row->family].name);
	set_text(body, "func", row->func);
	if (strcmp(row->symbol, row->func))
		set_text(body, "symbol", row->symbol);
	set_number(body, "depth", call->rec->depth);
	set_time(body, "call_ts", start_ns);
	set_number(body, "duration_ns", call->rec->end_ns - call->rec->start_ns);
	if (call->keys.present & 1u << TABLE_KEY_DEVICE)
		json_object_set_new(body, "device", json_integer(call->keys.device));
	return body;
}
