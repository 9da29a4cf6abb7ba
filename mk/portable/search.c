/*
 * What the static libelf of elfutils 0.192 lacks (its bug 32293): the trees of a library of its own
 * that is not installed. The linker takes them only for a libelf that still asks for them.
 */
#include <search.h>
#include <stddef.h>

/* Of elfutils' own only the beginning is known: a lock may follow. */
struct search_tree {
	void *root;
};

typedef int compare_fn(const void *, const void *);

void eu_search_tree_init(struct search_tree *tree)
{
	tree->root = NULL;
}

void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *))
{
	tdestroy(tree->root, free_node);
}

void *eu_tsearch(const void *key, struct search_tree *tree, compare_fn *compare)
{
	return tsearch(key, &tree->root, compare);
}

void *eu_tdelete(const void *key, struct search_tree *tree, compare_fn *compare)
{
	return tdelete(key, &tree->root, compare);
}
