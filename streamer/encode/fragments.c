/* What the lines of one encoder have in common: making it from the table and the options. */
#include "fragments.h"

#include <errno.h>
#include <stdlib.h>

#include "escape.h"
#include "number.h"
#include "values.h"

#define FIRST_SIZE    65536
#define API_NAME(api) ((api) == TABLE_RUNTIME ? "runtime" : "driver")

/* ---- the arena ---- */

/* Makes room and returns where the next byte goes; NULL (and f->error) when there is none. */
static char *arena_reserve(struct fragments *f, size_t need)
{
	size_t size = f->size ? f->size : FIRST_SIZE;
	char *text;

	if (f->error)
		return NULL;
	while (size < f->len + need + PUT_SLACK)
		size *= 2;
	if (size != f->size) {
		text = realloc(f->text, size);
		if (!text) {
			f->error = -ENOMEM;
			return NULL;
		}
		memset(text + f->size, 0, size - f->size);
		f->text = text;
		f->size = size;
	}
	return f->text + f->len;
}

static void add_plain(struct fragments *f, const char *text)
{
	size_t len = strlen(text);
	char *p = arena_reserve(f, len);

	if (p)
		f->len += (size_t)(put_bytes(p, text, len) - p);
}

static void add_escaped(struct fragments *f, const char *text)
{
	size_t len = strlen(text);
	char *p = arena_reserve(f, len * ESCAPE_GROWTH);

	if (p)
		f->len += (size_t)(put_escaped(p, text, len) - p);
}

/*
 * One fragment from pieces: plain text and text to be escaped in turns, up to
 * a NULL. Fragments are found by offset, as the arena moves while it grows.
 */
static struct fragment add_pieces(struct fragments *f, const char *const *pieces)
{
	struct fragment fragment = {(uint32_t)f->len, 0};

	for (unsigned i = 0; pieces[i]; i++) {
		if (i % 2)
			add_escaped(f, pieces[i]);
		else
			add_plain(f, pieces[i]);
	}
	fragment.len = (uint32_t)f->len - fragment.off;
	return fragment;
}

#define ADD(f, ...) add_pieces(f, (const char *const[]){__VA_ARGS__, NULL})

/* ---- how much of the table there is ---- */

static void note_struct(struct fragments *f, const struct table_type *type, unsigned depth);

static void note_type(struct fragments *f, unsigned index, unsigned depth)
{
	const struct table_type *type = &table_types[index];

	if (type->kind == TABLE_ENUM && type->ref >= f->nenums)
		f->nenums = (size_t)type->ref + 1;
	if (type->kind == TABLE_STRUCT && depth < 16)
		note_struct(f, type, depth + 1);
}

static void note_struct(struct fragments *f, const struct table_type *type, unsigned depth)
{
	const struct table_struct *structure = &table_structs[type->ref];

	if ((size_t)structure->first + structure->count > f->nfields)
		f->nfields = (size_t)structure->first + structure->count;
	for (unsigned i = 0; i < structure->count; i++)
		note_type(f, table_fields[structure->first + i].type, depth);
}

/* The table does not say how many parameters, fields and enumerations it has: as many as rows reach. */
static void measure_table(struct fragments *f)
{
	for (unsigned r = 0; r < table_nrows; r++) {
		const struct table_row *row = &table_rows[r];

		if ((size_t)row->param + row->nparams > f->nparams)
			f->nparams = (size_t)row->param + row->nparams;
		note_type(f, row->ret_type, 0);
		for (unsigned i = 0; i < row->nparams; i++) {
			const struct table_param *param = &table_params[row->param + i];

			note_type(f, param->type, 0);
			if (param->deref != TABLE_NO_DEREF)
				note_type(f, param->pointee, 0);
		}
	}
}

/* ---- the parts ---- */

static void add_enum(struct fragments *f, size_t index)
{
	const struct table_enum *e = &table_enums[index];
	struct enum_fragments *prepared = &f->enums[index];
	char number[16];

	prepared->max = (uint32_t)strlen(e->name) + FRAGMENTS_MAX_UNKNOWN;
	for (unsigned i = 0; i < e->count; i++) {
		size_t len = strlen(table_enumerators[e->first + i].name) + 2;

		if (len > prepared->max)
			prepared->max = (uint32_t)len;
	}
	for (int value = 0; value < FRAGMENTS_SMALL_ENUM; value++) {
		const char *name = table_enumerator(e, value);

		*put_u64(number, (uint64_t)value) = '\0';
		if (name)
			prepared->small[value] = ADD(f, "\"", name, "\"");
		else
			prepared->small[value] = ADD(f, "\"", e->name, "(", number, ")\"");
	}
}

static void add_row(struct fragments *f, unsigned index)
{
	const struct table_row *row = &table_rows[index];
	struct row_fragments *made = &f->rows[index];
	bool same = !strcmp(row->symbol, row->func);

	made->head = ADD(f, ",\"api\":\"", API_NAME(row->api), "\",\"family\":\"",
			 table_families[row->family].name, "\",\"func\":\"", row->func,
			 same ? "\"" : "\",\"symbol\":\"", same ? "" : row->symbol, same ? "" : "\"");
	made->parent = ADD(f, ",\"parent\":\"", row->func, "\"");
	made->reserve = sizeof(",\"args\":{},\"out\":{,\"return\":}") + NUMBER_MAX_FLOAT;
	if (row->ret != TABLE_RET_STATUS &&
	    values_scalar_max(f, &table_types[row->ret_type]) > NUMBER_MAX_FLOAT)
		made->reserve += (uint32_t)values_scalar_max(f, &table_types[row->ret_type]);
	for (unsigned i = 0; i < row->nparams; i++) {
		const struct table_param *param = &table_params[row->param + i];
		const struct param_fragments *text = &f->params[row->param + i];
		size_t scalar = values_scalar_max(f, &table_types[param->type]);

		/* once in args, once in out; a value that is no scalar can still print as its address */
		made->reserve += 2 * (text->key.len + text->cut.len);
		made->reserve += (uint32_t)(scalar > NUMBER_MAX_HEX ? scalar : NUMBER_MAX_HEX);
	}
}

static void add_constants(struct fragments *f, const struct encoder_options *options)
{
	f->start = ADD(f, "{\"type\":\"call\",\"run\":\"", options->run, "\",\"seq\":");
	f->host = ADD(f, ",\"host\":\"", options->host, "\"");
	f->tail.off = (uint32_t)f->len;
	for (size_t i = 0; i < options->nstatics; i++)
		ADD(f, ",\"", options->statics[i].name, "\":\"", options->statics[i].value, "\"");
	ADD(f, "}\n");
	f->tail.len = (uint32_t)f->len - f->tail.off;
}

static int allocate(struct fragments *f)
{
	f->rows = calloc(table_nrows + 1, sizeof(*f->rows));
	f->params = calloc(f->nparams + 1, sizeof(*f->params));
	f->fields = calloc(f->nfields + 1, sizeof(*f->fields));
	f->enums = calloc(f->nenums + 1, sizeof(*f->enums));
	if (!f->rows || !f->params || !f->fields || !f->enums)
		return -ENOMEM;
	for (int api = 0; api < TABLE_NAPIS; api++) {
		f->errors[api] = calloc(table_nerrors[api] + 1, sizeof(*f->errors[api]));
		if (!f->errors[api])
			return -ENOMEM;
	}
	return 0;
}

/* Everything but the event's numbers and names, see json.c. */
static size_t longest_line(const struct fragments *f)
{
	size_t rows = 0, parents = 0, errors = 0;

	for (unsigned r = 0; r < table_nrows; r++) {
		size_t row = f->rows[r].head.len + f->rows[r].reserve;

		rows = row > rows ? row : rows;
		parents = f->rows[r].parent.len > parents ? f->rows[r].parent.len : parents;
	}
	for (int api = 0; api < TABLE_NAPIS; api++)
		for (unsigned i = 0; i < table_nerrors[api]; i++)
			if (f->errors[api][i].len > errors)
				errors = f->errors[api][i].len;
	return f->start.len + f->host.len + rows + parents + errors + f->tail.len;
}

int fragments_make(struct fragments *f, const struct encoder_options *options)
{
	measure_table(f);
	f->error = allocate(f);
	if (f->error)
		return f->error;
	for (size_t i = 0; i < f->nparams; i++) {
		const char *name = table_params[i].name;

		f->params[i].key = ADD(f, ",\"", name, "\":");
		f->params[i].cut = ADD(f, ",\"", name, "_cut\":true");
	}
	for (size_t i = 0; i < f->nfields; i++)
		f->fields[i] = ADD(f, ",\"", table_fields[i].name, "\":");
	for (size_t i = 0; i < f->nenums; i++)
		add_enum(f, i);
	for (int api = 0; api < TABLE_NAPIS; api++)
		for (unsigned i = 0; i < table_nerrors[api]; i++)
			f->errors[api][i] =
				ADD(f, ",\"error\":\"", table_errors[api][i].name, "\",\"error_message\":\"",
				    table_errors[api][i].message, "\"");
	for (unsigned r = 0; r < table_nrows; r++)
		add_row(f, r);
	add_constants(f, options);
	if (!f->error && longest_line(f) + FRAGMENTS_HEAD_MAX + FRAGMENTS_ROOM > ENCODE_MAX_LINE)
		f->error = -E2BIG;
	return f->error;
}

void fragments_free(struct fragments *f)
{
	free(f->text);
	free(f->rows);
	free(f->params);
	free(f->fields);
	free(f->enums);
	for (int api = 0; api < TABLE_NAPIS; api++)
		free(f->errors[api]);
}
