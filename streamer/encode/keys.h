/* Normalised keys and arguments of a call, in the encoder's dialect: what all formats have in common. */
#ifndef CUDATAP_ENCODE_KEYS_H
#define CUDATAP_ENCODE_KEYS_H

#include "../enrich/processes.h"
#include "values.h"

/** put_keys - append the normalised keys that are there and wanted, unchecked: in the order of the table's
 * ids */
char *put_keys(char *p, const struct fragments *f, const struct call *call);

/**
 * put_unknown_error - append the name of a status that the table does not have: cudaError_t(12345)
 * As an unknown enumerator, without quotes.
 */
char *put_unknown_error(char *p, const struct call *call);

/** put_name - append text of any bytes between a key's two fragments, unchecked; nothing when it is empty or
 * the key is not wanted */
char *put_name(char *p, const struct fragments *f, enum encode_field field, const char *name);

/** put_prepared - append what is the inside of a JSON string already, likewise */
static inline char *put_prepared(char *p, const struct fragments *f, enum encode_field field,
				 const struct process_text *text)
{
	if (!text->data || !f->open[field].len)
		return p;
	p = put_fragment(p, f->text, f->open[field]);
	p = put_bytes(p, text->data, text->len);
	return put_fragment(p, f->text, f->close[field]);
}

/** put_number - append a number between a key's two fragments, unchecked; nothing when the key is not wanted
 */
static inline char *put_number(char *p, const struct fragments *f, enum encode_field field, uint64_t value)
{
	if (!f->open[field].len)
		return p;
	p = put_fragment(p, f->text, f->open[field]);
	p = put_u64(p, value);
	return put_fragment(p, f->text, f->close[field]);
}

static inline char *put_signed(char *p, const struct fragments *f, enum encode_field field, int64_t value)
{
	if (!f->open[field].len)
		return p;
	p = put_fragment(p, f->text, f->open[field]);
	p = put_i64(p, value);
	return put_fragment(p, f->text, f->close[field]);
}

/** put_environ - append the process's variables that are known and wanted, a member each, unchecked */
char *put_environ(char *p, const struct fragments *f, const struct process *process);

/**
 * put_object_end - members that each brought a comma become an object, or nothing
 * @p: behind them; @members: where they begin; @start: where the object's own key does
 */
static inline char *put_object_end(char *p, char *start, char *members)
{
	if (p == members)
		return start;
	*members = '{';
	*p++ = '}';
	return p;
}

/** put_nesting - append `depth` and `parent`, unchecked */
static inline char *put_nesting(char *p, const struct fragments *f, const struct rec_call *rec)
{
	unsigned parent = rec->parent_cookie & 0xffff;

	p = put_number(p, f, FIELD_DEPTH, rec->depth);
	if (rec->depth && parent < table_nrows)
		p = put_fragment(p, f->text, f->rows[parent].parent);
	return p;
}

/** put_weight - append `sample_n` where a call stands for more than itself, unchecked */
static inline char *put_weight(char *p, const struct fragments *f, const struct rec_call *rec)
{
	return rec->sample_n > 1 ? put_number(p, f, FIELD_SAMPLE_N, rec->sample_n) : p;
}

/**
 * write_arguments - append `args` and `out`, as far as there is room
 * @limit: where the line's end must begin
 * Returns the place behind them.
 */
char *write_arguments(const struct fragments *f, const struct call *call, char *p, const char *limit);

#endif
