/* The law of conservation: whatever happens, every line is accounted for once. */
#include "test_sinks_mock.h"

static void test_async(void **state)
{
	static struct mock m;
	struct config_sink sink = any_sink("broker", &async_ops, &m);
	struct sink_counters c;
	struct fanout *f;

	memset(&m, 0, sizeof(m));
	sink.queue.max_events = 3000;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 200; i++) {
		put_lines(f, 1 + i * 100, 100, 200);
		counters(f, 0);
		if (i % 10 == 9)
			sleep_ms(1);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.received, 20000);
	assert_int_equal(c.in_flight, 0);
	assert_int_equal(c.queued, 0);
	assert_int_equal(c.delivered, m.lines);
	assert_int_equal(c.unknown, m.unknown);
	assert_int_equal(c.dropped[SINK_TIMED_OUT], m.lost);
	assert_int_equal(c.bytes, m.lines * 200);
	assert_true(m.lines > 1000 && m.lost > 10 && m.unknown > 1);
	fanout_free(f);
}

struct watch {
	struct fanout *fanout;
	atomic_bool end;
	uint64_t looks;
};

static void *watch_main(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load(&w->end)) {
		for (size_t i = 0; i < fanout_nsinks(w->fanout); i++) {
			struct sink_counters c;

			fanout_counters(w->fanout, i, &c);
			if (!sink_counters_check(&c))
				abort();
			w->looks++;
		}
		usleep(100);
	}
	return NULL;
}

static void expect_accounted(struct fanout *f, size_t i, const struct mock *m, uint64_t events)
{
	struct sink_counters c = counters(f, i);

	assert_int_equal(c.received, events);
	assert_int_equal(c.queued + c.in_flight, 0);
	assert_int_equal(c.delivered, m->lines);
	assert_int_equal(c.unknown, m->unknown);
	assert_int_equal(m->disorder, 0);
	assert_int_equal(c.dropped[SINK_REJECTED], i == 3 ? 0 : m->lost);
}

/* Four sinks - one random, one slow, one that goes in the middle, one asynchronous - random batches,
 * random masks, another thread that looks at the counters all the time. */
static void random_load(unsigned seed)
{
	static struct mock m[4];
	struct config_sink sinks[] = {mock_sink("random", &m[0]), mock_sink("slow", &m[1]),
				      mock_sink("mortal", &m[2]), any_sink("broker", &async_ops, &m[3])};
	struct watch watch = {0};
	pthread_t thread;
	uint64_t seq = 1, events = 0;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].random = seed;
	m[1].delay_us = 2000;
	m[2].gone_after = 5000;
	sinks[0].queue.max_events = 500;
	sinks[1].queue.max_bytes = 200000;
	sinks[3].queue.max_events = 2000;
	f = open_fanout(sinks, 4);
	watch.fanout = f;
	pthread_create(&thread, NULL, watch_main, &watch);
	while (events < 60000) {
		unsigned n = 1 + rand_r(&seed) % 400;

		for (unsigned i = 0; i < n; i++, seq++) {
			uint64_t mask = rand_r(&seed) % 3 ? 15 : rand_r(&seed) % 16;

			put_line(f, 0, seq, 60 + rand_r(&seed) % 900, mask);
			fanout_withhold(f, 15 & ~mask,
					rand_r(&seed) % 2 ? FANOUT_FILTERED : FANOUT_RATE_LIMITED);
		}
		events += n;
		fanout_flush(f);
		if (rand_r(&seed) % 4 == 0)
			usleep(rand_r(&seed) % 3000);
	}
	fanout_close(f, now_ns() + 300 * MS);
	atomic_store(&watch.end, true);
	pthread_join(thread, NULL);
	assert_true(watch.looks > 100);
	for (size_t i = 0; i < 4; i++)
		expect_accounted(f, i, &m[i], events);
	assert_true(counters(f, 2).dropped[SINK_PIPE_CLOSED] > 0);
	assert_false(fanout_all_gone(f));
	fanout_free(f);
}

static void test_law_of_conservation(void **state)
{
	for (unsigned seed = 1; seed <= 4; seed++)
		random_load(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_async),
		cmocka_unit_test(test_law_of_conservation),
	};

	return cmocka_run_group_tests_name("sinks/law", tests, NULL, NULL);
}
