/* The stdout sink: pipes, sockets, terminals and files, slow and gone readers. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#include "test_sinks.h"

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* A fan-out whose first sink is stdout, with @fd as the process's stdout meanwhile. */
static struct fanout *open_with_stdout(int fd, const struct config_sink *sinks, size_t n)
{
	struct fanout *f;
	int saved;

	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	dup2(fd, STDOUT_FILENO);
	f = open_fanout(sinks, n);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	return f;
}

static struct fanout *open_stdout(int fd)
{
	struct config_sink sink = any_sink("console", &sink_stdout, NULL);
	static struct config_sink kept; /* sinks outlive the fan-out */

	kept = sink;
	return open_with_stdout(fd, &kept, 1);
}

struct reader {
	pthread_t thread;
	int fd;
	unsigned delay_ms, per_read_us;
	size_t piece;
	struct reading reading;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	char *data = malloc(r->piece);
	ssize_t n;

	sleep_ms(r->delay_ms);
	while ((n = read(r->fd, data, r->piece)) > 0) {
		read_bytes(&r->reading, data, (size_t)n);
		if (r->per_read_us)
			usleep(r->per_read_us);
	}
	r->reading.bad += r->reading.nrest > 0;
	free(data);
	return NULL;
}

static struct reader *reader_start(int fd, unsigned delay_ms, size_t piece, unsigned per_read_us)
{
	struct reader *r = calloc(1, sizeof(*r));

	r->fd = fd;
	r->delay_ms = delay_ms;
	r->piece = piece;
	r->per_read_us = per_read_us;
	pthread_create(&r->thread, NULL, reader_main, r);
	return r;
}

static struct reading reader_end(struct reader *r)
{
	struct reading reading;

	pthread_join(r->thread, NULL);
	reading = r->reading;
	close(r->fd);
	free(r);
	return reading;
}

static void expect_all(const struct reading *r, uint64_t n)
{
	assert_int_equal(r->lines, n);
	assert_int_equal(r->first, 1);
	assert_int_equal(r->last, n);
	assert_int_equal(r->bad + r->disorder + r->losses, 0);
}

static void test_pipe(void **state)
{
	struct reader *reader;
	struct reading r;
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_stdout(fds[1]);
	reader = reader_start(fds[0], 0, 65536, 0);
	for (uint64_t i = 0; i < 50; i++)
		put_lines(f, 1 + i * 1000, 1000, 100 + i * 19);
	/* The description that others share is left as it was. */
	assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
	close(fds[1]);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 50000);
	fanout_free(f);
	r = reader_end(reader);
	expect_all(&r, 50000);
}

/* Lines longer than PIPE_BUF through a reader that takes little at a time. */
static void test_slow_pipe_gets_whole_lines(void **state)
{
	struct reader *reader;
	struct reading r;
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_stdout(fds[1]);
	reader = reader_start(fds[0], 0, 777, 20);
	put_lines(f, 1, 300, 9999);
	close(fds[1]);
	fanout_close(f, now_ns() + 20000 * MS);
	assert_int_equal(counters(f, 0).delivered, 300);
	fanout_free(f);
	r = reader_end(reader);
	expect_all(&r, 300);
}

/* A pipe that nobody reads costs its own lines, not the file's. */
static void test_hung_reader_beside_a_file(void **state)
{
	char path[] = "/tmp/cudatap-stdout-XXXXXX";
	int file = mkstemp(path), fds[2];
	struct config_sink sinks[] = {any_sink("console", &sink_stdout, NULL), file_sink("disk", path)};
	struct sink_counters c;
	struct reading r = {0};
	struct fanout *f;
	uint64_t begin;

	assert_int_equal(pipe(fds), 0);
	sinks[0].queue.max_events = 1000;
	f = open_with_stdout(fds[1], sinks, 2);
	close(fds[1]);
	for (uint64_t i = 0; i < 200; i++) {
		put_lines(f, 1 + i * 100, 100, 400);
		if (i % 10 == 9)
			wait_for(counters(f, 1).delivered == (i + 1) * 100);
	}
	c = counters(f, 0);
	assert_int_equal(c.received, 20000);
	assert_int_equal(c.queued, 1000);
	assert_int_equal(c.dropped[SINK_QUEUE_FULL], 20000 - 1000 - c.delivered);
	assert_true(c.delivered >= 100 && c.delivered < 200); /* what a pipe holds */
	/* The stop interrupts the worker in its wait. */
	begin = now_ns();
	fanout_close(f, begin + 100 * MS);
	assert_true(now_ns() - begin < 1000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.dropped[SINK_SHUTDOWN], 1000);
	assert_int_equal(counters(f, 1).delivered, 20000);
	fanout_free(f);
	/* Only the last line in the pipe may be cut short, for want of a reader. */
	read_all(&r, fds[0]);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(r.disorder, 0);
	assert_true(r.bad <= 1);
	close(fds[0]);
	read_path(&r, path);
	expect_all(&r, 20000);
	unlink(path);
	close(file);
	free(sinks[1].options);
}

/* The deadline comes in the middle of a line; its reader is slow but alive: the line is finished. */
static void test_line_is_finished_after_the_deadline(void **state)
{
	struct reader *reader;
	struct sink_counters c;
	struct reading r;
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_stdout(fds[1]);
	close(fds[1]);
	put_lines(f, 1, 100, 9999);
	sleep_ms(50);
	reader = reader_start(fds[0], 60, 2000, 100);
	fanout_close(f, now_ns() + 20 * MS);
	c = counters(f, 0);
	fanout_free(f);
	r = reader_end(reader);
	assert_true(r.lines < 100);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(r.bad, 0);
	assert_int_equal(c.dropped[SINK_SHUTDOWN], 100 - r.lines);
}

/* After an overflow the stream itself says what is missing, once a second at most. */
static void test_loss_event_when_read_again(void **state)
{
	static struct config_sink sink;
	struct reader *reader;
	struct sink_counters c;
	struct reading r;
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	sink = any_sink("console", &sink_stdout, NULL);
	sink.queue.max_events = 50;
	f = open_with_stdout(fds[1], &sink, 1);
	close(fds[1]);
	for (uint64_t i = 0; i < 100; i++)
		put_lines(f, 1 + i * 10, 10, 400);
	reader = reader_start(fds[0], 0, 65536, 0);
	wait_for(counters(f, 0).loss_events == 1);
	for (uint64_t i = 0; i < 100; i++)
		put_lines(f, 1001 + i * 100, 100, 400); /* loses again */
	wait_for(counters(f, 0).queued == 0);
	assert_int_equal(counters(f, 0).loss_events, 1);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_true(c.loss_events <= 2);
	fanout_free(f);
	r = reader_end(reader);
	assert_int_equal(r.losses, c.loss_events);
	assert_int_equal(r.lost, c.dropped[SINK_QUEUE_FULL]);
	assert_int_equal(r.lines + r.lost, 11000);
	assert_int_equal(r.bad + r.disorder, 0);
}

/* A pipe that is never empty: the loss is told all the same, and between two lines. */
static void test_loss_event_while_slow(void **state)
{
	static struct config_sink sink;
	struct reader *reader;
	struct sink_counters c;
	struct reading r;
	struct fanout *f;
	uint64_t seq = 1, begin;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	sink = any_sink("console", &sink_stdout, NULL);
	sink.queue.max_events = 20;
	f = open_with_stdout(fds[1], &sink, 1);
	close(fds[1]);
	reader = reader_start(fds[0], 0, 7777, 500);
	for (begin = now_ns(); now_ns() < begin + 1500 * MS; seq += 10) {
		put_lines(f, seq, 10, 9999);
		usleep(1000);
	}
	c = counters(f, 0);
	assert_true(c.queued > 0);
	assert_int_equal(c.loss_events, 2); /* one at once, one a second later */
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	r = reader_end(reader);
	assert_int_equal(r.bad + r.disorder, 0);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(r.lines + r.lost, seq - 1);
}

static void test_reader_gone(void **state)
{
	struct sink_counters c;
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_stdout(fds[1]);
	close(fds[1]);
	put_lines(f, 1, 500, 400); /* more than the pipe holds: the worker waits inside a write */
	wait_for(counters(f, 0).delivered > 100);
	assert_false(fanout_all_gone(f));
	assert_false(readable(fanout_gone_fd(f), 0));
	close(fds[0]);
	assert_true(readable(fanout_gone_fd(f), 2000));
	assert_true(fanout_all_gone(f));
	put_lines(f, 501, 10, 400);
	c = counters(f, 0);
	assert_int_equal(c.received, 510);
	assert_int_equal(c.delivered + c.dropped[SINK_PIPE_CLOSED], 510);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
}

/* `cudatap | head -1` must end although no further event comes. */
static void test_reader_gone_while_idle(void **state)
{
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_stdout(fds[1]);
	close(fds[1]);
	assert_false(readable(fanout_gone_fd(f), 50));
	close(fds[0]);
	assert_true(readable(fanout_gone_fd(f), 2000));
	fanout_free(f);
}

static void test_reader_gone_before_the_start(void **state)
{
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	f = open_stdout(fds[1]);
	close(fds[1]);
	assert_true(readable(fanout_gone_fd(f), 2000));
	fanout_free(f);
}

/* One of two sinks gone is not the end. */
static void test_other_sink_goes_on(void **state)
{
	struct config_sink sinks[] = {any_sink("console", &sink_stdout, NULL),
				      file_sink("null", "/dev/null")};
	struct fanout *f;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	f = open_with_stdout(fds[1], sinks, 2);
	close(fds[1]);
	close(fds[0]);
	put_lines(f, 1, 100, 400);
	wait_for(counters(f, 0).dropped[SINK_PIPE_CLOSED] == 100);
	put_lines(f, 101, 100, 400);
	wait_for(counters(f, 1).delivered == 200);
	assert_false(fanout_all_gone(f));
	fanout_close(f, now_ns() + 5000 * MS);
	assert_false(readable(fanout_gone_fd(f), 0));
	assert_true(readable(fanout_stopped_fd(f), 0));
	fanout_free(f);
	free(sinks[1].options);
}

static void test_socket(void **state)
{
	struct reader *reader;
	struct reading r;
	struct fanout *f;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	f = open_stdout(fds[1]);
	reader = reader_start(fds[0], 20, 3000, 0);
	put_lines(f, 1, 5000, 400);
	close(fds[1]);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 5000);
	fanout_free(f);
	r = reader_end(reader);
	expect_all(&r, 5000);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	f = open_stdout(fds[1]);
	close(fds[1]);
	close(fds[0]);
	assert_true(readable(fanout_gone_fd(f), 2000));
	fanout_free(f);
}

static void test_terminal(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios t;
	struct reading r = {0};
	struct fanout *f;
	char data[4096];

	if (master < 0 || grantpt(master) || unlockpt(master))
		skip();
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	assert_int_equal(tcgetattr(slave, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(slave, TCSANOW, &t), 0);
	f = open_stdout(slave);
	put_lines(f, 1, 1000, 400); /* far more than a terminal holds */
	while (r.lines < 1000 && readable(master, 2000)) {
		ssize_t n = read(master, data, sizeof(data));

		assert_true(n > 0);
		read_bytes(&r, data, (size_t)n);
	}
	expect_all(&r, 1000);
	assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
	assert_false(fanout_all_gone(f));
	close(slave);
	close(master);
	assert_true(readable(fanout_gone_fd(f), 2000));
	fanout_free(f);
}

/* `> file`: goes on at the shared offset, which the shell's next command continues. */
static void test_regular_file(void **state)
{
	char path[] = "/tmp/cudatap-stdout-XXXXXX";
	int fd = mkstemp(path);
	struct reading r;
	struct fanout *f;

	assert_int_equal(write(fd, "{\"seq\":1,\"p\":\"before\"}\n", 23), 23);
	f = open_stdout(fd);
	put_lines(f, 2, 1000, 400);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	assert_int_equal(write(fd, "{\"seq\":1002,\"p\":\"after\"}\n", 25), 25);
	read_path(&r, path);
	expect_all(&r, 1002);
	close(fd);
	unlink(path);
}

static void test_full_device(void **state)
{
	int fd = open("/dev/full", O_WRONLY);
	struct fanout *f = open_stdout(fd);
	uint64_t begin;

	put_lines(f, 1, 100, 400);
	begin = now_ns();
	fanout_close(f, begin + 10000 * MS);
	assert_true(now_ns() - begin < 1000 * MS);
	assert_int_equal(counters(f, 0).dropped[SINK_DISK_FULL], 100);
	fanout_free(f);
	close(fd);
}

static void test_closed_stdout(void **state)
{
	struct config_sink sink = any_sink("console", &sink_stdout, NULL);
	int saved, reader = open("/dev/null", O_RDONLY);
	struct fanout *f = NULL;
	char error[2][256];
	int r[2];

	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	close(STDOUT_FILENO);
	r[0] = fanout_new(&sink, 1, NULL, NULL, NULL, &f, error[0], sizeof(error[0]));
	dup2(reader, STDOUT_FILENO);
	r[1] = fanout_new(&sink, 1, NULL, NULL, NULL, &f, error[1], sizeof(error[1]));
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(reader);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(r[i], -EBADF);
		assert_non_null(strstr(error[i], "stdout"));
	}
}

/* In a child without rights to the pipe: prints what went wrong, exits 0 if nothing did. */
static void blocking_child(int fd)
{
	struct sink_counters c;
	struct fanout *f;

	if (fchown(fd, 12345, 12345) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(77);
	if (open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK) >= 0)
		_exit(77);
	f = open_stdout(fd);
	put_lines(f, 1, 2000, 4000);
	fanout_close(f, now_ns() + 10000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	_exit(c.delivered == 2000 ? 0 : 1);
}

/* A pipe of another user cannot be opened anew: small pieces, and still no write that blocks. */
static void test_pipe_that_cannot_be_reopened(void **state)
{
	struct reader *reader;
	struct reading r;
	int fds[2], status;
	pid_t pid;

	if (geteuid()) {
		print_message("skipped: needs root to give a pipe to another user\n");
		skip();
	}
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		dup2(fds[1], STDOUT_FILENO);
		blocking_child(fds[1]);
	}
	close(fds[1]);
	reader = reader_start(fds[0], 50, 10000, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	r = reader_end(reader);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	expect_all(&r, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_slow_pipe_gets_whole_lines),
		cmocka_unit_test(test_hung_reader_beside_a_file),
		cmocka_unit_test(test_line_is_finished_after_the_deadline),
		cmocka_unit_test(test_loss_event_when_read_again),
		cmocka_unit_test(test_loss_event_while_slow),
		cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_reader_gone_while_idle),
		cmocka_unit_test(test_reader_gone_before_the_start),
		cmocka_unit_test(test_other_sink_goes_on),
		cmocka_unit_test(test_socket),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_regular_file),
		cmocka_unit_test(test_full_device),
		cmocka_unit_test(test_closed_stdout),
		cmocka_unit_test(test_pipe_that_cannot_be_reopened),
	};

	return cmocka_run_group_tests_name("sinks/stdout", tests, NULL, NULL);
}
