/* What the lines of one encoder have in common: making it from the table and the options. */
#include "fragments.h"

#include <errno.h>
#include <stdlib.h>

#include "escape.h"
#include "format.h"
#include "number.h"
#include "values.h"

#define FIRST_SIZE 65536

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

/* Fragments are found by offset, as the arena moves while it grows. */
struct fragment fragments_add(struct fragments *f, const char *const *pieces)
{
	size_t start = f->len;

	for (unsigned i = 0; pieces[i]; i++) {
		if (i % 2)
			add_escaped(f, pieces[i]);
		else
			add_plain(f, pieces[i]);
	}
	return fragments_since(f, start);
}

void fragments_add_env(struct fragments *f, const struct encoder_options *options, const char *open,
		       const char *close, const char *end)
{
	if (!fragments_wanted(f, FIELD_ENVIRON))
		return;
	f->env_close = FRAGMENT(f, end);
	for (; f->nenv < options->nenv && f->nenv < ENVIRONS_MAX_NAMES; f->nenv++) {
		f->env[f->nenv] = FRAGMENT(f, open, options->env[f->nenv], close);
		f->env_len += f->env[f->nenv].len + f->env_close.len;
	}
}

/* ---- how much of the table there is ---- */

static void note_struct(struct fragments *f, const struct table_type *type, unsigned depth);
static void note_union(struct fragments *f, const struct table_type *type, unsigned depth);

static void note_type(struct fragments *f, unsigned index, unsigned depth)
{
	const struct table_type *type = &table_types[index];

	if (type->kind == TABLE_ENUM && type->ref >= f->nenums)
		f->nenums = (size_t)type->ref + 1;
	if (type->kind == TABLE_STRUCT && depth < 16)
		note_struct(f, type, depth + 1);
	if (type->kind == TABLE_UNION && depth < 16)
		note_union(f, type, depth + 1);
}

static void note_struct(struct fragments *f, const struct table_type *type, unsigned depth)
{
	const struct table_struct *structure = &table_structs[type->ref];

	if ((size_t)structure->first + structure->count > f->nfields)
		f->nfields = (size_t)structure->first + structure->count;
	for (unsigned i = 0; i < structure->count; i++)
		note_type(f, table_fields[structure->first + i].type, depth);
}

static void note_union(struct fragments *f, const struct table_type *type, unsigned depth)
{
	const struct table_union *u = &table_unions[type->ref];

	for (unsigned i = 0; i < u->count; i++) {
		uint16_t field = table_variants[u->first + i].field;

		if (field >= f->nfields)
			f->nfields = (size_t)field + 1;
		note_type(f, table_fields[field].type, depth);
	}
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
	const struct enclosure *text = &f->dialect->text;
	uint32_t around = text->open_len + text->close_len;
	struct enum_fragments *prepared = &f->enums[index];
	char number[16];

	prepared->max = (uint32_t)strlen(e->name) + around + FRAGMENTS_MAX_UNKNOWN;
	for (unsigned i = 0; i < e->count; i++) {
		uint32_t len = (uint32_t)strlen(table_enumerators[e->first + i].name) + around;

		if (len > prepared->max)
			prepared->max = len;
	}
	for (int value = 0; value < FRAGMENTS_SMALL_ENUM; value++) {
		const char *name = table_enumerator(e, value);

		*put_u64(number, (uint64_t)value) = '\0';
		if (name)
			prepared->small[value] = FRAGMENT(f, text->open, name, text->close);
		else
			prepared->small[value] =
				FRAGMENT(f, text->open, e->name, "(", number, ")", "", text->close);
	}
}

/* The key of a member with this name, and the member that marks it as cut. @in: the object's own name where
 * it stands in front. */
static void add_member(struct fragments *f, const char *in, const char *name, struct fragment *ret_key,
		       struct fragment *ret_cut)
{
	const struct dialect *dialect = f->dialect;

	*ret_key = FRAGMENT(f, dialect->key_open, in, "", name, dialect->key_close);
	*ret_cut = FRAGMENT(f, dialect->key_open, in, "", name, "_cut", "", dialect->key_close, "",
			    dialect->yes, "", dialect->member_close);
}

static bool is_redacted(const struct encoder_options *options, const char *name)
{
	for (size_t i = 0; i < options->nredact; i++)
		if (!strcmp(options->redact[i], name))
			return true;
	return false;
}

static void add_param(struct fragments *f, size_t index, const struct encoder_options *options)
{
	struct param_fragments *param = &f->params[index];
	const char *name = table_params[index].name;

	param->redacted = is_redacted(options, name);
	if (f->dialect->nested_args) {
		add_member(f, "", name, &param->key[0], &param->cut[0]);
		param->key[1] = param->key[0];
		param->cut[1] = param->cut[0];
	} else {
		add_member(f, "cuda.args.", name, &param->key[FRAGMENTS_IN_ARGS],
			   &param->cut[FRAGMENTS_IN_ARGS]);
		add_member(f, "cuda.out.", name, &param->key[FRAGMENTS_IN_OUT],
			   &param->cut[FRAGMENTS_IN_OUT]);
	}
}

/* Bytes that a row's arguments take when all are scalars. */
static uint32_t row_reserve(const struct fragments *f, const struct table_row *row)
{
	size_t hex = f->dialect->scalars[TABLE_HEX].max;
	size_t reserve = f->ret_key.len + f->ret_cut.len + f->dialect->member_close_len +
			 f->dialect->scalars[TABLE_FLOAT].max + f->open[FIELD_ARGS].len +
			 f->open[FIELD_OUT].len + sizeof("{}{}");

	if (row->ret != TABLE_RET_STATUS)
		reserve += values_scalar_max(f, &table_types[row->ret_type]);
	for (unsigned i = 0; i < row->nparams; i++) {
		const struct param_fragments *text = &f->params[row->param + i];
		size_t scalar = values_scalar_max(f, &table_types[table_params[row->param + i].type]);

		/* once in args, once in out; a value that is no scalar can still print as its address */
		for (int where = 0; where < 2; where++)
			reserve += text->key[where].len + text->cut[where].len + f->dialect->member_close_len;
		reserve += scalar > hex ? scalar : hex;
		if (text->redacted)
			reserve += 2 * strlen(f->dialect->redacted);
	}
	return (uint32_t)reserve;
}

/* What a redacted argument holds is not told by a normalised key either. */
static bool from_redacted(const struct fragments *f, const struct table_row *row, const struct table_key *key)
{
	for (unsigned i = 0; i < key->noperands; i++) {
		const struct table_operand *operand = &table_operands[key->operand + i];

		if (operand->source != TABLE_FROM_CONST && operand->param < row->nparams &&
		    f->params[row->param + operand->param].redacted)
			return true;
	}
	return false;
}

static uint32_t row_keys(const struct fragments *f, const struct table_row *row)
{
	static const uint8_t fields[TABLE_NKEYS] = {
		[TABLE_KEY_BYTES] = FIELD_BYTES,
		[TABLE_KEY_DIRECTION] = FIELD_DIRECTION,
		[TABLE_KEY_DEVICE] = FIELD_DEVICE,
		[TABLE_KEY_STREAM] = FIELD_STREAM,
		[TABLE_KEY_GRID] = FIELD_GRID,
		[TABLE_KEY_BLOCK] = FIELD_BLOCK,
		[TABLE_KEY_PTR] = FIELD_PTR,
		[TABLE_KEY_SHARED_BYTES] = FIELD_SHARED_BYTES,
		[TABLE_KEY_SRC_PTR] = FIELD_SRC_PTR,
		[TABLE_KEY_KERNEL_HANDLE] = FIELD_KERNEL_HANDLE, /* and the name, see keys.c */
	};
	uint32_t wanted = 0;

	for (unsigned k = 0; k < TABLE_NKEYS; k++)
		if (k == TABLE_KEY_KERNEL_HANDLE || fragments_wanted(f, fields[k]))
			wanted |= 1u << k;
	for (unsigned i = 0; i < row->nkeys; i++)
		if (from_redacted(f, row, &table_keys[row->key + i]))
			wanted &= ~(1u << table_keys[row->key + i].key);
	return wanted;
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

static void longer(size_t *longest, size_t len)
{
	if (len > *longest)
		*longest = len;
}

/* Everything but the numbers and names that differ from event to event. */
static size_t longest_line(const struct fragments *f)
{
	size_t rows = 0, parents = 0, errors = 0, statuses = 0, fields = 0;

	for (unsigned r = 0; r < table_nrows; r++) {
		const struct row_fragments *row = &f->rows[r];

		longer(&rows, (size_t)row->first.len + row->second.len + row->reserve);
		longer(&parents, row->parent.len);
	}
	for (int api = 0; api < TABLE_NAPIS; api++)
		for (unsigned i = 0; i < table_nerrors[api]; i++)
			longer(&errors, (size_t)f->errors[api][i].first.len + f->errors[api][i].second.len);
	for (unsigned i = 0; i < sizeof(f->status) / sizeof(f->status[0]); i++)
		longer(&statuses, (size_t)f->status[i].first.len + f->status[i].second.len);
	for (unsigned i = 0; i < NFIELDS; i++)
		fields += f->open[i].len + f->close[i].len;
	return f->start.len + f->middle.len + f->object.len + f->who.len + f->labels.len + f->env_len + rows +
	       parents + errors + statuses + fields + f->tail.len;
}

static void add_table(struct fragments *f, const struct encoder_options *options)
{
	for (size_t i = 0; i < f->nparams; i++)
		add_param(f, i, options);
	add_member(f, f->dialect->nested_args ? "" : "cuda.out.", "return", &f->ret_key, &f->ret_cut);
	for (size_t i = 0; i < f->nfields; i++)
		f->fields[i] = FRAGMENT(f, f->dialect->key_open, table_fields[i].name, f->dialect->key_close);
	for (size_t i = 0; i < f->nenums; i++)
		add_enum(f, i);
}

int fragments_make(struct fragments *f, const struct encode_format *format,
		   const struct encoder_options *options)
{
	f->dialect = format->dialect;
	f->without = options->without & ~(FIELD_BIT(FIELD_FIRST_OPTIONAL) - 1);
	measure_table(f);
	f->error = allocate(f);
	if (f->error)
		return f->error;
	add_table(f, options);
	format->prepare(f, options);
	for (unsigned r = 0; r < table_nrows; r++) {
		f->rows[r].reserve = row_reserve(f, &table_rows[r]);
		f->rows[r].keys = row_keys(f, &table_rows[r]);
	}
	if (!f->error &&
	    longest_line(f) + FRAGMENTS_HEAD_MAX + FRAGMENTS_WHO_MAX + FRAGMENTS_ROOM > ENCODE_MAX_LINE)
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
