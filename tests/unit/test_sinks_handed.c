/* A spool that goes from sink to sink in one run: each line is received, or recovered, once. */
#include <dirent.h>
#include <poll.h>

#include "test_sinks_mock.h"

#define N      100
#define SPOOLS 3 /* sinks that may have the spool, one at a time */

static const struct sink_origin earlier = {"host", "before"}, origin = {"host", "now"};

static char dir[64];

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/cudatap-handed-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	return rmdir(dir);
}

static struct config_sink spool_sink(const char *name, struct mock *m, const char *path)
{
	struct config_sink sink = mock_sink(name, m);

	sink.spool.path = (char *)path;
	sink.spool.max_bytes = 64 << 20;
	return sink;
}

static struct fanout *open_spooling(const struct config_sink *sinks, size_t n, const struct sink_origin *by)
{
	char error[256] = "";
	struct fanout *f = NULL;

	if (fanout_new(sinks, n, by, test_loss, NULL, &f, error, sizeof(error)))
		fail_msg("fanout_new: %s", error);
	return f;
}

static void change_until(struct fanout *f, const struct config_sink *sinks, size_t n, const bool *same,
			 uint64_t deadline_ns)
{
	const struct fanout_sinks all = {.list = sinks, .n = n, .origin = &origin, .same = same};
	struct fanout_change *change = NULL;
	char error[256] = "";

	if (fanout_prepare(f, &all, &change, error, sizeof(error)))
		fail_msg("fanout_prepare: %s", error);
	fanout_apply(change, deadline_ns);
	fanout_change_free(change);
}

static void change_to(struct fanout *f, const struct config_sink *sinks, size_t n, const bool *same)
{
	change_until(f, sinks, n, same, now_ns() + 5000 * MS);
}

/* Until all that have left are reaped. */
static void settle(struct fanout *f, const struct mock *open, const struct mock *m, size_t n)
{
	uint64_t end = now_ns() + 5000 * MS;

	for (size_t i = 0; i < n; i++)
		while (&m[i] != open && m[i].open && now_ns() < end) {
			fanout_reap(f);
			sleep_ms(1);
		}
	fanout_reap(f);
}

/* What all sinks of the run say, taken together. */
static struct sink_counters sum(struct fanout *f)
{
	struct sink_counters all = {0};

	for (size_t i = 0; i < fanout_nsinks(f); i++) {
		struct sink_counters one = counters(f, i);

		sink_counters_add(&all, &one);
	}
	return all;
}

static size_t named(struct fanout *f, const char *name)
{
	for (size_t i = 0; i < fanout_nsinks(f); i++)
		if (!strcmp(fanout_sink_name(f, i), name))
			return i;
	fail_msg("no sink %s", name);
	return 0;
}

/* An earlier run leaves N lines. */
static void leave_some(void)
{
	static struct mock m;
	struct config_sink sink;
	struct fanout *f;

	memset(&m, 0, sizeof(m));
	m.stall = true;
	sink = spool_sink("long ago", &m, dir);
	f = open_spooling(&sink, 1, &earlier);
	put_lines(f, 1, N, 100);
	wait_for(counters(f, 0).spooled == N);
	fanout_free(f);
}

struct handing {
	const char *from, *to; /* names */
	const char *path;      /* of the second one's spool, if another way to the same */
	bool gap;              /* a configuration without the spool between the two */
};

static void hand(const struct handing *how)
{
	static struct mock m[3];
	struct config_sink sinks[] = {spool_sink(how->from, &m[0], dir), mock_sink("other", &m[1]),
				      spool_sink(how->to, &m[2], how->path ? how->path : dir)};
	static const bool same[] = {true, false};
	bool one_name = !strcmp(how->from, how->to);
	struct config_sink after[2];
	struct sink_counters c, all;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].stall = true;
	leave_some();
	f = open_spooling(sinks, 2, &origin);
	put_lines(f, 1, N, 100);
	wait_for(counters(f, named(f, how->from)).spooled == 2 * N);
	memcpy(after, &sinks[1], sizeof(after));
	if (how->gap) {
		change_to(f, &sinks[1], 1, same);
		settle(f, &m[1], m, 3);
	}
	change_to(f, after, 2, same);
	settle(f, &m[1], m, 2);
	put_lines(f, N + 1, N, 100);
	wait_for(m[2].lines == 3 * N);
	fanout_close(f, now_ns() + 5000 * MS);
	all = sum(f);
	assert_int_equal(all.received, 4 * N); /* and the other one's */
	assert_int_equal(all.recovered, N);
	assert_int_equal(all.delivered, 5 * N);
	assert_int_equal(all.spooled, 0);
	c = counters(f, named(f, how->from));
	assert_int_equal(c.recovered, N);
	assert_int_equal(c.handed_over, one_name ? 0 : 2 * N);
	c = counters(f, named(f, how->to));
	assert_int_equal(c.taken_over, one_name ? 0 : 2 * N);
	fanout_free(f);
}

static void test_handings(void **state)
{
	char other_way[96];
	struct handing list[] = {
		{"a", "a", NULL, false}, {"a", "b", NULL, false},      {"a", "a", NULL, true},
		{"a", "b", NULL, true},  {"a", "b", other_way, false},
	};

	snprintf(other_way, sizeof(other_way), "%s/../%s", dir, strrchr(dir, '/') + 1);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		hand(&list[i]);
}

/* The one that was to have it goes before it has begun: the third one has it from the first. */
static void test_never_begun(void **state)
{
	static struct mock m[3];
	struct config_sink sinks[] = {spool_sink("a", &m[0], dir), spool_sink("b", &m[1], dir),
				      spool_sink("c", &m[2], dir)};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].stall = true;
	f = open_spooling(sinks, 1, &origin);
	put_lines(f, 1, N, 100);
	wait_for(counters(f, 0).spooled == N);
	m[0].blocks = true; /* and does not come back at once */
	sleep_ms(60);
	change_to(f, &sinks[1], 1, NULL);
	change_until(f, &sinks[2], 1, NULL, now_ns());
	m[0].blocks = false;
	settle(f, &m[2], m, 2);
	wait_for((fanout_reap(f), m[2].lines == N));
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[1].lines, 0);
	assert_int_equal(sum(f).received, N);
	assert_int_equal(sum(f).recovered, 0);
	assert_int_equal(sum(f).delivered, N);
	assert_int_equal(sum(f).spooled, 0);
	fanout_free(f);
}

static int no_open(struct sink *sink, char *error, size_t error_size)
{
	snprintf(error, error_size, "no");
	return -EIO;
}

/* The next one has the spool, but its outside cannot be opened: the spool takes what comes. */
static void test_spool_without_outside(void **state)
{
	static struct mock m[2];
	static struct sink_ops closed_ops;
	struct config_sink sinks[] = {spool_sink("a", &m[0], dir), spool_sink("b", &m[1], dir)};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].stall = true;
	closed_ops = mock_ops;
	closed_ops.open = no_open;
	sinks[1].ops = &closed_ops;
	sinks[1].queue.max_events = N / 2;
	f = open_spooling(sinks, 1, &origin);
	put_lines(f, 1, N, 100);
	wait_for(counters(f, 0).spooled == N);
	change_to(f, &sinks[1], 1, NULL);
	settle(f, &m[1], m, 1);
	wait_for(counters(f, 1).taken_over == N);
	for (int i = 0; i < 4; i++) {
		put_lines(f, N + (uint64_t)i * N / 4 + 1, N / 4, 100);
		wait_for(counters(f, 1).queued == 0);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(sum(f).spooled, 2 * N);
	fanout_free(f);
}

/* Names that come and go at random, outsides that take some or nothing. */
static void test_random(void **state)
{
	enum { ROUNDS = 60 };
	static const char *const names[SPOOLS] = {"a", "b", "c"};
	static struct mock m[ROUNDS + 1];
	static struct config_sink sinks[ROUNDS + 1];
	struct sink_counters all;
	uint64_t delivered = 0;
	unsigned seed = 11;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	leave_some();
	sinks[0] = spool_sink("a", &m[0], dir);
	m[0].stall = true;
	f = open_spooling(sinks, 1, &origin);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		put_lines(f, i * N, N, 100);
		m[i].stall = rand_r(&seed) % 3 == 0 && i < ROUNDS;
		m[i].delay_us = rand_r(&seed) % 2 && i < ROUNDS ? 2000 : 0;
		sinks[i] = spool_sink(names[rand_r(&seed) % SPOOLS], &m[i], rand_r(&seed) % 4 ? dir : NULL);
		sinks[i].spool.path = i == ROUNDS ? dir : sinks[i].spool.path;
		change_to(f, &sinks[i], 1, NULL);
		if (rand_r(&seed) % 2)
			settle(f, &m[i], m, i);
		fanout_reap(f);
		sum(f); /* each of them adds up */
	}
	wait_for((fanout_reap(f), sum(f).queued + sum(f).spooled + sum(f).in_flight == 0));
	fanout_close(f, now_ns() + 5000 * MS);
	all = sum(f);
	for (unsigned i = 0; i <= ROUNDS; i++)
		delivered += m[i].lines;
	assert_int_equal(all.received, ROUNDS * N);
	assert_int_equal(all.recovered, N);
	assert_int_equal(all.handed_over, all.taken_over);
	assert_int_equal(all.delivered, delivered);
	assert_int_equal(all.delivered + sink_counters_dropped(&all), (ROUNDS + 1) * N);
	fanout_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_handings, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_never_begun, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_spool_without_outside, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_random, make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("sinks/handed", tests, NULL, NULL);
}
