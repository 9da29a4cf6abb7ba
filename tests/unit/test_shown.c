/* The set of files shown: against a plain array, with removals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streamer/launch/shown.h"

enum { KEYS = 3000, STEPS = 60000 };

/* Few different hashes: long runs of neighbours. */
static struct shown_key key_of(unsigned i)
{
	return (struct shown_key){.ino = 1 + i % 40, .size = i, .dev_minor = 3, .btime_ns = i / 7};
}

static void random_against_an_array(void **state)
{
	struct shown *shown = shown_new();
	bool has[KEYS] = {false};
	unsigned seed = 7;

	assert_non_null(shown);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)rand_r(&seed) % KEYS;
		struct shown_key key = key_of(i);

		assert_int_equal(shown_has(shown, &key), has[i]);
		if (rand_r(&seed) % 2) {
			shown_add(shown, &key);
			has[i] = true;
		} else {
			shown_remove(shown, &key);
			has[i] = false;
		}
	}
	for (unsigned i = 0; i < KEYS; i++) {
		struct shown_key key = key_of(i);

		assert_int_equal(shown_has(shown, &key), has[i]);
		shown_remove(shown, &key);
		assert_false(shown_has(shown, &key));
	}
	shown_free(shown);
}

static void same_and_not(void **state)
{
	struct shown_key a = key_of(5), b = a;

	assert_true(shown_same(&a, &b));
	b.mtime_ns++; /* written over */
	assert_false(shown_same(&a, &b));
	b = a;
	b.dev_major++;
	assert_false(shown_same(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_against_an_array),
		cmocka_unit_test(same_and_not),
	};

	return cmocka_run_group_tests_name("shown", tests, NULL, NULL);
}
