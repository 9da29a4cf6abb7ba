/* Single events against their exact text, and the bounds of a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "encode_record.h"
#include "encode_reference.h"

#define RUN "k3v9q2m7x0ab"
#define TS  1795969263123456789 /* 2026-11-29T16:21:03.123456789Z */

static const struct encoder_options plain = {.run = RUN, .host = "gpu07", .args = true};

static struct plan *plans;
static char out[ENCODE_MAX_LINE];

/* ---- calls ---- */

static const char *encode(const struct encoder_options *options, struct record *record, struct thread *thread)
{
	struct encoder *encoder = encoder_new(options);
	struct line_meta meta;
	struct call call;
	size_t len;

	assert_non_null(encoder);
	assert_int_equal(decode_call(plans, record_call(record), record->size, &call), 0);
	len = encode_call(encoder, &call, thread, 1041, TS, out, &meta);
	assert_true(len < sizeof(out));
	out[len] = '\0';
	thread_drop_prefixes(thread);
	encoder_free(encoder);
	return out;
}

#define HEAD                                \
	"{\"type\":\"call\",\"run\":\"" RUN \
	"\",\"seq\":1041,\"ts\":\"2026-11-29T16:21:03.123456789Z\",\"host\":\"gpu07\","
#define WHO "\"pid\":4242,\"tid\":4243,\"comm\":\"python3\","

static struct thread python(void)
{
	return (struct thread){.pid = 4242, .tid = 4243, .comm = "python3"};
}

static void test_failed_malloc(void **state)
{
	struct thread thread = python();
	struct record r;

	strcpy(thread.thread, "pt_autograd_0");
	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaMalloc"));
	record_param(&r, "devPtr", 0x7ffd01a2b3c8);
	record_param(&r, "size", 1048576);
	record_call(&r)->ret = 0xffffffff00000002; /* the upper half is undefined */
	assert_string_equal(encode(&plain, &r, &thread), HEAD WHO
			    "\"thread\":\"pt_autograd_0\",\"api\":\"runtime\",\"family\":\"memory\","
			    "\"func\":\"cudaMalloc\",\"duration_ns\":11834,\"ret\":2,\"status\":\"error\","
			    "\"error\":\"cudaErrorMemoryAllocation\",\"error_message\":\"out of memory\","
			    "\"bytes\":1048576,\"args\":{\"devPtr\":\"0x7ffd01a2b3c8\",\"size\":1048576}}\n");
}

static void test_malloc_of_everything(void **state)
{
	struct thread thread = python();
	uint64_t pointer = 0xffffffffffffffff;
	struct record r;

	thread.ns_pid = 1;
	record_begin(&r, plans, record_row(TABLE_DRIVER, "cuMemAlloc_v2"));
	record_param(&r, "bytesize", UINT64_MAX);
	record_slot(&r, &pointer, 8, 0);
	assert_string_equal(encode(&plain, &r, &thread), HEAD
			    "\"pid\":4242,\"ns_pid\":1,\"tid\":4243,\"comm\":\"python3\",\"api\":\"driver\","
			    "\"family\":\"memory\",\"func\":\"cuMemAlloc\",\"symbol\":\"cuMemAlloc_v2\","
			    "\"duration_ns\":11834,\"ret\":0,\"status\":\"ok\",\"bytes\":9223372036854775807,"
			    "\"ptr\":\"0xffffffffffffffff\","
			    "\"args\":{\"dptr\":\"0x0\",\"bytesize\":18446744073709551615},"
			    "\"out\":{\"dptr\":\"0xffffffffffffffff\"}}\n");
}

static void test_statuses(void **state)
{
	static const struct {
		const char *symbol;
		uint64_t ret;
		uint8_t flags;
		const char *expected;
	} cases[] = {
		{"cudaStreamSynchronize", 0, 0, "\"ret\":0,\"status\":\"ok\""},
		{"cudaStreamSynchronize", 35, 0,
		 "\"ret\":35,\"status\":\"error\",\"error\":\"cudaErrorInsufficientDriver\",\"error_"
		 "message\":"
		 "\"CUDA driver version is insufficient for CUDA runtime version\""},
		{"cudaStreamSynchronize", 12345, 0,
		 "\"ret\":12345,\"status\":\"error\",\"error\":\"cudaError_t(12345)\""},
		{"cudaStreamSynchronize", 0xffffffff, 0,
		 "\"ret\":-1,\"status\":\"error\",\"error\":\"cudaError_t(-1)\""},
		{"cudaStreamQuery", 600, 0,
		 "\"ret\":600,\"status\":\"not_ready\",\"error\":\"cudaErrorNotReady\",\"error_message\":"
		 "\"device not ready\""},
		{"cudaStreamSynchronize", 35, REC_F_UNFINISHED,
		 "\"duration_ns\":11834,\"status\":\"unfinished\""},
		{"cudaGetLastError", 2, 0,
		 "\"ret\":2,\"status\":\"ok\",\"error\":\"cudaErrorMemoryAllocation\",\"error_message\":"
		 "\"out of memory\"}"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thread thread = python();
		struct record r;

		record_begin(&r, plans, record_row(TABLE_RUNTIME, cases[i].symbol));
		record_call(&r)->ret = cases[i].ret;
		record_call(&r)->flags = cases[i].flags;
		if (!strstr(encode(&plain, &r, &thread), cases[i].expected))
			fail_msg("no %s in %s", cases[i].expected, out);
		assert_null(strstr(out, "\"out\""));
	}
}

static void test_enumerators(void **state)
{
	static const struct {
		uint32_t kind;
		const char *expected;
	} cases[] = {
		{1, "\"kind\":\"cudaMemcpyHostToDevice\""},
		{9, "\"kind\":\"cudaMemcpyKind(9)\""},
		{100, "\"kind\":\"cudaMemcpyKind(100)\""},
		{0x80000000, "\"kind\":\"cudaMemcpyKind(-2147483648)\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thread thread = python();
		struct record r;

		record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaMemcpy"));
		record_param(&r, "kind", cases[i].kind | 0xdead00000000);
		if (!strstr(encode(&plain, &r, &thread), cases[i].expected))
			fail_msg("no %s in %s", cases[i].expected, out);
	}
}

static void test_strings(void **state)
{
	static const struct {
		const char *text;
		int len;
		uint32_t cut;
		const char *expected;
	} cases[] = {
		{"ker\"nel", 7, 0, "\"return\":\"ker\\\"nel\"}"},
		{"", 0, 0, "\"return\":\"\"}"},
		{"no more", 7, 1, "\"return\":\"no more\",\"return_cut\":true}"},
		{"cut \xe2\x82", 6, 1, "\"return\":\"cut \",\"return_cut\":true}"},
		{"bad \xe2\x82", 6, 0, "\"return\":\"bad \xef\xbf\xbd\"}"},
		{"two\0 strings", 12, 0, "\"return\":\"two\"}"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thread thread = python();
		struct record r;

		record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaGetErrorString"));
		record_slot(&r, cases[i].text, cases[i].len, cases[i].cut);
		if (!strstr(encode(&plain, &r, &thread), cases[i].expected))
			fail_msg("no %s in %s", cases[i].expected, out);
	}
	/* not readable: nothing to show */
	struct thread thread = python();
	struct record r;

	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaGetErrorString"));
	record_slot(&r, NULL, -1, 0);
	assert_null(strstr(encode(&plain, &r, &thread), "\"out\""));
}

/* A structure at entry takes the address's place; unreadable, the address stays. */
static void test_structures(void **state)
{
	const uint32_t config[] = {1024, 2, 3, 256, 4, 5, 49152, 0, 0x9abcdef0, 0x12345678, 0, 0, 0, 0};
	struct thread thread = python();
	struct record r;

	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaLaunchKernelExC"));
	record_param(&r, "config", 0x7ffd01a2b100);
	record_slot(&r, config, sizeof(config), 0);
	encode(&plain, &r, &thread);
	assert_non_null(strstr(out, "\"args\":{\"config\":{\"gridDim\":[1024,2,3],\"blockDim\":[256,4,5],"
				    "\"dynamicSmemBytes\":49152,\"stream\":\"0x123456789abcdef0\""));
	assert_non_null(
		strstr(out, "\"stream\":\"0x123456789abcdef0\",\"kernel_handle\":\"0x0\",\"grid\":[1024,2,3],"
			    "\"block\":[256,4,5],\"shared_bytes\":49152"));
	assert_null(strstr(out, "_cut"));

	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaLaunchKernelExC"));
	record_param(&r, "config", 0x7ffd01a2b100);
	record_slot(&r, NULL, -1, 0);
	encode(&plain, &r, &thread);
	assert_non_null(strstr(out, "\"args\":{\"config\":\"0x7ffd01a2b100\""));
	assert_null(strstr(out, "\"grid\""));

	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaLaunchKernelExC"));
	record_slot(&r, config, 32, 0);
	encode(&plain, &r, &thread);
	assert_non_null(strstr(out, "\"dynamicSmemBytes\":49152},\"config_cut\":true"));
}

static void test_arrays(void **state)
{
	uint64_t handles[32];
	struct thread thread = python();
	struct record r;

	for (int i = 0; i < 32; i++)
		handles[i] = 0xa0 + (uint64_t)i;
	record_begin(&r, plans, record_row(TABLE_DRIVER, "cuGraphGetNodes"));
	assert_int_equal(r.plan->desc.ops[r.op].kind, REC_OP_COUNTED);
	record_slot(&r, handles, 16, 2);
	while (r.op < r.plan->desc.nops)
		record_slot(&r, handles, 8, 0);
	assert_non_null(strstr(encode(&plain, &r, &thread), "\"nodes\":[\"0xa0\",\"0xa1\"]"));

	record_begin(&r, plans, record_row(TABLE_DRIVER, "cuGraphGetNodes"));
	record_slot(&r, handles, 8, 1000000);
	while (r.op < r.plan->desc.nops)
		record_slot(&r, handles, 8, 0);
	assert_non_null(
		strstr(encode(&plain, &r, &thread), "\"nodes\":{\"count\":1000000,\"first\":[\"0xa0\"]}"));

	record_begin(&r, plans, record_row(TABLE_DRIVER, "cuGraphGetNodes"));
	record_slot(&r, handles, 0, 0);
	while (r.op < r.plan->desc.nops)
		record_slot(&r, handles, 8, 0);
	assert_non_null(strstr(encode(&plain, &r, &thread), "\"nodes\":[]"));
}

static void test_nested(void **state)
{
	const struct encoder_options options = {.run = RUN, .host = "gpu07", .nested = true};
	struct thread thread = {.pid = 4242, .tid = 4243};
	struct record r;

	record_begin(&r, plans, record_row(TABLE_DRIVER, "cuMemAlloc_v2"));
	record_call(&r)->depth = 1;
	record_call(&r)->parent_cookie = 9 << 16 | record_row(TABLE_DRIVER, "cuMemAllocPitch_v2");
	record_call(&r)->ret = 1;
	assert_string_equal(
		encode(&options, &r, &thread),
		HEAD "\"pid\":4242,\"tid\":4243,\"api\":\"driver\",\"family\":\"memory\","
		     "\"func\":\"cuMemAlloc\",\"symbol\":\"cuMemAlloc_v2\",\"depth\":1,"
		     "\"parent\":\"cuMemAllocPitch\",\"duration_ns\":11834,\"ret\":1,\"status\":\"error\","
		     "\"error\":\"CUDA_ERROR_INVALID_VALUE\",\"error_message\":\"invalid argument\","
		     "\"bytes\":0}\n");
	record_call(&r)->depth = 0;
	assert_non_null(strstr(encode(&options, &r, &thread), "\"depth\":0,\"duration_ns\""));
}

/* ---- the encoder's constants ---- */

static void test_hostile_names(void **state)
{
	const struct encode_static statics[] = {{"a\"b\n", "c\\\xff\n"}};
	const struct encoder_options options = {
		.run = RUN, .host = "h\"\n\xff", .statics = statics, .nstatics = 1};
	struct thread thread = {
		.pid = 1, .tid = 1, .comm = "\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12"};
	struct record r;
	json_t *event;

	memset(thread.thread, '\xff', REC_COMM_LEN);
	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaFree"));
	encode(&options, &r, &thread);
	event = reference_parse(out, strlen(out));
	assert_non_null(event);
	assert_string_equal(json_string_value(json_object_get(event, "host")), "h\"\n\xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(event, "comm")), thread.comm);
	assert_int_equal(json_string_length(json_object_get(event, "thread")), 3 * REC_COMM_LEN);
	assert_string_equal(json_string_value(json_object_get(event, "a\"b\n")), "c\\\xef\xbf\xbd\n");
	json_decref(event);
}

static int new_error(const struct encoder_options *options)
{
	struct encoder *encoder;

	errno = 0;
	encoder = encoder_new(options);
	encoder_free(encoder);
	return encoder ? 0 : errno;
}

static void test_refused_options(void **state)
{
	struct encode_static statics[] = {{"env", "prod"}, {"cluster", "a"}};
	struct encoder_options options = plain;
	char *huge = calloc(1, 20000);

	memset(huge, 'x', 19999);
	options.statics = statics;
	options.nstatics = 2;
	assert_int_equal(new_error(&options), 0);
	options.format = "json";
	assert_int_equal(new_error(&options), 0);
	options.format = "xml";
	assert_int_equal(new_error(&options), EINVAL);
	options.format = NULL;
	options.slot = THREAD_PREFIXES;
	assert_int_equal(new_error(&options), EINVAL);
	options.slot = 0;
	statics[1].name = "pid";
	assert_int_equal(new_error(&options), EEXIST);
	statics[1].name = "env";
	assert_int_equal(new_error(&options), EEXIST);
	statics[1].name = "cluster";
	statics[1].value = huge;
	assert_int_equal(new_error(&options), E2BIG);
	huge[1000] = '\0';
	assert_int_equal(new_error(&options), 0);
	free(huge);
	assert_string_equal(encode_format_names[0], "json");
}

/* Constants as long as they may be, and records that grow most: a line stays a line within its bound. */
static void test_longest_line(void **state)
{
	struct encode_static statics[] = {{"note", NULL}};
	struct encoder_options options = plain;
	char *value = calloc(1, ENCODE_MAX_LINE), *line = malloc(ENCODE_MAX_LINE);
	size_t len, fits = 0, longest = 0, cut = 0;
	struct encoder *encoder;
	unsigned char bytes[REC_MAX_SLOT];

	statics[0].value = value;
	options.statics = statics;
	options.nstatics = 1;
	options.nested = true;
	/* the longest that is taken, bit by bit */
	for (len = ENCODE_MAX_LINE / 2; len; len /= 2) {
		memset(value, 'x', fits + len);
		value[fits + len] = '\0';
		if (!new_error(&options))
			fits += len;
	}
	value[fits] = '\0';
	encoder = encoder_new(&options);
	assert_non_null(encoder);
	memset(bytes, 0x01, sizeof(bytes));
	for (unsigned row = 0; row < table_nrows; row++) {
		struct thread thread = {.pid = UINT32_MAX, .tid = UINT32_MAX, .ns_pid = UINT32_MAX};
		struct line_meta meta;
		struct record r;
		struct call call;
		json_t *event;

		memset(thread.comm, 0x01, REC_COMM_LEN);
		memset(thread.thread, 0x02, REC_COMM_LEN);
		record_begin(&r, plans, row);
		record_call(&r)->start_ns = 0;
		record_call(&r)->end_ns = UINT64_MAX;
		record_call(&r)->depth = UINT8_MAX;
		memset(record_words(&r), 0xff, r.size - sizeof(struct rec_call));
		while (r.op < r.plan->desc.nops)
			record_slot(&r, bytes,
				    r.plan->desc.ops[r.op].kind >= REC_OP_ARRAY &&
						    r.plan->desc.ops[r.op].kind <= REC_OP_COUNTED
					    ? REC_MAX_SLOT
					    : r.plan->desc.ops[r.op].size,
				    UINT32_MAX);
		assert_int_equal(decode_call(plans, record_call(&r), r.size, &call), 0);
		/* exactly as much memory as promised, for the sanitizer to watch */
		len = encode_call(encoder, &call, &thread, UINT64_MAX, INT64_MIN, line, &meta);
		assert_true(len <= ENCODE_MAX_LINE);
		event = reference_parse(line, len);
		assert_non_null(event);
		assert_non_null(json_object_get(event, "note"));
		longest = len > longest ? len : longest;
		cut += memmem(line, len, "_cut\":true", 10) != NULL;
		json_decref(event);
		free(thread.prefix[0].data);
	}
	print_message("longest line %zu of %d, %zu rows cut\n", longest, ENCODE_MAX_LINE, cut);
	assert_true(longest > ENCODE_MAX_LINE / 2);
	encoder_free(encoder);
	free(line);
	free(value);
}

/* Each encoder keeps prefixes of its own. */
static void test_two_encoders(void **state)
{
	struct encoder_options a = plain, b = plain;
	struct encoder *first, *second;
	struct thread thread = python();
	struct line_meta meta;
	struct record r;
	struct call call;

	b.slot = 1;
	b.host = "other";
	first = encoder_new(&a);
	second = encoder_new(&b);
	record_begin(&r, plans, record_row(TABLE_RUNTIME, "cudaFree"));
	assert_int_equal(decode_call(plans, record_call(&r), r.size, &call), 0);
	for (int i = 0; i < 2; i++) {
		out[encode_call(first, &call, &thread, 1, TS, out, &meta)] = '\0';
		assert_non_null(strstr(out, "\"host\":\"gpu07\""));
		out[encode_call(second, &call, &thread, 1, TS, out, &meta)] = '\0';
		assert_non_null(strstr(out, "\"host\":\"other\""));
	}
	free(thread.prefix[0].data);
	free(thread.prefix[1].data);
	encoder_free(first);
	encoder_free(second);
}

/* ---- control events ---- */

static void test_string(void **state)
{
	json_t *string = encode_string("a\xff\xc3\xa9\n\xe2\x82");

	assert_string_equal(json_string_value(string), "a\xef\xbf\xbd\xc3\xa9\n\xef\xbf\xbd");
	json_decref(string);
	assert_null(encode_string(NULL));
}

static void test_events(void **state)
{
	const struct encode_static statics[] = {{"env", "prod"}};
	struct encoder_options options = plain;
	struct encoder *encoder;
	struct line_meta meta = {0};
	json_t *body = json_pack("{s:I,s:o}", "step_ns", (json_int_t)-5, "reason", encode_string("a\nb\xff"));
	int len;

	options.statics = statics;
	options.nstatics = 1;
	encoder = encoder_new(&options);
	len = encode_event(encoder, EVENT_CLOCK, body, 7, TS, out, &meta);
	assert_true(len > 0);
	out[len] = '\0';
	assert_string_equal(out, "{\"type\":\"clock\",\"run\":\"" RUN
				 "\",\"seq\":7,\"ts\":\"2026-11-29T16:21:03.123456789Z\",\"host\":\"gpu07\","
				 "\"step_ns\":-5,\"reason\":\"a\\nb\xef\xbf\xbd\",\"env\":\"prod\"}\n");
	assert_int_equal(meta.row, 0xffff);
	assert_int_equal(meta.type, EVENT_CLOCK);
	assert_int_equal(meta.args_len, 0);
	json_object_clear(body);
	len = encode_event(encoder, EVENT_LOSS, body, 0, TS, out, &meta);
	out[len] = '\0';
	assert_string_equal(
		out, "{\"type\":\"loss\",\"run\":\"" RUN
		     "\",\"ts\":\"2026-11-29T16:21:03.123456789Z\",\"host\":\"gpu07\",\"env\":\"prod\"}\n");
	encoder_free(encoder);
	json_decref(body);
}

static void test_large_events(void **state)
{
	struct encoder *encoder = encoder_new(&plain);
	char *text = calloc(1, ENCODE_MAX_LINE + 1), *line = malloc(ENCODE_MAX_LINE);
	struct line_meta meta;
	int refused = 0;

	for (size_t len = ENCODE_MAX_LINE - 400; len < ENCODE_MAX_LINE; len++) {
		json_t *body;
		int ret;

		memset(text, 'x', len);
		body = json_pack("{s:s}", "reason", text);
		ret = encode_event(encoder, EVENT_STOP, body, 1, TS, line, &meta);
		if (ret == -E2BIG)
			refused++;
		else
			assert_true(ret > 0 && ret <= ENCODE_MAX_LINE && line[ret - 1] == '\n');
		json_decref(body);
	}
	assert_true(refused > 0 && refused < 400);
	encoder_free(encoder);
	free(text);
	free(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_string),
		cmocka_unit_test(test_failed_malloc),
		cmocka_unit_test(test_malloc_of_everything),
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_enumerators),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_structures),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_refused_options),
		cmocka_unit_test(test_longest_line),
		cmocka_unit_test(test_two_encoders),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_large_events),
	};
	int failed;

	plans = plan_all(plan_host_abi());
	failed = plans ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	free(plans);
	return failed;
}
