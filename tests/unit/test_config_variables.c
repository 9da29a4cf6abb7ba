/* Variables and secrets: what they put in, what they cannot, and that secrets are never shown. */
#include "config_help.h"

#include "sinks/sink.h"

/* ---- variables ---- */

static void test_values(void **state)
{
	static const struct {
		const char *value; /* of the variable V; NULL: not set */
		const char *text, *host;
	} cases[] = {
		{"gpu07", "${V}", "gpu07"},
		{"gpu07", "\"${V}\"", "gpu07"},
		{"gpu07", "'${V}'", "gpu07"},
		{"a", "${V}${V}-${V}x", "aa-ax"},
		{"a", "${V:-b}", "a"},
		{"", "${V:-b}", "b"},
		{NULL, "${V:-b}", "b"},
		{NULL, "x${V:-}y", "xy"},
		{NULL, "${V:-a:-b $x}", "a:-b $x"},
		{"a", "$${V}", "${V}"},
		{"a", "$${V}${V}", "${V}a"},
		{"a", "$$${V}", "$${V}"},
		{"a", "$V $ {V} $(V)", "$V $ {V} $(V)"},
		{"${W}", "${V}", "${W}"}, /* once is enough */
		{"a: {b: [c]}", "${V}", "a: {b: [c]}"},
		{"null", "${V}", "null"},
		{"~", "${V}", "~"},
		{"# x", "${V}", "# x"},
		{"\xc3\xbc", "${V}", "\xc3\xbc"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[128];
		struct config *c;

		if (cases[i].value)
			setenv("V", cases[i].value, 1);
		else
			unsetenv("V");
		snprintf(text, sizeof(text), "host: %s\n", cases[i].text);
		c = load_good(text);
		assert_string_equal(c->host, cases[i].host);
		config_free(c);
	}
}

/* Types are those of the key, whatever the text looks like and however it is quoted. */
static void test_types(void **state)
{
	struct config *c;

	setenv("TRUE", "true", 1);
	setenv("N", "12", 1);
	setenv("KIND", "stdout", 1);
	c = load_good(
		"nested: \"${TRUE}\"\nprocesses: {pids: [\"${N}\"]}\n"
		"sinks: {a: {type: \"${KIND}\", queue: {max_events: \"${N}\", max_bytes: \"${N}MiB\"}}}\n");
	assert_true(c->nested);
	assert_int_equal(c->pids.list[0], 12);
	assert_string_equal(c->sinks[0].ops->type, "stdout");
	assert_int_equal(c->sinks[0].queue.max_events, 12);
	assert_int_equal(c->sinks[0].queue.max_bytes, 12 << 20);
	config_free(c);
}

static void test_no_structure(void **state)
{
	setenv("V", "{size: 1MiB}", 1);
	expect_messages("ring: ${V}\n", "F:1:7: \"ring\" wants a map, not a single value\n");
	setenv("V", "a\nnested: true", 1);
	expect_messages("nested: ${V}\n", "F:1:9: \"nested\" wants true or false, not \"a?nested: true\"\n");
	setenv("V", "null", 1);
	expect_messages("nested: ${V}\n", "F:1:9: \"nested\" wants true or false, not \"null\"\n");
	setenv("V", "", 1);
	expect_messages("nested: ${V}\n", "F:1:9: \"nested\" wants true or false, not \"\"\n");
	setenv("V", "a\xff", 1);
	expect_messages("host: ${V}\n", "F:1:7: the value of variable \"V\" is not text (UTF-8)\n");
	setenv("V", "a\x1b[31m", 1);
	expect_messages("host: ${V}\n", "F:1:7: the value of variable \"V\" is not text (UTF-8)\n");
}

static void test_which_profile(void **state)
{
	static const char text[] = "profile: ${V:-b}\nprofiles: {a: {host: a}, b: {host: b}}\n";
	struct config *c;

	setenv("V", "a", 1);
	c = load_good(text);
	assert_string_equal(c->host, "a");
	config_free(c);
	unsetenv("V");
	c = load_good(text);
	assert_string_equal(c->host, "b");
	config_free(c);
}

/* What is only needed elsewhere need not be set, here or anywhere above it. */
static void test_unset_elsewhere(void **state)
{
	struct config *c;

	unsetenv("V");
	c = load_good("profile: dev\n"
		      "host: ${V}\n"
		      "profiles:\n"
		      "  dev: {host: here}\n"
		      "  prod:\n"
		      "    families: [\"${V}\", memory]\n"
		      "    fields: {static: {a: \"${V}\", b: c}}\n"
		      "    processes: {pids: [\"${V}\"]}\n"
		      "    sinks: {a: {type: file, path: \"${V}/x\"}, b: {type: \"${V}\", what: ever}}\n");
	assert_string_equal(c->host, "here");
	config_free(c);
}

/* ---- printed, it loads again to the same ---- */

static void test_round_trip(void **state)
{
	static const char *const hosts[] = {"${V}", "$${V}", "$$", "a$", "${", "$${", "x${a}y"};

	unsetenv("V");
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct config *c, *again;
		char *text;

		setenv("HOST_VALUE", hosts[i], 1);
		c = load_good("host: ${HOST_VALUE}\n");
		text = printed(c);
		again = load_good(text);
		assert_string_equal(again->host, hosts[i]);
		config_free(c);
		config_free(again);
		free(text);
	}
}

/* ---- secrets ---- */

static void expect_silence(const char *text)
{
	if (strstr(text, "s3cr3t") || strstr(text, "0ther"))
		fail_msg("a secret is shown:\n%s", text);
}

/* Neither check nor the comparison shows it; that it differs can be seen. */
static void test_secret_is_not_shown(void **state)
{
	static const char form[] = "sinks: {lake: {type: kafka, brokers: [k1], topic: t,\n"
				   "  sasl: {mechanism: PLAIN, username: me, password: \"${SECRET}\"}}}\n";
	struct config *a, *b;
	char *text;
	size_t len;
	FILE *out;

	setenv("SECRET", "s3cr3t", 1);
	a = load_good(form);
	setenv("SECRET", "0ther", 1);
	b = load_good(form);
	text = printed(a);
	assert_non_null(strstr(text, "password: \"********\"\n"));
	expect_silence(text);
	free(text);
	out = open_memstream(&text, &len);
	assert_int_equal(config_diff(a, b, out), 0);
	fclose(out);
	assert_string_equal(text, "sinks.lake.sasl.password: ******** -> ********\n");
	free(text);
	out = open_memstream(&text, &len);
	assert_int_equal(config_diff(a, a, out), 0);
	fclose(out);
	assert_string_equal(text, "");
	free(text);
	config_free(a);
	config_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_no_structure),
		cmocka_unit_test(test_which_profile),
		cmocka_unit_test(test_unset_elsewhere),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_secret_is_not_shown),
	};

	unsetenv("CUDATAP_PROFILE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
