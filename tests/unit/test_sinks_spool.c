/* Sinks with a spool: outages, restarts, kinds that learn later, full spools and full disks. */
#include <sys/resource.h>

#include "test_sinks_mock.h"
#include "test_spool.h"

static struct config_sink spooled_sink(const struct sink_ops *ops, void *options, char *path,
				       uint64_t max_bytes)
{
	struct config_sink sink = any_sink("lake", ops, options);

	sink.spool.path = path;
	sink.spool.max_bytes = max_bytes;
	sink.queue.max_events = 2000;
	return sink;
}

static struct fanout *open_as(const struct config_sink *sink, const struct sink_origin *origin)
{
	char error[512] = "";
	struct fanout *f = NULL;

	if (fanout_new(sink, 1, origin, test_loss, NULL, &f, error, sizeof(error)))
		fail_msg("fanout_new: %s", error);
	return f;
}

/* As fast as half of the queue allows, looking at the law all the time. */
static void feed(struct fanout *f, uint64_t first, uint64_t n)
{
	for (uint64_t i = 0; i < n; i += 100) {
		while (counters(f, 0).queued > 1000)
			usleep(200);
		put_lines(f, first + i, 100, 60 + (first + i) * 7 % 600);
	}
}

/* ---- kinds that take lines at once ---- */

static void test_outage(void **state)
{
	struct mock m = {.stall = true};
	char path[64];
	struct config_sink sink = spooled_sink(&mock_ops, &m, new_spool(path), 256 << 20);
	struct fanout *f = open_as(&sink, &run_a);
	struct sink_counters c;

	feed(f, 1, 100000);
	wait_for(counters(f, 0).queued == 0);
	c = counters(f, 0);
	assert_int_equal(c.spooled, 100000);
	assert_int_equal(c.delivered, 0);
	m.stall = false;
	feed(f, 100001, 20000);
	wait_for(counters(f, 0).delivered == 120000);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.spooled + sink_counters_dropped(&c), 0);
	assert_int_equal(m.lines, 120000);
	assert_int_equal(m.disorder, 0);
	assert_int_equal(c.bytes, m.bytes);
	fanout_free(f);
	remove_spool(path);
}

/* A receiver that takes the connection and reads nothing: write() does not come back. */
static void test_hangs_in_write(void **state)
{
	struct mock m = {.wait = true};
	char path[64];
	struct config_sink sink = spooled_sink(&mock_ops, &m, new_spool(path), 256 << 20);
	struct fanout *f = open_as(&sink, &run_a);
	struct sink_counters c;

	feed(f, 1, 50000);
	wait_for(counters(f, 0).spooled == 50000);
	fanout_close(f, now_ns() + 50 * MS);
	c = counters(f, 0);
	assert_int_equal(c.spooled, 50000);
	assert_int_equal(c.queued + c.in_flight + sink_counters_dropped(&c), 0);
	fanout_free(f);
	remove_spool(path);
}

static const struct sink_origin *told[8];
static int ntold;

static void note_origin(struct sink *sink)
{
	told[ntold++ % 8] = sink->origin;
}

static void test_restart(void **state)
{
	static const struct sink_origin run_c = {.host = "gpu09", .run = "cccccccccccc"};
	static char runs[8][16];
	struct mock m = {.stall = true};
	struct sink_ops ops = mock_ops;
	char path[64];
	struct config_sink sink;
	struct sink_counters c;
	struct fanout *f;

	ops.origin = note_origin;
	sink = spooled_sink(&ops, &m, new_spool(path), 256 << 20);
	f = open_as(&sink, &run_a);
	feed(f, 1, 30000);
	fanout_close(f, now_ns() + 20000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.received, 30000);
	assert_int_equal(c.spooled, 30000);
	fanout_free(f);

	/* still out: a second run leaves its own behind */
	f = open_as(&sink, &run_b);
	assert_int_equal(counters(f, 0).recovered, 30000);
	feed(f, 30001, 10000);
	fanout_close(f, now_ns() + 100 * MS);
	c = counters(f, 0);
	assert_int_equal(c.recovered, 30000);
	assert_int_equal(c.received, 10000);
	assert_int_equal(c.spooled, 40000);
	fanout_free(f);

	m.stall = false;
	ntold = 0;
	f = open_as(&sink, &run_c);
	feed(f, 40001, 1000);
	wait_for(counters(f, 0).delivered == 41000);
	for (int i = 0; i < ntold && i < 8; i++)
		snprintf(runs[i], sizeof(runs[i]), "%s", told[i]->run);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.recovered, 40000);
	assert_int_equal(c.received, 1000);
	assert_int_equal(m.lines, 41000);
	assert_int_equal(m.disorder, 0);
	assert_int_equal(ntold, 3);
	assert_string_equal(runs[0], run_a.run);
	assert_string_equal(runs[1], run_b.run);
	assert_string_equal(runs[2], run_c.run);
	fanout_free(f);
	remove_spool(path);
}

/* A sink that takes some, loses some and stalls: its losses are its own, the order holds. */
static void test_random(void **state)
{
	for (unsigned seed = 1; seed <= 3; seed++) {
		struct mock m = {.random = seed};
		char path[64];
		struct config_sink sink = spooled_sink(&mock_ops, &m, new_spool(path), 64 << 20);
		struct fanout *f = open_as(&sink, &run_a);
		struct sink_counters c;

		feed(f, 1, 20000);
		fanout_close(f, now_ns() + 20 * MS);
		c = counters(f, 0);
		assert_int_equal(c.received, 20000);
		assert_int_equal(c.delivered, m.lines);
		assert_int_equal(c.dropped[SINK_REJECTED], m.lost);
		assert_int_equal(m.disorder, 0);
		fanout_free(f);
		m.random = 0;
		f = open_as(&sink, &run_b);
		assert_int_equal(counters(f, 0).recovered, c.spooled);
		fanout_close(f, now_ns() + 5000 * MS);
		assert_int_equal(m.lines + m.lost, 20000);
		assert_int_equal(m.disorder, 0);
		fanout_free(f);
		remove_spool(path);
	}
}

static void test_full_spool(void **state)
{
	struct mock m = {.stall = true};
	char path[64];
	struct config_sink sink = spooled_sink(&mock_ops, &m, new_spool(path), 1 << 20);
	struct fanout *f = open_as(&sink, &run_a);
	struct sink_counters c;

	feed(f, 1, 20000);
	wait_for(counters(f, 0).queued == 0);
	c = counters(f, 0);
	assert_true(c.dropped[SINK_SPOOL_FULL] > 10000);
	assert_int_equal(sink_counters_dropped(&c), c.dropped[SINK_SPOOL_FULL]);
	m.stall = false;
	wait_for(counters(f, 0).spooled == 0);
	wait_for(counters(f, 0).loss_events > 0);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(m.lines + c.dropped[SINK_SPOOL_FULL], 20000);
	assert_int_equal(m.last_seq, 20000);
	assert_int_equal(m.told, c.dropped[SINK_SPOOL_FULL]);
	fanout_free(f);
	remove_spool(path);
}

/* Files get no longer than a limit: as a full disk, but without one. */
static void test_full_disk(void **state)
{
	struct mock m = {.stall = true};
	char path[64];
	struct config_sink sink = spooled_sink(&mock_ops, &m, new_spool(path), 256 << 20);
	struct rlimit old, small;
	struct sink_counters c;
	struct fanout *f;

	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){300000, old.rlim_max};
	f = open_as(&sink, &run_a);
	setrlimit(RLIMIT_FSIZE, &small);
	put_lines(f, 1, 1000, 400);
	wait_for(counters(f, 0).queued == 0 || counters(f, 0).spooled > 0);
	put_lines(f, 1001, 1000, 400);
	put_lines(f, 2001, 3000, 400);
	/* out and full: the queue holds what it may, the rest is lost, and why is said */
	wait_for(counters(f, 0).dropped[SINK_DISK_FULL] > 0);
	c = counters(f, 0);
	assert_true(c.queued > 0);
	assert_int_equal(c.received, 5000);
	assert_int_equal(c.dropped[SINK_DISK_FULL], sink_counters_dropped(&c));
	/* full, but the sink takes lines: no further loss */
	m.stall = false;
	wait_for(counters(f, 0).delivered == 5000 - c.dropped[SINK_DISK_FULL]);
	put_lines(f, 5001, 1000, 400);
	wait_for(counters(f, 0).delivered == 6000 - c.dropped[SINK_DISK_FULL]);
	setrlimit(RLIMIT_FSIZE, &old);
	sleep_ms(600);
	m.stall = true;
	feed(f, 6001, 20000);
	wait_for(counters(f, 0).spooled == 20000);
	m.stall = false;
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m.lines, 26000 - c.dropped[SINK_DISK_FULL]);
	assert_int_equal(m.disorder, 0);
	fanout_free(f);
	remove_spool(path);
}

static void test_lock(void **state)
{
	struct mock m[2] = {{.stall = true}, {0}};
	char path[64], error[512] = "";
	struct config_sink sinks[2] = {spooled_sink(&mock_ops, &m[0], new_spool(path), 1 << 20),
				       spooled_sink(&mock_ops, &m[1], path, 1 << 20)};
	struct fanout *f = NULL;

	assert_int_equal(fanout_new(sinks, 2, &run_a, test_loss, NULL, &f, error, sizeof(error)), -EBUSY);
	assert_non_null(strstr(error, "sink lake: spool /tmp/"));
	assert_non_null(strstr(error, "is in use, by process"));
	assert_false(m[0].open || m[1].open);
	f = open_as(&sinks[0], &run_a);
	fanout_free(f);
	remove_spool(path);
}

/* ---- a kind that learns later what became of its lines, all in its worker thread ---- */

struct later {
	unsigned seed;
	bool down; /* everything comes back */
	size_t nheld;
	struct line_meta held[3000];
	uint32_t len[3000];
	uint64_t got[70000]; /* how often each seq was delivered */
	uint64_t delivered, lost, back, twice, last, disorder;
	bool ordered; /* report in order, so that the order can be seen */
};

static int later_open(struct sink *sink, char *error, size_t error_size)
{
	sink->priv = (void *)sink->options;
	return 0;
}

/* The fates of some lines in hand. */
static void later_report(struct sink *sink, struct later *l, size_t n)
{
	while (n-- && l->nheld) {
		size_t i = l->ordered ? 0 : (size_t)rand_r(&l->seed) % l->nheld;
		struct line_meta meta = l->held[i];
		uint32_t len = l->len[i];
		unsigned fate = (unsigned)rand_r(&l->seed) % 1000;

		l->nheld--;
		memmove(&l->held[i], &l->held[i + 1], (l->nheld - i) * sizeof(meta));
		memmove(&l->len[i], &l->len[i + 1], (l->nheld - i) * sizeof(len));
		assert_true(meta.spool != 0);
		if (l->down || fate < 2) {
			l->back++;
			sink_give_back(sink, &meta);
			continue;
		}
		sink_release(sink, &meta);
		if (fate < 5) {
			l->lost++;
			sink_dropped(sink, SINK_REJECTED, 1, meta.seq, meta.seq);
			l->got[meta.seq] += 1000;
			continue;
		}
		l->delivered++;
		l->disorder += meta.seq <= l->last;
		l->last = meta.seq;
		l->got[meta.seq]++;
		sink_delivered(sink, 1, len);
	}
}

static struct sink_result later_write(struct sink *sink, const struct line *lines, size_t n)
{
	struct later *l = sink->priv;
	struct sink_result result = {.status = SINK_DONE};

	for (; result.taken < n && l->nheld < 3000; result.taken++) {
		if (!lines[result.taken].meta.seq)
			continue;
		l->held[l->nheld] = lines[result.taken].meta;
		l->len[l->nheld++] = lines[result.taken].len;
	}
	if (l->nheld == 3000)
		later_report(sink, l, 1 + (size_t)rand_r(&l->seed) % 3000);
	return result;
}

static struct sink_result later_tick(struct sink *sink)
{
	later_report(sink, sink->priv, 200);
	return (struct sink_result){.taken = 1};
}

static void later_flush(struct sink *sink, uint64_t deadline_ns)
{
	struct later *l = sink->priv;

	/* some are still in flight when the time is up */
	later_report(sink, l, l->nheld > 10 ? l->nheld - 10 : 0);
}

static void later_close(struct sink *sink, uint64_t deadline_ns)
{
}

static const struct sink_ops later_ops = {
	.type = "later",
	.batch_bytes = 100000,
	.async = true,
	.spools = true,
	.tick_ns = MS,
	.open = later_open,
	.write = later_write,
	.tick = later_tick,
	.flush = later_flush,
	.close = later_close,
};

static void check_later(const struct later *l, const struct sink_counters *c, uint64_t n)
{
	assert_int_equal(c->delivered, l->delivered);
	assert_int_equal(c->dropped[SINK_REJECTED], l->lost);
	assert_int_equal(c->in_flight + c->queued, 0);
	for (uint64_t seq = 1; seq <= n; seq++)
		assert_true(l->got[seq] > 0);
}

/* Reports in any order, some lines come back, then all do for a while: each arrives, none twice. */
static void test_later(void **state)
{
	static struct later l;
	char path[64];
	struct config_sink sink = spooled_sink(&later_ops, &l, new_spool(path), 256 << 20);
	struct fanout *f;
	struct sink_counters c;

	l = (struct later){.seed = 9};
	f = open_as(&sink, &run_a);
	feed(f, 1, 30000);
	l.down = true;
	feed(f, 30001, 10000);
	sleep_ms(100);
	l.down = false;
	feed(f, 40001, 10000);
	wait_for(counters(f, 0).spooled + counters(f, 0).in_flight == 0);
	c = counters(f, 0);
	check_later(&l, &c, 50000);
	assert_int_equal(c.delivered + c.dropped[SINK_REJECTED], 50000);
	assert_true(l.back > 50);
	fanout_close(f, now_ns() + 1000 * MS);
	fanout_free(f);
	remove_spool(path);
}

/* In flight at the end: in the spool still. The next run delivers it, and what nobody had reported. */
static void test_later_restart(void **state)
{
	static struct later l;
	char path[64];
	struct config_sink sink = spooled_sink(&later_ops, &l, new_spool(path), 256 << 20);
	struct fanout *f;
	struct sink_counters c, d;

	l = (struct later){.seed = 4, .ordered = true};
	f = open_as(&sink, &run_a);
	feed(f, 1, 20000);
	l.down = true;
	feed(f, 20001, 5000);
	fanout_close(f, now_ns() + 100 * MS);
	c = counters(f, 0);
	assert_int_equal(c.received, 25000);
	assert_int_equal(c.in_flight + c.queued + c.dropped[SINK_SHUTDOWN], 0);
	assert_int_equal(c.delivered + c.dropped[SINK_REJECTED] + c.spooled, 25000);
	assert_true(c.spooled >= 5000);
	fanout_free(f);
	l.down = false;
	l.nheld = 0;
	l.last = 0;
	l.disorder = 0;
	f = open_as(&sink, &run_b);
	wait_for(counters(f, 0).spooled + counters(f, 0).in_flight == 0);
	fanout_close(f, now_ns() + 1000 * MS);
	d = counters(f, 0);
	/* only up to the first one that is missing do we know of the others */
	assert_true(d.recovered >= c.spooled);
	assert_int_equal(d.delivered + d.dropped[SINK_REJECTED], d.recovered);
	for (uint64_t seq = 1; seq <= 25000; seq++)
		assert_true(l.got[seq] > 0);
	fanout_free(f);
	remove_spool(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outage),        cmocka_unit_test(test_hangs_in_write),
		cmocka_unit_test(test_restart),       cmocka_unit_test(test_random),
		cmocka_unit_test(test_full_spool),    cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_lock),          cmocka_unit_test(test_later),
		cmocka_unit_test(test_later_restart),
	};

	return cmocka_run_group_tests_name("sinks/spool", tests, NULL, NULL);
}
