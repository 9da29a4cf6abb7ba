/* Events that are no calls, and the bounds of a line. */
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

/* ---- events that are no calls ---- */

static json_t *loss_body(void)
{
	return json_pack("{ss ss sI ss s[{ss sI}] sb so}", "source", "capture", "reason", "ring", "count",
			 (json_int_t)3, "first_ts", "2026-11-29T16:21:03.123456789Z", "by_function", "func",
			 "cudaFree", "count", (json_int_t)3, "new_key", 1, "path", encode_string("/\xff"));
}

static const char *event_line(const char *format, enum event_type type, json_t *body, uint64_t seq)
{
	const struct encode_static statics[] = {{"env", "prod"}};
	struct encoder_options options = plain;
	static char out[ENCODE_MAX_LINE + 1];
	struct line_meta meta = {0};
	struct encoder *encoder;
	int len;

	options.format = format;
	options.statics = statics;
	options.nstatics = 1;
	encoder = encoder_new(&options);
	len = encode_event(encoder, type, body, seq, TS, out, &meta);
	assert_true(len > 0 && out[len - 1] == '\n');
	out[len] = '\0';
	assert_int_equal(meta.type, type);
	assert_int_equal(meta.seq, seq);
	assert_int_equal(meta.args_len, 0);
	encoder_free(encoder);
	json_decref(body);
	return out;
}

static void test_events(void **state)
{
	assert_string_equal(
		event_line("ecs", EVENT_LOSS, loss_body(), 7),
		"{\"@timestamp\":\"2026-11-29T16:21:03.123456789Z\",\"ecs\":{\"version\":\"8.17.0\"},"
		"\"event\":{"
		"\"kind\":\"event\",\"category\":[\"process\"],\"type\":[\"info\"],\"module\":\"cudatap\","
		"\"dataset\":\"cudatap.loss\",\"action\":\"loss\",\"id\":\"" RUN
		"-7\",\"sequence\":7,\"reason\":\"ring\",\"start\":\"2026-11-29T16:21:03.123456789Z\"},"
		"\"host\":{\"name\":\"gpu07\"},\"labels\":{\"env\":\"prod\"},\"cuda\":{\"run\":\"" RUN
		"\",\"source\":\"capture\",\"count\":3,\"details\":{\"by_function\":[{\"func\":\"cudaFree\","
		"\"count\":\"3\"}],\"new_key\":\"true\"}},\"file\":{\"path\":\"/\xef\xbf\xbd\"}}\n");
	assert_string_equal(
		event_line("otlp", EVENT_LOSS, loss_body(), 0),
		"{\"resourceLogs\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"
		"\"stringValue\":\"cudatap\"}},{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":"
		"\"" RUN "\"}},{\"key\":\"host.name\",\"value\":{\"stringValue\":\"gpu07\"}},{\"key\":"
		"\"env\",\"value\":{"
		"\"stringValue\":\"prod\"}}]},\"scopeLogs\":[{\"scope\":{\"name\":\"cudatap\"},"
		"\"logRecords\":[{"
		"\"timeUnixNano\":\"1795969263123456789\",\"observedTimeUnixNano\":\"1795969263123456789\","
		"\"severityNumber\":13,\"severityText\":\"WARN\",\"eventName\":\"cudatap.loss\",\"body\":{"
		"\"stringValue\":\"loss\"},\"attributes\":[{\"key\":\"cuda.source\",\"value\":{"
		"\"stringValue\":"
		"\"capture\"}},{\"key\":\"cuda.reason\",\"value\":{\"stringValue\":\"ring\"}},{\"key\":"
		"\"cuda.count\",\"value\":{\"intValue\":\"3\"}},{\"key\":\"cuda.first_ts\",\"value\":{"
		"\"stringValue\":\"2026-11-29T16:21:03.123456789Z\"}},{\"key\":\"cuda.by_function\","
		"\"value\":{"
		"\"arrayValue\":{\"values\":[{\"kvlistValue\":{\"values\":[{\"key\":\"func\",\"value\":{"
		"\"stringValue\":\"cudaFree\"}},{\"key\":\"count\",\"value\":{\"intValue\":\"3\"}}]}}]}}},{"
		"\"key\":"
		"\"cuda.new_key\",\"value\":{\"boolValue\":true}},{\"key\":\"cuda.path\",\"value\":{"
		"\"stringValue\":\"/\xef\xbf\xbd\"}}]}]}]}]}\n");
}

/* Every event as it comes, those of later work too, in every format. */
static void test_event_types(void **state)
{
	for (int format = 0; encode_format_names[format]; format++) {
		for (int type = 1; type < EVENT_NTYPES; type++) {
			const char *line =
				event_line(encode_format_names[format], type, loss_body(), (uint64_t)type);
			json_t *event = reference_parse(line, strlen(line));

			assert_non_null(event);
			json_decref(event);
		}
	}
}

static void test_large_events(void **state)
{
	char *text = calloc(1, ENCODE_MAX_LINE + 1), *line = malloc(ENCODE_MAX_LINE);

	for (int format = 0; encode_format_names[format]; format++) {
		struct encoder_options options = plain;
		struct encoder *encoder;
		struct line_meta meta;
		int refused = 0;

		options.format = encode_format_names[format];
		encoder = encoder_new(&options);
		for (size_t len = ENCODE_MAX_LINE - 900; len < ENCODE_MAX_LINE; len++) {
			json_t *body;
			int ret;

			memset(text, 'x', len);
			text[len] = '\0';
			body = json_pack("{s:s}", "reason", text);
			ret = encode_event(encoder, EVENT_STOP, body, 1, TS, line, &meta);
			refused += ret == -E2BIG;
			assert_true(ret == -E2BIG ||
				    (ret > 0 && ret <= ENCODE_MAX_LINE && line[ret - 1] == '\n'));
			json_decref(body);
		}
		assert_true(refused > 0 && refused < 900);
		encoder_free(encoder);
	}
	free(text);
	free(line);
}

/* ---- the longest line ---- */

/* The constant field that just fits. */
static struct encoder *tightest(struct encoder_options options, char *value)
{
	struct encode_static note = {"note", value};
	size_t low = 0, high = ENCODE_MAX_LINE;
	struct encoder *encoder;

	options.statics = &note;
	options.nstatics = 1;
	while (low + 1 < high) {
		size_t middle = (low + high) / 2;

		memset(value, 'x', middle);
		value[middle] = '\0';
		encoder = encoder_new(&options);
		if (encoder)
			low = middle;
		else
			high = middle;
		encoder_free(encoder);
	}
	memset(value, 'x', low);
	value[low] = '\0';
	return encoder_new(&options);
}

/* The most that a row's record can hold, of bytes that grow the most. */
static void fill(struct record *r, unsigned row, uint64_t ret)
{
	static char bytes[REC_MAX_SLOT];

	memset(bytes, 0x01, sizeof(bytes));
	record_begin(r, plans, row);
	record_call(r)->start_ns = 0;
	record_call(r)->end_ns = UINT64_MAX;
	record_call(r)->ret = ret;
	record_call(r)->depth = UINT8_MAX;
	memset(record_words(r), 0xff, r->size - sizeof(struct rec_call));
	while (r->op < (ret ? r->plan->desc.nentry : r->plan->desc.nops)) {
		const struct rec_op *op = &r->plan->desc.ops[r->op];

		record_slot(r, bytes,
			    op->kind >= REC_OP_ARRAY && op->kind <= REC_OP_COUNTED ? REC_MAX_SLOT : op->size,
			    UINT32_MAX);
	}
}

/* All that can be known of a process, each as long as it gets. */
static void fill_process(struct process *process)
{
	static char bytes[PROCESS_MAX_CMDLINE];

	memset(bytes, 0x01, sizeof(bytes));
	process_text_set(&process->exe, bytes, sizeof(bytes), PROCESS_MAX_EXE);
	process_text_set(&process->cmdline, bytes, sizeof(bytes), PROCESS_MAX_CMDLINE);
	process_text_set(&process->cgroup, bytes, sizeof(bytes), PROCESS_MAX_CGROUP);
	memset(process->container_id, 'a', PROCESS_CONTAINER_ID);
	memset(process->pod_uid, 'b', PROCESS_POD_UID);
	process->environs = environs_new(ENVIRONS_MAX_NAMES);
	for (size_t i = 0; i < ENVIRONS_MAX_NAMES; i++)
		process_text_set(&process->environs->value[i], bytes, sizeof(bytes),
				 ENVIRONS_MAX / ENVIRONS_MAX_NAMES);
}

static void empty_process(struct process *process)
{
	free(process->exe.data);
	free(process->cmdline.data);
	free(process->cgroup.data);
	environs_free(process->environs);
}

static size_t line_length(struct encoder *encoder, struct call *call, char *line, struct process *process)
{
	struct thread thread = {.pid = UINT32_MAX,
				.tid = UINT32_MAX,
				.ns_pid = UINT32_MAX,
				.uid = UINT32_MAX,
				.start_ns = 1,
				.process = process};
	static char kernel[DECODE_MAX_KERNEL];
	struct line_meta meta;
	json_t *event;
	size_t len;

	memset(kernel, 'k', sizeof(kernel));
	memset(thread.comm, 0x01, REC_COMM_LEN);
	memset(thread.thread, 0x02, REC_COMM_LEN);
	call->keys.kernel = kernel;
	call->keys.kernel_len = sizeof(kernel);
	len = encode_call(encoder, call, &thread, UINT64_MAX, INT64_MAX, line, &meta);
	assert_true(len <= ENCODE_MAX_LINE);
	event = reference_parse(line, len);
	assert_non_null(event);
	json_decref(event);
	thread_drop_prefixes(&thread);
	return len;
}

static void test_longest_line(void **state)
{
	/* exactly as much memory as promised, for the sanitizer to watch */
	char *line = malloc(ENCODE_MAX_LINE), *value = malloc(ENCODE_MAX_LINE + 1);
	const char *names[ENVIRONS_MAX_NAMES];
	struct process process = {0};
	char name[ENVIRONS_MAX_NAMES][65] = {0};

	for (int i = 0; i < ENVIRONS_MAX_NAMES; i++) {
		memset(name[i], 'A' + i, 64);
		names[i] = name[i];
	}
	fill_process(&process);
	for (int format = 0; encode_format_names[format]; format++) {
		struct encoder_options options = plain;
		struct encoder *encoder;
		size_t longest = 0;

		options.format = encode_format_names[format];
		options.nested = true;
		options.env = names;
		options.nenv = ENVIRONS_MAX_NAMES;
		encoder = tightest(options, value);
		for (unsigned row = 0; row < table_nrows; row++) {
			for (uint64_t ret = 0; ret <= 35; ret += 35) {
				static struct record record;
				struct call call;
				size_t len;

				fill(&record, row, ret);
				record_call(&record)->parent_cookie = row;
				assert_int_equal(decode_call(plans, record_call(&record), record.size, &call),
						 0);
				len = line_length(encoder, &call, line, &process);
				longest = len > longest ? len : longest;
			}
		}
		print_message("%s: longest line %zu of %d, with a constant field of %zu bytes\n",
			      options.format, longest, ENCODE_MAX_LINE, strlen(value));
		assert_true(longest > ENCODE_MAX_LINE / 2);
		encoder_free(encoder);
	}
	empty_process(&process);
	free(line);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_event_types),
		cmocka_unit_test(test_large_events),
		cmocka_unit_test(test_longest_line),
	};
	int failed;

	plans = plan_all(plan_host_abi());
	failed = plans ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	free(plans);
	return failed;
}
