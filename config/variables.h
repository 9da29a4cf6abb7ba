/* ${VAR} in the values of a configuration. */
#ifndef CUDATAP_CONFIG_VARIABLES_H
#define CUDATAP_CONFIG_VARIABLES_H

#include "tree.h"

#define VARIABLES_MAX_BYTES (1u << 20) /* that all values of a configuration get from variables */

/* Of one configuration, over all its profiles. Zeroed at the start. */
struct variables {
	size_t bytes; /* put in so far */
	bool too_many;
};

/**
 * variables_expand - the same values with environment variables put in
 *
 * ${NAME} is the variable's text, ${NAME:-TEXT} is TEXT when the variable is not set or empty, $${ is a
 * "${" of the text itself. The result is a plain scalar, whatever the text looks like: it can be a number
 * or a word, but neither a list nor a map nor null. Keys stay as they are.
 *
 * A variable that is not set is a mistake, or, when errors->elsewhere, leaves the scalar as it is, with
 * `unset` on it and on all around it.
 * Returns @node itself where nothing changes; NULL when out of memory.
 */
const struct node *variables_expand(struct variables *variables, struct tree *tree, const struct node *node,
				    struct errors *errors);

#endif
