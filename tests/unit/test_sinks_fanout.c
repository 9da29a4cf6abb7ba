/* The fan-out and its workers, with sinks that misbehave on purpose. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test_sinks.h"

/* What a mock sink does and what it saw. Counted by itself, independently of the room's counters. */
struct mock {
	unsigned random; /* seed: 0: takes everything */
	uint64_t gone_after;
	atomic_bool stall; /* as long as this is set */
	unsigned delay_us;
	atomic_bool blocks; /* in write(), deaf to everything */
	bool wait;          /* in sink_poll(), for ever */

	bool open;
	atomic_uint_fast64_t lines, lost, unknown; /* seqs seen */
	uint64_t last_seq, disorder, losses, told, reopened;
	uint64_t bytes;
	atomic_int writes;
	char text[16];

	/* async only */
	pthread_t thread;
	pthread_mutex_t lock;
	struct mock_message {
		uint64_t seq, bytes;
	} sent[4096];
	size_t nsent;
	bool ending;
	struct sink *sink;
};

static int mock_open(struct sink *sink, char *error, size_t error_size)
{
	struct mock *m = (struct mock *)sink->options;

	m->open = true;
	sink->priv = m;
	return 0;
}

static void mock_close(struct sink *sink, uint64_t deadline_ns)
{
	struct mock *m = sink->priv;

	assert_true(m->open);
	m->open = false;
}

static void mock_see(struct mock *m, const struct line *line)
{
	uint64_t count;
	char reason[32], sink[32];

	if (!line->meta.seq) {
		assert_int_equal(sscanf(line->data,
					"{\"loss\":\"%31[a-z_]\",\"sink\":\"%31[^\"]\",\"count\":%" SCNu64,
					reason, sink, &count),
				 3);
		m->losses++;
		m->told += count;
		return;
	}
	m->disorder += line->meta.seq <= m->last_seq;
	m->last_seq = line->meta.seq;
	m->lines++;
	m->bytes += line->len;
	memcpy(m->text, line->data, sizeof(m->text));
}

static struct sink_result mock_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct mock *m = sink->priv;
	struct sink_result r = {.taken = n, .status = SINK_DONE, .reason = SINK_REJECTED};

	m->writes++;
	while (atomic_load(&m->blocks))
		sleep_ms(5);
	if (m->delay_us)
		usleep(m->delay_us);
	if (m->wait) {
		sink_poll(sink, -1, 0, SINK_NEVER);
		return (struct sink_result){.status = SINK_DONE};
	}
	if (m->random) {
		r.taken = rand_r(&m->random) % (n + 1);
		r.lost = rand_r(&m->random) % 4 ? 0 : rand_r(&m->random) % (n - r.taken + 1);
		if (!r.lost && rand_r(&m->random) % 16 == 0) {
			r.status = SINK_STALLED;
			r.reason = SINK_UNREACHABLE;
		}
	}
	if (m->stall)
		r = (struct sink_result){.status = SINK_STALLED, .reason = SINK_UNREACHABLE};
	for (size_t i = 0; i < r.taken; i++)
		mock_see(m, &lines[i]);
	for (size_t i = 0; i < r.lost; i++) {
		m->lost += lines[r.taken + i].meta.seq > 0;
		m->last_seq = lines[r.taken + i].meta.seq > 0 ? lines[r.taken + i].meta.seq : m->last_seq;
	}
	if (m->gone_after && m->lines >= m->gone_after)
		r = (struct sink_result){r.taken, 0, SINK_GONE, SINK_PIPE_CLOSED, 0, false};
	return r;
}

static int mock_reopen(struct sink *sink)
{
	((struct mock *)sink->priv)->reopened++;
	return 0;
}

static const struct sink_ops mock_ops = {
	.type = "mock",
	.batch_bytes = 100000,
	.open = mock_open,
	.write = mock_write,
	.reopen = mock_reopen,
	.close = mock_close,
};

static int refuse_open(struct sink *sink, char *error, size_t error_size)
{
	snprintf(error, error_size, "no");
	return -EIO;
}

static const struct sink_ops refuse_ops = {.type = "refuse", .open = refuse_open};

/* ---- a kind that learns later what became of its lines ---- */

static void *async_main(void *arg)
{
	struct mock *m = arg;
	unsigned rand = 7;
	bool ending = false;

	while (!ending) {
		struct mock_message sent[4096];
		size_t n;

		usleep(300);
		pthread_mutex_lock(&m->lock);
		ending = m->ending;
		n = m->nsent;
		memcpy(sent, m->sent, n * sizeof(sent[0]));
		m->nsent = 0;
		pthread_mutex_unlock(&m->lock);
		for (size_t i = 0; i < n; i++) {
			unsigned fate = rand_r(&rand) % 100;

			if (fate == 0) {
				m->unknown++;
				sink_unknown(m->sink, 1);
			} else if (fate < 5) {
				m->lost++;
				sink_dropped(m->sink, SINK_TIMED_OUT, 1, sent[i].seq, sent[i].seq);
			} else {
				m->lines++;
				sink_delivered(m->sink, 1, sent[i].bytes);
			}
		}
	}
	return NULL;
}

static int async_open(struct sink *sink, char *error, size_t error_size)
{
	struct mock *m = (struct mock *)sink->options;

	m->sink = sink;
	pthread_mutex_init(&m->lock, NULL);
	return mock_open(sink, error, error_size);
}

static struct sink_result async_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct mock *m = sink->priv;
	struct sink_result r = {.status = SINK_DONE};

	if (!m->thread)
		pthread_create(&m->thread, NULL, async_main, m);
	pthread_mutex_lock(&m->lock);
	for (; r.taken < n && m->nsent < 4096; r.taken++) {
		const struct line *line = &lines[r.taken];

		if (line->meta.seq)
			m->sent[m->nsent++] = (struct mock_message){line->meta.seq, line->len};
		else
			m->losses++;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static void async_flush(struct sink *sink, uint64_t deadline_ns)
{
	struct mock *m = sink->priv;

	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_mutex_unlock(&m->lock);
	if (m->thread)
		pthread_join(m->thread, NULL);
}

static const struct sink_ops async_ops = {
	.type = "async",
	.batch_bytes = 100000,
	.async = true,
	.open = async_open,
	.write = async_write,
	.flush = async_flush,
	.close = mock_close,
};

/* ---- tests ---- */

static struct config_sink mock_sink(const char *name, struct mock *m)
{
	return any_sink(name, &mock_ops, m);
}

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

	assert_int_equal(fanout_new(sinks, 3, NULL, NULL, &f, error, sizeof(error)), -EIO);
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

/* ---- the law of conservation ---- */

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
		cmocka_unit_test(test_async),
		cmocka_unit_test(test_law_of_conservation),
		cmocka_unit_test(test_reader_never_waits),
	};

	return cmocka_run_group_tests_name("sinks/fanout", tests, NULL, NULL);
}
