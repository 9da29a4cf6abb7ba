/* Variables out of environments of every kind, and out of real processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../streamer/enrich/alive.h"
#include "../../streamer/enrich/early.h"
#include "../../streamer/enrich/procfs.h"

static const char *const names[] = {"RANK", "SLURM_JOB_ID", "EMPTY"};
#define N (sizeof(names) / sizeof(names[0]))

/* ---- text ---- */

static struct environs *read_text(const char *text, size_t len, int *ret_some)
{
	struct environs *environs = environs_new(N);
	int fd = memfd_create("environ", MFD_CLOEXEC);

	assert_non_null(environs);
	assert_int_equal(write(fd, text, len), len);
	lseek(fd, 0, SEEK_SET);
	*ret_some = environs_read(environs, fd, names);
	close(fd);
	return environs;
}

static void assert_value(const struct environs *environs, size_t i, const char *expected)
{
	if (!expected) {
		assert_null(environs->value[i].data);
		return;
	}
	assert_non_null(environs->value[i].data);
	assert_int_equal(environs->value[i].len, strlen(expected));
	assert_memory_equal(environs->value[i].data, expected, strlen(expected));
}

#define TEXT(literal) literal, sizeof(literal) - 1

static void test_entries(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *expected[N];
	} cases[] = {
		{TEXT("RANK=3\0HOME=/x\0EMPTY=\0SLURM_JOB_ID=42\0"), {"3", "42", ""}},
		{TEXT("RANK=3\0RANK=4\0"), {"3"}},
		{TEXT("RANK=a=b\0"), {"a=b"}},
		{TEXT("RAN=1\0RANKS=2\0XRANK=3\0rank=4\0=RANK\0RANK\0=\0\0\0"), {NULL}},
		{TEXT("RANK=\"\\\n\t\x01\xff\xc3\0"), {"\\\"\\\\\\n\\t\\u0001\xef\xbf\xbd\xef\xbf\xbd"}},
		{TEXT("SLURM_JOB_ID=\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\0"),
		 {NULL, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"}},
		{TEXT("X=1\0RANK=no end"), {"no end"}},
		{TEXT("RANK"), {NULL}},
	};
	int some;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct environs *environs = read_text(cases[i].text, cases[i].len, &some);

		assert_int_equal(some, 1);
		for (size_t k = 0; k < N; k++)
			assert_value(environs, k, cases[i].expected[k]);
		environs_free(environs);
	}
	environs_free(read_text("", 0, &some));
	assert_int_equal(some, 0);
	environs_free(NULL);
}

/* Wanted entries at every distance from the places where the buffer is filled anew. */
static void test_buffer(void **state)
{
	size_t size = 3 * ENVIRONS_BUFFER, at;
	char *text = malloc(size);
	struct environs *environs;
	int some;

	for (int before = -8; before <= 8; before++) {
		memset(text, 'x', size);
		for (size_t i = 99; i < size; i += 100)
			text[i] = 0;
		for (int k = 1; k <= 2; k++) {
			at = (size_t)(k * ENVIRONS_BUFFER + before - 4);
			text[at - 1] = 0;
			memcpy(text + at, k == 1 ? "RANK=1" : "EMPTY=", 7);
		}
		environs = read_text(text, size, &some);
		assert_value(environs, 0, "1");
		assert_value(environs, 2, "");
		environs_free(environs);
	}
	free(text);
}

/* A value that is longer than the buffer, and one behind it; what a line has no room for is cut. */
static void test_large(void **state)
{
	size_t len = 2 * ENVIRONS_BUFFER + 17;
	char *text = malloc(len + 64), *p = text;
	struct environs *environs;
	int some;

	memcpy(p, "RANK=", 5);
	for (size_t i = 5; i + 1 < len; i += 2)
		memcpy(p + i, "\xc3\xa4", 2);
	p[len - 1] = 0;
	memcpy(p + len, "SLURM_JOB_ID=7", 15);
	environs = read_text(text, len + 15, &some);
	assert_int_equal(environs->value[0].len, ENVIRONS_MAX_VALUE);
	assert_memory_equal(environs->value[0].data + ENVIRONS_MAX_VALUE - 2, "\xc3\xa4", 2);
	assert_value(environs, 1, "7");
	environs_free(environs);
	/* an odd place of the cut: no half character */
	p[5] = 'x';
	for (size_t i = 6; i + 1 < len; i += 2)
		memcpy(p + i, "\xc3\xa4", 2);
	p[len - 1] = 0;
	environs = read_text(text, len + 15, &some);
	assert_int_equal(environs->value[0].len, ENVIRONS_MAX_VALUE - 1);
	environs_free(environs);
	/* what escapes to six times as much */
	memset(p + 5, 1, len - 6);
	environs = read_text(text, len + 15, &some);
	assert_int_equal(environs->value[0].len, ENVIRONS_MAX_VALUE / 6 * 6);
	environs_free(environs);
	free(text);
}

/* All values together have a bound as well. */
static void test_room(void **state)
{
	static const char *const many[] = {"A0", "A1", "A2", "A3", "A4", "A5", "A6", "A7",
					   "A8", "A9", "AA", "AB", "AC", "AD", "AE", "AF"};
	struct environs *environs = environs_new(ENVIRONS_MAX_NAMES);
	int fd = memfd_create("environ", MFD_CLOEXEC);
	char text[512] = "";
	size_t total = 0;

	memset(text, 'v', 500);
	for (size_t i = 0; i < ENVIRONS_MAX_NAMES; i++) {
		memcpy(text, many[i], 2);
		text[2] = '=';
		assert_int_equal(write(fd, text, 501), 501);
	}
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(environs_read(environs, fd, many), 1);
	for (size_t i = 0; i < ENVIRONS_MAX_NAMES; i++) {
		assert_non_null(environs->value[i].data);
		total += environs->value[i].len;
	}
	assert_int_equal(total, ENVIRONS_MAX);
	close(fd);
	assert_true(environs_read(environs, -1, many) < 0);
	environs_free(environs);
}

/* ---- processes ---- */

/* A child with this environment that waits until it is killed. */
static pid_t child_with(char *const *env)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		char *const words[] = {"cat", NULL};
		int in[2];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!pipe(in) && dup2(in[0], 0) == 0)
			execve("/bin/cat", words, env);
		_exit(1);
	}
	close(ready[1]); /* closed in the child by exec */
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_process(void **state)
{
	char *env[] = {"HOME=/", "RANK=5", "EMPTY=", NULL}, *none[] = {NULL};
	pid_t pid = child_with(env);
	uint64_t start = alive_start(pid, true);
	struct environs *environs = procfs_environs(pid, start, names, N);

	assert_non_null(environs);
	assert_value(environs, 0, "5");
	assert_value(environs, 1, NULL);
	assert_value(environs, 2, "");
	environs_free(environs);
	/* another process of that number */
	assert_null(procfs_environs(pid, start + 1, names, N));
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT);
	/* it has ended: nothing is known, not nothing set */
	assert_null(procfs_environs(pid, start, names, N));
	waitpid(pid, NULL, 0);
	assert_null(procfs_environs(pid, start, names, N));
	/* without an environment it is known that nothing is set */
	pid = child_with(none);
	environs = procfs_environs(pid, alive_start(pid, true), names, N);
	assert_non_null(environs);
	assert_value(environs, 0, NULL);
	environs_free(environs);
	end(pid);
}

struct said {
	pthread_mutex_t lock;
	int answers, ranks;
};

static void count_said(void *ctx, const struct procfs_answer *answer)
{
	struct said *said = ctx;

	pthread_mutex_lock(&said->lock);
	said->answers++;
	said->ranks += answer->environs && answer->environs->value[0].data && answer->len;
	pthread_mutex_unlock(&said->lock);
	environs_free(answer->environs);
}

/* Who waits has the answers; those of processes that are gone are none. */
static void test_ask(void **state)
{
	struct said said = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct procfs_options options = {
		.cmdline = true, .env = names, .nenv = N, .fn = count_said, .ctx = &said};
	struct procfs *procfs = procfs_new(&options);
	char *env[] = {"RANK=5", NULL};
	pid_t pid = child_with(env);
	uint64_t start_ns = alive_start(pid, true) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));

	assert_non_null(procfs);
	assert_int_equal(alive_ticks(start_ns + 1), alive_start(pid, true));
	for (int i = 1; i <= 200; i++) {
		procfs_ask(procfs, 1, pid, start_ns);
		procfs_ask(procfs, 2, pid, start_ns + 1000000000);
		procfs_wait(procfs, 20000000000);
		pthread_mutex_lock(&said.lock);
		assert_int_equal(said.answers, i);
		assert_int_equal(said.ranks, i);
		pthread_mutex_unlock(&said.lock);
	}
	procfs_ask(procfs, 1, pid, start_ns);
	procfs_wait(procfs, 0); /* need not be there yet */
	procfs_free(procfs);
	procfs_free(NULL);
	end(pid);
}

/* What is read early is taken once, and by its own process; beyond EARLY_MAX the oldest go. */
static void test_early(void **state)
{
	struct early *early = early_new(names, N);
	char *env[] = {"RANK=5", NULL};
	pid_t first = child_with(env), second = child_with(env);
	uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start_ns = alive_start(first, true) * tick;
	struct environs *environs;

	assert_null(early_take(early, first, start_ns));
	early_read(early, first);
	early_read(early, first);
	environs = early_take(early, first, start_ns + tick / 2);
	assert_value(environs, 0, "5");
	environs_free(environs);
	assert_null(early_take(early, first, start_ns));
	early_read(early, first);
	assert_null(early_take(early, first, start_ns + tick)); /* another one of that number: gone, too */
	assert_null(early_take(early, first, start_ns));
	early_read(early, first);
	early_forget(early, first);
	assert_null(early_take(early, first, start_ns));
	early_read(early, first);
	for (int i = 0; i < EARLY_MAX; i++)
		early_read(early, second);
	assert_null(early_take(early, first, start_ns));
	environs = early_take(early, second, alive_start(second, true) * tick);
	assert_non_null(environs);
	environs_free(environs);
	end(first);
	end(second);
	early_read(early, first); /* there is no such process */
	assert_null(early_take(early, first, start_ns));
	early_read(early, getpid());
	early_free(early);
	early_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries), cmocka_unit_test(test_buffer),  cmocka_unit_test(test_large),
		cmocka_unit_test(test_room),    cmocka_unit_test(test_process), cmocka_unit_test(test_ask),
		cmocka_unit_test(test_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
