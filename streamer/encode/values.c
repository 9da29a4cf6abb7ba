/* Values of arguments: texts, arrays and structures. */
#include "values.h"

#include "escape.h"

#define MAX_NESTING 8 /* structures in structures; the table has fewer */

/* ---- what needs room ---- */

static size_t length(const struct enclosure *around)
{
	return around->open_len + around->close_len + 1u;
}

static char *put_open(char *p, const struct enclosure *around)
{
	memcpy(p, around->open, sizeof(around->open));
	return p + around->open_len;
}

static char *put_close(char *p, const struct enclosure *around)
{
	memcpy(p, around->close, sizeof(around->close));
	return p + around->close_len;
}

/* Members, each with a comma in front, are between @start and w->p. */
static void close_members(struct writer *w, const struct enclosure *around, char *start)
{
	if (w->p == start)
		w->p++;
	*start = around->bracket;
	w->p = put_close(w->p, around);
}

static char *put_text(char *p, const char *text)
{
	return put_bytes(p, text, strlen(text));
}

static void write_text(struct writer *w, const char *text, size_t len)
{
	const struct enclosure *around = &w->f->dialect->text;
	size_t fits;

	if (values_room(w) < length(around)) {
		w->cut = true;
		return;
	}
	fits = (values_room(w) - length(around)) / ESCAPE_GROWTH;
	if (len > fits) {
		len = fits;
		w->cut = true;
	}
	if (w->cut)
		len = escape_whole(text, len);
	w->p = put_open(w->p, around);
	w->p = put_escaped(w->p, text, len);
	w->p = put_close(w->p, around);
}

static void write_bytes(struct writer *w, const uint8_t *bytes, size_t len)
{
	const struct enclosure *around = &w->f->dialect->text;

	if (values_room(w) < len * 2 + length(around)) {
		w->cut = true;
		return;
	}
	w->p = put_open(w->p, around);
	for (size_t i = 0; i < len; i++) {
		*w->p++ = "0123456789abcdef"[bytes[i] >> 4];
		*w->p++ = "0123456789abcdef"[bytes[i] & 15];
	}
	w->p = put_close(w->p, around);
}

static void write_one(struct writer *w, const struct table_type *type, const char *data, size_t len,
		      unsigned nesting);

/* As many as fit. */
static void write_elements(struct writer *w, const struct table_type *type, const char *data, size_t n,
			   unsigned nesting)
{
	const struct enclosure *around = &w->f->dialect->array;
	char *start;

	if (values_room(w) < length(around)) {
		w->cut = true;
		return;
	}
	start = w->p = put_open(w->p, around);
	for (size_t i = 0; i < n; i++) {
		char *element = w->p++;

		*element = ',';
		write_one(w, type, data + i * type->size, type->size, nesting);
		if (w->p == element + 1) {
			w->p = element;
			break;
		}
	}
	close_members(w, around, start);
}

static void write_plain_field(struct writer *w, const struct table_field *field, const char *data, size_t len,
			      unsigned nesting)
{
	const struct table_type *type = &table_types[field->type];
	struct fragment key = w->f->fields[field - table_fields];
	char *start = w->p;

	if (field->offset + (size_t)type->size * (field->count ? field->count : 1) > len ||
	    values_room(w) < key.len) {
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
	else
		w->p = put_member_close(w->p, w->f->dialect);
}

/* A union is its member's field, or none. */
static void write_field(struct writer *w, const struct table_field *field, const char *data, size_t len,
			unsigned nesting)
{
	const struct table_type *type = &table_types[field->type];

	if (type->kind == TABLE_UNION)
		field = table_member(&table_unions[type->ref], data, len);
	if (field)
		write_plain_field(w, field, data, len, nesting);
}

static void write_struct(struct writer *w, const struct table_struct *structure, const char *data, size_t len,
			 unsigned nesting)
{
	const struct enclosure *around = &w->f->dialect->object;
	char *start;

	if (values_room(w) < length(around) || nesting == MAX_NESTING) {
		w->cut = true;
		return;
	}
	start = w->p = put_open(w->p, around);
	for (unsigned i = 0; i < structure->count; i++)
		write_field(w, &table_fields[structure->first + i], data, len, nesting);
	close_members(w, around, start);
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
		if (values_room(w) >= max)
			w->p = put_scalar(w->p, w->f, type, data);
		else
			w->cut = true;
	}
}

static void write_array(struct writer *w, const struct table_type *type, const struct call_value *value)
{
	const struct dialect *dialect = w->f->dialect;
	size_t here = value->len / type->size;

	if (here >= value->count) {
		write_elements(w, type, value->data, value->count, 0);
		return;
	}
	if (values_room(w) < strlen(dialect->count_open) + strlen(dialect->count_first) + NUMBER_MAX_U64 +
				     length(&dialect->array)) {
		w->cut = true;
		return;
	}
	w->p = put_text(w->p, dialect->count_open);
	w->p = put_u64(w->p, value->count);
	w->p = put_text(w->p, dialect->count_first);
	write_elements(w, type, value->data, here, 0);
	w->p = put_text(w->p, dialect->count_close);
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
