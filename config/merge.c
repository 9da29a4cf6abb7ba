/*
 * Maps over maps: how files and profiles are put together.
 *
 * Only structure counts here, no key is known. The one rule that looks at a
 * text: maps of another `type` are other things, and not merged.
 */
#include <string.h>

#include "tree_internal.h"

static int find(const struct node_entry *entries, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(entries[i].key->text, key))
			return i;
	return -1;
}

const struct node *tree_without(struct tree *tree, const struct node *map, const char *const *keys)
{
	struct node_entry entries[TREE_MAX_KEYS];
	size_t n = 0;

	for (size_t i = 0; i < map->n; i++) {
		const char *const *k = keys;

		while (*k && strcmp(*k, map->entries[i].key->text))
			k++;
		if (!*k)
			entries[n++] = map->entries[i];
	}
	return n == map->n ? map : tree_map(tree, entries, n, &map->mark);
}

static bool other_type(const struct node *under, const struct node *over)
{
	const struct node *a = node_get(under, "type"), *b = node_get(over, "type");

	return a && b && a->kind == NODE_SCALAR && b->kind == NODE_SCALAR && !node_is_null(b) &&
	       strcmp(a->text, b->text);
}

static bool merges(const struct node *under, const struct node *over)
{
	return under->kind == NODE_MAP && over->kind == NODE_MAP && !other_type(under, over);
}

/* One entry over what is there already. Returns false when out of memory or too large. */
static bool lay(struct tree *tree, struct node_entry *entries, size_t *n, const struct node_entry *e,
		struct errors *errors)
{
	int at = find(entries, *n, e->key->text);

	if (at < 0) {
		if (*n == TREE_MAX_KEYS) {
			errors_add(errors, &e->key->mark, "more than %u keys in one map, merged",
				   TREE_MAX_KEYS);
			return false;
		}
		entries[(*n)++] = *e;
		return true;
	}
	if (node_is_null(e->value)) {
		memmove(&entries[at], &entries[at + 1], (--*n - at) * sizeof(*entries));
		return true;
	}
	if (!merges(entries[at].value, e->value)) {
		entries[at] = *e;
		return true;
	}
	entries[at].value = tree_merge(tree, entries[at].value, e->value, errors);
	return entries[at].value;
}

/* What profiles and files have in common is shared, but each merged map is a new one. */
static bool spend(struct tree *tree, size_t entries, const struct mark *mark, struct errors *errors)
{
	unsigned *spent = tree_spent(tree);

	if (entries > TREE_MAX_WEIGHT - *spent) {
		errors_add(errors, mark, "more than %u values, files and profiles merged: too large",
			   TREE_MAX_WEIGHT);
		return false;
	}
	*spent += entries;
	return true;
}

/* As deep as TREE_MAX_DEPTH at most. */
const struct node *tree_merge(struct tree *tree, const struct node *under, const struct node *over,
			      struct errors *errors)
{
	struct node *merged = tree_node(tree, NODE_MAP, &under->mark);
	struct node_entry *entries = NULL;
	size_t n = under->n;

	if (!spend(tree, under->n + over->n, &over->mark, errors))
		return NULL;
	if (merged)
		entries = tree_alloc(tree, (under->n + over->n) * sizeof(*entries));
	if (!entries)
		return NULL;
	if (n)
		memcpy(entries, under->entries, n * sizeof(*entries));
	for (size_t i = 0; i < over->n; i++)
		if (!lay(tree, entries, &n, &over->entries[i], errors))
			return NULL;
	for (size_t i = 0; i < n; i++) {
		node_adopt(merged, entries[i].key);
		node_adopt(merged, entries[i].value);
	}
	merged->entries = entries;
	merged->n = n;
	return merged;
}
