/*
 * Plans: from a row of the API table to the descriptor that the BPF program
 * copies by, and to the places where the decoder finds each parameter again.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"

enum table_abi plan_host_abi(void)
{
#if defined(__aarch64__)
	return TABLE_AARCH64;
#else
	return TABLE_X86_64;
#endif
}

static const unsigned abi_regs[TABLE_NABIS] = {[TABLE_X86_64] = 6, [TABLE_AARCH64] = 8};

static const struct table_param *param_of(const struct table_row *row, unsigned i)
{
	return &table_params[row->param + i];
}

/* words[] index of a place's first word, given how many registers come first. */
static uint8_t place_word(struct table_place place, unsigned nregs)
{
	unsigned word;

	switch (place.where) {
	case TABLE_REG:
	case TABLE_REF:
		word = place.index;
		return word + place.words <= nregs ? word : TABLE_NONE;
	case TABLE_STACK:
	case TABLE_STACKREF:
		word = nregs + place.index;
		return place.index + place.words <= REC_MAX_STACK ? word : TABLE_NONE;
	default:
		return TABLE_NONE;
	}
}

/* How many argument registers and stack words the parameters reach. */
static void plan_words(const struct table_row *row, enum table_abi abi, struct plan *plan)
{
	unsigned i, used_regs = 0, stack = 0, end;

	for (i = 0; i < row->nparams && i < DECODE_MAX_PARAMS; i++) {
		struct table_place place = param_of(row, i)->place[abi];

		end = place.index + (place.words ? place.words : 1);
		if ((place.where == TABLE_REG || place.where == TABLE_REF) && end > used_regs)
			used_regs = end;
		if ((place.where == TABLE_STACK || place.where == TABLE_STACKREF) && end > stack)
			stack = end;
	}
	if (stack > REC_MAX_STACK)
		stack = REC_MAX_STACK;
	/* stack words follow the registers: with any of them all registers are recorded */
	if (stack || used_regs > abi_regs[abi])
		used_regs = abi_regs[abi];
	plan->desc.nregs = used_regs;
	plan->desc.nstack = stack;
	for (i = 0; i < DECODE_MAX_PARAMS; i++)
		plan->word[i] =
			i < row->nparams ? place_word(param_of(row, i)->place[abi], used_regs) : TABLE_NONE;
}

/* The most bytes that a slot of this op takes, header included. */
static unsigned op_room(const struct rec_op *op)
{
	unsigned size = op->kind == REC_OP_ARRAY || op->kind == REC_OP_COUNTED ? REC_MAX_SLOT : op->size;

	return sizeof(struct rec_slot) + (size + 7) / 8 * 8;
}

static bool by_reference(struct table_place place)
{
	return place.where == TABLE_REF || place.where == TABLE_STACKREF;
}

/* The op that reads for one parameter; false when nothing is to be read. */
static bool param_op(const struct table_row *row, unsigned i, enum table_abi abi, const struct plan *plan,
		     struct rec_op *op)
{
	const struct table_param *param = param_of(row, i);
	const struct table_type *pointee = &table_types[param->pointee];

	memset(op, 0, sizeof(*op));
	op->arg = plan->word[i];
	if (op->arg == TABLE_NONE)
		return false;
	if (by_reference(param->place[abi])) {
		op->kind = REC_OP_MEM;
		op->size = table_types[param->type].size;
		return op->size <= REC_MAX_SLOT;
	}
	if (param->deref == TABLE_NO_DEREF)
		return false;
	if (param->deref == TABLE_OUT)
		op->flags |= REC_ON_RETURN;
	op->size = pointee->size;
	if (pointee->kind == TABLE_STRING) {
		op->kind = param->deref == TABLE_IN ? REC_OP_STRING : REC_OP_STRING_PTR;
		op->size = REC_MAX_SLOT;
		return true;
	}
	if (pointee->kind == TABLE_CHARS) {
		op->kind = REC_OP_STRING;
		op->size = pointee->size && pointee->size < REC_MAX_SLOT ? pointee->size : REC_MAX_SLOT;
		return true;
	}
	if (param->count == TABLE_NONE) {
		op->kind = REC_OP_MEM;
		return op->size && op->size <= REC_MAX_SLOT;
	}
	op->kind = param->count_is_pointer ? REC_OP_COUNTED : REC_OP_ARRAY;
	op->arg2 = plan->word[param->count];
	if (param->count_is_pointer ? table_types[param_of(row, param->count)->pointee].size == 8
				    : table_types[param_of(row, param->count)->type].size == 8)
		op->flags |= REC_COUNT64;
	return op->arg2 != TABLE_NONE && op->size && op->size <= REC_MAX_SLOT;
}

static unsigned add_ops(const struct table_row *row, enum table_abi abi, struct plan *plan, bool on_return,
			unsigned room)
{
	struct rec_op op;
	unsigned i;

	for (i = 0; i < row->nparams && i < DECODE_MAX_PARAMS; i++) {
		if (plan->desc.nops == REC_MAX_OPS)
			break;
		if (!param_op(row, i, abi, plan, &op) || !!(op.flags & REC_ON_RETURN) != on_return)
			continue;
		if (op_room(&op) > room)
			continue;
		room -= op_room(&op);
		plan->op_param[plan->desc.nops] = i;
		plan->desc.ops[plan->desc.nops++] = op;
	}
	return room;
}

/* The payload, where it is a register as it was passed: unsigned, so that it needs no more than a comparison.
 */
static void plan_bytes(const struct table_row *row, unsigned regs, struct plan *plan)
{
	const struct table_operand *op;
	const struct table_type *type;
	const struct table_key *key;

	for (unsigned i = 0; i < row->nkeys; i++) {
		key = &table_keys[row->key + i];
		op = &table_operands[key->operand];
		if (key->key != TABLE_KEY_BYTES || key->mode != TABLE_VALUE || key->noperands != 1 ||
		    op->source != TABLE_FROM_ARG || op->param >= DECODE_MAX_PARAMS ||
		    plan->word[op->param] >= regs)
			continue;
		type = &table_types[param_of(row, op->param)->type];
		if (type->kind != TABLE_UINT || (type->size != 4 && type->size != 8))
			continue;
		plan->desc.bytes_word = plan->word[op->param];
		plan->desc.bytes_size = type->size;
	}
}

void plan_make(unsigned id, enum table_abi abi, struct plan *plan)
{
	const struct table_row *row = &table_rows[id];
	unsigned room;

	memset(plan, 0, sizeof(*plan));
	memset(plan->op_param, TABLE_NONE, sizeof(plan->op_param));
	plan_words(row, abi, plan);
	plan->desc.success = row->ret == TABLE_RET_STATUS ? REC_SUCCESS_ZERO : REC_SUCCESS_ALWAYS;
	plan->desc.api = row->api;
	plan->desc.reports = !!(row->flags & TABLE_REPORTS_ERROR);
	plan_bytes(row, abi_regs[abi], plan);
	room = REC_MAX_DATA - 8 * (plan->desc.nregs + plan->desc.nstack);
	room = add_ops(row, abi, plan, false, room);
	plan->desc.nentry = plan->desc.nops;
	room = add_ops(row, abi, plan, true, room);
	if (row->ret == TABLE_RET_STRING && plan->desc.nops < REC_MAX_OPS && room >= REC_MAX_SLOT + 8)
		plan->desc.ops[plan->desc.nops++] = (struct rec_op){.kind = REC_OP_STRING,
								    .flags = REC_ON_RETURN,
								    .arg = REC_ARG_RET,
								    .size = REC_MAX_SLOT};
}

struct plan *plan_all(enum table_abi abi)
{
	struct plan *plans = calloc(table_nrows, sizeof(*plans));
	unsigned i;

	for (i = 0; plans && i < table_nrows; i++)
		plan_make(i, abi, &plans[i]);
	return plans;
}
