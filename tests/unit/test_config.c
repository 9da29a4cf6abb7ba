/* Configuration: values read, defaults, the command line, and what cannot be read at all. */
#include "config_help.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sinks/sink.h"

static bool selects(const struct config *config, const char *family)
{
	int f = table_family(family);

	assert_true(f >= 0);
	return config->families[f];
}

/* ---- values ---- */

static void test_defaults(void **state)
{
	struct outcome o = load_with(NULL, NULL, 0, NULL);
	const struct config *c = o.config;
	char host[256] = "";

	assert_int_equal(o.rc, 0);
	assert_true(c->api[TABLE_RUNTIME] && c->api[TABLE_DRIVER]);
	for (unsigned f = 0; f < table_nfamilies; f++)
		assert_int_equal(c->families[f], table_families[f].in_default);
	assert_int_equal(c->include.n + c->exclude.n + c->libraries.n + c->pids.n + c->fields.nstatics, 0);
	assert_false(c->nested);
	assert_true(c->fields.args);
	gethostname(host, sizeof(host) - 1);
	assert_string_equal(c->host, host);
	assert_int_equal(c->ring.size, 16 << 20);
	assert_int_equal(c->ring.flush_ns, 20000000);
	assert_int_equal(c->nsinks, 1);
	assert_string_equal(c->sinks[0].name, "console");
	assert_string_equal(c->sinks[0].ops->type, "stdout");
	assert_string_equal(c->sinks[0].format, "json");
	assert_int_equal(c->sinks[0].queue.max_events, 65536);
	assert_int_equal(c->sinks[0].queue.max_bytes, 32 << 20);
	outcome_free(&o);
}

static void test_empty_is_default(void **state)
{
	static const char *const texts[] = {
		"", "\n", "# comment\n", "---\n", "~\n", "{}\n", "families:\nring: {size: }\n"};
	struct outcome o = load_with(NULL, NULL, 0, NULL);
	char *wanted = printed(o.config);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct config *c = load_good(texts[i]);
		char *got = printed(c);

		assert_string_equal(got, wanted);
		free(got);
		config_free(c);
	}
	free(wanted);
	outcome_free(&o);
}

static void test_everything(void **state)
{
	struct outcome o = load_with("tests/config/good/everything.yaml", NULL, 0, NULL);
	const struct config *c = o.config;
	const struct config_sink *disk;

	assert_int_equal(o.rc, 0);
	assert_true(selects(c, "memory") && selects(c, "sync"));
	assert_false(selects(c, "graph") || selects(c, "query"));
	assert_int_equal(c->include.n, 2);
	assert_string_equal(c->include.list[1], "cuEvent*");
	assert_string_equal(c->exclude.list[0], "cudaMemset*");
	assert_true(c->nested);
	assert_int_equal(c->libraries.n, 3);
	assert_string_equal(c->libraries.list[1], "/opt/*/lib/libcuda.so.1");
	assert_int_equal(c->pids.n, 2);
	assert_int_equal(c->pids.list[1], 4194304);
	assert_string_equal(c->host, "gpu07");
	assert_false(c->fields.args);
	assert_int_equal(c->fields.nstatics, 2);
	assert_string_equal(c->fields.statics[1].name, "cluster");
	assert_string_equal(c->fields.statics[1].value, "a");
	assert_int_equal(c->ring.size, 1 << 20);
	assert_int_equal(c->ring.flush_ns, 1500000000);
	assert_int_equal(c->nsinks, 2);
	assert_int_equal(c->sinks[0].queue.max_events, 10);
	assert_int_equal(c->sinks[0].queue.max_bytes, 32 << 20);
	disk = &c->sinks[1];
	assert_string_equal(disk->name, "disk");
	assert_string_equal(disk->ops->type, "file");
	assert_int_equal(disk->queue.max_events, 1000000);
	assert_int_equal(disk->queue.max_bytes, 1 << 30);
	outcome_free(&o);
}

static void test_single_words(void **state)
{
	struct config *c = load_good("api: driver\nfamilies: all\ninclude: cuInit\nlibraries: ./x\n"
				     "processes: {pids: 12}\n");

	assert_false(c->api[TABLE_RUNTIME]);
	assert_true(c->api[TABLE_DRIVER]);
	for (unsigned f = 0; f < table_nfamilies; f++)
		assert_true(c->families[f]);
	assert_string_equal(c->include.list[0], "cuInit");
	assert_string_equal(c->libraries.list[0], "./x");
	assert_int_equal(c->pids.list[0], 12);
	config_free(c);
}

static void test_family_words_add_up(void **state)
{
	struct config *c = load_good("families: [default, query]\n");

	assert_true(selects(c, "memory") && selects(c, "query"));
	assert_false(selects(c, "profiler"));
	config_free(c);
}

static void test_merge_keys(void **state)
{
	struct config *c = load_good("sinks:\n"
				     "  a: &a {type: file, path: A, queue: {max_events: 3}}\n"
				     "  b: &b {type: stdout, queue: {max_events: 5}}\n"
				     "  c: {<<: [*b, *a], type: file, path: C}\n"
				     "  d: {<<: *a}\n");
	char *text = printed(c);

	assert_int_equal(c->nsinks, 4);
	/* its own keys first, then the earlier map's */
	assert_string_equal(c->sinks[2].ops->type, "file");
	assert_int_equal(c->sinks[2].queue.max_events, 5);
	assert_non_null(strstr(text, "path: C"));
	assert_int_equal(c->sinks[3].queue.max_events, 3);
	free(text);
	config_free(c);
}

static void test_texts_as_written(void **state)
{
	struct config *c = load_good(
		"host: \"a: #\\\"\\u00fc\\t \"\nfields: {static: {n: 1, t: true, e: \"\", z: 'null'}}\n");

	assert_string_equal(c->host, "a: #\"\xc3\xbc\t ");
	assert_string_equal(c->fields.statics[0].value, "1");
	assert_string_equal(c->fields.statics[1].value, "true");
	assert_string_equal(c->fields.statics[2].value, "");
	assert_string_equal(c->fields.statics[3].value, "null");
	config_free(c);
}

static void test_page_is_the_least_ring(void **state)
{
	char text[64];
	struct config *c;

	snprintf(text, sizeof(text), "ring: {size: %ld}\n", sysconf(_SC_PAGESIZE));
	c = load_good(text);
	assert_int_equal(c->ring.size, sysconf(_SC_PAGESIZE));
	config_free(c);
}

/* ---- the command line ---- */

static void test_families_override(void **state)
{
	struct outcome o = load_with("F", "families: all\n", 14,
				     &(struct config_overrides){.families = "memory,launch"});

	assert_int_equal(o.rc, 0);
	assert_true(selects(o.config, "memory") && selects(o.config, "launch"));
	assert_false(selects(o.config, "graph"));
	outcome_free(&o);
}

static void test_wrong_families_override(void **state)
{
	static const struct {
		const char *families, *messages;
	} cases[] = {
		{"memory,lanch", "-f: unknown family \"lanch\"; did you mean \"launch\"?\n"},
		{"memory,,launch",
		 "-f: \"families\" wants a list of family names, default or all; this item is nothing\n"},
		{"", "-f: \"families\" wants a list of family names, default or all; this item is nothing\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o =
			load_with(NULL, NULL, 0, &(struct config_overrides){.families = cases[i].families});

		assert_string_equal(o.messages, cases[i].messages);
		outcome_free(&o);
	}
}

static void test_pids_override(void **state)
{
	static const char text[] = "processes: {pids: [1, 2]}\n";
	static const pid_t pids[] = {77, 78, 77};
	struct outcome o =
		load_with("F", text, strlen(text), &(struct config_overrides){.pids = pids, .npids = 3});

	assert_int_equal(o.config->pids.n, 2);
	assert_int_equal(o.config->pids.list[0], 77);
	assert_int_equal(o.config->pids.list[1], 78);
	outcome_free(&o);
}

static void test_sinks_override(void **state)
{
	static const char text[] = "sinks: {lake: {type: stdout}}\n";
	static const char *const sinks[] = {"-", "/tmp/a", "file:b:c", "stdout:"};
	struct outcome o =
		load_with("F", text, strlen(text), &(struct config_overrides){.sinks = sinks, .nsinks = 4});
	static const char *const names[] = {"stdout", "file", "file2", "stdout2"};
	char *yaml;

	assert_int_equal(o.rc, 0);
	assert_int_equal(o.config->nsinks, 4);
	for (int i = 0; i < 4; i++) {
		assert_string_equal(o.config->sinks[i].name, names[i]);
		assert_int_equal(o.config->sinks[i].queue.max_events, 65536);
	}
	yaml = printed(o.config);
	assert_non_null(strstr(yaml, "path: /tmp/a\n"));
	assert_non_null(strstr(yaml, "path: \"b:c\"\n"));
	free(yaml);
	outcome_free(&o);
}

static void test_wrong_sinks_override(void **state)
{
	static const char *const sinks[] = {"gopher://k1/topic", "file:", "a\xff"};
	struct outcome o = load_with(NULL, NULL, 0, &(struct config_overrides){.sinks = sinks, .nsinks = 3});
	static const char start[] =
		"-o: unknown kind of sink \"gopher://k1/topic\"; known: -, stdout:, syslog:, unix:PATH, "
		"syslog+udp://HOST:PORT, syslog+tcp://HOST:PORT, syslog+tls://HOST:PORT, "
		"kafka://HOST:PORT/TOPIC, PATH, file:PATH; for a file of that name, write ";

	assert_int_equal(strncmp(o.messages, start, strlen(start)), 0);
	assert_non_null(strstr(o.messages, "; for a file of that name, write ./gopher://k1/topic\n"));
	assert_non_null(
		strstr(o.messages, "-o: \"file:\": a file needs a path: `file:PATH` or just `PATH`\n"));
	assert_non_null(strstr(o.messages, "-o: byte 0xff is not UTF-8\n"));
	outcome_free(&o);
}

/* What the command line replaces is checked all the same. */
static void test_all_errors_of_both(void **state)
{
	static const char text[] = "families: [lunch]\nnested: 1\n";
	struct outcome o =
		load_with("F", text, strlen(text), &(struct config_overrides){.families = "memory,x"});

	assert_non_null(strstr(o.messages, "F:1:12: unknown family \"lunch\""));
	assert_non_null(strstr(o.messages, "F:2:9: \"nested\" wants"));
	assert_non_null(strstr(o.messages, "-f: unknown family \"x\""));
	outcome_free(&o);
}

/* ---- what cannot be read ---- */

static void test_unreadable(void **state)
{
	static const struct {
		const char *path, *message;
	} cases[] = {
		{"/nonexistent/cudatap.yaml",
		 "/nonexistent/cudatap.yaml: cannot read the configuration: No such file or directory\n"},
		{"/", "/: cannot read the configuration: Is a directory\n"},
		{"/dev/null/x", "/dev/null/x: cannot read the configuration: Not a directory\n"},
		{"", ": cannot read the configuration: No such file or directory\n"},
		{"/dev/zero", "/dev/zero: larger than 1024 KiB: this is not a configuration\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o = load_with(cases[i].path, NULL, 0, NULL);

		assert_string_equal(o.messages, cases[i].message);
		outcome_free(&o);
	}
}

static void test_stdin(void **state)
{
	static const char text[] = "nested: maybe\n";
	int ends[2], saved = dup(STDIN_FILENO);
	struct outcome o;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], text, sizeof(text) - 1), sizeof(text) - 1);
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	o = load_with("-", NULL, 0, NULL);
	dup2(saved, STDIN_FILENO);
	close(saved);
	close(ends[0]);
	assert_string_equal(o.messages, "stdin:1:9: \"nested\" wants true or false, not \"maybe\"\n");
	outcome_free(&o);
}

/* Words in messages come from anywhere: no escape sequences, no endless lines, no half characters. */
static void test_words_are_harmless(void **state)
{
	static const char start[] = "F:1:1: unknown key \"?[31mx?\"";
	char text[1024], wanted[1024];
	struct outcome o = load_text("\"\\e[31mx\\n\": 1\n");

	assert_int_equal(strncmp(o.messages, start, strlen(start)), 0);
	outcome_free(&o);
	snprintf(text, sizeof(text), "nested: %0*d\n", 500, 0);
	snprintf(wanted, sizeof(wanted), "F:1:9: \"nested\" wants true or false, not \"%0*d...\"\n", 90, 0);
	expect_messages(text, wanted);
	snprintf(text, sizeof(text), "nested: %0*d\xc3\xbc%0*d\n", 89, 0, 100, 0);
	snprintf(wanted, sizeof(wanted), "F:1:9: \"nested\" wants true or false, not \"%0*d...\"\n", 89, 0);
	expect_messages(text, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_empty_is_default),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_single_words),
		cmocka_unit_test(test_family_words_add_up),
		cmocka_unit_test(test_merge_keys),
		cmocka_unit_test(test_texts_as_written),
		cmocka_unit_test(test_page_is_the_least_ring),
		cmocka_unit_test(test_families_override),
		cmocka_unit_test(test_wrong_families_override),
		cmocka_unit_test(test_pids_override),
		cmocka_unit_test(test_sinks_override),
		cmocka_unit_test(test_wrong_sinks_override),
		cmocka_unit_test(test_all_errors_of_both),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_stdin),
		cmocka_unit_test(test_words_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
