/*
 * What the key types (keys.h) can do, and the generic pass over a key table.
 *
 * A new type is one row of key_types[] (types.c): everything else goes through
 * these functions. `base` is always the structure that the keys' offsets are
 * in; a value that was never read is all zeros.
 */
#ifndef CUDATAP_CONFIG_TYPES_H
#define CUDATAP_CONFIG_TYPES_H

#include <jansson.h>

#include "emit.h"
#include "errors.h"
#include "keys.h"
#include "tree.h"

#define SHAPE(kind) (1u << (kind))
#define SHAPE_WORDS (SHAPE(NODE_SCALAR) | SHAPE(NODE_LIST))

struct key_type_ops {
	const char *wants; /* "true or false": for messages and the reference */
	unsigned shapes;   /* SHAPE(): node kinds that read() understands */
	/* @node has one of the shapes, the value is empty. On a mistake: errors_add(), value left empty. */
	void (*read)(const struct key *key, const struct node *node, void *base, struct errors *errors);
	void (*print)(const struct key *key, const void *base, struct emit *emit);
	/* Is there something to print? NULL: always. */
	bool (*is_set)(const struct key *key, const void *base);
	/* Frees and empties the value. NULL: nothing to free. */
	void (*free)(const struct key *key, void *base);
	/* JSON Schema of the value; NULL when out of memory. */
	json_t *(*schema)(const struct key *key);
};

extern const struct key_type_ops *const key_types[KEY_NTYPES];

static inline void *key_value(const struct key *key, void *base)
{
	return (char *)base + key->offset;
}

static inline const void *key_const_value(const struct key *key, const void *base)
{
	return (const char *)base + key->offset;
}

typedef void (*word_fn)(const struct key *key, const struct node *word, void *value, struct errors *errors);

/* A key table with the structure that its rows fill. */
struct key_set {
	const struct key *keys; /* up to a row without a name */
	void *base;
};

/** keys_defaults - every key's fallback; @sets are zeroed before or hold values, which are freed */
void keys_defaults(const struct key_set *sets, size_t nsets, struct errors *errors);

/**
 * keys_read - reads a map; keys that it does not mention keep their values
 * @sets: the map's keys are those of all sets
 * @errors: unknown keys, wrong values, required keys that are missing
 */
void keys_read(const struct key_set *sets, size_t nsets, const struct node *map, struct errors *errors);

/** key_read - one value, whatever its type: checks the shape, frees what was there */
void key_read(const struct key *key, const struct node *node, void *base, struct errors *errors);

/** key_words - calls @fn for the one word or for every item of a list, after the shape was checked */
void key_words(const struct key *key, const struct node *node, void *value, struct errors *errors,
	       word_fn fn);

void keys_print(const struct key_set *sets, size_t nsets, struct emit *emit);
void keys_free(const struct key_set *sets, size_t nsets);

/** keys_schema - JSON Schema of a map with these keys (several tables at once) */
json_t *keys_schema(const struct key *const *tables, size_t ntables);

/** words_count - of a NULL-terminated list */
size_t words_count(const char *const *words);

/* ---- for types whose value is a list of words ---- */

/** words_each - calls @fn for every item of a list, or for the one word */
void words_each(const struct key *key, const struct node *node, void *value, struct errors *errors,
		word_fn fn);

#endif
