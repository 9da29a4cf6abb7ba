/* The fan-out and its workers, with sinks that misbehave on purpose. */
#include <poll.h>

#include "test_sinks_mock.h"

static int refuse_open(struct sink *sink, char *error, size_t error_size)
{
	snprintf(error, error_size, "no");
	return -EIO;
}

static const struct sink_ops refuse_ops = {.type = "refuse", .open = refuse_open};

/* Two formats, three sinks, masks: each gets its own lines, encoded once per format. */
static void test_formats_and_masks(void **state)
{
	static struct mock m[3];
	struct config_sink sinks[] = {mock_sink("a", &m[0]), mock_sink("b", &m[1]), mock_sink("c", &m[2])};
	uint64_t bytes[3] = {0};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	sinks[1].format = (char *)"ecs";
	f = open_fanout(sinks, 3);
	assert_int_equal(fanout_nformats(f), 2);
	assert_string_equal(fanout_format(f, 0), "json");
	assert_string_equal(fanout_format(f, 1), "ecs");
	assert_int_equal(fanout_format_sinks(f, 0), 5);
	assert_int_equal(fanout_format_sinks(f, 1), 2);
	assert_int_equal(fanout_nsinks(f), 3);
	assert_string_equal(fanout_sink_name(f, 2), "c");
	for (uint64_t seq = 1; seq <= 10000; seq++) {
		uint64_t mask = seq % 3 == 0 ? 1 : seq % 3 == 1 ? 7 : 6;

		put_line(f, 0, seq, 200, mask);
		put_line(f, 1, seq, 300, mask);
		fanout_withhold(f, 7 & ~mask, FANOUT_FILTERED);
		if (seq % 100 == 0)
			fanout_flush(f);
		bytes[0] += mask & 1 ? 200 : 0;
		bytes[1] += mask & 2 ? 300 : 0;
		bytes[2] += mask & 4 ? 200 : 0;
	}
	fanout_lost(f, 4, SINK_ENCODE_ERROR, 10001);
	fanout_withhold(f, 2, FANOUT_RATE_LIMITED);
	fanout_close(f, now_ns() + 5000 * MS);
	for (size_t i = 0; i < 3; i++) {
		struct sink_counters c = counters(f, i);

		assert_int_equal(m[i].bytes, bytes[i]);
		assert_int_equal(c.bytes, bytes[i]);
		assert_int_equal(m[i].disorder, 0);
		assert_int_equal(c.received, 10000 + (i > 0));
		assert_int_equal(c.filtered, 10000 - m[i].lines);
		assert_int_equal(c.rate_limited, i == 1);
		assert_int_equal(c.dropped[SINK_ENCODE_ERROR], i == 2);
		assert_false(m[i].open);
	}
	fanout_free(f);
}

static void test_longest_lines(void **state)
{
	static struct mock m;
	struct config_sink sink = mock_sink("a", &m);
	struct fanout *f = open_fanout(&sink, 1);

	memset(&m.lines, 0, sizeof(m.lines));
	put_lines(f, 1, 1000, FANOUT_MAX_LINE);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.lines, 1000);
	assert_int_equal(m.disorder, 0);
	fanout_free(f);
}

/* What a full queue loses is counted exactly, with its range, and told in the stream. */
static void test_overflow_is_exact(void **state)
{
	static struct mock m;
	struct config_sink sink = mock_sink("slow", &m);
	struct sink_counters c;
	struct fanout *f;

	memset(&m, 0, sizeof(m));
	m.blocks = true;
	sink.queue.max_events = 100;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 250, 200);
	c = counters(f, 0);
	assert_int_equal(c.queued, 100);
	assert_int_equal(c.dropped[SINK_QUEUE_FULL], 150);
	m.blocks = false;
	wait_for(counters(f, 0).loss_events == 1);
	put_lines(f, 251, 50, 200);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.lines, 150);
	assert_int_equal(m.losses, 1);
	assert_int_equal(m.told, 150);
	assert_int_equal(m.last_seq, 300);
	assert_int_equal(m.disorder, 0);
	assert_int_equal(counters(f, 0).bytes, 150 * 200);
	fanout_free(f);
}

static void test_one_fails_all_close(void **state)
{
	static struct mock m[2];
	struct config_sink sinks[] = {mock_sink("a", &m[0]), mock_sink("b", &m[1]),
				      any_sink("c", &refuse_ops, NULL)};
	struct fanout *f = NULL;
	char error[64] = "";

	assert_int_equal(fanout_new(sinks, 3, NULL, NULL, NULL, &f, error, sizeof(error)), -EIO);
	assert_null(f);
	assert_string_equal(error, "no");
	assert_false(m[0].open);
	assert_false(m[1].open);
}

/* A stall: lines wait, the overflow counts under its cause, all flows again by itself. */
static void test_stall(void **state)
{
	static struct mock m;
	struct config_sink sink = mock_sink("flaky", &m);
	struct sink_counters c;
	struct fanout *f;

	memset(&m, 0, sizeof(m));
	m.stall = true;
	sink.queue.max_events = 100;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 1, 200);
	wait_for(atomic_load(&m.writes) > 0);
	sleep_ms(20);
	put_lines(f, 2, 199, 200);
	c = counters(f, 0);
	assert_int_equal(c.queued, 100);
	assert_int_equal(c.dropped[SINK_UNREACHABLE], 100);
	atomic_store(&m.stall, false);
	wait_for(counters(f, 0).delivered == 100);
	wait_for(counters(f, 0).loss_events == 1);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.told, 100);
	fanout_free(f);
}

static void test_deadline(void **state)
{
	static struct mock m[2];
	struct config_sink sinks[] = {mock_sink("waits", &m[0]), mock_sink("slow", &m[1])};
	struct sink_counters c;
	struct fanout *f;
	uint64_t begin;

	memset(m, 0, sizeof(m));
	m[0].wait = true;
	m[1].delay_us = 20000;
	f = open_fanout(sinks, 2);
	put_lines(f, 1, 10000, 5000);
	begin = now_ns();
	fanout_close(f, begin + 200 * MS);
	assert_true(now_ns() - begin >= 200 * MS);
	assert_true(now_ns() - begin < 900 * MS);
	c = counters(f, 0);
	assert_int_equal(c.delivered, 0);
	assert_int_equal(c.queued, 0);
	assert_int_equal(sink_counters_dropped(&c), 10000);
	assert_true(c.dropped[SINK_SHUTDOWN] > 0);
	c = counters(f, 1);
	assert_int_equal(c.delivered, m[1].lines);
	assert_true(c.delivered > 0 && c.dropped[SINK_SHUTDOWN] > 0);
	fanout_free(f);
}

/* The deadline is brought forward (a second SIGINT), from another thread. */
static void *hurry_main(void *arg)
{
	sleep_ms(100);
	fanout_stop(arg, 0);
	return NULL;
}

static void test_deadline_brought_forward(void **state)
{
	static struct mock m;
	struct config_sink sink = mock_sink("waits", &m);
	struct fanout *f;
	pthread_t thread;
	uint64_t begin = now_ns();

	memset(&m, 0, sizeof(m));
	m.wait = true;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 10, 100);
	pthread_create(&thread, NULL, hurry_main, f);
	fanout_close(f, now_ns() + 60000 * MS);
	pthread_join(thread, NULL);
	assert_true(now_ns() - begin < 1000 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_SHUTDOWN], 10);
	fanout_free(f);
}

/* Stop without waiting: a descriptor tells when all have ended, what comes later is counted. */
static void test_stop_and_poll(void **state)
{
	static struct mock m;
	struct config_sink sink = mock_sink("a", &m);
	struct fanout *f = open_fanout(&sink, 1);
	struct pollfd p = {.fd = fanout_stopped_fd(f), .events = POLLIN};

	put_lines(f, 1, 10, 100);
	assert_int_equal(poll(&p, 1, 20), 0);
	fanout_stop(f, now_ns() + 5000 * MS);
	assert_int_equal(poll(&p, 1, 2000), 1);
	put_lines(f, 11, 5, 100);
	assert_int_equal(counters(f, 0).delivered, 10);
	assert_int_equal(counters(f, 0).dropped[SINK_SHUTDOWN], 5);
	fanout_free(f);
}

/* A write that never comes back does not keep us, and everything is accounted for. */
static struct fanout *volatile left_behind; /* so that it is no leak */
static struct mock stuck;

static void test_stuck_worker(void **state)
{
	struct fanout *f;
	static struct config_sink sink;
	uint64_t begin;

	sink = mock_sink("stuck", &stuck);
	stuck.blocks = true;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 100, 100);
	wait_for(atomic_load(&stuck.writes) > 0);
	begin = now_ns();
	fanout_close(f, begin + 100 * MS);
	assert_true(now_ns() - begin < 2000 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_SHUTDOWN], 100);
	fanout_free(f);
	/* When it does come back, it finds everything in its place. */
	left_behind = f;
	stuck.blocks = false;
	sleep_ms(50);
	assert_int_equal(counters(f, 0).dropped[SINK_SHUTDOWN], 100);
	assert_int_equal(counters(f, 0).delivered, 0);
}

static void test_reopen_reaches_all(void **state)
{
	static struct mock m[2];
	struct config_sink sinks[] = {mock_sink("a", &m[0]), mock_sink("b", &m[1])};
	struct fanout *f = open_fanout(sinks, 2);

	put_lines(f, 1, 10, 100);
	fanout_reopen(f);
	wait_for(counters(f, 0).delivered == 10 && counters(f, 1).delivered == 10);
	sleep_ms(20);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[0].reopened, 1);
	assert_int_equal(m[1].reopened, 1);
	fanout_free(f);
}

/* The reader never waits, whatever the sinks do: the time of a push does not depend on them. */
static void test_reader_never_waits(void **state)
{
	static struct mock m[2];
	struct config_sink sinks[] = {mock_sink("blocked", &m[0]), mock_sink("waits", &m[1])};
	struct fanout *f;
	uint64_t begin;

	memset(m, 0, sizeof(m));
	m[0].blocks = true;
	m[1].wait = true;
	f = open_fanout(sinks, 2);
	begin = now_ns();
	for (uint64_t i = 0; i < 1000; i++)
		put_lines(f, 1 + i * 100, 100, 400);
	assert_true(now_ns() - begin < 2000 * MS);
	m[0].blocks = false;
	fanout_close(f, 0);
	fanout_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats_and_masks),
		cmocka_unit_test(test_longest_lines),
		cmocka_unit_test(test_overflow_is_exact),
		cmocka_unit_test(test_one_fails_all_close),
		cmocka_unit_test(test_stall),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_deadline_brought_forward),
		cmocka_unit_test(test_stop_and_poll),
		cmocka_unit_test(test_stuck_worker),
		cmocka_unit_test(test_reopen_reaches_all),
		cmocka_unit_test(test_reader_never_waits),
	};

	return cmocka_run_group_tests_name("sinks/fanout", tests, NULL, NULL);
}
