/* New mappings as the kernel tells of them, and that what it had to drop is noticed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "streamer/find/watch.h"

#define MAPPINGS 400 /* of a path of more than 1000 bytes: several times what a ring of 64 KiB holds */

struct found {
	unsigned n;
	char path[PATH_MAX];
};

static int note(void *ctx, const struct find_file *file)
{
	struct found *found = ctx;

	found->n++;
	snprintf(found->path, sizeof(found->path), "%s", file->path);
	return 0;
}

/* Only this process, on one CPU: one ring has all its records. */
static struct find_watch *watch_self(void)
{
	struct find_watch *watch;
	cpu_set_t one;
	int err;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	err = find_watch_new(getpid(), &watch);
	if (err == -EACCES || err == -EPERM)
		skip();
	assert_int_equal(err, 0);
	return watch;
}

/* A file below directories with long names; returns its descriptor. */
static int make_deep(char *path, size_t size)
{
	char name[201], directory[] = "/tmp/find-watch-XXXXXX";
	size_t len;
	int fd;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_non_null(mkdtemp(directory));
	len = (size_t)snprintf(path, size, "%s", directory);
	for (int i = 0; i < 5; i++) {
		len += (size_t)snprintf(path + len, size - len, "/%s", name);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path + len, size - len, "/file");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	return fd;
}

static void remove_deep(char *path)
{
	char *slash;

	assert_int_equal(unlink(path), 0);
	while ((slash = strrchr(path, '/')) && slash != path + strlen("/tmp")) {
		*slash = 0;
		assert_int_equal(rmdir(path), 0);
	}
}

static void map_file(int fd)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(munmap(at, 4096), 0);
}

static void mappings_are_told(void **state)
{
	struct find_watch *watch = watch_self();
	struct found found = {0};
	char path[PATH_MAX];
	int fd = make_deep(path, sizeof(path));

	map_file(fd);
	map_file(fd);
	assert_int_equal(find_watch_read(watch, note, &found), 0);
	assert_int_equal(found.n, 2);
	assert_string_equal(found.path, path);
	assert_int_equal(find_watch_read(watch, note, &found), 0);
	assert_int_equal(found.n, 2);
	close(fd);
	remove_deep(path);
	find_watch_free(watch);
}

/* Nothing is mapped afterwards that would bring the kernel's record of them. */
static void a_full_ring_counts_as_loss(void **state)
{
	struct find_watch *watch = watch_self();
	struct found found = {0};
	char path[PATH_MAX];
	int fd = make_deep(path, sizeof(path));
	unsigned kept;

	for (int i = 0; i < MAPPINGS; i++)
		map_file(fd);
	assert_true(find_watch_read(watch, note, &found) >= 1);
	kept = found.n;
	assert_in_range(kept, 1, MAPPINGS - 1);

	/* the kernel tells with the next record, and then all is well again */
	map_file(fd);
	assert_int_equal(find_watch_read(watch, note, &found), MAPPINGS - kept);
	assert_int_equal(found.n, kept + 1);
	map_file(fd);
	assert_int_equal(find_watch_read(watch, note, &found), 0);
	assert_int_equal(found.n, kept + 2);
	close(fd);
	remove_deep(path);
	find_watch_free(watch);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_are_told),
		cmocka_unit_test(a_full_ring_counts_as_loss),
	};

	return cmocka_run_group_tests_name("find: watch", tests, NULL, NULL);
}
