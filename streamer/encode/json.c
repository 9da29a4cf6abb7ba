/*
 * The format "json": one flat object per call, keys in a fixed order (see
 * docs/event-schema.md).
 *
 * A line is put together from prepared fragments and numbers, appended
 * unchecked. What bounds it: the fragments of the longest row, parent and
 * error, FRAGMENTS_HEAD_MAX for everything else before `args`, the row's
 * reserve for scalar arguments, and the constant tail are known to leave
 * FRAGMENTS_ROOM when the encoder is made; strings, arrays and structures
 * then share what really is left.
 */
#include <stdlib.h>

#include "escape.h"
#include "format.h"
#include "values.h"

#define CLOSING 64 /* brackets of values that just fitted */

/* ---- who made the call ---- */

#define MAX_IDS  80 /* ,"pid":,"ns_pid":,"tid": with their numbers */
#define MAX_NAME (ESCAPE_GROWTH * REC_COMM_LEN + sizeof(",\"thread\":\"\""))

static char *put_name(char *p, const char *key, size_t key_len, const char *name)
{
	if (!name[0])
		return p;
	p = put_bytes(p, key, key_len);
	p = put_escaped(p, name, strlen(name));
	*p++ = '"';
	return p;
}

static char *make_prefix(char *p, const struct fragments *f, const struct thread *thread)
{
	p = put_fragment(p, f->text, f->host);
	p = PUT_LITERAL(p, ",\"pid\":");
	p = put_u64(p, thread->pid);
	if (thread->ns_pid) {
		p = PUT_LITERAL(p, ",\"ns_pid\":");
		p = put_u64(p, thread->ns_pid);
	}
	p = PUT_LITERAL(p, ",\"tid\":");
	p = put_u64(p, thread->tid);
	p = put_name(p, ",\"comm\":\"", 9, thread->comm);
	return put_name(p, ",\"thread\":\"", 11, thread->thread);
}

static char *put_thread(char *p, const struct encoder *encoder, struct thread *thread)
{
	struct thread_prefix *prefix = &thread->prefix[encoder->slot];

	if (!prefix->data) {
		prefix->data = malloc(encoder->fragments.host.len + MAX_IDS + 2 * MAX_NAME + PUT_SLACK);
		if (!prefix->data)
			return make_prefix(p, &encoder->fragments, thread);
		prefix->len =
			(uint32_t)(make_prefix(prefix->data, &encoder->fragments, thread) - prefix->data);
	}
	return put_bytes(p, prefix->data, prefix->len);
}

/* ---- how it ended ---- */

#define STATUS(text)                                                               \
	{                                                                          \
		",\"status\":\"" text "\"", sizeof(",\"status\":\"" text "\"") - 1 \
	}

static const struct {
	char text[28];
	unsigned len;
} statuses[] = {
	[CALL_OK] = STATUS("ok"),
	[CALL_ERROR] = STATUS("error"),
	[CALL_NOT_READY] = STATUS("not_ready"),
	[CALL_UNFINISHED] = STATUS("unfinished"),
};

/* As an unknown enumerator: a status that the table does not have. */
static char *put_unknown_error(char *p, const struct call *call)
{
	if (call->row->api == TABLE_RUNTIME)
		p = PUT_LITERAL(p, ",\"error\":\"cudaError_t(");
	else
		p = PUT_LITERAL(p, ",\"error\":\"CUresult(");
	p = put_i64(p, call->ret);
	return PUT_LITERAL(p, ")\"");
}

static char *put_result(char *p, const struct fragments *f, const struct call *call)
{
	const struct table_error *errors = table_errors[call->row->api];

	if (call->row->ret == TABLE_RET_STATUS && call->status != CALL_UNFINISHED) {
		p = PUT_LITERAL(p, ",\"ret\":");
		p = put_i64(p, call->ret);
	}
	memcpy(p, statuses[call->status].text, sizeof(statuses[0].text));
	p += statuses[call->status].len;
	if (call->error)
		p = put_fragment(p, f->text, f->errors[call->row->api][call->error - errors]);
	else if (call->status == CALL_ERROR)
		p = put_unknown_error(p, call);
	return p;
}

/* ---- normalised keys ---- */

static char *put_dim(char *p, const uint32_t dim[3])
{
	*p++ = '[';
	p = put_u64(p, dim[0]);
	*p++ = ',';
	p = put_u64(p, dim[1]);
	*p++ = ',';
	p = put_u64(p, dim[2]);
	*p++ = ']';
	return p;
}

static char *put_bytes_key(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"bytes\":");
	return put_i64(p, keys->bytes);
}

static char *put_direction(char *p, const struct call_keys *keys)
{
	static const char names[][8] = {
		[TABLE_H2H] = "h2h", [TABLE_H2D] = "h2d",         [TABLE_D2H] = "d2h",
		[TABLE_D2D] = "d2d", [TABLE_DEFAULT] = "default", [TABLE_P2P] = "p2p",
	};

	p = PUT_LITERAL(p, ",\"direction\":\"");
	memcpy(p, names[keys->direction], 8);
	p += keys->direction == TABLE_DEFAULT ? 7 : 3;
	*p++ = '"';
	return p;
}

static char *put_device(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"device\":");
	return put_i64(p, keys->device);
}

static char *put_stream(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"stream\":");
	return put_hex(p, keys->stream);
}

static char *put_kernel_handle(char *p, const struct call_keys *keys)
{
	if (keys->kernel) {
		p = PUT_LITERAL(p, ",\"kernel\":\"");
		p = put_bytes(p, keys->kernel, keys->kernel_len);
		*p++ = '"';
	}
	p = PUT_LITERAL(p, ",\"kernel_handle\":");
	return put_hex(p, keys->kernel_handle);
}

static char *put_grid(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"grid\":");
	return put_dim(p, keys->grid);
}

static char *put_block(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"block\":");
	return put_dim(p, keys->block);
}

static char *put_shared_bytes(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"shared_bytes\":");
	return put_u64(p, keys->shared_bytes <= INT64_MAX ? keys->shared_bytes : INT64_MAX);
}

static char *put_ptr(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"ptr\":");
	return put_hex(p, keys->ptr);
}

static char *put_src_ptr(char *p, const struct call_keys *keys)
{
	p = PUT_LITERAL(p, ",\"src_ptr\":");
	return put_hex(p, keys->src_ptr);
}

/* in the order of the line, which is that of the table's ids */
static char *(*const key_writers[TABLE_NKEYS])(char *p, const struct call_keys *keys) = {
	[TABLE_KEY_BYTES] = put_bytes_key,
	[TABLE_KEY_DIRECTION] = put_direction,
	[TABLE_KEY_DEVICE] = put_device,
	[TABLE_KEY_STREAM] = put_stream,
	[TABLE_KEY_KERNEL_HANDLE] = put_kernel_handle,
	[TABLE_KEY_GRID] = put_grid,
	[TABLE_KEY_BLOCK] = put_block,
	[TABLE_KEY_SHARED_BYTES] = put_shared_bytes,
	[TABLE_KEY_PTR] = put_ptr,
	[TABLE_KEY_SRC_PTR] = put_src_ptr,
};

static char *put_keys(char *p, const struct call_keys *keys)
{
	uint32_t present = keys->present & ((1u << TABLE_NKEYS) - 1);

	for (; present; present &= present - 1)
		p = key_writers[__builtin_ctz(present)](p, keys);
	return p;
}

/* ---- args and out ---- */

/* A value that was read, or that is no scalar. Returns whether it was there to be written. */
static bool write_read(struct writer *w, const struct param_fragments *text, const struct call_value *value,
		       bool array)
{
	char *start = w->p, *after_key = put_fragment(w->p, w->f->text, text->key);

	w->cut = false;
	w->p = after_key;
	write_value(w, value, array);
	if (w->p == after_key)
		w->p = start;
	if (w->cut)
		w->p = put_fragment(w->p, w->f->text, text->cut);
	return w->p != start;
}

static void write_passed(struct writer *w, const struct param_fragments *text, const struct call_value *value)
{
	const struct table_type *type = &table_types[value->type];

	if (value->len < type->size || !values_scalar_max(w->f, type)) {
		write_read(w, text, value, false);
		return;
	}
	w->p = put_fragment(w->p, w->f->text, text->key);
	w->p = put_scalar(w->p, w->f, type, value->data);
}

/* Begins an object whose members each bring a comma in front: the first one becomes the brace. */
static void close_object(struct writer *w, char *start, char *members)
{
	if (w->p == members) {
		w->p = start;
		return;
	}
	*members = '{';
	*w->p++ = '}';
}

static void write_args(struct writer *w, const struct call *call)
{
	const struct table_param *param = &table_params[call->row->param];
	const struct param_fragments *text = &w->f->params[call->row->param];
	char *start = w->p, *members = PUT_LITERAL(w->p, ",\"args\":");

	w->p = members;
	for (unsigned i = 0; i < call->row->nparams && i < DECODE_MAX_PARAMS; i++) {
		/* a pointee takes the place of its address */
		if (param[i].deref == TABLE_IN && call->in[i].data &&
		    write_read(w, &text[i], &call->in[i], param[i].count != TABLE_NONE))
			continue;
		if (call->arg[i].data)
			write_passed(w, &text[i], &call->arg[i]);
	}
	close_object(w, start, members);
}

/* What functions return that return no status. */
static void write_return(struct writer *w, const struct call *call)
{
	const struct table_type *type = &table_types[call->row->ret_type];
	const struct table_row *row = call->row;
	char *start = w->p;

	w->cut = false;
	w->p = PUT_LITERAL(w->p, ",\"return\":");
	if (call->ret_string.data)
		write_value(w, &call->ret_string, false);
	else if ((row->ret == TABLE_RET_POINTER || row->ret == TABLE_RET_VALUE) &&
		 call->status != CALL_UNFINISHED && type->kind != TABLE_FLOAT && type->kind != TABLE_DIM3 &&
		 values_scalar_max(w->f, type))
		w->p = put_scalar(w->p, w->f, type, &call->rec->ret);
	if (w->p == start + sizeof(",\"return\":") - 1)
		w->p = start;
	if (w->cut)
		w->p = PUT_LITERAL(w->p, ",\"return_cut\":true");
}

static void write_out(struct writer *w, const struct call *call)
{
	const struct table_param *param = &table_params[call->row->param];
	const struct param_fragments *text = &w->f->params[call->row->param];
	char *start = w->p, *members = PUT_LITERAL(w->p, ",\"out\":");

	w->p = members;
	for (unsigned i = 0; i < call->row->nparams && i < DECODE_MAX_PARAMS; i++)
		if (param[i].deref == TABLE_OUT && call->out[i].data)
			write_read(w, &text[i], &call->out[i], param[i].count != TABLE_NONE);
	if (call->row->ret != TABLE_RET_STATUS)
		write_return(w, call);
	close_object(w, start, members);
}

/* ---- the line ---- */

static char *put_nesting(char *p, const struct fragments *f, const struct rec_call *rec)
{
	unsigned parent = rec->parent_cookie & 0xffff;

	p = PUT_LITERAL(p, ",\"depth\":");
	p = put_u64(p, rec->depth);
	if (rec->depth && parent < table_nrows)
		p = put_fragment(p, f->text, f->rows[parent].parent);
	return p;
}

static uint64_t duration(const struct rec_call *rec)
{
	uint64_t ns = rec->end_ns - rec->start_ns;

	if (rec->end_ns < rec->start_ns)
		return 0;
	return ns <= INT64_MAX ? ns : INT64_MAX;
}

static char *put_head(char *p, struct encoder *encoder, const struct call *call, struct thread *thread,
		      uint64_t seq, int64_t ts_ns)
{
	const struct fragments *f = &encoder->fragments;
	const struct rec_call *rec = call->rec;

	p = put_fragment(p, f->text, f->start);
	p = put_u64(p, seq);
	p = PUT_LITERAL(p, ",\"ts\":\"");
	p = put_timestamp(p, &encoder->clock, ts_ns);
	*p++ = '"';
	p = put_thread(p, encoder, thread);
	p = put_fragment(p, f->text, f->rows[call->row_id].head);
	if (encoder->nested)
		p = put_nesting(p, f, rec);
	p = PUT_LITERAL(p, ",\"duration_ns\":");
	p = put_u64(p, duration(rec));
	p = put_result(p, f, call);
	return put_keys(p, &call->keys);
}

static size_t json_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
			int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const struct fragments *f = &encoder->fragments;
	char *p = put_head(out, encoder, call, thread, seq, ts_ns);
	size_t reserved = f->rows[call->row_id].reserve + f->tail.len + CLOSING + PUT_SLACK;
	struct writer w = {.p = p, .limit = out + ENCODE_MAX_LINE - reserved, .f = f};

	if (encoder->args) {
		write_args(&w, call);
		write_out(&w, call);
	}
	*ret_meta = (struct line_meta){
		.seq = seq,
		.ts_ns = ts_ns,
		.pid = thread->pid,
		.tid = thread->tid,
		.row = (uint16_t)call->row_id,
		.status = (uint8_t)call->status,
		.type = EVENT_CALL,
		.args_off = (uint32_t)(p - out),
		.args_len = (uint32_t)(w.p - p),
	};
	return (size_t)(put_fragment(w.p, f->text, f->tail) - out);
}

const struct encode_format encode_format_json = {
	.name = "json",
	.call = json_call,
	.event = encode_json_event,
};
