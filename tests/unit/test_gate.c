/* Which sinks a call is for: filters, rate limits, and what becomes of the others. */
#include "encode_record.h"
#include "test_sinks_mock.h"

#include "../../streamer/route/gate.h"
#include "../../streamer/route/rate.h"

static struct plan *plans;
static const struct thread nobody;

struct sample {
	struct record record;
	struct call call;
};

/* A call of @duration_ns that returned @ret; @bytes through the parameter of that name. */
static void make(struct sample *s, const char *symbol, int32_t ret, uint64_t duration_ns, const char *param,
		 uint64_t bytes)
{
	enum table_api api = strncmp(symbol, "cuda", 4) ? TABLE_DRIVER : TABLE_RUNTIME;
	struct rec_call *rec = record_call(&s->record);

	record_begin(&s->record, plans, record_row(api, symbol));
	if (param)
		record_param(&s->record, param, bytes);
	rec->ret = (uint32_t)ret;
	rec->end_ns = rec->start_ns + duration_ns;
	assert_int_equal(decode_call(plans, rec, s->record.size, &s->call), 0);
}

static bool passes(const struct config_filter *config, const struct call *call)
{
	struct filter *filter;
	bool r;

	assert_int_equal(filter_make(config, &filter), 0);
	assert_non_null(filter);
	r = filter_match(filter, call, &nobody);
	filter_free(filter);
	return r;
}

static void test_conditions(void **state)
{
	static bool memory[64];
	char *names[] = {(char *)"cudaErrorMemoryAllocation", (char *)"CUDA_ERROR_INVALID_VALUE"};
	char *globs[] = {(char *)"cudaMal*", (char *)"cuMemAlloc"};
	struct config_filter none = {0}, f;
	struct filter *filter;
	struct sample ok, failed, driver, query, wait;

	memory[table_family("memory")] = true;
	make(&ok, "cudaMalloc", 0, 500, "size", 4096);
	make(&failed, "cudaMalloc", 2, 500, "size", 1 << 30);
	make(&driver, "cuMemAlloc_v2", 1, 1500, "bytesize", 100);
	make(&query, "cudaStreamQuery", 600, 10, NULL, 0);
	make(&wait, "cudaDeviceSynchronize", 0, 5000000, NULL, 0);

	assert_int_equal(filter_make(&none, &filter), 0);
	assert_null(filter); /* nothing to judge by */

	f = (struct config_filter){.status = 1u << CALL_ERROR | 1u << CALL_NOT_READY};
	assert_false(passes(&f, &ok.call));
	assert_true(passes(&f, &failed.call));
	assert_true(passes(&f, &query.call));

	f = (struct config_filter){.errors = {names, 2}};
	assert_false(passes(&f, &ok.call));
	assert_true(passes(&f, &failed.call));
	assert_true(passes(&f, &driver.call)); /* 1 is another name in each library */
	make(&ok, "cudaMalloc", 1, 500, "size", 4096);
	assert_false(passes(&f, &ok.call));
	make(&ok, "cudaMalloc", 0, 500, "size", 4096);

	f = (struct config_filter){.functions = {globs, 2}};
	assert_true(passes(&f, &ok.call));
	assert_true(passes(&f, &driver.call)); /* by the name that people write */
	assert_false(passes(&f, &query.call));

	f = (struct config_filter){.families = memory};
	assert_true(passes(&f, &ok.call));
	assert_false(passes(&f, &wait.call));
	f = (struct config_filter){.families = memory, .functions = {globs + 1, 1}};
	assert_false(passes(&f, &ok.call));
	assert_true(passes(&f, &driver.call));

	f = (struct config_filter){.min_duration_ns = 1500};
	assert_false(passes(&f, &failed.call));
	assert_true(passes(&f, &driver.call));
	f = (struct config_filter){.max_duration_ns = 1499};
	assert_true(passes(&f, &failed.call));
	assert_false(passes(&f, &driver.call));
	f = (struct config_filter){.min_bytes = 4096};
	assert_true(passes(&f, &ok.call));
	assert_false(passes(&f, &driver.call));
	assert_false(passes(&f, &wait.call)); /* moves nothing */
	f = (struct config_filter){.min_bytes = 4096, .status = 1u << CALL_ERROR};
	assert_false(passes(&f, &ok.call));
	assert_true(passes(&f, &failed.call));
	/* times that go back, codes that nobody knows */
	make(&wait, "cudaDeviceSynchronize", 0, (uint64_t)-5000, NULL, 0);
	f = (struct config_filter){.min_duration_ns = 1};
	assert_false(passes(&f, &wait.call));
	make(&wait, "cudaDeviceSynchronize", 123456, 5, NULL, 0);
	f = (struct config_filter){.errors = {names, 2}};
	assert_false(passes(&f, &wait.call));
}

/* However calls come, no more pass than burst + time * rate, and what is due passes. */
static void test_rate(void **state)
{
	static const struct {
		uint64_t per_second, burst, step_ns;
	} cases[] = {
		{1, 0, 1000000}, {7, 3, 1234567}, {1000, 5000, 100}, {7000000, 2, 100}, {1000000000, 0, 3}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t passed = 0, now = 5 * RATE_SECOND, begin = now, allowed;
		uint64_t burst = cases[i].burst ? cases[i].burst : cases[i].per_second;
		struct rate rate;

		rate_init(&rate, cases[i].per_second, cases[i].burst);
		for (int n = 0; n < 200000; n++, now += cases[i].step_ns)
			passed += rate_take(&rate, now);
		allowed = burst + (uint64_t)((double)(now - begin) / 1e9 * (double)cases[i].per_second);
		allowed = allowed < 200000 ? allowed : 200000;
		assert_true(passed <= allowed + 1);
		assert_true(passed + 2 >= allowed);
	}
}

static void test_rate_refills(void **state)
{
	struct rate rate;
	unsigned passed = 0;

	rate_init(&rate, 10, 4);
	for (int i = 0; i < 100; i++)
		passed += rate_take(&rate, 1000);
	assert_int_equal(passed, 4);
	assert_false(rate_take(&rate, 500)); /* back in time */
	assert_true(rate_take(&rate, 1000 + RATE_SECOND / 10));
	assert_false(rate_take(&rate, 1000 + RATE_SECOND / 10));
	for (int i = passed = 0; i < 100; i++)
		passed += rate_take(&rate, UINT64_MAX / 2);
	assert_int_equal(passed, 4);
}

/* Three sinks: one takes all, one errors, one at most 10; every event is accounted for in each. */
static void test_gate(void **state)
{
	static struct mock m[3];
	struct config_sink sinks[] = {mock_sink("all", &m[0]), mock_sink("errors", &m[1]),
				      mock_sink("few", &m[2])};
	struct gate *gate, *next;
	struct sample ok, failed;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	sinks[1].filter.status = 1u << CALL_ERROR;
	sinks[2].rate_limit.events = 10;
	make(&ok, "cudaMalloc", 0, 500, "size", 4096);
	make(&failed, "cudaMalloc", 2, 500, "size", 4096);
	f = open_fanout(sinks, 3);
	assert_int_equal(gate_new(sinks, 3, &gate), 0);
	for (uint64_t seq = 1; seq <= 3000; seq++)
		put_line(f, 0, seq, 100, gate_call(gate, f, seq % 30 ? &ok.call : &failed.call, &nobody));
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[0].lines, 3000);
	assert_int_equal(m[1].lines, 100);
	assert_int_equal(m[2].lines, 10);
	assert_int_equal(counters(f, 0).filtered, 0);
	assert_int_equal(counters(f, 1).filtered, 2900);
	assert_int_equal(counters(f, 2).rate_limited, 2990);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(counters(f, i).received, 3000);
	/* another configuration does not fill the bucket, unless it has another limit */
	assert_int_equal(gate_new(sinks, 3, &next), 0);
	gate_continue(next, gate);
	gate_continue(next, NULL);
	assert_false(gate_call(next, f, &ok.call, &nobody) & 4);
	gate_free(next);
	sinks[2].rate_limit.events = 11;
	assert_int_equal(gate_new(sinks, 3, &next), 0);
	gate_continue(next, gate);
	assert_true(gate_call(next, f, &ok.call, &nobody) & 4);
	gate_free(next);
	fanout_free(f);
	gate_free(gate);
	assert_int_equal(gate_new(sinks, 1, &gate), 0);
	assert_null(gate);
	assert_true(gate_call(NULL, NULL, &ok.call, &nobody) == FANOUT_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_rate_refills),
		cmocka_unit_test(test_gate),
	};
	int r;

	plans = plan_all(plan_host_abi());
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(plans);
	return r;
}
