/* The thread cache and the clock map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../streamer/enrich/enrich.h"

#define KEY(pid, tid) ((uint64_t)(pid) << 32 | (tid))

/* ---- threads ---- */

static struct rec_thread thread_record(uint32_t pid, uint32_t tid, const char *comm, const char *thread)
{
	struct rec_thread rec = {
		.kind = REC_THREAD,
		.uid = 1000,
		.pid_tgid = KEY(pid, tid),
		.start_ns = 5,
		.process_start_ns = 4,
		.cgroup = 77,
		.pid = pid,
		.tid = tid,
		.ns_pid = pid,
		.ns_tid = tid,
	};

	memcpy(rec.comm, comm, strlen(comm));
	memcpy(rec.thread, thread, strlen(thread));
	return rec;
}

static void learn(struct threads *threads, uint32_t pid, uint32_t tid)
{
	struct rec_thread rec = thread_record(pid, tid, "python3", "python3");

	assert_int_equal(threads_learn(threads, &rec), 0);
}

static void forget(struct threads *threads, uint32_t pid, uint32_t tid, bool leader)
{
	const struct rec_thread_exit rec = {
		.kind = REC_THREAD_EXIT, .leader = leader, .pid_tgid = KEY(pid, tid)};

	threads_forget(threads, &rec);
}

static bool is_stub(struct threads *threads, uint32_t pid, uint32_t tid)
{
	return !threads_find(threads, KEY(pid, tid))->comm[0];
}

static void test_learn(void **state)
{
	struct threads *threads = threads_new();
	struct rec_thread rec = thread_record(4242, 4243, "python3", "pt_autograd_0");
	struct thread *thread;

	assert_int_equal(threads_learn(threads, &rec), 0);
	thread = threads_find(threads, KEY(4242, 4243));
	assert_int_equal(thread->pid_tgid, KEY(4242, 4243));
	assert_int_equal(thread->pid, 4242);
	assert_int_equal(thread->tid, 4243);
	assert_int_equal(thread->ns_pid, 0);
	assert_int_equal(thread->ns_tid, 0);
	assert_int_equal(thread->uid, 1000);
	assert_int_equal(thread->start_ns, 5);
	assert_int_equal(thread->process_start_ns, 4);
	assert_int_equal(thread->cgroup, 77);
	assert_string_equal(thread->comm, "python3");
	assert_string_equal(thread->thread, "pt_autograd_0");
	assert_int_equal(threads_count(threads), 1);
	threads_free(threads);
	threads_free(NULL);
}

/* A new record of a known thread changes it in place and drops what was made of the old one. */
static void test_new_names(void **state)
{
	struct threads *threads = threads_new();
	struct rec_thread rec = thread_record(1, 1, "bash", "bash");
	struct thread *thread;

	assert_int_equal(threads_learn(threads, &rec), 0);
	thread = threads_find(threads, KEY(1, 1));
	assert_string_equal(thread->thread, "");
	thread->prefix[0].data = strdup("old");
	thread->prefix[0].len = 3;
	thread->prefix[THREAD_PREFIXES - 1].data = strdup("old");
	memset(rec.comm, 'x', sizeof(rec.comm));
	memset(rec.thread, 'x', sizeof(rec.thread));
	rec.thread[15] = 'y';
	assert_int_equal(threads_learn(threads, &rec), 0);
	assert_ptr_equal(threads_find(threads, KEY(1, 1)), thread);
	assert_null(thread->prefix[0].data);
	assert_int_equal(thread->prefix[0].len, 0);
	assert_null(thread->prefix[THREAD_PREFIXES - 1].data);
	assert_string_equal(thread->comm, "xxxxxxxxxxxxxxxx");
	assert_string_equal(thread->thread, "xxxxxxxxxxxxxxxy");
	assert_int_equal(threads_count(threads), 1);
	threads_free(threads);
}

static void test_namespaces(void **state)
{
	struct threads *threads = threads_new();
	struct rec_thread rec = thread_record(5000, 5001, "a", "a");
	struct thread *thread;

	/* in a container: its own ids differ */
	rec.ns_pid = 1;
	rec.ns_tid = 2;
	assert_int_equal(threads_learn(threads, &rec), 0);
	thread = threads_find(threads, KEY(5000, 5001));
	assert_int_equal(thread->pid, 5000);
	assert_int_equal(thread->ns_pid, 1);
	assert_int_equal(thread->ns_tid, 2);
	/* invisible from here */
	rec.pid_tgid = KEY(900000, 900001);
	rec.pid = rec.tid = 0;
	assert_int_equal(threads_learn(threads, &rec), 0);
	thread = threads_find(threads, KEY(900000, 900001));
	assert_int_equal(thread->pid, 900000);
	assert_int_equal(thread->tid, 900001);
	assert_int_equal(thread->ns_pid, 1);
	threads_free(threads);
}

/* A call before (or without) its thread's record. */
static void test_stub(void **state)
{
	struct threads *threads = threads_new();
	struct thread *thread = threads_find(threads, KEY(7, 8));

	assert_int_equal(thread->pid, 7);
	assert_int_equal(thread->tid, 8);
	assert_string_equal(thread->comm, "");
	assert_string_equal(thread->thread, "");
	assert_ptr_equal(threads_find(threads, KEY(7, 8)), thread);
	assert_int_equal(threads_count(threads), 1);
	thread->prefix[0].data = strdup("without a name");
	learn(threads, 7, 8);
	assert_int_equal(threads_count(threads), 1);
	assert_ptr_equal(threads_find(threads, KEY(7, 8)), thread);
	assert_string_equal(thread->comm, "python3");
	assert_null(thread->prefix[0].data);
	threads_free(threads);
}

static void test_forget(void **state)
{
	struct threads *threads = threads_new();

	forget(threads, 1, 1, true); /* nothing there */
	for (uint32_t tid = 10; tid < 20; tid++) {
		learn(threads, 10, tid);
		learn(threads, 11, tid);
	}
	forget(threads, 10, 13, false);
	assert_int_equal(threads_count(threads), 19);
	forget(threads, 10, 13, false);
	assert_int_equal(threads_count(threads), 19);
	assert_true(is_stub(threads, 10, 13));
	assert_false(is_stub(threads, 11, 13));
	/* the leader takes the others along, also when its own entry is gone */
	forget(threads, 10, 10, true);
	assert_int_equal(threads_count(threads), 10);
	forget(threads, 10, 10, true);
	assert_int_equal(threads_count(threads), 10);
	for (uint32_t tid = 10; tid < 20; tid++)
		assert_false(is_stub(threads, 11, tid));
	forget(threads, 11, 9, true);
	assert_int_equal(threads_count(threads), 0);
	threads_free(threads);
}

/* Full: stubs go first, then the thread used least recently; a busy old thread stays. */
static void test_bound(void **state)
{
	struct threads *threads = threads_new();

	learn(threads, 1, 1);
	threads_find(threads, KEY(2, 1));
	threads_find(threads, KEY(2, 2));
	for (uint32_t i = 0; i < THREADS_MAX - 3; i++)
		learn(threads, 3, i);
	assert_int_equal(threads_count(threads), THREADS_MAX);
	assert_false(is_stub(threads, 1, 1)); /* used just now */
	learn(threads, 4, 1);                 /* instead of stub (2, 1) */
	learn(threads, 4, 2);                 /* instead of stub (2, 2) */
	assert_int_equal(threads_count(threads), THREADS_MAX);
	assert_false(is_stub(threads, 3, 0)); /* used just now */
	learn(threads, 4, 3);                 /* instead of (3, 1) */
	assert_false(is_stub(threads, 1, 1));
	assert_false(is_stub(threads, 3, 0));
	assert_false(is_stub(threads, 3, 2));
	assert_int_equal(threads_count(threads), THREADS_MAX);
	assert_true(is_stub(threads, 3, 1));
	assert_int_equal(threads_count(threads), THREADS_MAX);
	for (uint32_t i = 0; i < 3 * THREADS_MAX; i++)
		threads_find(threads, KEY(5, i));
	assert_int_equal(threads_count(threads), THREADS_MAX);
	threads_free(threads);
}

/* Random use against a plain array. */
static void test_random(void **state)
{
	enum { PIDS = 24, TIDS = 24 };
	struct threads *threads = threads_new();
	static char model[PIDS][TIDS]; /* 0 absent, 1 stub, 2 known */
	size_t count = 0;

	memset(model, 0, sizeof(model));
	srand(11);
	for (int i = 0; i < 400000; i++) {
		uint32_t pid = (uint32_t)rand() % PIDS, tid = (uint32_t)rand() % TIDS;
		char *cell = &model[pid][tid];
		int action = rand() % 64;

		if (action < 20) {
			learn(threads, pid, tid);
			count += !*cell;
			*cell = 2;
		} else if (action < 42) {
			assert_int_equal(is_stub(threads, pid, tid), *cell != 2);
			count += !*cell;
			*cell = *cell ? *cell : 1;
		} else if (action < 63) {
			forget(threads, pid, tid, false);
			count -= *cell != 0;
			*cell = 0;
		} else {
			forget(threads, pid, tid, true);
			for (int t = 0; t < TIDS; t++) {
				count -= model[pid][t] != 0;
				model[pid][t] = 0;
			}
		}
		assert_int_equal(threads_count(threads), count);
	}
	threads_free(threads);
}

/* ---- clocks ---- */

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void test_now(void **state)
{
	struct clock_map *map = clock_map_new();

	for (int i = 0; i < 100; i++) {
		int64_t before = now_ns(CLOCK_REALTIME);
		int64_t converted = clock_map_real(map, (uint64_t)now_ns(CLOCK_BOOTTIME));
		int64_t after = now_ns(CLOCK_REALTIME);

		/* the two clocks were read in turn, which costs some microseconds at worst */
		assert_true(converted > before - 200000 && converted < after + 200000);
		assert_int_equal(clock_map_tick(map), 0);
	}
	clock_map_free(map);
	clock_map_free(NULL);
}

#define SECOND 1000000000ll

static void test_step(void **state)
{
	struct clock_map *map = clock_map_new();
	uint64_t boot = (uint64_t)now_ns(CLOCK_BOOTTIME) + 10 * (uint64_t)SECOND;
	int64_t real = clock_map_real(map, boot);

	assert_int_equal(clock_map_pair(map, boot, real), 0);
	/* set forward by an hour, back by two */
	assert_int_equal(clock_map_pair(map, boot + SECOND, real + 3601 * SECOND), 3600 * SECOND);
	assert_int_equal(clock_map_pair(map, boot + 2 * SECOND, real + 3602 * SECOND), 0);
	assert_int_equal(clock_map_pair(map, boot + 3 * SECOND, real - 3597 * SECOND), -7200 * SECOND);
	/* each time with the pair that held then, however late it is asked for */
	assert_int_equal(clock_map_real(map, boot - 5 * SECOND), real - 5 * SECOND);
	assert_int_equal(clock_map_real(map, boot), real);
	assert_int_equal(clock_map_real(map, boot + SECOND - 1), real + SECOND - 1);
	assert_int_equal(clock_map_real(map, boot + SECOND), real + 3601 * SECOND);
	assert_int_equal(clock_map_real(map, boot + 2 * SECOND + 5), real + 3602 * SECOND + 5);
	assert_int_equal(clock_map_real(map, boot + 3 * SECOND), real - 3597 * SECOND);
	assert_int_equal(clock_map_real(map, boot + 100 * SECOND), real - 3500 * SECOND);
	/* before all pairs: the first */
	assert_int_equal(clock_map_real(map, 0), real - (int64_t)boot);
	/* out of order: ignored */
	assert_int_equal(clock_map_pair(map, boot, real), 0);
	assert_int_equal(clock_map_real(map, boot + 100 * SECOND), real - 3500 * SECOND);
	clock_map_free(map);
}

/* Noise of reading changes nothing, so that differences between timestamps are those of the boot clock; a
 * slow drift is followed without being called a step. */
static void test_noise_and_drift(void **state)
{
	struct clock_map *map = clock_map_new();
	uint64_t boot = (uint64_t)now_ns(CLOCK_BOOTTIME) + (uint64_t)SECOND;
	int64_t offset = clock_map_real(map, boot) - (int64_t)boot;

	srand(3);
	for (int i = 0; i < 1000; i++, boot += SECOND) {
		assert_int_equal(clock_map_pair(map, boot, (int64_t)boot + offset + rand() % 2000 - 1000), 0);
		assert_int_equal(clock_map_real(map, boot) - (int64_t)boot, offset);
	}
	/* 500 us a second, for longer than the map remembers */
	for (int i = 0; i < 5000; i++, boot += SECOND) {
		offset += 500000;
		assert_int_equal(clock_map_pair(map, boot, (int64_t)boot + offset), 0);
		assert_int_equal(clock_map_real(map, boot) - (int64_t)boot, offset);
		assert_int_equal(clock_map_real(map, boot - SECOND / 2) - (int64_t)boot + SECOND / 2,
				 offset - 500000);
	}
	/* forgotten: the earliest that is still known */
	assert_int_equal(clock_map_real(map, boot - 4000 * SECOND) - (int64_t)boot + 4000 * SECOND,
			 clock_map_real(map, 0));
	clock_map_free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learn),      cmocka_unit_test(test_new_names),
		cmocka_unit_test(test_namespaces), cmocka_unit_test(test_stub),
		cmocka_unit_test(test_forget),     cmocka_unit_test(test_bound),
		cmocka_unit_test(test_random),     cmocka_unit_test(test_now),
		cmocka_unit_test(test_step),       cmocka_unit_test(test_noise_and_drift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
