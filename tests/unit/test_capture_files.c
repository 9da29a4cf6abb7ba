/* The limit of open files follows the probes there are and those to come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "streamer/capture/internal.h"

static rlim_t limit_now(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur;
}

static void the_limit_has_room_for_all_sets(void **state)
{
	struct probe_set sets[] = {{.nfds = 590}, {.nfds = 700}};
	struct capture capture = {.sets = sets, .nsets = 2};
	struct rlimit old, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	if (old.rlim_max < 4096)
		skip();
	low = (struct rlimit){64, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	capture_need_files(&capture, 902);
	assert_true(limit_now() > 590 + 700 + 902);
	low.rlim_cur = limit_now();
	capture_need_files(&capture, 0); /* never lower */
	assert_int_equal(limit_now(), low.rlim_cur);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* Without the right to raise the hard limit, as far as it goes. */
static void the_hard_limit_is_reached(void **state)
{
	struct capture capture = {0};
	struct rlimit old, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = (struct rlimit){64, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	capture_need_files(&capture, 1ull << 40); /* more than any process may have */
	assert_int_equal(limit_now(), old.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_has_room_for_all_sets),
		cmocka_unit_test(the_hard_limit_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
