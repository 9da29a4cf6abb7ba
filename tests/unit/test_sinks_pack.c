/* Old generations are compressed, whatever interrupts it; full disks and what a sink does about them. */
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "test_sinks_rotate.h"

/* ---- compression ---- */

static void compress_with(enum file_compress how, const char *suffix)
{
	struct config_sink sink = file_sink("disk", path);
	char name[32];
	struct reading r;
	struct stat st;
	struct fanout *f;

	options(&sink)->rotate.max_size = 200000;
	options(&sink)->rotate.compress = how;
	options(&sink)->rotate.keep = 100;
	options(&sink)->mode = 0640;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 100; i++) {
		put_lines(f, 1 + i * 100, 100, 201);
		sleep_ms(1);
	}
	wait_for(counters(f, 0).queued == 0);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	assert_true(there(".1")); /* delayed by one generation */
	for (int i = 2; i <= 10; i++) {
		snprintf(name, sizeof(name), ".%d%s", i, suffix);
		assert_true(there(name));
		assert_int_equal(stat(old_path(name), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0640);
		assert_true(st.st_size < 100000);
	}
	assert_int_equal(read_generations(&r), 10);
	assert_int_equal(r.lines, 10000);
	assert_int_equal(r.disorder + r.bad, 0);
	assert_int_equal(files_in_dir(), 11);
	free(sink.options);
}

static void test_gzip(void **state)
{
	compress_with(FILE_GZIP, ".gz");
}

static void test_zstd(void **state)
{
	compress_with(FILE_ZSTD, ".zst");
}

/* kill -9 in the middle of it, many times: nothing is lost, nothing is left over. */
static void test_killed(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	uint64_t seq = 1, sum = 0;
	unsigned rand = 3;
	struct reading r;
	struct fanout *f;

	options(&sink)->rotate.max_size = 10000000;
	options(&sink)->rotate.compress = FILE_ZSTD;
	options(&sink)->rotate.keep = 1000;
	for (int round = 0; round < 12; round++) {
		int status, done[2];
		uint64_t next = seq;
		pid_t pid;

		assert_int_equal(pipe(done), 0);
		pid = fork();
		if (!pid) {
			f = open_fanout(&sink, 1);
			for (;;) {
				put_lines(f, next, 1000, 900);
				next += 1000;
				while (counters(f, 0).queued)
					usleep(100);
				if (write(done[1], &next, sizeof(next)) < 0)
					_exit(1);
			}
		}
		close(done[1]);
		usleep(20000 + rand_r(&rand) % 60000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		while (read(done[0], &next, sizeof(next)) == sizeof(next))
			seq = next;
		close(done[0]);
		seq += 1000; /* what was under way may be there in part */
	}
	f = open_fanout(&sink, 1);
	put_lines(f, seq, 1, 900);
	fanout_close(f, now_ns() + 20000 * MS);
	fanout_free(f);
	for (unsigned i = read_generations(&r); i > 1; i--) {
		char plain[16];

		snprintf(plain, sizeof(plain), ".%u", i);
		assert_false(there(plain)); /* all are compressed in the end */
		sum++;
	}
	assert_true(sum > 3);
	assert_true(r.bad <= 12); /* the line that a kill cut off is left as it is */
	assert_int_equal(r.disorder, 0);
	assert_int_equal(r.last, seq);
	/* of 12 rounds at most one batch each was cut off */
	assert_true(r.lines + 12 * 1000 >= seq);
	for (DIR *stream = opendir(dir); stream;) {
		const struct dirent *entry = readdir(stream);

		if (!entry) {
			closedir(stream);
			break;
		}
		assert_null(strstr(entry->d_name, ".tmp"));
	}
	free(sink.options);
}

/* A complete twin of a crash between the compressed file's name and the plain one's end; half a one. */
static void test_left_over(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	char command[512];
	struct reading r;

	snprintf(command, sizeof(command),
		 "cd %s && echo '{\"seq\":1,\"p\":\"xx\"}' >out.jsonl.2 && zstd -q -k out.jsonl.2 && "
		 "touch -r out.jsonl.2 out.jsonl.2.zst && echo half >.out.jsonl.3.zst.tmp && "
		 "echo '{\"seq\":2,\"p\":\"xx\"}' >out.jsonl.1 && echo mine >.other.tmp",
		 dir);
	assert_int_equal(system(command), 0);
	options(&sink)->rotate.compress = FILE_ZSTD;
	fanout_free(open_fanout(&sink, 1));
	assert_false(there(".2"));
	assert_true(there(".2.zst") && there(".1"));
	assert_int_equal(files_in_dir(), 4);
	assert_int_equal(read_generations(&r), 2);
	assert_int_equal(r.lines, 2);
	free(sink.options);
}

static int shell(const char *format)
{
	char command[512];

	snprintf(command, sizeof(command), format, dir);
	return system(command);
}

/* Somebody has not seen yet that his file was renamed: nothing of what he writes may be lost. */
static void test_still_written(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct fanout *f;
	int fd;

	assert_int_equal(shell("cd %s && for i in 3 2 1; do echo '{\"seq\":'$((7 - 2 * i))',\"p\":\"xx\"}' "
			       ">out.jsonl.$i; done"),
			 0);
	fd = open(old_path(".2"), O_WRONLY | O_APPEND);
	options(&sink)->rotate.compress = FILE_ZSTD;
	options(&sink)->rotate.keep = 100;
	f = open_fanout(&sink, 1);
	wait_for(there(".3.zst"));
	assert_true(there(".2") && !there(".2.zst"));
	assert_int_equal(write(fd, "{\"seq\":4,\"p\":\"yy\"}\n", 19), 19);
	close(fd);
	put_lines(f, 6, 1, 100);
	wait_for(counters(f, 0).delivered == 1);
	fanout_rotate(f);
	wait_for(there(".4.zst") && there(".3.zst") && there(".2.zst"));
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	read_generations(&r);
	assert_int_equal(r.lines, 5);
	assert_int_equal(r.disorder, 0);
	free(sink.options);
}

/* What cannot be compressed does not keep others from it. */
static void test_name_that_is_taken(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct fanout *f;

	assert_int_equal(
		shell("cd %s && mkdir out.jsonl.2.gz && for i in 1 2 3 4; do echo x >out.jsonl.$i; done"), 0);
	options(&sink)->rotate.compress = FILE_GZIP;
	options(&sink)->rotate.keep = 100;
	f = open_fanout(&sink, 1);
	wait_for(there(".3.gz") && there(".4.gz"));
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	assert_true(there(".2") && !there(".3") && !there(".4"));
	assert_int_equal(files_in_dir(), 6);
	free(sink.options);
}

/* The nice value of the thread that compresses; -1 when there is none. */
static int nice_of_packer(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int nice = -1;

	while ((entry = readdir(tasks))) {
		char file[300], comm[32] = "";
		FILE *stream;

		snprintf(file, sizeof(file), "/proc/self/task/%s/comm", entry->d_name);
		stream = fopen(file, "r");
		if (stream && fgets(comm, sizeof(comm), stream) && !strcmp(comm, "cudatap-pack\n"))
			nice = getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name));
		if (stream)
			fclose(stream);
	}
	closedir(tasks);
	return nice;
}

static void *close_soon(void *fanout)
{
	fanout_close(fanout, now_ns() + 1000 * MS);
	return NULL;
}

/* It takes no time from others, until its end is waited for: on a busy machine that would not come. */
static void test_priority(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	pthread_t closing;
	struct fanout *f;
	int fd;

	if (getuid())
		skip(); /* who is not root cannot take a priority back */
	for (int i = 1; i <= 2; i++) {
		char suffix[4];

		snprintf(suffix, sizeof(suffix), ".%d", i);
		fd = open(old_path(suffix), O_CREAT | O_WRONLY, 0600);
		assert_int_equal(ftruncate(fd, i == 1 ? 1 : 1ll << 40),
				 0); /* more than can be done in time */
		close(fd);
	}
	options(&sink)->rotate.compress = FILE_GZIP;
	f = open_fanout(&sink, 1);
	wait_for(nice_of_packer() == 19);
	assert_int_equal(pthread_create(&closing, NULL, close_soon, f), 0);
	wait_for(nice_of_packer() == getpriority(PRIO_PROCESS, 0));
	assert_int_equal(pthread_join(closing, NULL), 0);
	fanout_free(f);
	assert_true(there(".2"));
	assert_int_equal(files_in_dir(), 3);
	free(sink.options);
}

/* ---- full disks ---- */

static bool mount_tiny(const char *size)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tiny", dir, "tmpfs", 0, size);
}

#define NEEDS_TINY(sink, size)                                                           \
	do {                                                                             \
		if (!mount_tiny(size)) {                                                 \
			print_message("skipped: a private mount of tmpfs needs root\n"); \
			free((sink).options);                                            \
			skip();                                                          \
		}                                                                        \
	} while (0)

/* drop: nothing waits, everything is told, and lines come again when there is room. */
static void test_full_drop(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	struct reading r;
	struct fanout *f;

	NEEDS_TINY(sink, "size=64k");
	options(&sink)->on_disk_full = FILE_DROP;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 100; i++) {
		put_lines(f, 1 + i * 10, 10, 301);
		sleep_ms(1);
	}
	wait_for(counters(f, 0).queued == 0);
	c = counters(f, 0);
	assert_int_equal(c.delivered + c.dropped[SINK_DISK_FULL], 1000);
	assert_in_range(c.delivered, 150, 65536 / 301);
	assert_int_equal(mount("tiny", dir, "tmpfs", MS_REMOUNT, "size=1m"), 0);
	sleep_ms(1100);
	put_lines(f, 1001, 100, 301);
	wait_for(counters(f, 0).loss_events == 1);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	read_path(&r, path);
	assert_int_equal(r.bad + r.disorder, 0);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(r.lost, c.dropped[SINK_DISK_FULL]);
	assert_int_equal(r.lines + r.lost, 1100);
	assert_int_equal(r.last, 1100);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

static void test_full_exit(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	struct reading r;
	struct fanout *f;

	NEEDS_TINY(sink, "size=64k");
	options(&sink)->on_disk_full = FILE_EXIT;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 1000, 301);
	wait_for(fanout_wants_exit(f));
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	fanout_free(f);
	read_path(&r, path);
	assert_int_equal(r.bad, 0);
	assert_int_equal(r.lines, c.delivered);
	assert_int_equal(c.delivered + c.dropped[SINK_DISK_FULL], 1000);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* No room for the new file's name when it is due: the old one is gone on with, and rotated later. */
static void test_full_at_rotation(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct fanout *f;

	NEEDS_TINY(sink, "size=1m,nr_inodes=2"); /* the directory and one file */
	options(&sink)->rotate.max_size = 20000;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 200, 301);
	wait_for(counters(f, 0).delivered == 200);
	assert_false(there(".1"));
	fanout_rotate(f);
	assert_int_equal(mount("tiny", dir, "tmpfs", MS_REMOUNT, "size=1m,nr_inodes=50"), 0);
	fanout_rotate(f);
	wait_for(there(".1"));
	put_lines(f, 201, 10, 301);
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 210);
	fanout_free(f);
	read_generations(&r);
	assert_int_equal(r.lines, 210);
	assert_int_equal(r.disorder + r.bad, 0);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* Full by its own generations: those that are not kept make room, compression gives up and tries again. */
static void test_full_of_generations(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct sink_counters c;
	struct reading r;
	struct fanout *f;

	NEEDS_TINY(sink, "size=256k");
	options(&sink)->rotate.max_size = 100000;
	options(&sink)->rotate.keep = 1;
	options(&sink)->rotate.compress = FILE_ZSTD;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 100; i++) {
		put_lines(f, 1 + i * 50, 50, 301);
		sleep_ms(2);
	}
	wait_for(counters(f, 0).queued == 0);
	fanout_close(f, now_ns() + 5000 * MS);
	c = counters(f, 0);
	assert_int_equal(c.delivered, 5000);
	fanout_free(f);
	read_generations(&r);
	assert_int_equal(r.last, 5000);
	assert_int_equal(r.disorder + r.bad, 0);
	assert_int_equal(umount(dir), 0);
	free(sink.options);
}

/* ---- fsync ---- */

static void test_fsync(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct fanout *f;

	options(&sink)->fsync = FILE_FSYNC_INTERVAL;
	options(&sink)->rotate.max_size = 100000;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 1000, 301);
	sleep_ms(1200);
	put_lines(f, 1001, 1000, 301);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	read_generations(&r);
	assert_int_equal(r.lines, 2000);
	free(sink.options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_gzip),
		test(test_zstd),
		test(test_killed),
		test(test_left_over),
		test(test_still_written),
		test(test_name_that_is_taken),
		test(test_priority),
		test(test_full_drop),
		test(test_full_exit),
		test(test_full_at_rotation),
		test(test_full_of_generations),
		test(test_fsync),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
