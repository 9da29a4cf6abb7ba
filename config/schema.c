/* The JSON Schema of the configuration, from the key table, for editors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "internal.h"
#include "types.h"

#include "../sinks/sink.h"

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
	json_t *required = json_array(), *schema;

	for (size_t i = 0; i < ntables; i++)
		for (const struct key *k = tables[i]; k && k->name; k++)
			add_key(k, properties, required);
	schema = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
			   "additionalProperties", 0);
	if (json_array_size(required))
		json_object_set(schema, "required", required);
	json_decref(required);
	return schema;
}

/* ---- variables ---- */

static bool is_scalar(const json_t *schema)
{
	const json_t *type = json_object_get(schema, "type");
	const char *word = json_is_array(type) ? "string" : json_string_value(type);

	if (json_object_get(schema, "enum") || json_object_get(schema, "const"))
		return true;
	return word && strcmp(word, "object") && strcmp(word, "array") && strcmp(word, "null");
}

static json_t *variable_ref(void)
{
	return json_pack("{s:s}", "$ref", "#/$defs/variable");
}

static void allow_variables(json_t *schema);

/* Of the alternatives one more, where there is a scalar among them. */
static void allow_alternative(json_t *alternatives)
{
	bool scalar = false;

	for (size_t i = 0; i < json_array_size(alternatives); i++) {
		json_t *one = json_array_get(alternatives, i);

		if (is_scalar(one))
			scalar = true;
		else
			allow_variables(one);
	}
	if (scalar)
		json_array_append_new(alternatives, variable_ref());
}

/* Makes {..., description} to {anyOf: [{...}, variable], description}. */
static void wrap(json_t *schema)
{
	json_t *inner = json_copy(schema), *about = json_object_get(schema, "description");

	json_object_del(inner, "description");
	json_incref(about);
	json_object_clear(schema);
	if (about)
		json_object_set_new(schema, "description", about);
	json_object_set_new(schema, "anyOf", json_pack("[o, o]", inner, variable_ref()));
}

/* A text with ${VAR} in it can stand for any scalar. Deep as the key table is. */
static void allow_variables(json_t *schema)
{
	json_t *properties = json_object_get(schema, "properties");

	if (!json_is_object(schema))
		return;
	if (is_scalar(schema)) {
		wrap(schema);
		return;
	}
	for (void *i = json_object_iter(properties); i; i = json_object_iter_next(properties, i))
		allow_variables(json_object_iter_value(i));
	allow_variables(json_object_get(schema, "items"));
	allow_variables(json_object_get(schema, "additionalProperties"));
	allow_alternative(json_object_get(schema, "anyOf"));
}

/* ---- a part of a file: something else completes it ---- */

/* null removes what has a name of the user's choice. */
static void allow_null(json_t *map)
{
	json_t *value = json_object_get(map, "additionalProperties");

	if (!json_is_object(value))
		return;
	value = json_pack("{s:[O, {s:s}]}", "anyOf", value, "type", "null");
	json_object_set_new(map, "additionalProperties", value);
}

/* Makes the schema one of what may be incomplete: nothing is required, things of the user's are removed. */
static void into_part(json_t *schema)
{
	if (json_is_object(schema)) {
		if (json_is_array(json_object_get(schema, "required")))
			json_object_del(schema, "required");
		allow_null(schema);
	}
	for (void *i = json_object_iter(schema); i; i = json_object_iter_next(schema, i))
		into_part(json_object_iter_value(i));
	for (size_t i = 0; i < json_array_size(schema); i++)
		into_part(json_array_get(schema, i));
}

/* Returns the schema of the incomplete, or NULL where that is no other. */
static json_t *part_of(const json_t *whole)
{
	json_t *part = json_deep_copy(whole);

	into_part(part);
	if (!json_equal(part, whole))
		return part;
	json_decref(part);
	return NULL;
}

/* ---- what several places have in common ---- */

static json_t *ref_to(const char *name)
{
	return json_pack("{s:o}", "$ref", json_sprintf("#/$defs/%s", name));
}

static bool is_common(const char *name)
{
	for (const struct key *k = config_sink_keys; k->name; k++)
		if (!strcmp(k->name, name))
			return true;
	return false;
}

/* Moves the properties of one kind of sink to $defs, but for what differs where a sink is incomplete. */
static void share_sink_keys(json_t *kind, const char *type, json_t *defs)
{
	json_t *properties = json_object_get(kind, "properties");

	for (void *i = json_object_iter(properties); i; i = json_object_iter_next(properties, i)) {
		const char *name = json_object_iter_key(i);
		json_t *schema = json_object_iter_value(i), *part = part_of(schema);
		char def[128];

		json_decref(part);
		if (part || !strcmp(name, "type"))
			continue;
		snprintf(def, sizeof(def), "%s.%s", is_common(name) ? "sink" : type, name);
		json_object_set(defs, def, schema);
		json_object_iter_set_new(properties, i, ref_to(def));
	}
}

static void share_sinks(json_t *defs)
{
	json_t *map = json_array_get(json_object_get(json_object_get(defs, "sinks"), "anyOf"), 0);
	json_t *kinds = json_object_get(json_object_get(map, "additionalProperties"), "anyOf");

	/* one for each kind, in their order */
	for (size_t i = 0; sink_kinds[i]; i++)
		share_sink_keys(json_array_get(kinds, i), sink_kinds[i]->type, defs);
}

/* ---- all of it ---- */

/* Moves what both a file and its profiles can have to $defs. Returns them, the incomplete ones as KEY_part.
 */
static json_t *definitions(json_t *properties)
{
	json_t *defs = json_object();

	for (const struct key *k = config_keys; k->name; k++) {
		if (k->flags & KEY_LAYER)
			continue;
		json_object_set(defs, k->name, json_object_get(properties, k->name));
		json_object_del(properties, k->name);
	}
	share_sinks(defs);
	for (const struct key *k = config_keys; k->name; k++) {
		json_t *part = part_of(json_object_get(defs, k->name));
		char name[128];

		snprintf(name, sizeof(name), "%s_part", k->name);
		if (part)
			json_object_set_new(defs, name, part);
	}
	json_object_set_new(defs, "variable",
			    json_pack("{s:s, s:s}", "type", "string", "pattern",
				      "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"));
	return defs;
}

/* A reference for each key. Layer keys are no part of a profile. @part: to the incomplete ones. */
static json_t *references(const json_t *defs, bool part)
{
	json_t *properties = json_object();
	char name[128];

	for (const struct key *k = config_keys; k->name; k++) {
		if (k->flags & KEY_LAYER)
			continue;
		snprintf(name, sizeof(name), "%s_part", k->name);
		json_object_set_new(properties, k->name,
				    ref_to(part && json_object_get(defs, name) ? name : k->name));
	}
	return properties;
}

static json_t *profile_schema(const json_t *defs)
{
	json_t *properties = references(defs, true);

	json_object_set_new(properties, "extends",
			    json_pack("{s:s, s:[s,s]}", "description",
				      "another profile, which lies between this one and the rest", "type",
				      "string", "null"));
	return json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
			 "additionalProperties", 0);
}

int config_schema(FILE *out)
{
	json_t *schema = keys_schema((const struct key *[]){config_keys}, 1);
	json_t *properties = json_object_get(schema, "properties"), *defs;
	int err = 0;

	if (!schema)
		return -ENOMEM;
	allow_variables(schema);
	defs = definitions(properties);
	json_object_update_new(properties, references(defs, true));
	json_object_set_new(defs, "profile", profile_schema(defs));
	/* what a file lacks can be in its profiles, or in files that it includes */
	json_object_set_new(schema, "if",
			    json_pack("{s:[{s:[s]}, {s:[s]}]}", "anyOf", "required", "profiles", "required",
				      "include_files"));
	json_object_set_new(schema, "else", json_pack("{s:o}", "properties", references(defs, false)));
	json_object_set_new(schema, "$defs", defs);
	/* an empty file is one too */
	json_object_set_new(schema, "type", json_pack("[s,s]", "object", "null"));
	json_object_set_new(schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
	json_object_set_new(schema, "title", json_string("cudatap configuration"));
	if (json_dumpf(schema, out, JSON_INDENT(1) | JSON_SORT_KEYS) || fputc('\n', out) == EOF)
		err = -EIO;
	json_decref(schema);
	return err;
}
