/* What makes trees, for the YAML reader. */
#ifndef CUDATAP_CONFIG_TREE_INTERNAL_H
#define CUDATAP_CONFIG_TREE_INTERNAL_H

#include "tree.h"

/* Memory that lives as long as the tree. NULL when there is none. */
void *tree_alloc(struct tree *tree, size_t size);
struct node *tree_node(struct tree *tree, enum node_kind kind, const struct mark *mark);
const char *tree_text(struct tree *tree, const char *text, size_t len);

/* What was spent of TREE_MAX_WEIGHT so far. */
unsigned *tree_spent(struct tree *tree);

/* Counts a child's weight and height in its parent's. */
void node_adopt(struct node *parent, const struct node *child);

#endif
