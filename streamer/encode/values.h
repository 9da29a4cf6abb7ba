/*
 * Values of arguments as JSON: one writer for each kind of type.
 *
 * Scalars are appended unchecked: a row's `reserve` has room for each of its
 * parameters as one. Everything else asks for its room first; what has none
 * is left out and the value marked as cut.
 */
#ifndef CUDATAP_VALUES_H
#define CUDATAP_VALUES_H

#include <stdbool.h>

#include "fragments.h"
#include "number.h"

#define VALUES_MAX_DIM3 35 /* [4294967295,4294967295,4294967295] */

struct writer {
	char *p;
	const char *limit; /* where only reserved space is left */
	const struct fragments *f;
	bool cut; /* the value being written is not whole */
};

/** values_scalar_max - bytes that a value of this type takes; 0 when it is no scalar */
size_t values_scalar_max(const struct fragments *f, const struct table_type *type);

/** put_scalar - append one value of @type, unchecked. @data has at least type->size bytes. */
char *put_scalar(char *p, const struct fragments *f, const struct table_type *type, const void *data);

/**
 * write_value - a value that was read or passed, of any kind
 * @array: its parameter has a count: elements in [ ], or {"count":N,"first":[...]} when not all are here
 * Writes nothing when the value is shorter than its type or has no room. Sets w->cut.
 */
void write_value(struct writer *w, const struct call_value *value, bool array);

#endif
