/* Values of arguments as JSON. */
#include "values.h"

#include <float.h>

#include "escape.h"

#define MAX_NESTING 8 /* structures in structures; the table has fewer */

/* ---- scalars ---- */

static uint64_t load_unsigned(const void *data, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, data, size <= 8 ? size : 8);
	return value;
}

static int64_t load_signed(const void *data, size_t size)
{
	unsigned unused = size < 8 ? 64 - 8 * (unsigned)size : 0;

	return (int64_t)(load_unsigned(data, size) << unused) >> unused;
}

static char *put_hex_value(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	return put_hex(p, load_unsigned(data, type->size));
}

static char *put_int_value(char *p, const struct fragments *f, const struct table_type *type,
			   const void *data)
{
	return put_i64(p, load_signed(data, type->size));
}

static char *put_uint_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	return put_u64(p, load_unsigned(data, type->size));
}

static char *put_float_value(char *p, const struct fragments *f, const struct table_type *type,
			     const void *data)
{
	float single;
	double value;

	if (type->size == sizeof(single)) {
		memcpy(&single, data, sizeof(single));
		return put_float(p, (double)single, FLT_DECIMAL_DIG);
	}
	memcpy(&value, data, sizeof(value));
	return put_float(p, value, DBL_DECIMAL_DIG);
}

static char *put_enum_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	const struct enum_fragments *prepared = &f->enums[type->ref];
	uint32_t value = (uint32_t)load_unsigned(data, type->size);
	const char *name;

	if (value < FRAGMENTS_SMALL_ENUM)
		return put_fragment(p, f->text, prepared->small[value]);
	/* enumerations are int or unsigned, as their values need */
	name = table_enumerator(&table_enums[type->ref], (int32_t)value);
	if (!name)
		name = table_enumerator(&table_enums[type->ref], value);
	*p++ = '"';
	if (name) {
		p = put_bytes(p, name, strlen(name));
	} else {
		p = put_bytes(p, table_enums[type->ref].name, strlen(table_enums[type->ref].name));
		*p++ = '(';
		p = put_i64(p, (int32_t)value);
		*p++ = ')';
	}
	*p++ = '"';
	return p;
}

static char *put_dim3_value(char *p, const struct fragments *f, const struct table_type *type,
			    const void *data)
{
	uint32_t dim[3];

	memcpy(dim, data, sizeof(dim));
	*p++ = '[';
	p = put_u64(p, dim[0]);
	*p++ = ',';
	p = put_u64(p, dim[1]);
	*p++ = ',';
	p = put_u64(p, dim[2]);
	*p++ = ']';
	return p;
}

static const struct {
	char *(*put)(char *p, const struct fragments *f, const struct table_type *type, const void *data);
	size_t max;
} scalars[] = {
	[TABLE_HEX] = {put_hex_value, NUMBER_MAX_HEX},
	[TABLE_INT] = {put_int_value, NUMBER_MAX_I64},
	[TABLE_UINT] = {put_uint_value, NUMBER_MAX_U64},
	[TABLE_FLOAT] = {put_float_value, NUMBER_MAX_FLOAT},
	[TABLE_ENUM] = {put_enum_value, 0},
	[TABLE_DIM3] = {put_dim3_value, VALUES_MAX_DIM3},
	[TABLE_STRING] = {put_hex_value, NUMBER_MAX_HEX}, /* unread: its address */
	[TABLE_BYTES] = {NULL, 0},
};

size_t values_scalar_max(const struct fragments *f, const struct table_type *type)
{
	if (!scalars[type->kind].put)
		return 0;
	return type->kind == TABLE_ENUM ? f->enums[type->ref].max : scalars[type->kind].max;
}

char *put_scalar(char *p, const struct fragments *f, const struct table_type *type, const void *data)
{
	return scalars[type->kind].put(p, f, type, data);
}

/* ---- what needs room ---- */

static size_t room(const struct writer *w)
{
	return w->p < w->limit ? (size_t)(w->limit - w->p) : 0;
}

static void write_text(struct writer *w, const char *text, size_t len)
{
	size_t fits;

	if (room(w) < 2) {
		w->cut = true;
		return;
	}
	fits = (room(w) - 2) / ESCAPE_GROWTH;
	if (len > fits) {
		len = fits;
		w->cut = true;
	}
	if (w->cut)
		len = escape_whole(text, len);
	*w->p++ = '"';
	w->p = put_escaped(w->p, text, len);
	*w->p++ = '"';
}

static void write_bytes(struct writer *w, const uint8_t *bytes, size_t len)
{
	if (room(w) < len * 2 + 2) {
		w->cut = true;
		return;
	}
	*w->p++ = '"';
	for (size_t i = 0; i < len; i++) {
		*w->p++ = "0123456789abcdef"[bytes[i] >> 4];
		*w->p++ = "0123456789abcdef"[bytes[i] & 15];
	}
	*w->p++ = '"';
}

static void write_one(struct writer *w, const struct table_type *type, const char *data, size_t len,
		      unsigned nesting);

/* Elements in [ ], as many as fit. */
static void write_elements(struct writer *w, const struct table_type *type, const char *data, size_t n,
			   unsigned nesting)
{
	char *start = w->p;

	if (room(w) < 2) {
		w->cut = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		char *element = w->p++;

		*element = ',';
		write_one(w, type, data + i * type->size, type->size, nesting);
		if (w->p == element + 1) {
			w->p = element;
			break;
		}
	}
	if (w->p == start)
		w->p++;
	*start = '[';
	*w->p++ = ']';
}

static void write_field(struct writer *w, const struct table_field *field, const char *data, size_t len,
			unsigned nesting)
{
	const struct table_type *type = &table_types[field->type];
	struct fragment key = w->f->fields[field - table_fields];
	char *start = w->p;

	if (field->offset + (size_t)type->size * (field->count ? field->count : 1) > len ||
	    room(w) < key.len) {
		w->cut = true;
		return;
	}
	w->p = put_fragment(w->p, w->f->text, key);
	data += field->offset;
	if (field->count && type->kind != TABLE_CHARS && type->kind != TABLE_BYTES)
		write_elements(w, type, data, field->count, nesting);
	else
		write_one(w, type, data, (size_t)type->size * (field->count ? field->count : 1), nesting);
	if (w->p == start + key.len)
		w->p = start;
}

static void write_struct(struct writer *w, const struct table_struct *structure, const char *data, size_t len,
			 unsigned nesting)
{
	char *start = w->p;

	if (room(w) < 2 || nesting == MAX_NESTING) {
		w->cut = true;
		return;
	}
	for (unsigned i = 0; i < structure->count; i++)
		write_field(w, &table_fields[structure->first + i], data, len, nesting);
	if (w->p == start)
		w->p++;
	*start = '{';
	*w->p++ = '}';
}

/* One value; nothing when it is void, shorter than its type (structures may be), or has no room. */
static void write_one(struct writer *w, const struct table_type *type, const char *data, size_t len,
		      unsigned nesting)
{
	size_t max = values_scalar_max(w->f, type);

	if (type->kind == TABLE_STRUCT) {
		write_struct(w, &table_structs[type->ref], data, len, nesting + 1);
	} else if (type->kind == TABLE_CHARS) {
		write_text(w, data, strnlen(data, len));
	} else if (type->kind == TABLE_BYTES) {
		write_bytes(w, (const uint8_t *)data, len);
	} else if (max && len >= type->size) {
		if (room(w) >= max)
			w->p = put_scalar(w->p, w->f, type, data);
		else
			w->cut = true;
	}
}

static void write_array(struct writer *w, const struct table_type *type, const struct call_value *value)
{
	size_t here = value->len / type->size;

	if (here >= value->count) {
		write_elements(w, type, value->data, value->count, 0);
		return;
	}
	if (room(w) < sizeof("{\"count\":4294967295,\"first\":[]}")) {
		w->cut = true;
		return;
	}
	w->p = PUT_LITERAL(w->p, "{\"count\":");
	w->p = put_u64(w->p, value->count);
	w->p = PUT_LITERAL(w->p, ",\"first\":");
	write_elements(w, type, value->data, here, 0);
	*w->p++ = '}';
}

void write_value(struct writer *w, const struct call_value *value, bool array)
{
	const struct table_type *type = &table_types[value->type];
	const char *data = value->data;

	if (type->kind == TABLE_STRING || type->kind == TABLE_CHARS) {
		w->cut = value->count != 0;
		write_text(w, data, strnlen(data, value->len));
	} else if (array && type->size && type->kind != TABLE_VOID) {
		write_array(w, type, value);
	} else {
		write_one(w, type, data, value->len, 0);
	}
}
