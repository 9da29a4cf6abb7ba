/* Which calls become events: what the BPF program is told, and what is decided beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "encode_record.h"

#include "../../config/internal.h"
#include "../../streamer/enrich/processes.h"
#include "../../streamer/route/matcher.h"
#include "../../streamer/route/rules.h"

static struct plan *plans;

static struct config *load(const char *text)
{
	struct config *config = NULL;
	char *messages = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&messages, &len);

	if (config_load_text("test", text, strlen(text), NULL, out, &config))
		config = NULL;
	fclose(out);
	if (!config)
		print_message("%s: %s\n", text, messages);
	free(messages);
	assert_non_null(config);
	return config;
}

static unsigned row_of(const char *symbol)
{
	int row = table_find(strncmp(symbol, "cuda", 4) ? TABLE_DRIVER : TABLE_RUNTIME, symbol, 13);

	assert_true(row >= 0);
	return (unsigned)row;
}

/* ---- states of rows ---- */

static void assert_states(const char *text, const char *const (*expected)[2])
{
	static const struct {
		const char *word;
		uint8_t state;
	} words[] = {
		{"on", REC_ROW_ON},
		{"on around", REC_ROW_ON | REC_ROW_AROUND},
		{"rejected", REC_ROW_REJECTED},
		{"rejected around", REC_ROW_REJECTED | REC_ROW_AROUND},
		{"off", REC_ROW_OFF},
		{"muted", REC_ROW_MUTED},
	};
	struct config *config = load(text);
	uint8_t state[REC_MAX_ROWS];

	config_select(config, state);
	for (; (*expected)[0]; expected++)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (!strcmp(words[i].word, (*expected)[1]) &&
			    state[row_of((*expected)[0])] != words[i].state)
				fail_msg("%s: %s is %d, not %s", text, (*expected)[0],
					 state[row_of((*expected)[0])], words[i].word);
	config_free(config);
}

static void test_states(void **state)
{
	assert_states("filter: {functions: [cudaMalloc]}",
		      (const char *const[][2]){{"cudaMalloc", "on"},
					       {"cudaFree", "rejected"},
					       {"cuMemAlloc_v2", "rejected"},
					       {"cudaGetDevice", "off"},
					       {NULL, NULL}});
	/* a driver's function that is wanted is not to come up out of a runtime's that is not */
	assert_states("filter: {functions: [cuMemAlloc]}",
		      (const char *const[][2]){{"cudaMalloc", "rejected around"},
					       {"cudaFree", "rejected"},
					       {"cuMemAlloc_v2", "on"},
					       {NULL, NULL}});
	assert_states("families: []\ninclude: [cuMemAlloc, cudaFree]\nfilter: {functions: [cuMemAlloc]}",
		      (const char *const[][2]){{"cudaMalloc", "muted"},
					       {"cudaFree", "rejected"},
					       {"cuMemAlloc_v2", "on"},
					       {NULL, NULL}});
	assert_states(
		"nested: true\nfilter: {functions: [cuMemAlloc]}",
		(const char *const[][2]){{"cudaMalloc", "rejected"}, {"cuMemAlloc_v2", "on"}, {NULL, NULL}});
	assert_states(
		"families: [memory]",
		(const char *const[][2]){{"cudaMalloc", "on around"}, {"cuMemAlloc_v2", "on"}, {NULL, NULL}});
	assert_states("api: [runtime]",
		      (const char *const[][2]){{"cudaMalloc", "on"}, {"cuMemAlloc_v2", "off"}, {NULL, NULL}});
	/* what cannot end or move as the filter wants it */
	assert_states("api: [runtime]\nfamilies: all\nfilter: {status: [error]}",
		      (const char *const[][2]){{"cudaMalloc", "on"},
					       {"cudaGetErrorString", "rejected"},
					       {"cudaGetLastError", "rejected"},
					       {NULL, NULL}});
	assert_states("api: [runtime]\nfamilies: all\nfilter: {errors: [cudaErrorMemoryAllocation]}",
		      (const char *const[][2]){{"cudaMalloc", "on"},
					       {"cudaGetErrorString", "rejected"},
					       {"cudaGetLastError", "on"},
					       {NULL, NULL}});
	assert_states("api: [runtime]\nfilter: {min_bytes: 1}",
		      (const char *const[][2]){{"cudaMalloc", "on"},
					       {"cudaMemcpy2D", "on"},
					       {"cudaDeviceSynchronize", "rejected"},
					       {NULL, NULL}});
}

/* ---- what the BPF program is told ---- */

static void test_rec_rules(void **state)
{
	static struct rec_rules rules;
	struct config *config = load("version: 1");

	rules_make(config, &rules);
	assert_false(rules.by_outcome || rules.by_error || rules.min_bytes);
	assert_true(rules.keep_errors);
	for (unsigned i = 0; i < table_nrows; i++)
		assert_int_equal(rules.sample[i], 1);
	config_free(config);

	config = load(
		"filter: {errors: [cudaErrorMemoryAllocation, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNKNOWN],"
		" min_duration: 5us, max_duration: 1s, min_bytes: 4KiB, status: [error, not_ready]}");
	rules_make(config, &rules);
	assert_true(rules.by_outcome && rules.by_error);
	assert_int_equal(rules.status, 1 << REC_STATUS_ERROR | 1 << REC_STATUS_NOT_READY);
	assert_int_equal(rules.min_duration_ns, 5000);
	assert_int_equal(rules.max_duration_ns, 1000000000);
	assert_int_equal(rules.min_bytes, 4096);
	assert_int_equal(rules.errors[TABLE_RUNTIME][0], 1 << 2);
	assert_int_equal(rules.errors[TABLE_DRIVER][0], 1 << 1);
	assert_int_equal(rules.errors[TABLE_DRIVER][999 / 64], 1ull << (999 % 64));
	config_free(config);
}

static void test_samples(void **state)
{
	static uint32_t sample[REC_MAX_ROWS];
	struct config *config =
		load("sample: {rates: {cudaMalloc: 7, memory: 100, 'cuda*Free*': 3, cudaFreeHost: 1,"
		     " launch: 1000}, keep_errors: false}");

	config_sample_rows(config, sample);
	assert_int_equal(sample[row_of("cudaMalloc")], 7);
	assert_int_equal(sample[row_of("cudaMallocManaged")], 100);
	assert_int_equal(sample[row_of("cudaFree")], 3);
	assert_int_equal(sample[row_of("cudaFreeHost")], 1);
	assert_int_equal(sample[row_of("cuLaunchKernel")], 1000);
	assert_int_equal(sample[row_of("cudaMemcpy")], 1);
	assert_false(config->sample.keep_errors);
	config_free(config);
}

/* The payload of a call, as BPF compares it, is that of the event. */
static void test_bytes_words(void **state)
{
	unsigned simple = 0;

	for (unsigned row = 0; row < table_nrows; row++) {
		const struct rec_desc *desc = &plans[row].desc;
		struct record record;
		struct call call;
		uint64_t *words;

		if (!desc->bytes_size || desc->nentry) /* slots would have to be made */
			continue;
		assert_true(desc->bytes_word < desc->nregs);
		record_begin(&record, plans, row);
		words = (uint64_t *)(record_call(&record) + 1);
		words[desc->bytes_word] = 0xabcd12345678ull;
		assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
		assert_true(call.keys.present & 1u << TABLE_KEY_BYTES);
		assert_int_equal(call.keys.bytes, desc->bytes_size == 4 ? 0x12345678 : 0xabcd12345678);
		simple++;
	}
	assert_true(simple > 50);
	assert_int_equal(plans[row_of("cudaMalloc")].desc.bytes_size, 8);
	assert_int_equal(plans[row_of("cudaMemcpy2D")].desc.bytes_size, 0);
}

/* ---- processes ---- */

static struct process_text text_of(const char *text)
{
	return (struct process_text){(char *)text, (uint32_t)strlen(text)};
}

static bool matches(const char *filter, const struct thread *thread)
{
	char text[512];
	struct config *config;
	struct matcher *matcher;
	bool r;

	snprintf(text, sizeof(text), "filter: {%s}", filter);
	config = load(text);
	assert_int_equal(matcher_make(&config->filter.patterns, &matcher), 0);
	assert_non_null(matcher);
	r = matcher_match(matcher, thread);
	matcher_free(matcher);
	config_free(config);
	return r;
}

static void test_processes(void **state)
{
	static const struct {
		const char *filter;
		bool fits;
	} cases[] = {
		{"uids: [1000]", true},
		{"uids: [0, 1000]", true},
		{"uids: [100]", false},
		{"comms: [python3]", true},
		{"comms: [python]", false},
		{"comms: ['py*']", true},
		{"comms: ['*']", true},
		{"comms: [python3.1]", false},
		{"exe: [python3]", true},
		{"exe: [b/python3]", false},
		{"exe: ['\"b/python3']", true}, /* an odd name, escaped in the text */
		{"exe: ['/opt/\"b/python3']", true},
		{"exe: [/opt]", false},
		{"exe: [ython3]", false},
		{"cgroups: [/job]", false},
		{"cgroups: [/slurm]", true},
		{"cgroups: [/slurm/job_1]", true},
		{"cgroups: [/slurm/job]", false},
		{"cgroups: [job_1]", true},
		{"cgroups: [job]", false},
		{"cgroups: [step, job_1]", true},
		{"containers: [0123456789ab]", true},
		{"containers: [0123456789abffff]", true}, /* the first 12 count */
		{"containers: [fedcba987654]", false},
		{"comms: [python3], uids: [1000], cgroups: [slurm]", true},
		{"comms: [python3], uids: [1], cgroups: [slurm]", false},
	};
	struct process process = {.exe = text_of("/opt/\\\"b/python3"),
				  .cgroup = text_of("/slurm/job_1/step_0")};
	struct thread thread = {.start_ns = 1, .uid = 1000, .comm = "python3", .process = &process},
		      unknown = {0};

	strcpy(process.container_id, "0123456789ab0123456789ab0123456789ab0123456789ab0123456789ab0123");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (matches(cases[i].filter, &thread) != cases[i].fits)
			fail_msg("%s", cases[i].filter);
	assert_false(matches("uids: [0]", &unknown));
	assert_false(matches("exe: [python3]", &unknown));
}

/* ---- what is left for the reader ---- */

static void test_rest(void **state)
{
	struct config *config = load("filter: {functions: [cudaMalloc], status: [error], min_duration: 1s}");
	struct record record;
	struct rules *rules;
	struct call call;
	struct thread thread = {0};

	assert_int_equal(rules_new(config, &rules), 0);
	assert_null(rules); /* the BPF program decides all of it */
	config_free(config);
	config = load("filter: {min_bytes: 1000}");
	assert_int_equal(rules_new(config, &rules), 0);
	record_begin(&record, plans, row_of("cudaMemcpy2D"));
	record_param(&record, "width", 10);
	record_param(&record, "height", 99);
	assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
	assert_int_equal(rules_call(rules, &call, &thread), RULED_FILTERED);
	record_param(&record, "height", 100);
	assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
	assert_int_equal(rules_call(rules, &call, &thread), RULED_EVENT);
	rules_free(rules);
	config_free(config);
}

/* Each process has a bucket of its own, which another limit fills anew. */
static void test_limit(void **state)
{
	struct config *config = load("process_rate_limit: {events: 10, burst: 3}");
	struct process processes[2] = {0};
	struct thread threads[2] = {{.process = &processes[0]}, {.process = &processes[1]}};
	struct rules *rules;
	struct record record;
	struct call call;
	unsigned n[2] = {0};

	record_begin(&record, plans, row_of("cudaFree"));
	assert_int_equal(decode_call(plans, record_call(&record), record.size, &call), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(rules_new(config, &rules), 0);
		for (int i = 0; i < 20; i++)
			n[i & 1] += rules_call(rules, &call, &threads[i & 1]) == RULED_EVENT;
		assert_int_equal(rules_call(rules, &call, &threads[0]), RULED_LIMITED);
		rules_free(rules);
		config->process_rate_limit.burst = 5;
	}
	assert_int_equal(n[0], 8);
	assert_int_equal(n[1], 8);
	config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),    cmocka_unit_test(test_rec_rules),
		cmocka_unit_test(test_samples),   cmocka_unit_test(test_bytes_words),
		cmocka_unit_test(test_processes), cmocka_unit_test(test_rest),
		cmocka_unit_test(test_limit),
	};
	int r;

	plans = plan_all(plan_host_abi());
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(plans);
	return r;
}
