/* Generations of a file: when they begin, what they are called, what is kept, what others do to them. */
#include "test_sinks_rotate.h"

/* ---- names ---- */

static void test_names(void **state)
{
	struct file_generation g;
	char name[NAME_MAX + 1], error[256] = "";

	assert_true(file_name_parse("out.jsonl", "out.jsonl", &g));
	assert_int_equal(g.number, 0);
	assert_true(file_name_parse("out.jsonl", "out.jsonl.12", &g));
	assert_int_equal(g.number, 12);
	assert_int_equal(g.base_len, 9);
	assert_true(file_name_parse("out.jsonl", "out.jsonl.3.zst", &g));
	assert_int_equal(g.compress, FILE_ZSTD);
	assert_true(file_name_parse("out.jsonl", "out.jsonl.3.gz", &g));
	assert_int_equal(g.compress, FILE_GZIP);
	for (const char *const *s =
		     (const char *const[]){"out.jsonl.gz", "out.jsonl.03", "out.jsonl.0", "out.jsonl.x",
					   "out.jsonl.1.bak", "out.jsonl.1.", "xout.jsonl.1", "out.jsonl1",
					   "out.jsonl.1234567", "out.jsonl.1.gz.zst", "out.jsonl.-1", NULL};
	     *s; s++)
		assert_false(file_name_parse("out.jsonl", *s, &g));
	assert_true(file_name_parse("a-%Y%m%d.l", "a-20261129.l", &g));
	assert_true(file_name_parse("a-%Y%m%d.l", "a-20261129.l.zst", &g));
	assert_true(file_name_parse("a-%F.l", "a-2026-11-29.l.4.gz", &g));
	assert_int_equal(g.number, 4);
	assert_false(file_name_parse("a-%Y%m%d.l", "a-2026112.l", &g));
	assert_false(file_name_parse("a-%Y%m%d.l", "a-2026112x.l", &g));
	assert_true(file_name_parse("a%%.l", "a%.l.1", &g));
	assert_true(file_name_is_temporary("out.jsonl", ".out.jsonl.2.zst.tmp"));
	assert_true(file_name_is_temporary("out.jsonl", ".out.jsonl.tmp"));
	assert_false(file_name_is_temporary("out.jsonl", "out.jsonl.2.zst.tmp"));
	assert_false(file_name_is_temporary("out.jsonl", ".other.tmp"));
	assert_false(file_name_is_temporary("out.jsonl", ".tmp"));
	file_name_make("a-%Y%m%d-%H.l%%", 1796000000, name);
	assert_string_equal(name, "a-20261130-00.l%");
	assert_true(file_name_is_dated("x%Y"));
	assert_false(file_name_is_dated("x%%Y"));
	assert_int_equal(file_name_check("x%", error, sizeof(error)), -EINVAL);
	assert_int_equal(file_name_check("..", error, sizeof(error)), -EINVAL);
	assert_int_equal(file_name_check("x%%Y%Y", error, sizeof(error)), 0);
}

/* ---- by size ---- */

static void test_by_size(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct stat st;
	struct fanout *f;

	options(&sink)->rotate.max_size = 100000;
	options(&sink)->rotate.keep = 5;
	options(&sink)->mode = 0604;
	f = open_fanout(&sink, 1);
	for (uint64_t i = 0; i < 40; i++) {
		put_lines(f, 1 + i * 50, 50, 301);
		wait_for(counters(f, 0).queued == 0);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	assert_int_equal(counters(f, 0).delivered, 2000);
	fanout_free(f);
	assert_int_equal(read_generations(&r), 5); /* and one went */
	assert_int_equal(files_in_dir(), 6);
	assert_int_equal(r.bad + r.disorder, 0);
	assert_int_equal(r.last, 2000);
	/* each is as full as whole lines allow, and the newest generations are there */
	assert_int_equal(r.lines, 5 * 332 + 2000 - 6 * 332);
	for (int i = 1; i <= 5; i++) {
		char suffix[16];

		snprintf(suffix, sizeof(suffix), ".%d", i);
		assert_int_equal(stat(old_path(suffix), &st), 0);
		assert_int_equal(st.st_size, 332 * 301);
		assert_int_equal(st.st_mode & 07777, 0604);
	}
	free(sink.options);
}

/* A line larger than the limit has a file of its own. */
static void test_tiny_limit(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct fanout *f;

	options(&sink)->rotate.max_size = 1;
	options(&sink)->rotate.keep = 100;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 20, 301);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	assert_int_equal(read_generations(&r), 19);
	assert_int_equal(r.lines, 20);
	assert_int_equal(r.disorder + r.bad, 0);
	free(sink.options);
}

/* A gap in the numbers ends the moving on; other files are left alone; fewer are kept than before. */
static void test_what_is_there(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading r;
	struct fanout *f;
	FILE *file;

	for (const char *const *s =
		     (const char *const[]){".1", ".2.gz", ".4", ".9", ".x", ".1.bak", "x.1", ".gz", NULL};
	     *s; s++) {
		file = fopen(old_path(*s), "w");
		fprintf(file, "%s\n", *s);
		fclose(file);
	}
	options(&sink)->rotate.keep = 4;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 10, 100);
	wait_for(counters(f, 0).delivered == 10);
	fanout_rotate(f);
	wait_for(there(".1") && there(".2") && there(".3.gz") && there(".4") && !there(".9"));
	assert_false(there(".2.gz"));
	assert_true(there(".x") && there(".1.bak") && there("x.1") && there(".gz"));
	read_path(&r, old_path(".1"));
	assert_int_equal(r.lines, 10);
	fanout_rotate(f); /* nothing to keep: nothing happens */
	sleep_ms(50);
	assert_false(there(".5"));
	fanout_free(f);
	free(sink.options);
}

/* ---- by time ---- */

static void test_by_time(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	uint64_t seq = 1, end;
	struct reading r;
	struct fanout *f;
	unsigned n;

	options(&sink)->rotate.interval_ns = 1000 * MS;
	f = open_fanout(&sink, 1);
	for (end = now_ns() + 3300 * MS; now_ns() < end; seq += 5) {
		put_lines(f, seq, 5, 200);
		sleep_ms(5);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	n = read_generations(&r);
	assert_in_range(n, 3, 4);
	assert_int_equal(r.lines, seq - 1);
	assert_int_equal(r.disorder + r.bad, 0);
	free(sink.options);
}

/* The old period is over while nothing comes; and: a file of yesterday is not gone on with at the start. */
static void test_by_time_when_idle(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct timespec old[2] = {{time(NULL) - 90000, 0}, {time(NULL) - 90000, 0}};
	struct fanout *f;
	FILE *file = fopen(path, "w");

	fprintf(file, "{\"seq\":1,\"p\":\"x\"}\n");
	fclose(file);
	utimensat(AT_FDCWD, path, old, 0);
	options(&sink)->rotate.interval_ns = 86400000 * MS;
	f = open_fanout(&sink, 1);
	assert_true(there(".1"));
	fanout_free(f);
	options(&sink)->rotate.interval_ns = 1000 * MS;
	f = open_fanout(&sink, 1);
	put_lines(f, 2, 1, 100);
	wait_for(there(".2"));
	sleep_ms(2200);
	assert_false(there(".3")); /* an empty file stays */
	fanout_free(f);
	free(sink.options);
}

static void test_dated(void **state)
{
	struct config_sink sink;
	char pattern[160], name[160];
	uint64_t seq = 1, end;
	struct fanout *f;

	snprintf(pattern, sizeof(pattern), "%s/cuda-%%Y%%m%%d-%%H%%M%%S.jsonl", dir);
	sink = file_sink("disk", pattern);
	options(&sink)->rotate.interval_ns = 1000 * MS;
	options(&sink)->rotate.keep = 2;
	options(&sink)->rotate.compress = FILE_GZIP;
	snprintf(name, sizeof(name), "%s/cuda-20200101-000000.jsonl", dir); /* an old one that will go */
	fclose(fopen(name, "w"));
	utimensat(AT_FDCWD, name, (struct timespec[2]){{1577836800, 0}, {1577836800, 0}}, 0);
	snprintf(name, sizeof(name), "%s/cuda-2020.jsonl", dir); /* not ours */
	fclose(fopen(name, "w"));
	f = open_fanout(&sink, 1);
	for (end = now_ns() + 4200 * MS; now_ns() < end; seq += 5) {
		put_lines(f, seq, 5, 200);
		sleep_ms(10);
	}
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	/* the current one, a plain and a compressed generation, and the stranger */
	assert_int_equal(files_in_dir(), 4);
	assert_int_equal(access(name, F_OK), 0);
	{
		char command[256];

		snprintf(command, sizeof(command),
			 "cd %s && ls cuda-*-*.jsonl | wc -l | grep -qx 2 && "
			 "ls cuda-*-*.jsonl.gz | wc -l | grep -qx 1 && gzip -t *.gz",
			 dir);
		assert_int_equal(system(command), 0);
	}
	free(sink.options);
}

/* ---- others at work ---- */

/* As logrotate does it: rename, make the new one, tell us. The name alone is enough, a second later. */
static void test_renamed(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct reading a, b;
	struct stat st;
	struct fanout *f;

	f = open_fanout(&sink, 1);
	put_lines(f, 1, 100, 300);
	wait_for(counters(f, 0).delivered == 100);
	assert_int_equal(rename(path, old_path(".1")), 0);
	put_lines(f, 101, 100, 300);
	wait_for(counters(f, 0).delivered == 200);
	wait_for(!stat(path, &st)); /* made anew without a signal */
	put_lines(f, 201, 100, 300);
	wait_for(counters(f, 0).delivered == 300);
	read_path(&a, old_path(".1"));
	read_path(&b, path);
	assert_int_equal(a.lines, 200);
	assert_int_equal(b.lines, 100);
	/* somebody puts another file there */
	fclose(fopen(old_path(".new"), "w"));
	assert_int_equal(rename(old_path(".new"), path), 0);
	sleep_ms(1500);
	put_lines(f, 301, 100, 300);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	read_path(&b, path);
	assert_int_equal(b.lines, 100);
	assert_int_equal(b.first, 301);
	free(sink.options);
}

static void test_not_regular(void **state)
{
	struct config_sink sink = file_sink("disk", "/dev/null");
	char error[256] = "", link[160];
	struct fanout *f = NULL;

	options(&sink)->rotate.max_size = 100;
	assert_int_equal(fanout_new(&sink, 1, NULL, test_loss, NULL, &f, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "cannot be rotated"));
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("target", link), 0);
	options(&sink)->path = link;
	assert_int_equal(fanout_new(&sink, 1, NULL, test_loss, NULL, &f, error, sizeof(error)), -EINVAL);
	options(&sink)->rotate.max_size = 0;
	f = open_fanout(&sink, 1); /* without rotation a link is fine, and makes its target */
	put_lines(f, 1, 10, 100);
	fanout_rotate(f);
	fanout_close(f, now_ns() + 5000 * MS);
	fanout_free(f);
	{
		struct reading r;

		read_path(&r, link);
		assert_int_equal(r.lines, 10);
	}
	free(sink.options);
}

static void test_owner(void **state)
{
	struct config_sink sink = file_sink("disk", path);
	struct file_owner owner;
	char error[128];
	struct stat st;
	struct fanout *f;

	assert_int_equal(file_owner_parse("0:12", &owner, error, sizeof(error)), 0);
	assert_int_equal(owner.gid, 12);
	assert_int_equal(file_owner_parse("root", &owner, error, sizeof(error)), 0);
	assert_int_equal(owner.uid, 0);
	assert_int_equal(owner.gid, (gid_t)-1);
	assert_int_equal(file_owner_parse(":root", &owner, error, sizeof(error)), 0);
	assert_int_equal(owner.uid, (uid_t)-1);
	assert_int_equal(file_owner_parse(":", &owner, error, sizeof(error)), -EINVAL);
	assert_int_equal(file_owner_parse("", &owner, error, sizeof(error)), -EINVAL);
	assert_int_equal(file_owner_parse("no-such-user-here", &owner, error, sizeof(error)), -EINVAL);
	if (geteuid()) {
		free(sink.options);
		skip();
	}
	options(&sink)->owner = (char *)"1234:4321";
	options(&sink)->mode = 0460;
	f = open_fanout(&sink, 1);
	put_lines(f, 1, 1, 100);
	wait_for(counters(f, 0).delivered == 1);
	fanout_rotate(f);
	wait_for(there(".1"));
	put_lines(f, 2, 1, 100);
	fanout_free(f);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 4321);
	assert_int_equal(st.st_mode & 07777, 0460);
	free(sink.options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(test_names),         test(test_by_size), test(test_tiny_limit),
		test(test_what_is_there), test(test_by_time), test(test_by_time_when_idle),
		test(test_dated),         test(test_renamed), test(test_not_regular),
		test(test_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
