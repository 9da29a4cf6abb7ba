/* The file sink: whole lines, whatever the disk and others do to the file. */
#include <pthread.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_sinks.h"

static char dir[64];
static char path[128];

static int setup(void **state)
{
	strcpy(dir, "/tmp/cudatap-sinks-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/out.jsonl", dir);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_appends_in_order(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct sink_counters c;

	for (uint64_t run = 0; run < 2; run++) {
		struct fanout *f = open_fanout(&sink, 1);

		for (uint64_t i = 0; i < 20; i++)
			put_lines(f, 1 + run * 20000 + i * 1000, 1000, 100 + i * 17);
		fanout_close(f, now_ns() + 5000 * MS);
		c = counters(f, 0);
		assert_int_equal(c.received, 20000);
		assert_int_equal(c.delivered, 20000);
		fanout_free(f);
	}
	read_path(&r, path);
	assert_int_equal(r.lines, 40000);
	assert_int_equal(r.last, 40000);
	assert_int_equal(r.disorder + r.bad + r.losses, 0);
	free(sink.options);
}

/* A line is there soon after the flush, not when a buffer is full. */
static void test_not_late(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f = open_fanout(&sink, 1);
	struct stat st;

	for (uint64_t i = 1; i <= 5; i++) {
		put_lines(f, i, 1, 100);
		wait_for(!stat(path, &st) && st.st_size == (off_t)(100 * i));
	}
	fanout_free(f);
	free(sink.options);
}

static void test_mode_whatever_the_umask(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct file_options *o = sink.options;
	mode_t old = umask(0077);
	struct fanout *f;
	struct stat st;

	o->mode = 0664;
	f = open_fanout(&sink, 1);
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0664);
	fanout_free(f);
	/* an existing file keeps its own */
	chmod(path, 0600);
	fanout_free(open_fanout(&sink, 1));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	free(sink.options);
}

/* What a crash left behind stays one bad line; ours begin on a line of their own. */
static void test_torn_tail_of_a_crash(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f;
	struct reading r;

	write_file(path, "{\"seq\":1,\"p\":\"x\"}\n{\"seq\":2,\"p\":\"xx");
	f = open_fanout(&sink, 1);
	put_lines(f, 3, 5, 100);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).bytes, 500);
	fanout_free(f);
	read_path(&r, path);
	assert_int_equal(r.bad, 1);
	assert_int_equal(r.lines, 6);
	assert_int_equal(r.last, 7);
	free(sink.options);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void expect_refused(const struct config_sink *sinks, size_t n, int error, const char *const *words)
{
	char text[512] = "";
	struct fanout *f = NULL;
	int before = open_fds();

	assert_int_equal(fanout_new(sinks, n, NULL, test_loss, NULL, &f, text, sizeof(text)), -error);
	assert_null(f);
	assert_int_equal(open_fds(), before);
	for (; *words; words++)
		if (!strstr(text, *words))
			fail_msg("\"%s\" is not in: %s", *words, text);
	assert_null(strchr(text, '\n'));
}

static void test_unwritable_paths(void **state)
{
	char missing[160], fifo[160], below[160];
	struct config_sink good = file_sink("good", path), bad = file_sink("bad", missing);
	struct file_options *o = bad.options;
	struct config_sink both[] = {good, bad};

	snprintf(missing, sizeof(missing), "%s/no/such.jsonl", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	snprintf(below, sizeof(below), "%s/x", path);
	expect_refused(both, 2, ENOENT, (const char *[]){"sink bad", missing, "create its directory", NULL});
	o->path = dir;
	expect_refused(both, 2, EISDIR, (const char *[]){"sink bad", dir, "name a file", NULL});
	o->path = below;
	expect_refused(both, 2, ENOTDIR, (const char *[]){below, NULL});
	assert_int_equal(mkfifo(fifo, 0600), 0);
	o->path = fifo;
	expect_refused(both, 2, ENXIO, (const char *[]){fifo, "reader first", NULL});
	o->path = (char *)"/proc/sys/kernel/osrelease"; /* read-only for root, too */
	expect_refused(both, 2, EACCES, (const char *[]){o->path, "may write", NULL});
	expect_refused(both, 0, EINVAL, (const char *[]){"sinks", NULL});
	free(good.options);
	free(bad.options);
}

static void test_devices(void **state)
{
	struct config_sink sinks[] = {file_sink("null", "/dev/null"), file_sink("full", "/dev/full")};
	struct fanout *f;
	uint64_t begin;
	struct sink_counters c;

	sinks[1].queue.max_events = 10;
	f = open_fanout(sinks, 2);
	put_lines(f, 1, 100, 200);
	wait_for(counters(f, 0).delivered == 100);
	sleep_ms(20);
	put_lines(f, 101, 100, 200);
	/* The full device is tried again until the end, but does not keep us to the deadline. */
	begin = now_ns();
	fanout_close(f, begin + 10000 * MS);
	assert_true(now_ns() - begin < 1000 * MS);
	assert_int_equal(counters(f, 0).delivered, 200);
	c = counters(f, 1);
	assert_int_equal(c.delivered, 0);
	assert_int_equal(c.dropped[SINK_QUEUE_FULL], 90);
	assert_int_equal(c.dropped[SINK_DISK_FULL], 110);
	fanout_free(f);
	free(sinks[0].options);
	free(sinks[1].options);
}

static void test_fifo_and_its_reader(void **state)
{
	struct config_sink sink = file_sink("fifo", path);
	struct reading r = {0};
	struct fanout *f;
	char data[4096];
	int fd;

	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 20, 100);
	wait_for(counters(f, 0).delivered == 20);
	read_bytes(&r, data, (size_t)read(fd, data, sizeof(data)));
	assert_int_equal(r.lines, 20);
	close(fd);
	wait_for(fanout_all_gone(f));
	put_lines(f, 21, 5, 100);
	assert_int_equal(counters(f, 0).dropped[SINK_PIPE_CLOSED], 5);
	fanout_free(f);
	free(sink.options);
}

static void test_reopen(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f = open_fanout(&sink, 1);
	char old[160];
	struct reading a, b;
	struct stat st;

	snprintf(old, sizeof(old), "%s.1", path);
	put_lines(f, 1, 1000, 300);
	wait_for(counters(f, 0).delivered == 1000);
	assert_int_equal(rename(path, old), 0);
	put_lines(f, 1001, 1000, 300);
	fanout_reopen(f);
	wait_for(!stat(path, &st));
	put_lines(f, 2001, 1000, 300);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	read_path(&a, old);
	read_path(&b, path);
	assert_int_equal(a.lines + b.lines, 3000);
	assert_true(a.lines && b.lines);
	assert_int_equal(a.bad + b.bad + a.disorder + b.disorder, 0);
	assert_int_equal(a.last + 1, b.first);
	free(sink.options);
}

/* A directory that has gone meanwhile: the old file is kept. */
static void test_reopen_fails(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f = open_fanout(&sink, 1);

	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	fanout_reopen(f);
	put_lines(f, 1, 1000, 300);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 1000);
	fanout_free(f);
	free(sink.options);
}

/* Truncated by others (copytruncate): no hole, no torn line. */
static void test_truncated_by_others(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f = open_fanout(&sink, 1);
	struct reading r;

	for (uint64_t i = 0; i < 200; i++) {
		put_lines(f, 1 + i * 100, 100, 333);
		if (i % 20 == 10)
			assert_int_equal(truncate(path, 0), 0);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 20000);
	fanout_free(f);
	read_path(&r, path);
	assert_int_equal(r.bad + r.disorder, 0);
	assert_int_equal(r.last, 20000);
	free(sink.options);
}

/* ---- full disks ---- */

static bool mount_tiny(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tiny", dir, "tmpfs", 0, "size=64k");
}

/* All lines of @first.. that the file should have are whole, none is twice. */
static void expect_whole(const char *name, struct reading *r)
{
	read_path(r, name);
	assert_int_equal(r->bad, 0);
	assert_int_equal(r->disorder, 0);
}

static void test_disk_full_and_recovery(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	char filler[160];
	struct fanout *f;
	struct reading r;

	if (!mount_tiny()) {
		print_message("skipped: a private mount of tmpfs needs root\n");
		free(sink.options);
		skip();
	}
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	write_file(filler, "");
	assert_int_equal(truncate(filler, 0), 0);
	sink.queue.max_events = 100;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 50; i++) { /* twice what there is room for */
		put_lines(f, 1 + i * 10, 10, 301);
		sleep_ms(1);
	}
	wait_for(counters(f, 0).queued == 100);
	expect_whole(path, &r); /* the torn line was cut off at once */
	c = counters(f, 0);
	assert_int_equal(r.lines, c.delivered);
	assert_true(r.lines > 150);
	assert_int_equal(c.dropped[SINK_DISK_FULL], 500 - 100 - r.lines);
	assert_int_equal(sink_counters_dropped(&c), c.dropped[SINK_DISK_FULL]);
	/* Room again: what waited and what comes is delivered, and the stream says what is missing. */
	assert_int_equal(mount("tiny", dir, "tmpfs", MS_REMOUNT, "size=1m"), 0);
	wait_for(counters(f, 0).loss_events == 1);
	put_lines(f, 501, 50, 301);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	expect_whole(path, &r);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(r.last, 550);
	assert_int_equal(r.losses, c.loss_events);
	assert_int_equal(r.lost, sink_counters_dropped(&c));
	assert_int_equal(r.lines + r.lost, 550);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* Still full at the end: the file ends with a whole line, soon. */
static void test_disk_full_to_the_end(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	struct fanout *f;
	struct reading r;
	uint64_t begin;

	if (!mount_tiny()) {
		free(sink.options);
		skip();
	}
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 1000, 301);
	begin = now_ns();
	fanout_close(f, begin + 10000 * MS);
	assert_true(now_ns() - begin < 1000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	expect_whole(path, &r);
	assert_int_equal(r.lines, c.delivered);
	assert_true(r.lines > 150);
	assert_int_equal(c.dropped[SINK_DISK_FULL], 1000 - r.lines);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* An append-only file (chattr +a) cannot be cut: the half line waits and is completed when there is room. */
static void test_disk_full_append_only(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	int fd, flags = FS_APPEND_FL;
	struct fanout *f;
	struct reading r;

	if (!mount_tiny()) {
		free(sink.options);
		skip();
	}
	f = open_fanout(&sink, 1);
	fd = open(path, O_RDONLY);
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags)) {
		print_message("skipped: no append-only files on this kernel's tmpfs\n");
		close(fd);
		fanout_free(f);
		umount(dir);
		free(sink.options);
		skip();
	}
	put_lines(f, 1, 400, 301);
	wait_for(counters(f, 0).delivered > 200);
	sleep_ms(100);
	read_path(&r, path);
	assert_int_equal(r.bad, 1);
	assert_int_equal(mount("tiny", dir, "tmpfs", MS_REMOUNT, "size=1m"), 0);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	expect_whole(path, &r);
	assert_int_equal(c.delivered, 400);
	assert_int_equal(r.lines, 400);
	flags = 0;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* A limit on the file's size is an error of the sink, not the end of the process (SIGXFSZ). */
static void test_file_size_limit(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct config_sink sink = file_sink("disk", path);
		struct rlimit limit = {10000, 10000};
		struct sink_counters c;
		struct fanout *f = open_fanout(&sink, 1);

		setrlimit(RLIMIT_FSIZE, &limit);
		put_lines(f, 1, 100, 301);
		fanout_close(f, now_ns() + 5000 * MS);
		c = counters(f, 0);
		fanout_free(f);
		free(sink.options);
		_exit(c.delivered == 33 && c.dropped[SINK_DISK_FULL] == 67 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	{
		struct reading r;

		expect_whole(path, &r);
		assert_int_equal(r.lines, 33);
	}
}

static void test_urls(void **state)
{
	struct file_options o = {0};
	char error[128] = "";

	assert_int_equal(sink_file.from_url("out.jsonl", &o, error, sizeof(error)), 0);
	assert_string_equal(o.path, "out.jsonl");
	assert_int_equal(sink_file.from_url("file:/a b:c", &o, error, sizeof(error)), 0);
	assert_string_equal(o.path, "/a b:c");
	assert_int_equal(sink_file.from_url("./a:b", &o, error, sizeof(error)), 0);
	assert_string_equal(o.path, "./a:b");
	assert_int_equal(sink_file.from_url("kafkaa://b:1/t", &o, error, sizeof(error)), -ENOENT);
	assert_int_equal(sink_file.from_url("file:", &o, error, sizeof(error)), -EINVAL);
	assert_int_not_equal(error[0], 0);
	assert_int_equal(sink_file.from_url("", &o, error, sizeof(error)), -EINVAL);
	assert_string_equal(o.path, "./a:b");
	assert_int_equal(sink_stdout.from_url("-", NULL, error, sizeof(error)), 0);
	assert_int_equal(sink_stdout.from_url("-x", NULL, error, sizeof(error)), -ENOENT);
	assert_ptr_equal(sink_kind("file"), &sink_file);
	assert_ptr_equal(sink_kind("stdout"), &sink_stdout);
	assert_null(sink_kind("flie"));
	free(o.path);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_appends_in_order),
		test(test_not_late),
		test(test_mode_whatever_the_umask),
		test(test_torn_tail_of_a_crash),
		test(test_unwritable_paths),
		test(test_devices),
		test(test_fifo_and_its_reader),
		test(test_reopen),
		test(test_reopen_fails),
		test(test_truncated_by_others),
		test(test_disk_full_and_recovery),
		test(test_disk_full_to_the_end),
		test(test_disk_full_append_only),
		test(test_file_size_limit),
		test(test_urls),
	};

	return cmocka_run_group_tests_name("sinks/file", tests, NULL, NULL);
}
