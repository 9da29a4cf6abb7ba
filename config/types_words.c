/* Key types with many values: lists of texts, process ids, maps of constant texts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "types_list.h"

#include "../streamer/encode/encode.h"

#define MAX_PID          4194304 /* PID_MAX_LIMIT, linux/threads.h */
#define MAX_FIELDS       32
#define MAX_FIELD_NAME   64
#define MAX_FIELDS_BYTES 2048 /* names and values: they are in every line */

static void out_of_memory(const struct node *node, struct errors *errors)
{
	errors_add(errors, &node->mark, "%s", strerror(ENOMEM));
}

/* ---- words of a closed set ---- */

static void words_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	for (unsigned i = 0; key->words[i]; i++)
		if (!strcmp(key->words[i], node->text)) {
			*(uint64_t *)value |= 1ull << i;
			return;
		}
	errors_add(errors, &node->mark, "unknown %s %s%s", key->name, QUOTE(node->text),
		   hint_word(node->text, key->words, words_count(key->words)).text);
}

static void words_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	words_each(key, node, key_value(key, base), errors, words_add);
}

static void words_print(const struct key *key, const void *base, struct emit *emit)
{
	uint64_t set = *(const uint64_t *)key_const_value(key, base);

	emit_list(emit);
	for (unsigned i = 0; key->words[i]; i++)
		if (set & 1ull << i)
			emit_word(emit, key->words[i]);
	emit_list_end(emit);
}

static void words_free(const struct key *key, void *base)
{
	*(uint64_t *)key_value(key, base) = 0;
}

static json_t *words_schema(const struct key *key)
{
	json_t *list = json_array(), *one = json_pack("{s:o}", "enum", list);

	for (unsigned i = 0; key->words[i]; i++)
		json_array_append_new(list, json_string(key->words[i]));
	return json_pack("{s:[o, {s:s, s:O, s:i}]}", "anyOf", one, "type", "array", "items", one, "maxItems",
			 TREE_MAX_ITEMS);
}

const struct key_type_ops type_words = {
	.wants = "a list of words",
	.shapes = SHAPE_WORDS,
	.read = words_read,
	.print = words_print,
	.free = words_free,
	.schema = words_schema,
};

/* ---- strings ---- */

#define VARIABLE_PATTERN "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
#define MAX_VARIABLE     64

/* As a shell would take it (POSIX: environment variables). */
static bool variable_check(const struct key *key, const struct config_strings *before,
			   const struct node *node, struct errors *errors)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	size_t len = strlen(node->text);

	for (size_t i = 0; i < before->n; i++)
		if (!strcmp(before->list[i], node->text)) {
			errors_add(errors, &node->mark, "%s is there twice", QUOTE(node->text));
			return false;
		}
	if (!len || len > MAX_VARIABLE || node->text[strspn(node->text, letters)] ||
	    strchr("0123456789", node->text[0])) {
		errors_add(
			errors, &node->mark,
			"%s cannot be a variable's name: 1 to %d letters, digits and \"_\", no digit first",
			QUOTE(node->text), MAX_VARIABLE);
		return false;
	}
	if (before->n < (size_t)key->max)
		return true;
	errors_add(errors, &node->mark, "\"%s\" has at most %d variables", key->name, (int)key->max);
	return false;
}

static void strings_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	struct config_strings *strings = value;
	char *copy;
	char **list;

	if ((key->flags & KEY_PATHS) && !strchr(node->text, '/')) {
		errors_add(errors, &node->mark, "%s is neither \"%s\" nor a path, which has a \"/\"",
			   QUOTE(node->text), key->words[0]);
		return;
	}
	if ((key->flags & KEY_PARAMETERS) && !encode_parameter_known(node->text)) {
		errors_add(errors, &node->mark, "no function has a parameter %s", QUOTE(node->text));
		return;
	}
	if ((key->flags & KEY_VARIABLES) && !variable_check(key, strings, node, errors))
		return;
	if (key->wrong && key->wrong(node->text)) {
		errors_add(errors, &node->mark, "%s is not %s", QUOTE(node->text), key->wrong(node->text));
		return;
	}
	list = reallocarray(strings->list, strings->n + 1, sizeof(*list));
	if (list)
		strings->list = list;
	copy = list ? strdup(node->text) : NULL;
	if (copy)
		strings->list[strings->n++] = copy;
	else
		out_of_memory(node, errors);
}

static bool stands_for_none(const struct key *key, const struct node *node)
{
	for (size_t i = 0; node->kind == NODE_SCALAR && key->words && key->words[i]; i++)
		if (!strcmp(key->words[i], node->text))
			return true;
	return false;
}

static void strings_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	if (stands_for_none(key, node))
		return;
	if ((key->flags & KEY_NOT_EMPTY) && node->kind == NODE_LIST && !node->n)
		errors_add(errors, &node->mark, "\"%s\" cannot be an empty list", key->name);
	words_each(key, node, key_value(key, base), errors, strings_add);
}

static void strings_print(const struct key *key, const void *base, struct emit *emit)
{
	const struct config_strings *strings = key_const_value(key, base);

	if (!strings->n && key->words) {
		emit_word(emit, key->words[0]);
		return;
	}
	emit_list(emit);
	for (size_t i = 0; i < strings->n; i++)
		emit_text(emit, strings->list[i]);
	emit_list_end(emit);
}

static void strings_free(const struct key *key, void *base)
{
	struct config_strings *strings = key_value(key, base);

	for (size_t i = 0; i < strings->n; i++)
		free(strings->list[i]);
	free(strings->list);
	*strings = (struct config_strings){0};
}

static json_t *strings_schema(const struct key *key)
{
	json_t *one = json_pack("{s:s}", "type", "string");
	json_t *some =
		json_pack("{s:s, s:O, s:i}", "type", "array", "items", one, "maxItems", TREE_MAX_ITEMS);

	if (key->flags & KEY_PATHS)
		json_object_set_new(one, "pattern", json_string(key->words ? "/|^auto$" : "/"));
	if (key->flags & KEY_VARIABLES) {
		json_object_set_new(one, "pattern", json_string(VARIABLE_PATTERN));
		json_object_set_new(some, "maxItems", json_integer(key->max));
		json_object_set_new(some, "uniqueItems", json_true());
	}
	if (key->flags & KEY_NOT_EMPTY)
		json_object_set_new(some, "minItems", json_integer(1));
	return json_pack("{s:[o,o]}", "anyOf", one, some);
}

const struct key_type_ops type_strings = {
	.wants = "a list of texts",
	.shapes = SHAPE_WORDS,
	.read = strings_read,
	.print = strings_print,
	.free = strings_free,
	.schema = strings_schema,
};

/* ---- pids ---- */

static void pids_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	struct config_pids *pids = value;
	char *end;
	long pid = strtol(node->text, &end, 10);
	pid_t *list;

	if (!node->plain || !strchr("0123456789", *node->text) || *end || pid < 1 || pid > MAX_PID) {
		errors_add(errors, &node->mark, "%s is not a process id, 1 to %d", QUOTE(node->text),
			   MAX_PID);
		return;
	}
	for (size_t i = 0; i < pids->n; i++)
		if (pids->list[i] == pid)
			return;
	list = reallocarray(pids->list, pids->n + 1, sizeof(*list));
	if (!list) {
		out_of_memory(node, errors);
		return;
	}
	pids->list = list;
	pids->list[pids->n++] = pid;
}

static void pids_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	words_each(key, node, key_value(key, base), errors, pids_add);
}

static void pids_print(const struct key *key, const void *base, struct emit *emit)
{
	const struct config_pids *pids = key_const_value(key, base);
	char text[16];

	emit_list(emit);
	for (size_t i = 0; i < pids->n; i++) {
		snprintf(text, sizeof(text), "%d", pids->list[i]);
		emit_word(emit, text);
	}
	emit_list_end(emit);
}

static void pids_free(const struct key *key, void *base)
{
	struct config_pids *pids = key_value(key, base);

	free(pids->list);
	*pids = (struct config_pids){0};
}

static json_t *pids_schema(const struct key *key)
{
	json_t *one = json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", 1, "maximum", MAX_PID);

	return json_pack("{s:[o, {s:s, s:O, s:i}]}", "anyOf", one, "type", "array", "items", one, "maxItems",
			 TREE_MAX_ITEMS);
}

const struct key_type_ops type_pids = {
	.wants = "a list of process ids",
	.shapes = SHAPE_WORDS,
	.read = pids_read,
	.print = pids_print,
	.free = pids_free,
	.schema = pids_schema,
};

/* ---- fields ---- */

static bool field_known(const struct key *key, const char *name)
{
	for (size_t i = 0; key->words && key->words[i]; i++)
		if (!strcmp(key->words[i], name))
			return true;
	return false;
}

/* Returns whether name and value are right; else says what is wrong. */
static bool field_check(const struct key *key, const struct node_entry *e, struct errors *errors)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-@";
	bool rename = key->flags & KEY_RENAME;
	const char *name = rename && e->value->text ? e->value->text : e->key->text;

	if (rename && !field_known(key, e->key->text))
		errors_add(errors, &e->key->mark, "calls have no key %s%s", QUOTE(e->key->text),
			   hint_word(e->key->text, key->words, words_count(key->words)).text);
	else if (e->value->kind != NODE_SCALAR || node_is_null(e->value))
		errors_add(errors, &e->value->mark, "%s wants a text, not %s%s", QUOTE(e->key->text),
			   node_what(e->value),
			   node_is_null(e->value) ? "; write \"\" for an empty one" : "");
	else if (!*name || strlen(name) > MAX_FIELD_NAME || name[strspn(name, letters)])
		errors_add(errors, rename ? &e->value->mark : &e->key->mark,
			   "%s cannot name a field: 1 to %d letters, digits, \"_\", \".\", \"-\", \"@\"",
			   QUOTE(name), MAX_FIELD_NAME);
	else if (encode_key_known(name))
		errors_add(errors, rename ? &e->value->mark : &e->key->mark,
			   "%s is a field that events have already; choose another name", QUOTE(name));
	else
		return true;
	return false;
}

static bool field_add(struct config_fields *fields, const struct node_entry *e)
{
	struct config_field *list = reallocarray(fields->list, fields->n + 1, sizeof(*list));
	struct config_field field = {strdup(e->key->text), strdup(e->value->text)};

	if (list)
		fields->list = list;
	if (!list || !field.name || !field.value) {
		free(field.name);
		free(field.value);
		return false;
	}
	list[fields->n++] = field;
	return true;
}

static void fields_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	struct config_fields *fields = key_value(key, base);
	size_t bytes = 0;

	if (node->n > MAX_FIELDS)
		errors_add(errors, &node->mark, "\"%s\" has at most %d fields", key->name, MAX_FIELDS);
	for (size_t i = 0; i < node->n && i < MAX_FIELDS; i++) {
		const struct node_entry *e = &node->entries[i];

		if (e->value->unset || !field_check(key, e, errors))
			continue;
		bytes += strlen(e->key->text) + strlen(e->value->text);
		if (!field_add(fields, e))
			out_of_memory(node, errors);
	}
	if (bytes > MAX_FIELDS_BYTES)
		errors_add(errors, &node->mark, "\"%s\" has at most %d bytes in all, not %zu", key->name,
			   MAX_FIELDS_BYTES, bytes);
}

static void fields_print(const struct key *key, const void *base, struct emit *emit)
{
	const struct config_fields *fields = key_const_value(key, base);

	emit_flow_map(emit);
	for (size_t i = 0; i < fields->n; i++) {
		emit_text(emit, fields->list[i].name);
		emit_text(emit, fields->list[i].value);
	}
	emit_map_end(emit);
}

static void fields_free(const struct key *key, void *base)
{
	struct config_fields *fields = key_value(key, base);

	for (size_t i = 0; i < fields->n; i++) {
		free(fields->list[i].name);
		free(fields->list[i].value);
	}
	free(fields->list);
	*fields = (struct config_fields){0};
}

static json_t *fields_schema(const struct key *key)
{
	return json_pack("{s:s, s:{s:s}, s:{s:[s,s,s]}, s:i}", "type", "object", "propertyNames", "pattern",
			 "^[A-Za-z0-9_.@-]{1,64}$", "additionalProperties", "type", "string", "number",
			 "boolean", "maxProperties", MAX_FIELDS);
}

const struct key_type_ops type_fields = {
	.wants = "a map of constant texts",
	.shapes = SHAPE(NODE_MAP),
	.read = fields_read,
	.print = fields_print,
	.free = fields_free,
	.schema = fields_schema,
};
