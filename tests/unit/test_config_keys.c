/* Units, and the pass over a key table: one of the test's own, with types and flags that the real one lacks.
 */
#include "config_help.h"

#include <sys/stat.h>

#include "config/tree.h"
#include "config/types.h"
#include "config/units.h"

/* ---- units ---- */

static const struct {
	const struct unit *units;
	const char *text;
	int err;
	uint64_t value;
} parsed[] = {
	{units_size, "0B", 0, 0},
	{units_size, "1KiB", 0, 1024},
	{units_size, "1kB", 0, 1000},
	{units_size, "16MiB", 0, 16 << 20},
	{units_size, "1.5 KiB", 0, 1536},
	{units_size, "0.000000001GB", 0, 1},
	{units_size, "8388607TiB", 0, 8388607ull << 40},
	{units_size, "8388608TiB", -ERANGE, 0},
	{units_size, "18446744073709551616B", -ERANGE, 0},
	{units_size, "65536", -ENODATA, 65536},
	{units_size, "1.5", -EDOM, 0},
	{units_size, "1.5B", -EDOM, 0},
	{units_size, "1KIB", -ENOENT, 0},
	{units_size, "1 K", -ENOENT, 0},
	{units_size, "", -EINVAL, 0},
	{units_size, "MiB", -EINVAL, 0},
	{units_size, "-1MiB", -EINVAL, 0},
	{units_size, "+1MiB", -EINVAL, 0},
	{units_size, " 1MiB", -EINVAL, 0},
	{units_size, "1.MiB", -EINVAL, 0},
	{units_size, ".5MiB", -EINVAL, 0},
	{units_size, "0x10", -ENOENT, 0},
	{units_time, "1.5s", 0, 1500000000},
	{units_time, "10us", 0, 10000},
	{units_time, "2m", 0, 120000000000},
	{units_time, "1h", 0, 3600000000000},
	{units_time, "1d", 0, 86400000000000},
	{units_time, "0.0000000005s", -ERANGE, 0},
	{units_time, "0.5ns", -EDOM, 0},
	{units_time, "20", -ENODATA, 20},
	{units_time, "20 sec", -ENOENT, 0},
};

static void test_units(void **state)
{
	for (size_t i = 0; i < sizeof(parsed) / sizeof(parsed[0]); i++) {
		uint64_t value = 0;
		int err = units_parse(parsed[i].units, parsed[i].text, &value, NULL);

		if (err != parsed[i].err || value != parsed[i].value)
			fail_msg("%s: %d, %llu", parsed[i].text, err, (unsigned long long)value);
	}
}

static void test_units_print(void **state)
{
	static const struct {
		const struct unit *units;
		uint64_t value;
		const char *text;
	} cases[] = {
		{units_size, 0, "0"},
		{units_size, 1, "1"},
		{units_size, 1000, "1000"},
		{units_size, 1536, "1536"},
		{units_size, 1024, "1KiB"},
		{units_size, 3 << 20, "3MiB"},
		{units_size, 1ull << 50, "1024TiB"},
		{units_time, 1500000000, "1500ms"},
		{units_time, 120000000000, "2m"},
		{units_time, 1, "1ns"},
		{units_time, 86400000000000, "1d"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct units_text text = units_print(cases[i].units, cases[i].value);
		uint64_t again = 0;
		int err = units_parse(cases[i].units, text.text, &again, NULL);

		assert_string_equal(text.text, cases[i].text);
		assert_true(err == 0 || err == -ENODATA);
		assert_int_equal(again, cases[i].value);
	}
}

/* ---- a key table ---- */

struct settings {
	int64_t level;
	int colour;
	char *name, *password, *nothing;
	bool on;
	mode_t mode;
	uint64_t size;
	struct config_strings words, paths;
};

#define AT(member) offsetof(struct settings, member)

static const char *const colours[] = {"red", "green", "blue", NULL};
static const char *const none[] = {"none", NULL};

static const struct key inner[] = {
	{.name = "level", .type = KEY_INT, .offset = AT(level), .fallback = "-3", .min = -10, .max = 10},
	{.name = "colour", .type = KEY_ENUM, .offset = AT(colour), .fallback = "green", .words = colours},
	{0},
};

static const struct key keys[] = {
	{.name = "inner", .type = KEY_MAP, .children = inner},
	{.name = "name", .type = KEY_STRING, .offset = AT(name), .required = true, .about = "who; or what"},
	{.name = "password", .type = KEY_STRING, .offset = AT(password), .flags = KEY_SECRET},
	{.name = "nothing", .type = KEY_STRING, .offset = AT(nothing)},
	{.name = "on", .type = KEY_BOOL, .offset = AT(on), .fallback = "true"},
	{.name = "mode", .type = KEY_MODE, .offset = AT(mode), .fallback = "0640"},
	{.name = "size", .type = KEY_SIZE, .offset = AT(size), .fallback = "1GiB"},
	{.name = "words", .type = KEY_STRINGS, .offset = AT(words), .fallback = "[a, b]"},
	{.name = "paths",
	 .type = KEY_STRINGS,
	 .offset = AT(paths),
	 .fallback = "none",
	 .words = none,
	 .flags = KEY_PATHS},
	{0},
};

/* Defaults, then a text over them. Returns the messages, to be freed. */
static char *fill(struct settings *settings, const char *text)
{
	const struct mark mark = {.file = "T"};
	struct key_set set = {keys, settings};
	const struct node *root = NULL;
	struct errors errors = {0};
	struct tree *tree = tree_new();
	char *messages;
	size_t len;
	FILE *out = open_memstream(&messages, &len);

	keys_defaults(&set, 1, &errors);
	assert_int_equal(errors.total, 0);
	assert_int_equal(tree_read(tree, text, strlen(text), &mark, &errors, &root), 0);
	keys_read(&set, 1, root, &errors);
	errors_print(&errors, out);
	errors_clear(&errors);
	tree_free(tree);
	fclose(out);
	return messages;
}

static void test_key_defaults(void **state)
{
	struct settings s = {0};
	char *messages = fill(&s, "name: x");

	assert_string_equal(messages, "");
	assert_int_equal(s.level, -3);
	assert_int_equal(s.colour, 1);
	assert_string_equal(s.name, "x");
	assert_null(s.password);
	assert_true(s.on);
	assert_int_equal(s.mode, 0640);
	assert_int_equal(s.size, 1 << 30);
	assert_int_equal(s.words.n, 2);
	assert_string_equal(s.words.list[1], "b");
	assert_int_equal(s.paths.n, 0);
	keys_free(&(struct key_set){keys, &s}, 1);
	assert_null(s.name);
	assert_int_equal(s.words.n, 0);
	free(messages);
}

/* Lists are replaced, maps keep the keys that a text does not mention. */
static void test_key_replacement(void **state)
{
	struct settings s = {0};
	char *messages = fill(&s, "{name: x, words: [c], inner: {level: 9}, paths: [/a, b/*]}");

	assert_string_equal(messages, "");
	assert_int_equal(s.words.n, 1);
	assert_string_equal(s.words.list[0], "c");
	assert_int_equal(s.level, 9);
	assert_int_equal(s.colour, 1);
	assert_int_equal(s.paths.n, 2);
	free(messages);
	messages = fill(&s, "{name: y, paths: none}");
	assert_string_equal(s.name, "y");
	assert_int_equal(s.paths.n, 0);
	assert_int_equal(s.words.n, 2);
	free(messages);
	keys_free(&(struct key_set){keys, &s}, 1);
}

static void test_key_mistakes(void **state)
{
	static const struct {
		const char *text, *messages;
	} cases[] = {
		{"on: true", "T:1:1: \"name\" is missing: who\n"},
		{"name: ''", "T:1:7: \"name\" cannot be empty\n"},
		{"name: ~", "T:1:7: \"name\" is missing: who\n"},
		{"{name: x, inner: {level: 11}}", "T:1:26: \"level\" is from -10 to 10, not \"11\"\n"},
		{"{name: x, inner: {level: -11}}", "T:1:26: \"level\" is from -10 to 10, not \"-11\"\n"},
		{"{name: x, inner: {level: 99999999999999999999}}",
		 "T:1:26: \"level\" wants a whole number, not \"99999999999999999999\"\n"},
		{"{name: x, inner: {level: 1.0}}", "T:1:26: \"level\" wants a whole number, not \"1.0\"\n"},
		{"{name: x, inner: {level: '1'}}", "T:1:26: \"level\" wants a whole number, not \"1\"\n"},
		{"{name: x, inner: {colour: grean}}",
		 "T:1:27: unknown colour \"grean\"; did you mean \"green\"?\n"},
		{"{name: x, inner: {colour: black}}",
		 "T:1:27: unknown colour \"black\"; known: red, green, blue\n"},
		{"{name: x, paths: nine}",
		 "T:1:18: \"nine\" is neither \"none\" nor a path, which has a \"/\"\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settings s = {0};
		char *messages = fill(&s, cases[i].text);

		assert_string_equal(messages, cases[i].messages);
		free(messages);
		keys_free(&(struct key_set){keys, &s}, 1);
	}
}

static void test_secrets_stay_secret(void **state)
{
	struct settings s = {0};
	char *messages = fill(&s, "{name: x, password: hunter2}"), *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct emit *emit = emit_new(out);

	assert_string_equal(messages, "");
	emit_map(emit);
	keys_print(&(struct key_set){keys, &s}, 1, emit);
	emit_map_end(emit);
	assert_int_equal(emit_free(emit), 0);
	fclose(out);
	assert_string_equal(s.password, "hunter2");
	assert_string_equal(
		text, "inner:\n  level: -3\n  colour: green\nname: x\npassword: \"********\"\non: true\n"
		      "mode: \"0640\"\nsize: 1GiB\nwords: [a, b]\npaths: none\n");
	free(text);
	free(messages);
	keys_free(&(struct key_set){keys, &s}, 1);
}

/* Bytes of a host's name or of a path can be anything; YAML cannot. */
static void test_emit_any_bytes(void **state)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct emit *emit = emit_new(out);

	emit_text(emit, "a\xff\xc3\xbc\xc3");
	assert_int_equal(emit_free(emit), 0);
	fclose(out);
	assert_string_equal(text, "\"a\xef\xbf\xbd\xc3\xbc\xef\xbf\xbd\"\n");
	free(text);
}

static void test_emit_full_disk(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct emit *emit;

	assert_non_null(full);
	setvbuf(full, NULL, _IONBF, 0);
	emit = emit_new(full);
	emit_text(emit, "x");
	assert_int_equal(emit_free(emit), -EIO);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),          cmocka_unit_test(test_units_print),
		cmocka_unit_test(test_key_defaults),   cmocka_unit_test(test_key_replacement),
		cmocka_unit_test(test_key_mistakes),   cmocka_unit_test(test_secrets_stay_secret),
		cmocka_unit_test(test_emit_any_bytes), cmocka_unit_test(test_emit_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
