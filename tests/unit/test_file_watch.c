/* Files watched by their names: what concerns them is seen, whatever way it happens, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "streamer/trace/file_watch.h"

static char dir[64];
static struct file_watch *watch;

static const char *at(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static int set_up(void **state)
{
	strcpy(dir, "/tmp/cudatap-watch-XXXXXX");
	assert_non_null(mkdtemp(dir));
	watch = file_watch_new();
	assert_non_null(watch);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	file_watch_free(watch);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static void put(const char *name)
{
	FILE *file = fopen(at(name), "w");

	assert_non_null(file);
	fputs("text\n", file);
	fclose(file);
}

/* One path, or two. */
static bool set(const char *a, const char *b)
{
	char *list[] = {strdup(at(a)), b ? strdup(at(b)) : NULL};
	const struct config_strings paths = {list, b ? 2 : 1};
	bool other = file_watch_set(watch, &paths);

	free(list[0]);
	free(list[1]);
	return other;
}

/* inotify has told of it when the system call that did it returns. */
#define assert_seen()                                                              \
	do {                                                                       \
		struct pollfd p_ = {.fd = file_watch_fd(watch), .events = POLLIN}; \
		assert_int_equal(poll(&p_, 1, 5000), 1);                           \
		assert_true(file_watch_read(watch));                               \
	} while (0)
#define assert_unseen() assert_false(file_watch_read(watch))

static void test_file(void **state)
{
	put("a");
	assert_true(set("a", NULL));
	assert_false(set("a", NULL));
	assert_unseen();
	put("a");
	assert_seen();
	put("other");
	assert_unseen();
	assert_int_equal(rename(at("other"), at("a")), 0);
	assert_seen();
	assert_int_equal(chmod(at("a"), 0600), 0);
	assert_seen();
	assert_int_equal(unlink(at("a")), 0);
	assert_seen();
	put("a");
	assert_seen();
	/* what is not watched any more */
	assert_true(set("b", NULL));
	put("a");
	assert_unseen();
	assert_true(file_watch_set(watch, &(struct config_strings){0}));
	put("b");
	assert_unseen();
}

static void test_pattern(void **state)
{
	assert_int_equal(mkdir(at("d"), 0700), 0);
	set("a", "d/*.yaml");
	put("d/x.txt");
	put("d/.hidden.yaml");
	assert_unseen();
	put("d/x.yaml");
	assert_seen();
	assert_int_equal(unlink(at("d/x.yaml")), 0);
	assert_seen();
}

/* A directory that is not there yet; once it is, another look at the paths goes further. */
static void test_missing_directory(void **state)
{
	assert_true(set("d/e/*.yaml", NULL));
	assert_int_equal(mkdir(at("d"), 0700), 0);
	assert_seen();
	assert_true(set("d/e/*.yaml", NULL));
	assert_int_equal(mkdir(at("d/e"), 0700), 0);
	assert_seen();
	assert_true(set("d/e/*.yaml", NULL));
	put("d/e/a.yaml");
	assert_seen();
	assert_int_equal(unlink(at("d/e/a.yaml")), 0);
	assert_int_equal(rmdir(at("d/e")), 0);
	assert_seen();
}

/* As a ConfigMap has it: a -> ..data/a, ..data -> one */
static void test_links(void **state)
{
	assert_int_equal(mkdir(at("one"), 0700) | mkdir(at("two"), 0700), 0);
	put("one/a");
	put("two/a");
	assert_int_equal(symlink("one", at("..data")) | symlink("..data/a", at("a")), 0);
	assert_true(set("a", NULL));
	put("one/a");
	assert_seen();
	put("two/a");
	assert_unseen();
	assert_int_equal(symlink("two", at("..new")), 0);
	assert_unseen();
	assert_int_equal(rename(at("..new"), at("..data")), 0);
	assert_seen();
	assert_true(set("a", NULL));
	put("two/a");
	assert_seen();
	put("one/a");
	assert_unseen();
	/* links that lead back */
	assert_int_equal(unlink(at("..data")) | symlink("..data", at("..data")), 0);
	file_watch_read(watch);
	set("a", NULL);
	assert_int_equal(unlink(at("..data")), 0);
	assert_seen();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pattern, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_missing_directory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("trace/file_watch", tests, NULL, NULL);
}
