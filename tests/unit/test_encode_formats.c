/*
 * The formats "ecs" and "otlp" against "json", whose lines other tests hold
 * against the reference: random calls of every row of the API table. Each key
 * must stand where docs/formats.md says, with the same value, and nothing
 * else may be there; a key has one type in all lines. With CUDATAP_ECS_LINES
 * or CUDATAP_OTLP_LINES=FILE the lines are kept there, for a receiver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "encode_record.h"
#include "encode_reference.h"

#define ROUNDS 3

static const struct encode_static statics[] = {{"env", "prod"}, {"job.id", "a \"b\"\n\xff"}};

static const struct encoder_options options = {.run = "k3v9q2m7x0ab",
					       .host = "gpu07",
					       .args = true,
					       .nested = true,
					       .statics = statics,
					       .nstatics = 2};

/* ---- where a key of "json" is ---- */

/* The page's own tables: what it says is what is tested. */
#define PAGE "docs/formats.md"

struct place {
	char json[64], ecs[64], otlp[64];
};

/* constant fields, then the page's */
static struct place places[64] = {{"env", "labels.env", "env"}, {"job.id", "labels.job_id", "job.id"}};
static struct place others[64]; /* of events that are no calls */
static size_t nplaces = 2, nothers;

/* Rows "| `json` | `ecs` | `otlp` |" and, below them, "| `json` | `ecs` |"; cells of other text are empty. */
static int read_page(void)
{
	FILE *page = fopen(PAGE, "r");
	char line[1024];
	bool calls = true;

	if (!page)
		return -1;
	while (fgets(line, sizeof(line), page)) {
		struct place place = {0};
		int end = 0, cells = sscanf(line, "| `%63[^`]` | `%63[^`]` | `%63[^`]`%n", place.json,
					    place.ecs, place.otlp, &end);

		if (strstr(line, "| of other events |"))
			calls = false;
		if (cells < 2 || !strcmp(place.json, "json"))
			continue;
		/* more text behind the name: a place that depends */
		if (strcmp(line + end, " |\n"))
			place.otlp[0] = '\0';
		if (calls && nplaces < 64)
			places[nplaces++] = place;
		else if (nothers < 64)
			others[nothers++] = place;
	}
	fclose(page);
	return nplaces > 30 && nothers > 20 ? 0 : -1;
}

/* Takes the value at a path out of nested objects, and objects that are empty then. */
static json_t *take(json_t *object, const char *path)
{
	const char *dot = strchr(path, '.');
	char name[64];
	json_t *value, *sub;

	if (!dot) {
		value = json_incref(json_object_get(object, path));
		json_object_del(object, path);
		return value;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
	sub = json_object_get(object, name);
	value = take(sub, dot + 1);
	if (sub && !json_object_size(sub))
		json_object_del(object, name);
	return value;
}

static void expect_text(json_t *object, const char *path, const char *expected)
{
	json_t *value = take(object, path);

	if (!json_is_string(value) || strcmp(json_string_value(value), expected))
		fail_msg("%s is %s, not %s", path, value ? json_string_value(value) : "absent", expected);
	json_decref(value);
}

/* ---- types for ever ---- */

static json_t *ecs_types, *otlp_types;

static void one_type(json_t *types, const char *path, const char *type)
{
	const char *before = json_string_value(json_object_get(types, path));

	if (before && strcmp(before, type))
		fail_msg("%s is %s here and %s there", path, type, before);
	json_object_set_new(types, path, json_string(type));
}

static void note_types(json_t *types, const char *path, json_t *value)
{
	static const char *const names[] = {"object", "array", "string", "integer",
					    "real",   "true",  "true",   "null"};
	char sub_path[512];
	const char *name;
	json_t *sub;

	one_type(types, path, names[json_typeof(value)]);
	json_object_foreach(value, name, sub)
	{
		snprintf(sub_path, sizeof(sub_path), "%s.%s", path, name);
		/* the same parameter can be a number here and a structure there: strings are their leaves */
		if (strncmp(path, ".cuda.args", 10) && strncmp(path, ".cuda.out", 9))
			note_types(types, sub_path, sub);
	}
}

/* ---- values ---- */

/* "ecs" in args and out: leaves are strings. */
static void same_as_text(const json_t *json, const json_t *text)
{
	const char *name;
	json_t *sub;
	size_t i;

	if (json_is_object(json)) {
		assert_int_equal(json_object_size(json), json_object_size(text));
		json_object_foreach((json_t *)json, name, sub) same_as_text(sub, json_object_get(text, name));
	} else if (json_is_array(json)) {
		assert_int_equal(json_array_size(json), json_array_size(text));
		json_array_foreach(json, i, sub) same_as_text(sub, json_array_get(text, i));
	} else {
		assert_true(json_is_string(text));
		if (json_is_string(json))
			assert_true(json_equal(json, text));
		else if (json_is_true(json))
			assert_string_equal(json_string_value(text), "true");
		else if (json_is_null(json))
			assert_false(isfinite(strtod(json_string_value(text), NULL)));
		else
			assert_true(strtod(json_string_value(text), NULL) == json_number_value(json));
	}
}

static void same_dim(const json_t *array, const json_t *object)
{
	static const char *const names[] = {"x", "y", "z"};

	assert_int_equal(json_object_size(object), 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(reference_same(json_array_get(array, i), json_object_get(object, names[i])));
}

static void same_any(const json_t *json, json_t *any);

static void same_members(const json_t *json, const json_t *values)
{
	size_t i;
	json_t *sub;

	assert_int_equal(json_object_size(json), json_array_size(values));
	json_array_foreach(values, i, sub)
		same_any(json_object_get(json, json_string_value(json_object_get(sub, "key"))),
			 json_object_get(sub, "value"));
}

static void same_elements(const json_t *json, const json_t *values)
{
	size_t i;
	json_t *sub;

	assert_int_equal(json_array_size(json), json_array_size(values));
	json_array_foreach(values, i, sub) same_any(json_array_get(json, i), sub);
}

/* A decimal string; OTLP's integers end at 2^63 - 1. Lines with larger ones are read with reals (see
 * reference_parse()). */
static void same_integer(const json_t *json, const char *digits)
{
	char expected[32];

	assert_non_null(digits);
	snprintf(expected, sizeof(expected), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
	if (json_is_integer(json))
		assert_string_equal(digits, expected);
	else
		assert_true(strtod(digits, NULL) == json_number_value(json) ||
			    (json_number_value(json) >= 0x1p63 && !strcmp(digits, "9223372036854775807")));
}

/* OTLP's AnyValue: one member, its name the type. */
static void same_any(const json_t *json, json_t *any)
{
	const char *kind = json_object_iter_key(json_object_iter(any));
	json_t *value = json_object_iter_value(json_object_iter(any));

	assert_int_equal(json_object_size(any), 1);
	assert_non_null(json);
	if (!strcmp(kind, "stringValue"))
		assert_true(json_equal(json, value));
	else if (!strcmp(kind, "boolValue"))
		assert_true(json_is_true(json) && json_is_true(value));
	else if (!strcmp(kind, "arrayValue"))
		same_elements(json, json_object_get(value, "values"));
	else if (!strcmp(kind, "kvlistValue"))
		same_members(json, json_object_get(value, "values"));
	else if (!strcmp(kind, "intValue"))
		same_integer(json, json_string_value(value));
	else if (!strcmp(kind, "doubleValue") && json_is_null(json))
		assert_false(isfinite(strtod(json_string_value(value), NULL)));
	else if (!strcmp(kind, "doubleValue"))
		assert_true(json_number_value(json) == json_number_value(value));
	else
		fail_msg("%s is no kind of AnyValue", kind);
}

/* ---- "ecs" ---- */

static void check_ecs(const json_t *json, json_t *ecs, const struct thread *thread, uint64_t seq)
{
	static const char *const outcomes[] = {"success", "failure", "success", "unknown"};
	static const char *const statuses[] = {"ok", "error", "not_ready", "unfinished"};
	const char *status = json_string_value(json_object_get(json, "status"));
	char text[64];

	note_types(ecs_types, "", ecs);
	for (size_t i = 0; i < nplaces; i++) {
		json_t *expected = json_object_get(json, places[i].json), *value = take(ecs, places[i].ecs);

		if (!expected != !value)
			fail_msg("%s is %s", places[i].ecs, value ? "there" : "absent");
		if (json_is_array(expected))
			same_dim(expected, value);
		else if (json_is_object(expected))
			same_as_text(expected, value);
		else if (expected && !reference_same(expected, value))
			fail_msg("%s is not %s", places[i].ecs, places[i].json);
		json_decref(value);
	}
	for (int i = 0; i < 4; i++)
		if (!strcmp(status, statuses[i]))
			expect_text(ecs, "event.outcome", outcomes[i]);
	snprintf(text, sizeof(text), "%s-%" JSON_INTEGER_FORMAT, options.run, (json_int_t)seq);
	expect_text(ecs, "event.id", text);
	expect_text(ecs, "event.kind", "event");
	expect_text(ecs, "event.module", "cudatap");
	expect_text(ecs, "event.dataset", "cudatap.call");
	expect_text(ecs, "ecs.version", "8.17.0");
	json_decref(take(ecs, "event.category"));
	json_decref(take(ecs, "event.type"));
	if (json_object_get(json, "error")) {
		snprintf(text, sizeof(text), "%d", (int)json_number_value(json_object_get(json, "ret")));
		expect_text(ecs, "error.code", text);
	}
	if (thread->start_ns) {
		snprintf(text, sizeof(text), "%u", thread->uid);
		expect_text(ecs, "user.id", text);
	}
	if (json_object_size(ecs))
		fail_msg("more than there should be: %s", json_dumps(ecs, JSON_COMPACT));
}

/* ---- "otlp" ---- */

/* Attributes as an object; no key twice. */
static void add_attributes(json_t *all, const json_t *object)
{
	json_t *attribute;
	size_t i;

	json_array_foreach(json_object_get(object, "attributes"), i, attribute)
	{
		const char *key = json_string_value(json_object_get(attribute, "key"));
		json_t *value = json_object_get(attribute, "value");

		assert_int_equal(json_object_size(attribute), 2);
		if (json_object_get(all, key))
			fail_msg("%s is there twice", key);
		if (strncmp(key, "cuda.args.", 10) && strncmp(key, "cuda.out.", 9))
			one_type(otlp_types, key, json_object_iter_key(json_object_iter(value)));
		json_object_set(all, key, value);
	}
}

static void check_objects(const json_t *json, json_t *attributes, const char *name)
{
	const char *key;
	json_t *value, *any;
	char path[128];

	json_object_foreach(json_object_get(json, name), key, value)
	{
		snprintf(path, sizeof(path), "cuda.%s.%s", name, key);
		any = json_object_get(attributes, path);
		if (!any)
			fail_msg("%s is absent", path);
		same_any(value, any);
		json_object_del(attributes, path);
	}
}

static void check_span(const json_t *json, const json_t *span, const struct call *call, int64_t ts)
{
	bool failed = !strcmp(json_string_value(json_object_get(json, "status")), "error");
	json_t *status = json_object_get(span, "status"), *message = json_object_get(status, "message");
	uint64_t start = ts > 0 ? (uint64_t)ts : 0;
	char text[32];

	assert_int_equal(strlen(json_string_value(json_object_get(span, "traceId"))), 32);
	assert_int_equal(strlen(json_string_value(json_object_get(span, "spanId"))), 16);
	assert_int_equal(json_object_get(span, "parentSpanId") != NULL, call->rec->depth > 0);
	assert_true(json_equal(json_object_get(span, "name"), json_object_get(json, "func")));
	assert_int_equal(json_integer_value(json_object_get(span, "kind")), 1);
	snprintf(text, sizeof(text), "%" PRIu64, start);
	assert_string_equal(json_string_value(json_object_get(span, "startTimeUnixNano")), text);
	snprintf(text, sizeof(text), "%" PRIu64, start + (call->rec->end_ns - call->rec->start_ns));
	assert_string_equal(json_string_value(json_object_get(span, "endTimeUnixNano")), text);
	assert_int_equal(status != NULL, failed);
	if (!failed)
		return;
	assert_int_equal(json_integer_value(json_object_get(status, "code")), 2);
	assert_true(!message == !json_object_get(json, "error_message"));
	if (message)
		assert_true(json_equal(message, json_object_get(json, "error_message")));
}

static void check_attributes(const json_t *json, json_t *attributes, const struct thread *thread)
{
	const char *error = json_string_value(json_object_get(json, "error"));
	bool failed = !strcmp(json_string_value(json_object_get(json, "status")), "error");

	for (size_t i = 0; i < nplaces; i++) {
		json_t *expected = json_object_get(json, places[i].json), *any;

		if (!places[i].otlp[0])
			continue;
		any = json_object_get(attributes, places[i].otlp);
		if (!expected != !any)
			fail_msg("%s is %s", places[i].otlp, any ? "there" : "absent");
		if (any)
			same_any(expected, any);
		json_object_del(attributes, places[i].otlp);
	}
	check_objects(json, attributes, "args");
	check_objects(json, attributes, "out");
	if (error)
		expect_text(json_object_get(attributes, failed ? "error.type" : "cuda.error"), "stringValue",
			    error);
	json_object_del(attributes, failed ? "error.type" : "cuda.error");
	expect_text(json_object_get(attributes, "service.name"), "stringValue", "cudatap");
	json_object_del(attributes, "service.name");
	assert_int_equal(json_object_get(attributes, "process.user.id") != NULL, thread->start_ns > 0);
	json_object_del(attributes, "process.user.id");
	if (json_object_size(attributes))
		fail_msg("more than there should be: %s", json_dumps(attributes, JSON_COMPACT));
}

static void check_otlp(const json_t *json, const json_t *otlp, const struct thread *thread,
		       const struct call *call, int64_t ts)
{
	json_t *resource, *scope, *span, *attributes = json_object();

	assert_int_equal(json_unpack((json_t *)otlp, "{s[{s:o, s[{s:{s:s}, s[o!]!}!]}!]!}", "resourceSpans",
				     "resource", &resource, "scopeSpans", "scope", "name", &scope, "spans",
				     &span),
			 0);
	add_attributes(attributes, resource);
	add_attributes(attributes, span);
	check_span(json, span, call, ts);
	check_attributes(json, attributes, thread);
	json_decref(attributes);
}

/* ---- every row ---- */

enum { JSON, ECS, OTLP, NFORMATS };

static struct encoder *encoders[NFORMATS];
static FILE *files[NFORMATS];

static struct thread random_thread(uint64_t *random)
{
	struct thread thread = {
		.pid = (uint32_t)record_random_word(random),
		.tid = (uint32_t)record_random_word(random),
		.ns_pid = (uint32_t)(record_random(random) % 2 ? record_random(random) : 0),
		.uid = (uint32_t)record_random(random),
		.start_ns = record_random(random) % 2,
	};

	record_random_bytes(random, (unsigned char *)thread.comm, record_random(random) % 17, true);
	record_random_bytes(random, (unsigned char *)thread.thread, record_random(random) % 17, true);
	return thread;
}

static json_t *encode(int format, const struct call *call, struct thread *thread, uint64_t seq, int64_t ts)
{
	static char out[ENCODE_MAX_LINE];
	struct line_meta meta;
	size_t len = encode_call(encoders[format], call, thread, seq, ts, out, &meta), cut;
	json_t *event = reference_parse(out, len), *shorter;

	assert_non_null(event);
	if (files[format])
		fwrite(out, 1, len, files[format]);
	assert_int_equal(meta.seq, seq);
	assert_int_equal(meta.row, call->row_id);
	assert_int_equal(meta.pid, thread->pid);
	assert_int_equal(meta.type, EVENT_CALL);
	/* without its arguments, as a sink may cut it, it is a line as well; so it is with something behind
	 */
	cut = meta.args_off + meta.args_len;
	memmove(out + meta.args_off, out + cut, len - cut);
	len -= meta.args_len;
	strcpy(out + len - 2, ",\"truncated\":true}\n");
	shorter = reference_parse(out, strlen(out));
	assert_true(json_is_true(json_object_get(shorter, "truncated")));
	assert_null(strstr(out, "args"));
	json_decref(shorter);
	return event;
}

static void check_call(const struct call *call, uint64_t *random)
{
	struct thread thread = random_thread(random);
	uint64_t seq = record_random_word(random) / 4 + 1;
	/* OTLP knows no time before 1970, an index none after 2262 */
	int64_t ts = (int64_t)(record_random(random) >> 1);
	json_t *json = encode(JSON, call, &thread, seq, ts), *ecs = encode(ECS, call, &thread, seq, ts),
	       *otlp = encode(OTLP, call, &thread, seq, ts);

	check_otlp(json, otlp, &thread, call, ts);
	check_ecs(json, ecs, &thread, seq);
	json_decref(json);
	json_decref(ecs);
	json_decref(otlp);
	thread_drop_prefixes(&thread);
}

static void test_every_row(void **state)
{
	struct plan *plans = plan_all(plan_host_abi());
	uint64_t random = 88172645463325252;
	static struct record record;
	struct call call;

	for (int i = 0; i < NFORMATS; i++) {
		struct encoder_options one = options;

		one.format = encode_format_names[i];
		one.slot = (unsigned)i;
		encoders[i] = encoder_new(&one);
		assert_non_null(encoders[i]);
	}
	ecs_types = json_object();
	otlp_types = json_object();
	for (unsigned row = 0; row < table_nrows; row++) {
		for (int round = 0; round < ROUNDS; round++) {
			record_fill_random(&record, plans, row, &random);
			assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
			call.keys.kernel = "void \\\"k<int>\\\"(float*)";
			call.keys.kernel_len = (uint32_t)strlen(call.keys.kernel);
			check_call(&call, &random);
		}
	}
	print_message("%zu fields of ecs, %zu attributes of otlp beside args and out\n",
		      json_object_size(ecs_types), json_object_size(otlp_types));
	json_decref(ecs_types);
	json_decref(otlp_types);
	for (int i = 0; i < NFORMATS; i++)
		encoder_free(encoders[i]);
	free(plans);
}

/* Each key that the page names stands there; any other one among the details, as text. */
static void test_other_events(void **state)
{
	struct encoder_options one = options;
	static char out[ENCODE_MAX_LINE];
	struct encoder *encoder;
	struct line_meta meta;

	one.format = "ecs";
	encoder = encoder_new(&one);
	for (size_t i = 0; i <= nothers; i++) {
		bool known = i < nothers;
		json_t *body = json_pack("{sI}", known ? others[i].json : "unheard_of", (json_int_t)42),
		       *event, *value;
		int len = encode_event(encoder, EVENT_STOP, body, 5, 1, out, &meta);

		assert_true(len > 0);
		event = reference_parse(out, (size_t)len);
		value = take(event, known ? others[i].ecs : "cuda.details.unheard_of");
		if (known ? json_integer_value(value) != 42 : !json_is_string(value))
			fail_msg("%s is not where the page says", known ? others[i].json : "unheard_of");
		assert_null(json_object_get(json_object_get(event, "cuda"), "details"));
		json_decref(value);
		json_decref(event);
		json_decref(body);
	}
	encoder_free(encoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row),
		cmocka_unit_test(test_other_events),
	};
	const char *ecs = getenv("CUDATAP_ECS_LINES"), *otlp = getenv("CUDATAP_OTLP_LINES");
	int failed;

	if (read_page()) {
		fprintf(stderr, "no tables in " PAGE ": run from the top of the tree\n");
		return 1;
	}
	files[ECS] = ecs ? fopen(ecs, "w") : NULL;
	files[OTLP] = otlp ? fopen(otlp, "w") : NULL;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 0; i < NFORMATS; i++)
		failed |= files[i] && fclose(files[i]);
	return failed;
}
