/* The pass over a key table: reading, defaults, printing, freeing, whatever the types are. */
#include <errno.h>
#include <string.h>

#include "types.h"
#include "types_list.h"

const struct key_type_ops *const key_types[KEY_NTYPES] = {
	[KEY_BOOL] = &type_bool,           [KEY_INT] = &type_int,
	[KEY_SIZE] = &type_size,           [KEY_DURATION] = &type_duration,
	[KEY_STRING] = &type_string,       [KEY_ENUM] = &type_enum,
	[KEY_STRINGS] = &type_strings,     [KEY_PIDS] = &type_pids,
	[KEY_FAMILIES] = &type_families,   [KEY_FUNCTIONS] = &type_functions,
	[KEY_APIS] = &type_apis,           [KEY_FIELDS] = &type_fields,
	[KEY_WORDS] = &type_words,         [KEY_ERRORS] = &type_errors,
	[KEY_MODE] = &type_mode,           [KEY_MAP] = &type_map,
	[KEY_SINKS] = &type_sinks,         [KEY_LITERAL] = &type_literal,
	[KEY_SINK_KIND] = &type_sink_kind, [KEY_PROFILES] = &type_profiles,
	[KEY_RATES] = &type_rates,
};

#define MAX_NAMES 64 /* keys of one map that a hint can choose from */

size_t words_count(const char *const *words)
{
	size_t n = 0;

	while (words && words[n])
		n++;
	return n;
}

void words_each(const struct key *key, const struct node *node, void *value, struct errors *errors,
		word_fn fn)
{
	if (node->kind == NODE_SCALAR) {
		fn(key, node, value, errors);
		return;
	}
	for (size_t i = 0; i < node->n; i++) {
		const struct node *item = node->items[i];

		if (item->kind != NODE_SCALAR || node_is_null(item))
			errors_add(errors, &item->mark, "\"%s\" wants %s; this item is %s", key->name,
				   key_types[key->type]->wants, node_what(item));
		else if (!item->unset)
			fn(key, item, value, errors);
	}
}

static const struct key *key_find(const struct key_set *sets, size_t nsets, const char *name, void **ret_base)
{
	for (size_t i = 0; i < nsets; i++)
		for (const struct key *k = sets[i].keys; k && k->name; k++)
			if (!strcmp(k->name, name)) {
				*ret_base = sets[i].base;
				return k;
			}
	return NULL;
}

static void unknown_key(const struct key_set *sets, size_t nsets, const struct node *word,
			struct errors *errors)
{
	const char *names[MAX_NAMES];
	size_t n = 0;

	for (size_t i = 0; i < nsets; i++)
		for (const struct key *k = sets[i].keys; k && k->name && n < MAX_NAMES; k++)
			names[n++] = k->name;
	errors_add(errors, &word->mark, "unknown key %s%s", QUOTE(word->text),
		   errors_full(errors) ? "" : hint_word(word->text, names, n).text);
}

static bool shape_check(const struct key *key, const struct node *node, struct errors *errors)
{
	const struct key_type_ops *type = key_types[key->type];

	if (type->shapes & SHAPE(node->kind))
		return true;
	errors_add(errors, &node->mark, "\"%s\" wants %s, not %s", key->name, type->wants, node_what(node));
	return false;
}

void key_words(const struct key *key, const struct node *node, void *value, struct errors *errors, word_fn fn)
{
	if (shape_check(key, node, errors))
		words_each(key, node, value, errors, fn);
}

static void key_clear(const struct key *key, void *base)
{
	if (key_types[key->type]->free)
		key_types[key->type]->free(key, base);
}

void key_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	if (!shape_check(key, node, errors) || (node->kind == NODE_SCALAR && node->unset))
		return;
	/* a map's own keys are replaced one by one */
	if (!key->children)
		key_clear(key, base);
	key_types[key->type]->read(key, node, base, errors);
}

static void check_required(const struct key_set *set, const struct node *map, struct errors *errors)
{
	for (const struct key *k = set->keys; k && k->name; k++) {
		const struct node *value = k->required ? node_get(map, k->name) : NULL;

		if (k->required && (!value || node_is_null(value)))
			errors_add(errors, value ? &value->mark : &map->mark, "\"%s\" is missing: %.*s",
				   k->name, (int)strcspn(k->about, ";"), k->about);
	}
}

static void entry_read(const struct key_set *sets, size_t nsets, const struct node_entry *e,
		       struct errors *errors)
{
	void *base;
	const struct key *key = key_find(sets, nsets, e->key->text, &base);

	if (!key)
		unknown_key(sets, nsets, e->key, errors);
	else if (!(key->flags & KEY_LAYER) && !node_is_null(e->value))
		key_read(key, e->value, base, errors);
}

void keys_read(const struct key_set *sets, size_t nsets, const struct node *map, struct errors *errors)
{
	for (size_t i = 0; i < map->n; i++)
		entry_read(sets, nsets, &map->entries[i], errors);
	for (size_t i = 0; i < nsets && !errors->partial; i++)
		check_required(&sets[i], map, errors);
}

/* Most are one plain word or empty, which needs no reader of YAML. */
static int fallback_node(const struct key *key, struct tree *tree, const struct mark *mark,
			 struct errors *errors, const struct node **ret_node)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";

	if (!key->fallback[strspn(key->fallback, letters)])
		*ret_node = tree_scalar(tree, key->fallback, mark);
	else if (!strcmp(key->fallback, "[]"))
		*ret_node = tree_list(tree, NULL, 0, mark);
	else if (!strcmp(key->fallback, "{}"))
		*ret_node = tree_map(tree, NULL, 0, mark);
	else
		return tree_read(tree, key->fallback, strlen(key->fallback), mark, errors, ret_node);
	return *ret_node ? 0 : -ENOMEM;
}

/* The fallback is read as the YAML that it is, by the key's own type. */
static void fall_back(const struct key *key, void *base, struct errors *errors)
{
	const struct mark mark = {.file = key->name};
	struct tree *tree = tree_new();
	const struct node *node = NULL;

	if (!tree || fallback_node(key, tree, &mark, errors, &node))
		errors_add(errors, &mark, "default %s cannot be read", QUOTE(key->fallback));
	else if (node)
		key_read(key, node, base, errors);
	tree_free(tree);
}

void keys_defaults(const struct key_set *sets, size_t nsets, struct errors *errors)
{
	for (size_t i = 0; i < nsets; i++)
		for (const struct key *k = sets[i].keys; k && k->name; k++) {
			if (k->children)
				keys_defaults(&(struct key_set){k->children, key_value(k, sets[i].base)}, 1,
					      errors);
			else if (k->fallback && !(k->flags & KEY_LAYER))
				fall_back(k, sets[i].base, errors);
		}
}

void keys_print(const struct key_set *sets, size_t nsets, struct emit *emit)
{
	for (size_t i = 0; i < nsets; i++)
		for (const struct key *k = sets[i].keys; k && k->name; k++) {
			const struct key_type_ops *type = key_types[k->type];

			if ((k->flags & KEY_LAYER) || (type->is_set && !type->is_set(k, sets[i].base)))
				continue;
			emit_word(emit, k->name);
			if (k->flags & KEY_SECRET)
				emit_secret(emit, *(char *const *)key_const_value(k, sets[i].base));
			else
				type->print(k, sets[i].base, emit);
		}
}

void keys_free(const struct key_set *sets, size_t nsets)
{
	for (size_t i = 0; i < nsets; i++)
		for (const struct key *k = sets[i].keys; k && k->name; k++)
			if (!(k->flags & KEY_LAYER))
				key_clear(k, sets[i].base);
}

/* ---- KEY_MAP: keys of its own, in the same structure ---- */

static void map_read(const struct key *key, const struct node *node, void *base, struct errors *errors)
{
	keys_read(&(struct key_set){key->children, key_value(key, base)}, 1, node, errors);
}

static void map_print(const struct key *key, const void *base, struct emit *emit)
{
	emit_map(emit);
	keys_print(&(struct key_set){key->children, (void *)key_const_value(key, base)}, 1, emit);
	emit_map_end(emit);
}

static void map_free(const struct key *key, void *base)
{
	keys_free(&(struct key_set){key->children, key_value(key, base)}, 1);
}

static json_t *map_schema(const struct key *key)
{
	return keys_schema(&key->children, 1);
}

const struct key_type_ops type_map = {
	.wants = "a map",
	.shapes = SHAPE(NODE_MAP),
	.read = map_read,
	.print = map_print,
	.free = map_free,
	.schema = map_schema,
};
