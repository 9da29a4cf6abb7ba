/* From one configuration to the next: what differs, which sinks go on, what waits for a start; and what a
 * configuration was made from. */
#include <sys/stat.h>
#include <unistd.h>

#include "config_help.h"

#define SINKS "sinks: {a: {type: file, path: /a}, l: {type: syslog, target: 'udp://h:514'}}\n"

/* One change as "KEY: FROM -> TO", with "!" before what waits for a start. */
static void add_text(char *text, size_t size, const struct config_change *change)
{
	size_t len = strlen(text);

	snprintf(text + len, size - len, "%s%s: %s -> %s\n", change->at_start ? "!" : "", change->path,
		 change->from ? change->from : "(none)", change->to ? change->to : "(none)");
}

/* What it takes from one text to another; @same: the sinks that go on, as letters. The new one is returned.
 */
static struct config *expect(const char *from, const char *to, const char *changes, const char *same)
{
	struct config *old = load_good(from), *new = load_good(to);
	struct config_changes found;
	char text[4096] = "", names[64] = "";

	assert_int_equal(config_advance(old, new, &found), 0);
	for (size_t i = 0; i < found.n; i++)
		add_text(text, sizeof(text), &found.list[i]);
	for (size_t i = 0; i < new->nsinks; i++)
		if (found.same_sink[i])
			strcat(names, new->sinks[i].name);
	assert_string_equal(text, changes);
	assert_string_equal(names, same);
	config_changes_free(&found);
	assert_int_equal(config_advance(new, new, &found), 0);
	assert_int_equal(found.n, 0);
	config_changes_free(&found);
	config_free(old);
	return new;
}

static void expect_changes(const char *from, const char *to, const char *changes, const char *same)
{
	config_free(expect(from, to, changes, same));
}

static void test_keys(void **state)
{
	expect_changes(SINKS, SINKS, "", "al");
	expect_changes(SINKS, "nested: false # the default\n" SINKS, "", "al");
	expect_changes("families: [memory]\n" SINKS, "families: [memory, launch]\n" SINKS,
		       "families: [memory] -> [memory, launch]\n", "al");
	expect_changes("fields: {static: {a: '1', b: '2'}}\n" SINKS,
		       "fields: {static: {b: '3', c: '4'}, args: false}\n" SINKS,
		       "fields.args: true -> false\nfields.static.a: 1 -> (none)\nfields.static.b: 2 -> 3\n"
		       "fields.static.c: (none) -> 4\n",
		       "al");
}

/* Kinds that say who they are say so from the beginning. */
static void test_host(void **state)
{
	expect_changes("host: one\n" SINKS, "host: two\n" SINKS, "host: one -> two\n", "a");
}

static void test_sinks(void **state)
{
#define A "sinks: {a: {type: file, path: /a"
	expect_changes(A "}}\n",
		       A ", filter: {status: [error]}, fields: {args: false}, rate_limit: {events: 5}}}\n",
		       "sinks.a.fields.args: true -> false\nsinks.a.filter.status: [] -> [error]\n"
		       "sinks.a.rate_limit.events: 0 -> 5\n",
		       "a");
	expect_changes(A "}}\n", A ", queue: {max_events: 5}}}\n", "sinks.a.queue.max_events: 65536 -> 5\n",
		       "");
	expect_changes(A "}}\n", A ", format: ecs}}\n", "sinks.a.format: json -> ecs\n", "");
	expect_changes(A "}}\n", A ", rotate: {keep: 9}}}\n", "sinks.a.rotate.keep: 7 -> 9\n", "");
	expect_changes(A "}}\n", "sinks: {b: {type: file, path: /a}}\n",
		       "sinks.a: {type: file, ...} -> (none)\nsinks.b: (none) -> {type: file, ...}\n", "");
	expect_changes(A "}}\n", "sinks: {a: {type: stdout}}\n",
		       "sinks.a: {type: file, ...} -> {type: stdout, ...}\n", "");
	expect_changes(A "}, b: {type: stdout}}\n", "sinks: {b: {type: stdout}, a: {type: file, path: /a}}\n",
		       "", "ba");
#undef A
}

static void test_secrets(void **state)
{
#define K                                                                                             \
	"sinks: {k: {type: kafka, brokers: ['h:1'], topic: t, sasl: {mechanism: PLAIN, username: u, " \
	"password: "
	expect_changes(K "one}}}\n", K "one}}}\n", "", "k");
	expect_changes(K "one}}}\n", K "two}}}\n", "sinks.k.sasl.password: ******** -> ********\n", "");
#undef K
}

static void test_at_start(void **state)
{
	struct config *config = expect(
		"ring: {size: 16MiB, flush: 20ms}\nlibraries: [/a/b.so]\nprocesses: {pids: [7]}\n" SINKS,
		"ring: {size: 32MiB, flush: 30ms}\nnames: mangled\n" SINKS,
		"!names: demangled -> mangled\n!libraries: [/a/b.so] -> auto\n!processes.pids: [7] -> []\n"
		"!ring.size: 16MiB -> 32MiB\nring.flush: 20ms -> 30ms\n",
		"al");

	assert_int_equal(config->ring.size, 16 << 20);
	assert_int_equal(config->ring.flush_ns, 30000000);
	assert_int_equal(config->names, 0);
	assert_int_equal(config->libraries.n, 1);
	assert_string_equal(config->libraries.list[0], "/a/b.so");
	assert_int_equal(config->pids.n, 1);
	assert_int_equal(config->pids.list[0], 7);
	config_free(config);
}

/* ---- what it was made from ---- */

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	chmod(path, 0600);
}

/* The paths, each without @dir, with a blank behind. */
static void expect_paths(const char *dir, int rc, const char *paths)
{
	char path[256], found[1024] = "";
	struct config_strings strings;
	struct config *config = NULL;
	char *messages;
	size_t len;
	FILE *errors = open_memstream(&messages, &len);

	snprintf(path, sizeof(path), "%s/c.yaml", dir);
	assert_int_equal(config_load_watched(path, NULL, errors, &strings, &config), rc);
	fclose(errors);
	free(messages);
	for (size_t i = 0; i < strings.n; i++) {
		assert_int_equal(strncmp(strings.list[i], dir, strlen(dir)), 0);
		strcat(found, strings.list[i] + strlen(dir) + 1);
		strcat(found, " ");
	}
	assert_string_equal(found, paths);
	config_strings_free(&strings);
	config_free(config);
}

static void test_paths(void **state)
{
	char dir[] = "/tmp/cudatap-advance-XXXXXX", command[128];

	assert_non_null(mkdtemp(dir));
	expect_paths(dir, -EINVAL, "c.yaml ");
	put(dir, "c.yaml", "include_files: [one.yaml, 'd/*.yaml', 'e*.yaml']\n");
	put(dir, "one.yaml", "host: h\n");
	put(dir, "e1.yaml", "open_after: 1s\n");
	expect_paths(dir, 0, "c.yaml one.yaml d/*.yaml e*.yaml e1.yaml ");
	put(dir, "one.yaml", "include_files: not_there.yaml\n");
	expect_paths(dir, -EINVAL, "c.yaml one.yaml not_there.yaml d/*.yaml e*.yaml e1.yaml ");
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),    cmocka_unit_test(test_host),     cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_secrets), cmocka_unit_test(test_at_start), cmocka_unit_test(test_paths),
	};

	unsetenv("CUDATAP_PROFILE");
	return cmocka_run_group_tests_name("config/advance", tests, NULL, NULL);
}
