/*
 * Configuration files that mean harm: each gives one error (or as many as are
 * shown), in bounded time and memory.
 */
#include "config_help.h"

#include <time.h>

#include "config/errors.h"
#include "config/text.h"
#include "config/tree.h"

#define MAX_SECONDS 3.0 /* sanitizers included */
#ifdef __SANITIZE_ADDRESS__
#define MAX_GROWTH (512 << 10) /* KiB; freed memory is kept for a while */
#else
#define MAX_GROWTH (32 << 10)
#endif

/* A text that grows. */
struct text {
	char *data;
	size_t len, room;
};

static void add(struct text *t, const char *words)
{
	size_t len = strlen(words);

	if (t->len + len + 1 > t->room) {
		t->room = (t->len + len + 1) * 2;
		t->data = realloc(t->data, t->room);
	}
	memcpy(t->data + t->len, words, len + 1);
	t->len += len;
}

static void add_times(struct text *t, size_t times, const char *words)
{
	for (size_t i = 0; i < times; i++)
		add(t, words);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Makes the peak of the memory used begin anew (proc(5), clear_refs). */
static void reset_peak(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "w");

	assert_non_null(file);
	fputs("5", file);
	assert_int_equal(fclose(file), 0);
}

static long peak_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "VmHWM: %ld", &kib);
	fclose(file);
	assert_true(kib > 0);
	return kib;
}

/* Loads the text and frees it; the result is wanted to begin with @message. */
static void bounded(struct text *t, const char *message)
{
	struct outcome o;
	size_t lines = 0;
	double start;
	long before;

	reset_peak();
	before = peak_kib();
	start = now();
	o = load_with("F", t->data, t->len, NULL);
	assert_true(now() - start < MAX_SECONDS);
	assert_true(peak_kib() < before + MAX_GROWTH);
	if (strncmp(o.messages, message, strlen(message)))
		fail_msg("%.300s\n--- instead of\n%s", o.messages, message);
	for (const char *s = o.messages; *s; s++)
		lines += *s == '\n';
	assert_true(lines <= ERRORS_SHOWN + 1);
	outcome_free(&o);
	free(t->data);
}

static void test_large_file(void **state)
{
	struct text t = {0};

	add_times(&t, 10 << 20 >> 4, "# fifteen bytes\n");
	bounded(&t, "F: larger than 1024 KiB: this is not a configuration\n");
}

static void test_deep_nesting(void **state)
{
	struct text flow = {0}, maps = {0}, block = {0};

	add_times(&flow, TEXT_MAX, "[");
	bounded(&flow, "F:1:65: nested more than 64 levels deep\n");
	add_times(&maps, TEXT_MAX / 3, "{a:");
	bounded(&maps, "F:1:");
	add_times(&block, TEXT_MAX / 2, "- ");
	bounded(&block, "F:1:129: nested more than 64 levels deep\n");
}

/* Deep by aliases: each level holds the one before. */
static void test_deep_aliases(void **state)
{
	struct text t = {0};

	add(&t, "a0: &a0 x\n");
	for (int i = 1; i < 100; i++) {
		char line[64];

		snprintf(line, sizeof(line), "a%d: &a%d [*a%d]\n", i, i, i - 1);
		add(&t, line);
	}
	bounded(&t, "F:64:12: nested more than 64 levels deep\n");
}

static void test_wide(void **state)
{
	struct text list = {0}, map = {0}, lists = {0}, empty = {0};

	add(&list, "include: [");
	add_times(&list, 100000, "a,");
	add(&list, "]");
	bounded(&list, "F:1:8203: more than 4096 items in one list\n");
	for (int i = 0; i < 100000; i++) {
		char line[32];

		snprintf(line, sizeof(line), "k%d:\n", i);
		add(&map, line);
	}
	bounded(&map, "F:513:1: more than 512 keys in one map\n");
	add(&lists, "[");
	for (int i = 0; i < 40; i++) {
		add(&lists, "[");
		add_times(&lists, 4000, "a,");
		add(&lists, "],\n");
	}
	bounded(&lists, "F:25:7950: more than 100000 values up to here");
	add_times(&empty, 4000, "- []\n- {}\n");
	bounded(&empty, "F:4097:3: more than 4096 items in one list\n");
}

/* Every item is wrong, and every one would have to be compared with all functions. */
static void test_many_mistakes(void **state)
{
	struct text t = {0};

	add(&t, "include:\n");
	add_times(&t, 4096, "- cudaMemcpyTotallyUnknownVariant*[a-z]*x*y*z\n");
	bounded(&t, "F:2:3: no function matches");
}

/* Globs whose matching could explode. */
static void test_hostile_globs(void **state)
{
	struct text t = {0};

	add(&t, "include:\n");
	for (int i = 0; i < 40; i++) {
		add(&t, "- \"");
		add_times(&t, 80, "*a");
		add(&t, "\"\n");
	}
	bounded(&t, "F:2:3: no function matches");
}

static void test_many_anchors(void **state)
{
	struct text t = {0};

	for (int i = 0; i < 1000; i++) {
		char line[48];

		snprintf(line, sizeof(line), "- &a%d x\n", i);
		add(&t, line);
	}
	bounded(&t, "F:257:3: more than 256 anchors\n");
}

/* One long text, used often: the copies would be the bomb. */
static void test_many_copies(void **state)
{
	struct text t = {0};

	add(&t, "include: [&a \"");
	add_times(&t, 500000, "x");
	add(&t, "\"");
	add_times(&t, 4000, ", *a");
	add(&t, "]\n");
	bounded(&t, "F:1:500062: more than 100000 values up to here");
}

/* Merging a large map again and again. */
static void test_many_merges(void **state)
{
	struct text t = {0};

	add(&t, "- &a {");
	for (int i = 0; i < 500; i++) {
		char line[32];

		snprintf(line, sizeof(line), "k%d: x, ", i);
		add(&t, line);
	}
	add(&t, "}\n");
	add_times(&t, 4000, "- {<<: [*a, *a, *a]}\n");
	bounded(&t, "F:26:17: more than 100000 values up to here");
}

static void test_merge_into_itself(void **state)
{
	struct text t = {0};

	add(&t, "sinks: &a\n  <<: *a\n");
	bounded(&t, "F:2:7: alias \"a\" lies inside of what it stands for\n");
}

static void test_long_key_and_lines(void **state)
{
	struct text key = {0}, comment = {0};

	add_times(&key, 500000, "k");
	add(&key, ": 1\n");
	bounded(&key, "F:1:");
	add(&comment, "nested: x # ");
	add_times(&comment, 1000000, "c");
	bounded(&comment, "F:1:9: \"nested\" wants true or false, not \"x\"\n");
}

/* ---- profiles ---- */

/* Each profile extends the one before and has a large map of its own. */
static void test_extending_bomb(void **state)
{
	struct text t = {0};
	char line[64];

	add(&t, "fields: {static: {a: x}}\nprofiles:\n");
	for (int i = 0; i < 32; i++) {
		snprintf(line, sizeof(line), i ? "  p%d: {extends: p%d, " : "  p%d: {", i, i - 1);
		add(&t, line);
		for (int k = 0; k < 500; k++) {
			snprintf(line, sizeof(line), "k%d_%d: x, ", k, i % 2);
			add(&t, line);
		}
		add(&t, "}\n");
	}
	bounded(&t, "F:3:8: unknown key \"k0_0\"");
}

/* A base that is as large as can be, under as many profiles as there can be. */
static void test_many_profiles_of_much(void **state)
{
	struct text t = {0};
	char line[64];

	add(&t, "sinks:\n");
	for (int i = 0; i < 60; i++) {
		snprintf(line, sizeof(line), "  s%d: {type: stdout, filter: {functions: [", i);
		add(&t, line);
		for (int k = 0; k < 1000; k++)
			add(&t, k % 2 ? "cudaMalloc, " : "cudaMem*, ");
		add(&t, "]}}\n");
	}
	add(&t, "profiles:\n");
	for (int i = 0; i < 32; i++) {
		snprintf(line, sizeof(line), "  p%d: {nested: maybe}\n", i);
		add(&t, line);
	}
	bounded(&t,
		"F:1:1: more than 500000 values, each profile's with all that it is merged over: too large "
		"(profile \"p7\")\n");
}

static void test_aliases_in_profiles(void **state)
{
	struct text t = {0};

	add(&t, "profiles:\n  a: &a {x: [");
	add_times(&t, 4000, "y,");
	add(&t, "]}\n");
	for (int i = 0; i < 30; i++) {
		char line[64];

		snprintf(line, sizeof(line), "  b%d: {sinks: {a: *a, b: *a}}\n", i);
		add(&t, line);
	}
	bounded(&t, "F:14:");
}

/* ---- globs ---- */

static void test_many_slow_globs(void **state)
{
	struct text t = {0};

	add(&t, "include:\n");
	for (int i = 0; i < 4000; i++) {
		char line[64];

		snprintf(line, sizeof(line), "- '*%d*[a-z]?????????????????????[a-z]*Z'\n", i % 1000);
		add(&t, line);
	}
	add(&t, "profiles: {a: {}, b: {}, c: {}}\n");
	bounded(&t, "F:2:3: no function matches");
}

/* ---- variables ---- */

static void test_huge_variables(void **state)
{
	struct text t = {0};
	char *value = malloc(120000 + 1);

	memset(value, 'v', 120000);
	value[120000] = '\0';
	setenv("CUDATAP_TEST_HUGE", value, 1);
	add(&t, "include: [");
	add_times(&t, 4000, "\"${CUDATAP_TEST_HUGE}${CUDATAP_TEST_HUGE}${CUDATAP_TEST_HUGE}\", ");
	add(&t, "]\nprofiles: {a: {}, b: {}}\n");
	bounded(&t, "F:1:11: \"vvv");
	unsetenv("CUDATAP_TEST_HUGE");
	free(value);
}

static void test_variables_in_many_profiles(void **state)
{
	struct text t = {0};

	setenv("CUDATAP_TEST_HUGE", "cudaMalloc", 1);
	add(&t, "sinks: {a: {type: stdout, filter: {functions: [");
	add_times(&t, 4000, "\"${CUDATAP_TEST_HUGE}\", ");
	add(&t, "]}}}\nprofiles:\n");
	for (int i = 0; i < 32; i++) {
		char line[64];

		snprintf(line, sizeof(line), "  p%d: {nested: true}\n", i);
		add(&t, line);
	}
	bounded(&t, "F:1:");
	unsetenv("CUDATAP_TEST_HUGE");
}

/* ---- included files ---- */

static char directory[] = "/tmp/cudatap-limits-XXXXXX";

static void write_part(const char *name, const char *text, size_t len)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static void include(const char *pattern, const char *message)
{
	struct text t = {0};
	char line[256], wanted[512];

	snprintf(line, sizeof(line), "include_files: [\"%s/%s\"]\n", directory, pattern);
	add(&t, line);
	snprintf(wanted, sizeof(wanted), message, directory);
	bounded(&t, wanted);
}

static void test_included_files(void **state)
{
	static const char many[] = "include_files: ['many-*.yaml', 'many-*.yaml', 'many-*.yaml']\n";
	struct text t = {0};
	char name[32];

	add_times(&t, 10 << 20 >> 4, "# fifteen bytes\n");
	write_part("large.yaml", t.data, t.len);
	include("large.yaml", "%s/large.yaml: larger than 1024 KiB");
	/* each is allowed, all of them are not */
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "half-%d.yaml", i);
		write_part(name, t.data, 500 << 10);
	}
	include("half-*.yaml", "%s/half-2.yaml: with this file the configuration is larger than 1024 KiB\n");
	t.len = 0;
	add_times(&t, 30000, "[");
	write_part("deep.yaml", t.data, t.len);
	include("deep.yaml", "%s/deep.yaml:1:65: nested more than 64 levels deep\n");
	t.len = 0;
	add(&t, "a: &a [");
	add_times(&t, 4000, "x,");
	add(&t, "]\nb: [");
	add_times(&t, 8, "*a,");
	add(&t, "]\n");
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "bomb-%d.yaml", i);
		write_part(name, t.data, t.len);
	}
	include("bomb-*.yaml", "%s/bomb-2.yaml:2:");
	write_part("nul.yaml", "a: \0", 4);
	include("nul.yaml", "%s/nul.yaml:1:4: a NUL byte");
	/* three times itself, and so on: a circle at once */
	write_part("many-1.yaml", many, strlen(many));
	write_part("many-2.yaml", many, strlen(many));
	include("many-1.yaml", "%s/many-1.yaml:1:17: ");
	free(t.data);
}

/* A tree of files: 1 includes 2 twice, which includes 3 twice ... */
static void test_tree_of_files(void **state)
{
	char name[32], text[128];

	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "tree-%d.yaml", i);
		snprintf(text, sizeof(text), "include_files: [tree-%d.yaml, tree-%d.yaml, tree-%d.yaml]\n",
			 i + 1, i + 1, i + 1);
		write_part(name, text, strlen(text));
	}
	write_part("tree-7.yaml", "nested: true\n", 13);
	include("tree-0.yaml", "%s/tree-");
}

static int make_directory(void **state)
{
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_file),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_deep_aliases),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_many_mistakes),
		cmocka_unit_test(test_hostile_globs),
		cmocka_unit_test(test_many_anchors),
		cmocka_unit_test(test_many_copies),
		cmocka_unit_test(test_many_merges),
		cmocka_unit_test(test_merge_into_itself),
		cmocka_unit_test(test_long_key_and_lines),
		cmocka_unit_test(test_extending_bomb),
		cmocka_unit_test(test_many_profiles_of_much),
		cmocka_unit_test(test_aliases_in_profiles),
		cmocka_unit_test(test_many_slow_globs),
		cmocka_unit_test(test_huge_variables),
		cmocka_unit_test(test_variables_in_many_profiles),
		cmocka_unit_test(test_included_files),
		cmocka_unit_test(test_tree_of_files),
	};

	unsetenv("CUDATAP_PROFILE");
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
