/* Events that are no calls, in the format "otlp": one log record of cudatap itself per line. */
#include <inttypes.h>
#include <stdio.h>

#include "otlp.h"

/* SeverityNumber of the log data model; others are INFO */
static const struct {
	int number;
	const char *text;
} severities[EVENT_NTYPES] = {
	[EVENT_LOSS] = {13, "WARN"},
	[EVENT_CLOCK] = {13, "WARN"},
};

static json_t *any_value(const json_t *value);

static json_t *attribute(const char *prefix, const char *name, json_t *any)
{
	char key[256];

	snprintf(key, sizeof(key), "%s%s", prefix, name);
	return json_pack("{so so}", "key", encode_string(key), "value", any);
}

static json_t *any_text(const char *text)
{
	return json_pack("{so}", "stringValue", encode_string(text));
}

static json_t *any_integer(json_int_t value)
{
	char digits[32];

	snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, value);
	return json_pack("{ss}", "intValue", digits);
}

static json_t *any_object(const json_t *object)
{
	json_t *values = json_array(), *sub;
	const char *name;

	json_object_foreach((json_t *)object, name, sub)
		json_array_append_new(values, attribute("", name, any_value(sub)));
	return json_pack("{s{so}}", "kvlistValue", "values", values);
}

static json_t *any_array(const json_t *array)
{
	json_t *values = json_array(), *sub;
	size_t i;

	json_array_foreach(array, i, sub) json_array_append_new(values, any_value(sub));
	return json_pack("{s{so}}", "arrayValue", "values", values);
}

static json_t *any_value(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return any_object(value);
	case JSON_ARRAY:
		return any_array(value);
	case JSON_STRING:
		return any_text(json_string_value(value));
	case JSON_INTEGER:
		return any_integer(json_integer_value(value));
	case JSON_REAL:
		return json_pack("{sf}", "doubleValue", json_real_value(value));
	case JSON_NULL:
		return json_object();
	default:
		return json_pack("{sb}", "boolValue", json_is_true(value));
	}
}

/* As in otlp.c, but for the process. */
static json_t *resource(const struct encoder *encoder)
{
	json_t *attributes = json_array();
	const char *service = "cudatap";

	for (size_t i = 0; i < encoder->nstatics; i++)
		if (!strcmp(encoder->statics[i].name, OTLP_SERVICE))
			service = encoder->statics[i].value;
	json_array_append_new(attributes, attribute("", OTLP_SERVICE, any_text(service)));
	json_array_append_new(attributes, attribute("", "service.instance.id", any_text(encoder->run)));
	json_array_append_new(attributes, attribute("", "host.name", any_text(encoder->host)));
	for (size_t i = 0; i < encoder->nstatics; i++)
		if (strcmp(encoder->statics[i].name, OTLP_SERVICE))
			json_array_append_new(attributes, attribute("", encoder->statics[i].name,
								    any_text(encoder->statics[i].value)));
	return json_pack("{so}", "attributes", attributes);
}

static void add_variables(json_t *attributes, const json_t *environ)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)environ, name, value)
		json_array_append_new(attributes, attribute(OTLP_VARIABLE, name, any_value(value)));
}

static json_t *event_attributes(json_t *body, uint64_t seq)
{
	json_t *attributes = json_array(), *value;
	const char *name;

	if (seq)
		json_array_append_new(attributes, attribute("cuda.", "seq", any_integer((json_int_t)seq)));
	json_object_foreach(body, name, value)
	{
		if (!strcmp(name, "environ"))
			add_variables(attributes, value);
		else
			json_array_append_new(attributes,
					      attribute(strcmp(name, "pid") ? "cuda." : "process.", name,
							any_value(value)));
	}
	return attributes;
}

int encode_otlp_event(struct encoder *encoder, enum event_type type, json_t *body, uint64_t seq,
		      int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const char *text = severities[type].text ? severities[type].text : "INFO";
	char name[64], time[32];
	json_t *record, *event;

	snprintf(name, sizeof(name), "cudatap.%s", event_type_names[type]);
	snprintf(time, sizeof(time), "%" PRIu64, ts_ns > 0 ? (uint64_t)ts_ns : 0);
	record = json_pack("{ss ss si ss ss s{ss} so}", "timeUnixNano", time, "observedTimeUnixNano", time,
			   "severityNumber", severities[type].number ? severities[type].number : 9,
			   "severityText", text, "eventName", name, "body", "stringValue",
			   event_type_names[type], "attributes", event_attributes(body, seq));
	event = json_pack("{s[{so s[{s{ss} s[o]}]}]}", "resourceLogs", "resource", resource(encoder),
			  "scopeLogs", "scope", "name", OTLP_SCOPE, "logRecords", record);
	return encode_line_of(event, type, seq, ts_ns, out, ret_meta);
}
