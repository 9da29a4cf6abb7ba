/*
 * Values of arguments: scalars by the encoder's dialect, and what is made of
 * them.
 *
 * Scalars are appended unchecked: a row's `reserve` has room for each of its
 * parameters as one. Everything else asks for its room first; what has none
 * is left out and the value marked as cut.
 */
#ifndef CUDATAP_VALUES_H
#define CUDATAP_VALUES_H

#include <stdbool.h>

#include "../decode/decode.h"
#include "fragments.h"
#include "number.h"

#define VALUES_CLOSING 256 /* bytes at most of what closes values that just fitted */

struct writer {
	char *p;
	const char *limit; /* where only reserved space is left */
	const struct fragments *f;
	bool cut; /* the value being written is not whole */
};

/** values_scalar_max - bytes that a value of this type takes; 0 when it is no scalar */
static inline size_t values_scalar_max(const struct fragments *f, const struct table_type *type)
{
	if (type->kind == TABLE_ENUM)
		return f->enums[type->ref].max;
	return f->dialect->scalars[type->kind].max;
}

/** put_scalar - append one value of @type, unchecked. @data has at least type->size bytes. */
static inline char *put_scalar(char *p, const struct fragments *f, const struct table_type *type,
			       const void *data)
{
	return f->dialect->scalars[type->kind].put(p, f, type, data);
}

/** values_room - bytes that are not reserved */
static inline size_t values_room(const struct writer *w)
{
	return w->p < w->limit ? (size_t)(w->limit - w->p) : 0;
}

/** put_member_close - append what ends a member with a name */
static inline char *put_member_close(char *p, const struct dialect *dialect)
{
	memcpy(p, dialect->member_close, sizeof(dialect->member_close));
	return p + dialect->member_close_len;
}

/**
 * write_value - a value that was read or passed, of any kind
 * @array: its parameter has a count: an array, or the count and the first elements when not all are here
 * Writes nothing when the value is shorter than its type or has no room. Sets w->cut.
 */
void write_value(struct writer *w, const struct call_value *value, bool array);

#endif
