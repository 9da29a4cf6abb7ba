/* The JSON Schema of the configuration, from the key table, for editors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "internal.h"
#include "types.h"

/* ---- YAML as JSON ---- */

static json_t *scalar_to_json(const struct node *node)
{
	json_t *value = NULL;

	if (node_is_null(node))
		return json_null();
	if (node->plain)
		value = json_loads(node->text, JSON_DECODE_ANY, NULL);
	return value ? value : json_string(node->text);
}

/* A key's fallback is short and flat enough for recursion. */
static json_t *to_json(const struct node *node)
{
	json_t *value;

	if (node->kind == NODE_SCALAR)
		return scalar_to_json(node);
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

static json_t *fallback(const struct key *key)
{
	const struct mark mark = {.file = key->name};
	struct errors errors = {0};
	struct tree *tree = tree_new();
	const struct node *node = NULL;
	json_t *value = NULL;

	if (tree && !tree_read(tree, key->fallback, strlen(key->fallback), &mark, &errors, &node) && node)
		value = to_json(node);
	tree_free(tree);
	errors_clear(&errors);
	return value;
}

/* ---- keys ---- */

static void add_key(const struct key *key, json_t *properties, json_t *required)
{
	json_t *schema = key_types[key->type]->schema(key);

	/* a key without a value has its default */
	if (!key->required)
		schema = json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
	json_object_set_new(schema, "description", json_string(key->about));
	if (key->fallback)
		json_object_set_new(schema, "default", fallback(key));
	json_object_set_new(properties, key->name, schema);
	if (key->required)
		json_array_append_new(required, json_string(key->name));
}

json_t *keys_schema(const struct key *const *tables, size_t ntables)
{
	json_t *properties = json_object();
	json_t *required = json_array();

	for (size_t i = 0; i < ntables; i++)
		for (const struct key *k = tables[i]; k && k->name; k++)
			add_key(k, properties, required);
	return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required",
			 required, "additionalProperties", 0);
}

int config_schema(FILE *out)
{
	json_t *schema = keys_schema((const struct key *[]){config_keys}, 1);
	int err = 0;

	if (!schema)
		return -ENOMEM;
	/* an empty file is one too */
	json_object_set_new(schema, "type", json_pack("[s,s]", "object", "null"));
	json_object_set_new(schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
	json_object_set_new(schema, "title", json_string("cudatap configuration"));
	if (json_dumpf(schema, out, JSON_INDENT(2) | JSON_SORT_KEYS) || fputc('\n', out) == EOF)
		err = -EIO;
	json_decref(schema);
	return err;
}
