/*
 * The committed reference page and JSON Schema are what the key tables give.
 * With CUDATAP_UPDATE_DOCS=1 in the environment they are written anew.
 */
#include "config_help.h"

static void compare(const char *path, int (*write)(FILE *))
{
	char *made, *committed;
	size_t len;
	FILE *out = open_memstream(&made, &len);

	assert_int_equal(write(out), 0);
	fclose(out);
	if (getenv("CUDATAP_UPDATE_DOCS")) {
		out = fopen(path, "w");
		assert_non_null(out);
		assert_int_equal(fwrite(made, 1, len, out), len);
		assert_int_equal(fclose(out), 0);
	}
	committed = slurp(path, NULL);
	if (strcmp(made, committed))
		fail_msg("%s is not what the key tables give; `make docs` writes it anew", path);
	free(made);
	free(committed);
}

static void test_reference(void **state)
{
	compare("docs/configuration.md", config_reference);
}

static void test_schema(void **state)
{
	compare("docs/config.schema.json", config_schema);
}

/* The page's example is right. */
static void test_example(void **state)
{
	char *page = slurp("docs/configuration.md", NULL);
	char *example = strstr(page, "```yaml\n"), *end;

	assert_non_null(example);
	example = strchr(example, '\n') + 1;
	end = strstr(example, "```\n");
	assert_non_null(end);
	*end = '\0';
	config_free(load_good(example));
	free(page);
}

/* Every key is on the page, with what it is about. */
static void test_every_key(void **state)
{
	char *page = slurp("docs/configuration.md", NULL);

	for (const struct key *k = config_keys; k->name; k++)
		for (const struct key *child = k->children ? k->children : k; child->name; child++) {
			char name[128];

			snprintf(name, sizeof(name), "| `%s%s%s` |", k->children ? k->name : "",
				 k->children ? "." : "", child->name);
			if (!strstr(page, name) || !strstr(page, child->about + 1))
				fail_msg("%s is not on the page", name);
			if (!k->children)
				break;
		}
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_schema),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
