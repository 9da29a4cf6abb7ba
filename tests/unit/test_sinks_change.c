/* Sinks that come, go and change while lines flow: each line is in each stream that it is for once. */
#include <poll.h>

#include "test_sinks_mock.h"

#define N 1000

static bool mock_same_outside(const void *options, const void *others)
{
	return true;
}

static int refuse_open(struct sink *sink, char *error, size_t error_size)
{
	snprintf(error, error_size, "no");
	return -EIO;
}

static struct sink_ops shared_ops, refuse_ops, moody_ops;
static atomic_bool refused;

static int moody_open(struct sink *sink, char *error, size_t error_size);

static int set_up(void **state)
{
	shared_ops = refuse_ops = mock_ops;
	shared_ops.same_outside = mock_same_outside;
	refuse_ops.open = refuse_open;
	moody_ops = shared_ops;
	moody_ops.open = moody_open;
	return 0;
}

static struct fanout_change *prepare(struct fanout *f, const struct config_sink *sinks, size_t n,
				     const bool *same)
{
	const struct fanout_sinks all = {.list = sinks, .n = n, .same = same};
	struct fanout_change *change = NULL;
	char error[256] = "";

	if (fanout_prepare(f, &all, &change, error, sizeof(error)))
		fail_msg("fanout_prepare: %s", error);
	return change;
}

static void change_sinks(struct fanout *f, const struct config_sink *sinks, size_t n, const bool *same)
{
	struct fanout_change *change = prepare(f, sinks, n, same);

	fanout_apply(change, now_ns() + 5000 * MS);
	fanout_change_free(change);
}

static size_t sink_named(struct fanout *f, const char *name)
{
	for (size_t i = 0; i < fanout_nsinks(f); i++)
		if (!strcmp(fanout_sink_name(f, i), name))
			return i;
	fail_msg("no sink %s", name);
	return 0;
}

/* Waits until a sink that has left is reaped. */
static void await_closed(struct fanout *f, const struct mock *m)
{
	struct pollfd p = {.fd = fanout_left_fd(f), .events = POLLIN};

	for (int i = 0; m->open && i < 500; i++) {
		poll(&p, 1, 10);
		fanout_reap(f);
	}
	assert_false(m->open);
	fanout_reap(f);
}

static void test_add_and_remove(void **state)
{
	static struct mock m[3];
	struct config_sink before[] = {mock_sink("stays", &m[0]), mock_sink("goes", &m[1])};
	struct config_sink after[] = {mock_sink("comes", &m[2]), mock_sink("stays", &m[0])};
	static const bool same[] = {false, true};
	struct fanout_change *change;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	f = open_fanout(before, 2);
	put_lines(f, 1, N, 100);
	change = prepare(f, after, 2, same);
	assert_true(m[2].open);
	assert_int_equal(fanout_change_removed(change), 2);
	assert_int_equal(fanout_change_forms(change)->n, 1);
	assert_int_equal(fanout_change_forms(change)->list[0].sinks, 3);
	for (uint64_t i = 0; i < N; i++) /* committed, not flushed: still the old ones' */
		put_line(f, 0, N + 1 + i, 100, FANOUT_ALL);
	fanout_apply(change, now_ns() + 5000 * MS);
	fanout_change_free(change);
	put_lines(f, 2 * N + 1, N, 100);
	await_closed(f, &m[1]);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[0].lines, 3 * N);
	assert_int_equal(m[1].lines, 2 * N);
	assert_int_equal(m[1].last_seq, 2 * N);
	assert_int_equal(m[2].lines, N);
	assert_int_equal(m[0].disorder + m[1].disorder + m[2].disorder, 0);
	assert_int_equal(fanout_nsinks(f), 3);
	assert_int_equal(counters(f, sink_named(f, "goes")).delivered, 2 * N);
	assert_int_equal(counters(f, sink_named(f, "comes")).received, N);
	fanout_free(f);
}

/* A slow sink is replaced by another: both write, nothing is lost, the name's counters go on. */
static void test_replace(void **state)
{
	static struct mock m[2];
	struct config_sink before = mock_sink("a", &m[0]), after = mock_sink("a", &m[1]);
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].delay_us = 20000;
	f = open_fanout(&before, 1);
	put_lines(f, 1, N, 400);
	change_sinks(f, &after, 1, NULL);
	put_lines(f, N + 1, N, 400);
	assert_int_equal(counters(f, 0).received, 2 * N);
	wait_for(m[1].lines == N);
	await_closed(f, &m[0]);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[0].last_seq, N);
	assert_int_equal(m[0].lines, N);
	assert_int_equal(fanout_nsinks(f), 1);
	assert_int_equal(counters(f, 0).delivered, 2 * N);
	fanout_free(f);
}

/* Two that would get in each other's way: the second one opens what the first one has closed. */
static void test_handed_over(void **state)
{
	static struct mock m[2];
	struct config_sink before = any_sink("a", &shared_ops, &m[0]),
			   after = any_sink("b", &shared_ops, &m[1]);
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].blocks = true;
	f = open_fanout(&before, 1);
	put_lines(f, 1, N, 100);
	change_sinks(f, &after, 1, NULL);
	put_lines(f, N + 1, N, 100);
	sleep_ms(30);
	fanout_reap(f);
	assert_true(m[0].open);
	assert_false(m[1].open);
	assert_int_equal(counters(f, sink_named(f, "b")).queued, N);
	m[0].blocks = false;
	await_closed(f, &m[0]);
	wait_for(m[1].lines == N);
	assert_int_equal(m[0].lines, N);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
}

/* The end comes while one still waits for the other. */
static void test_end_while_handed_over(void **state)
{
	static struct mock m[3];
	struct config_sink s[] = {any_sink("a", &shared_ops, &m[0]), any_sink("a", &shared_ops, &m[1]),
				  any_sink("a", &shared_ops, &m[2])};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	m[0].delay_us = 50000;
	f = open_fanout(&s[0], 1);
	for (int i = 0; i < 3; i++) {
		if (i)
			change_sinks(f, &s[i], 1, NULL);
		put_lines(f, 1 + (uint64_t)i * N, N, 100);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(m[i].lines, N);
		assert_false(m[i].open);
	}
	assert_int_equal(counters(f, 0).delivered, 3 * N);
	fanout_free(f);
}

static void test_refused(void **state)
{
	static struct mock m[2];
	struct config_sink before = mock_sink("a", &m[0]);
	struct config_sink after[] = {mock_sink("b", &m[1]), any_sink("c", &refuse_ops, NULL)};
	const struct fanout_sinks sinks = {.list = after, .n = 2};
	struct fanout_change *change = NULL;
	char error[64] = "";
	struct fanout *f;

	memset(m, 0, sizeof(m));
	f = open_fanout(&before, 1);
	put_lines(f, 1, N, 100);
	assert_int_equal(fanout_prepare(f, &sinks, &change, error, sizeof(error)), -EIO);
	assert_null(change);
	assert_string_equal(error, "no");
	assert_false(m[1].open);
	/* and one that could be, but is not wanted after all */
	change = prepare(f, after, 1, NULL);
	assert_true(m[1].open);
	fanout_change_free(change);
	await_closed(f, &m[1]);
	put_lines(f, N + 1, N, 100);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[0].lines, 2 * N);
	assert_int_equal(m[1].lines, 0);
	assert_int_equal(fanout_nsinks(f), 1);
	fanout_free(f);
}

/* Opens while it may. */
static int moody_open(struct sink *sink, char *error, size_t error_size)
{
	return refused ? refuse_open(sink, error, error_size) : mock_open(sink, error, error_size);
}

/* One that had to wait cannot be opened then, for a while: nothing that its queue can hold is lost. */
static void test_refused_late(void **state)
{
	static struct mock m[3];
	struct config_sink before[] = {any_sink("a", &moody_ops, &m[0]), mock_sink("b", &m[1])};
	struct config_sink after[] = {any_sink("a", &moody_ops, &m[2]), mock_sink("b", &m[1])};
	static const bool same[] = {false, true};
	struct fanout *f;

	memset(m, 0, sizeof(m));
	refused = false;
	f = open_fanout(before, 2);
	refused = true;
	after[0].queue.max_events = N;
	change_sinks(f, after, 2, same);
	put_lines(f, 1, 2 * N, 100);
	await_closed(f, &m[0]);
	sleep_ms(100);
	assert_int_equal(counters(f, 0).queued, N);
	assert_false(fanout_all_gone(f));
	refused = false;
	wait_for(m[2].lines == N);
	assert_int_equal(counters(f, 0).delivered, N);
	assert_int_equal(counters(f, 0).dropped[SINK_IO_ERROR] + counters(f, 0).dropped[SINK_QUEUE_FULL], N);
	put_lines(f, 2 * N + 1, N, 100);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(m[2].lines, 2 * N);
	assert_int_equal(m[1].lines, 3 * N);
	assert_int_equal(m[2].told, N);
	fanout_free(f);
}

/* It never can: the end does not wait for it, and what it was given is lost, counted under the reason. */
static void test_refused_for_ever(void **state)
{
	static struct mock m[2];
	struct config_sink before = any_sink("a", &moody_ops, &m[0]),
			   after = any_sink("a", &moody_ops, &m[1]);
	uint64_t begun;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	refused = false;
	f = open_fanout(&before, 1);
	refused = true;
	change_sinks(f, &after, 1, NULL);
	put_lines(f, 1, N, 100);
	await_closed(f, &m[0]);
	sleep_ms(10);
	begun = now_ns();
	fanout_close(f, begun + 60000 * MS);
	assert_true(now_ns() - begun < 30000 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_IO_ERROR], N);
	fanout_free(f);
}

/* All have gone but the one that comes; and when that goes too, it is said. */
static void test_gone(void **state)
{
	static struct mock m[3];
	struct config_sink before[] = {mock_sink("a", &m[0]), mock_sink("b", &m[1])};
	struct config_sink after[] = {mock_sink("a", &m[0]), mock_sink("c", &m[2])};
	static const bool same[] = {true, false};
	struct fanout *f;
	struct pollfd p;

	memset(m, 0, sizeof(m));
	m[0].gone_after = m[2].gone_after = 1;
	f = open_fanout(before, 2);
	p = (struct pollfd){.fd = fanout_gone_fd(f), .events = POLLIN};
	put_lines(f, 1, 1, 100);
	wait_for(counters(f, 0).delivered == 1);
	change_sinks(f, after, 2, same);
	await_closed(f, &m[1]);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_false(fanout_all_gone(f));
	put_lines(f, 2, 1, 100);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_true(fanout_all_gone(f));
	fanout_free(f);
}

/* ---- many sinks ---- */

/* As many as a configuration can have, all of them changed, several times before the first have ended. */
static void test_all_change(void **state)
{
	enum { ROUNDS = 3, ALL = FANOUT_MAX_SINKS };
	static struct mock m[ROUNDS][ALL];
	static struct config_sink sinks[ROUNDS][ALL];
	static char names[ROUNDS][ALL][16];
	struct fanout *f = NULL;

	memset(m, 0, sizeof(m));
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < ALL; i++) {
			snprintf(names[round][i], sizeof(names[0][0]), "sink%d", i + round * ALL / 2);
			m[round][i].blocks = round < ROUNDS - 1;
			sinks[round][i] = mock_sink(names[round][i], &m[round][i]);
		}
		if (f)
			change_sinks(f, sinks[round], ALL, NULL);
		else
			f = open_fanout(sinks[0], ALL);
		put_lines(f, 1, 10, 100);
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < ALL; i++)
			m[round][i].blocks = false;
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(fanout_nsinks(f), 2 * ALL);
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < ALL; i++)
			assert_int_equal(m[round][i].lines, 10);
	fanout_free(f);
}

/* Outsides that keep their sinks for ever do not pile up without an end; when they are back, all goes on. */
static void test_too_many(void **state)
{
	enum { ALL = FANOUT_MAX_SINKS, ROUNDS = FANOUT_MAX_ALIVE / ALL };
	static struct mock m[ROUNDS + 1][ALL];
	static struct config_sink sinks[ROUNDS + 1][ALL];
	static char names[ALL][16];
	struct fanout_sinks all = {.list = sinks[ROUNDS], .n = ALL};
	struct fanout_change *change;
	char error[256] = "";
	struct fanout *f;
	int r = -EBUSY;

	memset(m, 0, sizeof(m));
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < ALL; i++) {
			snprintf(names[i], sizeof(names[0]), "sink%d", i);
			sinks[round][i] = mock_sink(names[i], &m[round][i]);
			m[round][i].blocks = true;
		}
	f = open_fanout(sinks[0], ALL);
	for (int round = 1; round < ROUNDS; round++) {
		put_lines(f, (uint64_t)round, 1, 100);
		change_sinks(f, sinks[round], ALL, NULL);
	}
	put_lines(f, ROUNDS, 1, 100);
	assert_int_equal(fanout_prepare(f, &all, &change, error, sizeof(error)), -EBUSY);
	assert_non_null(strstr(error, "256 can be"));
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < ALL; i++)
			m[round][i].blocks = false;
	for (uint64_t end = now_ns() + 5000 * MS; r == -EBUSY && now_ns() < end; sleep_ms(5)) {
		fanout_reap(f);
		r = fanout_prepare(f, &all, &change, error, sizeof(error));
	}
	assert_int_equal(r, 0);
	fanout_change_free(change);
	fanout_free(f);
}

/* ---- many changes ---- */

#define STORM_SINKS 40

struct look {
	struct fanout *fanout;
	atomic_bool end;
};

static void *look_main(void *arg)
{
	struct look *look = arg;
	struct sink_counters c;

	while (!atomic_load(&look->end)) {
		for (size_t i = 0; i < fanout_nsinks(look->fanout); i++) {
			fanout_counters(look->fanout, i, &c);
			assert_true(sink_counters_check(&c));
		}
		fanout_reopen(look->fanout);
		usleep(200);
	}
	return NULL;
}

/* Random lines and masks, a change every few batches, another thread that looks on: what each sink was given
 * is what the masks said, and what became of it adds up. */
static void test_storm(void **state)
{
	static struct mock m[STORM_SINKS];
	static struct config_sink sinks[STORM_SINKS];
	static char names[STORM_SINKS][16];
	static uint64_t given[STORM_SINKS];
	static struct config_sink lists[STORM_SINKS][3]; /* they outlive the fan-out */
	struct config_sink *now = lists[0];
	unsigned seed = 7, next = 3;
	struct look look = {0};
	pthread_t thread;
	uint64_t seq = 1;
	struct fanout *f;

	memset(m, 0, sizeof(m));
	memset(given, 0, sizeof(given));
	for (int i = 0; i < STORM_SINKS; i++) {
		snprintf(names[i], sizeof(names[i]), "sink%d", i);
		m[i].delay_us = i % 5 ? 0 : 3000;
		sinks[i] = i % 7 ? mock_sink(names[i], &m[i]) : any_sink(names[i], &shared_ops, &m[i]);
	}
	memcpy(now, sinks, sizeof(lists[0]));
	f = open_fanout(now, 3);
	look.fanout = f;
	pthread_create(&thread, NULL, look_main, &look);
	while (next < STORM_SINKS) {
		bool same[3] = {true, true, true};
		struct fanout_change *change;
		unsigned which = rand_r(&seed) % 3;

		same[which] = false;
		memcpy(lists[next], now, sizeof(lists[0]));
		now = lists[next];
		now[which] = sinks[next++];
		change = prepare(f, now, 3, same);
		for (int i = 0; i < 50; i++, seq++)
			put_line(f, 0, seq, 60 + rand_r(&seed) % 900, 0);
		fanout_apply(change, now_ns() + 5000 * MS);
		for (int batch = 0; batch < 5; batch++) {
			for (int i = 0; i < 200; i++, seq++) {
				uint64_t mask = 0;

				for (int s = 0; s < 3; s++) {
					if (rand_r(&seed) % 4 == 0)
						continue;
					mask |= 1ull << s;
					given[(struct mock *)now[s].options - m]++;
				}
				put_line(f, 0, seq, 60 + rand_r(&seed) % 900, mask);
			}
			fanout_flush(f);
		}
		fanout_change_free(change);
		fanout_reap(f);
	}
	fanout_close(f, now_ns() + 10000 * MS);
	atomic_store(&look.end, true);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < STORM_SINKS; i++) {
		struct sink_counters c = counters(f, sink_named(f, names[i]));

		assert_int_equal(c.received, given[i]);
		assert_int_equal(c.delivered, given[i]);
		assert_int_equal(m[i].lines, given[i]);
		assert_int_equal(m[i].disorder, 0);
		assert_false(m[i].open);
	}
	fanout_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add_and_remove),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_handed_over),
		cmocka_unit_test(test_end_while_handed_over),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_late),
		cmocka_unit_test(test_refused_for_ever),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_all_change),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_storm),
	};

	return cmocka_run_group_tests_name("sinks/change", tests, set_up, NULL);
}
