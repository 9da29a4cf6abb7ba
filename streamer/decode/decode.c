/*
 * From a ring record to a call: checks that the record agrees with its row's
 * plan and points at each value in it.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "keys.h"

#define CUDA_NOT_READY 600 /* cudaErrorNotReady, CUDA_ERROR_NOT_READY: an answer, not a failure */

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static uint16_t op_type(const struct table_row *row, unsigned param)
{
	const struct table_param *p = &table_params[row->param + param];

	return p->deref == TABLE_NO_DEREF ? p->type : p->pointee;
}

/* Where a slot's value belongs. */
static struct call_value *slot_target(struct call *call, unsigned param, bool on_return)
{
	const struct table_param *p;

	if (param == TABLE_NONE)
		return &call->ret_string;
	if (on_return)
		return &call->out[param];
	p = &table_params[call->row->param + param];
	return p->deref == TABLE_NO_DEREF ? &call->arg[param] : &call->in[param];
}

static void take_args(const struct plan *plan, struct call *call)
{
	unsigned i;

	for (i = 0; i < call->row->nparams && i < DECODE_MAX_PARAMS; i++) {
		const struct table_param *param = &table_params[call->row->param + i];
		const struct table_place *place = &param->place[plan_host_abi()];

		if (plan->word[i] == TABLE_NONE || place->where == TABLE_REF ||
		    place->where == TABLE_STACKREF)
			continue;
		call->arg[i].data = call->words + plan->word[i];
		call->arg[i].len = table_types[param->type].size;
		call->arg[i].type = param->type;
		if (call->arg[i].len > 8u * place->words)
			call->arg[i].data = NULL;
	}
}

static size_t longest_slot(const struct call *call)
{
	return call->rec->kind == REC_NAME ? REC_MAX_NAME : REC_MAX_SLOT;
}

/* Slots from data to end, in op order; -EBADMSG when one reaches beyond the record. */
static int take_slots(const struct plan *plan, struct call *call, const uint8_t *data, const uint8_t *end)
{
	unsigned i;

	for (i = 0; i < plan->desc.nops && end - data >= (ptrdiff_t)sizeof(struct rec_slot); i++) {
		const struct rec_slot *slot = (const void *)data;
		size_t len = slot->len > 0 ? slot->len : 0;
		bool on_return = plan->desc.ops[i].flags & REC_ON_RETURN;
		struct call_value *value = slot_target(call, plan->op_param[i], on_return);

		data += sizeof(*slot);
		if (len > longest_slot(call) || padded(len) > (size_t)(end - data))
			return -EBADMSG;
		if (slot->len >= 0) {
			value->data = data;
			value->len = len;
			value->count = slot->count;
			value->type = plan->op_param[i] == TABLE_NONE ? call->row->ret_type
								      : op_type(call->row, plan->op_param[i]);
		}
		data += padded(len);
	}
	return i < plan->desc.nentry || data != end ? -EBADMSG : 0;
}

static void take_status(struct call *call)
{
	const struct table_row *row = call->row;

	call->ret = (int32_t)call->rec->ret;
	call->status = CALL_OK;
	if (call->rec->flags & REC_F_UNFINISHED || call->rec->kind == REC_OPEN) {
		call->status = CALL_UNFINISHED;
		return;
	}
	if (row->ret != TABLE_RET_STATUS || call->ret == 0)
		return;
	call->error = table_error(row->api, call->ret);
	if (call->ret == CUDA_NOT_READY)
		call->status = CALL_NOT_READY;
	else if (!(row->flags & TABLE_REPORTS_ERROR))
		call->status = CALL_ERROR;
}

int decode_call(const struct plan *plans, const struct rec_call *rec, size_t size, struct call *call)
{
	const uint8_t *data = (const void *)(rec + 1), *end = (const uint8_t *)rec + size;
	const struct plan *plan;
	size_t words;
	int err;

	if (size < sizeof(*rec) ||
	    (rec->kind != REC_CALL && rec->kind != REC_NAME && rec->kind != REC_OPEN) ||
	    (rec->cookie & 0xffff) >= table_nrows || (rec->parent_cookie & 0xffff) >= table_nrows)
		return -EBADMSG;
	memset(call, 0, sizeof(*call));
	call->rec = rec;
	call->row_id = rec->cookie & 0xffff;
	call->attach_id = rec->cookie >> 16;
	call->row = &table_rows[call->row_id];
	plan = &plans[call->row_id];
	words = plan->desc.nregs + plan->desc.nstack;
	if ((size_t)(end - data) < 8 * words)
		return -EBADMSG;
	call->words = (const void *)data;
	take_args(plan, call);
	err = take_slots(plan, call, data + 8 * words, end);
	if (err)
		return err;
	take_status(call);
	keys_make(call);
	return 0;
}
