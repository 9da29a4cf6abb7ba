/*
 * How a format writes values: scalars by the kind of their type, and what
 * stands around texts, arrays and objects. The same values are written in
 * three ways: as plain JSON ("json"), as JSON whose leaves are all strings
 * ("ecs"), and as OTLP's AnyValue ("otlp").
 */
#ifndef CUDATAP_DIALECT_H
#define CUDATAP_DIALECT_H

#include <stdbool.h>

#include "../table/table.h"

struct fragments;

#define DIALECT_OPEN  48 /* bytes copied of what opens and closes, whatever its length */
#define DIALECT_CLOSE 8

/*
 * Around a value. Members of arrays and objects each bring a comma in front;
 * that of the first one is overwritten by `bracket`.
 */
struct enclosure {
	char open[DIALECT_OPEN], close[DIALECT_CLOSE];
	unsigned char open_len, close_len;
	char bracket;
};

#define ENCLOSURE(open, bracket, close)                                   \
	{                                                                 \
		open, close, sizeof(open) - 1, sizeof(close) - 1, bracket \
	}

struct dialect {
	/* by enum table_kind; put: append one value, unchecked (NULL: no scalar); max: its bytes,
	 * enumerations' are in fragments */
	struct dialect_scalar {
		char *(*put)(char *p, const struct fragments *f, const struct table_type *type,
			     const void *data);
		unsigned max;
	} scalars[TABLE_UNION + 1];
	struct enclosure text, array, object;
	/* of a member with a name: KEY_OPEN name KEY_CLOSE value, then member_close */
	const char *key_open, *key_close;
	char member_close[DIALECT_CLOSE];
	unsigned member_close_len;
	const char *yes;      /* a boolean value that is true */
	const char *redacted; /* in the place of a value that is not to be shown */
	/* an array of which only the first elements are here: count_open N count_first ARRAY count_close */
	const char *count_open, *count_first, *count_close;
	/* `args` and `out` are objects; otherwise their members stand among the line's other ones, with the
	 * object's name in front of theirs */
	bool nested_args;
	char *(*put_dim)(char *p, const unsigned dim[3]); /* `grid` and `block` */
};

extern const struct dialect dialect_json, dialect_text, dialect_otlp;

#endif
