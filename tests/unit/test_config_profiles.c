/* Profiles: how maps are merged, who chooses one, what is checked of the others. */
#include "config_help.h"

#include <jansson.h>

#include "config/tree.h"

/* ---- merging, against a second opinion ---- */

static unsigned seed = 20;

static unsigned random_below(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

/* A random value of few keys and words, so that both sides often have the same. */
static json_t *random_value(unsigned depth, bool nulls)
{
	static const char *const words[] = {"a", "b", "1"};
	json_t *value;
	unsigned n;

	switch (random_below(depth ? 6 : 3)) {
	case 0:
		return nulls ? json_null() : json_string("c");
	case 1:
	case 2:
		return json_string(words[random_below(3)]);
	case 3:
		value = json_array();
		for (n = random_below(3); n; n--)
			json_array_append_new(value, json_string(words[random_below(3)]));
		return value;
	default:
		value = json_object();
		for (n = random_below(4); n; n--) {
			char key[2] = {"wxyz"[random_below(4)], 0};

			json_object_set_new(value, key, random_value(depth - 1, nulls));
		}
		if (!random_below(4))
			json_object_set_new(value, "type", json_string(words[random_below(2)]));
		return value;
	}
}

static json_t *random_map(bool nulls)
{
	json_t *map = random_value(3, nulls);

	while (!json_is_object(map)) {
		json_decref(map);
		map = random_value(3, nulls);
	}
	return map;
}

static const struct node *to_tree(struct tree *tree, const json_t *value)
{
	const struct mark mark = {.file = "T"};
	struct errors errors = {0};
	const struct node *root = NULL;
	char *text = json_dumps(value, 0);

	assert_int_equal(tree_read(tree, text, strlen(text), &mark, &errors, &root), 0);
	assert_non_null(root);
	free(text);
	return root;
}

static json_t *to_json(const struct node *node)
{
	json_t *value;

	if (node->kind == NODE_SCALAR)
		return node_is_null(node) ? json_null() : json_string(node->text);
	value = node->kind == NODE_LIST ? json_array() : json_object();
	for (size_t i = 0; i < node->n; i++) {
		if (node->kind == NODE_LIST)
			json_array_append_new(value, to_json(node->items[i]));
		else
			json_object_set_new(value, node->entries[i].key->text,
					    to_json(node->entries[i].value));
	}
	return value;
}

static json_t *merged(const json_t *under, const json_t *over)
{
	struct tree *tree = tree_new();
	struct errors errors = {0};
	const struct node *a = to_tree(tree, under), *b = to_tree(tree, over);
	const struct node *node = tree_merge(tree, a, b, &errors);
	json_t *result;

	assert_non_null(node);
	assert_int_equal(errors.total, 0);
	result = to_json(node);
	tree_free(tree);
	return result;
}

/* What docs/profiles.md says, in as few words. */
static json_t *second_opinion(const json_t *under, const json_t *over)
{
	json_t *result = json_deep_copy(under), *value, *old;
	const char *key;

	json_object_foreach((json_t *)over, key, value)
	{
		old = json_object_get(result, key);
		if (json_is_null(value) && old) {
			json_object_del(result, key);
		} else if (json_is_object(value) && json_is_object(old)) {
			json_t *was = json_object_get(old, "type"), *is = json_object_get(value, "type");
			bool other = json_is_string(was) && json_is_string(is) && !json_equal(was, is);

			json_object_set_new(result, key,
					    other ? json_deep_copy(value) : second_opinion(old, value));
		} else {
			json_object_set_new(result, key, json_deep_copy(value));
		}
	}
	return result;
}

static void expect_json(const json_t *got, const json_t *wanted)
{
	if (!json_equal(got, wanted))
		fail_msg("%s\ninstead of\n%s", json_dumps(got, 0), json_dumps(wanted, 0));
}

static void test_merge_as_documented(void **state)
{
	for (int i = 0; i < 3000; i++) {
		json_t *under = random_map(true), *over = random_map(true);
		json_t *got = merged(under, over), *wanted = second_opinion(under, over);

		expect_json(got, wanted);
		json_decref(got);
		json_decref(wanted);
		json_decref(under);
		json_decref(over);
	}
}

/* Nothing over a map, and a map over nothing, is the map; twice is as once; the order stays. */
static void test_merge_laws(void **state)
{
	json_t *nothing = json_object();

	for (int i = 0; i < 1000; i++) {
		json_t *a = random_map(false), *b = random_map(false);
		json_t *same = merged(a, nothing), *also = merged(nothing, a);
		json_t *once = merged(a, b), *twice = merged(once, b);

		expect_json(same, a);
		expect_json(also, a);
		expect_json(twice, once);
		json_decref(same);
		json_decref(also);
		json_decref(once);
		json_decref(twice);
		json_decref(a);
		json_decref(b);
	}
	json_decref(nothing);
}

/* ---- who chooses ---- */

static const char three[] = "profile: from_file\n"
			    "host: none\n"
			    "profiles:\n"
			    "  from_file: {host: file}\n"
			    "  from_environment: {host: environment}\n"
			    "  from_option: {host: option}\n";

static char *host_under(const char *option, const char *environment)
{
	struct outcome o;
	char *host;

	if (environment)
		setenv("CUDATAP_PROFILE", environment, 1);
	o = load_with("F", three, strlen(three), &(struct config_overrides){.profile = option});
	unsetenv("CUDATAP_PROFILE");
	assert_int_equal(o.rc, 0);
	host = strdup(o.config->host);
	outcome_free(&o);
	return host;
}

static void test_who_chooses(void **state)
{
	static const struct {
		const char *option, *environment, *host;
	} cases[] = {
		{NULL, NULL, "file"},
		{NULL, "", "file"},
		{NULL, "from_environment", "environment"},
		{"from_option", "from_environment", "option"},
		{"from_option", NULL, "option"},
		{"", "from_environment", "none"},
		{"", NULL, "none"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *host = host_under(cases[i].option, cases[i].environment);

		assert_string_equal(host, cases[i].host);
		free(host);
	}
}

static void test_wrong_choice(void **state)
{
	struct outcome o =
		load_with("F", three, strlen(three), &(struct config_overrides){.profile = "from_optoin"});

	assert_string_equal(o.messages,
			    "--profile: unknown profile \"from_optoin\"; did you mean \"from_option\"?\n");
	outcome_free(&o);
	setenv("CUDATAP_PROFILE", "x", 1);
	o = load_with("F", three, strlen(three), NULL);
	assert_string_equal(o.messages, "CUDATAP_PROFILE: unknown profile \"x\"; known: from_file, "
					"from_environment, from_option\n");
	outcome_free(&o);
	/* what is not there cannot be chosen, but without a file there is nothing to choose from */
	o = load_with("F", "nested: true\n", 13, NULL);
	assert_string_equal(o.messages,
			    "CUDATAP_PROFILE: unknown profile \"x\"; the configuration has no profiles\n");
	outcome_free(&o);
	o = load_with(NULL, NULL, 0, NULL);
	assert_int_equal(o.rc, 0);
	outcome_free(&o);
	unsetenv("CUDATAP_PROFILE");
	o = load_with(NULL, NULL, 0, &(struct config_overrides){.profile = "dev", .option = "--diff"});
	assert_string_equal(o.messages, "--diff: profiles are in a file: give one with -c FILE\n");
	outcome_free(&o);
}

/* ---- one file, several environments ---- */

static struct config *load_example(const char *profile)
{
	struct outcome o =
		load_with("examples/profiles.yaml", NULL, 0, &(struct config_overrides){.profile = profile});

	if (o.rc)
		fail_msg("%s", o.messages);
	free(o.messages);
	return o.config;
}

static const struct config_sink *sink_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->nsinks; i++)
		if (!strcmp(config->sinks[i].name, name))
			return &config->sinks[i];
	return NULL;
}

static void test_dev_and_prod(void **state)
{
	struct config *dev = load_example("dev"), *prod = load_example("prod");
	const struct config_sink *disk = sink_named(prod, "disk");

	assert_string_equal(dev->profile, "dev");
	assert_true(dev->families[table_family("query")]);
	assert_true(dev->nested);
	assert_null(sink_named(dev, "disk"));
	assert_non_null(sink_named(dev, "console"));

	assert_string_equal(prod->profile, "prod");
	assert_false(prod->families[table_family("query")]);
	assert_false(prod->nested);
	assert_null(sink_named(prod, "console"));
	assert_non_null(disk);
	assert_false(prod->fields.args);
	assert_int_equal(disk->filter.min_duration_ns, 10000);
	config_free(dev);
	config_free(prod);
}

static char *diff(const struct config *a, const struct config *b)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(config_diff(a, b, out), 0);
	fclose(out);
	return text;
}

static void test_diff(void **state)
{
	struct config *a =
		load_good("families: [memory, launch]\nfields: {static: {a: \"x y\", b: \"1\"}}\n"
			  "sinks: {one: {type: stdout}, two: {type: stdout, queue: {max_events: 5}},\n"
			  "  other: {type: stdout}}\n");
	struct config *b = load_good("families: [launch]\nfields: {static: {a: \"x\", c: \"2\"}}\n"
				     "sinks: {two: {type: stdout}, other: {type: file, path: /x},\n"
				     "  three: {type: stdout}}\n");
	char *none = diff(a, a), *some = diff(a, b);

	assert_string_equal(none, "");
	assert_string_equal(some, "families: [memory, launch] -> [launch]\n"
				  "fields.static.a: \"x y\" -> x\n"
				  "fields.static.b: 1 -> (none)\n"
				  "fields.static.c: (none) -> 2\n"
				  "sinks.one: {type: stdout, ...} -> (none)\n"
				  "sinks.two.queue.max_events: 5 -> 65536\n"
				  "sinks.other: {type: stdout, ...} -> {type: file, ...}\n"
				  "sinks.three: (none) -> {type: stdout, ...}\n");
	free(none);
	free(some);
	config_free(a);
	config_free(b);
}

/* The page's examples are right. */
static void test_page(void **state)
{
	char *page = slurp("docs/profiles.md", NULL), *next = page, *end;
	unsigned found = 0;

	/* the one that is wrong on purpose says yml */
	setenv("NODE_NAME", "gpu07", 1);
	while ((next = strstr(next, "```yaml\n"))) {
		next += strlen("```yaml\n");
		end = strstr(next, "```\n");
		assert_non_null(end);
		*end = '\0';
		config_free(load_good(next));
		next = end + 1;
		found++;
	}
	unsetenv("NODE_NAME");
	assert_int_equal(found, 4);
	free(page);
}

/* Each mistake is told once, however often it is read; what others have at fault stops this one too. */
static void test_each_mistake_once(void **state)
{
	expect_messages("profile: b\n"
			"nested: maybe\n"
			"sinks: {x: {type: stdout, queu: {}}}\n"
			"profiles:\n"
			"  a: {host: \"\"}\n"
			"  b: {extends: a, families: lunch}\n"
			"  c: {extends: b}\n"
			"  d: {extends: b, sinks: {x: {queue: 5}}}\n",
			"F:2:9: \"nested\" wants true or false, not \"maybe\"\n"
			"F:3:27: unknown key \"queu\"; did you mean \"queue\"?\n"
			"F:5:13: \"host\" cannot be empty (profile \"a\")\n"
			"F:6:29: unknown family \"lunch\"; did you mean \"launch\"? (profile \"b\")\n"
			"F:8:38: \"queue\" wants a map, not a single value (profile \"d\")\n");
}

static void test_many_mistakes_are_counted_once(void **state)
{
	char text[8192] = "sinks:\n";
	struct outcome o;

	for (int i = 0; i < 60; i++)
		snprintf(text + strlen(text), 64, "  s%d: {type: stdout, format: x}\n", i);
	strcat(text, "profiles: {a: {}, b: {}, c: {}}\n");
	o = load_text(text);
	assert_non_null(strstr(o.messages, "\n... and 10 more\n"));
	outcome_free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge_as_documented),
		cmocka_unit_test(test_merge_laws),
		cmocka_unit_test(test_who_chooses),
		cmocka_unit_test(test_wrong_choice),
		cmocka_unit_test(test_dev_and_prod),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_page),
		cmocka_unit_test(test_each_mistake_once),
		cmocka_unit_test(test_many_mistakes_are_counted_once),
	};

	unsetenv("CUDATAP_PROFILE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
