/* Key types with one value: truth, numbers, sizes, durations, texts, one word of several, file modes. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "types_list.h"
#include "units.h"

static json_t *typed(const char *type)
{
	return json_pack("{s:s}", "type", type);
}

/* A text of one pattern, or a number that YAML makes of it. */
static json_t *pattern(const char *regex)
{
	return json_pack("{s:[s,s], s:s, s:i}", "type", "string", "integer", "pattern", regex, "minimum", 0);
}

static void unfit(const struct key *key, const struct node *node, struct errors *errors)
{
	errors_add(errors, &node->mark, "\"%s\" wants %s, not %s", key->name, key_types[key->type]->wants,
		   QUOTE(node->text));
}

/* ---- bool ---- */

static void bool_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	static const char *const words[] = {"false", "true"};

	for (int i = 0; i < 2; i++)
		if (node->plain && !strcmp(node->text, words[i])) {
			*(bool *)key_value(key, base) = i;
			return;
		}
	unfit(key, node, errors);
}

static void bool_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, *(const bool *)key_const_value(key, base) ? "true" : "false");
}

static json_t *bool_schema(const struct key *key)
{
	return typed("boolean");
}

const struct key_type_ops type_bool = {
	.wants = "true or false",
	.shapes = SHAPE(NODE_SCALAR),
	.read = bool_read,
	.print = bool_print,
	.schema = bool_schema,
};

/* ---- int ---- */

static void int_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(node->text, &end, 10);
	if (!node->plain || !strchr("-0123456789", *node->text) || *end || errno)
		unfit(key, node, errors);
	else if (key->max && (value < key->min || value > key->max))
		errors_add(errors, &node->mark, "\"%s\" is from %" PRId64 " to %" PRId64 ", not %s",
			   key->name, key->min, key->max, QUOTE(node->text));
	else
		*(int64_t *)key_value(key, base) = value;
}

static void int_print(const struct key *key, const void *base, struct emit *emit)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, *(const int64_t *)key_const_value(key, base));
	emit_word(emit, text);
}

static json_t *int_schema(const struct key *key)
{
	json_t *schema = typed("integer");

	if (key->max) {
		json_object_set_new(schema, "minimum", json_integer(key->min));
		json_object_set_new(schema, "maximum", json_integer(key->max));
	}
	return schema;
}

const struct key_type_ops type_int = {
	.wants = "a whole number",
	.shapes = SHAPE(NODE_SCALAR),
	.read = int_read,
	.print = int_print,
	.schema = int_schema,
};

/* ---- size and duration ---- */

static void unknown_unit(const struct unit *units, const char *unit, const struct node *node,
			 struct errors *errors)
{
	const char *names[16];
	unsigned n = units_names(units, names, sizeof(names) / sizeof(names[0]));

	errors_add(errors, &node->mark, "unknown unit %s in %s%s", QUOTE(unit), QUOTE(node->text),
		   hint_word(unit, names, n).text);
}

/* Returns 0 with the value, or -EINVAL after a message. */
static int quantity(const struct key *key, const struct unit *units, const struct node *node,
		    struct errors *errors, uint64_t *ret_value)
{
	const char *unit = "";
	uint64_t value = 0;
	int err = units_parse(units, node->text, &value, &unit);

	/* bytes need no unit, and nothing is nothing in any unit */
	if (err == -ENODATA && (units == units_size || !value))
		err = 0;
	if (err == -ENODATA)
		errors_add(errors, &node->mark, "\"%s\": give a unit: %.20sms", key->name, node->text);
	else if (err == -ENOENT)
		unknown_unit(units, unit, node, errors);
	else if (err == -EDOM)
		errors_add(errors, &node->mark, "%s is not a whole number of %s", QUOTE(node->text),
			   units == units_size ? "bytes" : "nanoseconds");
	else if (err == -ERANGE)
		errors_add(errors, &node->mark, "%s is too large a number", QUOTE(node->text));
	else if (err)
		unfit(key, node, errors);
	else if (key->max && (value < (uint64_t)key->min || value > (uint64_t)key->max))
		errors_add(errors, &node->mark, "\"%s\" is from %s to %s, not %s", key->name,
			   units_print(units, key->min).text, units_print(units, key->max).text,
			   QUOTE(node->text));
	else {
		*ret_value = value;
		return 0;
	}
	return -EINVAL;
}

/* Returns whether it is one; else says which are near. */
static bool power_of_two(const struct key *key, uint64_t value, const struct node *node,
			 struct errors *errors)
{
	uint64_t page = sysconf(_SC_PAGESIZE), below = page;

	if (value >= page && !(value & (value - 1)))
		return true;
	while (below * 2 <= value)
		below *= 2;
	if (value < page)
		errors_add(errors, &node->mark, "\"%s\" is at least one page, %s, not %s", key->name,
			   units_print(units_size, page).text, QUOTE(node->text));
	else
		errors_add(errors, &node->mark, "\"%s\" is a power of two: %s or %s, not %s", key->name,
			   units_print(units_size, below).text, units_print(units_size, below * 2).text,
			   QUOTE(node->text));
	return false;
}

static void size_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	uint64_t value;

	if (quantity(key, units_size, node, errors, &value))
		return;
	if ((key->flags & KEY_POWER_OF_TWO) && !power_of_two(key, value, node, errors))
		return;
	*(uint64_t *)key_value(key, base) = value;
}

static void size_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, units_print(units_size, *(const uint64_t *)key_const_value(key, base)).text);
}

static json_t *size_schema(const struct key *key)
{
	return pattern("^[0-9]+(\\.[0-9]+)? *([KMGT]iB|[kMGT]?B)?$");
}

const struct key_type_ops type_size = {
	.wants = "a size such as 16MiB",
	.shapes = SHAPE(NODE_SCALAR),
	.read = size_read,
	.print = size_print,
	.schema = size_schema,
};

static void duration_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	uint64_t value;

	if (!quantity(key, units_time, node, errors, &value))
		*(uint64_t *)key_value(key, base) = value;
}

static void duration_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, units_print(units_time, *(const uint64_t *)key_const_value(key, base)).text);
}

static json_t *duration_schema(const struct key *key)
{
	return json_pack("{s:[{s:s, s:s}, {s:i}]}", "anyOf", "type", "string", "pattern",
			 "^(0|[0-9]+(\\.[0-9]+)? *(ns|us|ms|s|m|h|d))$", "const", 0);
}

/* Without a default, zero is no duration but an absent one. */
static bool duration_is_set(const struct key *key, const void *base)
{
	return key->fallback || *(const uint64_t *)key_const_value(key, base);
}

const struct key_type_ops type_duration = {
	.wants = "a duration such as 20ms",
	.shapes = SHAPE(NODE_SCALAR),
	.read = duration_read,
	.print = duration_print,
	.is_set = duration_is_set,
	.schema = duration_schema,
};

/* ---- string ---- */

static void unknown_word(const struct key *key, const struct node *node, struct errors *errors)
{
	errors_add(errors, &node->mark, "unknown %s %s%s", key->name, QUOTE(node->text),
		   hint_word(node->text, key->words, words_count(key->words)).text);
}

static int word_index(const char *const *words, const char *word)
{
	for (int i = 0; words && words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -ENOENT;
}

static void string_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	size_t len = strlen(node->text);

	if (key->words && word_index(key->words, node->text) < 0)
		unknown_word(key, node, errors);
	else if (!len && (key->required || key->min > 0))
		errors_add(errors, &node->mark, "\"%s\" cannot be empty", key->name);
	else if (key->max && len > (uint64_t)key->max)
		errors_add(errors, &node->mark, "\"%s\" has at most %" PRId64 " bytes", key->name, key->max);
	else if (!(*(char **)key_value(key, base) = strdup(node->text)))
		errors_add(errors, &node->mark, "%s", strerror(ENOMEM));
}

static void string_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_text(emit, *(char *const *)key_const_value(key, base));
}

static bool string_is_set(const struct key *key, const void *base)
{
	return *(char *const *)key_const_value(key, base);
}

static void string_free(const struct key *key, void *base)
{
	char **value = key_value(key, base);

	free(*value);
	*value = NULL;
}

static json_t *words_schema(const struct key *key)
{
	json_t *list = json_array();

	for (size_t i = 0; i < words_count(key->words); i++)
		json_array_append_new(list, json_string(key->words[i]));
	return json_pack("{s:o}", "enum", list);
}

static json_t *string_schema(const struct key *key)
{
	json_t *schema;

	if (key->words)
		return words_schema(key);
	/* a plain 42 or true is a text all the same */
	schema = json_pack("{s:[s,s,s]}", "type", "string", "number", "boolean");
	if (key->required || key->min > 0)
		json_object_set_new(schema, "minLength", json_integer(key->min > 0 ? key->min : 1));
	if (key->max)
		json_object_set_new(schema, "maxLength", json_integer(key->max));
	return schema;
}

const struct key_type_ops type_string = {
	.wants = "a text",
	.shapes = SHAPE(NODE_SCALAR),
	.read = string_read,
	.print = string_print,
	.is_set = string_is_set,
	.free = string_free,
	.schema = string_schema,
};

/* ---- enum ---- */

static void enum_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	int i = word_index(key->words, node->text);

	if (i < 0)
		unknown_word(key, node, errors);
	else
		*(int *)key_value(key, base) = i;
}

static void enum_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, key->words[*(const int *)key_const_value(key, base)]);
}

const struct key_type_ops type_enum = {
	.wants = "one word",
	.shapes = SHAPE(NODE_SCALAR),
	.read = enum_read,
	.print = enum_print,
	.schema = words_schema,
};

/* ---- mode ---- */

/* As chmod(1) takes it: octal with or without a leading 0. */
static void mode_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	size_t len = strlen(node->text);

	if (len < 3 || len > 4 || strspn(node->text, "01234567") != len)
		unfit(key, node, errors);
	else if (strtoul(node->text, NULL, 8) > 0777)
		errors_add(errors, &node->mark, "\"%s\" is at most 0777, not %s", key->name,
			   QUOTE(node->text));
	else
		*(mode_t *)key_value(key, base) = strtoul(node->text, NULL, 8);
}

static void mode_print(const struct key *key, const void *base, struct emit *emit)
{
	char text[8];

	/* in quotes: other readers of YAML take 0640 for a number */
	snprintf(text, sizeof(text), "%04o", *(const mode_t *)key_const_value(key, base));
	emit_text(emit, text);
}

static json_t *mode_schema(const struct key *key)
{
	return pattern("^0?[0-7]{3}$");
}

const struct key_type_ops type_mode = {
	.wants = "an octal file mode such as \"0640\"",
	.shapes = SHAPE(NODE_SCALAR),
	.read = mode_read,
	.print = mode_print,
	.schema = mode_schema,
};

/* ---- literal ---- */

static void literal_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	if (strcmp(node->text, key->fallback))
		errors_add(errors, &node->mark, "\"%s\" must be %s, not %s", key->name, key->fallback,
			   QUOTE(node->text));
}

static void literal_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_word(emit, key->fallback);
}

static json_t *literal_schema(const struct key *key)
{
	return json_pack("{s:o}", "const", json_loads(key->fallback, JSON_DECODE_ANY, NULL));
}

const struct key_type_ops type_literal = {
	.wants = "its only value",
	.shapes = SHAPE(NODE_SCALAR),
	.read = literal_read,
	.print = literal_print,
	.schema = literal_schema,
};
