/* Key types whose words are in the API table: families, functions, libraries. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "types_list.h"

#include "../streamer/table/glob.h"

#define MAX_PATTERN  256
#define MAX_GLOBS    512 /* different ones of one configuration */
#define MAX_FAMILIES 64

/* One of the words, or a list of them. Takes @one over. */
static json_t *words_schema(json_t *one, int least)
{
	return json_pack("{s:[O, {s:s, s:o, s:i, s:i}]}", "anyOf", one, "type", "array", "items", one,
			 "minItems", least, "maxItems", TREE_MAX_ITEMS);
}

/* ---- families ---- */

/* Words that stand for several families. */
static const struct family_set {
	const char *name;
	bool all;
} family_sets[] = {{"all", true}, {"default", false}};

#define NSETS (sizeof(family_sets) / sizeof(family_sets[0]))

static bool in_set(const struct family_set *set, unsigned family)
{
	return set->all || table_families[family].in_default;
}

static size_t family_words(const char *words[MAX_FAMILIES])
{
	size_t n = 0;

	for (size_t i = 0; i < NSETS; i++)
		words[n++] = family_sets[i].name;
	for (unsigned i = 0; i < table_nfamilies && n < MAX_FAMILIES; i++)
		words[n++] = table_families[i].name;
	return n;
}

static void unknown_family(const struct node *node, struct errors *errors)
{
	const char *words[MAX_FAMILIES];
	size_t n = family_words(words);

	errors_add(errors, &node->mark, "unknown family %s%s", QUOTE(node->text),
		   errors_full(errors) ? "" : hint_word(node->text, words, n).text);
}

static void families_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	bool *families = value;
	int one;

	for (size_t i = 0; i < NSETS; i++) {
		if (strcmp(family_sets[i].name, node->text))
			continue;
		for (unsigned f = 0; f < table_nfamilies; f++)
			families[f] |= in_set(&family_sets[i], f);
		return;
	}
	one = table_family(node->text);
	if (one < 0)
		unknown_family(node, errors);
	else
		families[one] = true;
}

static void families_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	bool **families = key_value(key, base);

	*families = calloc(table_nfamilies ? table_nfamilies : 1, sizeof(**families));
	if (*families)
		words_each(key, node, *families, errors, families_add);
	else
		errors_add(errors, &node->mark, "%s", strerror(ENOMEM));
}

static bool is_set_of(const bool *families, const struct family_set *set)
{
	for (unsigned f = 0; f < table_nfamilies; f++)
		if (families[f] != in_set(set, f))
			return false;
	return true;
}

static void families_print(const struct key *key, const void *base, struct emit *emit)
{
	const bool *families = *(bool *const *)key_const_value(key, base);

	for (size_t i = 0; i < NSETS; i++)
		if (is_set_of(families, &family_sets[i])) {
			emit_word(emit, family_sets[i].name);
			return;
		}
	emit_list(emit);
	for (unsigned f = 0; f < table_nfamilies; f++)
		if (families[f])
			emit_word(emit, table_families[f].name);
	emit_list_end(emit);
}

static bool families_are_set(const struct key *key, const void *base)
{
	return *(bool *const *)key_const_value(key, base);
}

static void families_free(const struct key *key, void *base)
{
	bool **families = key_value(key, base);

	free(*families);
	*families = NULL;
}

static json_t *families_schema(const struct key *key)
{
	const char *words[MAX_FAMILIES];
	size_t n = family_words(words);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(words[i]));
	return words_schema(json_pack("{s:o}", "enum", list), 0);
}

const struct key_type_ops type_families = {
	.wants = "a list of family names, default or all",
	.shapes = SHAPE_WORDS,
	.read = families_read,
	.print = families_print,
	.is_set = families_are_set,
	.free = families_free,
	.schema = families_schema,
};

/* ---- functions ---- */

enum match { MATCH_NONE, MATCH_TAILS, MATCH_SOME };

/* TAILS: only functions that jump into another one, @ret_tail for instance, which is probed in their place.
 */
static enum match match(const char *pattern, int *ret_tail)
{
	enum match found = MATCH_NONE;
	int row = -1;

	while (table_next(pattern, &row)) {
		if (!(table_rows[row].flags & TABLE_TAIL))
			return MATCH_SOME;
		if (found == MATCH_NONE)
			*ret_tail = row;
		found = MATCH_TAILS;
	}
	return found;
}

static void no_function(const struct node *node, struct errors *errors)
{
	char name[MAX_PATTERN + 1];
	const char *nearest = NULL;
	size_t n = 0;

	/* a glob's letters may still be near to a name */
	for (const char *s = node->text; *s && n < MAX_PATTERN; s++)
		if (!strchr("*?[]", *s))
			name[n++] = *s;
	name[n] = '\0';
	if (!errors_full(errors))
		nearest = table_nearest_function(name);
	errors_add(errors, &node->mark, "no function matches %s%s%s%s", QUOTE(node->text),
		   nearest ? "; did you mean " : "", nearest ? QUOTE(nearest) : "", nearest ? "?" : "");
}

/* Comparing a glob with every function takes its time. May it be? Else says why not, once. */
static bool glob_budget(const struct node *node, struct errors *errors)
{
	if (errors->globs > MAX_GLOBS)
		return false;
	if (errors->globs++ < MAX_GLOBS)
		return true;
	errors_add(errors, &node->mark, "more than %d globs of functions up to here", MAX_GLOBS);
	return false;
}

/* Returns whether it can be used; else says why not. */
static bool match_check(const struct node *node, struct errors *errors)
{
	int tail = 0;
	enum match found = match(node->text, &tail);

	if (found == MATCH_NONE)
		no_function(node, errors);
	else if (found == MATCH_TAILS)
		errors_add(errors, &node->mark, "%s only jumps into %s: write that", QUOTE(node->text),
			   QUOTE(table_twins[table_rows[tail].twin]));
	return found == MATCH_SOME;
}

static bool pattern_check(const struct node *node, struct errors *errors)
{
	bool glob = node->text[glob_prefix(node->text)];

	if (strlen(node->text) > MAX_PATTERN) {
		errors_add(errors, &node->mark, "%s is longer than any function's name", QUOTE(node->text));
		return false;
	}
	if (!glob)
		return match_check(node, errors);
	if (errors_known_right(errors, node->text))
		return true;
	if (!glob_budget(node, errors) || !match_check(node, errors))
		return false;
	errors_found_right(errors, node->text);
	return true;
}

static void functions_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	if (pattern_check(node, errors))
		type_strings.read(&(struct key){.name = key->name, .type = KEY_STRINGS}, node, value, errors);
}

static void functions_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	words_each(key, node, key_value(key, base), errors, functions_add);
}

static void functions_print(const struct key *key, const void *base, struct emit *emit)
{
	type_strings.print(key, base, emit);
}

static void functions_free(const struct key *key, void *base)
{
	type_strings.free(key, base);
}

static json_t *functions_schema(const struct key *key)
{
	return words_schema(
		json_pack("{s:s, s:i, s:i}", "type", "string", "minLength", 1, "maxLength", MAX_PATTERN), 0);
}

const struct key_type_ops type_functions = {
	.wants = "a list of function names or globs",
	.shapes = SHAPE_WORDS,
	.read = functions_read,
	.print = functions_print,
	.free = functions_free,
	.schema = functions_schema,
};

/* ---- errors ---- */

#define MAX_ERRORS 512 /* of both libraries */

static size_t error_names(const char *names[MAX_ERRORS])
{
	size_t n = 0;

	for (int api = 0; api < TABLE_NAPIS; api++)
		for (unsigned i = 0; i < table_nerrors[api] && n < MAX_ERRORS; i++)
			names[n++] = table_errors[api][i].name;
	return n;
}

static void errors_names_add(const struct key *key, const struct node *node, void *value,
			     struct errors *errors)
{
	const char *names[MAX_ERRORS];
	size_t n = error_names(names);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], node->text)) {
			type_strings.read(&(struct key){.name = key->name, .type = KEY_STRINGS}, node, value,
					  errors);
			return;
		}
	errors_add(errors, &node->mark, "no error of either library is called %s%s", QUOTE(node->text),
		   errors_full(errors) ? "" : hint_word(node->text, names, n).text);
}

static void errors_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	words_each(key, node, key_value(key, base), errors, errors_names_add);
}

static json_t *errors_schema(const struct key *key)
{
	return words_schema(json_pack("{s:s, s:s}", "type", "string", "pattern", "^(cudaError|CUDA_)"), 0);
}

const struct key_type_ops type_errors = {
	.wants = "a list of error names",
	.shapes = SHAPE_WORDS,
	.read = errors_read,
	.print = functions_print,
	.free = functions_free,
	.schema = errors_schema,
};

/* ---- libraries ---- */

static const char *const api_names[TABLE_NAPIS] = {[TABLE_RUNTIME] = "runtime", [TABLE_DRIVER] = "driver"};

static void apis_add(const struct key *key, const struct node *node, void *value, struct errors *errors)
{
	bool *apis = value;

	for (int i = 0; i < TABLE_NAPIS; i++)
		if (!strcmp(api_names[i], node->text)) {
			apis[i] = true;
			return;
		}
	errors_add(errors, &node->mark, "unknown api %s%s", QUOTE(node->text),
		   hint_word(node->text, api_names, TABLE_NAPIS).text);
}

static void apis_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	if (node->kind == NODE_LIST && !node->n)
		errors_add(errors, &node->mark, "\"%s\" cannot be an empty list", key->name);
	words_each(key, node, key_value(key, base), errors, apis_add);
}

static void apis_print(const struct key *key, const void *base, struct emit *emit)
{
	const bool *apis = key_const_value(key, base);

	emit_list(emit);
	for (int i = 0; i < TABLE_NAPIS; i++)
		if (apis[i])
			emit_word(emit, api_names[i]);
	emit_list_end(emit);
}

static void apis_free(const struct key *key, void *base)
{
	memset(key_value(key, base), 0, TABLE_NAPIS * sizeof(bool));
}

static json_t *apis_schema(const struct key *key)
{
	json_t *list = json_array();

	for (int i = 0; i < TABLE_NAPIS; i++)
		json_array_append_new(list, json_string(api_names[i]));
	return words_schema(json_pack("{s:o}", "enum", list), 1);
}

const struct key_type_ops type_apis = {
	.wants = "runtime, driver or a list of both",
	.shapes = SHAPE_WORDS,
	.read = apis_read,
	.print = apis_print,
	.free = apis_free,
	.schema = apis_schema,
};
