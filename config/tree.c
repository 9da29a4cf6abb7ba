/* The nodes of a configuration: their memory and their look-ups. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tree_internal.h"

/* Blocks of memory double in size: defaults are trees of one word. */
#define LEAST_BYTES 512u
#define MOST_BYTES  (64u << 10)

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

struct tree {
	struct block *blocks;
	unsigned spent;
};

struct tree *tree_new(void)
{
	return calloc(1, sizeof(struct tree));
}

void tree_free(struct tree *tree)
{
	if (!tree)
		return;
	while (tree->blocks) {
		struct block *next = tree->blocks->next;

		free(tree->blocks);
		tree->blocks = next;
	}
	free(tree);
}

unsigned *tree_spent(struct tree *tree)
{
	return &tree->spent;
}

void *tree_alloc(struct tree *tree, size_t size)
{
	struct block *b = tree->blocks;
	size_t wanted = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	void *p;

	if (!b || b->size - b->used < wanted) {
		size_t room = b && b->size < MOST_BYTES ? 2 * b->size : b ? MOST_BYTES : LEAST_BYTES;

		if (room < wanted)
			room = wanted;
		b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct block){.next = tree->blocks, .size = room};
		tree->blocks = b;
	}
	p = b->bytes + b->used;
	b->used += wanted;
	return p;
}

struct node *tree_node(struct tree *tree, enum node_kind kind, const struct mark *mark)
{
	struct node *node = tree_alloc(tree, sizeof(*node));

	if (node)
		*node = (struct node){.kind = kind, .mark = *mark, .weight = 1};
	return node;
}

const char *tree_text(struct tree *tree, const char *text, size_t len)
{
	char *copy = tree_alloc(tree, len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

const struct node *tree_scalar(struct tree *tree, const char *text, const struct mark *mark)
{
	struct node *node = tree_node(tree, NODE_SCALAR, mark);

	if (!node)
		return NULL;
	node->plain = true;
	node->text = tree_text(tree, text, strlen(text));
	return node->text ? node : NULL;
}

void node_adopt(struct node *parent, const struct node *child)
{
	parent->weight += child->weight;
	parent->unset |= child->unset;
	if (parent->height < child->height + 1)
		parent->height = child->height + 1;
}

const struct node *tree_list(struct tree *tree, const struct node *const *items, size_t n,
			     const struct mark *mark)
{
	struct node *node = tree_node(tree, NODE_LIST, mark);
	const struct node **copy = tree_alloc(tree, n * sizeof(const struct node *));

	if (!node || !copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i] = items[i];
		node_adopt(node, items[i]);
	}
	node->items = copy;
	node->n = n;
	return node;
}

const struct node *tree_map(struct tree *tree, const struct node_entry *entries, size_t n,
			    const struct mark *mark)
{
	struct node *node = tree_node(tree, NODE_MAP, mark);
	struct node_entry *copy = tree_alloc(tree, n * sizeof(*copy));

	if (!node || !copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i] = entries[i];
		node_adopt(node, entries[i].key);
		node_adopt(node, entries[i].value);
	}
	node->entries = copy;
	node->n = n;
	return node;
}

const struct node *node_get(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (size_t i = 0; i < map->n; i++)
		if (!strcmp(map->entries[i].key->text, key))
			return map->entries[i].value;
	return NULL;
}

bool node_is_null(const struct node *node)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	if (node->kind != NODE_SCALAR || !node->plain || node->variable)
		return false;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (!strcmp(node->text, nulls[i]))
			return true;
	return false;
}

const char *node_what(const struct node *node)
{
	static const char *const names[] = {"a single value", "a list", "a map"};

	return node_is_null(node) ? "nothing" : names[node->kind];
}
