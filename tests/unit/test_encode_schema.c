/*
 * The schema, its page for people and the encoder's own lists say the same.
 * Run from the top of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../streamer/encode/encode.h"

#define SCHEMA "docs/event.schema.json"
#define PAGE   "docs/event-schema.md"

static json_t *schema, *defs;

/* ---- the keys of both, as sorted lists of "event key.subkey" ---- */

struct list {
	char *items[512];
	size_t n;
};

static void list_add(struct list *list, const char *event, const char *key)
{
	assert_true(list->n < sizeof(list->items) / sizeof(list->items[0]));
	assert_true(asprintf(&list->items[list->n++], "%s %s", event, key) > 0);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_free(struct list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
}

/* Adds the properties of an object, and of the objects in them, below the path that led to it. */
static void walk(struct list *list, const char *event, const char *path, const char *joint, json_t *object)
{
	json_t *sub;
	const char *name;

	json_object_foreach(json_object_get(object, "properties"), name, sub)
	{
		json_t *any = json_object_get(sub, "additionalProperties"),
		       *items = json_object_get(sub, "items");
		char key[256];

		snprintf(key, sizeof(key), "%s%s%s", path, joint, name);
		list_add(list, event, key);
		/* one row tells all reasons */
		if (!strcmp(name, "dropped"))
			continue;
		walk(list, event, key, ".", sub);
		if (json_is_object(any))
			walk(list, event, key, ".*.", any);
		if (json_is_object(items))
			walk(list, event, key, "[].", items);
	}
}

static void keys_of_schema(struct list *list)
{
	const char *event;
	json_t *def;

	json_object_foreach(defs, event, def)
	{
		if (json_object_get(json_object_get(json_object_get(def, "properties"), "type"), "const"))
			walk(list, event, "", "", def);
	}
	qsort(list->items, list->n, sizeof(list->items[0]), by_text);
}

/* Rows "| `key` | ..." below "## `event`"; the first five keys are told once, under `call`. */
static void keys_of_page(struct list *list)
{
	static const char *const common[] = {"type", "run", "seq", "ts", "host"};
	char line[4096], event[64] = "", key[128];
	FILE *page = fopen(PAGE, "r");

	assert_non_null(page);
	while (fgets(line, sizeof(line), page)) {
		if (sscanf(line, "## `%63[^`]`", event) == 1) {
			for (size_t i = 0; strcmp(event, "call") && i < 5; i++)
				list_add(list, event, common[i]);
		} else if (sscanf(line, "| `%127[^`]` |", key) == 1) {
			list_add(list, event, key);
		}
	}
	fclose(page);
	qsort(list->items, list->n, sizeof(list->items[0]), by_text);
}

static void test_page(void **state)
{
	struct list in_schema = {0}, on_page = {0};
	size_t i = 0, j = 0, missing = 0;

	keys_of_schema(&in_schema);
	keys_of_page(&on_page);
	assert_true(in_schema.n > 100);
	while (i < in_schema.n || j < on_page.n) {
		int order = i == in_schema.n ? 1
			    : j == on_page.n ? -1
					     : strcmp(in_schema.items[i], on_page.items[j]);

		if (order < 0)
			print_message("not on the page: %s\n", in_schema.items[i]);
		if (order > 0)
			print_message("not in the schema: %s\n", on_page.items[j]);
		missing += order != 0;
		i += order <= 0;
		j += order >= 0;
	}
	assert_int_equal(missing, 0);
	list_free(&in_schema);
	list_free(&on_page);
}

/* ---- the encoder's lists ---- */

static void test_types(void **state)
{
	json_t *types =
		json_object_get(json_object_get(json_object_get(schema, "properties"), "type"), "enum");

	assert_int_equal(json_array_size(types), EVENT_NTYPES);
	for (int i = 0; i < EVENT_NTYPES; i++) {
		bool found = false;

		for (size_t j = 0; j < json_array_size(types); j++)
			found |= !strcmp(json_string_value(json_array_get(types, j)), event_type_names[i]);
		assert_true(found);
		assert_non_null(json_object_get(defs, event_type_names[i]));
	}
}

static void test_keys(void **state)
{
	json_t *all = json_object();

	for (int i = 0; i < EVENT_NTYPES; i++) {
		json_t *sub;
		const char *name;

		json_object_foreach(json_object_get(json_object_get(defs, event_type_names[i]), "properties"),
				    name, sub)
		{
			json_object_set(all, name, sub);
			if (!encode_key_known(name))
				fail_msg("the encoder does not know the key %s", name);
		}
	}
	for (size_t i = 0; encode_keys[i]; i++) {
		if (!json_object_get(all, encode_keys[i]) && strcmp(encode_keys[i], "kernel"))
			fail_msg("no event has the key %s", encode_keys[i]);
		json_object_del(all, encode_keys[i]);
	}
	assert_int_equal(json_object_size(all), 0);
	assert_false(encode_key_known("env"));
	assert_false(encode_key_known(""));
	json_decref(all);
}

/* A key outside of other objects has one type, whatever the event. */
static void test_one_type(void **state)
{
	json_t *all = json_object();

	for (int i = 0; i < EVENT_NTYPES; i++) {
		json_t *sub;
		const char *name;

		json_object_foreach(json_object_get(json_object_get(defs, event_type_names[i]), "properties"),
				    name, sub)
		{
			json_t *before = json_object_get(all, name);

			if (strcmp(name, "type") && before && !json_equal(before, sub))
				fail_msg("%s has two definitions", name);
			json_object_set(all, name, sub);
		}
	}
	json_decref(all);
}

static void test_words(void **state)
{
	json_t *families = json_object_get(json_object_get(defs, "family"), "enum");
	json_t *loss = json_object_get(json_object_get(defs, "loss"), "else");
	json_t *reasons =
		json_object_get(json_object_get(json_object_get(loss, "properties"), "reason"), "enum");

	assert_int_equal(json_array_size(families), table_nfamilies);
	for (unsigned i = 0; i < table_nfamilies; i++)
		assert_string_equal(json_string_value(json_array_get(families, i)), table_families[i].name);
	assert_int_equal(json_array_size(reasons), SINK_NREASONS);
	for (int i = 0; i < SINK_NREASONS; i++)
		assert_string_equal(json_string_value(json_array_get(reasons, (size_t)i)),
				    sink_reason_names[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page),     cmocka_unit_test(test_types), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_one_type), cmocka_unit_test(test_words),
	};
	json_error_t error;
	int failed;

	schema = json_load_file(SCHEMA, JSON_REJECT_DUPLICATES, &error);
	if (!schema) {
		fprintf(stderr, SCHEMA ":%d: %s\n", error.line, error.text);
		return 1;
	}
	defs = json_object_get(schema, "$defs");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	json_decref(schema);
	return failed;
}
