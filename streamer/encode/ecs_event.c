/*
 * Events that are no calls, in the format "ecs". Keys that have a field of
 * their own go there; all others, whatever later work adds, into
 * `cuda.details`, which takes anything as it has strings as leaves. So an
 * index with a closed mapping never refuses an event.
 */
#include <inttypes.h>
#include <stdio.h>

#include "ecs.h"

static const struct place {
	const char *key, *object, *name;
} places[] = {
	{"pid", "process", "pid"},
	{"comm", "process", "name"},
	{"exe", "process", "executable"},
	{"cmdline", "process", "command_line"},
	{"container_id", "container", "id"},
	{"exit_code", "process", "exit_code"},
	{"duration_ns", "event", "duration"},
	{"reason", "event", "reason"},
	{"first_ts", "event", "start"},
	{"last_ts", "event", "end"},
	{"path", "file", "path"},
	{"attach_id", "cuda", "attach_id"},
	{"build_id", "cuda", "build_id"},
	{"soname", "cuda", "soname"},
	{"apis", "cuda", "apis"},
	{"static", "cuda", "static"},
	{"major", "cuda", "major"},
	{"functions", "cuda", "functions"},
	{"failed", "cuda", "failed"},
	{"failed_error", "cuda", "failed_error"},
	{"since_mapping_ns", "cuda", "since_mapping_ns"},
	{"method", "cuda", "method"},
	{"version", "cuda", "version"},
	{"kernel_release", "cuda", "kernel_release"},
	{"command", "cuda", "command"},
	{"source", "cuda", "source"},
	{"sink", "cuda", "sink"},
	{"count", "cuda", "count"},
	{"seq_first", "cuda", "seq_first"},
	{"seq_last", "cuda", "seq_last"},
	{"step_ns", "cuda", "step_ns"},
};
#define NPLACES (sizeof(places) / sizeof(places[0]))

/* event.category and event.type, of the schema's closed lists */
static const struct {
	const char *category, *type;
} kinds[EVENT_NTYPES] = {
	[EVENT_START] = {"process", "start"},         [EVENT_STOP] = {"process", "end"},
	[EVENT_ATTACH] = {"library", "start"},        [EVENT_CLOCK] = {"host", "change"},
	[EVENT_RELOAD] = {"configuration", "change"},
};

static json_t *object_of(json_t *event, const char *name)
{
	json_t *object = json_object_get(event, name);

	if (object)
		return object;
	json_object_set_new(event, name, json_object());
	return json_object_get(event, name);
}

/* The same with strings as leaves. */
static json_t *as_text(const json_t *value)
{
	char number[64];
	const char *name;
	json_t *copy, *sub;
	size_t i;

	switch (json_typeof(value)) {
	case JSON_OBJECT:
		copy = json_object();
		json_object_foreach((json_t *)value, name, sub) json_object_set_new(copy, name, as_text(sub));
		return copy;
	case JSON_ARRAY:
		copy = json_array();
		json_array_foreach(value, i, sub) json_array_append_new(copy, as_text(sub));
		return copy;
	case JSON_STRING:
		return json_string(json_string_value(value));
	case JSON_INTEGER:
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return json_string(number);
	case JSON_REAL:
		snprintf(number, sizeof(number), "%.17g", json_real_value(value));
		return json_string(number);
	default:
		return json_string(json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
	}
}

static void set(json_t *event, const char *key, json_t *value)
{
	for (size_t i = 0; i < NPLACES; i++) {
		if (strcmp(places[i].key, key))
			continue;
		json_object_set(object_of(event, places[i].object), places[i].name, value);
		return;
	}
	json_object_set_new(object_of(object_of(event, "cuda"), "details"), key, as_text(value));
}

/* Variables are labels beside the constant fields, which come first. */
static void set_environ(json_t *event, const json_t *environ)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)environ, name, value)
	{
		json_t *labels = object_of(event, "labels");

		if (!json_object_get(labels, name))
			json_object_set(labels, name, value);
	}
}

static json_t *event_object(const struct encoder *encoder, enum event_type type, uint64_t seq)
{
	const char *name = event_type_names[type];
	const char *category = kinds[type].category ? kinds[type].category : "process";
	const char *what = kinds[type].type ? kinds[type].type : "info";
	char dataset[64], id[64];
	json_t *event;

	snprintf(dataset, sizeof(dataset), "cudatap.%s", name);
	event = json_pack("{ss s[s] s[s] ss ss ss}", "kind", "event", "category", category, "type", what,
			  "module", "cudatap", "dataset", dataset, "action", name);
	if (!seq)
		return event;
	snprintf(id, sizeof(id), "%.40s-%" PRIu64, encoder->run, seq);
	json_object_set_new(event, "id", encode_string(id));
	json_object_set_new(event, "sequence", json_integer((json_int_t)seq));
	return event;
}

int encode_ecs_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq, int64_t ts_ns,
		     char *out, struct line_meta *ret_meta)
{
	char ts[TIMESTAMP_LEN + PUT_SLACK], label[ECS_MAX_LABEL + 1];
	json_t *event, *value;
	const char *key;

	*put_timestamp(ts, &encoder->clock, ts_ns) = '\0';
	event = json_pack("{ss s{ss} so s{so}}", "@timestamp", ts, "ecs", "version", ECS_VERSION, "event",
			  event_object(encoder, type, seq), "host", "name", encode_string(encoder->host));
	for (size_t i = 0; i < encoder->nstatics; i++) {
		ecs_label(label, encoder->statics[i].name);
		json_object_set_new(object_of(event, "labels"), label,
				    encode_string(encoder->statics[i].value));
	}
	json_object_set_new(object_of(event, "cuda"), "run", encode_string(encoder->run));
	json_object_foreach(body, key, value) strcmp(key, "environ") ? set(event, key, value)
								     : set_environ(event, value);
	return encode_line_of(event, type, seq, ts_ns, out, ret_meta);
}
