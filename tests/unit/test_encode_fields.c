/* The choice of fields in each format, and OTLP's ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "../../streamer/encode/fields.h"
#include "../../streamer/enrich/processes.h"
#include "encode_record.h"
#include "encode_reference.h"

#define RUN "k3v9q2m7x0ab"
#define TS  1795969263123456789 /* 2026-11-29T16:21:03.123456789Z */

static const struct encoder_options plain = {.run = RUN, .host = "gpu07", .args = true};
static struct plan *plans;

static json_t *encode_in(struct encoder *encoder, struct record *record)
{
	struct thread thread = {
		.pid = 4242, .tid = 4243, .start_ns = 1, .uid = 1000, .comm = "python3", .thread = "worker"};
	static char out[ENCODE_MAX_LINE];
	struct line_meta meta;
	struct call call;
	json_t *event;

	assert_non_null(encoder);
	assert_int_equal(decode_call(plans, record_call(record), record->size, &call), 0);
	event = reference_parse(out, encode_call(encoder, &call, &thread, 1041, TS, out, &meta));
	assert_non_null(event);
	thread_drop_prefixes(&thread);
	return event;
}

static json_t *encode(const struct encoder_options *options, struct record *record)
{
	struct encoder *encoder = encoder_new(options);
	json_t *event = encode_in(encoder, record);

	encoder_free(encoder);
	return event;
}

static void malloc_record(struct record *record)
{
	uint64_t pointer = 0x7f0000000000;

	record_begin(record, plans, record_row(TABLE_DRIVER, "cuMemAlloc_v2"));
	record_param(record, "dptr", 0x7ffd01a2b3c8);
	record_param(record, "bytesize", 4096);
	record_slot(record, &pointer, 8, 0);
}

static void expect(json_t *event, const char *expected)
{
	char *text = json_dumps(event, JSON_COMPACT);

	assert_string_equal(text, expected);
	free(text);
	json_decref(event);
}

/* ---- environ ---- */

static struct environs *make_environs(void)
{
	struct environs *environs = environs_new(3);

	process_text_set(&environs->value[0], "3", 1, 100);
	process_text_set(&environs->value[2], "a\"\xff", 3, 100);
	return environs;
}

/* The call's object that has variables in it, by format. */
static json_t *encode_environ(const struct encoder_options *options)
{
	struct process process = {.environs = make_environs()};
	struct thread thread = {
		.pid = 4242, .tid = 4243, .start_ns = 1, .comm = "python3", .process = &process};
	struct encoder *encoder = encoder_new(options);
	static char out[ENCODE_MAX_LINE];
	struct record record;
	struct line_meta meta;
	struct call call;
	json_t *event;

	assert_non_null(encoder);
	malloc_record(&record);
	assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
	event = reference_parse(out, encode_call(encoder, &call, &thread, 1041, TS, out, &meta));
	assert_non_null(event);
	thread_drop_prefixes(&thread);
	encoder_free(encoder);
	environs_free(process.environs);
	return event;
}

static void expect_member(json_t *event, const char *key, const char *expected)
{
	json_t *member = json_object_get(event, key);

	if (expected)
		expect(json_incref(member), expected);
	else
		assert_null(member);
	json_decref(event);
}

static void test_environ(void **state)
{
	static const char *const names[] = {"RANK", "UNSET", "JOB"};
	static const struct encode_static statics[] = {{"JOB", "mine"}, {"a.b", "c"}};
	struct encoder_options options = plain;

	options.env = names;
	options.nenv = 3;
	expect_member(encode_environ(&options), "environ", "{\"RANK\":\"3\",\"JOB\":\"a\\\"\xef\xbf\xbd\"}");
	options.format = "ecs";
	expect_member(encode_environ(&options), "labels", "{\"RANK\":\"3\",\"JOB\":\"a\\\"\xef\xbf\xbd\"}");
	/* a label is there once */
	options.statics = statics;
	options.nstatics = 2;
	expect_member(encode_environ(&options), "labels", "{\"JOB\":\"mine\",\"a_b\":\"c\",\"RANK\":\"3\"}");
	options.without = FIELD_BIT(FIELD_ENVIRON);
	expect_member(encode_environ(&options), "labels", "{\"JOB\":\"mine\",\"a_b\":\"c\"}");
	options.nstatics = 0;
	expect_member(encode_environ(&options), "labels", NULL);
	options.format = "json";
	expect_member(encode_environ(&options), "environ", NULL);
	options.without = 0;
	options.nenv = 2;
	expect_member(encode_environ(&options), "environ", "{\"RANK\":\"3\"}");
}

static void test_environ_otlp(void **state)
{
	static const char *const names[] = {"RANK", "UNSET", "JOB"};
	struct encoder_options options = plain;
	json_t *event, *resource, *last;

	options.format = "otlp";
	options.env = names;
	options.nenv = 3;
	event = encode_environ(&options);
	resource = json_object_get(json_array_get(json_object_get(event, "resourceSpans"), 0), "resource");
	resource = json_object_get(resource, "attributes");
	last = json_array_get(resource, json_array_size(resource) - 1);
	expect(json_incref(last), "{\"key\":\"process.environment_variable.JOB\",\"value\":{\"stringValue\":"
				  "\"a\\\"\xef\xbf\xbd\"}}");
	last = json_array_get(resource, json_array_size(resource) - 2);
	expect(json_incref(last),
	       "{\"key\":\"process.environment_variable.RANK\",\"value\":{\"stringValue\":\"3\"}}");
	json_decref(event);
}

/* ---- only, drop ---- */

static void test_only(void **state)
{
	struct encoder_options options = plain;
	struct record record;

	malloc_record(&record);
	options.without = ~(FIELD_BIT(FIELD_FUNC) | FIELD_BIT(FIELD_BYTES) | FIELD_BIT(FIELD_ARGS));
	expect(encode(&options, &record),
	       "{\"type\":\"call\",\"run\":\"" RUN "\",\"seq\":1041,\"ts\":\"2026-11-29T16:21:03."
	       "123456789Z\",\"func\":\"cuMemAlloc\",\"bytes\":4096,"
	       "\"args\":{\"dptr\":\"0x7ffd01a2b3c8\",\"bytesize\":4096}}");
	options.without = ~0ull;
	expect(encode(&options, &record), "{\"type\":\"call\",\"run\":\"" RUN
					  "\",\"seq\":1041,\"ts\":\"2026-11-29T16:21:03.123456789Z\"}");
	options.format = "ecs";
	expect(encode(&options, &record),
	       "{\"@timestamp\":\"2026-11-29T16:21:03.123456789Z\",\"ecs\":{\"version\":\"8.17.0\"},"
	       "\"event\":{\"kind\":\"event\",\"category\":[\"api\"],\"type\":[\"info\"],\"module\":"
	       "\"cudatap\","
	       "\"dataset\":\"cudatap.call\",\"id\":\"" RUN
	       "-1041\",\"sequence\":1041},\"cuda\":{\"run\":\"" RUN "\"}}");
}

/* Whether a key occurs anywhere: as a key, or as a name in OTLP. */
static bool has_key(const json_t *value, const char *key)
{
	const char *name;
	json_t *sub;
	size_t i;

	json_object_foreach((json_t *)value, name,
			    sub) if (!strcmp(name, key) || has_key(sub, key)) return true;
	json_array_foreach(value, i, sub) if (has_key(sub, key)) return true;
	return json_is_string(value) && !strcmp(json_string_value(value), key);
}

/* Each optional key alone, in each format: it is gone, and nothing else is. */
static void test_drop_each(void **state)
{
	/* where it is to be missing: "json" by its own name */
	static const char *const ecs[NFIELDS] = {
		[FIELD_PID] = "pid",
		[FIELD_UID] = "user",
		[FIELD_HOST] = "host",
		[FIELD_FUNC] = "action",
		[FIELD_DURATION_NS] = "duration",
		[FIELD_ERROR] = "code",

		[FIELD_BYTES] = "bytes",
		[FIELD_ERROR_MESSAGE] = "message",
		[FIELD_STATUS] = "outcome",
	};
	static const char *const otlp[NFIELDS] = {
		[FIELD_PID] = "process.pid",       [FIELD_UID] = "process.user.id",
		[FIELD_HOST] = "host.name",        [FIELD_TID] = "thread.id",
		[FIELD_STATUS] = "cuda.status",    [FIELD_ERROR] = "error.type",
		[FIELD_ERROR_MESSAGE] = "message", [FIELD_BYTES] = "cuda.bytes",
		[FIELD_API] = "cuda.api",
	};
	struct record record;

	malloc_record(&record);
	record_call(&record)->ret = 2;
	record.size -= 16; /* a failed call has no out */
	for (int format = 0; encode_format_names[format]; format++) {
		for (int field = FIELD_FIRST_OPTIONAL; field < NFIELDS; field++) {
			const char *key = format == 0   ? encode_field_names[field]
					  : format == 1 ? ecs[field]
							: otlp[field];
			struct encoder_options options = plain;
			json_t *all, *less;

			options.format = encode_format_names[format];
			all = encode(&options, &record);
			options.without = FIELD_BIT(field);
			less = encode(&options, &record);
			if (key && (format ? has_key(less, key) : json_object_get(less, key) != NULL))
				fail_msg("%s is still there in %s", key, options.format);
			if (key && format && !has_key(all, key))
				fail_msg("%s never was in %s", key, options.format);
			if (!format)
				json_object_del(all, encode_field_names[field]);
			assert_true(format || reference_same(all, less));
			json_decref(all);
			json_decref(less);
		}
	}
}

/* ---- rename ---- */

static void test_rename(void **state)
{
	const struct encode_static rename[] = {{"ts", "@timestamp"}, {"func", "name"}, {"pid", "process_id"}};
	struct encoder_options options = plain;
	static char out[ENCODE_MAX_LINE];
	struct encoder *encoder;
	struct record record;
	struct line_meta meta;
	json_t *event, *body;
	int len;

	options.rename = rename;
	options.nrename = 3;
	malloc_record(&record);
	event = encode(&options, &record);
	assert_string_equal(json_string_value(json_object_get(event, "@timestamp")),
			    "2026-11-29T16:21:03.123456789Z");
	assert_string_equal(json_string_value(json_object_get(event, "name")), "cuMemAlloc");
	assert_int_equal(json_integer_value(json_object_get(event, "process_id")), 4242);
	for (int i = 0; i < 3; i++)
		assert_null(json_object_get(event, rename[i].name));
	json_decref(event);

	encoder = encoder_new(&options);
	body = json_pack("{sI ss}", "pid", (json_int_t)5, "path", "/x");
	len = encode_event(encoder, EVENT_ATTACH, body, 3, TS, out, &meta);
	assert_true(len > 0);
	out[len] = '\0';
	assert_string_equal(out, "{\"type\":\"attach\",\"run\":\"" RUN
				 "\",\"seq\":3,\"@timestamp\":\"2026-11-29T16:21:03.123456789Z\","
				 "\"host\":\"gpu07\",\"process_id\":5,\"path\":\"/x\"}\n");
	json_decref(body);
	encoder_free(encoder);
}

/* ---- redact ---- */

static void test_redact(void **state)
{
	static const char *const names[] = {"dptr", "bytesize"};
	struct encoder_options options = plain;
	struct record record;
	json_t *event;

	malloc_record(&record);
	options.redact = names;
	options.nredact = 2;
	event = encode(&options, &record);
	expect(json_incref(json_object_get(event, "args")),
	       "{\"dptr\":\"redacted\",\"bytesize\":\"redacted\"}");
	expect(json_incref(json_object_get(event, "out")), "{\"dptr\":\"redacted\"}");
	/* what is made of them would tell them */
	assert_null(json_object_get(event, "ptr"));
	assert_null(json_object_get(event, "bytes"));
	json_decref(event);
	for (int format = 1; encode_format_names[format]; format++) {
		char *text;

		options.format = encode_format_names[format];
		event = encode(&options, &record);
		text = json_dumps(event, 0);
		assert_null(strstr(text, "7f0000000000"));
		assert_null(strstr(text, "4096"));
		assert_non_null(strstr(text, "redacted"));
		free(text);
		json_decref(event);
	}
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
	static const struct {
		const char *format;
		struct encode_static rename;
		const char *redact;
		int error;
		const char *why;
	} cases[] = {
		{"json", {"func", "name"}, "devPtr", 0, ""},
		{"json", {"fun", "name"}, NULL, EINVAL, "fun"},
		{"json", {"func", "pid"}, NULL, EEXIST, "pid"},
		{"json", {"func", "env"}, NULL, EEXIST, "env"},
		{"json", {"func", ""}, NULL, EEXIST, "func"},
		{"ecs", {"func", "name"}, NULL, EINVAL, "ecs"},
		{"otlp", {"func", "name"}, NULL, EINVAL, "otlp"},
		{"json", {"func", "name"}, "devPt", EINVAL, "devPt"},
		{"xml", {"func", "name"}, NULL, EINVAL, "format"},
	};
	const struct encode_static statics[] = {{"env", "prod"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct encoder_options options = plain;
		struct encoder *encoder;
		char why[256] = "?";

		options.format = cases[i].format;
		options.statics = statics;
		options.nstatics = 1;
		options.rename = &cases[i].rename;
		options.nrename = 1;
		options.redact = &cases[i].redact;
		options.nredact = cases[i].redact != NULL;
		options.error = why;
		options.error_size = sizeof(why);
		errno = 0;
		encoder = encoder_new(&options);
		assert_int_equal(encoder ? 0 : errno, cases[i].error);
		assert_non_null(strstr(why, cases[i].why));
		assert_int_equal(!*why, !cases[i].error);
		encoder_free(encoder);
	}
}

/* ---- OTLP's ids ---- */

static const json_t *span_of(const json_t *event)
{
	const json_t *span = NULL;

	json_unpack((json_t *)event, "{s[{s[{s[o]}]}]}", "resourceSpans", "scopeSpans", "spans", &span);
	assert_non_null(span);
	return span;
}

static const char *id_of(const json_t *event, const char *name)
{
	const char *id = json_string_value(json_object_get(span_of(event), name));

	if (id)
		assert_int_equal(strspn(id, "0123456789abcdef"), strlen(id));
	return id;
}

/* The record of a call on a thread, within another one if @parent_ns. */
static json_t *encode_span(struct encoder *encoder, uint64_t thread, uint64_t start_ns, uint64_t parent_ns)
{
	struct record record;

	malloc_record(&record);
	record_call(&record)->pid_tgid = thread;
	record_call(&record)->start_ns = start_ns;
	record_call(&record)->end_ns = start_ns + 1000;
	record_call(&record)->depth = parent_ns != 0;
	record_call(&record)->parent_start_ns = parent_ns;
	return encode_in(encoder, &record);
}

static void test_ids(void **state)
{
	struct encoder_options options = plain;
	struct encoder *first, *second;
	json_t *parent, *child, *other, *later, *rerun;

	options.format = "otlp";
	options.nested = true;
	first = encoder_new(&options);
	options.run = "aaaaaaaaaaaa";
	second = encoder_new(&options);
	/* over the border of a second: the child belongs to its parent's */
	parent = encode_span(first, 42ull << 32 | 43, 7999999000, 0);
	child = encode_span(first, 42ull << 32 | 43, 8000000500, 7999999000);
	assert_null(id_of(parent, "parentSpanId"));
	assert_string_equal(id_of(child, "parentSpanId"), id_of(parent, "spanId"));
	assert_string_equal(id_of(child, "traceId"), id_of(parent, "traceId"));
	assert_string_not_equal(id_of(child, "spanId"), id_of(parent, "spanId"));
	/* another thread of the process at the same moment */
	other = encode_span(first, 42ull << 32 | 44, 7999999000, 0);
	assert_string_equal(id_of(other, "traceId"), id_of(parent, "traceId"));
	assert_string_not_equal(id_of(other, "spanId"), id_of(parent, "spanId"));
	json_decref(other);
	/* another process */
	other = encode_span(first, 45ull << 32 | 43, 7999999000, 0);
	assert_string_not_equal(id_of(other, "traceId"), id_of(parent, "traceId"));
	/* a second later, and another run */
	later = encode_span(first, 42ull << 32 | 43, 8000000000, 0);
	rerun = encode_span(second, 42ull << 32 | 43, 7999999000, 0);
	assert_string_not_equal(id_of(later, "traceId"), id_of(parent, "traceId"));
	assert_memory_equal(id_of(later, "traceId"), id_of(parent, "traceId"), 16);
	assert_string_not_equal(id_of(rerun, "traceId"), id_of(parent, "traceId"));
	assert_string_not_equal(id_of(rerun, "spanId"), id_of(parent, "spanId"));
	json_decref(parent);
	json_decref(child);
	json_decref(other);
	json_decref(later);
	json_decref(rerun);
	encoder_free(first);
	encoder_free(second);
}

static void test_service(void **state)
{
	const struct encode_static statics[] = {{"service.name", "trainer"}, {"cluster", "a"}};
	struct encoder_options options = plain;
	struct record record;
	json_t *event;
	char *text;

	options.format = "otlp";
	options.statics = statics;
	options.nstatics = 2;
	malloc_record(&record);
	event = encode(&options, &record);
	text = json_dumps(event, JSON_COMPACT);
	assert_non_null(strstr(text, "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"trainer\"}}"));
	assert_non_null(strstr(text, "{\"key\":\"cluster\",\"value\":{\"stringValue\":\"a\"}}"));
	assert_null(strstr(text, "\"stringValue\":\"cudatap\""));
	free(text);
	json_decref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environ), cmocka_unit_test(test_environ_otlp),
		cmocka_unit_test(test_only),    cmocka_unit_test(test_drop_each),
		cmocka_unit_test(test_rename),  cmocka_unit_test(test_redact),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_ids),
		cmocka_unit_test(test_service),
	};
	int failed;

	plans = plan_all(plan_host_abi());
	failed = plans ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	free(plans);
	return failed;
}
