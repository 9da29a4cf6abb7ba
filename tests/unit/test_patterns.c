/* Patterns that select processes, and the processes below others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../streamer/capture/patterns.h"
#include "../../streamer/find/descendants.h"

static void check(const char *(*wrong)(const char *text), const char *const *good, const char *const *bad)
{
	for (; *good; good++)
		assert_null(wrong(*good));
	for (; *bad; bad++)
		assert_non_null(wrong(*bad));
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LONG      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_wrong(void **state)
{
	check(patterns_uid_wrong, LIST("0", "65534", "4294967294"),
	      LIST("", "-1", "+1", " 1", "root", "4294967295", "99999999999999999999", "1x"));
	check(patterns_comm_wrong, LIST("a", "python3", "fifteen_bytes_x", "fifteen_bytes_x*", "*", "a b"),
	      LIST("", "sixteen_bytes_xx", "sixteen_bytes_xx*", "a*b", "**"));
	check(patterns_exe_wrong, LIST("python3", "bin/python3", "/usr/bin/python3", "a b"),
	      LIST("", "/", "bin/", "a//b", "*/a", "/usr/bin/*"));
	check(patterns_cgroup_wrong, LIST("a.slice", "/a.slice/b.scope"), LIST("", "/", "a/b", "/a/", "a*"));
	check(patterns_container_wrong, LIST("0123456789ab", LONG),
	      LIST("", "0123456789a", LONG "0", "0123456789AB", "0123456789ax"));
}

static void assert_key(const struct pattern *pattern, const char *bytes, size_t len, uint32_t match)
{
	assert_memory_equal(pattern->key, bytes, len);
	for (size_t i = len; i < sizeof(pattern->key); i++)
		assert_int_equal(pattern->key[i], 0);
	assert_int_equal(pattern->match, match);
}

#define ASSERT_KEY(make, text, bytes, match)                        \
	do {                                                        \
		struct pattern made;                                \
		make(text, &made);                                  \
		assert_key(&made, bytes, sizeof(bytes) - 1, match); \
	} while (0)

static void test_make(void **state)
{
	ASSERT_KEY(patterns_make_comm, "python3", "python3", REC_MATCH_WHOLE);
	ASSERT_KEY(patterns_make_comm, "python*", "python", REC_MATCH_PREFIX);
	ASSERT_KEY(patterns_make_comm, "*", "", REC_MATCH_PREFIX);
	ASSERT_KEY(patterns_make_path, "python3", "python3\0", REC_MATCH_NAME);
	ASSERT_KEY(patterns_make_path, "bin/python3", "python3\0bin\0", REC_MATCH_NAME);
	ASSERT_KEY(patterns_make_path, "/usr/bin/python3", "python3\0bin\0usr\0", REC_MATCH_WHOLE);
	ASSERT_KEY(patterns_make_path, "/a", "a\0", REC_MATCH_WHOLE);
	ASSERT_KEY(patterns_make_container, LONG, "0123456789ab", REC_MATCH_WHOLE);
	ASSERT_KEY(patterns_make_uid, "258", "\2\1\0\0", REC_MATCH_WHOLE);
}

/* A process that says where its child is, which says where its own is. */
static pid_t fork_two(pid_t *ret_grandchild)
{
	int fds[2];
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (!child) {
		pid_t grandchild = fork();

		if (grandchild && write(fds[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(fds[0], ret_grandchild, sizeof(*ret_grandchild)), sizeof(*ret_grandchild));
	close(fds[0]);
	close(fds[1]);
	return child;
}

static void test_descendants(void **state)
{
	pid_t grandchild, child = fork_two(&grandchild), self = getpid(), *list;
	ssize_t n = find_descendants(&self, 1, &list);
	bool has_child = false, has_grandchild = false;

	for (ssize_t i = 0; i < n; i++) {
		has_child |= list[i] == child;
		has_grandchild |= list[i] == grandchild;
		assert_int_not_equal(list[i], self);
		assert_int_not_equal(list[i], getppid());
	}
	assert_true(has_child && has_grandchild);
	free(list);
	n = find_descendants(&child, 1, &list);
	assert_int_equal(n, 1);
	assert_int_equal(list[0], grandchild);
	free(list);
	n = find_descendants(&grandchild, 1, &list);
	assert_int_equal(n, 0);
	free(list);
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_make),
		cmocka_unit_test(test_descendants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
