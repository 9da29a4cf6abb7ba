/* Calls that do not return are given up, and what becomes of their jobs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "streamer/find/patience.h"

static atomic_int dropped;

struct job {
	int fd; /* is read from: hangs until somebody writes; -1: does not */
	bool done;
};

static void work(void *arg)
{
	struct job *job = arg;
	char byte;

	job->done = job->fd < 0 || read(job->fd, &byte, 1) == 1;
}

static void drop(void *arg)
{
	free(arg);
	dropped++;
}

static struct job *job_new(int fd)
{
	struct job *job = calloc(1, sizeof(*job));

	job->fd = fd;
	return job;
}

static void test_returns(void **state)
{
	struct patience *patience = patience_new();
	eventfd_t times;

	dropped = 0;
	for (int i = 0; i < 1000; i++) {
		struct job *job = job_new(-1);

		assert_int_equal(patience_call(patience, 7, work, drop, job), 0);
		assert_true(job->done);
		free(job);
	}
	assert_int_equal(dropped, 0);
	assert_int_equal(eventfd_read(patience_fd(patience), &times), -1);
	patience_free(patience);
}

static void test_hangs(void **state)
{
	struct patience *patience = patience_new();
	struct job *job;
	eventfd_t times;
	int fds[2];

	dropped = 0;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(patience_call(patience, 7, work, drop, job_new(fds[0])), -ETIMEDOUT);
	assert_int_equal(dropped, 0);
	/* who hangs there already is not joined by others, who go on elsewhere */
	for (int i = 0; i < 100; i++)
		assert_int_equal(patience_call(patience, 7, work, drop, job_new(fds[0])), -EBUSY);
	assert_int_equal(dropped, 100);
	job = job_new(-1);
	assert_int_equal(patience_call(patience, 8, work, drop, job), 0);
	free(job);
	assert_int_equal(eventfd_read(patience_fd(patience), &times), -1);
	/* it answers after all */
	assert_int_equal(write(fds[1], "x", 1), 1);
	for (int i = 0; i < 10000 && (dropped < 101 || eventfd_read(patience_fd(patience), &times)); i++)
		usleep(1000);
	assert_int_equal(dropped, 101);
	job = job_new(-1);
	assert_int_equal(patience_call(patience, 7, work, drop, job), 0);
	free(job);
	patience_free(patience);
	close(fds[0]);
	close(fds[1]);
}

/* Freed while a call is under way: that one frees the rest. */
static void test_freed_meanwhile(void **state)
{
	struct patience *patience = patience_new();
	int fds[2];

	dropped = 0;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(patience_call(patience, 7, work, drop, job_new(fds[0])), -ETIMEDOUT);
	patience_free(patience);
	assert_int_equal(write(fds[1], "x", 1), 1);
	for (int i = 0; i < 10000 && !dropped; i++)
		usleep(1000);
	assert_int_equal(dropped, 1);
	usleep(20000);
	close(fds[0]);
	close(fds[1]);
	patience_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_returns),
		cmocka_unit_test(test_hangs),
		cmocka_unit_test(test_freed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
