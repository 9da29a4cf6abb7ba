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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_file),         cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_deep_aliases),       cmocka_unit_test(test_wide),
		cmocka_unit_test(test_many_mistakes),      cmocka_unit_test(test_hostile_globs),
		cmocka_unit_test(test_many_anchors),       cmocka_unit_test(test_many_copies),
		cmocka_unit_test(test_many_merges),        cmocka_unit_test(test_merge_into_itself),
		cmocka_unit_test(test_long_key_and_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
