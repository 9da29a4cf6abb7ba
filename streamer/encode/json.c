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
#include <string.h>

#include "format.h"
#include "keys.h"

/* ---- fragments ---- */

/* Keys whose text stands between quotes. */
#define QUOTED                                                                                          \
	(FIELD_BIT(FIELD_TS) | FIELD_BIT(FIELD_COMM) | FIELD_BIT(FIELD_THREAD) | FIELD_BIT(FIELD_EXE) | \
	 FIELD_BIT(FIELD_CMDLINE) | FIELD_BIT(FIELD_CGROUP) | FIELD_BIT(FIELD_CONTAINER_ID) |           \
	 FIELD_BIT(FIELD_POD_UID) | FIELD_BIT(FIELD_ERROR) | FIELD_BIT(FIELD_DIRECTION) |               \
	 FIELD_BIT(FIELD_KERNEL) | FIELD_BIT(FIELD_KERNEL_MANGLED))

/* A key with a constant text. */
static void add_text(struct fragments *f, const struct encoder_options *options, enum encode_field field,
		     const char *value)
{
	if (fragments_wanted(f, field))
		FRAGMENT(f, ",\"", encode_renamed(options, encode_field_names[field]), "\":\"", value, "\"");
}

static void add_keys(struct fragments *f, const struct encoder_options *options)
{
	for (int field = 0; field < NFIELDS; field++) {
		const char *name = encode_renamed(options, encode_field_names[field]);
		bool quoted = QUOTED & FIELD_BIT(field);

		if (!fragments_wanted(f, field))
			continue;
		f->open[field] = FRAGMENT(f, ",\"", name, quoted ? "\":\"" : "\":");
		if (quoted)
			f->close[field] = FRAGMENT(f, "\"");
	}
}

static void add_row(struct fragments *f, const struct encoder_options *options, unsigned index)
{
	const struct table_row *row = &table_rows[index];
	struct row_fragments *made = &f->rows[index];
	size_t start = f->len;

	add_text(f, options, FIELD_API, fragments_api(row));
	add_text(f, options, FIELD_FAMILY, table_families[row->family].name);
	add_text(f, options, FIELD_FUNC, row->func);
	if (strcmp(row->symbol, row->func))
		add_text(f, options, FIELD_SYMBOL, row->symbol);
	made->first = fragments_since(f, start);
	start = f->len;
	add_text(f, options, FIELD_PARENT, row->func);
	made->parent = fragments_since(f, start);
}

static void add_results(struct fragments *f, const struct encoder_options *options)
{
	static const char *const names[] = {
		[CALL_OK] = "ok",
		[CALL_ERROR] = "error",
		[CALL_NOT_READY] = "not_ready",
		[CALL_UNFINISHED] = "unfinished",
	};
	size_t start;

	for (int i = CALL_OK; i <= CALL_UNFINISHED; i++) {
		start = f->len;
		add_text(f, options, FIELD_STATUS, names[i]);
		f->status[i].first = fragments_since(f, start);
	}
	for (int api = 0; api < TABLE_NAPIS; api++) {
		for (unsigned i = 0; i < table_nerrors[api]; i++) {
			start = f->len;
			add_text(f, options, FIELD_ERROR, table_errors[api][i].name);
			add_text(f, options, FIELD_ERROR_MESSAGE, table_errors[api][i].message);
			f->errors[api][i].first = fragments_since(f, start);
		}
	}
}

static void json_prepare(struct fragments *f, const struct encoder_options *options)
{
	size_t start;

	add_keys(f, options);
	fragments_add_env(f, options, ",\"", "\":\"", "\"");
	for (unsigned r = 0; r < table_nrows; r++)
		add_row(f, options, r);
	add_results(f, options);
	f->start = FRAGMENT(f, "{\"", encode_renamed(options, "type"), "\":\"call\",\"",
			    encode_renamed(options, "run"), "\":\"", options->run, "\",\"",
			    encode_renamed(options, "seq"), "\":");
	start = f->len;
	add_text(f, options, FIELD_HOST, options->host);
	f->who = fragments_since(f, start);
	start = f->len;
	for (size_t i = 0; i < options->nstatics; i++)
		FRAGMENT(f, ",\"", options->statics[i].name, "\":\"", options->statics[i].value, "\"");
	FRAGMENT(f, "}\n");
	f->tail = fragments_since(f, start);
}

/* ---- who made the call ---- */

static char *json_who(char *p, const struct encoder *encoder, const struct thread *thread)
{
	const struct fragments *f = &encoder->fragments;
	const struct process *process = thread->process;
	char *members;

	p = put_fragment(p, f->text, f->who);
	p = put_number(p, f, FIELD_PID, thread->pid);
	if (thread->ns_pid)
		p = put_number(p, f, FIELD_NS_PID, thread->ns_pid);
	p = put_number(p, f, FIELD_TID, thread->tid);
	p = put_name(p, f, FIELD_COMM, thread->comm);
	p = put_name(p, f, FIELD_THREAD, thread->thread);
	if (thread->start_ns) /* its record has come */
		p = put_number(p, f, FIELD_UID, thread->uid);
	if (!process)
		return p;
	p = put_prepared(p, f, FIELD_EXE, &process->exe);
	p = put_prepared(p, f, FIELD_CMDLINE, &process->cmdline);
	p = put_prepared(p, f, FIELD_CGROUP, &process->cgroup);
	p = put_name(p, f, FIELD_CONTAINER_ID, process->container_id);
	p = put_name(p, f, FIELD_POD_UID, process->pod_uid);
	members = put_fragment(p, f->text, f->open[FIELD_ENVIRON]);
	return put_object_end(put_environ(members, f, process), p, members);
}

/* ---- the line ---- */

static char *put_result(char *p, const struct fragments *f, const struct call *call)
{
	const struct table_error *errors = table_errors[call->row->api];

	if (call->row->ret == TABLE_RET_STATUS && call->status != CALL_UNFINISHED)
		p = put_signed(p, f, FIELD_RET, call->ret);
	p = put_fragment(p, f->text, f->status[call->status].first);
	if (call->error)
		return put_fragment(p, f->text, f->errors[call->row->api][call->error - errors].first);
	if (call->status != CALL_ERROR || !f->open[FIELD_ERROR].len)
		return p;
	p = put_fragment(p, f->text, f->open[FIELD_ERROR]);
	p = put_unknown_error(p, call);
	return put_fragment(p, f->text, f->close[FIELD_ERROR]);
}

static char *put_head(char *p, struct encoder *encoder, const struct call *call, struct thread *thread,
		      uint64_t seq, int64_t ts_ns)
{
	const struct thread_prefix *who = encode_who(encoder, thread);
	const struct fragments *f = &encoder->fragments;

	p = put_fragment(p, f->text, f->start);
	p = put_u64(p, seq);
	p = put_fragment(p, f->text, f->open[FIELD_TS]);
	p = put_timestamp(p, &encoder->clock, ts_ns);
	*p++ = '"';
	p = put_bytes(p, who->data, who->len);
	p = put_fragment(p, f->text, f->rows[call->row_id].first);
	if (encoder->nested)
		p = put_nesting(p, f, call->rec);
	p = put_weight(p, f, call->rec);
	p = put_number(p, f, FIELD_DURATION_NS, encode_duration(call->rec));
	p = put_result(p, f, call);
	return put_keys(p, f, call);
}

static size_t json_call(struct encoder *encoder, const struct call *call, struct thread *thread, uint64_t seq,
			int64_t ts_ns, char *out, struct line_meta *ret_meta)
{
	const struct fragments *f = &encoder->fragments;
	char *p = put_head(out, encoder, call, thread, seq, ts_ns), *args = p;

	if (encoder->args)
		p = write_arguments(f, call, p, out + ENCODE_MAX_LINE - f->tail.len);
	*ret_meta = encode_meta(call, thread, seq, ts_ns);
	ret_meta->args_off = (uint32_t)(args - out);
	ret_meta->args_len = (uint32_t)(p - args);
	return (size_t)(put_fragment(p, f->text, f->tail) - out);
}

const struct encode_format encode_format_json = {
	.name = "json",
	.dialect = &dialect_json,
	.renames = true,
	.prepare = json_prepare,
	.who = json_who,
	.call = json_call,
	.event = encode_json_event,
};
