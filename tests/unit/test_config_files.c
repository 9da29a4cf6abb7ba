/*
 * Configuration files as data: each of tests/config/wrong has exactly the
 * messages of its .expected file, each of tests/config/good loads, and what is
 * printed of it loads again to the same.
 */
#include "config_help.h"

#include <glob.h>

static void replace_suffix(char *path, size_t size, const char *from, const char *suffix)
{
	snprintf(path, size, "%.*s%s", (int)(strrchr(from, '.') - from), from, suffix);
}

static void each_file(const char *pattern, size_t least, void (*check)(const char *path))
{
	glob_t found;

	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_true(found.gl_pathc >= least);
	for (size_t i = 0; i < found.gl_pathc; i++)
		check(found.gl_pathv[i]);
	globfree(&found);
}

/* The messages without the file's name in front of each. */
static char *without_name(const char *messages, const char *path)
{
	char *text = calloc(1, strlen(messages) + 1), *end = text;
	size_t len = strlen(path);

	while (*messages) {
		const char *next = strchr(messages, '\n') + 1;

		if (!strncmp(messages, path, len))
			messages += len;
		memcpy(end, messages, next - messages);
		end += next - messages;
		messages = next;
	}
	return text;
}

static void check_wrong(const char *path)
{
	struct outcome o = load_with(path, NULL, 0, NULL);
	char expected_path[512];
	char *expected, *got;

	replace_suffix(expected_path, sizeof(expected_path), path, ".expected");
	expected = slurp(expected_path, NULL);
	got = without_name(o.messages, path);
	if (o.rc != -EINVAL)
		fail_msg("%s is accepted", path);
	if (strcmp(got, expected))
		fail_msg("%s:\n%s--- instead of\n%s", path, got, expected);
	free(got);
	free(expected);
	outcome_free(&o);
}

static void test_wrong(void **state)
{
	each_file("tests/config/wrong/*.yaml", 120, check_wrong);
}

static void compare_selection(const struct config *a, const struct config *b)
{
	uint8_t *first = malloc(table_nrows), *second = malloc(table_nrows);

	config_select(a, first);
	config_select(b, second);
	assert_memory_equal(first, second, table_nrows);
	free(first);
	free(second);
}

static void check_good(const char *path)
{
	struct outcome o = load_with(path, NULL, 0, NULL);
	struct config *again;
	char *first, *second;

	if (o.rc)
		fail_msg("%s", o.messages);
	first = printed(o.config);
	again = load_good(first);
	second = printed(again);
	assert_string_equal(first + profile_length(first), second);
	compare_selection(o.config, again);
	assert_string_equal(o.config->host, again->host);
	assert_int_equal(o.config->fields.nstatics, again->fields.nstatics);
	for (size_t i = 0; i < again->fields.nstatics; i++)
		assert_string_equal(o.config->fields.statics[i].value, again->fields.statics[i].value);
	assert_int_equal(o.config->nsinks, again->nsinks);
	for (size_t i = 0; i < again->nsinks; i++)
		assert_ptr_equal(o.config->sinks[i].ops, again->sinks[i].ops);
	free(first);
	free(second);
	config_free(again);
	outcome_free(&o);
}

static void test_good(void **state)
{
	each_file("tests/config/good/*.yaml", 25, check_good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_good),
	};

	unsetenv("CUDATAP_PROFILE");
	unsetenv("CUDATAP_TEST_UNSET");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
