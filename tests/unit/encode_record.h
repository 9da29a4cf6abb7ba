/*
 * Ring records for tests: made by a row's plan, as the BPF program would make
 * them. For the encoder's tests, fuzz target and benchmark.
 */
#ifndef CUDATAP_TEST_RECORD_H
#define CUDATAP_TEST_RECORD_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../../streamer/decode/decode.h"

struct record {
	const struct plan *plan;
	unsigned row, op; /* op: the next slot's */
	size_t size;
	_Alignas(8) unsigned char bytes[sizeof(struct rec_call) + REC_MAX_DATA + 64];
};

static inline struct rec_call *record_call(struct record *record)
{
	return (struct rec_call *)record->bytes;
}

static inline uint64_t *record_words(struct record *record)
{
	return (uint64_t *)(record->bytes + sizeof(struct rec_call));
}

/* A finished call of the row: words zero, no slots yet. */
static inline void record_begin(struct record *record, const struct plan *plans, unsigned row)
{
	memset(record, 0, sizeof(*record));
	record->plan = &plans[row];
	record->row = row;
	record->size = sizeof(struct rec_call) + 8u * (record->plan->desc.nregs + record->plan->desc.nstack);
	*record_call(record) = (struct rec_call){
		.kind = REC_CALL,
		.cookie = 7 << 16 | row,
		.pid_tgid = 42424242424242,
		.start_ns = 1000000000,
		.end_ns = 1000011834,
	};
}

/* The next slot, in op order; a negative len is a failed read. */
static inline void record_slot(struct record *record, const void *data, int len, uint32_t count)
{
	struct rec_slot slot = {.len = len, .count = count};
	size_t bytes = len > 0 ? (size_t)len : 0;

	assert(record->op < record->plan->desc.nops);
	assert(record->size + sizeof(slot) + bytes + 7 <= sizeof(record->bytes));
	memcpy(record->bytes + record->size, &slot, sizeof(slot));
	record->size += sizeof(slot);
	if (bytes)
		memcpy(record->bytes + record->size, data, bytes);
	record->size += (bytes + 7) & ~(size_t)7;
	record->op++;
}

/* The value of a parameter's first word, by name. */
static inline void record_param(struct record *record, const char *name, uint64_t value)
{
	const struct table_row *row = &table_rows[record->row];

	for (unsigned i = 0; i < row->nparams; i++) {
		if (strcmp(table_params[row->param + i].name, name))
			continue;
		assert(record->plan->word[i] != TABLE_NONE);
		record_words(record)[record->plan->word[i]] = value;
		return;
	}
	assert(!"no parameter of this name");
}

static inline unsigned record_row(enum table_api api, const char *symbol)
{
	int found = -1;

	/* of several shapes the newest: the last */
	for (unsigned r = 0; r < table_nrows; r++)
		if (table_rows[r].api == api && !strcmp(table_rows[r].symbol, symbol))
			found = (int)r;
	assert(found >= 0);
	return (unsigned)found;
}

/* ---- random records ---- */

/* xorshift64*: the same sequence everywhere */
static inline uint64_t record_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1d;
}

/* Numbers at the limits of their widths as often as any others. */
static inline uint64_t record_random_word(uint64_t *state)
{
	static const uint64_t limits[] = {
		0,
		1,
		9,
		10,
		99,
		100,
		127,
		128,
		255,
		256,
		32767,
		32768,
		65535,
		65536,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		1ull << 53,
		INT64_MAX,
		1ull << 63,
		UINT64_MAX,
		UINT64_MAX - 1,
		0xffffffff80000000,
	};
	uint64_t choice = record_random(state);

	switch (choice >> 60 & 3) {
	case 0:
		return limits[choice % (sizeof(limits) / sizeof(limits[0]))];
	case 1:
		return choice & 0x3f;
	default:
		return record_random(state) >> (choice & 63);
	}
}

static inline void record_random_bytes(uint64_t *state, unsigned char *bytes, size_t n, bool text)
{
	static const char pieces[] =
		"abcdefgh 0123456789_:<>,\"\\\n\t\x01\x1f\x7f/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc0";

	for (size_t i = 0; i < n; i++)
		bytes[i] = text ? (unsigned char)pieces[record_random(state) % (sizeof(pieces) - 1)]
				: (unsigned char)record_random_word(state);
}

/* Most random tags have no member: let the unions of a structure have one of theirs. */
static inline void record_random_tags(uint64_t *state, const struct table_type *type, unsigned char *bytes)
{
	const struct table_struct *s = &table_structs[type->ref];

	for (unsigned i = 0; type->kind == TABLE_STRUCT && i < s->count; i++) {
		const struct table_type *field = &table_types[table_fields[s->first + i].type];
		const struct table_union *u = &table_unions[field->ref];

		if (field->kind == TABLE_UNION)
			memcpy(bytes + u->tag,
			       &table_variants[u->first + record_random(state) % u->count].value,
			       sizeof(int32_t));
	}
}

/* One slot of the next op, as BPF could have read it. */
static inline void record_random_slot(struct record *record, uint64_t *state)
{
	const struct rec_op *op = &record->plan->desc.ops[record->op];
	bool string = op->kind == REC_OP_STRING || op->kind == REC_OP_STRING_PTR;
	unsigned char bytes[REC_MAX_SLOT];
	uint32_t count = 0;
	size_t len = op->size;

	if (record_random(state) % 8 == 0) {
		record_slot(record, NULL, -1, 0);
		return;
	}
	if (string) {
		len = record_random(state) % (op->size + 1u);
		count = len == op->size;
	} else if (op->kind == REC_OP_ARRAY || op->kind == REC_OP_COUNTED) {
		count = (uint32_t)(record_random(state) % 3 ? record_random(state) % 8
							    : record_random_word(state));
		len = count < REC_MAX_SLOT / op->size ? count * op->size : REC_MAX_SLOT / op->size * op->size;
	}
	record_random_bytes(state, bytes, len, string || record_random(state) % 2);
	if (!string && record->plan->op_param[record->op] != TABLE_NONE && record_random(state) % 4) {
		const struct table_param *param =
			&table_params[table_rows[record->row].param + record->plan->op_param[record->op]];

		for (size_t i = 0; param->deref != TABLE_NO_DEREF && i + op->size <= len; i += op->size)
			record_random_tags(state, &table_types[param->pointee], bytes + i);
	}
	record_slot(record, bytes, (int)len, count);
}

/* A call of the row with random values and any ending. */
static inline void record_fill_random(struct record *record, const struct plan *plans, unsigned row,
				      uint64_t *state)
{
	struct rec_call *call = record_call(record);
	const struct rec_desc *desc = &plans[row].desc;
	bool status = table_rows[row].ret == TABLE_RET_STATUS;
	static const uint64_t codes[] = {
		0, 0, 0, 1, 2, 35, 100, 600, 700, 12345, 0xdead00000000, 0xffffffffffffffff};

	record_begin(record, plans, row);
	call->start_ns = record_random(state) >> 1;
	call->end_ns = call->start_ns + record_random_word(state) % ((uint64_t)1 << 62);
	call->depth = (unsigned char)(record_random(state) % 3);
	call->parent_cookie = call->depth ? record_random(state) % table_nrows : 0;
	call->sample_n = record_random(state) % 2 ? (uint32_t)(record_random(state) % 1000000001) : 0;
	call->ret = status ? codes[record_random(state) % (sizeof(codes) / sizeof(codes[0]))]
			   : record_random_word(state);
	call->flags = record_random(state) % 16 == 0 ? REC_F_UNFINISHED : 0;
	for (unsigned i = 0; i < (unsigned)desc->nregs + desc->nstack; i++)
		record_words(record)[i] = record_random_word(state);
	while (record->op < desc->nentry)
		record_random_slot(record, state);
	if (call->flags & REC_F_UNFINISHED || (status && (uint32_t)call->ret != 0))
		return;
	while (record->op < desc->nops)
		record_random_slot(record, state);
}

#endif
