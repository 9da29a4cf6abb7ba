/*
 * A configuration text as a tree of nodes, each with its place in the text.
 *
 * Between the YAML reader, which makes trees, and the pass over the key table,
 * which reads them (types.h), trees can be combined: everything that works on
 * the text's structure and knows no key belongs between the two.
 *
 * Aliases share nodes, so a tree is a graph without cycles. What a text may
 * cost is bounded by TREE_MAX_*, counted as if aliases and merge keys were
 * written out; a text that goes past one of them gives one error.
 */
#ifndef CUDATAP_CONFIG_TREE_H
#define CUDATAP_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "errors.h"

#define TREE_MAX_WEIGHT  100000 /* nodes of all its texts; aliases count as what they stand for */
#define TREE_NODE_BYTES  64     /* a scalar weighs one node, and one more for so many bytes each */
#define TREE_MAX_DEPTH   64
#define TREE_MAX_ITEMS   4096 /* of one list */
#define TREE_MAX_KEYS    512  /* of one map */
#define TREE_MAX_ANCHORS 256

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node;

struct node_entry {
	const struct node *key; /* a scalar */
	const struct node *value;
};

struct node {
	enum node_kind kind;
	bool plain;       /* scalar without quotes: may be a number, true, null */
	bool open;        /* its end has not been read yet */
	bool variable;    /* text that came from a variable: never null */
	bool unset;       /* it, or something in it, needs a variable that is not set here */
	unsigned height;  /* levels below it */
	unsigned weight;  /* of it and all in it, shared nodes as often as they are used */
	struct mark mark; /* where its own text is, also when an alias brought it here */
	size_t n;         /* items or entries */
	union {
		const char *text; /* NUL-terminated, no other NUL in it */
		const struct node *const *items;
		const struct node_entry *entries;
	};
};

/* Owns its nodes, of one text or of several. */
struct tree;

struct tree *tree_new(void);
void tree_free(struct tree *tree);

/**
 * tree_read - one YAML document
 * @text: passed text_check(); not needed afterwards
 * @mark: file name
 * @ret_root: NULL when the text is empty
 * Duplicate keys and the like are reported and left out; the rest is read on.
 * Returns 0, or -EINVAL after the error that ended the reading, -ENOMEM without one.
 */
int tree_read(struct tree *tree, const char *text, size_t len, const struct mark *mark, struct errors *errors,
	      const struct node **ret_root);

/* Nodes made by hand, for what does not come from a text. Copies; NULL when out of memory. */
const struct node *tree_scalar(struct tree *tree, const char *text, const struct mark *mark);
const struct node *tree_list(struct tree *tree, const struct node *const *items, size_t n,
			     const struct mark *mark);
const struct node *tree_map(struct tree *tree, const struct node_entry *entries, size_t n,
			    const struct mark *mark);

/** tree_without - the map without these keys (NULL-terminated); NULL when out of memory */
const struct node *tree_without(struct tree *tree, const struct node *map, const char *const *keys);

/**
 * tree_merge - one map over another
 * Maps that both have are merged in the same way, everything else is replaced:
 * lists, and maps whose `type` differs. A key of @over without a value (null) is removed;
 * where @under does not have it either, it stays as it is. Order and marks are those of @under.
 * Returns the merged map, or NULL when out of memory or, after an error, too large.
 */
const struct node *tree_merge(struct tree *tree, const struct node *under, const struct node *over,
			      struct errors *errors);

/** node_get - the value of a key, or NULL; also when @map is NULL or no map */
const struct node *node_get(const struct node *map, const char *key);

/** node_is_null - nothing, ~ or null: the key says nothing */
bool node_is_null(const struct node *node);

/** node_what - "a list", "a map" ... for messages */
const char *node_what(const struct node *node);

#endif
