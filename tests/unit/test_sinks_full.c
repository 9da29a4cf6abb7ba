/* Full queues: who loses, who waits, and that every line is accounted for once. */
#include "test_sinks_mock.h"

static void start(struct mock *m, struct config_sink *sink, enum sink_when_full when_full, int64_t max_events)
{
	memset(m, 0, sizeof(*m));
	*sink = mock_sink("slow", m);
	sink->queue.max_events = max_events;
	sink->queue.when_full = when_full;
	sink->queue.block_timeout_ns = 200 * MS;
}

/* The newest lines survive, and the loss says which ones did not. */
static void test_drop_oldest(void **state)
{
	static struct mock m;
	struct config_sink sink;
	struct sink_counters c;
	struct fanout *f;

	start(&m, &sink, SINK_DROP_OLDEST, 5000);
	m.blocks = true;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 10, 200);
	wait_for(m.writes > 0); /* it has 1 to 10 in its hands */
	for (uint64_t i = 0; i < 100; i++)
		put_lines(f, 11 + i * 200, 200, 200);
	c = counters(f, 0);
	assert_int_equal(c.received, 20010);
	assert_int_equal(c.queued, 5000);
	assert_int_equal(c.dropped[SINK_QUEUE_FULL], 15010);
	m.blocks = false;
	wait_for(counters(f, 0).loss_events == 1);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(m.lines, 5000);
	assert_int_equal(c.delivered, 5000);
	assert_int_equal(m.last_seq, 20010);
	assert_int_equal(m.disorder, 0);
	assert_int_equal(m.told, 15010);
	fanout_free(f);
}

static int range_of_loss(void *ctx, const char *format, const struct sink_loss *loss, char *out, size_t size,
			 struct line_meta *ret_meta)
{
	*(struct sink_loss *)ctx = *loss;
	return test_loss(NULL, format, loss, out, size, ret_meta);
}

static void test_drop_oldest_range(void **state)
{
	static struct mock m;
	struct sink_loss loss = {0};
	struct config_sink sink;
	struct fanout *f;
	char error[64];

	start(&m, &sink, SINK_DROP_OLDEST, 100);
	m.blocks = true;
	assert_int_equal(fanout_new(&sink, 1, NULL, range_of_loss, &loss, &f, error, sizeof(error)), 0);
	put_lines(f, 1, 10, 200);
	wait_for(m.writes > 0);
	put_lines(f, 11, 150, 200); /* 1 to 10 are held; 90 fit beside them: 71 to 160 */
	m.blocks = false;
	wait_for(counters(f, 0).loss_events == 1);
	assert_int_equal(loss.count, 60);
	assert_int_equal(loss.seq_first, 11);
	assert_int_equal(loss.seq_last, 70);
	fanout_free(f);
	assert_int_equal(m.lines, 100);
}

/*
 * More at once than there is room for at all, lines of all sizes, limits in bytes. How much of that the sink
 * gets to write in the meantime is up to the machine: it goes on until that is enough.
 */
static void test_drop_oldest_any_load(void **state)
{
	static struct mock m;
	struct config_sink sink;
	struct sink_counters c;
	unsigned rand = 5;
	uint64_t seq = 1;
	int writes = 0;
	struct fanout *f;

	start(&m, &sink, SINK_DROP_OLDEST, 700);
	sink.queue.max_bytes = 100000;
	m.random = 77;
	f = open_fanout(&sink, 1);
	for (int batch = 0; batch < 300 || m.lines <= 1000; batch++) {
		unsigned n = 1 + rand_r(&rand) % 1500;

		if (batch % 10 == 9) {
			wait_for(m.writes > writes);
			writes = m.writes;
		}
		for (unsigned i = 0; i < n; i++, seq++) {
			bool wanted = batch / 50 % 2 ? rand_r(&rand) % 100 == 0 : true;

			put_line(f, 0, seq, 60 + rand_r(&rand) % 900, wanted ? 1 : 0);
			if (!wanted)
				fanout_withhold(f, 1, FANOUT_FILTERED);
		}
		fanout_flush(f);
		counters(f, 0);
		assert_true(counters(f, 0).queued <= 700);
		if (rand_r(&rand) % 3 == 0)
			usleep(rand_r(&rand) % 2000);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.received, seq - 1);
	assert_int_equal(c.delivered, m.lines);
	assert_int_equal(c.dropped[SINK_REJECTED], m.lost);
	assert_int_equal(m.disorder, 0);
	assert_true(c.dropped[SINK_QUEUE_FULL] + c.dropped[SINK_UNREACHABLE] > 1000);
	fanout_free(f);
}

/* The reader waits, nothing is lost. */
static void test_block(void **state)
{
	static struct mock m;
	struct config_sink sink;
	struct fanout *f;

	start(&m, &sink, SINK_BLOCK, 50);
	sink.queue.block_timeout_ns = 5000 * MS;
	m.delay_us = 200;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 20000, 200);
	put_lines(f, 20001, 100, 200);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.lines, 20100);
	assert_int_equal(counters(f, 0).delivered, 20100);
	assert_int_equal(m.disorder, 0);
	fanout_free(f);
}

/*
 * A sink that takes nothing holds the reader up once, and again only after it has taken something. Once for
 * each line, or for each batch, would be 20 s and more.
 */
static void test_block_is_bounded(void **state)
{
	static struct mock m;
	struct config_sink sink;
	uint64_t begin, took;
	struct fanout *f;

	start(&m, &sink, SINK_BLOCK, 50);
	m.blocks = true;
	f = open_fanout(&sink, 1);
	begin = now_ns();
	put_lines(f, 1, 500, 200);
	took = now_ns() - begin;
	assert_in_range(took, 190 * MS, 5000 * MS);
	begin = now_ns();
	for (uint64_t i = 0; i < 100; i++)
		put_lines(f, 501 + i * 100, 100, 200);
	assert_true(now_ns() - begin < 5000 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_QUEUE_FULL], 10500 - 50);
	m.blocks = false;
	wait_for(counters(f, 0).queued == 0);
	m.blocks = true;
	begin = now_ns();
	put_lines(f, 20001, 500, 200);
	took = now_ns() - begin;
	assert_in_range(took, 190 * MS, 5000 * MS);
	m.blocks = false;
	fanout_free(f);
}

/* A sink that ends while the reader waits for it. */
static void test_block_and_gone(void **state)
{
	static struct mock m;
	struct config_sink sink;
	uint64_t begin = now_ns();
	struct fanout *f;

	start(&m, &sink, SINK_BLOCK, 50);
	sink.queue.block_timeout_ns = 30000 * MS;
	m.delay_us = 100;
	m.gone_after = 1000;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 20000, 200);
	assert_true(now_ns() - begin < 5000 * MS);
	assert_true(fanout_all_gone(f) || counters(f, 0).dropped[SINK_PIPE_CLOSED]);
	fanout_free(f);
}

struct pushing {
	struct fanout *fanout;
	atomic_bool done;
};

static void *push_lines(void *arg)
{
	struct pushing *pushing = arg;

	put_lines(pushing->fanout, 1, 5000, 200);
	atomic_store(&pushing->done, true);
	return NULL;
}

/* A reader that waits for a sink that takes nothing comes at once when it is wanted elsewhere. */
static void block_until(enum fanout_patience patience)
{
	struct pushing pushing = {0};
	static struct mock m;
	struct config_sink sink;
	pthread_t thread;
	struct fanout *f;

	start(&m, &sink, SINK_BLOCK, 50);
	sink.queue.block_timeout_ns = 600000 * MS;
	m.blocks = true;
	f = pushing.fanout = open_fanout(&sink, 1);
	pthread_create(&thread, NULL, push_lines, &pushing);
	wait_for(counters(f, 0).queued == 50);
	sleep_ms(20);
	assert_false(pushing.done);
	fanout_reopen(f);
	fanout_set_patience(f, patience);
	wait_for(pushing.done);
	pthread_join(thread, NULL);
	if (patience == FANOUT_EXCEEDS) {
		put_lines(f, 5001, 100, 200);
		assert_int_equal(counters(f, 0).queued, 5100);
	} else {
		assert_int_equal(counters(f, 0).dropped[SINK_QUEUE_FULL], 5000 - 50);
	}
	fanout_set_patience(f, FANOUT_WAITS);
	m.blocks = false;
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.lines, patience == FANOUT_EXCEEDS ? 5100 : 50);
	assert_int_equal(m.disorder, 0);
	assert_int_equal(m.reopened, 1);
	fanout_free(f);
}

static void test_block_and_exceed(void **state)
{
	block_until(FANOUT_EXCEEDS);
}

static void test_block_and_lose(void **state)
{
	block_until(FANOUT_LOSES);
}

/* on_disk_full: exit, as the fan-out sees it. */
static struct sink_result exit_write(struct sink *sink, const struct line *lines, size_t n)
{
	return (struct sink_result){.taken = 1, .status = SINK_EXIT, .reason = SINK_DISK_FULL};
}

static void test_exit(void **state)
{
	static const struct sink_ops exit_ops = {.type = "exit",
						 .batch_bytes = 100000,
						 .open = mock_open,
						 .write = exit_write,
						 .close = mock_close};
	static struct mock m, other;
	struct config_sink sinks[] = {any_sink("exit", &exit_ops, &m), mock_sink("other", &other)};
	struct fanout *f;

	memset(&m, 0, sizeof(m));
	memset(&other, 0, sizeof(other));
	f = open_fanout(sinks, 2);
	assert_false(fanout_wants_exit(f));
	put_lines(f, 1, 10, 100);
	wait_for(fanout_wants_exit(f));
	assert_false(fanout_all_gone(f));
	put_lines(f, 11, 10, 100);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 1);
	assert_int_equal(counters(f, 0).dropped[SINK_DISK_FULL], 19);
	assert_int_equal(other.lines, 20);
	fanout_free(f);
}

/* With arguments and without are two forms of one format. */
static void test_forms(void **state)
{
	static struct mock m[3];
	struct config_sink sinks[] = {mock_sink("a", &m[0]), mock_sink("b", &m[1]), mock_sink("c", &m[2])};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	sinks[1].fields.args = true;
	f = open_fanout(sinks, 3);
	assert_int_equal(fanout_nformats(f), 2);
	assert_false(fanout_format_args(f, 0));
	assert_true(fanout_format_args(f, 1));
	assert_string_equal(fanout_format(f, 1), "json");
	assert_int_equal(fanout_format_sinks(f, 0), 5);
	assert_int_equal(fanout_format_sinks(f, 1), 2);
	fanout_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drop_oldest),
		cmocka_unit_test(test_drop_oldest_range),
		cmocka_unit_test(test_drop_oldest_any_load),
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_block_is_bounded),
		cmocka_unit_test(test_block_and_gone),
		cmocka_unit_test(test_block_and_exceed),
		cmocka_unit_test(test_block_and_lose),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
